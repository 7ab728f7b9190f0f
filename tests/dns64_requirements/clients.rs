//! Who may ask, and how much: access, rate, connections.

use std::io::Read;
use std::net::{IpAddr, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use dns64::wire::{Header, rcode};
use lab::network::{Lab, LabSpec, Role};

use crate::support::client::{ask, ask_edns, connect};
use crate::support::server::{File, Server, config_text};
use crate::support::upstream::Upstream;
use crate::support::words::query;
use crate::support::{read_frame, write_frame};
use crate::{A, A_RECORD, AAAA, SOA, SYNTHESIZED};

fn site(more: &str) -> (Upstream, Server) {
    let upstream = Upstream::saying(&[(AAAA, 0, &[SOA]), (A, 0, &[A_RECORD])]);
    let server = Server::before(&upstream, more);
    (upstream, server)
}

const GUEST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

#[test]
fn strangers_are_refused() {
    let (upstream, server) = site("listen = ['127.0.0.1:0']\nallow = ['127.0.0.1/32']");
    let refused = ask_edns(AAAA).from(GUEST, server.address()).unwrap();
    refused.is(rcode::REFUSED, &[]);
    assert_eq!(refused.extended_errors(), [18]);
    upstream.was_asked(&[]);
    server.ask(AAAA).is(0, &[SYNTHESIZED]);
}

#[test]
fn local_networks_alone_are_served_by_default() {
    let (_upstream, server) = site("listen = ['127.0.0.1:0']");
    assert_eq!(ask(A).from(GUEST, server.address()).unwrap().rcode(), 0);
    if let Err(why) = lab::network::check() {
        testing::skip("lab", why);
        return;
    }
    let lab = Lab::up(&LabSpec { name: format!("cl{}", std::process::id()), ..LabSpec::default() }).unwrap();
    // Addresses for benchmarks (RFC 2544, RFC 5180) are no local networks.
    let (dut, tester) = (lab.end(Role::Dut, Role::Tester), lab.end(Role::Tester, Role::Dut));
    let upstream = "[::1]:9".parse().unwrap();
    let listen = format!("listen = ['{}:0', '[{}]:0']", dut.ipv4, dut.ipv6);
    let file = File::new(&config_text(&[upstream], &listen));
    let mut command = lab.command(Role::Dut, env!("CARGO_BIN_EXE_dns64d"));
    command.arg("--config").arg(&file.path).stdin(Stdio::null()).stderr(Stdio::piped());
    sys::process::die_with_parent(&mut command);
    let server = Server::spawn(file, command);
    let strangers: [IpAddr; 2] = [tester.ipv4.into(), tester.ipv6.into()];
    for (stranger, &address) in strangers.into_iter().zip(&server.addresses) {
        let asked = || ask(A).from(stranger, address).unwrap().is(rcode::REFUSED, &[]);
        sys::netns::within(&lab.namespace(Role::Tester), asked).unwrap();
    }
}

#[test]
fn answers_are_not_answered() {
    let (upstream, server) = site("");
    let answer = ask(A).flag(Header::QR);
    let host = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);
    assert!(answer.within(Duration::from_millis(200), host, server.address()).is_none());
    upstream.was_asked(&[]);
}

/// Sends so many queries at once; tells how many were answered, and how many with TC.
fn flood(server: &Server, count: u16) -> (usize, usize) {
    let socket = UdpSocket::bind("[::1]:0").unwrap();
    socket.connect(server.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    for id in 0..count {
        socket.send(&query(id, A, None)).unwrap();
    }
    let (mut answered, mut slipped) = (0, 0);
    let mut buffer = [0; 512];
    while let Ok(length) = socket.recv(&mut buffer) {
        let truncated = Header::parse(&buffer[..length]).unwrap().flags & Header::TC != 0;
        if truncated { slipped += 1 } else { answered += 1 }
    }
    (answered, slipped)
}

#[test]
fn above_the_rate_some_are_sent_to_tcp_and_the_others_dropped() {
    let (_upstream, server) = site("limits.queries_per_second = 1\nlimits.burst = 10\nlimits.slip = 2");
    server.ask(A);
    let (answered, slipped) = flood(&server, 110);
    assert!((9..13).contains(&answered), "{answered}");
    assert!((46..52).contains(&slipped), "{slipped}");
    ask(A).over_tcp(server.address()).is(0, &[A_RECORD]);
}

#[test]
fn above_the_rate_all_are_dropped_without_slip() {
    let (_upstream, server) = site("limits.queries_per_second = 1\nlimits.burst = 10\nlimits.slip = 0");
    let (answered, slipped) = flood(&server, 50);
    assert!((10..13).contains(&answered) && slipped == 0, "{answered} {slipped}");
}

#[test]
fn rfc_7766_connections_of_one_network_are_limited() {
    let (_upstream, server) =
        site("listen = ['127.0.0.1:0']\nlimits.connections_per_network = 2\nlimits.idle_ms = 60000");
    let mut kept: Vec<_> = (0..2).map(|_| connect(server.address())).collect();
    for stream in &mut kept {
        write_frame(stream, &query(1, A, None));
        assert!(read_frame(stream).is_some());
    }
    // The one that was used last stays, and the other makes room.
    let mut third = connect(server.address());
    write_frame(&mut third, &query(2, A, None));
    assert!(read_frame(&mut third).is_some());
    assert!(matches!(kept[0].read(&mut [0; 1]), Ok(0) | Err(_)));
    write_frame(&mut kept[1], &query(3, A, None));
    assert!(read_frame(&mut kept[1]).is_some());
}

#[test]
fn rfc_7766_idle_connections_are_closed() {
    let (_upstream, server) = site("limits.idle_ms = 200");
    let mut stream = connect(server.address());
    write_frame(&mut stream, &query(1, A, None));
    assert!(read_frame(&mut stream).is_some());
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn a_question_that_comes_back_from_upstream_does_not_go_round_for_ever() {
    let (upstream, server) = site("upstream.timeout_ms = 200");
    // A server that forwards to us what we ask it.
    let address = server.address();
    upstream.does("loop.example.com A", move |query| {
        let octets = query.octets.clone();
        std::thread::spawn(move || {
            let socket = UdpSocket::bind("[::1]:0").unwrap();
            let _ = socket.send_to(&octets, address);
        });
        Vec::new()
    });
    server.ask("loop.example.com A").is(rcode::SERVFAIL, &[]);
    assert!(upstream.received().len() <= 3, "questions in flight are shared");
}
