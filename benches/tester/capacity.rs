//! How many queries each tool gets answered, from one processor.

use std::io;

use figures::tester::{Capacity, Target as Measured};

use crate::place::{Placement, Target};
use crate::tools::{Load, Told, Tool};

/// Length of a run in seconds.
const RUN_S: u64 = 2;
/// The search for a rate ends when its bracket is narrower than this ratio.
const WIDTH: f64 = 1.03;
/// Runs at a rate before it is given up.
const ATTEMPTS: usize = 3;
/// With a smaller share of answers than this a run is not repeated.
const HOPELESS: f64 = 0.9;
/// A search starts here, in q/s.
const START_QPS: f64 = 100_000.0;

/// A tool against a target, over all rounds.
struct Row {
    target: Target,
    tool: Tool,
    measured: Capacity,
    /// Where the last search ended, in q/s: the next one starts there.
    near_qps: f64,
}

/// All tools against all targets, interleaved.
///
/// # Errors
/// A server or a tool cannot be started.
pub fn measure(
    place: &Placement,
    targets: &[Target],
    tools: &[Tool],
    rounds: usize,
) -> io::Result<Vec<Measured>> {
    let mut rows: Vec<Row> =
        targets.iter().flat_map(|&target| tools.iter().map(move |&tool| Row::new(target, tool))).collect();
    for round in 0..rounds {
        for &target in targets {
            let server = place.serve(target)?;
            for row in rows.iter_mut().filter(|row| row.target == target) {
                row.measure(place)?;
                eprintln!("round {}: {}, {}", round + 1, target.name(), row.in_words());
            }
            drop(server);
        }
    }
    let of = |target: Target| Measured {
        name: target.name().into(),
        rows: rows.iter().filter(|row| row.target == target).map(|row| row.measured.clone()).collect(),
    };
    Ok(targets.iter().copied().map(of).collect())
}

impl Row {
    fn new(target: Target, tool: Tool) -> Self {
        let measured = Capacity { tool: tool.name(), ..Capacity::default() };
        Self { target, tool, measured, near_qps: START_QPS }
    }

    fn measure(&mut self, place: &Placement) -> io::Result<()> {
        let load = |rate_qps| Load {
            rate_qps,
            duration_s: RUN_S,
            timeout_s: 0.25,
            sextant: self.target.sextant_options(),
        };
        let told = match self.tool {
            Tool::Dnsperf | Tool::Resperf => self.tool.run(place, &load(None))?,
            Tool::Sextant(_) => {
                self.highest(|rate| self.tool.run(place, &load(Some(rate))), |told, _| told.passed)?
            }
            // It sends fewer than it was told without a word.
            Tool::Kxdpgun(_) => self.highest(
                |rate| self.tool.run(place, &load(Some(rate))),
                |told, rate| told.answered_qps() > 0.98 * rate,
            )?,
        };
        self.near_qps = told.answered_qps().max(START_QPS / 10.0);
        self.measured.answered_qps.push(told.answered_qps());
        self.measured.answered_pct.push(told.answered as f64 / told.sent.max(1) as f64 * 100.0);
        self.measured.busy_us.push(told.busy_us);
        Ok(())
    }

    /// The run at the highest rate that is good; a bad run is repeated, for the machine is not ours alone.
    fn highest(
        &self,
        run: impl Fn(u64) -> io::Result<Told>,
        good: impl Fn(&Told, f64) -> bool,
    ) -> io::Result<Told> {
        let mut best = Told::default();
        let (mut low, mut high) = (0.0, f64::INFINITY);
        let mut rate = self.near_qps;
        while high / low > WIDTH && rate > 1000.0 {
            let mut told = run(rate as u64)?;
            for _ in 1..ATTEMPTS {
                if good(&told, rate) || (told.answered as f64) < HOPELESS * told.sent as f64 {
                    break;
                }
                told = run(rate as u64)?;
            }
            if good(&told, rate) {
                (low, best) = (rate, told);
            } else {
                high = rate;
            }
            rate = match (low > 0.0, high.is_finite()) {
                (true, true) => (low * high).sqrt(),
                (true, false) => low * 1.6,
                (false, _) => high / 1.25,
            };
        }
        Ok(best)
    }

    fn in_words(&self) -> String {
        let Capacity { tool, answered_qps, answered_pct, busy_us } = &self.measured;
        let (qps, pct, us) = (answered_qps.thousands(), answered_pct.decimals(1), busy_us.decimals(2));
        format!("{tool}: {qps} thousand q/s, {pct} %, {us} us")
    }
}
