//! The resources that a server used, with all processes that it started: processor time by thread, memory,
//! switches (`/proc/PID`, proc(5)).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cpu::ticks_to_ns;

/// A process counts with its children, theirs, and so on, up to so many: some servers have a process for each
/// job.
const FAMILY_MAX: usize = 4096;
/// The highest number of a processor that is looked at.
const CPUS_MAX: usize = 1 << 16;

/// The counters of a process and of those that it started, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessCounters {
    /// Processor time of all threads, also of those that ended, in nanoseconds; counted in clock ticks.
    total_ns: u64,
    /// The part of it outside the kernel, likewise.
    user_ns: u64,
    threads: BTreeMap<u32, ThreadCounters>,
    memory_octets: u64,
    memory_peak_octets: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ThreadCounters {
    name: String,
    cpu_ns: u64,
    waited_ns: u64,
    switches_voluntary: u64,
    switches_involuntary: u64,
}

/// What a process used between two readings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessUse {
    /// Processor time in nanoseconds.
    pub cpu_ns: u64,
    /// The part of it outside the kernel, counted in clock ticks.
    pub user_ns: u64,
    /// Time its threads were ready to run and waited for a processor, in nanoseconds; 0 where the kernel does
    /// not count it.
    pub waited_ns: u64,
    /// Threads at the end.
    pub threads: usize,
    /// The thread that used most.
    pub hottest_thread: Option<ThreadUse>,
    /// Each thread, the hottest first.
    pub by_thread: Vec<ThreadUse>,
    /// Resident memory at the end, in octets.
    pub memory_octets: u64,
    /// The most it ever was, in octets.
    pub memory_peak_octets: u64,
    /// Switches because a thread waited for something.
    pub switches_voluntary: u64,
    /// Switches because another thread wanted the processor.
    pub switches_involuntary: u64,
}

/// What a thread used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadUse {
    /// The thread ID.
    pub tid: u32,
    /// The name of the thread (`comm`, at most 15 octets).
    pub name: String,
    /// Processor time in nanoseconds.
    pub cpu_ns: u64,
}

impl ProcessCounters {
    /// Those of a process and of what it started, now; `None` when there is no such process.
    pub fn of(pid: u32) -> Option<Self> {
        let ticks_per_second = sys::process::ticks_per_second();
        let directory = |pid: u32| PathBuf::from(format!("/proc/{pid}"));
        let mut all = Self::read(&directory(pid), ticks_per_second)?;
        let family = family(pid);
        for &child in &family {
            if let Some(counters) = Self::read(&directory(child), ticks_per_second) {
                all.add(counters);
            }
        }
        if !family.is_empty() {
            // Processes share pages: of each they have their part.
            let parts = std::iter::once(&pid).chain(&family);
            all.memory_octets = parts.map(|&pid| proportional_octets(&directory(pid))).sum();
        }
        Some(all)
    }

    /// Those of several processes, each with what it started; `None` when there is none of them.
    pub fn of_all(pids: &[u32]) -> Option<Self> {
        pids.iter().filter_map(|&pid| Self::of(pid)).reduce(|mut all, other| {
            all.memory_octets = all.memory_octets.saturating_add(other.memory_octets);
            all.add(other);
            all
        })
    }

    fn add(&mut self, other: Self) {
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.user_ns = self.user_ns.saturating_add(other.user_ns);
        self.threads.extend(other.threads);
        self.memory_peak_octets = self.memory_peak_octets.max(other.memory_peak_octets);
    }

    /// Reads a process alone; `None` when there is no such process.
    pub(super) fn read(directory: &Path, ticks_per_second: u64) -> Option<Self> {
        let [user, system] = times(directory)?;
        let status = fs::read_to_string(directory.join("status")).unwrap_or_default();
        let tasks = fs::read_dir(directory.join("task")).into_iter().flatten().flatten();
        let threads = tasks.filter_map(|task| {
            let tid = task.file_name().to_str()?.parse().ok()?;
            Some((tid, ThreadCounters::read(&task.path(), ticks_per_second)?))
        });
        Some(Self {
            total_ns: ticks_to_ns(user.saturating_add(system), ticks_per_second),
            user_ns: ticks_to_ns(user, ticks_per_second),
            threads: threads.collect(),
            memory_octets: status_octets(&status, "VmRSS:"),
            memory_peak_octets: status_octets(&status, "VmHWM:"),
        })
    }

    /// Resident memory in octets.
    pub fn memory_octets(&self) -> u64 {
        self.memory_octets
    }

    /// What was used since an earlier reading of the same process.
    pub fn since(&self, earlier: &Self) -> ProcessUse {
        let mut used = ProcessUse {
            threads: self.threads.len(),
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            memory_octets: self.memory_octets,
            memory_peak_octets: self.memory_peak_octets,
            ..ProcessUse::default()
        };
        let new = ThreadCounters::default();
        for (&tid, now) in &self.threads {
            let before = earlier.threads.get(&tid).unwrap_or(&new);
            let cpu_ns = now.cpu_ns.saturating_sub(before.cpu_ns);
            used.cpu_ns = used.cpu_ns.saturating_add(cpu_ns);
            used.waited_ns = used.waited_ns.saturating_add(now.waited_ns.saturating_sub(before.waited_ns));
            used.switches_voluntary += now.switches_voluntary.saturating_sub(before.switches_voluntary);
            used.switches_involuntary += now.switches_involuntary.saturating_sub(before.switches_involuntary);
            used.by_thread.push(ThreadUse { tid, name: now.name.clone(), cpu_ns });
        }
        used.by_thread.sort_by_key(|thread| Reverse(thread.cpu_ns));
        used.hottest_thread = used.by_thread.first().cloned();
        // Threads that ended meanwhile are only in the process's own count, which is coarser.
        used.cpu_ns = used.cpu_ns.max(self.total_ns.saturating_sub(earlier.total_ns));
        used
    }
}

impl ThreadCounters {
    fn read(directory: &Path, ticks_per_second: u64) -> Option<Self> {
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap_or_default();
        let (name, [user, system]) = parse_stat(&read("stat"))?;
        let by_ticks = ticks_to_ns(user.saturating_add(system), ticks_per_second);
        let (cpu_ns, waited_ns) = parse_schedstat(&read("schedstat")).unwrap_or((by_ticks, 0));
        let status = read("status");
        Some(Self {
            name,
            cpu_ns,
            waited_ns,
            switches_voluntary: status_number(&status, "voluntary_ctxt_switches:"),
            switches_involuntary: status_number(&status, "nonvoluntary_ctxt_switches:"),
        })
    }
}

/// Processor time of all threads of a process alone, in nanoseconds, counted in clock ticks; `None` when
/// there is no such process.
pub(super) fn total_ns(directory: &Path, ticks_per_second: u64) -> Option<u64> {
    let [user, system] = times(directory)?;
    Some(ticks_to_ns(user.saturating_add(system), ticks_per_second))
}

/// User and system time of a process in clock ticks.
fn times(directory: &Path) -> Option<[u64; 2]> {
    parse_stat(&fs::read_to_string(directory.join("stat")).ok()?).map(|(_, times)| times)
}

/// The children of a process, theirs, and so on; this process, which may be among them, is no part of a
/// server.
pub(super) fn family(pid: u32) -> Vec<u32> {
    let (own, mut found) = (std::process::id(), Vec::new());
    let mut open = vec![pid];
    while let Some(parent) = open.pop().filter(|_| found.len() < FAMILY_MAX) {
        let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_ascii_whitespace().filter_map(|child| child.parse().ok());
            for child in children.filter(|&child| child != pid && child != own) {
                if !found.contains(&child) {
                    found.push(child);
                    open.push(child);
                }
            }
        }
    }
    found
}

/// The process that started this one; `None` when there is no such process.
pub(super) fn stat_parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The processors on which any thread of these processes, or of those that they started, may run.
pub fn allowed_cpus(pids: &[u32]) -> BTreeSet<usize> {
    let all = pids.iter().flat_map(|&pid| std::iter::once(pid).chain(family(pid)));
    let tasks = all.flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten());
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    statuses.flat_map(|status| parse_allowed_cpus(&status)).collect()
}

/// Reads a line such as `Cpus_allowed_list: 0-1,3`.
fn parse_allowed_cpus(status: &str) -> Vec<usize> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?.min(CPUS_MAX))
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// The proportional share of each page that a process uses, in octets; its resident memory where the kernel
/// does not tell.
fn proportional_octets(directory: &Path) -> u64 {
    let rollup = fs::read_to_string(directory.join("smaps_rollup")).unwrap_or_default();
    match status_octets(&rollup, "Pss:") {
        0 => status_octets(&fs::read_to_string(directory.join("status")).unwrap_or_default(), "VmRSS:"),
        octets => octets,
    }
}

/// Name, and user and system time in clock ticks. The name stands in parentheses and may itself hold any
/// character.
fn parse_stat(stat: &str) -> Option<(String, [u64; 2])> {
    let (head, fields) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    // The state is field 3, utime 14 and stime 15.
    let mut times = fields.split_ascii_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some((name.to_owned(), [user, system]))
}

/// Time on a processor and time waiting for one, in nanoseconds; `None` where the kernel counts neither.
fn parse_schedstat(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_ascii_whitespace();
    let cpu_ns = words.next()?.parse().ok()?;
    let waited_ns = words.next()?.parse().ok()?;
    (cpu_ns > 0).then_some((cpu_ns, waited_ns))
}

fn status_number(status: &str, key: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(key));
    value.and_then(|value| value.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn status_octets(status: &str, key: &str) -> u64 {
    status_number(status, key).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_name() {
        let line = "77 (a) b (c) R 1 77 77 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 123 1000 200";
        assert_eq!(parse_stat(line), Some(("a) b (c".to_owned(), [250, 50])));
        assert_eq!(parse_stat("77 (x) R 1 2"), None);
        assert_eq!(parse_stat(")("), None);
    }

    #[test]
    fn the_other_files_are_read_as_far_as_they_go() {
        assert_eq!(parse_schedstat("123 45 6\n"), Some((123, 45)));
        assert_eq!(parse_schedstat("0 0 0\n"), None, "a kernel that counts nothing");
        assert_eq!(parse_schedstat(""), None);
        let status = "VmHWM:\t    2048 kB\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t-3\n";
        assert_eq!(status_octets(status, "VmHWM:"), 2 << 20);
        assert_eq!(status_number(status, "voluntary_ctxt_switches:"), 7);
        assert_eq!(status_number(status, "nonvoluntary_ctxt_switches:"), 0);
        assert_eq!(parse_allowed_cpus("Name:\tx\nCpus_allowed_list:\t0-1,3, 5-x\n"), [0, 1, 3]);
        assert_eq!(parse_allowed_cpus(status), [] as [usize; 0]);
    }

    #[test]
    fn the_difference_names_the_hottest_thread_and_keeps_the_dead() {
        let thread =
            |name: &str, cpu_ns| ThreadCounters { name: name.into(), cpu_ns, ..ThreadCounters::default() };
        let earlier = ProcessCounters {
            total_ns: 100,
            user_ns: 60,
            threads: [(1, thread("main", 50)), (2, thread("gone", 50))].into(),
            ..ProcessCounters::default()
        };
        let now = ProcessCounters {
            total_ns: 1000,
            user_ns: 260,
            threads: [(1, thread("main", 60)), (3, thread("worker", 300))].into(),
            memory_octets: 5,
            ..ProcessCounters::default()
        };
        let used = now.since(&earlier);
        assert_eq!((used.cpu_ns, used.user_ns, used.threads, used.memory_octets), (900, 200, 2, 5));
        assert_eq!(used.hottest_thread, Some(ThreadUse { tid: 3, name: "worker".into(), cpu_ns: 300 }));
    }

    #[test]
    fn what_a_process_started_counts_with_it() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "sleep 2 & while :; do :; done"]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let own = std::process::id();
        let family_now = family(own);
        let counters = ProcessCounters::of(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(family_now.contains(&child.id()), "{family_now:?}");
        let names: Vec<_> = counters.threads.values().map(|thread| thread.name.as_str()).collect();
        assert!(names.contains(&"sh") && names.contains(&"sleep"), "{names:?}");
        assert!(counters.total_ns > 0 && counters.memory_octets > 0);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,120}") {
            let _ = parse_stat(&text);
            let _ = parse_schedstat(&text);
            let _ = status_octets(&text, "VmRSS:");
            let _ = parse_allowed_cpus(&format!("Cpus_allowed_list:{text}"));
        }
    }
}
