//! A very small HTTP server for one page, in a thread of its own.
//!
//! It answers one connection at a time and gives each two seconds; the kernel's queue holds the next ones.
//! Whatever comes costs no more than that, and the threads that answer or send queries never meet it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The page.
const PATH: &str = "/metrics";
/// OpenMetrics 1.0, as text.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(2);
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
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let work = move || {
            prepare();
            serve(&listener, &told, &page);
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

fn serve(listener: &TcpListener, stop: &AtomicBool, page: &dyn Fn() -> Option<String>) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            // A client that goes away is no affair of ours.
            Ok((stream, _)) => drop(converse(stream, page)),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn converse(mut stream: TcpStream, page: &dyn Fn() -> Option<String>) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let (status, body) = loop {
        if let Some(answer) = reply(&head, page) {
            break answer;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() >= HEAD_OCTETS {
            break ("400 Bad Request", None);
        }
        stream.set_read_timeout(Some(left))?;
        let mut octets = [0; 1024];
        match stream.read(&mut octets)? {
            0 => return Ok(()),
            length => head.extend_from_slice(&octets[..length]),
        }
    };
    let kind = if body.is_some() { CONTENT_TYPE } else { "text/plain; charset=utf-8" };
    let text = body.unwrap_or_else(|| format!("{status}: see {PATH}\n"));
    let shown = if head.starts_with(b"HEAD ") { "" } else { &text };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{shown}",
        text.len(),
    )
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
