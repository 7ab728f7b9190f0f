//! The machine: a manifest of everything that may explain a number, read from `/proc` and `/sys`.
//!
//! Every file may be absent or hold nonsense: the field is then `None` or empty, and nothing fails.

mod devices;
mod facts;
mod files;
mod messages;
mod preflight;
mod processor;

use std::thread;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use record::machine::NetworkDevice;

use super::observe::cpu::{CpuTimes, parse_cpus};
use super::observe::parse_softnet;
use devices::devices;
pub use devices::{PathDevices, device_named};
pub use facts::facts;
use files::Files;
pub use preflight::preflight;
pub use processor::Processor;

/// How long the load of the idle machine is sampled.
const LOAD_SAMPLE: Duration = Duration::from_millis(200);

/// What a measurement ran on: `manifest.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// When it was read: RFC 3339, UTC.
    pub taken_utc: String,
    /// The instrument, for example `sextant 0.1.0`.
    pub tool: String,
    /// The command line it was started with.
    pub command: Vec<String>,
    /// Model, number, governors and mitigations of the processors.
    pub processor: Processor,
    /// Kernel release, for example `6.1.0-18-amd64`.
    pub kernel_release: String,
    /// Build number and date of the kernel (`uname -v`).
    pub kernel_version: String,
    /// What it was booted with.
    pub kernel_command_line: String,
    /// The operating system's own name for itself.
    pub operating_system: Option<String>,
    /// What virtualizes the machine; `None` where nothing seems to.
    pub hypervisor: Option<String>,
    /// Whether this process runs in a container.
    pub container: bool,
    /// Memory and swap space, in octets.
    pub memory: Memory,
    /// The network stack's settings.
    pub network: Network,
    /// Its devices that have an address, but for the loopback.
    pub devices: Vec<NetworkDevice>,
    /// The last of the kernel's warnings since it was booted that may explain a number.
    pub kernel_warnings: Vec<String>,
    /// The kernel's clock source, for example `tsc`.
    pub clock_source: Option<String>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
    /// What ran on the machine while the manifest was read, this process waiting.
    pub load: LoadSample,
}

/// Memory in octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// MemTotal of `proc_meminfo(5)`.
    pub total_octets: Option<u64>,
    /// What new programs can have.
    pub available_octets: Option<u64>,
    /// Swap space in use.
    pub swap_used_octets: Option<u64>,
}

/// The network stack's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// net.core.rmem_max: the largest receive buffer granted to anybody.
    pub rmem_max_octets: Option<u64>,
    /// net.core.rmem_default.
    pub rmem_default_octets: Option<u64>,
    /// net.core.wmem_max.
    pub wmem_max_octets: Option<u64>,
    /// Whether this process may exceed them (CAP_NET_ADMIN, for SO_RCVBUFFORCE).
    pub may_force_buffers: bool,
    /// net.core.netdev_max_backlog.
    pub netdev_max_backlog_packets: Option<u64>,
    /// Packets that did not fit into it since the kernel was booted.
    pub backlog_drops: Option<u64>,
    /// net.core.netdev_budget.
    pub netdev_budget_packets: Option<u64>,
    /// net.ipv4.udp_mem: low, pressure and high marks in pages.
    pub udp_mem_pages: Option<[u64; 3]>,
    /// net.ipv4.ip_local_port_range: first and last.
    pub port_range: Option<[u64; 2]>,
    /// The size of the connection tracking table; `None` where it is not loaded.
    pub conntrack_max_entries: Option<u64>,
    /// Connections in that table: none while no firewall rule makes it track any.
    pub conntrack_entries: Option<u64>,
    /// Whether `::1` is there.
    pub ipv6_loopback: bool,
}

/// Processor time used over a short while, in percent of one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadSample {
    /// How long, in seconds.
    pub sample_s: f64,
    /// By anything on the machine.
    pub busy_pct: f64,
    /// Time taken by the hypervisor (steal), in percent.
    pub steal_pct: f64,
}

impl Manifest {
    /// Reads the machine; takes 0.2 s for the load sample.
    pub fn take() -> Self {
        let files = Files::system();
        let load = sample_load(&files);
        Self {
            taken_utc: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            tool: concat!("sextant ", env!("CARGO_PKG_VERSION")).to_owned(),
            command: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
            load,
            devices: devices(),
            kernel_warnings: messages::warnings(sys::messages::kernel_messages()),
            ..Self::read(&files, sys::cpu::available())
        }
    }

    fn read(files: &Files, usable: Vec<usize>) -> Self {
        Self {
            processor: Processor::read(files, usable),
            kernel_release: files.line("proc/sys/kernel/osrelease").unwrap_or_default(),
            kernel_version: files.line("proc/sys/kernel/version").unwrap_or_default(),
            kernel_command_line: files.line("proc/cmdline").unwrap_or_default(),
            operating_system: files
                .value("etc/os-release", "PRETTY_NAME", '=')
                .map(|name| name.replace('"', "")),
            hypervisor: hypervisor(files),
            container: files.exists(".dockerenv") || files.exists("run/systemd/container"),
            memory: Memory::read(files),
            network: Network::read(files),
            clock_source: files.line("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            load_average: files.numbers("proc/loadavg"),
            ..Self::default()
        }
    }
}

impl Memory {
    /// The memory of this machine now.
    pub fn now() -> Self {
        Self::read(&Files::system())
    }

    fn read(files: &Files) -> Self {
        let octets = |key: &str| {
            let text = files.value("proc/meminfo", key, ':')?;
            text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
        };
        let swap_used =
            octets("SwapTotal").zip(octets("SwapFree")).map(|(total, free)| total.saturating_sub(free));
        Self {
            total_octets: octets("MemTotal"),
            available_octets: octets("MemAvailable"),
            swap_used_octets: swap_used,
        }
    }
}

impl Network {
    fn read(files: &Files) -> Self {
        let core = |name: &str| files.number(&format!("proc/sys/net/core/{name}"));
        Self {
            rmem_max_octets: core("rmem_max"),
            rmem_default_octets: core("rmem_default"),
            wmem_max_octets: core("wmem_max"),
            may_force_buffers: files
                .value("proc/self/status", "CapEff", ':')
                .and_then(|mask| u64::from_str_radix(&mask, 16).ok())
                .is_some_and(|mask| mask & CAP_NET_ADMIN != 0),
            netdev_max_backlog_packets: core("netdev_max_backlog"),
            backlog_drops: Some(files.text("proc/net/softnet_stat"))
                .filter(|text| !text.is_empty())
                .map(|text| parse_softnet(&text).dropped),
            netdev_budget_packets: core("netdev_budget"),
            udp_mem_pages: files.numbers("proc/sys/net/ipv4/udp_mem"),
            port_range: files.numbers("proc/sys/net/ipv4/ip_local_port_range"),
            conntrack_max_entries: files.number("proc/sys/net/netfilter/nf_conntrack_max"),
            conntrack_entries: files.number("proc/sys/net/netfilter/nf_conntrack_count"),
            ipv6_loopback: files
                .text("proc/net/if_inet6")
                .lines()
                .any(|line| line.starts_with("00000000000000000000000000000001 ")),
        }
    }
}

/// Bit 12 of the capability sets (capabilities(7)).
const CAP_NET_ADMIN: u64 = 1 << 12;

fn sample_load(files: &Files) -> LoadSample {
    let total = || {
        let cpus = parse_cpus(&files.text("proc/stat"), sys::process::ticks_per_second());
        cpus.values().fold(CpuTimes::default(), |sum, cpu| sum.plus(cpu))
    };
    let (before, before_ns) = (total(), sys::clock::monotonic_ns());
    thread::sleep(LOAD_SAMPLE);
    let (spent, elapsed_ns) = (total().since(&before), sys::clock::monotonic_ns() - before_ns);
    let percent = |time_ns: u64| time_ns as f64 * 100.0 / elapsed_ns.max(1) as f64;
    LoadSample {
        sample_s: elapsed_ns as f64 / 1e9,
        busy_pct: percent(spent.busy_ns()),
        steal_pct: percent(spent.steal_ns),
    }
}

fn hypervisor(files: &Files) -> Option<String> {
    let named =
        ["sys/hypervisor/type", "sys/class/dmi/id/product_name"].iter().find_map(|path| files.line(path));
    let virtualized = files.value("proc/cpuinfo", "flags", ':')?.split(' ').any(|flag| flag == "hypervisor");
    virtualized.then(|| named.unwrap_or_else(|| "unnamed".to_owned()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Writes a tree of files and reads the manifest from it.
    pub(crate) fn manifest_of(tree: &[(&str, &str)]) -> Manifest {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in tree {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Manifest::read(&Files::below(root.path()), vec![0, 1])
    }

    #[test]
    fn a_typical_machine_is_read() {
        let manifest = manifest_of(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: Some CPU\nphysical id\t: 0\nflags\t\t: fpu hypervisor\n\nprocessor\t: 1\nphysical id\t: 0\n",
            ),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0-1\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
            ("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
            ("sys/devices/system/cpu/vulnerabilities/mds", "Vulnerable: no microcode\n"),
            ("sys/devices/system/cpu/vulnerabilities/l1tf", "Not affected\n"),
            ("sys/class/dmi/id/product_name", "KVM\n"),
            (
                "proc/meminfo",
                "MemTotal: 2048 kB\nMemAvailable:    1024 kB\nSwapTotal: 8 kB\nSwapFree: 4 kB\n",
            ),
            ("proc/sys/net/core/rmem_max", "212992\n"),
            ("proc/sys/net/ipv4/udp_mem", "1\t2\t3\n"),
            ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("proc/self/status", "Name:\tx\nCapEff:\t0000000000001000\n"),
            ("proc/net/if_inet6", "00000000000000000000000000000001 01 80 10 80       lo\n"),
            ("proc/loadavg", "0.50 0.25 0.10 1/234 5678\n"),
            ("etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
        ]);
        let processor = &manifest.processor;
        assert_eq!((processor.model.as_deref(), processor.online), (Some("Some CPU"), 2));
        assert_eq!(
            (processor.threads_per_core, processor.sockets, processor.turbo),
            (Some(2), Some(1), Some(false))
        );
        assert_eq!(processor.governors, ["powersave"]);
        assert_eq!(processor.mitigations, [("meltdown".to_owned(), "PTI".to_owned())]);
        assert_eq!(processor.vulnerable, ["mds"]);
        assert_eq!(manifest.hypervisor.as_deref(), Some("KVM"));
        assert_eq!(manifest.memory.available_octets, Some(1 << 20));
        assert_eq!(manifest.memory.swap_used_octets, Some(4096));
        assert_eq!(manifest.network.rmem_max_octets, Some(212_992));
        assert_eq!(manifest.network.udp_mem_pages, Some([1, 2, 3]));
        assert_eq!(manifest.network.port_range, Some([32768, 60999]));
        assert!(manifest.network.may_force_buffers && manifest.network.ipv6_loopback);
        assert_eq!(manifest.load_average, Some([0.5, 0.25, 0.1]));
        assert_eq!(manifest.operating_system.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
    }

    #[test]
    fn absent_and_hostile_files_leave_fields_empty() {
        let empty = manifest_of(&[]);
        assert_eq!(
            empty,
            Manifest {
                processor: Processor { usable: vec![0, 1], ..Processor::default() },
                ..Manifest::default()
            }
        );
        let hostile = manifest_of(&[
            ("proc/meminfo", "MemTotal: 99999999999999999999 kB\nMemAvailable: -1 kB\n"),
            ("proc/sys/net/ipv4/udp_mem", "1 2\n"),
            ("proc/sys/net/core/rmem_max", "many"),
            ("proc/self/status", "CapEff: zz\n"),
            ("proc/loadavg", "nan"),
            ("sys/devices/system/node/online", "0-99999999999,7-3,,x\n"),
            ("proc/cpuinfo", "\u{0}\u{0}:::\nflags\n"),
        ]);
        assert_eq!(hostile.memory, Memory::default());
        assert_eq!(hostile.network, Network::default());
        assert_eq!(hostile.load_average, None);
    }

    #[test]
    fn this_machine_is_read_and_survives_json() {
        let manifest = Manifest::take();
        assert!(Path::new("/proc/cpuinfo").exists() && manifest.processor.online > 0);
        assert!(manifest.load.sample_s >= 0.2 && manifest.load.busy_pct >= 0.0);
        assert!(manifest.taken_utc.ends_with('Z') && !manifest.kernel_release.is_empty());
        let json = serde_json::to_string(&manifest).unwrap();
        let again: Manifest = serde_json::from_str(&json).unwrap();
        assert_eq!(again.network, manifest.network);
        assert_eq!(serde_json::from_str::<Manifest>("{}").unwrap(), Manifest::default());
    }
}
