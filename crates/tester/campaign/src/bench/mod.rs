//! The bench: self-test, repeated search, latency at half the rate, and the record after every trial.

mod fitness;
mod observed;

use std::io;
use std::time::{Duration, SystemTime};

use engine::search::{
    Mode, Next, Point, SearchResult, SearchSpec, TrialInput, bracket, goal_bounds, loss_inversions, next,
};
use record::statistics::{steadiness, summarize, summarize_connections, summarize_goals};
use record::{
    Environment, FoundConnections, GoalResult, Kind, Outcome, RateInterval, Results, Run, SearchMode, Sought,
    State,
};

use super::certificate::Stored;
use super::loopback::Loopback;
use super::progress::{Progress, Status, short_duration};
use super::quiet::QuietWait;
use super::target::{Auth, Target};
use super::tester::{MeasureError, Tester, TrialRun};
use super::{Plan, Store};

/// Everything a bench needs.
pub struct Bench<'a> {
    /// Rates, lengths and repetitions of the trials.
    pub plan: Plan,
    /// The Measurer with its threads, back-end and counters.
    pub tester: Tester,
    /// The server under test.
    pub target: Target,
    /// Its AuthDNS, if it is ours.
    pub auth: Option<Auth>,
    /// The Tester looped back: the AuthDNS that answers every AAAA itself. `None` leaves the self-test out.
    pub selftest: Option<Loopback>,
    /// The certificate that a short self-test shall confirm, or why there is none; `None` asks for a whole
    /// one.
    pub certificate: Option<Result<Stored, String>>,
    /// The result directory, written after every trial.
    pub store: Store,
    /// What the person sees.
    pub progress: Progress,
    /// Whether the server still runs; the reason if it does not.
    pub alive: &'a mut dyn FnMut() -> Result<(), String>,
    /// Called with every trial that the record has taken.
    pub finished: &'a mut dyn FnMut(&TrialRun),
    /// Called at the end: the state of the machine before and after.
    pub environment: &'a dyn Fn() -> Environment,
}

/// How a bench ended.
#[derive(Debug)]
pub enum BenchEnd {
    /// All repetitions were run.
    Complete,
    /// The user ended it.
    Interrupted,
    /// The Tester or the machine is not fit; the reason.
    Unfit(String),
    /// The server is gone; the reason.
    ServerFailed(String),
    /// A trial could not be run.
    Measure(MeasureError),
    /// The record could not be written.
    Record(io::Error),
}

impl From<MeasureError> for BenchEnd {
    fn from(error: MeasureError) -> Self {
        Self::Measure(error)
    }
}

impl From<io::Error> for BenchEnd {
    fn from(error: io::Error) -> Self {
        Self::Record(error)
    }
}

/// A record of this kind of command, without trials, started now.
pub fn empty_results(kind: Kind) -> Results {
    Results {
        tool: concat!("sextant ", env!("CARGO_PKG_VERSION")).to_owned(),
        command: std::env::args().collect(),
        started_utc: now_utc(),
        ..Results::new(kind)
    }
}

/// Now, as RFC 3339 in UTC.
pub(crate) fn now_utc() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// Runs the bench to its end, whatever that is; the record says how far it came.
pub fn run(mut bench: Bench<'_>, mut results: Results) -> (Results, BenchEnd) {
    let mut quiet = QuietWait::new(bench.forecast());
    let ended = bench.measure(&mut results, &mut quiet).err().unwrap_or(BenchEnd::Complete);
    bench.progress.clear();
    let ended = if bench.tester.stopped() { BenchEnd::Interrupted } else { ended };
    let ended = bench.finish(&mut results, ended);
    (results, ended)
}

impl Bench<'_> {
    fn measure(&mut self, results: &mut Results, quiet: &mut QuietWait) -> Result<(), BenchEnd> {
        self.save(results)?;
        self.self_test(results)?;
        self.announce();
        for repetition in 0..self.plan.repetitions {
            self.search(results, quiet, repetition)?;
            self.conclude(results);
            self.save(results)?;
            report::write_all(results, self.store.directory())?;
        }
        self.latency(results, quiet)?;
        observed::observe(self, results);
        Ok(())
    }

    fn announce(&self) {
        let time = self.forecast();
        self.progress.say(&format!(
            "  {} searches ({}), trials of {} s: about {}",
            self.plan.repetitions,
            SearchMode::from(&self.plan.mode),
            self.plan.trial_ns as f64 / 1e9,
            short_duration(time)
        ));
    }

    /// About how long the trials take.
    fn forecast(&self) -> Duration {
        self.plan.forecast(self.plan.repetitions, None) + self.afterwards()
    }

    fn search(
        &mut self,
        results: &mut Results,
        quiet: &mut QuietWait,
        repetition: u32,
    ) -> Result<(), BenchEnd> {
        let spec = self.plan.search();
        let phase = format!("search {}/{}", repetition + 1, self.plan.repetitions);
        let mut history: Vec<Point> = Vec::new();
        results.runs.push(Run::default());
        let found = loop {
            let input = match next(&spec, &history) {
                Next::Try(input) => input,
                Next::Found(found) => break found,
                Next::Unfit(load) => return self.without_result(results, &phase, load),
            };
            let waited_s = self.wait_for_quiet(results, quiet);
            let mut tried = self.try_load(results, &phase, input, Some(&history))?;
            tried.trial.waited_s = waited_s;
            history.push(Point::of(input, &tried.trial, self.target.validity));
            let run = results.runs.last_mut().expect("pushed above");
            run.trials.push(tried.trial.clone());
            let passed = bracket(&spec, &history).passed;
            self.note_found(run, SearchResult { load: passed, ..SearchResult::default() });
            run.loss_inversions = loss_inversions(&history);
            run.goals = goal_results(&spec, &history);
            self.keep(results, &phase, &tried)?;
            self.settle();
        };
        let run = results.runs.last_mut().expect("pushed above");
        run.complete = true;
        self.note_found(run, found);
        let in_words = |load| self.plan.sought().in_words(load);
        let ended = found.ended_by_voids.map_or(String::new(), |void_load| {
            format!("; void trials left {} undecided", in_words(void_load))
        });
        let (load, stop_width) = (in_words(found.load), in_words(found.stop_width));
        self.progress.say(&format!("  {phase}    found {load}, bracket {stop_width} wide{ended}"));
        Ok(())
    }

    /// Puts what a search has found into the record of its run.
    fn note_found(&self, run: &mut Run, found: SearchResult) {
        let SearchResult { load, stop_width, at_ceiling, ended_by_voids } = found;
        run.at_ceiling = at_ceiling;
        match self.plan.sought() {
            Sought::Rate => {
                (run.qps, run.stop_width_qps, run.ended_by_voids_qps) = (load, stop_width, ended_by_voids);
            }
            Sought::Connections => {
                run.qps = if load > 0 { self.plan.range_qps[1] } else { 0 };
                run.connections = Some(FoundConnections { most: load, stop_width, ended_by_voids });
            }
        }
    }

    /// A search that void trials kept from any load. The measurement goes on as long as its trials say
    /// something of the server; else this machine cannot measure now.
    fn without_result(&self, results: &mut Results, phase: &str, load: u64) -> Result<(), BenchEnd> {
        let why = unfit(results, load);
        let run = results.runs.last_mut().expect("a search has its run");
        self.note_found(run, SearchResult { ended_by_voids: Some(load), ..SearchResult::default() });
        let says_nothing = match results.sought() {
            Sought::Rate => RateInterval::of(results).is_some_and(|interval| interval.is_empty()),
            Sought::Connections => {
                let mut trials = results.runs.iter().flat_map(|run| &run.trials);
                trials.all(|trial| trial.outcome == Outcome::Void)
            }
        };
        if says_nothing {
            return Err(BenchEnd::Unfit(why));
        }
        self.progress.say(&format!("  {phase}    found no {}: {why}", results.sought().noun()));
        Ok(())
    }

    /// Waits for a quiet machine, if that is due before the next trial of the search; how long, in seconds.
    fn wait_for_quiet(&self, results: &Results, quiet: &mut QuietWait) -> f64 {
        let last = results.runs.iter().rev().find_map(|run| run.trials.last());
        quiet.before_trial(last, &self.target, &self.progress, &self.tester.stop)
    }

    fn latency(&mut self, results: &mut Results, quiet: &mut QuietWait) -> Result<(), BenchEnd> {
        let least_qps = results.interval.as_ref().map_or(0, |interval| interval.at_least_qps);
        let half = results.summary.as_ref().map_or(least_qps, |summary| summary.median as u64) / 2;
        // All trials of a search for connections have one rate, and show the latency at that.
        if half == 0 || self.plan.sought() != Sought::Rate {
            return Ok(());
        }
        let input = TrialInput { load: half, duration_ns: self.plan.trial_ns };
        let waited_s = self.wait_for_quiet(results, quiet);
        let mut tried = self.try_load(results, "half the rate", input, None)?;
        tried.trial.waited_s = waited_s;
        results.latency_trial = Some(tried.trial.clone());
        self.keep(results, "half the rate", &tried)
    }

    fn try_load(
        &mut self,
        results: &Results,
        phase: &str,
        input: TrialInput,
        history: Option<&[Point]>,
    ) -> Result<TrialRun, BenchEnd> {
        if self.tester.stopped() {
            return Err(BenchEnd::Interrupted);
        }
        (self.alive)().map_err(BenchEnd::ServerFailed)?;
        let duration_ns = self.plan.length_ns(input);
        let sought = self.plan.sought();
        let (rate_qps, connections) = match sought {
            Sought::Rate => (input.load, None),
            Sought::Connections => (self.plan.range_qps[1], Some(input.load)),
        };
        if let Some(connections) = connections {
            self.target = self.target.with_connections(connections);
        }
        let doing = Status {
            phase: phase.to_owned(),
            rate_qps,
            connections,
            length: self.plan.trial_time(duration_ns, false),
            bracket: history.map(|history| bracket(&self.plan.search(), history)),
            left: history.map(|history| self.time_left(results, history)),
        };
        let Self { tester, target, auth, progress, .. } = self;
        let tried = progress.during(&doing, || tester.trial(target, auth.as_ref(), rate_qps, duration_ns))?;
        self.progress.say_trial(phase, &tried.trial, sought);
        Ok(tried)
    }

    /// Puts a trial on disk that the record has taken, even if the server did not survive it.
    fn keep(&mut self, results: &Results, phase: &str, tried: &TrialRun) -> Result<(), BenchEnd> {
        self.save(results)?;
        // One interval of the HDR log for each trial.
        let load = match self.plan.sought() {
            Sought::Rate => format!("{}qps", tried.trial.rate_qps),
            sought @ Sought::Connections => format!("{}connections", sought.of_trial(&tried.trial)),
        };
        let tag = format!("{}-{load}", phase.replace([' ', '/'], "_"));
        self.store.append_histogram(&tag, &tried.trial, &tried.latency_ns)?;
        (self.finished)(tried);
        (self.alive)().map_err(BenchEnd::ServerFailed)
    }

    /// By the runs so far, or by the bracket of the first one.
    fn time_left(&self, results: &Results, history: &[Point]) -> Duration {
        let done = results.runs.iter().filter(|run| run.complete).count() as u32;
        let now = bracket(&self.plan.search(), history);
        let expected = results.found().map_or(now.passed.midpoint(now.failed), |found| found.median as u64);
        let whole = self.plan.forecast(1, Some(expected));
        let spent = history.iter().map(|point| self.plan.time_of(point)).sum();
        let this = whole.saturating_sub(spent);
        this + whole * self.plan.repetitions.saturating_sub(done + 1) + self.afterwards()
    }

    fn afterwards(&self) -> Duration {
        self.plan.afterwards(observes(self.auth.as_ref()))
    }

    /// The pause after a trial; a stop ends it.
    fn settle(&self) {
        let until = std::time::Instant::now() + Duration::from_nanos(self.plan.settle_ns);
        while std::time::Instant::now() < until && !self.tester.stopped() {
            std::thread::sleep(
                Duration::from_millis(50).min(until.saturating_duration_since(std::time::Instant::now())),
            );
        }
    }

    fn save(&self, results: &Results) -> io::Result<()> {
        self.store.save(results)
    }

    fn conclude(&self, results: &mut Results) {
        summarize_runs(results);
        results.bottleneck = engine::verdict::bottleneck(results);
        results.checklist = engine::checklist::checklist(results);
        results.verdict = Some(report::verdict(results));
    }

    /// Puts the end into the record; a record that cannot be written is the end itself.
    fn finish(&self, results: &mut Results, ended: BenchEnd) -> BenchEnd {
        results.state = match &ended {
            BenchEnd::Complete => State::Complete,
            BenchEnd::Interrupted => State::Interrupted,
            BenchEnd::Unfit(reason) | BenchEnd::ServerFailed(reason) => State::Failed(reason.clone()),
            BenchEnd::Measure(error) => State::Failed(error.to_string()),
            BenchEnd::Record(error) => State::Failed(error.to_string()),
        };
        results.finished_utc = Some(now_utc());
        results.environment = (self.environment)();
        self.conclude(results);
        // The record first: should the disk be full, the report can be rendered from it elsewhere.
        let written = self.save(results).and_then(|()| report::write_all(results, self.store.directory()));
        match (written, ended) {
            (Err(error), BenchEnd::Complete | BenchEnd::Interrupted) => BenchEnd::Record(error),
            (_, ended) => ended,
        }
    }
}

/// Whether an AuthDNS looks at the server's queries in the end.
pub fn observes(auth: Option<&Auth>) -> bool {
    auth.is_some_and(|auth| auth.authority.observer().is_some())
}

fn summarize_runs(results: &mut Results) {
    let complete: Vec<&Run> = results.runs.iter().filter(|run| run.came_to_its_end()).collect();
    let found: Vec<u64> = complete.iter().map(|run| run.found()).collect();
    let width = complete.iter().map(|run| run.stop_width()).max().unwrap_or(0);
    match results.sought() {
        Sought::Rate => results.summary = summarize(&found, width),
        Sought::Connections => results.connections = summarize_connections(&found, width),
    }
    results.interval = RateInterval::of(results);
    results.goals = summarize_goals(&results.settings, &results.runs);
    results.steadiness = steadiness(&results.runs, &results.goals);
}

fn goal_results(spec: &SearchSpec, history: &[Point]) -> Vec<GoalResult> {
    match &spec.mode {
        Mode::Mlr(goals) => goal_bounds(spec, goals, history).into_iter().map(GoalResult::from).collect(),
        _ => Vec::new(),
    }
}

fn unfit(results: &Results, load: u64) -> String {
    let last = results.runs.last().and_then(|run| run.trials.last());
    let why = last.and_then(|trial| trial.void.as_deref()).unwrap_or("the trials were void");
    format!(
        "nothing can be said of the server, every trial was void, the last at {}: {why}; measure at a quieter time, or on a machine with processors of its own",
        results.sought().in_words(load)
    )
}
