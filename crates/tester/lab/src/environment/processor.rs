//! The processors and how the kernel runs them, from `/proc/cpuinfo` and `/sys/devices/system`.

use serde::{Deserialize, Serialize};

use super::files::{Files, parse_cpu_list};

/// The processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processor {
    /// For example `AMD EPYC 7763 64-Core Processor`.
    pub model: Option<String>,
    /// Those online.
    pub online: usize,
    /// Numbers of those that this process may use.
    pub usable: Vec<usize>,
    /// Threads of one core; more than 1 means SMT.
    pub threads_per_core: Option<usize>,
    /// Physical packages.
    pub sockets: Option<usize>,
    /// NUMA nodes.
    pub numa_nodes: Option<usize>,
    /// The frequency governors in use; empty where the system shows none (most virtual machines).
    pub governors: Vec<String>,
    /// The frequency driver.
    pub frequency_driver: Option<String>,
    /// The highest frequency in kHz.
    pub frequency_max_khz: Option<u64>,
    /// Whether frequencies above the nominal one are allowed.
    pub turbo: Option<bool>,
    /// Mitigations in force: the vulnerability and what is done about it.
    pub mitigations: Vec<(String, String)>,
    /// Vulnerabilities that are not mitigated.
    pub vulnerable: Vec<String>,
}

impl Processor {
    pub(super) fn read(files: &Files, usable: Vec<usize>) -> Self {
        let info = files.text("proc/cpuinfo");
        let model = ["model name", "Model", "cpu model"];
        let frequency = "sys/devices/system/cpu/cpu0/cpufreq";
        let mut governors: Vec<String> = usable
            .iter()
            .filter_map(|cpu| {
                files.line(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"))
            })
            .collect();
        governors.sort();
        governors.dedup();
        let (mitigations, vulnerable) = mitigations(files);
        Self {
            model: model.iter().find_map(|key| files.value("proc/cpuinfo", key, ':')),
            online: info.lines().filter(|line| line.starts_with("processor")).count(),
            threads_per_core: files
                .line("sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
                .map(|list| parse_cpu_list(&list).len()),
            sockets: distinct_packages(&info),
            numa_nodes: files.line("sys/devices/system/node/online").map(|list| parse_cpu_list(&list).len()),
            governors,
            frequency_driver: files.line(&format!("{frequency}/scaling_driver")),
            frequency_max_khz: files.number(&format!("{frequency}/cpuinfo_max_freq")),
            turbo: turbo(files),
            mitigations,
            vulnerable,
            usable,
        }
    }
}

/// Boost above the nominal frequency, by the switch of the driver that has one.
fn turbo(files: &Files) -> Option<bool> {
    let boost = files.number("sys/devices/system/cpu/cpufreq/boost").map(|on| on != 0);
    boost.or_else(|| files.number("sys/devices/system/cpu/intel_pstate/no_turbo").map(|off| off == 0))
}

fn distinct_packages(cpuinfo: &str) -> Option<usize> {
    let mut packages: Vec<&str> = cpuinfo
        .lines()
        .filter(|line| line.starts_with("physical id"))
        .filter_map(|line| line.split(':').nth(1))
        .collect();
    packages.sort_unstable();
    packages.dedup();
    (!packages.is_empty()).then_some(packages.len())
}

/// What is mitigated and how, and what is not.
fn mitigations(files: &Files) -> (Vec<(String, String)>, Vec<String>) {
    const DIRECTORY: &str = "sys/devices/system/cpu/vulnerabilities";
    let (mut mitigated, mut vulnerable) = (Vec::new(), Vec::new());
    for name in files.names(DIRECTORY) {
        let state = files.line(&format!("{DIRECTORY}/{name}")).unwrap_or_default();
        if let Some(how) = state.strip_prefix("Mitigation: ") {
            mitigated.push((name, how.to_owned()));
        } else if state.starts_with("Vulnerable") {
            vulnerable.push(name);
        }
    }
    (mitigated, vulnerable)
}
