//! What `bench` and `search` share: the options of a search, its run, and how it ends.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use engine::search::Mode;
use record::{Dut, Environment, Results, Settings, Sought, State};

use super::goals::GoalOptions;
use super::outputs::OutputArgs;
use super::{EXIT_FAILED, EXIT_UNFIT, EXIT_USAGE};
use crate::failure::{Failure, print, print_json};
use crate::options::{rate, seconds};
use campaign::certificate::Stored;
use campaign::{
    self, Auth, Bench, BenchEnd, Detail, Loopback, Plan, Preset, Progress, Store, Target, Tester, Watch,
    short_duration,
};
use lab::environment::{Manifest, PathDevices, facts, preflight};

/// Options of every search.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Search")]
pub(crate) struct SearchOptions {
    /// Length of the trials and number of repetitions
    #[arg(long, value_enum, default_value_t)]
    pub preset: Preset,
    /// Repetitions of the search [preset: 3 or 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: Option<u32>,
    /// Length of a trial in seconds [preset: 2 or 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// Search algorithm [preset: verify or rfc8219]
    #[arg(long = "search", value_enum, value_name = "MODE")]
    pub mode: Option<ModeArg>,
    #[command(flatten)]
    pub goals: GoalOptions,
    /// Stop when the bracket is narrower than this share of its lower bound, in percent [preset: 2 or 0.5; of
    /// connections 0: one connection]
    #[arg(long, value_name = "PERCENT")]
    pub width: Option<f64>,
    /// Lowest rate to try, in q/s
    #[arg(long, value_name = "N", value_parser = rate)]
    pub min_rate: Option<u64>,
    /// Highest rate to try, in q/s; with --search fixed, the rate of all trials [default: 100000, and 300000
    /// of a bench in the kernel]
    #[arg(long, value_name = "N", value_parser = rate)]
    pub max_rate: Option<u64>,
    /// Result directory [default: results/TIME-NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Show rate, latency, losses, processors and search on the terminal during the measurement; in a pipe
    /// plain lines
    #[arg(long)]
    pub live: bool,
    /// Print results.json on standard output
    #[arg(long)]
    pub json: bool,
}

/// `--search`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// Bisection; every trial counts.
    Rfc8219,
    /// Bisection; two trials that agree decide a rate, a third one where they differ.
    Verify,
    /// MLRsearch (RFC 9971): several loss goals in one search, with short trials before full-length ones.
    Mlr,
    /// Trials at --max-rate only.
    Fixed,
}

/// The highest rate to try, unless told otherwise, in q/s.
const MAX_RATE_QPS: u64 = 100_000;

impl SearchOptions {
    /// What a person sees meanwhile.
    pub fn progress(&self, watch: &Arc<Watch>) -> Progress {
        if self.live { Progress::live(watch) } else { Progress::new(self.json, watch) }
    }

    /// The plan of the preset, changed as told.
    ///
    /// # Errors
    /// Rates or a width that make no search.
    pub fn plan(&self, timeout_ns: u64) -> Result<Plan, Failure> {
        let usage = |message: &str| Failure::new(EXIT_USAGE, message);
        let max_rate_qps = self.max_rate.unwrap_or(MAX_RATE_QPS);
        let preset = Plan::new(self.preset, timeout_ns, max_rate_qps);
        let width_pct = self.width.or(self.goals.width_pct()).unwrap_or(preset.width_pct);
        if !(0.01..=50.0).contains(&width_pct) {
            return Err(usage("--width must be from 0.01 to 50 percent"));
        }
        let mut trial_ns = self.duration.map_or(preset.trial_ns, |duration| duration.as_nanos() as u64);
        let mode = match self.mode {
            Some(ModeArg::Rfc8219 | ModeArg::Verify | ModeArg::Fixed) if self.goals.are_given() => {
                return Err(usage("--goals and --goal are for --search mlr"));
            }
            Some(ModeArg::Rfc8219) => Mode::Rfc8219,
            Some(ModeArg::Verify) => Mode::Verify,
            Some(ModeArg::Fixed) => Mode::Fixed { trials: 1 },
            None if !self.goals.are_given() => preset.mode.clone(),
            Some(ModeArg::Mlr) | None => {
                let goals = self.goals.resolve(trial_ns, width_pct, self.duration.is_some())?;
                trial_ns = goals.iter().map(|goal| goal.final_ns).max().unwrap_or(trial_ns);
                Mode::Mlr(goals)
            }
        };
        let mut plan = Plan {
            trial_ns,
            repetitions: self.repetitions.unwrap_or(preset.repetitions),
            width_pct,
            range_qps: [self.min_rate.unwrap_or(preset.range_qps[0]), max_rate_qps],
            mode,
            ..preset.clone()
        };
        if plan != preset {
            plan.preset = "custom";
        }
        if plan.range_qps[0] > plan.range_qps[1] {
            return Err(usage(&format!("--min-rate is above --max-rate ({max_rate_qps} q/s)")));
        }
        Ok(plan)
    }

    /// The result directory, `--out` or one with this name in it. It is made before any server is started, so
    /// that one that cannot be written is known first; who then cannot measure discards it.
    ///
    /// # Errors
    /// It cannot be made or written, or holds results already.
    pub fn store(&self, name: &str) -> Result<Store, Failure> {
        Store::create(Path::new("results"), self.out.as_deref(), name, SystemTime::now())
            .map_err(|error| Failure::new(EXIT_UNFIT, error))
    }

    /// The part of the record's settings that the plan fixes.
    pub fn settings(plan: &Plan, base: Settings) -> Settings {
        Settings {
            preset: plan.preset.into(),
            search: (&plan.mode).into(),
            goals: plan.goals(),
            repetitions: plan.repetitions,
            trial_s: plan.trial_ns as f64 / 1e9,
            settle_s: plan.settle_ns as f64 / 1e9,
            listen_s: Some(plan.listen_ns as f64 / 1e9),
            width_pct: plan.width_pct,
            rate_range_qps: plan.range_qps,
            connections_range: plan.connections_range,
            ..base
        }
    }
}

/// What [`conduct`] needs.
pub(crate) struct MeasurementInput<'a> {
    pub store: Store,
    pub plan: Plan,
    pub tester: Tester,
    pub target: Target,
    /// Its AuthDNS, if it is ours.
    pub auth: Option<Auth>,
    pub selftest: Option<Loopback>,
    /// The certificate for the self-test, as in [`Bench::certificate`].
    pub certificate: Option<Result<Stored, String>>,
    pub progress: Progress,
    /// Whether the server still runs.
    pub alive: &'a mut dyn FnMut() -> Result<(), String>,
    pub before: Manifest,
    /// What of this machine's network the measurement uses.
    pub path: PathDevices,
    /// Files of each trial for other programs.
    pub outputs: &'a OutputArgs,
}

pub(crate) struct MeasurementResult {
    /// The exit code, or why it did not come to its end.
    pub ended: Result<ExitCode, Failure>,
    pub directory: PathBuf,
}

/// Runs a measurement, prints its result and says where the record lies.
///
/// # Errors
/// The record cannot be begun; nothing was measured.
pub(crate) fn conduct(
    options: &SearchOptions,
    conduct: MeasurementInput<'_>,
    mut results: Results,
) -> Result<MeasurementResult, Failure> {
    let MeasurementInput {
        store,
        plan,
        tester,
        mut target,
        auth,
        selftest,
        certificate,
        progress,
        alive,
        before,
        path,
        outputs,
    } = conduct;
    let discard = |_: &Failure| store.discard();
    results.settings.questions = Some(target.workload.questions());
    results.settings.io = tester.io(&target).map_err(Failure::from).inspect_err(discard)?;
    let mut writing = outputs.begin(&mut target, &tester).inspect_err(discard)?;
    let directory = store.directory().to_path_buf();
    let time = plan.forecast(plan.repetitions, None) + plan.afterwards(campaign::observes(auth.as_ref()));
    announce(&progress, options, (&plan, time), &results)?;
    store.save_json("manifest.json", &before).map_err(|error| Failure::new(EXIT_UNFIT, error))?;
    let environment = || {
        let after = Manifest::take();
        Environment {
            facts: facts(&before, Some(&after)),
            findings: preflight(&before, &path).into_iter().map(Into::into).collect(),
        }
    };
    let bench = Bench {
        plan,
        tester,
        target,
        auth,
        selftest,
        certificate,
        store,
        progress,
        alive,
        finished: &mut |tried| writing.next(tried),
        environment: &environment,
    };
    let (results, ended) = campaign::run(bench, results);
    let written = writing.end();
    let printed = if options.json { print_json(&results) } else { print_end(results.clone(), &directory) };
    let ended =
        exit_code(&results, ended, &directory).and_then(|code| printed.and(written).map(|()| code.into()));
    Ok(MeasurementResult { ended, directory })
}

/// Says what will be done and how long it takes: where the progress is shown, else with the result.
fn announce(
    progress: &Progress,
    options: &SearchOptions,
    (plan, time): (&Plan, Duration),
    results: &Results,
) -> Result<(), Failure> {
    let Dut { name, version, address, .. } = &results.dut;
    let server = format!("{name} {version}");
    let server = server.trim_end();
    let mut lines = vec![format!("Sextant {}: {server} at {address}", env!("CARGO_PKG_VERSION"))];
    let time = short_duration(time);
    let (preset, repetitions, seconds) = (plan.preset, plan.repetitions, plan.trial_ns as f64 / 1e9);
    lines.push(format!(
        "  preset {preset}: {repetitions} repetitions with trials of {seconds} s; this takes about {time}"
    ));
    for line in lines {
        if progress.is_shown() {
            progress.say(&line);
        } else if !options.json && Detail::chosen() != Detail::Quiet {
            print(&format!("{line}\n"))?;
        }
    }
    Ok(())
}

/// Prints the result. Why a measurement failed is left to the line on standard error.
fn print_end(mut results: Results, directory: &Path) -> Result<(), Failure> {
    if let State::Failed(reason) = &mut results.state {
        reason.clear();
    }
    let text = if Detail::chosen() == Detail::Full { report::text } else { report::brief };
    print(&format!("{}\nReport: {}\n", text(&results), directory.join("report.html").display()))
}

fn exit_code(results: &Results, ended: BenchEnd, directory: &Path) -> Result<u8, Failure> {
    let kept = directory.display();
    let (code, reason) = match ended {
        BenchEnd::Complete => {
            let held_some =
                || results.sought() == Sought::Connections && results.runs.iter().any(|run| run.found() > 0);
            let found = results.found().map_or_else(held_some, |found| found.p1 > 0)
                || results.interval.as_ref().is_some_and(|interval| interval.at_least_qps > 0);
            return Ok(if found { 0 } else { EXIT_FAILED });
        }
        BenchEnd::Record(error) => return Err(Failure::new(EXIT_UNFIT, error)),
        BenchEnd::Interrupted => {
            return Err(Failure::new(
                EXIT_UNFIT,
                format!("interrupted; what was measured so far is in {kept}"),
            ));
        }
        BenchEnd::Unfit(reason) => (EXIT_UNFIT, reason),
        BenchEnd::ServerFailed(reason) => (EXIT_FAILED, reason),
        BenchEnd::Measure(error) => {
            let failure = Failure::from(error);
            (failure.code, failure.to_string())
        }
    };
    Err(Failure::new(code, format!("{reason}; what was measured is in {kept}")))
}
