//! A trial cut into intervals, by the list of its queries.

use engine::pacer::SECOND_NS;
use engine::querylog::{Class, Entry, QueryLog};
use hdrhistogram::Histogram;
use record::Interval;

use super::Finished;
use super::rows::was_planned;

/// The queries that were due in an interval and written.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Its start, in ns after the start of the schedule.
    pub start_ns: u64,
    /// Its length in ns; the last one may be shorter.
    pub length_ns: u64,
    /// Queries by [`Class`], in the order of [`CLASSES`].
    pub classes: [u64; CLASSES.len()],
    pub rcodes: [u64; 16],
    /// Latencies of the valid answers in ns.
    pub latency_ns: Histogram<u64>,
}

/// The classes in the order of [`Cut::classes`].
pub const CLASSES: [Class; 6] =
    [Class::Unsent, Class::SendError, Class::Lost, Class::Valid, Class::Invalid, Class::Late];

impl Cut {
    /// How many of a class there are.
    pub fn count(&self, class: Class) -> u64 {
        self.classes[class as usize]
    }

    fn add(&mut self, entry: &Entry) {
        self.classes[entry.class as usize] += 1;
        if entry.received_ns > 0 {
            self.rcodes[usize::from(entry.rcode & 15)] += 1;
        }
        if entry.class == Class::Valid {
            self.latency_ns.saturating_record(entry.received_ns.saturating_sub(entry.scheduled_ns));
        }
    }
}

/// Calls `each` for every interval in turn, also for empty ones. Queries that were never written are in none.
///
/// # Errors
/// The first one of `each` ends it.
pub fn cut<E>(
    finished: &Finished<'_>,
    log: &QueryLog,
    interval_ns: u64,
    mut each: impl FnMut(&Cut) -> Result<(), E>,
) -> Result<(), E> {
    let grid = Grid::new(finished, interval_ns);
    let mut now = grid.empty(0, &finished.tried.latency_ns);
    let mut index = 0;
    for entry in in_time(log) {
        let at = grid.index(entry.scheduled_ns);
        while index < at {
            each(&now)?;
            index += 1;
            now = grid.empty(index, &finished.tried.latency_ns);
        }
        now.add(entry);
    }
    while index + 1 < grid.intervals {
        each(&now)?;
        index += 1;
        now = grid.empty(index, &finished.tried.latency_ns);
    }
    each(&now)
}

/// The series of a record, finer: what was sent in each interval, and what became of the queries due in it.
pub fn series(finished: &Finished<'_>, log: &QueryLog, interval_ns: u64) -> Vec<Interval> {
    let grid = Grid::new(finished, interval_ns);
    let mut series: Vec<Interval> = (0..grid.intervals)
        .map(|index| Interval {
            start_s: (index * grid.interval_ns) as f64 / SECOND_NS as f64,
            ..Interval::default()
        })
        .collect();
    for (number, entry) in log.iter().filter(|(_, entry)| was_planned(finished, entry)) {
        let due_ns = match entry.scheduled_ns {
            0 => finished.tried.schedule.due_ns(number),
            due_ns => due_ns,
        };
        let due_in = &mut series[grid.index(due_ns) as usize];
        let valid = u64::from(entry.class == Class::Valid);
        due_in.valid += valid;
        due_in.failed += 1 - valid;
        if !matches!(entry.class, Class::Unsent | Class::SendError) {
            series[grid.index(entry.sent_ns) as usize].sent += 1;
        }
    }
    series
}

/// Where intervals begin and end.
struct Grid {
    start_ns: u64,
    duration_ns: u64,
    interval_ns: u64,
    intervals: u64,
}

impl Grid {
    fn new(finished: &Finished<'_>, interval_ns: u64) -> Self {
        let schedule = &finished.tried.schedule;
        let duration_ns = (finished.tried.trial.duration_s * SECOND_NS as f64).round() as u64;
        let interval_ns = interval_ns.max(1);
        let intervals = duration_ns.div_ceil(interval_ns).max(1);
        Self { start_ns: schedule.start_ns, duration_ns, interval_ns, intervals }
    }

    /// The interval of an instant; what is later than the end counts in the last one.
    fn index(&self, at_ns: u64) -> u64 {
        (at_ns.saturating_sub(self.start_ns) / self.interval_ns).min(self.intervals - 1)
    }

    fn empty(&self, index: u64, like: &Histogram<u64>) -> Cut {
        let start_ns = index * self.interval_ns;
        Cut {
            start_ns,
            length_ns: self.interval_ns.min(self.duration_ns.saturating_sub(start_ns)),
            classes: [0; CLASSES.len()],
            rcodes: [0; 16],
            latency_ns: Histogram::new_from(like),
        }
    }
}

/// The queries that were written in the order in which they were due. That is the order of their numbers,
/// except where threads go on by themselves (closed loop).
fn in_time(log: &QueryLog) -> Box<dyn Iterator<Item = &Entry> + '_> {
    let written = || log.iter().map(|(_, entry)| entry).filter(|entry| entry.scheduled_ns > 0);
    if written().is_sorted_by_key(|entry| entry.scheduled_ns) {
        return Box::new(written());
    }
    let mut sorted: Vec<&Entry> = written().collect();
    sorted.sort_unstable_by_key(|entry| entry.scheduled_ns);
    Box::new(sorted.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::tests::Sample;

    #[test]
    fn the_intervals_add_up_to_the_trial() {
        let sample = Sample::new();
        for interval_ns in [100_000_000, 300_000_000, SECOND_NS, 7 * SECOND_NS] {
            let (mut seen, mut valid, mut length_ns) = (0, 0, 0);
            cut(&sample.finished(), sample.log(), interval_ns, |cut| {
                assert_eq!(cut.start_ns, length_ns);
                seen += cut.classes.iter().sum::<u64>();
                valid += cut.latency_ns.len();
                length_ns += cut.length_ns;
                Ok::<(), ()>(())
            })
            .unwrap();
            assert_eq!((seen, valid, length_ns), (7, 1, 800_000_000), "one was never written");
            let series = series(&sample.finished(), sample.log(), interval_ns);
            assert_eq!(series.iter().map(|interval| interval.sent).sum::<u64>(), 6);
            assert_eq!(series.iter().map(|interval| interval.valid + interval.failed).sum::<u64>(), 8);
        }
        let first = series(&sample.finished(), sample.log(), 200_000_000)[0];
        assert_eq!((first.sent, first.valid, first.failed), (2, 1, 1));
    }
}
