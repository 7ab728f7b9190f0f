//! A very small HTTP server for one page, in a thread of its own.
//!
//! The server holds a bounded number of connections, each for two seconds at most; a further connection ends
//! the oldest. No client can cost more, and the server never delays the threads that answer or send queries.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::poll::{Events, Interest, Poller};

/// The page.
const PATH: &str = "/metrics";
/// OpenMetrics 1.0, as text.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections at once.
const CONNECTIONS: usize = 64;
/// The longest head of a request, in octets.
const HEAD_OCTETS: usize = 8192;
/// The most header fields of a request.
const FIELDS: usize = 64;
/// How long the thread waits when no connection can be taken, too many open files for example.
const PAUSE: Duration = Duration::from_millis(100);

/// The server; dropping it ends it.
pub struct MetricsServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Serves at an address (port 0: a free one). `prepare` runs first in its thread. `page` makes the text;
    /// `None` means that it cannot now.
    ///
    /// # Errors
    /// The address cannot be used; the message names it.
    pub fn start(
        listen: SocketAddr,
        prepare: impl FnOnce() + Send + 'static,
        page: impl Fn() -> Option<String> + Send + 'static,
    ) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {listen}: {error}"));
        let listener = TcpListener::bind(listen).map_err(named)?;
        let address = listener.local_addr().map_err(named)?;
        let mut connections = Connections::new(listener).map_err(named)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let work = move || {
            prepare();
            while !told.load(Ordering::Relaxed) {
                connections.serve(&page);
            }
        };
        let thread = std::thread::Builder::new().name("openmetrics".into()).spawn(work).map_err(named)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes it; where that fails, it is not waited for.
        let woken = TcpStream::connect_timeout(&reachable(self.address), PATIENCE);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// An address that reaches a listener, which may listen on all.
fn reachable(mut listen: SocketAddr) -> SocketAddr {
    match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => listen.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => listen.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    listen
}

/// The listener and its connections, the oldest first.
struct Connections {
    poller: Poller,
    events: Events,
    listener: TcpListener,
    open: VecDeque<Connection>,
    next_token: u64,
}

/// What the poller calls the listener; connections have other numbers.
const LISTENER: u64 = 0;

impl Connections {
    fn new(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER, Interest::Read)?;
        let events = Events::with_capacity(CONNECTIONS);
        Ok(Self { poller, events, listener, open: VecDeque::new(), next_token: LISTENER + 1 })
    }

    /// Waits until something happens, and sees to it.
    fn serve(&mut self, page: &dyn Fn() -> Option<String>) {
        let left = self.open.front().map(|oldest| oldest.until.saturating_duration_since(Instant::now()));
        if self.poller.wait(&mut self.events, left).is_err() {
            return std::thread::sleep(PAUSE);
        }
        let ready: Vec<u64> = self.events.iter().map(|event| event.token).collect();
        for token in ready {
            if token == LISTENER {
                self.accept();
            } else if let Some(index) = self.open.iter().position(|known| known.token == token) {
                // A client that goes away is no affair of ours.
                if !self.open[index].go_on(&self.poller, page).unwrap_or(false) {
                    self.open.remove(index);
                }
            }
        }
        let now = Instant::now();
        while self.open.front().is_some_and(|oldest| oldest.until <= now) {
            self.open.pop_front();
        }
    }

    fn accept(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else { return std::thread::sleep(PAUSE) };
        let token = self.next_token;
        self.next_token += 1;
        if self.open.len() >= CONNECTIONS {
            self.open.pop_front();
        }
        let begun = stream
            .set_nonblocking(true)
            .and_then(|()| stream.set_nodelay(true))
            .and_then(|()| self.poller.add(&stream, token, Interest::Read));
        if begun.is_ok() {
            let until = Instant::now() + PATIENCE;
            self.open.push_back(Connection { token, stream, until, head: Vec::new(), answer: None });
        }
    }
}

/// A connection: the head of the request, as far as it has come, and then what is left of the answer.
struct Connection {
    token: u64,
    stream: TcpStream,
    until: Instant,
    head: Vec<u8>,
    answer: Option<io::Cursor<Vec<u8>>>,
}

impl Connection {
    /// Reads and writes what can be read and written now; false when all is done.
    fn go_on(&mut self, poller: &Poller, page: &dyn Fn() -> Option<String>) -> io::Result<bool> {
        while self.answer.is_none() {
            let mut octets = [0; 1024];
            match self.stream.read(&mut octets) {
                Ok(0) => return Ok(false),
                Ok(length) => self.head.extend_from_slice(&octets[..length]),
                Err(error) => return is_for_later(&error).then_some(true).ok_or(error),
            }
            let too_long = || (self.head.len() >= HEAD_OCTETS).then_some(("400 Bad Request", None));
            if let Some((status, body)) = reply(&self.head, page).or_else(too_long) {
                self.answer = Some(io::Cursor::new(response(&self.head, status, body)));
                poller.modify(&self.stream, self.token, Interest::Write)?;
            }
        }
        while let Some(answer) = &mut self.answer {
            let rest = answer.get_ref().get(answer.position() as usize..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(false);
            }
            match self.stream.write(rest) {
                Ok(length) => answer.set_position(answer.position() + length as u64),
                Err(error) => return is_for_later(&error).then_some(true).ok_or(error),
            }
        }
        Ok(true)
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The answer to a request with this head.
fn response(head: &[u8], status: &str, body: Option<String>) -> Vec<u8> {
    let kind = if body.is_some() { CONTENT_TYPE } else { "text/plain; charset=utf-8" };
    let text = body.unwrap_or_else(|| format!("{status}: see {PATH}\n"));
    let shown = if head.starts_with(b"HEAD ") { "" } else { &text };
    let octets = text.len();
    let fields = format!("Content-Type: {kind}\r\nContent-Length: {octets}\r\nConnection: close");
    format!("HTTP/1.1 {status}\r\n{fields}\r\n\r\n{shown}").into_bytes()
}

/// Status and page for what has come so far; `None` while the head is not whole.
fn reply(head: &[u8], page: &dyn Fn() -> Option<String>) -> Option<(&'static str, Option<String>)> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => None,
        Err(_) => Some(("400 Bad Request", None)),
        Ok(httparse::Status::Complete(_)) => {
            let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
            Some(match request.method {
                Some("GET" | "HEAD") if path == PATH => {
                    page().map_or(("503 Service Unavailable", None), |text| ("200 OK", Some(text)))
                }
                Some("GET" | "HEAD") => ("404 Not Found", None),
                _ => ("405 Method Not Allowed", None),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn the_page_is_served_and_nothing_else() {
        let server =
            MetricsServer::start("[::]:0".parse().unwrap(), || (), || Some("page\n".into())).unwrap();
        let at = reachable(server.address());
        let answer = ask(at, b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\npage\n"), "{answer}");
        assert!(answer.contains("application/openmetrics-text; version=1.0.0; charset=utf-8"));
        let head = ask(at, b"HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.ends_with("Content-Length: 5\r\nConnection: close\r\n\r\n"), "{head}");
        assert!(ask(at, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(at, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask(at, b"\0\0\r\n").starts_with("HTTP/1.1 400"));
        assert!(ask(at, &[b'a'; HEAD_OCTETS]).starts_with("HTTP/1.1 400"));
        // Clients that say nothing do not keep others out for ever.
        let silent = TcpStream::connect(at).unwrap();
        assert!(ask(at, b"GET /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200"));
        drop(silent);
        let taken = MetricsServer::start(at, || (), || None).err().unwrap().to_string();
        assert!(taken.starts_with(&format!("cannot listen on {at}: ")), "{taken}");
    }

    /// Silent connections do not make a reader of the page wait for their end.
    #[test]
    fn attack_silent_connections_do_not_hold_up_the_page() {
        let page = || Some("page\n".repeat(100_000));
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap(), || (), page).unwrap();
        let silent = [(); CONNECTIONS / 2].map(|()| TcpStream::connect(server.address()).unwrap());
        let deaf = [(); CONNECTIONS / 4].map(|()| {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
            stream
        });
        let answer = ask(server.address(), b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.len() > 500_000, "{}", answer.len());
        for mut stream in silent {
            stream.set_nonblocking(true).unwrap();
            let error = stream.read(&mut [0; 1]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "the page came while this one was heard");
        }
        drop(deaf);
    }

    #[test]
    fn one_more_connection_ends_the_oldest() {
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap(), || (), || None).unwrap();
        let mut oldest = TcpStream::connect(server.address()).unwrap();
        let mut others = [(); CONNECTIONS].map(|()| TcpStream::connect(server.address()).unwrap());
        assert_eq!(oldest.read(&mut [0; 1]).unwrap(), 0);
        others[0].set_nonblocking(true).unwrap();
        assert_eq!(others[0].read(&mut [0; 1]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_page_that_cannot_be_made_is_an_error_of_the_server() {
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap(), || (), || None).unwrap();
        assert!(ask(server.address(), b"GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503"));
    }

    proptest! {
        #[test]
        fn any_request_is_taken(octets in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some((status, _)) = reply(&octets, &|| None) {
                prop_assert!(status.len() > 3);
            }
        }
    }
}
