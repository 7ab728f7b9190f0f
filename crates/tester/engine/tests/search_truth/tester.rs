//! A trial as the Tester sees it: the schedule, its own pauses, the counts, and the real verdict.

use engine::pacer::Schedule;
use engine::search::{Point, TrialInput};
use engine::stats::Stats;
use engine::trial::{Circumstances, Validity, conclude};
use engine::verdict::Limits;

use crate::cases::TIMEOUT_MS;
use crate::pauses::Tape;
use crate::server::{Nature, Outcome, Patience, Queries, Server};

const MS_NS: u64 = 1_000_000;

/// Tester and server, from the begin of a measurement on.
pub struct Lab {
    server: Server,
    tape: Tape,
    now_ms: u64,
    /// How long the Tester listens for late answers, in ms.
    listen_ms: u64,
    /// The pause after a trial, in ms.
    settle_ms: u64,
}

/// What a trial told.
pub struct Told {
    /// For the search.
    pub point: Point,
    /// The slowest answer to the queries of its last second, in ns: so long the server still worked.
    pub drain_ns: u64,
}

impl Lab {
    pub fn new(nature: Nature, tape: Tape, seed: u64, listen_ms: u64, settle_ms: u64) -> Self {
        Self { server: Server::new(nature, seed), tape, now_ms: 0, listen_ms, settle_ms }
    }

    /// Time of the measurement so far, in ms.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub fn trial(&mut self, input: TrialInput) -> Told {
        let TrialInput { rate_qps, duration_ns } = input;
        let schedule = Schedule::new(0, rate_qps, duration_ns);
        let mut stats = Stats::new(schedule);
        let sent = self.send(&schedule, &mut stats);
        let patience = Patience { timeout_ms: TIMEOUT_MS, listen_ms: self.listen_ms };
        let outcome = self.server.trial(rate_qps, &sent, duration_ns.div_ceil(MS_NS), patience);
        self.server.rest(self.settle_ms);
        self.now_ms += outcome.length_ms + self.settle_ms;
        count(&mut stats, &schedule, &outcome);
        let limits = Limits::for_timeout(u64::from(TIMEOUT_MS) * MS_NS);
        let trial = conclude(&schedule, &stats, &Circumstances::default(), &limits, Validity::Strict);
        let from_ms = (duration_ns / MS_NS).saturating_sub(1000) as u32;
        let last_second = outcome.in_time.iter().filter(|answers| answers.due_ms >= from_ms);
        let drain_ms = last_second.map(|answers| answers.latency_ms).max().unwrap_or(0);
        Told { point: Point::of(input, &trial, Validity::Strict), drain_ns: u64::from(drain_ms) * MS_NS }
    }

    /// Sends every query when it is due, or at the end of the pause that it is due in.
    fn send(&self, schedule: &Schedule, stats: &mut Stats) -> Vec<Queries> {
        let length_ms = (schedule.end_ns() / MS_NS + 1) as u32;
        let begin_us = self.now_ms * 1000;
        // The first query that is due at an instant or later.
        let first = |us: u64| (us * schedule.rate_qps).div_ceil(1_000_000).min(schedule.queries);
        let pauses = self.tape.within(begin_us, begin_us + u64::from(length_ms) * 1000);
        let delayed = pauses.into_iter().map(|(start_us, end_us)| (first(start_us)..first(end_us), end_us));
        let mut delayed = delayed.filter(|(queries, _)| !queries.is_empty()).peekable();
        let mut sent = Vec::with_capacity(length_ms as usize + 100);
        let (mut next, mut late) = (0, 0);
        for due_ms in 0..length_ms {
            let end = first((u64::from(due_ms) + 1) * 1000);
            while next < end {
                let (until, sent_ms) = match delayed.peek() {
                    Some((queries, end_us)) if queries.start <= next => {
                        let until = end.min(queries.end);
                        for n in next..until {
                            stats.add_lateness((end_us * 1000).saturating_sub(schedule.due_ns(n)), 1);
                        }
                        late += until - next;
                        (until, (end_us / 1000) as u32)
                    }
                    Some((queries, _)) => (end.min(queries.start), due_ms),
                    None => (end, due_ms),
                };
                stats.add_sent(sent_ms as usize, until - next);
                sent.push(Queries { sent_ms, due_ms, count: (until - next) as u32 });
                next = until;
                delayed.next_if(|(queries, _)| queries.end <= next);
            }
        }
        stats.add_lateness(0, schedule.queries - late);
        sent
    }
}

/// Puts the answers into the statistics.
fn count(stats: &mut Stats, schedule: &Schedule, outcome: &Outcome) {
    stats.late = outcome.late;
    // Of each millisecond the answers to queries that were due before it.
    let mut before = vec![0u64; (schedule.end_ns() / MS_NS) as usize + 2];
    for run in outcome.in_time.chunk_by(|a, b| a.latency_ms == b.latency_ms) {
        let answers = run.iter().map(|answers| u64::from(answers.count)).sum();
        stats.add_latency(u64::from(run[0].latency_ms) * MS_NS, answers);
        for answers in run {
            before[answers.due_ms as usize + 1] += u64::from(answers.count);
        }
    }
    for ms in 1..before.len() {
        before[ms] += before[ms - 1];
    }
    let ms_of =
        |n: u64| if n < schedule.queries { (schedule.due_ns(n) / MS_NS) as usize } else { before.len() - 1 };
    stats.count_by_window(|numbers| before[ms_of(numbers.end)] - before[ms_of(numbers.start)]);
}
