//! Trials over connections against a server that behaves, and against one that does not: every query ends in
//! one class, and the server's own counts agree.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod doh3;
mod doq;
mod https;
mod quic;
mod server;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dns64::wire::Name;
use engine::connections::{Breakdown, ConnectionStats};
use engine::pacer::Model;
use engine::queries_each::QueriesEach;
use engine::stats::Stats;
use engine::workload::{Variation, Workload, WorkloadSpec};
use measurer::live::Live;
use measurer::transport::stream::{Protocol, StreamConfig, Tls, TlsOptions, Trust};
use measurer::transport::{Backend, Sources, UdpConfig};
use measurer::{Plan, measure};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use server::{Behaviour, NoCertificate, Server};

const MS_NS: u64 = 1_000_000;
/// The name in the certificates.
const NAME: &str = "dns.test";

fn workload() -> Workload {
    Workload::new(WorkloadSpec {
        names: "10.0.0.0/8".parse().unwrap(),
        first_name: 0,
        suffix: Name::from_text("dns64perf.test").unwrap(),
        prefix: "2001:db8:64::/96".parse().unwrap(),
        native: None,
        edns_octets: None,
        variation: Variation::default(),
    })
    .unwrap()
}

fn streams(connections: usize) -> StreamConfig {
    StreamConfig {
        protocol: Protocol::Tcp,
        connections,
        queries_each: QueriesEach::default(),
        pipelined: true,
        idle_ns: None,
        tls: None,
        https: None,
    }
}

/// A trial of 1000 q/s for 400 ms.
fn plan(server: SocketAddr, streams: StreamConfig, timeout_ms: u64) -> Plan {
    Plan {
        rate_qps: 1000,
        duration_ns: 400 * MS_NS,
        timeout_ns: timeout_ms * MS_NS,
        listen_ns: timeout_ms * MS_NS,
        backend: Backend::Udp,
        udp: UdpConfig {
            server,
            sockets: streams.connections,
            first_socket: 0,
            sources: Sources::default(),
            receive_buffer_octets: 0,
        },
        streams: Some(streams),
        prioritized: false,
        log: false,
        model: Model::Constant,
    }
}

/// One trial at a time: they share the processors.
static TRIAL: Mutex<()> = Mutex::new(());

/// What became of a trial with two threads: its counts, whose sum is checked, and its connections.
fn tried(plan: &Plan) -> (Stats, ConnectionStats) {
    let _alone = TRIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let cpus: Vec<usize> = sys::cpu::available().into_iter().cycle().take(2).collect();
    let measured =
        measure::run(plan, &workload(), &cpus, None, &AtomicBool::new(false), &Live::default()).unwrap();
    let stats = measured.stats;
    let answered = stats.valid + stats.invalid + stats.late;
    assert_eq!(stats.sent + stats.never_left + stats.send_errors, measured.schedule.queries);
    assert!(answered + stats.cut_off <= stats.sent, "{stats:?}");
    assert_eq!(stats.broken.values().sum::<u64>(), stats.cut_off + stats.never_left);
    let connections = *stats.connections.clone().unwrap();
    (stats, connections)
}

fn lost<const N: usize>(places: [(Breakdown, u64); N]) -> BTreeMap<Breakdown, u64> {
    places.into()
}

/// A certificate, its key's configuration, and its PEM.
fn certificate() -> (Arc<ServerConfig>, String) {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    (Arc::new(config), made.cert.pem())
}

fn over_tls(connections: usize, server: SocketAddr, options: &TlsOptions) -> StreamConfig {
    let tls = Tls::new(Protocol::Dot, options, server.ip()).unwrap();
    StreamConfig { protocol: Protocol::Dot, tls: Some(tls), ..streams(connections) }
}

#[test]
fn standing_connections_carry_every_query() {
    for pipelined in [true, false] {
        let server = Server::start(Behaviour::Answer, workload(), None);
        let (stats, seen) = tried(&plan(server.address, StreamConfig { pipelined, ..streams(6) }, 1000));
        assert_eq!((stats.valid, server.answers()), (400, 400), "{:?}", stats.defects);
        assert_eq!((seen.opened, seen.opened_before, server.connections()), (6, 6, 6));
        assert_eq!((stats.unexpected, stats.duplicates), (0, 0));
        assert_eq!(seen.connect_ns.len(), 6);
    }
}

#[test]
fn connections_end_after_their_queries_and_none_is_lost() {
    let server = Server::start(Behaviour::Answer, workload(), None);
    let config = StreamConfig { queries_each: QueriesEach::fixed(10), ..streams(4) };
    let (stats, seen) = tried(&plan(server.address, config, 1000));
    assert_eq!((stats.valid, server.answers()), (400, 400));
    assert_eq!(server.seen.most.load(Ordering::Relaxed), 10);
    // The first connection of each client is shorter than the others, and the last one is open at the end.
    assert!((40..=44).contains(&seen.opened), "{}", seen.opened);
    assert_eq!((seen.opened, seen.closed_by_server), (server.connections(), 0));
    assert_eq!(seen.waiting_ns.len(), seen.opened - 4);
}

#[test]
fn connections_have_as_many_queries_as_were_drawn_for_them() {
    let server = Server::start(Behaviour::Answer, workload(), None);
    let queries_each = QueriesEach { median: 10, sigma: 1.0 };
    let config = StreamConfig { queries_each, ..streams(4) };
    let (stats, seen) = tried(&plan(server.address, config, 1000));
    assert_eq!((stats.valid, server.answers()), (400, 400));
    // Each client has a hundred queries.
    let connections = |client| {
        let (mut queries, mut connections) = (0, 0);
        while queries < 100 {
            queries += queries_each.of(Variation::default().seed, client, connections);
            connections += 1;
        }
        connections
    };
    assert_eq!(seen.opened, (0..4).map(connections).sum::<u64>());
}

#[test]
fn a_connection_that_is_idle_is_closed_and_opened_again() {
    let server = Server::start(Behaviour::Answer, workload(), None);
    let config = StreamConfig { idle_ns: Some(20 * MS_NS), ..streams(2) };
    let plan = Plan { rate_qps: 20, ..plan(server.address, config, 1000) };
    let (stats, seen) = tried(&plan);
    // Each of the clients has a query every 100 ms; the idle time may also end before the first one.
    assert_eq!((stats.valid, seen.opened), (8, server.connections()));
    assert!((8..=10).contains(&seen.opened), "{}", seen.opened);
}

#[test]
fn refused_connections_lose_their_queries_one_by_one() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (stats, seen) = tried(&plan(nobody, streams(4), 100));
    assert_eq!(stats.broken, lost([(Breakdown::Refused, 400)]));
    assert_eq!((stats.sent, stats.never_left, seen.opened), (0, 400, 0));
    // One attempt may lose several queries that were due together, and each client began with one.
    assert!((1..=404).contains(&seen.failed[&Breakdown::Refused]), "{:?}", seen.failed);
}

#[test]
fn a_server_that_ends_connections_loses_what_it_did_not_answer() {
    for (behaviour, why) in
        [(Behaviour::CloseAt(4), Breakdown::Closed), (Behaviour::ResetAt(4), Breakdown::Reset)]
    {
        let server = Server::start(behaviour, workload(), None);
        let config = StreamConfig { pipelined: false, ..streams(4) };
        let (stats, seen) = tried(&plan(server.address, config, 1000));
        // The fifth query of each connection.
        assert_eq!((stats.valid, server.answers()), (320, 320));
        assert_eq!(stats.broken, lost([(why, 80)]));
        assert_eq!((stats.cut_off, seen.closed_by_server), (80, 80));
        assert_eq!(server.connections(), seen.opened);
    }
}

#[test]
fn a_silent_server_and_a_busy_connection_are_told_apart() {
    let server = Server::start(Behaviour::Silent, workload(), None);
    let (stats, _) = tried(&plan(server.address, streams(4), 100));
    assert_eq!((stats.sent, stats.valid), (400, 0));
    assert!(stats.broken.is_empty(), "{:?}", stats.broken);
    let config = StreamConfig { pipelined: false, ..streams(2) };
    let (stats, _) = tried(&plan(server.address, config, 100));
    // Each of two connections is busy for 100 ms with each query that it could send.
    assert!((6..=12).contains(&stats.sent), "{}", stats.sent);
    assert_eq!(stats.broken, lost([(Breakdown::OwnLimit, 400 - stats.sent)]));
}

#[test]
fn garbage_is_counted_and_harms_nothing() {
    let server = Server::start(Behaviour::Garbage, workload(), None);
    let (stats, _) = tried(&plan(server.address, streams(4), 1000));
    assert_eq!((stats.valid, stats.unexpected), (400, 400));
}

#[test]
fn queries_pass_tls_and_sessions_are_resumed_where_asked() {
    let (config, pem) = certificate();
    let directory = tempfile::tempdir().unwrap();
    let authorities = directory.path().join("ca.pem");
    std::fs::write(&authorities, pem).unwrap();
    for (trust, resumption) in [(Trust::Anyone, true), (Trust::Authorities(authorities), false)] {
        let server = Server::start(Behaviour::Answer, workload(), Some(config.clone()));
        let options = TlsOptions { trust, name: Some(NAME.to_owned()), resumption };
        let streams =
            StreamConfig { queries_each: QueriesEach::fixed(20), ..over_tls(4, server.address, &options) };
        let (stats, seen) = tried(&plan(server.address, streams, 1000));
        assert_eq!((stats.valid, server.answers()), (400, 400), "{:?}", seen.handshake_failures);
        assert_eq!(seen.handshake_ns.len(), seen.opened);
        assert_eq!(seen.resumed, if resumption { seen.opened - 4 } else { 0 });
    }
}

#[test]
fn handshakes_that_fail_say_why() {
    let (config, _) = certificate();
    let (_, other) = certificate();
    let directory = tempfile::tempdir().unwrap();
    let authorities = directory.path().join("ca.pem");
    std::fs::write(&authorities, other).unwrap();
    let nothing = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let nothing = nothing.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let nothing = Arc::new(nothing.with_cert_resolver(Arc::new(NoCertificate)));
    let pin = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".parse().unwrap();
    for (trust, config, reason) in [
        (Trust::Authorities(authorities), config.clone(), "invalid peer certificate"),
        (Trust::Pinned(pin), config, "another key than that of --tls-pin: its pin is '"),
        (Trust::Anyone, nothing, "received fatal alert: AccessDenied"),
    ] {
        let server = Server::start(Behaviour::Answer, workload(), Some(config));
        let options = TlsOptions { trust, name: Some(NAME.to_owned()), resumption: false };
        let (stats, seen) = tried(&plan(server.address, over_tls(2, server.address, &options), 1000));
        assert_eq!(stats.broken, lost([(Breakdown::Handshake, 400)]));
        assert_eq!((seen.opened, stats.sent), (0, 0));
        let reasons: Vec<_> = seen.handshake_failures.keys().collect();
        assert!(reasons.len() == 1 && reasons[0].contains(reason), "{reasons:?}");
    }
}

#[test]
fn a_handshake_without_an_answer_times_out() {
    let server = Server::start(Behaviour::Deaf, workload(), None);
    let streams = over_tls(2, server.address, &TlsOptions::default());
    let (stats, seen) = tried(&plan(server.address, streams, 100));
    assert_eq!(stats.broken, lost([(Breakdown::TimedOut, 400)]));
    assert_eq!((seen.opened, stats.never_left), (0, 400));
}

#[test]
fn a_server_that_does_not_read_stops_what_it_has_no_room_for() {
    let server = Server::start(Behaviour::Deaf, workload(), None);
    // 15 MB: the kernel may keep 4 MB of each connection that were not sent yet.
    let plan = Plan { rate_qps: 400_000, ..plan(server.address, streams(2), 600) };
    let (stats, _) = tried(&plan);
    assert_eq!(stats.valid, 0);
    // What the kernels of both sides buffer has left; the rest never does.
    assert!(stats.broken[&Breakdown::FlowControl] > 0 && stats.broken.len() == 1, "{:?}", stats.broken);
    assert!(stats.sent > 0 && stats.cut_off == 0);
}

#[test]
fn what_needs_too_many_files_or_ports_is_refused_with_the_number() {
    let server = "127.0.0.1:53".parse().unwrap();
    let refusal = |plan: &Plan| {
        measure::run(plan, &workload(), &[0], None, &AtomicBool::new(false), &Live::default())
            .unwrap_err()
            .to_string()
    };
    let many = refusal(&plan(server, streams(2_000_000_000), 100));
    assert!(many.contains("open files") && many.contains("ulimit -n 2000001152"), "{many}");
    let away = "192.0.2.1:53".parse().unwrap();
    let config = StreamConfig { queries_each: QueriesEach::fixed(1), ..streams(1) };
    let fast = Plan { rate_qps: 10_000, duration_ns: 60_000 * MS_NS, ..plan(away, config, 10) };
    let fast = refusal(&fast);
    assert!(fast.contains("need 600001 ports") && fast.contains("--source"), "{fast}");
}
