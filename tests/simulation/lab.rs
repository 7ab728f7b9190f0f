//! Measurer, server and AuthDNS joined by a simulated network.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::network::{Conditions, Host, Network, Packet};
use authdns::faults::{Counts, Faults};
use authdns::{
    ANSWER_OCTETS_MAX, Delayed, Observation, Observer, Query, Responder, Transport, Zone, ZoneConfig,
};
use dns64::Prefix;
use dns64::wire::Name;
use engine::lane::{Lane, LaneSpec};
use engine::pacer::{SECOND_NS, Schedule};
use engine::trial::{Circumstances, Validity, conclude};
use engine::verdict::Limits;
use engine::workload::{Variation, Workload, WorkloadSpec};
use hdrhistogram::Histogram;
use record::Trial;
use server_core::client::{Channel, Client};
use server_core::machine::{Notice, Shared};
use server_core::settings::Asking;
use server_core::{Machine, Output, Settings, Stats};

/// A server of known capacity.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// dns64d in front of the AuthDNS, or the AuthDNS alone.
    pub dns64: bool,
    /// Its processor time for each datagram, in ns.
    pub service_ns: u64,
    /// How many datagrams its receive buffer holds.
    pub buffer: usize,
    /// The network between all hosts.
    pub conditions: Conditions,
    /// The prefix it synthesizes under; the Measurer expects [`EXPECTED`].
    pub prefix: Prefix,
}

/// The prefix that the Measurer expects.
pub const EXPECTED: &str = "2001:db8:64::/96";

/// The virtual time at which a lab begins.
const BEGIN_NS: u64 = SECOND_NS;
/// Sockets of the Measurer, and of dns64d towards the AuthDNS.
const SOCKETS: usize = 4;

impl Planted {
    /// An authoritative server with a AAAA for every name.
    pub fn authoritative(conditions: Conditions) -> Self {
        Self { dns64: false, service_ns: 0, buffer: 0, conditions, prefix: EXPECTED.parse().unwrap() }
    }

    /// dns64d in front of an AuthDNS without AAAA records, which answers at once.
    pub fn dns64(conditions: Conditions) -> Self {
        Self { dns64: true, ..Self::authoritative(conditions) }
    }

    /// Client queries per second that its processor can do: dns64d takes three datagrams for each.
    pub fn capacity_qps(&self) -> u64 {
        SECOND_NS / self.service_ns / if self.dns64 { 3 } else { 1 }
    }
}

/// The hosts and the network between them.
pub struct Lab {
    planted: Planted,
    network: Network,
    host: Host,
    machine: Machine,
    auth: Auth,
    stall: Option<(u64, u64)>,
}

/// The AuthDNS, alone or behind dns64d, with what goes wrong with it.
struct Auth {
    zone: Arc<Zone>,
    responder: Responder,
    observer: Arc<Observer>,
    /// How often each fault befell an answer.
    faults: Counts,
    /// Answers over TCP to dns64d under way, with its tokens.
    over_tcp: Delayed<(u64, Vec<u8>)>,
}

impl Auth {
    fn new(zone: Zone) -> Self {
        let (zone, observer) = (Arc::new(zone), Observer::new(100_000));
        let responder = Responder::new(zone.clone(), None, Some(observer.clone()));
        Self { zone, responder, observer, faults: Counts::default(), over_tcp: Delayed::new(10_000) }
    }

    /// The answer and when and how often it leaves.
    fn answer(
        &mut self,
        now_ns: u64,
        octets: &[u8],
        from: SocketAddr,
        transport: Transport,
    ) -> (u64, u8, Vec<u8>) {
        let mut answer = [0; ANSWER_OCTETS_MAX];
        let query = Query { octets, from, transport, arrived_ns: now_ns };
        let reply = self.responder.respond(query, &mut answer);
        self.faults.count(reply.faults);
        (now_ns + reply.delay_ns, reply.copies, answer[..reply.answer.octets].to_vec())
    }

    /// Answers a datagram.
    fn answer_packet(&mut self, now_ns: u64, packet: &Packet, network: &mut Network) {
        let (at_ns, copies, octets) = self.answer(now_ns, &packet.octets, packet.from, Transport::Udp);
        for _ in 0..copies {
            network.send(at_ns, Packet { from: packet.to, to: packet.from, octets: octets.clone() });
        }
    }

    /// Answers over TCP, where a connection is opened before: four ways until the answer is there. No answer
    /// looks to dns64d like a closed connection.
    fn answer_tcp(&mut self, now_ns: u64, token: u64, query: &[u8], way_ns: u64) {
        let (at_ns, copies, octets) =
            self.answer(now_ns + 3 * way_ns, query, address(UPSTREAM_FROM), Transport::Tcp);
        let octets = if copies > 0 { octets } else { Vec::new() };
        self.over_tcp.push(at_ns + way_ns, (token, octets)).unwrap();
    }
}

fn address(port: u16) -> SocketAddr {
    ([0xfd00, 0, 0, 0, 0, 0, 0, 1], port).into()
}

/// The server listens here; its upstream sockets and the Measurer's sockets have ports counted from these.
const SERVER: u16 = 53;
const AUTH: u16 = 54;
const UPSTREAM_FROM: u16 = 1000;
const MEASURER_FROM: u16 = 2000;

impl Lab {
    /// A lab at rest.
    pub fn new(planted: Planted, seed: u64) -> Self {
        let asking = Asking { ports: SOCKETS, loop_probe: false, ..Asking::default() };
        let mut settings = Settings { asking, ..Settings::default() };
        let rule = settings.views[0].rule.as_mut().unwrap();
        rule.prefixes = vec![planted.prefix];
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&seed.to_ne_bytes());
        let aaaa_share_percent = if planted.dns64 { 0 } else { 100 };
        let zone = ZoneConfig { aaaa_share_percent, aaaa_prefix: planted.prefix, ..ZoneConfig::default() };
        Self {
            planted,
            network: Network::new(planted.conditions, seed),
            host: Host::new(planted.service_ns, planted.buffer),
            machine: Machine::new(Arc::new(settings.clone()), Shared::new(&settings, 0, secret), secret),
            auth: Auth::new(Zone::new(zone).unwrap()),
            stall: None,
        }
    }

    /// Lets the AuthDNS misbehave.
    pub fn misbehave(&mut self, faults: &[&str]) {
        let faults = Faults::new(1, faults.iter().map(|fault| fault.parse().unwrap()).collect());
        let Auth { zone, observer, .. } = &self.auth;
        self.auth.responder = Responder::new(zone.clone(), Some(Arc::new(faults)), Some(observer.clone()));
    }

    /// How often each fault befell an answer of the AuthDNS, and the queries that it saw.
    pub fn seen(&self) -> (Counts, Observation) {
        (self.auth.faults, self.auth.observer.take())
    }

    /// What dns64d counted.
    pub fn stats(&self) -> &Stats {
        self.machine.stats()
    }

    /// Stops the server for a while, `after_ns` after the first query.
    pub fn stall_at(&mut self, after_ns: u64, for_ns: u64) {
        self.stall = Some((BEGIN_NS + after_ns, for_ns));
    }

    /// Runs a trial from its first query to the last answer.
    pub fn trial(&mut self, rate_qps: u64, duration_ns: u64) -> Trial {
        self.trial_with_latencies(rate_qps, duration_ns).0
    }

    /// The same with the distribution of its latencies in ns.
    pub fn trial_with_latencies(&mut self, rate_qps: u64, duration_ns: u64) -> (Trial, Histogram<u64>) {
        let schedule = Schedule::new(BEGIN_NS, rate_qps, duration_ns);
        let spec = LaneSpec {
            schedule,
            lane: 0,
            lanes: 1,
            sockets: SOCKETS as u64,
            timeout_ns: SECOND_NS,
            listen_ns: 2 * SECOND_NS,
            log: false,
        };
        let mut lane = Lane::new(spec, workload());
        let mut now_ns = BEGIN_NS;
        while !lane.is_done(now_ns) {
            self.send_due(&mut lane, now_ns);
            self.deliver(&mut lane, now_ns);
            self.serve(now_ns);
            let timers = if self.planted.dns64 { self.machine.poll_timeout() } else { None };
            let stall = self.stall.map(|(at_ns, _)| at_ns);
            let events = [
                lane.next_due_ns(),
                self.network.next_at_ns(),
                self.host.next_at_ns(),
                timers,
                stall,
                self.auth.over_tcp.next_due_ns(),
                Some(lane.listen_until_ns()),
            ];
            let next_ns = events.into_iter().flatten().min().unwrap_or(now_ns);
            now_ns = now_ns.max(next_ns);
        }
        let stats = lane.finish();
        let limits = Limits::for_timeout(SECOND_NS);
        let trial = conclude(&schedule, &stats, &Circumstances::default(), &limits, Validity::Strict);
        (trial, stats.latency_ns)
    }

    fn send_due(&mut self, lane: &mut Lane, now_ns: u64) {
        while let Some(batch) = lane.due(now_ns) {
            for _ in 0..batch.queries {
                let mut buffer = [0; 512];
                let length = lane.write(now_ns, &mut buffer);
                let from = address(MEASURER_FROM + batch.socket as u16);
                self.network
                    .send(now_ns, Packet { from, to: address(SERVER), octets: buffer[..length].to_vec() });
            }
        }
    }

    /// Hands over what has arrived. The AuthDNS behind dns64d answers at once.
    fn deliver(&mut self, lane: &mut Lane, now_ns: u64) {
        while let Some(packet) = self.network.receive(now_ns) {
            match packet.to.port() {
                AUTH => self.auth.answer_packet(now_ns, &packet, &mut self.network),
                port if port >= MEASURER_FROM => {
                    lane.receive(now_ns, usize::from(port - MEASURER_FROM), &packet.octets);
                }
                _ => self.host.arrive(now_ns, packet),
            }
        }
    }

    /// Lets the server do what its processor has time for.
    fn serve(&mut self, now_ns: u64) {
        if let Some((_, for_ns)) = self.stall.take_if(|(at_ns, _)| *at_ns <= now_ns) {
            self.host.stall(now_ns, for_ns);
        }
        let way_ns = self.planted.conditions.delay_ns;
        let mut wire = Wire { network: &mut self.network, auth: &mut self.auth, now_ns, way_ns };
        if self.planted.dns64 {
            self.machine.handle_timeout(now_ns, &mut wire);
            while let Some((token, octets)) = wire.auth.over_tcp.pop_due(now_ns) {
                let answer = Some(&octets[..]).filter(|octets| !octets.is_empty());
                self.machine.handle_upstream_stream(now_ns, token, answer, &mut wire);
            }
        }
        while let Some(packet) = self.host.serve(now_ns) {
            if !self.planted.dns64 {
                wire.auth.answer_packet(now_ns, &packet, wire.network);
                continue;
            }
            if packet.from.port() == AUTH {
                let socket = usize::from(packet.to.port() - UPSTREAM_FROM);
                self.machine.handle_upstream(now_ns, 0, socket, &packet.octets, &mut wire);
            } else {
                let channel = Channel::Udp { socket: 0, local: None };
                let client = Client { address: packet.from, listener: 0, channel };
                self.machine.handle_client(now_ns, client, &packet.octets, &mut wire);
            }
        }
    }
}

/// dns64d's way out.
struct Wire<'n> {
    network: &'n mut Network,
    auth: &'n mut Auth,
    now_ns: u64,
    /// The delay of the network in one direction.
    way_ns: u64,
}

impl Output for Wire<'_> {
    fn to_client(&mut self, client: &Client, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut buffer = [0; 1232];
        let length = write(&mut buffer);
        if length > 0 {
            let octets = buffer[..length].to_vec();
            self.network.send(self.now_ns, Packet { from: address(SERVER), to: client.address, octets });
        }
    }

    fn to_upstream(&mut self, _: usize, socket: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut buffer = [0; 512];
        let length = write(&mut buffer);
        let from = address(UPSTREAM_FROM + socket as u16);
        self.network.send(self.now_ns, Packet { from, to: address(AUTH), octets: buffer[..length].to_vec() });
    }

    fn to_upstream_stream(&mut self, _: usize, token: u64, query: &[u8]) {
        self.auth.answer_tcp(self.now_ns, token, query, self.way_ns);
    }

    fn no_answer(&mut self, _: &Client) {}

    fn notice(&mut self, _: Notice) {}
}

fn workload() -> Workload {
    Workload::new(WorkloadSpec {
        names: "10.0.0.0/8".parse().unwrap(),
        first_name: 0,
        suffix: Name::from_text("dns64perf.test").unwrap(),
        prefix: EXPECTED.parse().unwrap(),
        native: None,
        edns_octets: None,
        variation: Variation::default(),
    })
    .unwrap()
}
