//! The real dns64d from outside: sockets, signals, exit codes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../crates/dns64/tests/support/mod.rs"]
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use dns64::wire::{Header, Message, rtype};
use support::{lines, query, reply};

const AAAA: &str = "www.example.com AAAA";
const SYNTHESIZED: &str = "an www.example.com 60 AAAA 2001:db8:64::c000:201";
const PATIENCE: Duration = Duration::from_secs(20);

/// An upstream server on UDP and TCP, in threads that end with the test program. Names under `big.` are truncated over
/// UDP; `silent.` is not answered; other names have one A record and no AAAA.
fn upstream(address: &str) -> SocketAddr {
    let (udp, tcp) = loop {
        let udp = UdpSocket::bind(address).unwrap();
        match TcpListener::bind(udp.local_addr().unwrap()) {
            Ok(tcp) => break (udp, tcp),
            Err(_) => continue,
        }
    };
    let address = udp.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = udp.recv_from(&mut buffer) {
            if let Some(answer) = respond(&buffer[..length], true) {
                let _ = udp.send_to(&answer, from);
            }
        }
    });
    std::thread::spawn(move || {
        for mut stream in tcp.incoming().map_while(Result::ok) {
            if let Some(answer) = respond(&read_frame(&mut stream), false) {
                write_frame(&mut stream, &answer);
            }
        }
    });
    address
}

fn respond(query: &[u8], udp: bool) -> Option<Vec<u8>> {
    let message = Message::parse(query).ok()?;
    let question = message.question;
    let name = question.name.to_string();
    let words = format!("{name} TYPE{}", question.qtype);
    let record = format!("an {} 60 A 192.0.2.1", name.trim_end_matches('.'));
    let records: &[&str] = if question.qtype == rtype::A { &[&record] } else { &[] };
    let mut answer =
        reply(message.header.id, &words, 0, if udp && name.starts_with("big.") { &[] } else { records });
    if udp && name.starts_with("big.") {
        answer[2] |= (Header::TC >> 8) as u8;
    }
    (!name.starts_with("silent.")).then_some(answer)
}

fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut message = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut message).unwrap();
    message
}

fn write_frame(stream: &mut TcpStream, message: &[u8]) {
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length[..], message].concat()).unwrap();
}

/// A configuration file that goes with the test.
struct File {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn config(text: &str) -> File {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dns64d.toml");
    std::fs::write(&path, text).unwrap();
    File { _directory: directory, path }
}

fn dns64d(file: &File) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dns64d"));
    command
        .arg("--config")
        .arg(&file.path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    net::process::die_with_parent(&mut command);
    command
}

/// A dns64d that runs; it is killed with the test.
struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    addresses: Vec<SocketAddr>,
    ready: String,
    _file: File,
}

impl Running {
    fn start(text: &str) -> Self {
        let file = config(text);
        let mut child = dns64d(&file).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let ready = ready_line(&mut stderr);
        let list = ready.split_once("message=\"ready on ").and_then(|(_, rest)| rest.split(" (").next());
        let addresses =
            list.unwrap_or_else(|| panic!("{ready}")).split(", ").map(|a| a.parse().unwrap()).collect();
        Self { child, stderr, addresses, ready, _file: file }
    }

    /// A server on one address with one scripted upstream server on the other.
    fn between(listen: &str, upstream_address: &str) -> Self {
        let upstream = upstream(upstream_address);
        Self::start(&format!(
            "listen = ['{listen}']\nupstreams = ['{upstream}']\nprefixes = ['2001:db8:64::/96']\nthreads = 2\n"
        ))
    }

    /// Ends it with a signal; returns its exit code and its last words.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let status = self.child.wait().unwrap();
        let mut words = String::new();
        self.stderr.read_to_string(&mut words).unwrap();
        (status.code(), words)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The line of the log that says where the server answers; warnings and what was given up come before it.
fn ready_line(stderr: &mut BufReader<ChildStderr>) -> String {
    let mut lines = stderr.lines().map_while(Result::ok);
    lines.find(|line| line.contains(" event=ready ")).expect("a server that is ready")
}

fn exchange_udp(server: SocketAddr, message: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind((if server.is_ipv4() { "127.0.0.1" } else { "::1" }, 0)).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send(message).unwrap();
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).expect("an answer");
    buffer[..length].to_vec()
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn assert_synthesized(answer: &[u8], id: u16) {
    assert_eq!(Header::parse(answer).unwrap().id, id);
    assert_eq!(lines(answer), [SYNTHESIZED]);
}

#[test]
fn answers_over_udp_and_tcp_on_both_families() {
    for (listen, upstream_address) in
        [("[::1]:0", "127.0.0.1:0"), ("127.0.0.1:0", "[::1]:0"), ("[::1]:0", "[::1]:0")]
    {
        let server = Running::between(listen, upstream_address);
        assert!(server.ready.contains("(2 threads, 1 upstream)"), "{}", server.ready);
        for id in 0..20 {
            assert_synthesized(&exchange_udp(server.addresses[0], &query(id, AAAA, None)), id);
        }
        let mut stream = connect(server.addresses[0]);
        write_frame(&mut stream, &query(77, AAAA, None));
        assert_synthesized(&read_frame(&mut stream), 77);
        let (code, words) = server.end("-TERM");
        assert_eq!(code, Some(0));
        assert!(words.contains("21 queries: 21 answered (21 synthesized), 0 failed"), "{words}");
    }
}

#[test]
fn wildcard_addresses_answer_from_the_address_asked() {
    let upstream = upstream("127.0.0.1:0");
    let server = Running::start(&format!(
        "listen = ['[::]:0', '0.0.0.0:0']\nupstreams = ['{upstream}']\nprefixes = ['2001:db8:64::/96']\nthreads = 1\n"
    ));
    // A connected socket takes answers from the address it asked alone.
    let v6 = SocketAddr::new("::1".parse().unwrap(), server.addresses[0].port());
    assert_synthesized(&exchange_udp(v6, &query(1, AAAA, None)), 1);
    for host in ["127.0.0.1", "127.0.0.2"] {
        let v4 = SocketAddr::new(host.parse().unwrap(), server.addresses[1].port());
        assert_synthesized(&exchange_udp(v4, &query(2, AAAA, None)), 2);
    }
}

#[test]
fn one_tcp_connection_carries_many_queries_in_any_pieces() {
    let server = Running::between("[::1]:0", "127.0.0.1:0");
    let mut stream = connect(server.addresses[0]);
    let mut octets = Vec::new();
    for id in 0..200u16 {
        let message = query(id, AAAA, None);
        octets.extend(u16::try_from(message.len()).unwrap().to_be_bytes());
        octets.extend(message);
    }
    for piece in octets.chunks(97) {
        stream.write_all(piece).unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut ids: Vec<u16> = (0..200)
        .map(|_| {
            let answer = read_frame(&mut stream);
            assert_eq!(lines(&answer), [SYNTHESIZED]);
            Header::parse(&answer).unwrap().id
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..200).collect::<Vec<u16>>());
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "closed after the last answer");
}

#[test]
fn a_truncated_upstream_answer_is_fetched_over_tcp() {
    let server = Running::between("[::1]:0", "127.0.0.1:0");
    let answer = exchange_udp(server.addresses[0], &query(5, "big.example.com AAAA", None));
    assert_eq!(lines(&answer), ["an big.example.com 60 AAAA 2001:db8:64::c000:201"]);
}

#[test]
fn upstream_servers_may_be_asked_over_tcp_alone() {
    let upstream = upstream("[::1]:0");
    let server = Running::start(&format!(
        "listen = ['[::1]:0']\nupstreams = ['tcp://{upstream}']\nprefixes = ['2001:db8:64::/96']\n"
    ));
    assert_synthesized(&exchange_udp(server.addresses[0], &query(6, AAAA, None)), 6);
}

#[test]
fn a_dead_upstream_server_is_passed_over() {
    let dead = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let alive = upstream("127.0.0.1:0");
    let server = Running::start(&format!(
        "listen = ['[::1]:0']\nupstreams = ['{dead}', '{alive}']\nprefixes = ['2001:db8:64::/96']\nthreads = 1\n"
    ));
    for id in 0..10 {
        assert_synthesized(&exchange_udp(server.addresses[0], &query(id, AAAA, None)), id);
    }
    let (code, words) = server.end("-INT");
    assert_eq!(code, Some(0));
    assert!(words.contains("10 answered"), "{words}");
}

#[test]
fn a_silent_upstream_server_ends_in_servfail() {
    let upstream = upstream("127.0.0.1:0");
    let server = Running::start(&format!(
        "listen = ['[::1]:0']\nupstreams = ['{upstream}']\n[upstream]\ntimeout_ms = 20\n"
    ));
    let answer = exchange_udp(server.addresses[0], &query(8, "silent.example.com AAAA", None));
    assert_eq!(Header::parse(&answer).unwrap().rcode(), 2);
}

#[test]
fn rubbish_does_not_stop_the_server() {
    let server = Running::between("[::1]:0", "127.0.0.1:0");
    let socket = UdpSocket::bind("[::1]:0").unwrap();
    for length in 0..200usize {
        let octets: Vec<u8> = (0..length).map(|at| (at * 31 + length * 17) as u8).collect();
        socket.send_to(&octets, server.addresses[0]).unwrap();
        let mut stream = connect(server.addresses[0]);
        let _ = stream.write_all(&octets);
    }
    assert_synthesized(&exchange_udp(server.addresses[0], &query(9, AAAA, None)), 9);
    assert_eq!(server.end("-TERM").0, Some(0));
}

#[test]
fn idle_tcp_connections_are_closed_and_their_number_is_limited() {
    let upstream = upstream("127.0.0.1:0");
    let server = Running::start(&format!(
        "listen = ['[::1]:0']\nupstreams = ['{upstream}']\nthreads = 1\n\
         [limits]\nconnections = 2\nidle_ms = 300\n"
    ));
    let mut first = connect(server.addresses[0]);
    let mut second = connect(server.addresses[0]);
    let mut third = connect(server.addresses[0]);
    assert!(matches!(third.read(&mut [0; 1]), Ok(0) | Err(_)), "beyond the limit");
    assert_eq!(first.read(&mut [0; 1]).unwrap(), 0, "idle");
    assert_eq!(second.read(&mut [0; 1]).unwrap(), 0, "idle");
    let mut again = connect(server.addresses[0]);
    write_frame(&mut again, &query(3, "www.example.com A", None));
    assert_eq!(lines(&read_frame(&mut again)), ["an www.example.com 60 A 192.0.2.1"]);
}

#[test]
fn a_tcp_client_that_was_refused_and_has_no_more_is_let_go() {
    let upstream = upstream("127.0.0.1:0");
    let server = Running::start(&format!(
        "listen = ['[::1]:0']\nupstreams = ['{upstream}']\n[limits]\nidle_ms = 3600000\n"
    ));
    let mut stream = connect(server.addresses[0]);
    write_frame(&mut stream, &query(4, "example.com TYPE252", None));
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(Header::parse(&read_frame(&mut stream)).unwrap().rcode(), 4, "no zone transfers");
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "closed after the only answer");
}

#[test]
fn nobody_who_reads_stderr_is_no_reason_to_panic() {
    let upstream = upstream("127.0.0.1:0");
    let file = config(&format!("listen = ['[::1]:0']\nupstreams = ['{upstream}']\nthreads = 1\n"));
    let mut child = dns64d(&file).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    ready_line(&mut stderr);
    drop(stderr);
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn finished(file: &File, arguments: &[&str]) -> Output {
    dns64d(file).args(arguments).output().unwrap()
}

#[test]
fn check_config_tells_good_from_bad() {
    let good = config("upstreams = ['192.0.2.1']\n[dns64]\nstrict_well_known = false\n");
    let output = finished(&good, &["--check-config"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().ends_with("dns64d.toml is good\n"));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("dns64d: warning: prefix 64:ff9b::/96"));

    let bad = config("upstreams = ['192.0.2.1']\n\nprefixes = ['2001:db8:0:0:100::/96']\n");
    for arguments in [&["--check-config"][..], &[]] {
        let output = finished(&bad, arguments);
        assert_eq!(output.status.code(), Some(2));
        let words = String::from_utf8(output.stderr).unwrap();
        let expected =
            "dns64d.toml:3: prefixes[0] '2001:db8:0:0:100::/96': bits 64 to 71 must be zero (RFC 6052 2.2)\n";
        assert!(words.ends_with(expected) && words.lines().count() == 1, "{words}");
    }
}

#[test]
fn bad_usage_and_missing_files_are_exit_code_2() {
    let none = File { path: "/nonexistent/dns64d.toml".into(), ..config("") };
    let output = finished(&none, &[]);
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        words,
        "dns64d: /nonexistent/dns64d.toml: cannot be read: No such file or directory (os error 2)\n"
    );
    assert_eq!(finished(&config(""), &["--nonsense"]).status.code(), Some(2));
}

#[test]
fn a_port_in_use_is_one_line_and_exit_code_3() {
    let udp = UdpSocket::bind("[::1]:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = Running::between("[::1]:0", "127.0.0.1:0");
    for taken in [udp.local_addr().unwrap(), tcp.local_addr().unwrap(), other.addresses[0]] {
        let output = finished(&config(&format!("listen = ['{taken}']\nupstreams = ['192.0.2.1']\n")), &[]);
        assert_eq!(output.status.code(), Some(3));
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            words,
            format!(
                "dns64d: cannot listen on {taken}: the port is in use by another program; stop it or choose another\n"
            )
        );
    }
}

#[test]
fn a_processor_that_is_not_there_is_one_line_and_exit_code_3() {
    let file = config("listen = ['[::1]:0']\nupstreams = ['192.0.2.1']\ncpus = [1023]\n");
    let output = finished(&file, &[]);
    assert_eq!(output.status.code(), Some(3));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(
        words.starts_with("dns64d: processor 1023 of cpus may not be used; this process has ["),
        "{words}"
    );
    assert_eq!(words.lines().count(), 1);
}

#[test]
fn too_many_sockets_say_what_to_lower() {
    let file = config(
        "listen = ['[::1]:0']\nupstreams = ['127.0.0.1:5399']\nthreads = 2\n[upstream]\nports = 1000\n",
    );
    let script =
        format!("ulimit -n 200; exec {} --config {}", env!("CARGO_BIN_EXE_dns64d"), file.path.display());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("lower threads or upstream.ports") && words.lines().count() == 1, "{words}");
}
