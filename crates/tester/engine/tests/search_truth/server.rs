//! A server as a queue of fluid, in steps of 1 ms.

use std::collections::VecDeque;

use record::random::Sequence;

/// What is true of a server.
#[derive(Clone, Copy, Debug)]
pub struct Nature {
    /// The rate up to which no query is lost, however long a trial is, in q/s.
    pub knee_qps: u64,
    /// What it answers while it neither stalls nor warms up, in q/s.
    pub capacity_qps: u64,
    /// Queries that wait for it at most; more are dropped.
    pub buffer: u64,
    /// The share of the queries that it loses at random at any rate above the knee.
    pub loss_ratio: f64,
    /// Whether it stalls now and then.
    pub stalls: bool,
    /// For so many ms of work after its start it answers half as much.
    pub warming_ms: u64,
}

/// From the end of a stall to the begin of the next, in ms.
const STALL_EVERY_MS: (f64, f64) = (2000.0, 4000.0);
/// How long a stall lasts, in ms.
pub const STALL_MS: (f64, f64) = (50.0, 150.0);

/// Some queries of a trial, all due in one millisecond and sent in one.
#[derive(Clone, Copy, Debug)]
pub struct Queries {
    /// In ms from the begin of the trial.
    pub sent_ms: u32,
    /// Likewise.
    pub due_ms: u32,
    pub count: u32,
}

/// Queries that were answered in time.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    /// In ms from the begin of the trial.
    pub due_ms: u32,
    /// From there to the end of the millisecond of the answer.
    pub latency_ms: u32,
    pub count: u32,
}

/// What became of a trial.
#[derive(Debug, Default)]
pub struct Outcome {
    pub in_time: Vec<Answers>,
    /// Answers after the timeout.
    pub late: u64,
    /// Queries that nobody answered, by the millisecond that they were due in.
    pub lost: Vec<(u32, u32)>,
    /// Until the last answer, or until the Tester no longer listened.
    pub length_ms: u64,
}

/// How long the Tester waits.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For an answer.
    pub timeout_ms: u32,
    /// For late answers after the end of the schedule, where one is missing.
    pub listen_ms: u64,
}

/// A server at work.
pub struct Server {
    nature: Nature,
    random: Sequence,
    /// Queries that wait.
    waiting: u64,
    /// Thousandths of a query that it could have answered.
    credit: u64,
    /// Begin and end of the stall that is or comes, in ms from now.
    stall: (f64, f64),
    worked_ms: u64,
    /// Queries until the next one that is lost at random.
    spared: u64,
}

impl Server {
    pub fn new(nature: Nature, seed: u64) -> Self {
        let random = Sequence::new(seed, 2);
        let never = (f64::INFINITY, f64::INFINITY);
        let mut server =
            Self { nature, random, waiting: 0, credit: 0, stall: never, worked_ms: 0, spared: 0 };
        if nature.stalls {
            let begin = server.between((0.0, STALL_EVERY_MS.1));
            server.stall = (begin, begin + server.between(STALL_MS));
        }
        server.spared = server.until_lost();
        server
    }

    fn between(&mut self, (least, most): (f64, f64)) -> f64 {
        least + self.random.unit() * (most - least)
    }

    /// Queries before the next loss, where each is lost with the same chance: geometrically distributed.
    fn until_lost(&mut self) -> u64 {
        if self.nature.loss_ratio <= 0.0 {
            return u64::MAX;
        }
        (self.random.unit().ln() / (-self.nature.loss_ratio).ln_1p()) as u64
    }

    /// How many of these it loses at random.
    fn lose(&mut self, queries: u32) -> u32 {
        let (mut lost, mut left) = (0, u64::from(queries));
        while self.spared < left {
            left -= self.spared + 1;
            lost += 1;
            self.spared = self.until_lost();
        }
        self.spared -= left;
        lost
    }

    /// The queries that it can answer in the next millisecond, of which it lacks its processor for so many
    /// thousandths.
    fn could_answer(&mut self, taken: u16) -> u64 {
        let warming = self.worked_ms < self.nature.warming_ms;
        let whole = if warming { self.nature.capacity_qps / 2 } else { self.nature.capacity_qps };
        let whole = whole * u64::from(1000 - taken) / 1000;
        self.credit += if self.nature.stalls { whole * self.awake_thousandths() / 1000 } else { whole };
        let queries = self.credit / 1000;
        self.credit %= 1000;
        queries
    }

    /// How much of the next millisecond it does not stall.
    fn awake_thousandths(&mut self) -> u64 {
        let stalled = (self.stall.1.min(1.0) - self.stall.0.max(0.0)).max(0.0);
        self.stall = (self.stall.0 - 1.0, self.stall.1 - 1.0);
        if self.stall.1 <= 0.0 {
            let begin = self.stall.1 + self.between(STALL_EVERY_MS);
            self.stall = (begin, begin + self.between(STALL_MS));
        }
        ((1.0 - stalled) * 1000.0) as u64
    }

    /// Time without queries: what waits is worked off.
    pub fn rest(&mut self, ms: u64) {
        for _ in 0..ms {
            self.waiting -= self.could_answer(0).min(self.waiting);
        }
    }

    /// A trial. It ends when all was answered, or when the Tester no longer listens. `taken` has for each
    /// millisecond the thousandths for which the server lacks its processor; none behind its end.
    pub fn trial(
        &mut self,
        rate_qps: u64,
        mut sent: &[Queries],
        end_ms: u64,
        patience: Patience,
        taken: &[u16],
    ) -> Outcome {
        let mut outcome = Outcome { in_time: Vec::with_capacity(sent.len()), ..Outcome::default() };
        // What a trial before left behind is worked off first, and nobody waits for it.
        let (mut stale, mut queue) = (self.waiting, VecDeque::new());
        let loses = rate_qps > self.nature.knee_qps;
        let last_ms = end_ms + patience.listen_ms;
        while outcome.length_ms < last_ms {
            let now_ms = outcome.length_ms as u32;
            let mut could = self.could_answer(taken.get(now_ms as usize).copied().unwrap_or(0));
            self.worked_ms += 1;
            let old = could.min(stale);
            (stale, could, self.waiting) = (stale - old, could - old, self.waiting - old);
            self.answer(&mut queue, &mut could, now_ms, patience.timeout_ms, &mut outcome);
            while let Some((queries, later)) = sent.split_first().filter(|(next, _)| next.sent_ms <= now_ms) {
                sent = later;
                let lost = if loses { self.lose(queries.count) } else { 0 };
                let room = (self.nature.buffer + could).saturating_sub(self.waiting);
                let taken = u64::from(queries.count - lost).min(room) as u32;
                if taken < queries.count {
                    outcome.lost.push((queries.due_ms, queries.count - taken));
                }
                self.waiting += u64::from(taken);
                queue.push_back((queries.due_ms, taken));
                self.answer(&mut queue, &mut could, now_ms, patience.timeout_ms, &mut outcome);
            }
            outcome.length_ms += 1;
            if sent.is_empty() && queue.is_empty() && outcome.lost.is_empty() {
                break;
            }
        }
        outcome
    }

    /// Answers what waits longest, as much as it could in this millisecond.
    #[inline]
    fn answer(
        &mut self,
        queue: &mut VecDeque<(u32, u32)>,
        could: &mut u64,
        now_ms: u32,
        timeout_ms: u32,
        outcome: &mut Outcome,
    ) {
        while let Some((due_ms, waiting)) = queue.front_mut() {
            let count = u64::from(*waiting).min(*could) as u32;
            let latency_ms = now_ms + 1 - *due_ms;
            if latency_ms > timeout_ms {
                outcome.late += u64::from(count);
            } else if count > 0 {
                outcome.in_time.push(Answers { due_ms: *due_ms, latency_ms, count });
            }
            *could -= u64::from(count);
            self.waiting -= u64::from(count);
            *waiting -= count;
            if *waiting > 0 {
                break;
            }
            queue.pop_front();
        }
    }
}
