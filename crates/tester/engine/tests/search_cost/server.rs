//! A server as a queue of fluid: so much flows in, so much can flow out, and what its buffer cannot hold is
//! lost.

use engine::search::{Point, TrialInput};
use record::Outcome;
use record::random::Sequence;

/// What it answers while it does not pause, in q/s.
pub const CAPACITY_QPS: f64 = 100_000.0;
const BUFFER: f64 = 5_000.0;

/// When it pauses: as a Poisson process, for exponentially distributed times.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// Mean time from the end of one to the next, in seconds.
    pub every_s: f64,
    /// Mean length in seconds.
    pub mean_s: f64,
}

impl Pauses {
    pub const NONE: Self = Self { every_s: f64::INFINITY, mean_s: 0.0 };
}

pub struct Server {
    pauses: Pauses,
    random: Sequence,
}

impl Server {
    pub fn new(pauses: Pauses, seed: u64) -> Self {
        Self { pauses, random: Sequence::new(seed, 0) }
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -self.random.unit().ln() * mean
    }

    /// A trial that begins with an empty queue.
    pub fn trial(&mut self, TrialInput { load, duration_ns }: TrialInput) -> Point {
        let (rate, length) = (load as f64, duration_ns as f64 / 1e9);
        let (mut now, mut waiting, mut lost) = (0.0, 0.0, 0.0);
        while now < length {
            let up =
                if self.pauses.every_s.is_finite() { self.exponential(self.pauses.every_s) } else { length };
            let down = self.exponential(self.pauses.mean_s);
            for (time, served) in [(up, CAPACITY_QPS), (down, 0.0)] {
                let time = time.min(length - now);
                now += time;
                waiting += (rate - served) * time;
                lost += (waiting - BUFFER).max(0.0);
                waiting = waiting.clamp(0.0, BUFFER);
            }
        }
        // Queries are whole.
        let loss_ratio = (lost.floor() / (rate * length)).min(1.0);
        let outcome = if loss_ratio > 0.0 { Outcome::Fail } else { Outcome::Pass };
        Point { load, duration_ns, outcome, loss_ratio }
    }
}
