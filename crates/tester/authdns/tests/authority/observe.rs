//! What the AuthDNS sees of real servers: dns64d, Unbound and BIND, and of a client that does everything
//! wrong.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use authdns::{Authority, Observer};
use dns64::wire::Name;
use domain::base::iana::Rtype;
use lab::peers::{self, PeerError, PeerSettings, Probe, RunningPeer};
use record::identifiers::Analysis;

use crate::server::{client, connect, read_message, start, with_length};
use crate::zone::{query, records};

/// Enough for every test of randomness.
const NAMES: u32 = 1500;

fn observed() -> (Authority, Arc<Observer>) {
    let observer = Observer::new(100_000);
    (start(&["127.0.0.1:0"], |config| config.observer = Some(observer.clone())), observer)
}

fn name(number: u32) -> String {
    format!("010-001-{:03}-{:03}.dns64perf.test", number >> 8, number & 255)
}

fn weaknesses(analysis: &Analysis) -> Vec<&str> {
    analysis.findings.iter().filter(|finding| finding.weak).map(|finding| &finding.text[..]).collect()
}

/// Counts its IDs and has one port, as TOTD had.
#[test]
fn a_counter_at_a_fixed_port_is_weak() {
    let (server, observer) = observed();
    let socket = client(server.local_addrs()[0]);
    for number in 0..NAMES {
        let mut question = query(&name(number), Rtype::AAAA, None);
        question[..2].copy_from_slice(&(number as u16).to_be_bytes());
        socket.send(&question).unwrap();
        socket.recv(&mut [0; 512]).unwrap();
    }
    server.stop();
    let analysis = observer.take().analyse(Some(NAMES.into()));
    let weak = weaknesses(&analysis).join("; ");
    assert!(weak.contains("step is +1 in 100.0 %") && weak.contains("all queries leave from port"), "{weak}");
    assert_eq!(
        (analysis.queries_per_client_query, analysis.spoofing.ids, analysis.spoofing.ports),
        (Some(1.0), 1.0, 1.0)
    );
}

#[test]
fn queries_over_tcp_and_repetitions_are_seen() {
    let (server, observer) = observed();
    let (socket, other) = (client(server.local_addrs()[0]), client(server.local_addrs()[0]));
    let question = query(&name(1), Rtype::A, None);
    for socket in [&socket, &socket, &other] {
        socket.send(&question).unwrap();
        socket.recv(&mut [0; 512]).unwrap();
    }
    let mut stream = connect(server.local_addrs()[0]);
    stream.write_all(&with_length(&question)).unwrap();
    read_message(&mut stream);
    server.stop();
    let analysis = observer.take().analyse(None);
    assert_eq!((analysis.seen, analysis.tcp, analysis.a, analysis.names), (4, 1, 4, 1));
    assert_eq!((analysis.outstanding.retransmissions, analysis.outstanding.retries), (1, 1));
}

/// The server of this name in front of an AuthDNS; `None` where it is not installed.
fn start_peer(name: &str, auth: SocketAddr) -> Option<RunningPeer> {
    let (prefix, suffix) = ("2001:db8:64::/96".parse().unwrap(), Name::from_text("dns64perf.test").unwrap());
    let listen = peers::free_port(Ipv4Addr::LOCALHOST.into()).unwrap();
    let probe = Probe::synthesized(Ipv4Addr::new(10, 9, 9, 9), &suffix, &prefix).unwrap();
    let settings = PeerSettings::new(listen, auth, prefix, suffix, sys::cpu::available());
    match peers::start(peers::find(name).unwrap(), settings, &probe, &AtomicBool::new(false)) {
        Err(error @ PeerError::Missing { .. }) => {
            testing::skip(&format!("peer {name}"), error);
            None
        }
        peer => Some(peer.unwrap()),
    }
}

/// What the AuthDNS sees when the server is asked for AAAA records of names that have none.
fn observe(peer: &str) -> Option<Analysis> {
    let (auth, observer) = observed();
    let running = start_peer(peer, auth.local_addrs()[0])?;
    let socket = client(running.listen);
    // A server may ask for names of its own at its start.
    let is_quiet = || {
        std::thread::sleep(Duration::from_secs(1));
        observer.take().analyse(None).seen == 0
    };
    assert!((0..10).any(|_| is_quiet()), "{peer} goes on to ask for names of its own");
    for number in 0..NAMES {
        socket.send(&query(&name(number), Rtype::AAAA, None)).unwrap();
        let mut answer = [0; 1232];
        let length = socket.recv(&mut answer).unwrap();
        assert_eq!(records(&answer[..length])[0].len(), 1, "{peer}: {}", name(number));
    }
    running.stop();
    let analysis = observer.take().analyse(Some(NAMES.into()));
    println!("{peer}:\n{}", report::observed_text(&analysis));
    Some(analysis)
}

/// Chance fails these less than once in ten million runs; what is weak in words is so more often.
fn assert_ids_are_random(analysis: &Analysis) {
    let tests = &analysis.ids.tests;
    assert!(tests.len() >= 5 && tests.iter().all(|test| test.p_value > 1e-8), "{tests:?}");
    assert!(!analysis.ids.steps.predictable && analysis.ids.congruence_pct == 0.0, "{:?}", analysis.ids);
    assert!(analysis.spoofing.ids > 20_000.0, "{:?}", analysis.spoofing);
}

/// A stall of the machine may cost a retry.
fn assert_two_for_each(analysis: &Analysis) {
    let each = analysis.queries_per_client_query;
    assert!(each.is_some_and(|each| (2.0..2.1).contains(&each)), "{each:?}");
    assert!(
        analysis.outstanding.retransmissions + analysis.outstanding.retries < 100,
        "{:?}",
        analysis.outstanding
    );
}

#[test]
fn dns64d_draws_ids_and_renews_its_ports() {
    let Some(analysis) = observe("dns64d") else { return };
    assert_ids_are_random(&analysis);
    assert_two_for_each(&analysis);
    // 64 sockets for each thread and server lie ready by default, and a used one is replaced.
    assert!(analysis.ports.distinct > 256, "{:?}", analysis.ports);
    assert_eq!(analysis.names, u64::from(NAMES));
}

#[test]
fn unbound_draws_ids_and_ports() {
    let Some(analysis) = observe("unbound") else { return };
    assert_ids_are_random(&analysis);
    assert_two_for_each(&analysis);
    assert!(analysis.ports.distinct > 1000, "{:?}", analysis.ports);
}

#[test]
fn bind_draws_ids_and_ports() {
    let Some(analysis) = observe("bind") else { return };
    assert_ids_are_random(&analysis);
    assert_two_for_each(&analysis);
    assert!(analysis.ports.distinct > 1000, "{:?}", analysis.ports);
}
