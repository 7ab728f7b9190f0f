//! A trial as the Tester sees it: the schedule, its own pauses, the counts, and the real verdict.

use engine::pacer::Schedule;
use engine::quiet::{LOOK_NS, Look, is_look_due, judge, wait_max_ns};
use engine::search::{Point, TrialInput};
use engine::stats::Stats;
use engine::trial::{Circumstances, LoadSample, Validity, conclude};
use engine::verdict::Limits;
use record::{Observation, Trial};

use crate::cases::{Case, TIMEOUT_MS};
use crate::neighbours::{Neighbours, Others};
use crate::pauses::Tape;
use crate::server::{Outcome, Patience, Queries, Server};

const MS_NS: u64 = 1_000_000;

/// Tester and server, from the begin of a measurement on.
pub struct Lab {
    server: Server,
    capacity_qps: u64,
    tape: Tape,
    /// None on a machine that nobody else uses.
    neighbours: Option<Neighbours>,
    now_ms: u64,
    /// How long the Tester waited for a quiet machine, in ms.
    waited_ms: u64,
    /// How long the Tester listens for late answers, in ms.
    listen_ms: u64,
    /// The pause after a trial, in ms.
    settle_ms: u64,
}

/// What a trial told.
pub struct Told {
    /// For the search.
    pub point: Point,
    /// For the record.
    pub trial: Trial,
    /// The slowest answer to the queries of its last second, in ns: so long the server still worked.
    pub drain_ns: u64,
}

impl Lab {
    pub fn new(case: &Case, seed: u64, listen_ms: u64, settle_ms: u64) -> Self {
        let Case { nature, pauses, others, .. } = *case;
        Self {
            server: Server::new(nature, seed),
            capacity_qps: nature.capacity_qps,
            tape: if pauses { Tape::of(seed) } else { Tape::without() },
            neighbours: (others.name != Others::NOBODY.name).then(|| Neighbours::new(others, seed)),
            now_ms: 0,
            waited_ms: 0,
            listen_ms,
            settle_ms,
        }
    }

    /// Time of the measurement so far, in ms.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// How long of it the Tester waited for a quiet machine, in ms.
    pub fn waited_ms(&self) -> u64 {
        self.waited_ms
    }

    /// Waits for a quiet machine as `sextant bench` does.
    pub fn wait_for_quiet(&mut self, last: Option<&Trial>) {
        /// Between two looks.
        const PAUSE_MS: u64 = 2000;
        let Some(neighbours) = &self.neighbours else { return };
        let max_ns = wait_max_ns(u64::MAX);
        if self.waited_ms * MS_NS >= max_ns || !is_look_due(last, &LIMITS) {
            return;
        }
        let (begin_ms, before_ms) = (self.now_ms, self.waited_ms);
        loop {
            let look = judge(&neighbours.load(self.now_ms, LOOK_NS / MS_NS, 0.0), &LIMITS);
            self.now_ms += LOOK_NS / MS_NS;
            if look == Look::Quiet {
                break;
            }
            self.waited_ms = before_ms + self.now_ms - begin_ms;
            if self.waited_ms * MS_NS >= max_ns {
                break;
            }
            self.now_ms += PAUSE_MS;
        }
    }

    pub fn trial(&mut self, input: TrialInput) -> Told {
        let TrialInput { load: rate_qps, duration_ns } = input;
        let schedule = Schedule::new(0, rate_qps, duration_ns);
        let mut stats = Stats::new(schedule);
        let sent = self.send(&schedule, &mut stats);
        let patience = Patience { timeout_ms: TIMEOUT_MS, listen_ms: self.listen_ms };
        let end_ms = duration_ns.div_ceil(MS_NS);
        let neighbours = self.neighbours.as_ref();
        let taken = neighbours
            .map_or_else(Vec::new, |others| others.taken_from_server(self.now_ms, end_ms + self.listen_ms));
        let outcome = self.server.trial(rate_qps, &sent, end_ms, patience, &taken);
        let busy = (rate_qps as f64 / self.capacity_qps as f64).min(1.0);
        let load = neighbours.map(|others| others.load(self.now_ms, outcome.length_ms, busy));
        let circumstances = load.map_or_else(Circumstances::default, disturbed);
        self.server.rest(self.settle_ms);
        self.now_ms += outcome.length_ms + self.settle_ms;
        count(&mut stats, &schedule, &outcome);
        let trial = conclude(&schedule, &stats, &circumstances, &LIMITS, Validity::Strict);
        let from_ms = (duration_ns / MS_NS).saturating_sub(1000) as u32;
        let last_second = outcome.in_time.iter().filter(|answers| answers.due_ms >= from_ms);
        let drain_ms = last_second.map(|answers| answers.latency_ms).max().unwrap_or(0);
        let point = Point::of(input, &trial, Validity::Strict);
        Told { point, trial, drain_ns: u64::from(drain_ms) * MS_NS }
    }

    /// Sends every query when it is due, or at the end of the pause that it is due in.
    fn send(&self, schedule: &Schedule, stats: &mut Stats) -> Vec<Queries> {
        let length_ms = (schedule.end_ns() / MS_NS + 1) as u32;
        let begin_us = self.now_ms * 1000;
        // The first query that is due at an instant or later.
        let first = |us: u64| (us * schedule.rate_qps).div_ceil(1_000_000).min(schedule.queries);
        let end_us = begin_us + u64::from(length_ms) * 1000;
        let pauses = match &self.neighbours {
            Some(neighbours) => neighbours.tester_pauses(begin_us, end_us),
            None => self.tape.within(begin_us, end_us),
        };
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

/// What a trial is judged by.
const LIMITS: Limits = Limits::for_timeout(TIMEOUT_MS as u64 * MS_NS);

/// What the Tester knows of the others during a trial.
fn disturbed(load: Vec<LoadSample>) -> Circumstances {
    let length_ns: u64 = load.iter().map(LoadSample::length_ns).sum();
    let percent = |of: fn(&LoadSample) -> u64| {
        Some(load.iter().map(of).sum::<u64>() as f64 * 100.0 / length_ns.max(1) as f64)
    };
    let observation = Observation {
        elapsed_s: length_ns as f64 / 1e9,
        steal_pct: percent(|sample| sample.steal_ns),
        foreign_cpu_pct: percent(|sample| sample.other_programs_ns.unwrap_or(0)),
        dut_cpu_pct: Some(0.0),
        ..Observation::default()
    };
    Circumstances { observation: Some(observation), load, ..Circumstances::default() }
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
