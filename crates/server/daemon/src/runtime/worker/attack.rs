//! Attacks on what one worker keeps from one moment to the next.

use std::io;
use std::net::{self, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use dns64::rewrite::append_edns;
use dns64::wire::{
    CLASS_IN, Edns, Header, Message, Name, Options, Question, Writer, append_option, option_code, rtype,
};
use server_core::own_sockets::OwnSockets;
use streams::Streams;

use super::*;
use crate::config::Config;
use crate::log::Log;
use crate::runtime::ports::{Opener, Ports, Reserved};
use crate::runtime::sockets;

/// Nothing here takes so long but what never comes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A worker, its only client and its only upstream server.
struct Bench {
    config: Config,
    shared: Shared,
    opener: Opener,
    poller: Arc<Poller>,
    inbox: Arc<Inbox>,
    thread: JoinHandle<Result<Stats, ServerError>>,
    client: net::UdpSocket,
    server: net::UdpSocket,
    _streams: Streams,
}

impl Bench {
    /// Starts a worker that takes its secrets from there.
    fn start(secrets: fn() -> io::Result<[u8; 32]>) -> Self {
        let server = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = server.local_addr().unwrap();
        let config = format!("upstreams = ['{address}']\nupstream.loop_probe = false\ncache.size_mib = 1\n");
        let config = Config::parse(&config, "test.toml").unwrap();
        // The ports may differ: two workers cannot have the same.
        let (ports, secret) = (Ports::new(&Reserved::default(), &config), sys::random::secret().unwrap());
        let mut opener = Opener::new(ports, Arc::new(OwnSockets::new()), secret);
        let shared = Shared::new(&config.settings, config.cache_octets, [7; 32]);
        let listener = sockets::listener("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let poller = Arc::new(Poller::new().unwrap());
        let mut first = next(&config, &shared, &mut opener, &poller, 0);
        first.open = vec![(0, listener, 0)];
        watch(&poller, 0, &first.open, &[]).unwrap();
        let inbox = Arc::new(Inbox::new("test").unwrap());
        let streams = Streams::start("test", 0, |_| {}, |_| {}).unwrap();
        let services = Services { log: Log::start(&config.log).unwrap(), tap: None };
        let way = StreamSide::new(streams.handle(), 0);
        let (rings, board) = (Rings::default(), Arc::default());
        let worker = Worker::new(first, poller.clone(), rings, way, services, inbox.clone(), board);
        let mut worker = worker.unwrap();
        worker.secrets = secrets;
        let thread = std::thread::spawn(move || worker.run());
        Self { config, shared, opener, poller, inbox, thread, client, server, _streams: streams }
    }

    /// The client asks for the address of a name, and this is the query to the upstream server.
    fn ask(&self, name: &str) -> (Vec<u8>, SocketAddr) {
        let question = Question { name: Name::from_text(name).unwrap(), qtype: rtype::A, qclass: CLASS_IN };
        let mut octets = [0; 512];
        let length = Writer::new(&mut octets, 1, Header::RD, &question).unwrap().finish();
        self.client.send(&octets[..length]).unwrap();
        loop {
            let mut query = vec![0; 512];
            let (length, from) = self.server.recv_from(&mut query).unwrap();
            query.truncate(length);
            // Another try for another name may come between.
            if Message::parse(&query).unwrap().question() == question {
                return (query, from);
            }
        }
    }

    fn id(&self, name: &str) -> u16 {
        Message::parse(&self.ask(name).0).unwrap().header.id
    }

    fn stop(self) {
        self.inbox.push(Event::Stop);
        self.thread.join().unwrap().unwrap();
    }
}

/// What a reload with the same configuration prepares. The listening socket stays.
fn next(
    config: &Config,
    shared: &Shared,
    opener: &mut Opener,
    poller: &Poller,
    generation: u64,
) -> NextGeneration {
    let upstreams = sockets::upstream_sockets(config, opener).unwrap();
    watch(poller, generation, &[], &upstreams).unwrap();
    NextGeneration {
        generation,
        settings: Arc::new(config.settings.clone()),
        shared: shared.clone(),
        seed: [7; 32],
        upstreams,
        exchange: None,
        inherits: vec![Some(0)],
        queries: Queries::default(),
        judge: None,
        upstream_addresses: config.upstreams.iter().map(|upstream| upstream.address).collect(),
        listener_addresses: Vec::new(),
        open: Vec::new(),
        keep: vec![(0, 0)],
        close: Vec::new(),
        probes: false,
    }
}

/// Whether the machine went on twice from its snapshot.
static COPIED: AtomicBool = AtomicBool::new(false);

/// A generator that gives nothing before the copy is made, so that both workers have one state until then.
fn secret_after_the_copy(secret: [u8; 32]) -> io::Result<[u8; 32]> {
    if COPIED.load(Ordering::SeqCst) { Ok(secret) } else { Err(io::Error::other("not yet")) }
}

/// A snapshot of an idle machine goes on twice. What the two draw first has nothing in common: neither shows
/// the IDs of the other.
#[test]
fn attack_two_copies_of_an_idle_worker_draw_different_ids() {
    let benches =
        [Bench::start(|| secret_after_the_copy([1; 32])), Bench::start(|| secret_after_the_copy([2; 32]))];
    let ids = |names: [&str; 2]| [&benches[0], &benches[1]].map(|bench| names.map(|name| bench.id(name)));
    let [one, other] = ids(["a.example.com", "b.example.com"]);
    assert_eq!(one, other, "the two have one state");
    // The counters of the rounds before are published meanwhile.
    std::thread::sleep(Duration::from_nanos(3 * PUBLISH_NS));
    COPIED.store(true, Ordering::SeqCst);
    let [one, other] = ids(["c.example.com", "d.example.com"]);
    assert!(one[0] != other[0] || one[1] != other[1], "both draw {one:?}");
    benches.into_iter().for_each(Bench::stop);
}

/// The COOKIE option of a query.
fn cookie(query: &[u8]) -> Vec<u8> {
    Options::of(&Message::parse(query).unwrap()).find(option_code::COOKIE).unwrap().to_vec()
}

/// The cookie of an upstream server is known from the first query after a reload on. Without it, forged
/// answers would pass until the server had said its cookie once more.
#[test]
fn attack_a_reload_of_a_worker_leaves_no_moment_without_the_known_cookie() {
    let mut bench = Bench::start(sys::random::secret);
    let (query, from) = bench.ask("a.example.com");
    let client_cookie = cookie(&query);
    assert_eq!(client_cookie.len(), 8, "no server cookie is known");
    let known = [&client_cookie[..], &[9; 16]].concat();
    let mut reply = vec![0; 512];
    let head = Message::parse(&query).unwrap();
    let flags = Header::QR | Header::RA | Header::RD;
    let length = Writer::new(&mut reply, head.header.id, flags, &head.question()).unwrap().finish();
    let edns = Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: false };
    let length = append_edns(&mut reply, length, &edns);
    let length = append_option(&mut reply, length, option_code::COOKIE, &known);
    bench.server.send_to(&reply[..length], from).unwrap();
    bench.client.recv(&mut [0; 512]).unwrap();
    assert_eq!(cookie(&bench.ask("b.example.com").0), known, "it is known before");
    let adoption = next(&bench.config, &bench.shared, &mut bench.opener, &bench.poller, 1);
    bench.inbox.push(Event::Adopt(Box::new(adoption)));
    bench.inbox.wait_adopted(1, std::time::Instant::now() + PATIENCE);
    assert_eq!(cookie(&bench.ask("c.example.com").0), known, "and after");
    bench.stop();
}
