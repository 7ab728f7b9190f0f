//! Real servers in the lab: started, asked, watched, stopped, and nothing of them left.
#![allow(missing_docs, clippy::unwrap_used)]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dns64::Prefix;
use dns64::names::parse_label;
use dns64::wire::{CLASS_IN, Edns, Header, Message, Name, Section, Writer, rtype};
use lab::child::{Child, Launch};
use lab::observe::Observer;
use lab::peers::{self, PeerError, PeerSettings, Probe, RunningPeer, Server};
use lab::scratch::Scratch;

/// An AuthDNS of a few lines: an A record for every benchmark name, no AAAA, and an SOA so that resolvers
/// accept it.
struct ScriptedAuthority {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ScriptedAuthority {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let address = socket.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let (mut query, mut reply) = ([0; 2048], [0; 2048]);
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, client)) = socket.recv_from(&mut query) else { continue };
                if let Some(length) = answer(&query[..length], &mut reply) {
                    socket.send_to(&reply[..length], client).unwrap();
                }
            }
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for ScriptedAuthority {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn answer(query: &[u8], reply: &mut [u8]) -> Option<usize> {
    let message = Message::parse(query).ok()?;
    let question = message.question();
    let zone = Name::from_text("dns64perf.test").unwrap();
    let recursion_desired = message.header.flags & Header::RD;
    let flags = Header::QR | Header::AA | Header::RA | recursion_desired;
    let mut writer = Writer::new(reply, message.header.id, flags, &question).ok()?;
    let ipv4 = question.name.labels().next().and_then(parse_label);
    match ipv4.filter(|_| question.qtype == rtype::A) {
        Some(ipv4) => {
            writer.record(Section::Answer, &question.name, rtype::A, CLASS_IN, 60, &ipv4.octets()).ok()?;
        }
        None => writer
            .record_with(Section::Authority, &zone, rtype::SOA, CLASS_IN, 60, |writer| {
                writer.name(&zone)?;
                writer.name(&zone)?;
                writer.put(&[0, 0, 0, 1, 0, 0, 14, 16, 0, 0, 7, 8, 0, 9, 58, 128, 0, 0, 0, 60])
            })
            .ok()?,
    }
    if message.edns().ok()?.is_some() {
        let edns = Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: false };
        writer.edns(&edns, &[]).ok()?;
    }
    Some(writer.finish())
}

fn settings(listen: SocketAddr, auth: SocketAddr) -> PeerSettings {
    let prefix: Prefix = "2001:db8:64::/96".parse().unwrap();
    PeerSettings::new(listen, auth, prefix, Name::from_text("dns64perf.test").unwrap(), sys::cpu::available())
}

fn start(peer: &Server, settings: &PeerSettings) -> Result<RunningPeer, PeerError> {
    let address = Ipv4Addr::new(10, 255, 255, 254);
    let probe = Probe::synthesized(address, &settings.suffix, &settings.prefix).unwrap();
    peers::start(peer, settings.clone(), &probe, &AtomicBool::new(false))
}

fn free_listen() -> SocketAddr {
    peers::free_port(std::net::Ipv6Addr::LOCALHOST.into()).unwrap()
}

/// Prints why the test does not run and returns true when the peer is not installed.
fn skipped(name: &str) -> bool {
    let missing = peers::locate(peers::find(name).unwrap()).err();
    if let Some(reason) = &missing {
        testing::skip(&format!("peer {name}"), reason);
    }
    missing.is_some()
}

fn runs_and_leaves_nothing(name: &str) {
    if skipped(name) {
        return;
    }
    let authority = ScriptedAuthority::start();
    let peer = peers::find(name).unwrap();
    let settings = settings(free_listen(), authority.address);
    let listen = settings.listen;
    let mut running = start(peer, &settings).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(running.version, peers::version(peer).unwrap());
    assert!(running.version.starts_with(|first: char| first.is_ascii_digit()), "{}", running.version);
    let directory = running.directory().to_owned();
    assert!(running.configuration.contains(&authority.address.port().to_string()));
    // Knot Resolver has a process for each worker, and is one.
    let workers = if name == "knot-resolver" { 1 } else { settings.cores.len() };
    assert_unprivileged_and_threaded(running.pid(), workers);

    for last in 0..200 {
        let asked =
            Probe::synthesized(Ipv4Addr::new(10, 1, 2, last), &settings.suffix, &settings.prefix).unwrap();
        let there = || running.check_alive();
        asked.wait(listen, Duration::from_secs(5), there).unwrap().unwrap_or_else(|last| panic!("{last}"));
    }
    let pid = running.pid();
    let log = running.stop();
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "the process is still there; {log}");
    assert!(!directory.exists(), "its directory is still there");
    UdpSocket::bind(listen).expect("its port is free again");
}

fn assert_unprivileged_and_threaded(pid: u32, workers: usize) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    assert!(!field("Uid:").starts_with("0\t"), "runs as root");
    assert!(field("Threads:").parse::<usize>().unwrap() >= workers);
}

#[test]
fn unbound_answers_and_leaves_nothing_behind() {
    runs_and_leaves_nothing("unbound");
}

#[test]
fn bind_answers_and_leaves_nothing_behind() {
    runs_and_leaves_nothing("bind");
}

#[test]
fn powerdns_recursor_answers_and_leaves_nothing_behind() {
    runs_and_leaves_nothing("pdns-recursor");
}

#[test]
fn knot_resolver_answers_and_leaves_nothing_behind() {
    runs_and_leaves_nothing("knot-resolver");
}

#[test]
fn coredns_answers_and_leaves_nothing_behind() {
    runs_and_leaves_nothing("coredns");
}

#[test]
fn an_address_that_is_taken_or_foreign_is_reported_at_once() {
    let taken = UdpSocket::bind("[::1]:0").unwrap();
    for listen in [taken.local_addr().unwrap(), "[2001:db8::77]:5353".parse().unwrap()] {
        for name in ["unbound", "bind"].into_iter().filter(|name| !skipped(name)) {
            let settings = settings(listen, "127.0.0.1:9".parse().unwrap());
            let error = start(peers::find(name).unwrap(), &settings).unwrap_err();
            assert!(error.to_string().starts_with(&format!("cannot listen at {listen}: ")), "{error}");
            assert_eq!(error.exit_code(), 3);
        }
    }
}

#[test]
fn a_server_that_dies_at_its_start_is_reported_with_its_own_words() {
    if skipped("unbound") {
        return;
    }
    let settings = settings(free_listen(), "127.0.0.1:9".parse().unwrap());
    let started = Instant::now();
    let misconfigured = Server {
        name: "misconfigured",
        files: &[("unbound.conf", "server:\n    mum-threads: 1\n")],
        confined_to: None,
        ..peers::find("unbound").unwrap().clone()
    };
    let error = start(&misconfigured, &settings).unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(10), "it is not waited for in vain");
    let text = error.to_string();
    assert!(matches!(error, PeerError::Died { .. }), "{text}");
    assert!(text.starts_with("misconfigured ended by itself (exit code 1); it said: "), "{text}");
    assert!(text.contains("unbound.conf"), "{text}");
    assert_eq!((text.lines().count(), error.exit_code()), (1, 3));
}

#[test]
fn a_missing_program_comes_with_the_command_that_installs_it() {
    let settings = settings(free_listen(), "127.0.0.1:9".parse().unwrap());
    let absent = Server {
        name: "absent",
        package: Some("absent-server"),
        program: "sextant-absent-server",
        ..peers::find("unbound").unwrap().clone()
    };
    let error = start(&absent, &settings).unwrap_err();
    assert!(error.to_string().ends_with("install it with: apt-get install absent-server"), "{error}");
    assert_eq!(error.exit_code(), 3);
    let unknown = peers::find("bnid").err().unwrap();
    let choice = "there is no peer 'bnid'; choose one of dns64d, dns64d-xdp, unbound, bind, ";
    assert!(unknown.to_string().starts_with(choice), "{unknown}");
    assert_eq!(unknown.exit_code(), 2);
}

#[test]
fn an_interrupted_start_ends_at_once_and_leaves_nothing() {
    if skipped("unbound") {
        return;
    }
    // The AuthDNS is silent, so the server never answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let settings = settings(free_listen(), silent.local_addr().unwrap());
    let probe = Probe::synthesized(Ipv4Addr::new(10, 0, 0, 1), &settings.suffix, &settings.prefix).unwrap();
    let listen = settings.listen;
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    let user = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        flag.store(true, Ordering::Relaxed);
    });
    let started = Instant::now();
    let error = peers::start(peers::find("unbound").unwrap(), settings, &probe, &interrupted).unwrap_err();
    user.join().unwrap();
    assert_eq!(error.to_string(), "interrupted while unbound was starting");
    assert!(started.elapsed() < Duration::from_secs(10));
    UdpSocket::bind(listen).expect("the server is gone");
}

#[test]
fn a_busy_child_is_seen_on_its_own_account() {
    let launch = Launch {
        label: "busy".into(),
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), "while :; do :; done".into()],
        ..Launch::default()
    };
    let mut child = Child::start(&launch, Scratch::new("busy", None).unwrap()).unwrap();
    let observer = Observer::new(&[child.pid()], &[]);
    let before = observer.snapshot();
    thread::sleep(Duration::from_millis(500));
    let seen = observer.snapshot().since(&before);
    child.check_alive().unwrap();
    let server = seen.server.as_ref().unwrap();
    assert!(server.cpu_ns > 50_000_000, "{seen:?}");
    assert_eq!(server.hottest_thread.as_ref().map(|thread| thread.name.as_str()), Some("sh"));
    assert!(server.memory_octets > 0 && server.memory_peak_octets >= server.memory_octets);
    let record = seen.to_record((1000, 500), 53);
    assert!(record.dut_cpu_pct.unwrap() > 10.0 && record.dut_cpu_us_per_query.unwrap() > 50.0);
    let twice = record.dut_cpu_us_per_query.map(|each| 2.0 * each);
    assert_eq!(record.dut_cpu_us_per_answer, twice, "every second query had an answer");
}
