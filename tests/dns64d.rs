//! The real dns64d from outside: sockets, signals, exit codes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::Command;

use dns64::wire::Header;
use support::client::{ask, connect};
use support::server::{File, Server, TERMINATE, config_text};
use support::upstream::Upstream;
use support::words::{lines, query};
use support::{read_frame, write_frame};

/// The signal of a terminal.
const INTERRUPT: i32 = 2;
const AAAA: &str = "www.example.com AAAA";
const SYNTHESIZED: &str = "an www.example.com 60 AAAA 2001:db8:64::c000:201";

/// An upstream server with an IPv4-only site; its answer for `big.` is truncated over UDP, for `silent.`
/// there is none.
fn upstream(address: &str) -> SocketAddr {
    let upstream = Upstream::at(address);
    upstream.says(AAAA, 0, &[]);
    upstream.says("www.example.com A", 0, &["an www.example.com 60 A 192.0.2.1"]);
    upstream.replies("big.example.com AAAA", |query| {
        if query.over_tcp { query.reply(0, &[]) } else { query.truncated() }
    });
    upstream.replies("big.example.com A", |query| match query.over_tcp {
        true => query.reply(0, &["an big.example.com 60 A 192.0.2.1"]),
        false => query.truncated(),
    });
    upstream.is_silent_on("silent.example.com AAAA");
    upstream.is_silent_on("silent.example.com A");
    upstream.address
}

/// A server on one address with one scripted upstream server on the other.
fn between(listen: &str, upstream_address: &str) -> Server {
    let upstream = upstream(upstream_address);
    Server::start(&config_text(&[upstream], &format!("listen = ['{listen}']\nthreads = 2")))
}

fn assert_synthesized(server: SocketAddr, id: u16) {
    ask(AAAA).numbered(id).over_udp(server).is(0, &[SYNTHESIZED]);
}

#[test]
fn answers_over_udp_and_tcp_on_both_families() {
    for (listen, upstream_address) in
        [("[::1]:0", "127.0.0.1:0"), ("127.0.0.1:0", "[::1]:0"), ("[::1]:0", "[::1]:0")]
    {
        let server = between(listen, upstream_address);
        assert!(server.ready_line().contains("(2 threads, 1 upstream)"), "{}", server.ready_line());
        for id in 0..20 {
            assert_synthesized(server.addresses[0], id);
        }
        let mut stream = connect(server.addresses[0]);
        write_frame(&mut stream, &query(77, AAAA, None));
        let answer = ask(AAAA).numbered(77).answered_by(read_frame(&mut stream).unwrap());
        answer.is(0, &[SYNTHESIZED]);
        let (code, words) = server.end(TERMINATE);
        assert_eq!(code, Some(0));
        assert!(words.contains("21 queries: 21 answered (21 synthesized), 0 failed"), "{words}");
    }
}

#[test]
fn wildcard_addresses_answer_from_the_address_asked() {
    let upstream = upstream("127.0.0.1:0");
    let server = Server::start(&format!(
        "listen = ['[::]:0', '0.0.0.0:0']\nupstreams = ['{upstream}']\nprefixes = ['2001:db8:64::/96']\nthreads = 1\n"
    ));
    // A connected socket takes answers from the address it asked alone.
    let v6 = SocketAddr::new("::1".parse().unwrap(), server.addresses[0].port());
    assert_synthesized(v6, 1);
    for host in ["127.0.0.1", "127.0.0.2"] {
        let v4 = SocketAddr::new(host.parse().unwrap(), server.addresses[1].port());
        assert_synthesized(v4, 2);
    }
}

#[test]
fn one_tcp_connection_carries_many_queries_in_any_pieces() {
    let server = between("[::1]:0", "127.0.0.1:0");
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
            let answer = read_frame(&mut stream).unwrap();
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
    let server = between("[::1]:0", "127.0.0.1:0");
    server.ask("big.example.com AAAA").is(0, &["an big.example.com 60 AAAA 2001:db8:64::c000:201"]);
}

#[test]
fn upstream_servers_may_be_asked_over_tcp_alone() {
    let upstream = upstream("[::1]:0");
    let server = Server::start(&format!(
        "listen = ['[::1]:0']\nupstreams = ['tcp://{upstream}']\nprefixes = ['2001:db8:64::/96']\n"
    ));
    assert_synthesized(server.addresses[0], 6);
}

#[test]
fn a_dead_upstream_server_is_passed_over() {
    let dead = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let alive = upstream("127.0.0.1:0");
    let server = Server::start(&format!(
        "listen = ['[::1]:0']\nupstreams = ['{dead}', '{alive}']\nprefixes = ['2001:db8:64::/96']\nthreads = 1\n"
    ));
    for id in 0..10 {
        assert_synthesized(server.addresses[0], id);
    }
    let (code, words) = server.end(INTERRUPT);
    assert_eq!(code, Some(0));
    assert!(words.contains("10 answered"), "{words}");
}

#[test]
fn a_silent_upstream_server_ends_in_servfail() {
    let upstream = upstream("127.0.0.1:0");
    let server = Server::start(&format!(
        "listen = ['[::1]:0']\nupstreams = ['{upstream}']\n[upstream]\ntimeout_ms = 200\n"
    ));
    assert_eq!(server.ask("silent.example.com AAAA").rcode(), 2);
}

#[test]
fn rubbish_does_not_stop_the_server() {
    let server = between("[::1]:0", "127.0.0.1:0");
    let socket = UdpSocket::bind("[::1]:0").unwrap();
    for length in 0..200usize {
        let octets: Vec<u8> = (0..length).map(|at| (at * 31 + length * 17) as u8).collect();
        socket.send_to(&octets, server.addresses[0]).unwrap();
        let mut stream = connect(server.addresses[0]);
        let _ = stream.write_all(&octets);
    }
    assert_synthesized(server.addresses[0], 9);
    assert_eq!(server.end(TERMINATE).0, Some(0));
}

#[test]
fn idle_tcp_connections_are_closed_and_the_oldest_makes_room() {
    let upstream = upstream("127.0.0.1:0");
    let server = Server::start(&format!(
        "listen = ['[::1]:0']\nupstreams = ['{upstream}']\nthreads = 1\nstream_threads = 1\n\
         [limits]\nconnections = 2\nidle_ms = 3000\n"
    ));
    let mut first = connect(server.addresses[0]);
    let mut second = connect(server.addresses[0]);
    let mut third = connect(server.addresses[0]);
    assert_eq!(first.read(&mut [0; 1]).unwrap(), 0, "one more than the limit");
    write_frame(&mut third, &query(3, "www.example.com A", None));
    assert!(read_frame(&mut third).is_some());
    assert_eq!(second.read(&mut [0; 1]).unwrap(), 0, "idle");
    assert_eq!(third.read(&mut [0; 1]).unwrap(), 0, "idle");
    let mut again = connect(server.addresses[0]);
    write_frame(&mut again, &query(3, "www.example.com A", None));
    assert_eq!(lines(&read_frame(&mut again).unwrap()), ["an www.example.com 60 A 192.0.2.1"]);
}

#[test]
fn a_tcp_client_that_was_refused_and_has_no_more_is_let_go() {
    let upstream = upstream("127.0.0.1:0");
    let server = Server::start(&format!(
        "listen = ['[::1]:0']\nupstreams = ['{upstream}']\n[limits]\nidle_ms = 3600000\n"
    ));
    let mut stream = connect(server.addresses[0]);
    write_frame(&mut stream, &query(4, "example.com TYPE252", None));
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(Header::parse(&read_frame(&mut stream).unwrap()).unwrap().rcode(), 4, "no zone transfers");
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "closed after the only answer");
}

#[test]
fn nobody_who_reads_stderr_is_no_reason_to_panic() {
    let upstream = upstream("127.0.0.1:0");
    let file = File::new(&format!("listen = ['[::1]:0']\nupstreams = ['{upstream}']\nthreads = 1\n"));
    let mut child = file.command().spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    stderr
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains(" event=ready "))
        .expect("a server that is ready");
    sys::process::terminate(child.id()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn check_config_tells_good_from_bad() {
    let good = File::new("upstreams = ['192.0.2.1']\n[dns64]\nstrict_well_known = false\n");
    let output = good.run(&["--check-config"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().ends_with("dns64d.toml is good\n"));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("dns64d: warning: prefix 64:ff9b::/96"));

    let bad = File::new("upstreams = ['192.0.2.1']\n\nprefixes = ['2001:db8:0:0:100::/96']\n");
    for arguments in [&["--check-config"][..], &[]] {
        let output = bad.run(arguments);
        assert_eq!(output.status.code(), Some(2));
        let words = String::from_utf8(output.stderr).unwrap();
        let expected =
            "dns64d.toml:3: prefixes[0] '2001:db8:0:0:100::/96': bits 64 to 71 must be zero (RFC 6052 2.2)\n";
        assert!(words.ends_with(expected) && words.lines().count() == 1, "{words}");
    }
}

#[test]
fn bad_usage_and_missing_files_are_exit_code_2() {
    let none = File { path: "/nonexistent/dns64d.toml".into(), ..File::new("") };
    let output = none.run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        words,
        "dns64d: /nonexistent/dns64d.toml: cannot be read: No such file or directory (os error 2)\n"
    );
    assert_eq!(File::new("").run(&["--nonsense"]).status.code(), Some(2));
}

#[test]
fn a_port_in_use_is_one_line_and_exit_code_3() {
    let udp = UdpSocket::bind("[::1]:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = between("[::1]:0", "127.0.0.1:0");
    for taken in [udp.local_addr().unwrap(), tcp.local_addr().unwrap(), other.addresses[0]] {
        let output = File::new(&format!("listen = ['{taken}']\nupstreams = ['192.0.2.1']\n")).run(&[]);
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
    let file = File::new("listen = ['[::1]:0']\nupstreams = ['192.0.2.1']\ncpus = [1023]\n");
    let output = file.run(&[]);
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
    let file = File::new(
        "listen = ['[::1]:0']\nupstreams = ['127.0.0.1:5399']\nthreads = 2\n[upstream]\nports = 1000\n",
    );
    let script =
        format!("ulimit -n 200; exec {} --config {}", env!("CARGO_BIN_EXE_dns64d"), file.path.display());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("lower threads or upstream.ports") && words.lines().count() == 1, "{words}");
}
