//! Any octets of a client of dns64d's control socket and of the page of metrics: each conversation ends with
//! at most one answer, which is what the first line or the head of the request asks for.
//!
//! An input is a conversation, which both get.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use daemon::control::{Command, ControlSocket, Reply, Request};
use sys::metrics_page::MetricsServer;
use tempfile::TempDir;

/// Nothing here takes so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than the longest line and the longest head, in octets.
const OCTETS_MAX: usize = 16 << 10;
const PAGE: &str = "# EOF\n";

struct Servers {
    _directory: TempDir,
    _socket: ControlSocket,
    path: PathBuf,
    metrics: MetricsServer,
}

static SERVERS: LazyLock<Servers> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("control");
    let socket = ControlSocket::open(&path, None, |request| Ok(reply(request))).expect("a socket");
    let metrics =
        MetricsServer::start("127.0.0.1:0".parse().expect("an address"), || (), || Some(PAGE.into()));
    Servers { _directory: directory, _socket: socket, path, metrics: metrics.expect("a port") }
});

/// Says what was understood.
fn reply(request: &Request) -> Reply {
    Reply::Words(format!("{:?}", request.command))
}

/// Says it to both.
pub fn run(input: &[u8]) {
    if input.len() <= OCTETS_MAX {
        command(input);
        page(input);
    }
}

fn command(input: &[u8]) {
    let mut stream = UnixStream::connect(&SERVERS.path).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    // The server may have its line, and have gone, before all is written.
    let _ = stream.write_all(input).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = String::new();
    if let Err(error) = stream.read_to_string(&mut answer) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        return;
    }
    let line = input.split(|&octet| octet == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let expected = match Request::parse(&line) {
        _ if answer.is_empty() => {
            return assert!(line.is_empty() || line.len() > 1024, "no answer to {line:?}");
        }
        Ok(request) if request.json => format!("ok\n{}", reply(&request).json()),
        Ok(request) => format!("ok\n{}", reply(&request).text()),
        Err(reason) => {
            assert!(!reason.contains('\n'), "{reason:?}");
            format!("error\n{reason}\n")
        }
    };
    assert_eq!(answer, expected);
    if let Ok(Request { command: Command::Reload | Command::Flush(_), .. }) = Request::parse(&line) {
        assert!(line.contains("reload") || line.contains("flush"), "{line:?}");
    }
}

fn page(input: &[u8]) {
    let mut stream = TcpStream::connect(SERVERS.metrics.address()).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    let _ = stream.write_all(input).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = String::new();
    if let Err(error) = stream.read_to_string(&mut answer) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        return;
    }
    if answer.is_empty() {
        // The head was not whole.
        let is_head = input.starts_with(b"GET /metrics HTTP/1.1\r\n\r\n");
        return assert!(!is_head && input.len() < 8192, "no answer to a request");
    }
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).expect("a status");
    let octets = lines.find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
    let octets: usize = octets.parse().expect("a number");
    // Empty lines before a request are skipped (RFC 9112 2.2).
    let request = input.trim_ascii_start();
    if request.starts_with(b"HEAD ") {
        assert!(body.is_empty() || body.len() == octets);
    } else {
        assert_eq!(body.len(), octets);
    }
    match &status[..3] {
        "200" => {
            let asks = [&b"GET /metrics"[..], b"HEAD /metrics"].iter().any(|head| request.starts_with(head));
            assert!(asks && octets == PAGE.len(), "{answer:?}");
        }
        "400" | "404" | "405" => assert_ne!(body, PAGE),
        other => panic!("status {other}"),
    }
}
