//! The processor time of others, read a few times a second while a trial runs.

use std::fs;
use std::path::{Path, PathBuf};

use super::cpu::{CpuTimes, parse_all_cpus};
use super::process::{family, total_ns};

/// Reads the processor times of the machine, of this process and of the server: a few short files, so that it
/// may be read while a trial runs.
#[derive(Clone, Debug)]
pub struct LoadMeter {
    /// The server's processes and those that they had started when the meter was made.
    server: Option<Vec<PathBuf>>,
    ticks_per_second: u64,
}

/// The processor times at one moment, in nanoseconds. The counters tick in hundredths of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReading {
    /// The monotonic clock.
    pub taken_ns: u64,
    cpus: CpuTimes,
    tester_ns: u64,
    /// `None` where its process is not known or has ended.
    server_ns: Option<u64>,
}

impl LoadMeter {
    /// Watches the machine and this process, and the server if its processes are known.
    pub fn new(server: &[u32]) -> Self {
        let known = (!server.is_empty()).then(|| directories(server));
        Self { server: known, ticks_per_second: sys::process::ticks_per_second() }
    }

    /// The same while no server works for the Tester: whatever is not the Tester, nor a server whose process
    /// is known, is another program.
    pub fn between_trials(server: &[u32]) -> Self {
        Self { server: Some(directories(server)), ..Self::new(&[]) }
    }

    /// The times now; `None` where the kernel does not tell.
    pub fn read(&self) -> Option<LoadReading> {
        let total = |directory: &Path| total_ns(directory, self.ticks_per_second);
        let cpus = parse_all_cpus(&fs::read_to_string("/proc/stat").ok()?, self.ticks_per_second)?;
        Some(LoadReading {
            taken_ns: sys::clock::monotonic_ns(),
            cpus,
            tester_ns: total(Path::new("/proc/self"))?,
            server_ns: self
                .server
                .as_ref()
                .and_then(|all| all.iter().map(|directory| total(directory)).sum()),
        })
    }
}

/// Of processes and of those that they have started.
fn directories(pids: &[u32]) -> Vec<PathBuf> {
    let all = pids.iter().flat_map(|&pid| std::iter::once(pid).chain(family(pid)));
    all.map(|pid| PathBuf::from(format!("/proc/{pid}"))).collect()
}

impl LoadReading {
    /// What the hypervisor took since an earlier reading, and what programs used that are neither Tester nor
    /// server, both in nanoseconds; the latter only where the server is known.
    ///
    /// Interrupts are not other programs: the kernel works in them for the datagrams of the trial, also in
    /// the threads `ksoftirqd` (kernel/sched/cputime.c counts those as soft interrupts).
    pub fn since(&self, earlier: &Self) -> (u64, Option<u64>) {
        let spent = self.cpus.since(&earlier.cpus);
        let tester_ns = self.tester_ns.saturating_sub(earlier.tester_ns);
        let others_ns = self.server_ns.zip(earlier.server_ns).map(|(now, before)| {
            let server_ns = now.saturating_sub(before);
            spent.program_ns.saturating_sub(tester_ns).saturating_sub(server_ns)
        });
        (spent.steal_ns, others_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(program_ns: u64, interrupt_ns: u64, steal_ns: u64, own: (u64, Option<u64>)) -> LoadReading {
        let cpus = CpuTimes { program_ns, interrupt_ns, steal_ns };
        LoadReading { taken_ns: 0, cpus, tester_ns: own.0, server_ns: own.1 }
    }

    #[test]
    fn interrupts_and_the_own_work_are_not_other_programs() {
        let before = reading(100, 50, 7, (10, Some(20)));
        assert_eq!(reading(180, 950, 9, (40, Some(60))).since(&before), (2, Some(10)));
        assert_eq!(reading(180, 950, 9, (40, None)).since(&before), (2, None), "the server has ended");
        assert_eq!(reading(110, 50, 7, (40, Some(60))).since(&before), (0, Some(0)));
    }

    #[test]
    fn the_meter_reads_this_machine() {
        let meter = LoadMeter::new(&[std::process::id()]);
        let (before, now) = (meter.read().unwrap(), meter.read().unwrap());
        assert!(now.taken_ns >= before.taken_ns && now.server_ns >= before.server_ns);
        assert!(now.since(&before).1.is_some());
        let gone = LoadMeter::new(&[u32::MAX]);
        assert_eq!(gone.read().unwrap().since(&before).1, None);
        let between = LoadMeter::between_trials(&[]);
        assert!(between.read().unwrap().since(&between.read().unwrap()).1.is_some());
    }
}
