//! Faults on real sockets: what a client sees of each, and that every answer is accounted for.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use authdns::faults::{Faults, Kind};
use authdns::{Authority, AuthorityConfig, Signing, SigningKey, Zone, ZoneConfig};
use domain::base::Message;
use domain::base::iana::{Rcode, Rtype};

use crate::resolvers::{Resolver, Running, Setup};
use crate::server::{client, connect, read_message, start, until, with_length};
use crate::zone::{HOST, query};

/// Long enough for an answer on a loaded machine where none is expected.
const SILENCE: Duration = Duration::from_millis(300);

fn start_with(faults: &[&str]) -> Authority {
    let faults = faults.iter().map(|fault| fault.parse().unwrap()).collect();
    start(&["127.0.0.1:0"], |config| config.faults = Some(Arc::new(Faults::new(1, faults))))
}

fn ask(id: u16, qtype: Rtype) -> Vec<u8> {
    let mut query = query(HOST, qtype, Some((1232, true)));
    query[..2].copy_from_slice(&id.to_be_bytes());
    query
}

/// All answers to one query over UDP.
fn answers_over_udp(server: SocketAddr, query: &[u8]) -> Vec<Vec<u8>> {
    let socket = client(server);
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    socket.send(query).unwrap();
    let mut buffer = [0; 2048];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec())).collect()
}

/// All answers to one query over TCP.
fn answers_over_tcp(server: SocketAddr, query: &[u8]) -> Vec<Vec<u8>> {
    let mut stream = connect(server);
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    stream.write_all(&with_length(query)).unwrap();
    let mut answers = Vec::new();
    while stream.peek(&mut [0; 2]).is_ok_and(|octets| octets > 0) {
        answers.push(read_message(&mut stream));
    }
    answers
}

/// What can be seen of an answer: its ID is the query's, TC, RCODE, the question is the one asked, records.
fn look(query: &[u8], answer: &[u8]) -> (bool, bool, Rcode, bool, u16) {
    let (asked, said) = (Message::from_octets(query).unwrap(), Message::from_octets(answer).unwrap());
    let counts = said.header_counts();
    (
        said.header().id() == asked.header().id(),
        said.header().tc(),
        said.header().rcode(),
        said.sole_question().unwrap() == asked.sole_question().unwrap(),
        counts.ancount() + counts.nscount(),
    )
}

#[test]
fn each_kind_is_seen_over_udp_and_tcp() {
    let noerror = Rcode::NOERROR;
    let right = (true, false, noerror, true, 1);
    for (fault, kind, udp, tcp) in [
        ("loss", Kind::Loss, vec![], vec![]),
        ("aaaa-silent", Kind::AaaaSilent, vec![], vec![]),
        ("duplicate", Kind::Duplicate, vec![right; 2], vec![right; 2]),
        ("delay=1ms", Kind::Delay, vec![right], vec![right]),
        ("truncate", Kind::Truncate, vec![(true, true, noerror, true, 0)], vec![right]),
        (
            "rcode=NOTAUTH",
            Kind::Rcode,
            vec![(true, false, Rcode::NOTAUTH, true, 0)],
            vec![(true, false, Rcode::NOTAUTH, true, 0)],
        ),
        (
            "wrong-id",
            Kind::WrongId,
            vec![(false, false, noerror, true, 1)],
            vec![(false, false, noerror, true, 1)],
        ),
        (
            "wrong-question",
            Kind::WrongQuestion,
            vec![(true, false, noerror, false, 1)],
            vec![(true, false, noerror, false, 1)],
        ),
        ("lame", Kind::Lame, vec![right], vec![right]),
    ] {
        let server = start_with(&[fault]);
        let (address, query) = (server.local_addrs()[0], ask(0x1234, Rtype::AAAA));
        let seen =
            |answers: Vec<Vec<u8>>| answers.iter().map(|answer| look(&query, answer)).collect::<Vec<_>>();
        assert_eq!(seen(answers_over_udp(address, &query)), udp, "{fault} over UDP");
        assert_eq!(seen(answers_over_tcp(address, &query)), tcp, "{fault} over TCP");
        let counters = server.stop();
        let over_tcp = u64::from(kind != Kind::Truncate);
        assert_eq!((counters.udp.faults.of(kind), counters.tcp.faults.of(kind)), (1, over_tcp), "{fault}");
        assert_eq!((counters.udp.unaccounted(), counters.tcp.unaccounted()), (0, 0), "{fault}: {counters:?}");
    }
}

#[test]
fn a_silent_aaaa_has_an_a() {
    let server = start_with(&["aaaa-silent"]);
    assert_eq!(answers_over_udp(server.local_addrs()[0], &ask(1, Rtype::A)).len(), 1);
    assert!(answers_over_udp(server.local_addrs()[0], &ask(1, Rtype::AAAA)).is_empty());
}

/// An answer that waits 200 ms does not keep others waiting, on the same socket and the same connection.
#[test]
fn delayed_answers_come_late_and_alone() {
    let delay = Duration::from_millis(200);
    let server = start_with(&["delay=200ms,type=AAAA"]);
    let address = server.local_addrs()[0];
    let (slow, quick) = (ask(1, Rtype::AAAA), ask(2, Rtype::A));

    let socket = client(address);
    let begin = Instant::now();
    socket.send(&slow).unwrap();
    socket.send(&quick).unwrap();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut answer = [0; 512];
        socket.recv(&mut answer).unwrap();
        ids.push(answer[1]);
    }
    assert_eq!(ids, [2, 1]);
    assert!(begin.elapsed() >= delay);

    let mut stream = connect(address);
    let begin = Instant::now();
    stream.write_all(&[with_length(&slow), with_length(&quick)].concat()).unwrap();
    assert_eq!([read_message(&mut stream)[1], read_message(&mut stream)[1]], [2, 1]);
    assert!(begin.elapsed() >= delay);
    let counters = server.stop();
    for traffic in [counters.udp, counters.tcp] {
        assert_eq!((traffic.answers, traffic.faults.of(Kind::Delay), traffic.unaccounted()), (2, 1, 0));
    }
}

#[test]
fn answers_that_still_wait_at_the_end_are_accounted_for() {
    let server = start_with(&["delay=60s"]);
    let address = server.local_addrs()[0];
    let socket = client(address);
    let mut stream = connect(address);
    for id in 0..3 {
        socket.send(&ask(id, Rtype::A)).unwrap();
        stream.write_all(&with_length(&ask(id, Rtype::A))).unwrap();
    }
    until("all are read", || server.counters().udp.queries() == 3 && server.counters().tcp.queries() == 3);
    assert_eq!(server.counters().udp.unaccounted(), 3, "they wait");
    let counters = server.stop();
    assert_eq!((counters.udp.undelivered, counters.tcp.undelivered), (3, 3));
    assert_eq!((counters.udp.unaccounted(), counters.tcp.unaccounted()), (0, 0));
}

/// More queries than a batch holds, each answered twice and late: nothing is lost on the way.
#[test]
fn a_burst_with_every_fault_at_once_is_accounted_for() {
    // Few enough for the smallest receive buffers.
    const QUERIES: u16 = 100;
    let server = start_with(&["delay=pareto(1ms,2),max=50ms", "duplicate=50%", "loss=10%", "wrong-id=20%"]);
    let socket = client(server.local_addrs()[0]);
    for id in 0..QUERIES {
        socket.send(&ask(id, Rtype::A)).unwrap();
    }
    until("all have left", || {
        let udp = server.counters().udp;
        udp.queries() == u64::from(QUERIES) && udp.unaccounted() == 0
    });
    let udp = server.stop().udp;
    assert!(udp.faults.of(Kind::Duplicate) > 20 && udp.faults.lost() > 2, "{udp:?}");
    let mut received = 0;
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    while socket.recv(&mut [0; 512]).is_ok() {
        received += 1;
    }
    assert_eq!((received, udp.undelivered, udp.send_failures), (udp.answers, 0, 0));
}

/// A signed zone in which the signatures of one name are damaged. Every validating resolver must refuse that
/// name alone.
#[test]
fn resolvers_refuse_bogus_signatures() {
    const DAY_S: u32 = 86_400;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as u32;
    let (inception_s, expiration_s) = (now_s - DAY_S / 2, now_s + DAY_S / 2);
    let signing = Signing { key: SigningKey::from_seed("a test"), inception_s, expiration_s };
    let zone = Zone::new(ZoneConfig { signing: Some(signing), ..ZoneConfig::default() }).unwrap();
    let anchors = zone.trust_anchors();
    let faults = vec!["bogus,name=010-000-000-009.*".parse().unwrap()];
    let config = AuthorityConfig {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        faults: Some(Arc::new(Faults::new(1, faults))),
        ..AuthorityConfig::default()
    };
    let server = Authority::start(Arc::new(zone), &config).unwrap();
    for resolver in Resolver::ALL {
        let setup = Setup { anchors: anchors.clone(), ..resolver.setup() };
        let Some(running) = Running::start(&setup, server.local_addrs()[0].port()) else { continue };
        let offer = Some((1232, true));
        running.expect("010-000-000-009.dns64perf.test", Rtype::A, offer, Rcode::SERVFAIL);
        let answer = running.expect("010-000-000-008.dns64perf.test", Rtype::A, offer, Rcode::NOERROR);
        assert!(Message::from_octets(&answer[..]).unwrap().header().ad(), "the others are validated");
    }
    assert!(server.stop().udp.faults.of(Kind::Bogus) > 0);
}
