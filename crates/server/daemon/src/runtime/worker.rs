//! One thread: wait, receive, let the machine work, send.

#[cfg(test)]
mod attack;
mod frames;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::bypass::Arrivals;
use server_core::client::{Channel, Client, StreamKind};
use server_core::machine::Shared;
use server_core::settings::Settings;
use server_core::stats::Stats;
use streams::NoAnswer;
use sys::poll::{Event as Ready, Events, Interest, Poller};
use sys::udp::{ReceiveBatch, UdpSocket};

use super::ServerError;
use super::board::SharedReport;
use super::bypass::{Queries, Rings};
use super::generation::{Generation, Senders};
use super::inbox::{Event, Inbox};
use super::judging::ValidationHandle;
use super::observer::{Observer, Services};
use super::outlet::{BATCH, ClientSide, StreamSide};
use super::ports::UpstreamSocket;
use super::renewal::Exchange;
use super::token::Token;
use crate::dnstap::Kind;

/// Room for one message of the kernel: a datagram, or several of one sender that it joined. Memory is used
/// only where messages are so long.
const MESSAGE_OCTETS: usize = 65_535;

/// How often the counters are published while there is work.
const PUBLISH_NS: u64 = 100_000_000;

/// How old a secret is when another one is taken in. Below a thousand rounds in a second that is in every
/// round.
const SECRET_NS: u64 = 1_000_000;

/// How long to wait for a device that took no frames: no event tells when it can.
const UNSENT_PAUSE_NS: u64 = 1_000_000;

/// The settings and sockets that a worker goes on with.
pub(super) struct NextGeneration {
    pub generation: u64,
    pub settings: Arc<Settings>,
    pub shared: Shared,
    pub seed: [u8; 32],
    pub upstreams: Vec<Vec<UpstreamSocket>>,
    /// Where new ones come from.
    pub exchange: Option<Arc<Exchange>>,
    /// For each upstream server its number in the generation before, if it is the same server.
    pub inherits: Vec<Option<usize>>,
    /// What of them goes past the stack.
    pub queries: Queries,
    /// Who judges the answers of some of these servers.
    pub judge: Option<ValidationHandle>,
    pub upstream_addresses: Vec<SocketAddr>,
    pub listener_addresses: Vec<SocketAddr>,
    /// New UDP sockets of clients, with their numbers and those of their listeners.
    pub open: Vec<(usize, UdpSocket, usize)>,
    /// Those that stay, likewise.
    pub keep: Vec<(usize, usize)>,
    pub close: Vec<usize>,
    /// This worker looks for loops.
    pub probes: bool,
}

/// Has a worker's poller report the sockets that the worker will go on with, before it knows of them: until
/// then it leaves alone what comes. After an error the sockets are closed, which takes them out again.
pub(super) fn watch(
    poller: &Poller,
    generation: u64,
    listeners: &[(usize, UdpSocket, usize)],
    upstreams: &[Vec<UpstreamSocket>],
) -> std::io::Result<()> {
    for (upstream, sockets) in upstreams.iter().enumerate() {
        for (socket, source) in sockets.iter().enumerate() {
            let token = Token::Upstream { generation: generation as u8, upstream, socket };
            poller.add(&source.socket, token.encode(), Interest::Read)?;
        }
    }
    listeners.iter().try_for_each(|(number, socket, _)| {
        poller.add(socket, Token::Listener(*number).encode(), Interest::Read)
    })
}

/// A machine, those before it that still have clients, and their sockets.
pub(super) struct Worker {
    poller: Arc<Poller>,
    inbox: Arc<Inbox>,
    board: Arc<SharedReport>,
    ways: Senders,
    current: Generation,
    retiring: Vec<Generation>,
    from_clients: ReceiveBatch,
    from_upstreams: ReceiveBatch,
    arrivals: Arrivals,
    taken: Vec<Event>,
    /// What machines that have ended counted.
    past: Stats,
    now_ns: u64,
    published_ns: u64,
    /// Where secrets come from, and when the last one was taken in.
    secrets: fn() -> std::io::Result<[u8; 32]>,
    renewed_ns: u64,
    stopping: bool,
}

impl Worker {
    /// A worker that has not begun. Its poller knows the sockets of its first generation ([`watch`]).
    pub fn new(
        mut first: NextGeneration,
        poller: Arc<Poller>,
        rings: Rings,
        streams: StreamSide,
        services: Services,
        inbox: Arc<Inbox>,
        board: Arc<SharedReport>,
    ) -> Result<Self, ServerError> {
        let (clients, observer) = (ClientSide::default(), Observer::new(services));
        let ways = Senders { clients, rings, streams, observer };
        let mut worker = Self {
            current: Generation::new(&mut first),
            retiring: Vec::new(),
            poller,
            inbox,
            board,
            ways,
            from_clients: ReceiveBatch::new(BATCH, MESSAGE_OCTETS),
            from_upstreams: ReceiveBatch::new(BATCH, MESSAGE_OCTETS),
            arrivals: Arrivals::default(),
            taken: Vec::new(),
            past: Stats::default(),
            now_ns: sys::clock::monotonic_ns(),
            published_ns: 0,
            secrets: sys::random::secret,
            renewed_ns: 0,
            stopping: false,
        };
        let watched = worker.poller.add(&worker.inbox.waker, Token::Inbox.encode(), Interest::Read);
        watched
            .and_then(|()| worker.ways.rings.watch(&worker.poller))
            .map_err(|error| ServerError::System("wait for a socket", error))?;
        worker.take_listeners(first);
        Ok(worker)
    }

    /// Works until it is told to stop.
    pub fn run(mut self) -> Result<Stats, ServerError> {
        let mut events = Events::with_capacity(BATCH);
        // What was begun before the first event leaves now.
        self.finish_round();
        while !self.stopping {
            let timeout = self.time_to_wait();
            self.poller
                .wait(&mut events, timeout)
                .map_err(|error| ServerError::System("wait for events", error))?;
            self.now_ns = sys::clock::monotonic_ns();
            self.renew_secret();
            for event in events.iter() {
                self.handle(event);
            }
            self.finish_round();
        }
        self.publish();
        Ok(self.stats())
    }

    /// Until the next timeout; not for ever while there is something to publish.
    fn time_to_wait(&mut self) -> Option<Duration> {
        let generations = std::iter::once(&self.current).chain(&self.retiring);
        let due_ns = generations
            .flat_map(|generation| {
                let end_ns = (generation.end_ns != u64::MAX).then_some(generation.end_ns);
                generation.machine.poll_timeout().into_iter().chain(end_ns)
            })
            .min();
        let publish_ns = (self.published_ns != 0).then_some(self.published_ns + PUBLISH_NS);
        let unsent_ns = self.ways.rings.has_pending().then(|| self.now_ns + UNSENT_PAUSE_NS);
        let due_ns = due_ns.into_iter().chain(publish_ns).chain(unsent_ns).min()?;
        Some(Duration::from_nanos(due_ns.saturating_sub(sys::clock::monotonic_ns())))
    }

    fn handle(&mut self, ready: Ready) {
        match Token::decode(ready.token) {
            Token::Inbox => self.open_inbox(),
            Token::Listener(number) => self.receive_from_clients(number),
            Token::Ring(number) => self.receive_from_ring(number),
            Token::Upstream { generation, upstream, socket } => {
                self.receive_from_upstream(generation, upstream, socket, ready.closed);
            }
        }
    }

    fn open_inbox(&mut self) {
        let mut taken = std::mem::take(&mut self.taken);
        self.inbox.take(&mut taken);
        for event in taken.drain(..) {
            match event {
                Event::Query(query) => self.take_stream_query(&query),
                Event::Answer { generation, token, octets } => {
                    self.take_stream_answer(generation, token, octets);
                }
                Event::Adopt(adoption) => self.adopt(*adoption),
                Event::GiveSign => self.inbox.pulse.answer(),
                Event::Stop => self.stopping = true,
            }
        }
        self.taken = taken;
    }

    fn receive_from_clients(&mut self, number: usize) {
        let Some((socket, listener)) = self.ways.clients.get(number) else { return };
        // A receive error concerns this call alone; what waits is reported again.
        let _ = self.from_clients.receive(socket);
        for datagram in self.from_clients.iter() {
            let channel = Channel::Udp { socket: number, local: datagram.local };
            let client = Client { address: datagram.from, listener, channel };
            self.ways.observer.client_query(&client, datagram.octets);
            self.current.with(&mut self.ways, |machine, out| {
                machine.handle_client(self.now_ns, client, datagram.octets, out);
            });
        }
    }

    fn receive_from_upstream(&mut self, generation: u8, upstream: usize, socket: usize, failed: bool) {
        let mut generations = std::iter::once(&mut self.current).chain(&mut self.retiring);
        let Some(generation) = generations.find(|known| known.number as u8 == generation) else { return };
        let Some(source) = generation.upstreams.get(upstream, socket) else { return };
        if failed && matches!(source.take_error(), Ok(Some(_))) {
            generation.upstreams.refused.push(upstream);
            return;
        }
        let _ = self.from_upstreams.receive(source);
        for datagram in self.from_upstreams.iter() {
            let address = generation.upstream_address(upstream);
            // Before it was connected the socket took datagrams from anybody.
            if address.is_some_and(|server| {
                server.ip() != datagram.from.ip() || server.port() != datagram.from.port()
            }) {
                continue;
            }
            self.ways.observer.upstream(address, false, Kind::ForwarderResponse, datagram.octets);
            generation.with(&mut self.ways, |machine, out| {
                machine.handle_upstream(self.now_ns, upstream, socket, datagram.octets, out);
            });
        }
    }

    fn take_stream_query(&mut self, query: &streams::Query) {
        let kind = match query.protocol {
            streams::Protocol::Tcp => StreamKind::Tcp,
            streams::Protocol::Tls => StreamKind::Tls,
            streams::Protocol::Https | streams::Protocol::Http3 => StreamKind::Https,
            streams::Protocol::Quic => StreamKind::Quic,
        };
        let channel = Channel::Stream { token: query.token, kind };
        let client = Client { address: query.client, listener: query.listener, channel };
        self.ways.observer.client_query(&client, &query.octets);
        self.current.with(&mut self.ways, |machine, out| {
            machine.handle_client(self.now_ns, client, &query.octets, out);
        });
    }

    fn take_stream_answer(&mut self, generation: u8, token: u64, octets: Result<Vec<u8>, NoAnswer>) {
        let mut generations = std::iter::once(&mut self.current).chain(&mut self.retiring);
        let Some(generation) = generations.find(|known| known.number as u8 == generation) else { return };
        if let Ok(octets) = &octets {
            self.ways.observer.upstream(None, true, Kind::ForwarderResponse, octets);
        }
        generation.with(&mut self.ways, |machine, out| match octets {
            Ok(octets) => machine.handle_upstream_stream(self.now_ns, token, Some(&octets), out),
            Err(NoAnswer::Lost) => machine.handle_upstream_stream(self.now_ns, token, None, out),
            Err(NoAnswer::Full) => machine.handle_upstream_stream_full(self.now_ns, token, out),
        });
    }

    /// Goes on with other settings, whose sockets are in the poller already: nothing can fail. What has begun
    /// with the old ones ends with them.
    fn adopt(&mut self, mut adoption: NextGeneration) {
        self.drain_rings();
        let mut next = Generation::new(&mut adoption);
        next.machine.inherit(&self.current.machine, &adoption.inherits);
        let mut before = std::mem::replace(&mut self.current, next);
        before.retire(self.now_ns);
        self.retiring.push(before);
        for &number in &adoption.close {
            self.drain(number);
        }
        let (probes, generation) = (adoption.probes, adoption.generation);
        self.take_listeners(adoption);
        self.inbox.set_generation(generation);
        self.probe(probes);
    }

    /// Answers what has come to a socket before it is closed.
    fn drain(&mut self, number: usize) {
        for _ in 0..BATCH {
            self.receive_from_clients(number);
            if self.from_clients.is_empty() {
                break;
            }
        }
        self.ways.clients.close(number);
    }

    fn take_listeners(&mut self, adoption: NextGeneration) {
        let octets = usize::from(adoption.settings.udp_payload_octets);
        for (number, listener) in adoption.keep {
            self.ways.clients.renumber(number, listener, octets);
        }
        for (number, socket, listener) in adoption.open {
            self.ways.clients.put(number, socket, listener, octets);
        }
        self.ways.rings.know(&self.ways.clients);
        self.ways.observer.listeners = adoption.listener_addresses;
        self.ways.observer.settings = adoption.settings;
    }

    /// Asks the upstream servers how they spell and, if this worker looks for `loops`, whether they ask us.
    pub fn probe(&mut self, loops: bool) {
        let now_ns = self.now_ns;
        self.current.with(&mut self.ways, |machine, out| machine.probe(now_ns, loops, out));
    }

    /// Ends what is over and sends everything.
    fn finish_round(&mut self) {
        let now_ns = self.now_ns;
        for generation in std::iter::once(&mut self.current).chain(&mut self.retiring) {
            generation.with(&mut self.ways, |machine, out| machine.handle_timeout(now_ns, out));
            generation.upstreams.flush();
            while let Some(upstream) = generation.upstreams.refused.pop() {
                generation.machine.handle_upstream_unreachable(now_ns, upstream);
            }
            generation.renew_sockets(&self.poller, &self.ways.rings, now_ns);
        }
        self.ways.clients.flush();
        self.ways.rings.flush();
        let past = &mut self.past;
        self.retiring.retain(|generation| {
            let over = generation.is_over(now_ns);
            if over {
                *past += *generation.machine.stats();
            }
            !over
        });
        if self.published_ns == 0 || now_ns >= self.published_ns + PUBLISH_NS {
            self.publish();
        }
    }

    /// What is drawn from now on follows from no state that a copy of this memory has: a snapshot of the
    /// virtual machine, for example, from which two go on. This is the first step of a round: a copy that has
    /// slept since the snapshot draws nothing that the other draws, too.
    fn renew_secret(&mut self) {
        if self.now_ns < self.renewed_ns + SECRET_NS {
            return;
        }
        self.renewed_ns = self.now_ns;
        for generation in std::iter::once(&mut self.current).chain(&mut self.retiring) {
            if let Ok(secret) = (self.secrets)() {
                generation.machine.renew_secret(secret);
            }
        }
    }

    fn stats(&self) -> Stats {
        let mut stats = self.past;
        for generation in std::iter::once(&self.current).chain(&self.retiring) {
            stats += *generation.machine.stats();
        }
        stats += self.ways.rings.repeated();
        stats
    }

    fn publish(&mut self) {
        let stats = self.stats();
        self.ways.rings.publish();
        let repeats = self.now_ns < self.ways.rings.repeats_until_ns();
        let Self { current, now_ns, published_ns, .. } = self;
        self.board.write(|report| {
            let news = repeats || report.stats != stats || report.generation != current.number;
            // Without news the next wait may be long.
            *published_ns = if news { *now_ns } else { 0 };
            report.stats = stats;
            report.generation = current.number;
            report.upstreams.clear();
            report.upstreams.extend(current.machine.upstream_counts(*now_ns));
        });
    }
}
