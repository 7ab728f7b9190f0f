//! Measurer, server and AuthDNS joined by a simulated network.

use std::net::SocketAddr;

use dns64::Prefix;
use dns64::wire::Name;
use engine::lane::{Lane, LaneSpec};
use engine::pacer::{SECOND_NS, Schedule};
use engine::record::Trial;
use engine::trial::{OwnFaults, Tolerance, Validity, conclude};
use engine::workload::{Variation, Workload, WorkloadSpec};
use hdrhistogram::Histogram;
use net::sim::{Conditions, Host, Network, Packet};
use sextant::authority::{ANSWER_OCTETS_MAX, Transport, Zone, ZoneConfig};
use sextant::proxy::inflight::{Channel, Client};
use sextant::proxy::{Machine, Output, Settings};

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
    zone: Zone,
    stall: Option<(u64, u64)>,
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
        let mut settings = Settings { ports: SOCKETS, ..Settings::default() };
        settings.rule.prefixes = vec![planted.prefix];
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&seed.to_ne_bytes());
        let aaaa_share_percent = if planted.dns64 { 0 } else { 100 };
        let zone = ZoneConfig { aaaa_share_percent, aaaa_prefix: planted.prefix, ..ZoneConfig::default() };
        Self {
            planted,
            network: Network::new(planted.conditions, seed),
            host: Host::new(planted.service_ns, planted.buffer),
            machine: Machine::new(settings, secret),
            zone: Zone::new(zone).unwrap(),
            stall: None,
        }
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
                Some(lane.listen_until_ns()),
            ];
            let next_ns = events.into_iter().flatten().min().unwrap_or(now_ns);
            now_ns = now_ns.max(next_ns);
        }
        let stats = lane.finish();
        let tolerance = Tolerance::for_timeout(SECOND_NS);
        let trial = conclude(&schedule, &stats, OwnFaults::default(), &tolerance, Validity::Strict);
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
                AUTH => {
                    let mut answer = [0; ANSWER_OCTETS_MAX];
                    let length = self.zone.respond(&packet.octets, Transport::Udp, &mut answer);
                    let octets = answer[..length].to_vec();
                    self.network.send(now_ns, Packet { from: packet.to, to: packet.from, octets });
                }
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
        let mut wire = Wire { network: &mut self.network, now_ns };
        if self.planted.dns64 {
            self.machine.handle_timeout(now_ns, &mut wire);
        }
        while let Some(packet) = self.host.serve(now_ns) {
            if !self.planted.dns64 {
                let mut answer = [0; ANSWER_OCTETS_MAX];
                let length = self.zone.respond(&packet.octets, Transport::Udp, &mut answer);
                let octets = answer[..length].to_vec();
                wire.network.send(now_ns, Packet { from: packet.to, to: packet.from, octets });
                continue;
            }
            self.machine.begin_batch();
            if packet.from.port() == AUTH {
                let socket = usize::from(packet.to.port() - UPSTREAM_FROM);
                self.machine.handle_upstream(now_ns, 0, socket, &packet.octets, &mut wire);
            } else {
                let client =
                    Client { address: packet.from, channel: Channel::Udp { socket: 0, local: None } };
                self.machine.handle_client(now_ns, client, &packet.octets, &mut wire);
            }
        }
    }
}

/// dns64d's way out.
struct Wire<'n> {
    network: &'n mut Network,
    now_ns: u64,
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

    fn to_upstream_tcp(&mut self, _: u64, _: usize, _: &[u8]) {
        panic!("nothing in this lab is truncated");
    }
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
