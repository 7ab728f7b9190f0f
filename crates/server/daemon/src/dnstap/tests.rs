use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// A query for `example. AAAA`.
const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\0\0\x1c\0\x01";

fn event(kind: Kind) -> Event<'static> {
    Event {
        kind,
        protocol: Protocol::Udp,
        query_address: Some("[::ffff:192.0.2.7]:4000".parse().unwrap()),
        response_address: Some("192.0.2.1:53".parse().unwrap()),
        query_time_ns: Some(1_700_000_000_123_456_789),
        response_time_ns: Some(1_700_000_000_223_456_789),
        message: QUERY,
    }
}

fn choice(socket: &Path) -> DnstapChoice {
    DnstapChoice { socket: socket.into(), clients: true, upstreams: false, identity: "here".into() }
}

/// Ends the program with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "waited for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn other_programs_read_the_records() {
    if !testing::has_program("fstrm_capture", "fstrm-bin")
        || !testing::has_program("dnstap-ldns", "dnstap-ldns")
    {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (socket, file) = (directory.path().join("tap"), directory.path().join("records"));
    // The receiver comes later than the recorder.
    let tap = Tap::start(&choice(&socket), Log::silent()).unwrap();
    let capture = Command::new("fstrm_capture")
        .args(["-t", "protobuf:dnstap.Dnstap", "-u"])
        .arg(&socket)
        .arg("-w")
        .arg(&file)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let capture = Running(capture);
    let mut recorded = 0;
    wait_until("the receiver", || {
        tap.record(&event(Kind::ClientQuery));
        recorded += 1;
        tap.counts().sent > 0
    });
    tap.record(&event(Kind::ClientResponse));
    tap.record(&event(Kind::ForwarderQuery));
    tap.finish();
    let counts = tap.counts();
    assert_eq!(counts.sent + counts.dropped, recorded + 1, "{counts:?}");
    sys::process::terminate(capture.0.id()).unwrap();
    let mut capture = capture;
    assert!(capture.0.wait().unwrap().success());
    let read = Command::new("dnstap-ldns").args(["-y", "-r"]).arg(&file).output().unwrap();
    let text = String::from_utf8(read.stdout).unwrap();
    for words in [
        "identity: \"here\"",
        "type: CLIENT_QUERY",
        "type: CLIENT_RESPONSE",
        "socket_family: INET\n",
        "socket_protocol: UDP",
        "query_address: \"192.0.2.7\"",
        "query_port: 4000",
        "response_port: 53",
        "2023-11-14 22:13:20.123456",
        "2023-11-14 22:13:20.223456",
        "example.",
    ] {
        assert!(text.contains(words), "{words} is missing in:\n{text}");
    }
    assert!(!text.contains("FORWARDER"), "{text}");
}

#[test]
fn a_missing_receiver_costs_records_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let tap = Tap::start(&choice(&directory.path().join("nobody")), Log::silent()).unwrap();
    let many = QUEUE_FRAMES as u64 * 3;
    for _ in 0..many {
        tap.record(&event(Kind::ClientQuery));
    }
    assert!(tap.counts().dropped >= many - 2 * QUEUE_FRAMES as u64);
    assert!(tap.inner.counters.queued_octets.load(Ordering::Relaxed) < QUEUE_OCTETS);
    tap.finish();
    tap.record(&event(Kind::ClientQuery));
}

#[test]
fn a_receiver_that_speaks_nonsense_is_left() {
    use std::io::{Read, Write};
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("tap");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let tap = Tap::start(&choice(&socket), Log::silent()).unwrap();
    for nonsense in [&b"HTTP/1.1 200 OK"[..], &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1]] {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(nonsense).unwrap();
        let mut octets = Vec::new();
        // It reads READY and then the end, or the reset of a connection with octets unread.
        let _ = stream.read_to_end(&mut octets);
        assert_eq!(octets.len(), 42);
    }
    assert_eq!(tap.counts().sent, 0);
}
