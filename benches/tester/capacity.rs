//! How many queries each tool gets answered, from one processor.

use std::io;

use crate::place::{Placement, Target};
use crate::table::{Sample, table};
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
    answered_qps: Sample,
    answered_pct: Sample,
    busy_us: Sample,
    /// Where the last search ended, in q/s: the next one starts there.
    near_qps: f64,
}

/// All tools against all targets, interleaved; the answer is Markdown.
///
/// # Errors
/// A server or a tool cannot be started.
pub fn measure(place: &Placement, targets: &[Target], tools: &[Tool], rounds: usize) -> io::Result<String> {
    let mut rows: Vec<Row> =
        targets.iter().flat_map(|&target| tools.iter().map(move |&tool| Row::new(target, tool))).collect();
    for round in 0..rounds {
        for &target in targets {
            let server = place.serve(target)?;
            for row in rows.iter_mut().filter(|row| row.target == target) {
                row.measure(place)?;
                eprintln!("round {}: {}", round + 1, row.cells().join(", "));
            }
            drop(server);
        }
    }
    Ok(rendered(targets, &rows))
}

impl Row {
    fn new(target: Target, tool: Tool) -> Self {
        let sample = Sample::default;
        Self {
            target,
            tool,
            answered_qps: sample(),
            answered_pct: sample(),
            busy_us: sample(),
            near_qps: START_QPS,
        }
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
        self.answered_qps.push(told.answered_qps());
        self.answered_pct.push(told.answered as f64 / told.sent.max(1) as f64 * 100.0);
        self.busy_us.push(told.busy_us);
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

    fn cells(&self) -> Vec<String> {
        vec![
            self.target.name().into(),
            self.tool.name(),
            self.answered_qps.thousands(),
            self.answered_pct.decimals(1),
            self.busy_us.decimals(2),
        ]
    }
}

fn rendered(targets: &[Target], rows: &[Row]) -> String {
    let mut out = String::new();
    for &target in targets {
        let of_target: Vec<&Row> = rows.iter().filter(|row| row.target == target).collect();
        let against = |tool: fn(&Tool) -> bool| {
            of_target.iter().find(|row| tool(&row.tool)).map_or(0.0, |row| row.answered_qps.median())
        };
        let (dnsperf, kxdpgun) =
            (against(|tool| *tool == Tool::Dnsperf), against(|tool| matches!(tool, Tool::Kxdpgun(_))));
        let ratio = |value: f64, of: f64| if of > 0.0 { format!("{:.2}", value / of) } else { "-".into() };
        let cells = of_target.iter().map(|row| {
            let mut cells = row.cells().split_off(1);
            let median = row.answered_qps.median();
            cells.extend([ratio(median, dnsperf), ratio(median, kxdpgun)]);
            cells
        });
        let head = [
            "tool",
            "answered, 1000 q/s",
            "answered, %",
            "processor, µs per answer",
            "x dnsperf",
            "x kxdpgun",
        ];
        out += &format!("### {}\n\n{}\n", target.name(), table(&head, &cells.collect::<Vec<_>>()));
    }
    out
}
