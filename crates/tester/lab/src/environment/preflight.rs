//! Findings about limits and disturbances of this machine that would distort a measurement.

use record::limits::{FOREIGN_LOAD_WARNING, STEAL_WARNING};
use record::machine::NetworkDevice;
use record::preflight::{Fault, Finding, Severity, subject};

use super::{Manifest, PathDevices};

/// A receive buffer that holds 100 ms of answers at 50,000 q/s, in octets: the kernel counts about 800 for
/// each.
const RECEIVE_BUFFER_WANTED_OCTETS: u64 = 4 << 20;
/// Fewer ports than this leave too few for a forwarder's queries in flight.
const PORTS_WANTED: u64 = 16_384;
/// Enough for one resolver with its caches, and for the instrument.
const MEMORY_WANTED_OCTETS: u64 = 1 << 30;
/// The kernel's default of net.core.netdev_max_backlog.
const BACKLOG_STEP: u64 = 1000;
/// Not enough for either.
const MEMORY_NEEDED_OCTETS: u64 = 192 << 20;
/// Clock sources that are read without a system call.
const FAST_CLOCK_SOURCES: [&str; 4] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"];

/// Judges a machine by its manifest: every rung that could be looked at, in a fixed order. What the path does
/// not use is left out.
pub fn preflight(manifest: &Manifest, path: &PathDevices) -> Vec<Finding> {
    let of_machine: [fn(&Manifest) -> Option<Finding>; 12] = [
        processors,
        smt,
        governor,
        turbo,
        foreign_load,
        steal,
        memory,
        ipv6_loopback,
        receive_buffers,
        backlog,
        clock_source,
        kernel_warnings,
    ];
    // The namespaces of a lab have settings and tables of their own.
    let of_namespace: [fn(&Manifest) -> Option<Finding>; 2] = [port_range, conntrack];
    let of_namespace = of_namespace.iter().filter(|_| *path != PathDevices::Lab);
    let devices = manifest.devices.iter().filter(|device| path.uses(&device.name));
    let spread = devices.map(|device| spread(device, manifest.processor.usable.len()));
    of_machine.iter().chain(of_namespace).filter_map(|rung| rung(manifest)).chain(spread).collect()
}

fn processors(manifest: &Manifest) -> Option<Finding> {
    let usable = manifest.processor.usable.len();
    let evidence = format!("{usable} of {} usable", manifest.processor.online.max(usable));
    let cost = "Tester and server would take each other's time";
    let remedy = "use a machine with 2 or more, or lift taskset or cpuset";
    let fault = (usable < 2).then(|| Fault::new(Severity::Fatal, cost, remedy));
    Some(Finding::new("processors", evidence, fault))
}

fn smt(manifest: &Manifest) -> Option<Finding> {
    let threads = manifest.processor.threads_per_core?;
    let cost = "two threads of one core slow each other down";
    let command = "echo off > /sys/devices/system/cpu/smt/control";
    let fault = (threads > 1).then(|| Fault::mended_by(command, cost));
    Some(Finding::new("SMT", format!("{threads} threads in a core"), fault))
}

fn governor(manifest: &Manifest) -> Option<Finding> {
    let governors = &manifest.processor.governors;
    if governors.is_empty() {
        return None;
    }
    let slow = governors.iter().any(|governor| governor != "performance");
    let cost = "the frequency follows the load, and low rates look slower than they are";
    let command = "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
    let fault = slow.then(|| Fault::mended_by(command, cost));
    Some(Finding::new("frequency governor", governors.join(", "), fault))
}

fn turbo(manifest: &Manifest) -> Option<Finding> {
    let on = manifest.processor.turbo?;
    let cost = "the frequency depends on temperature and on the other cores";
    let command = "cd /sys/devices/system/cpu && if test -e intel_pstate/no_turbo; then echo 1 > intel_pstate/no_turbo; \
                   else echo 0 > cpufreq/boost; fi";
    let fault = on.then(|| Fault::mended_by(command, cost));
    Some(Finding::new("turbo", if on { "on" } else { "off" }.to_owned(), fault))
}

fn foreign_load(manifest: &Manifest) -> Option<Finding> {
    let load = manifest.load;
    let evidence = format!("{:.0} % of a processor busy over {:.1} s", load.busy_pct, load.sample_s);
    let cost = "it can change results more than the choice of server does";
    let remedy = "end other programs (top shows them)";
    let fault =
        (load.busy_pct > FOREIGN_LOAD_WARNING.value).then(|| Fault::new(Severity::Warning, cost, remedy));
    (load.sample_s > 0.0).then(|| Finding::new(subject::OTHER_LOAD, evidence, fault))
}

fn steal(manifest: &Manifest) -> Option<Finding> {
    let load = manifest.load;
    let evidence = format!("{:.1} % of a processor taken by the hypervisor", load.steal_pct);
    let cost = "stalls of milliseconds become losses that no server caused";
    let remedy = "use a machine with dedicated processors";
    let fault = (load.steal_pct > STEAL_WARNING.value).then(|| Fault::new(Severity::Warning, cost, remedy));
    manifest.hypervisor.is_some().then(|| Finding::new(subject::STEAL, evidence, fault))
}

fn memory(manifest: &Manifest) -> Option<Finding> {
    let available = manifest.memory.available_octets?;
    let severity = if available < MEMORY_NEEDED_OCTETS { Severity::Fatal } else { Severity::Warning };
    let cost = "a resolver with full caches would swap or be killed";
    let remedy = "end other programs or add memory";
    let fault = (available < MEMORY_WANTED_OCTETS).then(|| Fault::new(severity, cost, remedy));
    Some(Finding::new("memory", format!("{} MiB available", available >> 20), fault))
}

fn ipv6_loopback(manifest: &Manifest) -> Option<Finding> {
    let there = manifest.network.ipv6_loopback;
    let cost = "RFC 8219 has the client ask over IPv6";
    let command = "sysctl -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.lo.disable_ipv6=0";
    let fault = (!there).then(|| Fault { severity: Severity::Fatal, ..Fault::mended_by(command, cost) });
    let evidence = if there { "::1 is there" } else { "::1 is missing" };
    Some(Finding::new("IPv6 loopback", evidence.to_owned(), fault))
}

/// The instrument can go beyond the limit with CAP_NET_ADMIN; the servers run without it and never can.
fn receive_buffers(manifest: &Manifest) -> Option<Finding> {
    let limit = manifest.network.rmem_max_octets?;
    let cost = if manifest.network.may_force_buffers {
        "the server's socket overflows in a stall of a few milliseconds; the Tester's sockets are larger"
    } else {
        "sockets overflow in a stall of a few milliseconds"
    };
    let wanted = RECEIVE_BUFFER_WANTED_OCTETS;
    let command = format!("sysctl -w net.core.rmem_max={wanted} net.core.wmem_max={wanted}");
    let fault = (limit < wanted).then(|| Fault::mended_by(command, cost));
    Some(Finding::new(subject::RECEIVE_BUFFERS, format!("net.core.rmem_max is {limit} octets"), fault))
}

/// Nobody counts for whom the packets were that did not fit.
fn backlog(manifest: &Manifest) -> Option<Finding> {
    let limit = manifest.network.netdev_max_backlog_packets?;
    let drops = manifest.network.backlog_drops.unwrap_or(0);
    let evidence =
        format!("net.core.netdev_max_backlog is {limit}, {drops} packets did not fit since the boot");
    let cost = "packets are lost before any socket, and no server counts them";
    let command =
        format!("sysctl -w net.core.netdev_max_backlog={}", limit.max(BACKLOG_STEP).saturating_mul(10));
    let fault = (drops > 0).then(|| Fault::mended_by(command, cost));
    Some(Finding::new(subject::BACKLOG, evidence, fault))
}

fn port_range(manifest: &Manifest) -> Option<Finding> {
    let [first, last] = manifest.network.port_range?;
    let ports = (last + 1).saturating_sub(first);
    let cost = "too few source ports for a forwarder and many Measurer sockets";
    let command = "sysctl -w net.ipv4.ip_local_port_range='32768 60999'";
    let fault = (ports < PORTS_WANTED).then(|| Fault::mended_by(command, cost));
    Some(Finding::new("port range", format!("{first} to {last}, {ports} ports"), fault))
}

/// The module alone does nothing: only rules that need it make it track.
fn conntrack(manifest: &Manifest) -> Option<Finding> {
    let entries = manifest.network.conntrack_entries.unwrap_or(0);
    let evidence = match manifest.network.conntrack_max_entries {
        Some(max) => format!("loaded, {entries} of {max} entries used"),
        None => "not loaded".to_owned(),
    };
    let cost = "each packet is looked up, and a full table drops packets silently";
    let remedy =
        "notrack rules for the ports measured, or modprobe -r nf_conntrack where no firewall needs it";
    let fault = (entries > 0).then(|| Fault::new(Severity::Warning, cost, remedy));
    Some(Finding::new("connection tracking", evidence, fault))
}

fn clock_source(manifest: &Manifest) -> Option<Finding> {
    let source = manifest.clock_source.as_deref()?;
    let slow = !FAST_CLOCK_SOURCES.contains(&source);
    let cost = "reading the time costs a system call, at each query";
    let remedy = "boot with tsc=reliable, or echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource";
    let fault = slow.then(|| Fault::new(Severity::Warning, cost, remedy));
    Some(Finding::new("clock source", source.to_owned(), fault))
}

fn kernel_warnings(manifest: &Manifest) -> Option<Finding> {
    let last = manifest.kernel_warnings.last()?;
    let evidence = format!("{} that may matter, the last: {last}", manifest.kernel_warnings.len());
    let fault = Fault::new(Severity::Warning, "the machine did not do all that it was asked", "see dmesg");
    Some(Finding::new(subject::KERNEL_WARNINGS, evidence, Some(fault)))
}

/// How a device spreads what comes in over so many processors.
fn spread(device: &NetworkDevice, processors: usize) -> Finding {
    let name = &device.name;
    let by_addresses = [("udp4", device.udp4_by_ports), ("udp6", device.udp6_by_ports)];
    let by_addresses = by_addresses.iter().find(|(_, by_ports)| *by_ports == Some(false));
    let queues = device.rx_queues.unwrap_or(0);
    let fault = match by_addresses {
        _ if !device.is_hardware() || device.is_spread_by_kernel || processors < 2 => None,
        _ if queues == 1 => Some(Fault::mended_by(
            more_queues(device, processors),
            "one processor does the work of the network's stack for all",
        )),
        Some((flow, _)) => Some(Fault::mended_by(
            format!("ethtool -N {name} rx-flow-hash {flow} sdfn"),
            "all queries of one client come in on one processor, whatever their ports",
        )),
        None => None,
    };
    Finding::new(format!("device {name}"), device.in_words(), fault)
}

/// The command that spreads packets over processors: more queues, or where the device has none, the kernel
/// (RPS, Documentation/networking/scaling.rst).
fn more_queues(device: &NetworkDevice, processors: usize) -> String {
    let name = &device.name;
    match device.rx_queues_max {
        Some(1) => {
            let mask = u64::MAX >> (64 - processors.clamp(1, 32));
            format!("echo {mask:x} | tee /sys/class/net/{name}/queues/rx-*/rps_cpus")
        }
        most => {
            format!("ethtool -L {name} combined {}", most.map_or(processors, |most| most.min(processors)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LoadSample, Memory, Network, Processor};
    use super::*;

    fn fit() -> Manifest {
        Manifest {
            processor: Processor {
                online: 4,
                usable: vec![0, 1, 2, 3],
                threads_per_core: Some(1),
                governors: vec!["performance".into()],
                turbo: Some(false),
                ..Processor::default()
            },
            hypervisor: Some("KVM".into()),
            memory: Memory { available_octets: Some(8 << 30), ..Memory::default() },
            network: Network {
                rmem_max_octets: Some(4 << 20),
                netdev_max_backlog_packets: Some(1000),
                backlog_drops: Some(0),
                port_range: Some([32768, 60999]),
                ipv6_loopback: true,
                ..Network::default()
            },
            devices: vec![NetworkDevice {
                name: "eth0".into(),
                driver: "ixgbe".into(),
                rx_queues: Some(4),
                udp6_by_ports: Some(true),
                ..NetworkDevice::default()
            }],
            clock_source: Some("tsc".into()),
            load: LoadSample { sample_s: 0.2, busy_pct: 2.0, steal_pct: 0.0 },
            ..Manifest::default()
        }
    }

    fn faults(manifest: &Manifest) -> Vec<(String, Severity)> {
        let findings = preflight(manifest, &PathDevices::Any).into_iter();
        findings.filter(|f| f.severity > Severity::Ok).map(|f| (f.what, f.severity)).collect()
    }

    #[test]
    fn a_fit_machine_has_fourteen_rungs_and_no_fault() {
        assert_eq!(preflight(&fit(), &PathDevices::Any).len(), 14);
        assert_eq!(faults(&fit()), []);
    }

    type Change = fn(&mut Manifest);

    #[test]
    fn each_fault_is_found_alone_with_cost_and_remedy() {
        let cases: [(&str, Severity, Change); 16] = [
            ("processors", Severity::Fatal, |m| m.processor.usable = vec![0]),
            ("SMT", Severity::Warning, |m| m.processor.threads_per_core = Some(2)),
            ("frequency governor", Severity::Warning, |m| m.processor.governors.push("powersave".into())),
            ("turbo", Severity::Warning, |m| m.processor.turbo = Some(true)),
            ("other load", Severity::Warning, |m| m.load.busy_pct = 150.0),
            ("steal", Severity::Warning, |m| m.load.steal_pct = 3.0),
            ("memory", Severity::Warning, |m| m.memory.available_octets = Some(500 << 20)),
            ("memory", Severity::Fatal, |m| m.memory.available_octets = Some(100 << 20)),
            ("IPv6 loopback", Severity::Fatal, |m| m.network.ipv6_loopback = false),
            ("receive buffers", Severity::Warning, |m| m.network.rmem_max_octets = Some(212_992)),
            ("port range", Severity::Warning, |m| m.network.port_range = Some([60000, 50000])),
            ("connection tracking", Severity::Warning, |m| m.network.conntrack_entries = Some(9)),
            ("backlog", Severity::Warning, |m| m.network.backlog_drops = Some(3)),
            ("kernel warnings", Severity::Warning, |m| m.kernel_warnings.push("table full".into())),
            ("device eth0", Severity::Warning, |m| m.devices[0].rx_queues = Some(1)),
            ("device eth0", Severity::Warning, |m| m.devices[0].udp6_by_ports = Some(false)),
        ];
        for (what, severity, change) in cases {
            let mut manifest = fit();
            change(&mut manifest);
            assert_eq!(faults(&manifest), [(what.to_owned(), severity)]);
            let finding = preflight(&manifest, &PathDevices::Any)
                .into_iter()
                .find(|finding| finding.what == what)
                .unwrap();
            assert!(!finding.cost.is_empty() && !finding.remedy.is_empty(), "{what}");
        }
    }

    #[test]
    fn what_the_path_does_not_use_is_no_finding() {
        let mut manifest = fit();
        manifest.devices[0].rx_queues = Some(1);
        manifest.network.conntrack_entries = Some(9);
        let faults = |path: &PathDevices| {
            let findings = preflight(&manifest, path).into_iter();
            findings.filter(|found| found.severity > Severity::Ok).map(|found| found.what).collect::<Vec<_>>()
        };
        let named = |name: &str| PathDevices::Named([name.to_owned()].into());
        assert_eq!(faults(&PathDevices::Any), ["connection tracking", "device eth0"]);
        assert_eq!(faults(&named("eth0")), ["connection tracking", "device eth0"]);
        assert_eq!(faults(&named("eth1")), ["connection tracking"]);
        assert_eq!(faults(&PathDevices::Lab), Vec::<String>::new());
    }

    #[test]
    fn queues_are_asked_for_only_where_they_can_be_had() {
        let remedy = |rx_queues_max| {
            let mut manifest = fit();
            manifest.devices[0] =
                NetworkDevice { rx_queues: Some(1), rx_queues_max, ..manifest.devices[0].clone() };
            preflight(&manifest, &PathDevices::Any).pop().map(|device| device.remedy).unwrap_or_default()
        };
        assert_eq!(remedy(None), "ethtool -L eth0 combined 4");
        assert_eq!(remedy(Some(2)), "ethtool -L eth0 combined 2");
        assert_eq!(remedy(Some(1)), "echo f | tee /sys/class/net/eth0/queues/rx-*/rps_cpus");
    }

    #[test]
    fn what_cannot_be_seen_is_not_judged() {
        let findings = preflight(&Manifest::default(), &PathDevices::Any);
        let seen: Vec<_> = findings.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(seen, ["processors", "IPv6 loopback", "connection tracking"]);
        let record = record::Finding::from(findings[0].clone());
        assert_eq!(record.severity, record::Severity::Fatal);
        assert_eq!(record.evidence, "0 of 0 usable: Tester and server would take each other's time");
    }
}
