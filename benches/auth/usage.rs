//! What the processes of a server cost.

use std::fs;
use std::path::Path;

/// What all processes of a server use together: some have a process for each job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time in seconds.
    pub cpu_s: f64,
    /// Memory in octets: the proportional share of each page.
    pub memory_octets: u64,
    /// The most that any of the processes ever had resident, in octets.
    pub peak_octets: u64,
}

impl Usage {
    /// That of the processes of a group.
    pub fn of_group(leader: u32) -> Self {
        let mut usage = Self::default();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let path = entry.path();
            let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
            // After the name in parentheses: state, parent, group, ..., and user and system time as fields 14
            // and 15.
            let Some((_, fields)) = stat.rsplit_once(')') else { continue };
            let fields: Vec<&str> = fields.split_whitespace().collect();
            if fields.get(2).and_then(|group| group.parse().ok()) != Some(leader) {
                continue;
            }
            let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
            usage.cpu_s += (ticks(11) + ticks(12)) / sys::process::ticks_per_second() as f64;
            usage.memory_octets += kib(&path.join("smaps_rollup"), "Pss:") << 10;
            usage.peak_octets = usage.peak_octets.max(kib(&path.join("status"), "VmHWM:") << 10);
        }
        usage
    }
}

/// The number behind a label in a file of `/proc`.
fn kib(path: &Path, label: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(label));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
