//! What the kernel knows of this process, under the names that Prometheus uses for all programs.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Unit;

/// This program; `began_s` is its start in seconds since 1970.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) began_s: f64,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let cpu_s = cpu_ticks(&read("stat")) as f64 / sys::process::ticks_per_second() as f64;
        encoder
            .encode_descriptor(
                "process_cpu",
                "Processor time used",
                Some(&Unit::Seconds),
                MetricType::Counter,
            )?
            .encode_counter(&cpu_s, None::<&Exemplar<NoLabelSet, f64>>)?;
        let (seconds, bytes) = (Some(Unit::Seconds), Some(Unit::Bytes));
        // A process that has changed its user may not list its own descriptors (proc(5)).
        let open = fs::read_dir("/proc/self/fd").ok().map(|list| list.count() as f64);
        for (name, help, unit, value) in [
            ("process_start_time", "Start since 1970", seconds, Some(self.began_s)),
            ("process_resident_memory", "Memory in use", bytes, resident_octets(&read("status"))),
            ("process_open_fds", "Open files and sockets", None, open),
        ] {
            if let Some(value) = value {
                encoder
                    .encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?
                    .encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}

/// User and system time (proc(5): fields 14 and 15; field 2 is in parentheses and may hold any character).
fn cpu_ticks(stat: &str) -> u64 {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let times = fields.split_ascii_whitespace().skip(11).take(2);
    times.filter_map(|ticks| ticks.parse::<u64>().ok()).fold(0, u64::saturating_add)
}

fn resident_octets(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u32 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(f64::from(kib) * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_read() {
        assert_eq!(cpu_ticks("77 (a) b (c) R 1 77 77 0 -1 4194304 100 0 0 0 250 50 0 0 20"), 300);
        assert_eq!(cpu_ticks(""), 0);
        assert_eq!(resident_octets("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2_097_152.0));
        assert_eq!(resident_octets("VmRSS:\n"), None);
        let own = fs::read_to_string("/proc/self/status").unwrap();
        assert!(resident_octets(&own).is_some_and(|octets| octets > 100_000.0));
    }
}
