//! The Measurer in the kernel between two namespaces: every query and every answer is accounted for.

mod support;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;

use dns64::wire::Name;
use engine::workload::{Workload, WorkloadSpec};
use net::bpf;
use net::kernel::{self, Expected, Reflector, ReflectorCounters};
use net::link::path_to;
use net::measure::{Measured, Plan};
use net::transport::UdpConfig;
use support::{PEER, Pair, can_run, device};

const SECOND_NS: u64 = 1_000_000_000;

fn spec() -> WorkloadSpec {
    WorkloadSpec {
        names: "10.0.0.0/8".parse().unwrap(),
        first_name: 0,
        suffix: Name::from_text("dns64perf.test").unwrap(),
        prefix: "2001:db8:64::/96".parse().unwrap(),
        native: None,
        edns_octets: None,
    }
}

fn plan(rate_qps: u64, duration_ns: u64, sockets: usize) -> Plan {
    // The server is that of the path.
    let server = "[::1]:0".parse().unwrap();
    Plan {
        rate_qps,
        duration_ns,
        timeout_ns: SECOND_NS,
        listen_ns: SECOND_NS,
        udp: UdpConfig { server, sockets, receive_buffer_octets: 0 },
        prioritized: false,
    }
}

fn server(family: usize, port: u16) -> SocketAddr {
    SocketAddr::new(PEER[family].parse::<IpAddr>().unwrap(), port)
}

fn run(plan: &Plan, spec: WorkloadSpec, server: SocketAddr, expected: Expected, cpus: &[usize]) -> Measured {
    let path = path_to(server).unwrap();
    let workload = Workload::new(spec).unwrap();
    kernel::run(plan, &workload, &path, expected, cpus, &AtomicBool::new(false)).unwrap()
}

#[test]
fn a_reflector_returns_every_query() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let reflector = pair.peer(|| Reflector::start(device(), 5300, None).unwrap());
    let cpus = net::cpu::available();
    let mut asked = 0;
    // Families, lengths of name and query, numbers of lanes and ports.
    for (family, suffix, edns_octets, lanes, sockets) in [
        (0, "dns64perf.test", None, 1, 64),
        (1, "dns64perf.test", Some(1232), cpus.len(), 4096),
        (1, "t", None, cpus.len(), 1),
        (0, "a-label-of-31-characters-is-here.and-this-is-one-of-27-letters", Some(4096), 1, 7),
    ] {
        let suffix = Name::from_text(suffix).unwrap();
        let spec = WorkloadSpec { suffix, edns_octets, first_name: 1 << 23, ..spec() };
        let plan = plan(7001, SECOND_NS / 2, sockets);
        let measured =
            pair.tester(|| run(&plan, spec, server(family, 5300), Expected::AnyResponse, &cpus[..lanes]));
        let stats = &measured.stats;
        assert_eq!((stats.sent, stats.valid, measured.socket_drops), (3500, 3500, 0), "{measured:?}");
        assert_eq!((stats.duplicates, stats.unexpected, stats.late, stats.invalid), (0, 0, 0, 0));
        assert_eq!(stats.latency_ns.len(), 3500);
        assert_eq!(stats.lateness_ns.len(), 3500);
        assert_eq!(stats.series()[0].valid, 3500);
        asked += 3500;
        assert_eq!(reflector.counters(), ReflectorCounters { reflected: asked, ..Default::default() });
    }
    assert_eq!(reflector.series().iter().sum::<u64>(), asked);
    pair.tester(|| assert_eq!(bpf::attached_program(device()).unwrap(), None));
}
