//! The machine's counters before and after a trial, and what happened between.
//!
//! The counters show where queries were lost and what limited a rate. Only the processor times of
//! [`LoadMeter`] are read while the trial runs, too.

mod buffers;
pub(super) mod cpu;
mod device;
mod listeners;
mod load;
mod network;
mod process;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sys::link::Device;

pub use buffers::receive_buffer_of;
pub use cpu::CpuTimes;
use cpu::parse_cpus;
pub use device::DeviceLosses;
pub use listeners::listeners;
pub use load::{LoadMeter, LoadReading};
pub(super) use network::parse_softnet;
pub use network::{PortCounters, Softnet, UdpErrors};
pub use process::{ProcessCounters, ProcessUse, ThreadUse, allowed_cpus};

/// Knows what to read.
#[derive(Clone, Debug)]
pub struct Observer {
    server: Vec<u32>,
    ports: Vec<u16>,
    device: Option<Device>,
    ticks_per_second: u64,
}

/// All counters at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    taken_ns: u64,
    cpus: BTreeMap<usize, CpuTimes>,
    server: Option<ProcessCounters>,
    tester: ProcessCounters,
    ports: BTreeMap<u16, PortCounters>,
    udp: UdpErrors,
    udp6: UdpErrors,
    server_udp: Option<[UdpErrors; 2]>,
    softnet: Softnet,
    device: Option<(Device, BTreeMap<String, u64>)>,
}

/// What happened between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Observation {
    /// Wall-clock time in nanoseconds.
    pub elapsed_ns: u64,
    /// The server, if its process is known and there was one at both moments.
    pub server: Option<ProcessUse>,
    /// This process: Measurer and AuthDNS.
    pub tester: ProcessUse,
    /// Each processor, by its number.
    pub cpus: BTreeMap<usize, CpuTimes>,
    /// Processor time of everything that is neither Tester nor server, in nanoseconds. Time in interrupts
    /// that the kernel does not charge to a program counts here.
    pub foreign_cpu_ns: u64,
    /// Time in interrupts, hard and soft, all processors, in nanoseconds.
    pub interrupt_ns: u64,
    /// Processor time taken by the hypervisor, all processors, in nanoseconds.
    pub steal_ns: u64,
    /// The ports watched: `drops` since the first snapshot, the rest as at the end.
    pub ports: BTreeMap<u16, PortCounters>,
    /// UDP over IPv4, the whole namespace.
    pub udp: UdpErrors,
    /// UDP over IPv6, the whole namespace.
    pub udp6: UdpErrors,
    /// UDP over both, in the server's namespace, where that is another.
    pub server_udp: Option<[UdpErrors; 2]>,
    /// Before any socket, the whole machine.
    pub softnet: Softnet,
    /// The device that the queries leave by, if one is watched.
    pub device: Option<DeviceLosses>,
}

impl Observer {
    /// Watches this process, those of the server as far as they are known, and the server's sockets on these
    /// UDP ports.
    pub fn new(server: &[u32], ports: &[u16]) -> Self {
        let ticks_per_second = sys::process::ticks_per_second();
        Self { server: server.to_vec(), ports: ports.to_vec(), device: None, ticks_per_second }
    }

    /// Watches this device too.
    #[must_use]
    pub fn with_device(self, device: Option<Device>) -> Self {
        Self { device, ..self }
    }

    /// Whether the server is known, and in another network namespace than the calling thread.
    fn server_is_elsewhere(&self) -> bool {
        let Some(pid) = self.server.first() else { return false };
        let namespace = |path: &str| fs::read_link(path).ok();
        let theirs = namespace(&format!("/proc/{pid}/ns/net"));
        theirs.is_some() && theirs != namespace("/proc/thread-self/ns/net")
    }

    /// Reads all counters. Files that are absent count as zeros.
    ///
    /// The network's are those of the calling thread's namespace, the sockets those of the server's, if it is
    /// known.
    pub fn snapshot(&self) -> Snapshot {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let own = |name: &str| read(&format!("/proc/thread-self/net/{name}"));
        let server = self.server.first();
        let of_server =
            |name: &str| server.map_or_else(|| own(name), |pid| read(&format!("/proc/{pid}/net/{name}")));
        let sockets = ["udp", "udp6"].map(of_server);
        let port_counters = |&port: &u16| {
            let mut counters = PortCounters::default();
            sockets.iter().for_each(|text| network::count_port(text, port, &mut counters));
            (port, counters)
        };
        Snapshot {
            taken_ns: sys::clock::monotonic_ns(),
            cpus: parse_cpus(&read("/proc/stat"), self.ticks_per_second),
            server: ProcessCounters::of_all(&self.server),
            tester: ProcessCounters::read(Path::new("/proc/self"), self.ticks_per_second).unwrap_or_default(),
            ports: self.ports.iter().map(port_counters).collect(),
            udp: network::parse_snmp(&own("snmp")),
            udp6: network::parse_snmp6(&own("snmp6")),
            server_udp: self.server_is_elsewhere().then(|| {
                [network::parse_snmp(&of_server("snmp")), network::parse_snmp6(&of_server("snmp6"))]
            }),
            softnet: parse_softnet(&own("softnet_stat")),
            device: self.device.as_ref().map(|device| (device.clone(), device::read(device))),
        }
    }
}

impl Snapshot {
    /// What happened since an earlier snapshot of the same observer.
    pub fn since(&self, earlier: &Self) -> Observation {
        let cpus = self.cpus.iter().map(|(&cpu, now)| {
            let before = earlier.cpus.get(&cpu).copied().unwrap_or_default();
            (cpu, now.since(&before))
        });
        let cpus: BTreeMap<_, _> = cpus.collect();
        let total = cpus.values().fold(CpuTimes::default(), |sum, cpu| sum.plus(cpu));
        let server = self.server.as_ref().zip(earlier.server.as_ref()).map(|(now, before)| now.since(before));
        let tester = self.tester.since(&earlier.tester);
        let server_ns = server.as_ref().map_or(0, |server| server.cpu_ns);
        let ports = self.ports.iter().map(|(&port, now)| {
            let before = earlier.ports.get(&port).map_or(0, |counters| counters.drops);
            (port, PortCounters { drops: now.drops.saturating_sub(before), ..*now })
        });
        let device = self.device.as_ref().zip(earlier.device.as_ref());
        Observation {
            elapsed_ns: self.taken_ns.saturating_sub(earlier.taken_ns),
            foreign_cpu_ns: total.busy_ns().saturating_sub(tester.cpu_ns).saturating_sub(server_ns),
            interrupt_ns: total.interrupt_ns,
            steal_ns: total.steal_ns,
            server,
            tester,
            cpus,
            ports: ports.collect(),
            udp: self.udp.since(&earlier.udp),
            udp6: self.udp6.since(&earlier.udp6),
            server_udp: self
                .server_udp
                .zip(earlier.server_udp)
                .map(|(now, before)| std::array::from_fn(|family| now[family].since(&before[family]))),
            softnet: self.softnet.since(&earlier.softnet),
            device: device.map(|((device, now), (_, before))| device::losses(device, now, before)),
        }
    }
}

impl Observation {
    /// Packets that the device of the queries certainly lost, in either direction, when sockets reported so
    /// many errors of sending. What a socket sends and the device or its queue drops, UDP counts as an error
    /// of the send buffer, and so it does what a socket refuses.
    pub fn own_device_drops(&self, send_errors: u64) -> u64 {
        let Some(device) = &self.device else { return 0 };
        let queued = self.udp.send_buffer_errors.saturating_add(self.udp6.send_buffer_errors);
        device.tx.max(queued.saturating_sub(send_errors)).saturating_add(device.rx)
    }

    /// Packets dropped between devices and sockets: for a full backlog, anywhere on this machine, and for
    /// other reasons that concern the device of the queries. The kernel counts some twice: a veth what its
    /// peer's backlog refuses, a device what the backlog behind it refuses.
    pub fn kernel_drops(&self) -> (u64, u64) {
        let (tx, discarded) = self.device.as_ref().map_or((0, 0), |device| (device.tx, device.rx_discarded));
        (self.softnet.dropped.saturating_sub(tx), discarded.saturating_sub(self.softnet.dropped))
    }

    /// The part that the record of a trial carries; the caller adds what only the AuthDNS knows.
    ///
    /// `sent` is the number of queries of the trial, `answers` of those that got an answer that counts, and
    /// `server_port` the port they went to.
    pub fn to_record(&self, (sent, answers): (u64, u64), server_port: u16) -> record::Observation {
        let percent = |time_ns: u64| time_ns as f64 * 100.0 / self.elapsed_ns.max(1) as f64;
        let each = |time_ns: u64, of: u64| (of > 0).then(|| time_ns as f64 / 1e3 / of as f64);
        let server = self.server.as_ref();
        let hottest = server.and_then(|server| server.hottest_thread.as_ref());
        record::Observation {
            elapsed_s: self.elapsed_ns as f64 / 1e9,
            dut_cpu_us_per_query: server.and_then(|server| each(server.cpu_ns, sent)),
            dut_cpu_us_per_answer: server.and_then(|server| each(server.cpu_ns, answers)),
            dut_cpu_pct: server.map(|server| percent(server.cpu_ns)),
            dut_hottest_thread_pct: hottest.map(|thread| percent(thread.cpu_ns)),
            dut_hottest_thread: hottest.map(|thread| thread.name.clone()),
            dut_memory_octets: server.map(|server| server.memory_octets),
            dut_socket_drops: self
                .ports
                .get(&server_port)
                .filter(|port| port.sockets > 0)
                .map(|port| port.drops),
            dut_sockets: self.ports.get(&server_port).map(|port| port.sockets).filter(|&sockets| sockets > 0),
            dut_datagrams_in: self
                .server_udp
                .map(|families| families.iter().map(|udp| udp.datagrams_in).sum()),
            dut_datagrams_out: self
                .server_udp
                .map(|families| families.iter().map(|udp| udp.datagrams_out).sum()),
            tester_cpu_us_per_query: each(self.tester.cpu_ns, sent),
            foreign_cpu_pct: Some(percent(self.foreign_cpu_ns)),
            interrupt_pct: Some(percent(self.interrupt_ns)),
            steal_pct: Some(percent(self.steal_ns)),
            softnet_drops: Some(self.softnet.dropped),
            device: self.device.as_ref().map(|device| device.name.clone()),
            device_tx_drops: self.device.as_ref().map(|device| device.tx),
            device_rx_drops: self.device.as_ref().map(|device| device.rx),
            device_rx_discards: self.device.as_ref().map(|device| device.rx_discarded),
            device_counters: self
                .device
                .as_ref()
                .map_or_else(BTreeMap::new, |device| device.counters.clone()),
            udp_in_errors: Some(self.udp.in_errors + self.udp6.in_errors),
            udp_receive_buffer_errors: Some(self.udp.receive_buffer_errors + self.udp6.receive_buffer_errors),
            udp_send_buffer_errors: Some(self.udp.send_buffer_errors + self.udp6.send_buffer_errors),
            ..record::Observation::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    #[test]
    fn drops_of_a_socket_are_seen_on_its_port_only() {
        let full = UdpSocket::bind("[::1]:0").unwrap();
        let other = UdpSocket::bind("[::1]:0").unwrap();
        let sender = UdpSocket::bind("[::1]:0").unwrap();
        let (port, other_port) = (full.local_addr().unwrap().port(), other.local_addr().unwrap().port());
        let observer = Observer::new(&[], &[port, other_port]);
        let before = observer.snapshot();
        // More than any default receive buffer takes; nobody reads.
        let datagrams = 50_000u64;
        for _ in 0..datagrams {
            sender.send_to(&[0; 512], full.local_addr().unwrap()).unwrap();
        }
        let seen = observer.snapshot().since(&before);
        let drops = seen.ports[&port].drops;
        assert!(drops > 0 && drops < datagrams, "{drops}");
        assert_eq!(seen.ports[&other_port].drops, 0);
        assert!(!seen.ports.contains_key(&1));
        assert!(seen.udp6.receive_buffer_errors >= drops);
        assert!(seen.ports[&port].queued_octets > 0 && seen.ports[&port].sockets == 1);
        assert_eq!(seen.to_record((datagrams, 0), port).dut_socket_drops, Some(drops));
        assert_eq!(seen.to_record((datagrams, 0), 1).dut_socket_drops, None);
    }

    #[test]
    fn work_of_this_process_is_ours_and_not_foreign() {
        let observer = Observer::new(&[std::process::id()], &[]);
        let before = observer.snapshot();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            black_box(start);
        }
        let seen = observer.snapshot().since(&before);
        assert!(seen.elapsed_ns >= 300_000_000);
        // Other programs may take the processor away, but not all of it.
        assert!(seen.tester.cpu_ns > 50_000_000, "{seen:?}");
        // As a server it counts with what other tests have started meanwhile.
        assert!(seen.server.as_ref().is_some_and(|server| server.threads > 0), "{seen:?}");
        let hottest = seen.tester.hottest_thread.as_ref().unwrap();
        assert!(hottest.cpu_ns <= seen.tester.cpu_ns && !hottest.name.is_empty());
        let busy_ns: u64 = seen.cpus.values().map(CpuTimes::busy_ns).sum();
        assert!(seen.foreign_cpu_ns <= busy_ns);
        let json = serde_json::to_string(&seen).unwrap();
        assert_eq!(serde_json::from_str::<Observation>(&json).unwrap(), seen);
    }

    #[test]
    fn no_drop_is_counted_at_two_places() {
        let seen = |tx, rx, rx_discarded, softnet, send_buffer| Observation {
            device: Some(DeviceLosses { tx, rx, rx_discarded, ..DeviceLosses::default() }),
            softnet: Softnet { dropped: softnet, squeezed: 0 },
            udp: UdpErrors { send_buffer_errors: send_buffer, ..UdpErrors::default() },
            ..Observation::default()
        };
        let drops =
            |seen: Observation, send_errors| (seen.own_device_drops(send_errors), seen.kernel_drops());
        assert_eq!(drops(seen(200, 0, 0, 0, 199), 0), (200, (0, 0)), "a veth and UDP count the same");
        assert_eq!(
            drops(seen(0, 0, 0, 0, 30), 10),
            (20, (0, 0)),
            "the device's queue, and a full send buffer"
        );
        assert_eq!(drops(seen(50, 3, 0, 70, 0), 0), (53, (20, 0)), "the backlog of a veth's peer");
        assert_eq!(drops(seen(0, 0, 70, 60, 0), 0), (0, (60, 10)), "the backlog behind the device");
        assert_eq!(Observation::default().own_device_drops(0), 0);
    }

    #[test]
    fn a_process_that_is_not_there_is_not_observed() {
        let observer = Observer::new(&[u32::MAX], &[]);
        let before = observer.snapshot();
        let seen = observer.snapshot().since(&before);
        assert_eq!(seen.server, None);
        assert_eq!(seen.to_record((0, 0), 53).dut_cpu_pct, None);
        assert_eq!(seen.to_record((0, 0), 53).tester_cpu_us_per_query, None);
    }
}
