//! One server in one round: from its start to its end.

use std::io;
use std::time::{Duration, Instant};

use campaign::DUT_PORT;
use engine::search::{Mode, Next, Point, SearchSpec, TrialInput, bracket, next};
use figures::dns64::SHARES_PCT;
use lab::observe::ProcessCounters;
use lab::peers::Server;
use record::Outcome;
use record::limits::VOIDS_IN_A_ROW;

use crate::book::{Book, Cell, Figure, HITS, LOADS_PCT, MISSES};
use crate::options::Options;
use crate::place::Placement;
use crate::trial::{Ask, Told};

/// The search goes from this share of what a closed loop got, to this multiple of it.
const RANGE: (f64, f64) = (0.02, 1.2);
/// The longest search.
const SEARCH_MAX: Duration = Duration::from_secs(45);
/// Rests after a trial until a server has done with what it had queued.
const SETTLE: Duration = Duration::from_millis(150);
/// Trials of one figure before it is given up: the machine is not ours alone.
const ATTEMPTS: usize = 4;

/// A server at work.
pub struct Session<'a> {
    /// Where.
    pub place: &'a mut Placement,
    /// How long.
    pub options: &'a Options,
    /// Into which the figures go.
    pub book: &'a mut Book,
    /// Which.
    pub server: &'static Server,
    /// On so many cores.
    pub cores: usize,
}

impl Session<'_> {
    /// Starts the server, measures it, and stops it.
    ///
    /// # Errors
    /// It did not start, died, gave no right answer, or somebody ended the run.
    pub fn run(mut self) -> io::Result<()> {
        let mut running = self.place.start(self.server, self.cores)?;
        if let Some(octets) = lab::observe::receive_buffer_of(running.pid(), DUT_PORT) {
            self.book.buffer(self.server.name, octets);
        }
        if self.cores == 1 {
            let memory = ProcessCounters::of(running.pid()).map_or(0, |counters| counters.memory_octets());
            self.note(Figure::Start, running.start.as_secs_f64(), 0.0);
            self.note(Figure::MemoryEmpty, memory as f64 / f64::from(1 << 20), 0.0);
        }
        let measured = self.measure();
        // Its own end explains more than what the Tester saw of it.
        running.check_alive().map_err(io::Error::other)?;
        running.stop();
        measured
    }

    fn measure(&mut self) -> io::Result<()> {
        let misses = self.closed(MISSES)?;
        self.closed(HITS)?;
        if self.place.shares(self.cores) {
            // The Tester cannot keep a schedule on a processor that the server uses: every trial would be
            // void.
            return Ok(());
        }
        let passed_qps = self.search(misses.answered_qps)?;
        if self.cores > 1 {
            return Ok(());
        }
        if passed_qps > 0 {
            self.latencies(passed_qps)?;
        }
        let mut last = misses;
        for aaaa_pct in SHARES_PCT {
            for cached_pct in SHARES_PCT {
                let cell = Cell { cached_pct, aaaa_pct };
                if ![MISSES, HITS].contains(&cell) {
                    last = self.closed(cell)?;
                }
            }
        }
        self.note(Figure::MemoryFull, last.memory_mib, last.steal_pct);
        Ok(())
    }

    /// What a closed loop gets, and what an answer costs then.
    fn closed(&mut self, cell: Cell) -> io::Result<Told> {
        let told = self.ask(cell, None, self.options.cell)?;
        self.note(Figure::Most(self.cores, cell), told.answered_qps, told.steal_pct);
        self.note(Figure::Cpu(self.cores, cell), told.cpu_us, told.steal_pct);
        self.note(Figure::Core(self.cores, cell), told.core_us, told.steal_pct);
        eprintln!(
            "  {:3} % cached, {:3} % with AAAA: {:7.0} q/s, {:6.2} us per answer, steal {:.1} %",
            cell.cached_pct, cell.aaaa_pct, told.answered_qps, told.cpu_us, told.steal_pct
        );
        Ok(told)
    }

    /// Looks for the highest rate at which every query is answered rightly and in time; the highest that
    /// passed, be it the one or not: the machine may not let it be found.
    fn search(&mut self, most_qps: f64) -> io::Result<u64> {
        let mut spec = SearchSpec {
            mode: Mode::Verify,
            low: ((most_qps * RANGE.0) as u64).max(10),
            high: ((most_qps * RANGE.1) as u64).max(20),
            width_pct: self.options.width_pct,
            voids_max: VOIDS_IN_A_ROW.value as u32,
            trial_ns: self.options.search.as_nanos() as u64,
        };
        let (mut history, mut steal_pct) = (Vec::<Point>::new(), 0.0f64);
        let mut drains_s = Vec::new();
        let began = Instant::now();
        let found = loop {
            match next(&spec, &history) {
                Next::Try(TrialInput { load: qps, .. }) if began.elapsed() < SEARCH_MAX => {
                    let told = self.ask(MISSES, Some(qps), self.options.search)?;
                    history.push(told.point);
                    drains_s.push(told.drain_s);
                    steal_pct = steal_pct.max(told.steal_pct);
                }
                // A rate that void trials ended at is no figure of the server.
                Next::Found(found) if found.ended_by_voids.is_some() => break None,
                // An open loop may get more than a closed one: nothing above has been refused yet.
                Next::Found(found) if found.at_ceiling => spec.high += spec.high / 2,
                Next::Found(found) => break Some(found.load),
                Next::Try(_) | Next::Unfit(_) => break None,
            }
        };
        if let Some(qps) = found {
            self.note(Figure::Rate(self.cores), qps as f64, steal_pct);
            let passed = |point: &Point| point.load == qps && point.outcome == Outcome::Pass;
            let at_rate = history.iter().zip(&drains_s).filter(|(point, _)| passed(point));
            if let Some(drain_s) = at_rate.map(|(_, drain_s)| *drain_s).max_by(f64::total_cmp) {
                self.kept_up(qps, drain_s, steal_pct);
            }
        }
        let text = found.map_or("not found: too many void trials".into(), |qps| format!("{qps} q/s"));
        eprintln!("  RFC 8219 rate: {text} ({} trials), steal at most {steal_pct:.1} %", history.len());
        Ok(found.unwrap_or(bracket(&spec, &history).passed))
    }

    /// Corrects the rate found by what the server had not answered at the end of a trial: it answered the
    /// queries of the time T within T and the time that the last answers took.
    fn kept_up(&mut self, rate_qps: u64, drain_s: f64, steal_pct: f64) {
        let trial_s = self.options.search.as_secs_f64();
        let kept_up_qps = rate_qps as f64 * trial_s / (trial_s + drain_s);
        self.note(Figure::Drain(self.cores), drain_s, steal_pct);
        self.note(Figure::KeptUp(self.cores), kept_up_qps, steal_pct);
        eprintln!("  the last answers took {drain_s:.3} s: kept up with {kept_up_qps:.0} q/s");
    }

    fn latencies(&mut self, rate_qps: u64) -> io::Result<()> {
        for load_pct in LOADS_PCT {
            let qps = (rate_qps * u64::from(load_pct) / 100).max(1);
            for _ in 0..ATTEMPTS {
                let told = self.ask(MISSES, Some(qps), self.options.latency)?;
                if !told.counts() {
                    continue;
                }
                for (at, &latency_us) in told.latency_us.iter().enumerate() {
                    self.note(Figure::Latency(load_pct, at), latency_us, told.steal_pct);
                }
                self.note(Figure::LatencyRate(load_pct), qps as f64, told.steal_pct);
                self.note(Figure::CpuAt(load_pct), told.cpu_us, told.steal_pct);
                let [p50, p99, p999] = told.latency_us;
                eprintln!(
                    "  at {load_pct} % ({qps} q/s): {p50:.0}, {p99:.0}, {p999:.0} us (p50, p99, p99.9), {:.2} us per answer, steal {:.1} %",
                    told.cpu_us, told.steal_pct
                );
                break;
            }
        }
        Ok(())
    }

    fn ask(&mut self, cell: Cell, rate_qps: Option<u64>, length: Duration) -> io::Result<Told> {
        let told = Ask { cell, rate_qps, length }.run(self.place);
        std::thread::sleep(SETTLE);
        told
    }

    fn note(&mut self, figure: Figure, value: f64, steal_pct: f64) {
        self.book.push(self.server.name, figure, value, steal_pct);
    }
}
