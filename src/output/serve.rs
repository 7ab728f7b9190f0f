//! A very small HTTP server for one page, in a thread of its own.
//!
//! It answers one connection at a time and gives each 2 s; the kernel's queue holds the next ones. Whatever comes, it costs
//! no more than that, and the Measurer's threads never meet it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
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

/// The server; dropping it ends it.
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves at an address (port 0: a free one), on the given processors if there are any.
    ///
    /// # Errors
    /// The address cannot be used; the message names it.
    pub fn start(
        listen: SocketAddr,
        cpus: Vec<usize>,
        page: impl Fn() -> String + Send + 'static,
    ) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {listen}: {error}"));
        let listener = TcpListener::bind(listen).map_err(named)?;
        let address = listener.local_addr().map_err(named)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let work = move || {
            if !cpus.is_empty() {
                // It runs anywhere then, and the Measurer's own checks will show if that disturbs it.
                let _ = net::cpu::restrict(&cpus);
            }
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

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes it.
        let _ = TcpStream::connect_timeout(&crate::campaign::reachable(self.address), PATIENCE);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, stop: &AtomicBool, page: &dyn Fn() -> String) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            // A client that goes away is no affair of ours.
            Ok((stream, _)) => drop(converse(stream, page)),
            // Too many open files, for example: it passes.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn converse(mut stream: TcpStream, page: &dyn Fn() -> String) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let (status, body) = loop {
        if let Some((status, body)) = reply(&head, page) {
            break (status, body);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() >= HEAD_OCTETS {
            break ("400 Bad Request", String::new());
        }
        stream.set_read_timeout(Some(left))?;
        let mut octets = [0; 1024];
        match stream.read(&mut octets)? {
            0 => return Ok(()),
            length => head.extend_from_slice(&octets[..length]),
        }
    };
    let is_page = status.starts_with("200");
    let kind = if is_page { CONTENT_TYPE } else { "text/plain; charset=utf-8" };
    let text = if body.is_empty() && !is_page { format!("{status}: see {PATH}\n") } else { body };
    let without_body = head.starts_with(b"HEAD ");
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
        text.len(),
        if without_body { "" } else { &text }
    )
}

/// Status and body for what has come so far; `None` while the head is not whole.
fn reply(head: &[u8], page: &dyn Fn() -> String) -> Option<(&'static str, String)> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => None,
        Err(_) => Some(("400 Bad Request", String::new())),
        Ok(httparse::Status::Complete(_)) => {
            let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
            Some(match request.method {
                Some("GET" | "HEAD") if path == PATH => ("200 OK", page()),
                Some("GET" | "HEAD") => ("404 Not Found", String::new()),
                _ => ("405 Method Not Allowed", String::new()),
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
        let server = Server::start("[::1]:0".parse().unwrap(), Vec::new(), || "page\n".into()).unwrap();
        let at = server.address();
        let answer = ask(at, b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\npage\n"), "{answer}");
        assert!(answer.contains("application/openmetrics-text; version=1.0.0; charset=utf-8"));
        assert!(
            ask(at, b"HEAD /metrics HTTP/1.1\r\n\r\n")
                .ends_with("Content-Length: 5\r\nConnection: close\r\n\r\n")
        );
        assert!(ask(at, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(at, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask(at, b"\0\0\r\n").starts_with("HTTP/1.1 400"));
        // Clients that say nothing do not keep others out for ever.
        let silent = [TcpStream::connect(at).unwrap(), TcpStream::connect(at).unwrap()];
        drop(silent);
        assert!(ask(at, b"GET /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 200"));
        let taken = Server::start(at, Vec::new(), String::new).err().unwrap().to_string();
        assert!(taken.starts_with(&format!("cannot listen on {at}: ")), "{taken}");
    }

    proptest! {
        #[test]
        fn any_request_is_taken(octets in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some((status, _)) = reply(&octets, &String::new) {
                prop_assert!(status.len() > 3);
            }
        }
    }
}
