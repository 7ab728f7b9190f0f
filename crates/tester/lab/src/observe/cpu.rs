//! Processor time of the whole machine, from `/proc/stat` (proc(5)).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Time that one processor spent, in nanoseconds. The counters tick in hundredths of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimes {
    /// Running programs and the kernel for them.
    pub program_ns: u64,
    /// Serving interrupts, hard and soft: most of the network stack's receive side.
    pub interrupt_ns: u64,
    /// Wanted, but taken by the hypervisor.
    pub steal_ns: u64,
}

impl CpuTimes {
    /// All time that was not idle, steal not counted.
    pub fn busy_ns(&self) -> u64 {
        self.program_ns.saturating_add(self.interrupt_ns)
    }

    /// The sum of both.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            program_ns: self.program_ns.saturating_add(other.program_ns),
            interrupt_ns: self.interrupt_ns.saturating_add(other.interrupt_ns),
            steal_ns: self.steal_ns.saturating_add(other.steal_ns),
        }
    }

    /// What was spent since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            program_ns: self.program_ns.saturating_sub(earlier.program_ns),
            interrupt_ns: self.interrupt_ns.saturating_sub(earlier.interrupt_ns),
            steal_ns: self.steal_ns.saturating_sub(earlier.steal_ns),
        }
    }
}

/// Reads the lines `cpuN user nice system idle iowait irq softirq steal ...`; guests' time is in `user`
/// already.
pub(crate) fn parse_cpus(stat: &str, ticks_per_second: u64) -> BTreeMap<usize, CpuTimes> {
    let lines = stat.lines().take_while(|line| line.starts_with("cpu"));
    let cpus = lines.filter_map(|line| {
        let (name, times) = line.strip_prefix("cpu")?.split_once(' ').unwrap_or((&line[3..], ""));
        Some((name.parse().ok()?, parse_times(times, ticks_per_second)))
    });
    cpus.collect()
}

/// Reads the line of all processors together, which the kernel rounds once.
pub(super) fn parse_all_cpus(stat: &str, ticks_per_second: u64) -> Option<CpuTimes> {
    Some(parse_times(stat.lines().next()?.strip_prefix("cpu ")?, ticks_per_second))
}

fn parse_times(times: &str, ticks_per_second: u64) -> CpuTimes {
    let mut words = times.split_ascii_whitespace();
    let mut next =
        || ticks_to_ns(words.next().and_then(|word| word.parse().ok()).unwrap_or(0), ticks_per_second);
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] = std::array::from_fn(|_| next());
    CpuTimes {
        program_ns: user.saturating_add(nice).saturating_add(system),
        interrupt_ns: irq.saturating_add(softirq),
        steal_ns: steal,
    }
}

/// Clock ticks as nanoseconds.
pub(super) fn ticks_to_ns(ticks: u64, ticks_per_second: u64) -> u64 {
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_second.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str =
        "cpu  300 0 200 9000 5 6 7 8 0 0\ncpu0 100 10 200 4000 5 6 7 8 50 0\ncpu3 1 2 3\nintr 12 0\ncpu9 1\n";

    #[test]
    fn each_processor_has_its_times() {
        let cpus = parse_cpus(STAT, 100);
        assert_eq!(cpus.keys().copied().collect::<Vec<_>>(), [0, 3], "the sum and what follows is left out");
        let expected =
            CpuTimes { program_ns: 3_100_000_000, interrupt_ns: 130_000_000, steal_ns: 80_000_000 };
        assert_eq!(cpus[&0], expected);
        assert_eq!(cpus[&0].busy_ns(), 3_230_000_000);
        let all = CpuTimes { program_ns: 5_000_000_000, interrupt_ns: 130_000_000, steal_ns: 80_000_000 };
        assert_eq!(parse_all_cpus(STAT, 100), Some(all));
        assert_eq!(parse_all_cpus("cpu0 1 2 3\n", 100), None);
        assert_eq!(cpus[&3].program_ns, 60_000_000, "a short line counts as far as it goes");
        assert_eq!(cpus[&3].since(&cpus[&0]), CpuTimes::default(), "a counter that went back counts nothing");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(cpu[0-9]{0,3} [0-9 ]{0,60}\n){0,4}.{0,40}", ticks: u64) {
            let _ = (parse_cpus(&text, ticks), parse_all_cpus(&text, ticks));
        }
    }
}
