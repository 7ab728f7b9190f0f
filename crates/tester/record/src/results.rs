//! The schema of `results.json`.
//!
//! The fields of [`Trial`] and [`Results`] are the schema of `results.json`, version [`SCHEMA`]. Fields may
//! be added within a version; none changes its meaning.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::connections::{Connections, FoundConnections, Transport};
use crate::goals::{Goal, GoalResult, GoalSummary};
use crate::identifiers::Analysis;
use crate::interval::RateInterval;
use crate::latency::Latency;
use crate::load::LoadModel;
use crate::questions::Questions;
use crate::replay::Replay;
use crate::summary::{Steadiness, Summary};
use crate::terms::{Cause, Kind, Level, LossPlace, SearchMode, Validity};

/// The version of the schema that this code writes.
pub const SCHEMA: u32 = 1;

/// A whole measurement: `results.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `bench`, `search` or `selftest`.
    pub kind: Kind,
    /// How far it came.
    pub state: State,
    /// The program that measured, for example `sextant 0.1.0`.
    pub tool: String,
    /// The command line, for repeating the run.
    pub command: Vec<String>,
    /// RFC 3339, UTC.
    pub started_utc: String,
    /// RFC 3339, UTC; absent while it runs.
    pub finished_utc: Option<String>,
    /// The server that was measured.
    pub dut: Dut,
    /// What was asked and how.
    pub settings: Settings,
    /// RFC 8219 9.2.1.
    pub selftest: Option<SelfTest>,
    /// The repetitions of the search.
    pub runs: Vec<Run>,
    /// One trial at half of the median rate, for the latency under normal load.
    pub latency_trial: Option<Trial>,
    /// What the AuthDNS saw of the server's queries; absent where it was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Analysis>,
    /// Over the runs that came to their end.
    pub summary: Option<Summary>,
    /// The same of a search for connections: numbers of connections in place of rates; absent otherwise. Such
    /// a search has no [`Results::summary`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Summary>,
    /// Where the rate lies if void trials kept every run from its end; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<RateInterval>,
    /// The same for each goal of the search, in the order of the settings; empty where it had none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<GoalSummary>,
    /// How steady the results are; absent before two runs have come to their end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steadiness: Option<Steadiness>,
    /// What limited the rate.
    pub bottleneck: Option<Bottleneck>,
    /// The result in plain words.
    pub verdict: Option<String>,
    /// Every MUST and SHOULD of RFC 8219 that concerns this measurement.
    pub checklist: Vec<Requirement>,
    /// The machine.
    pub environment: Environment,
}

impl Results {
    /// An empty record of a measurement that is about to begin; who makes it fills in `tool`, `command` and
    /// `started_utc`.
    pub fn new(kind: Kind) -> Self {
        Self {
            schema: SCHEMA,
            kind,
            state: State::Running,
            tool: String::new(),
            command: Vec::new(),
            started_utc: String::new(),
            finished_utc: None,
            dut: Dut::default(),
            settings: Settings::default(),
            selftest: None,
            runs: Vec::new(),
            latency_trial: None,
            observed: None,
            summary: None,
            connections: None,
            interval: None,
            goals: Vec::new(),
            steadiness: None,
            bottleneck: None,
            verdict: None,
            checklist: Vec::new(),
            environment: Environment::default(),
        }
    }
}

/// How far a measurement came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It runs, or ended without a word (a crash).
    Running,
    /// It ended as planned.
    Complete,
    /// The user ended it.
    Interrupted,
    /// It could not go on; the reason.
    Failed(String),
}

/// The device under test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dut {
    /// For example `unbound`; `external` for a server that somebody else runs.
    pub name: String,
    /// As the server states it; empty if unknown.
    pub version: String,
    /// Address and port that the Measurer asked.
    pub address: String,
    /// The processors it was kept on; empty if unknown.
    pub cpus: Vec<usize>,
    /// The configuration it ran with, if it was ours.
    pub configuration: Option<String>,
    /// From the start of its process to its first right answer, in seconds; absent if it is not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_s: Option<f64>,
    /// The memory of all its processes then, in octets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_memory_octets: Option<u64>,
    /// Names in the zone that it had loaded then; absent unless it is an authoritative server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_names: Option<u64>,
}

impl Dut {
    /// [`Dut::name`] of a server that somebody else runs.
    pub const EXTERNAL: &str = "external";
}

/// What was asked and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `quick`, `rfc8219`, or `custom` where options changed a preset.
    pub preset: String,
    /// `rfc8219`, `verify`, `mlr` or `fixed`.
    pub search: SearchMode,
    /// The goals of `mlr`; the first is the one that the rates of the runs are about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<Goal>,
    /// Repetitions of the search that were planned.
    pub repetitions: u32,
    /// Length of a trial in seconds; of `mlr` the longest.
    pub trial_s: f64,
    /// Timeout in seconds.
    pub timeout_s: f64,
    /// Pause between trials in seconds.
    pub settle_s: f64,
    /// How long the Tester listened for answers after the last query of a trial that still missed some, in
    /// seconds; absent in records of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen_s: Option<f64>,
    /// The search stops when its bracket is narrower than this share of its lower bound, in percent.
    pub width_pct: f64,
    /// Lowest and highest rate that the search may try, in q/s; of a search for connections both are the rate
    /// of its trials.
    pub rate_range_qps: [u64; 2],
    /// Lowest and highest number of standing connections that the search may try. A trial passes only if all
    /// of them were had before its first query and none ended before its last answer. Absent where the search
    /// looked for the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_range: Option<[u64; 2]>,
    /// The name space, for example `10.0.0.0/8`.
    pub names: String,
    /// Index of the first name that was asked.
    pub first_name: u64,
    /// The zone, for example `dns64perf.test`.
    pub suffix: String,
    /// The DNS64 prefix that answers were expected under.
    pub prefix: String,
    /// `strict` (the right AAAA), `compat` (dns64perf++'s rule) or `response` (any response to the question).
    pub validity: Validity,
    /// Share of names that have a AAAA record, in percent.
    pub aaaa_share_pct: u8,
    /// Share of names that the server had cached, in percent.
    pub cached_share_pct: u8,
    /// TTL of the records in seconds, where the AuthDNS was ours.
    pub ttl_s: Option<u32>,
    /// Threads of the Measurer.
    pub threads: usize,
    /// Source ports of the Measurer.
    pub source_ports: usize,
    /// The I/O back-end, for example `udp`.
    pub io: String,
    /// How the queries were carried; absent: in UDP datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// The processors of the Tester's threads.
    pub tester_cpus: Vec<usize>,
    /// Where the AuthDNS ran and listened, in words.
    pub auth: String,
    /// Where the machines of a bench were, in words; empty where that is not known.
    #[serde(default)]
    pub path: String,
    /// The load model as on the command line; empty means constant.
    #[serde(default)]
    pub load: LoadModel,
    /// What was asked beside a AAAA query for each name, in words; empty if nothing.
    #[serde(default)]
    pub workload: String,
    /// What the queries asked, as values; absent in records of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<Questions>,
}

/// The self-test of RFC 8219 9.2.1: the Tester against itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfTest {
    /// The rate it must reach: 2*(1+delta)*r with delta = 0.1 and r the highest rate of the search, in q/s.
    pub required_qps: u64,
    /// Whether it did.
    pub passed: bool,
    /// The highest r that this Tester is fit to measure, in q/s.
    pub certified_qps: u64,
    /// Replies counted within this time: 0.25 of the timeout, in seconds.
    pub timeout_s: f64,
    /// The trials, the deciding one last. It decides by its answers: all were valid and in time, counted from
    /// the scheduled instants, and the Tester kept the rate.
    pub trials: Vec<Trial>,
    /// What came of each of these trials, in the same order; empty in records of older programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// How the Tester kept its schedule in the deciding trial, where more than a trial of a server allows was
    /// amiss; empty otherwise. The trials of a server are judged by that on their own.
    #[serde(default)]
    pub pacing: String,
    /// The names asked, where the range of the search does not hold as many; empty otherwise.
    #[serde(default)]
    pub names: String,
    /// The certificate of an earlier self-test that a short trial confirmed, instead of a whole one.
    #[serde(default)]
    pub certificate: Option<CertificateUse>,
    /// Why no certificate that was kept held here; empty if one did, or none was asked for.
    #[serde(default)]
    pub uncertified: String,
}

/// What came of a trial of the self-test, by the rule of the self-test: the outcome of the trial itself is
/// that of a server's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its number among the attempts at the same rate, from 1; a first look and the trial that decides are
    /// one attempt.
    pub number: u32,
    /// What it was for: `look` at a rate, `decide` it, or `confirm` a certificate.
    pub part: AttemptPart,
    /// Why it did not pass; empty if it did.
    pub failed: String,
}

impl Attempt {
    /// Whether it passed.
    pub fn passed(&self) -> bool {
        self.failed.is_empty()
    }
}

/// What a trial of the self-test is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptPart {
    /// A short trial before the one that decides.
    #[default]
    Look,
    /// The trial that decides.
    Decide,
    /// A short trial that confirms a certificate.
    Confirm,
}

/// A certificate that was relied on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CertificateUse {
    /// Its file.
    pub file: String,
    /// When it was issued: RFC 3339, UTC.
    pub issued_utc: String,
    /// The rate of its deciding trial, in q/s.
    pub required_qps: u64,
    /// The length of that in seconds.
    pub trial_s: f64,
    /// The way of the queries, for example `lab`.
    pub path: String,
}

/// One repetition of the search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The highest rate that passed by the rule of the search, in q/s; 0 if none did. Of a search for
    /// connections that is the rate of its trials.
    pub qps: u64,
    /// The distance from there to the lowest rate that failed above it, in q/s; where void trials ended the
    /// search and none had failed, to the highest rate that it may try.
    pub stop_width_qps: u64,
    /// Whether the search came to its end.
    pub complete: bool,
    /// It ended at the highest rate it may try: the true rate may be higher.
    pub at_ceiling: bool,
    /// How often a trial failed at the highest rate at which a trial passed, or below.
    pub loss_inversions: u32,
    /// Void trials left this rate undecided, in q/s, so that the search ended with what was known. Absent if
    /// it ended otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by_voids_qps: Option<u64>,
    /// What a search for connections found; absent where it looked for the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<FoundConnections>,
    /// The bounds for each goal of the settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<GoalResult>,
    /// In the order they were run.
    pub trials: Vec<Trial>,
}

impl Run {
    /// Whether the search came to its end without leaving a load undecided for void trials.
    pub fn came_to_its_end(&self) -> bool {
        self.complete && self.ended_by_voids().is_none()
    }

    /// What was found, in the unit of what its search looked for; 0 if no load passed.
    pub fn found(&self) -> u64 {
        self.connections.map_or(self.qps, |connections| connections.most)
    }

    /// The distance from there to the lowest load that failed above it, in the same unit.
    pub fn stop_width(&self) -> u64 {
        self.connections.map_or(self.stop_width_qps, |connections| connections.stop_width)
    }

    /// The load that void trials left undecided, in the same unit.
    pub fn ended_by_voids(&self) -> Option<u64> {
        self.connections.map_or(self.ended_by_voids_qps, |connections| connections.ended_by_voids)
    }
}

/// What became of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every query got its valid answer in time.
    Pass,
    /// The server left at least one query without.
    Fail,
    /// The Tester was at fault; the trial says nothing about the server.
    #[default]
    Void,
}

/// One trial. Also what `sextant trial --json` prints.
///
/// `sent = answered + lost`, `answered = valid + invalid + late`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The rate that was asked for, in q/s.
    pub rate_qps: u64,
    /// The length of the schedule in seconds.
    pub duration_s: f64,
    /// RFC 3339, UTC.
    pub started_utc: String,
    /// Index of its first name.
    pub first_name: u64,
    /// How long the Tester waited for a quiet machine before it, in seconds; 0 if it did not wait.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waited_s: f64,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it is void; `null` if it is not.
    pub void: Option<String>,
    /// Queries that were due.
    pub scheduled: u64,
    /// Queries that the kernel took.
    pub sent: u64,
    /// Queries that got an answer, in time or not.
    pub answered: u64,
    /// Answered in time with the right AAAA; what else was right is in [`Trial::validity`].
    pub valid: u64,
    /// Answered in time, but wrong.
    pub invalid: u64,
    /// Answered after the timeout.
    pub late: u64,
    /// Never answered while the trial listened.
    pub lost: u64,
    /// Answered in time by dns64perf++'s rule: a NOERROR response with any answer record.
    pub valid_compat: u64,
    /// Second and later answers to a query.
    pub duplicates: u64,
    /// Datagrams that belong to no query of this trial.
    pub unexpected: u64,
    /// What they were instead of an answer, for example `wrong ID`, and how often.
    #[serde(default)]
    pub unexpected_reasons: BTreeMap<String, u64>,
    /// How often the network said that a query was not delivered (ICMP); news that come together count once.
    #[serde(default)]
    pub icmp_errors: u64,
    /// The I/O back-end that the queries left by, with what is special about it, for example
    /// `gso (unsegmented)`.
    #[serde(default)]
    pub io: String,
    /// From the scheduled instant to the answer, valid answers only.
    pub latency_ns: Latency,
    /// From the actual sending to the answer, valid answers only.
    pub latency_from_send_ns: Latency,
    /// How late queries were sent after their scheduled instant.
    pub schedule_error_ns: ScheduleError,
    /// How even the sending was, in windows of 1, 10 and 100 ms.
    pub windows: Windows,
    /// Queries that were sent in another 10 ms window than they were due in: after a pause of the Tester they
    /// came in bursts.
    #[serde(default)]
    pub displaced: u64,
    /// Queries without a valid answer in time by the place where they were lost; the sum is
    /// `scheduled - valid`.
    pub losses: BTreeMap<LossPlace, u64>,
    /// Spans in which something else than the server may have made queries fail, and in which queries failed;
    /// at most [`Trial::DISTURBANCES_MAX`], the earliest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<Disturbance>,
    /// Pairs of a share of slowest answers in percent, and the latency that they exceed in ns; falling
    /// shares.
    pub latency_curve: Vec<(f64, u64)>,
    /// Each second (or part of it at the end) of the trial.
    pub series: Vec<Interval>,
    /// The answers of each of these seconds; empty where they were not looked at one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answers>,
    /// What the first invalid answers had wrong: the reason, and how often.
    pub invalid_reasons: BTreeMap<String, u64>,
    /// What the machine's counters said.
    pub observation: Option<Observation>,
    /// Why it did not pass, as far as these tell; absent if it passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Bottleneck>,
    /// Which answers counted, as in [`Settings::validity`]: with `response` any was valid, with `compat` the
    /// outcome goes by [`Trial::valid_compat`]. Empty in records of older programs.
    #[serde(default)]
    pub validity: Validity,
    /// The load model as on the command line, for example `poisson:0`; empty in records of older programs,
    /// which knew the constant rate only.
    #[serde(default)]
    pub load: LoadModel,
    /// Answers set the pace: the rate is what the server and the window made of each other, and latency
    /// counts from the sending. Such a trial says nothing about a rate that clients ask for.
    #[serde(default)]
    pub closed_loop: bool,
    /// Of a closed loop of experiments: how long they took.
    #[serde(default)]
    pub experiments: Option<Experiments>,
    /// First answers to queries, in time or late, by their RCODE.
    #[serde(default)]
    pub rcodes: BTreeMap<String, u64>,
    /// The connections that the queries were sent by; absent with UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// The capture whose queries these were; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// What the server was asked meanwhile and what counts nowhere else; absent if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<BackgroundQueries>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Trial {
    /// The most [`Trial::disturbances`] that a record holds.
    pub const DISTURBANCES_MAX: usize = 100;

    /// Queries that failed: due, and without an answer in time that counts by [`Trial::validity`].
    pub fn failed_queries(&self) -> u64 {
        let counted = if self.validity == Validity::Compat { self.valid_compat } else { self.valid };
        self.scheduled.saturating_sub(counted)
    }

    /// The share of its queries that failed, from 0 to 1.
    pub fn loss_ratio(&self) -> f64 {
        self.failed_queries() as f64 / self.scheduled.max(1) as f64
    }

    /// Whether the trial counts and failed, and not by a loss of this share of its queries or less, from 0 to
    /// 1. No share allows a failure without a loss: the server failed before the trial.
    pub fn failed_beyond(&self, allowed: f64) -> bool {
        let is_allowed = self.failed_queries() > 0 && self.loss_ratio() <= allowed;
        self.outcome == Outcome::Fail && !is_allowed
    }
}

/// A span of a trial in which something else than the server may have made queries fail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Its start, in seconds after the start of the schedule; several may overlap.
    pub from_s: f64,
    /// Its end, likewise.
    pub until_s: f64,
    /// What disturbed: `Tester CPU` for a pause of the Tester, `AuthDNS`, or `other load on this
    /// machine`.
    pub cause: Cause,
    /// So many failures it explains at most.
    pub explains: u64,
    /// Of the queries due in it: those without an answer that counts.
    pub failed: u64,
}

/// Queries for random names beside a trial (a random-subdomain attack). Counters of the machine and the
/// server hold them too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackgroundQueries {
    /// The rate in q/s.
    pub rate_qps: u64,
    /// Its length in seconds: a little longer than the trial, at both ends.
    pub duration_s: f64,
    /// Queries that the kernel took.
    pub sent: u64,
    /// Those that got any answer.
    pub answered: u64,
}

/// Experiments of 256 queries, as dns64perf2 makes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiments {
    /// How many came to their end.
    pub count: u64,
    /// Mean time from the first query to the last answer in ns; 256 / mean is dns64perf2's q/s of one thread.
    pub mean_ns: f64,
    /// Standard deviation of that in ns.
    pub sd_ns: f64,
    /// The longest in ns; 0 in records of older programs.
    #[serde(default)]
    pub max_ns: f64,
}

/// Lateness of the sender in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the definition")]
pub struct ScheduleError {
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// Evenness of the sending in windows of three lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the definition")]
pub struct Windows {
    pub ms1: Window,
    pub ms10: Window,
    pub ms100: Window,
}

/// Evenness of the sending in windows of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The largest deviation of a window's count from the schedule's, in percent of the schedule's.
    pub worst_pct: f64,
    /// The coefficient of variation of the counts, in percent.
    pub cv_pct: f64,
    /// The share of windows that are more than 5 % off the schedule, in percent.
    #[serde(default)]
    pub off_pct: f64,
    /// The fewest queries sent in a window, the mean and the most; 0 in records of older programs.
    #[serde(default)]
    pub fewest: u64,
    /// See [`Window::fewest`].
    #[serde(default)]
    pub mean: f64,
    /// See [`Window::fewest`].
    #[serde(default)]
    pub most: u64,
}

/// A part of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its start, in seconds after the start of the schedule.
    pub start_s: f64,
    /// Queries sent in it.
    pub sent: u64,
    /// Of the queries due in it: answered validly in time.
    pub valid: u64,
    /// Of the queries due in it: all others.
    pub failed: u64,
}

/// The answers to the queries that were due in one second of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Latency of valid ones from the scheduled instant: half took no longer, in ns, up to a quarter too
    /// high.
    pub p50_ns: u64,
    /// Likewise 99 of 100.
    pub p99_ns: u64,
    /// The longest in ns.
    pub max_ns: u64,
    /// All that came in time, by RCODE.
    pub rcodes: BTreeMap<String, u64>,
}

/// What the machine's counters said of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Wall-clock time between the two readings in seconds.
    pub elapsed_s: f64,
    /// Processor time of the server in microseconds for each query sent, where it could be read.
    pub dut_cpu_us_per_query: Option<f64>,
    /// The same for each answer that counts; absent without any. A server that loses queries has less work,
    /// and its time for each query sent says little.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dut_cpu_us_per_answer: Option<f64>,
    /// Processor time of the server in percent of the schedule's length (may exceed 100).
    pub dut_cpu_pct: Option<f64>,
    /// Processor time of its busiest thread in percent of the schedule's length, at most 100.
    pub dut_hottest_thread_pct: Option<f64>,
    /// Name of that thread.
    pub dut_hottest_thread: Option<String>,
    /// Resident memory of the server at the end, in octets.
    pub dut_memory_octets: Option<u64>,
    /// Datagrams dropped at the server's listening socket because its buffer was full.
    pub dut_socket_drops: Option<u64>,
    /// The server's sockets at the port that was asked, where they could be looked at: several share its
    /// queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dut_sockets: Option<u64>,
    /// UDP datagrams that sockets of the server's network namespace took (queries, and the AuthDNS's
    /// answers), where that is not the Measurer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dut_datagrams_in: Option<u64>,
    /// Those that they sent (answers, and queries to the AuthDNS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dut_datagrams_out: Option<u64>,
    /// Processor time of the Tester in microseconds for each query sent.
    pub tester_cpu_us_per_query: Option<f64>,
    /// Processor time used by anything that is neither Tester nor server, in percent of one processor; time
    /// in interrupts is among it, as far as the kernel charges it to no program.
    pub foreign_cpu_pct: Option<f64>,
    /// Processor time of all processors in interrupts, hard and soft, in percent of one processor: most of it
    /// is the kernel's work for the datagrams of the trial. Absent in records of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_pct: Option<f64>,
    /// Processor time taken by the hypervisor, in percent of one processor.
    pub steal_pct: Option<f64>,
    /// Datagrams that the kernel dropped before any socket (softnet), whole machine.
    pub softnet_drops: Option<u64>,
    /// The device that the queries left by.
    #[serde(default)]
    pub device: Option<String>,
    /// Packets that it dropped or failed to send.
    #[serde(default)]
    pub device_tx_drops: Option<u64>,
    /// Packets that it had to leave on the wire, or took damaged.
    #[serde(default)]
    pub device_rx_drops: Option<u64>,
    /// Packets that it took and the kernel dropped before any socket, also for want of anyone who speaks
    /// their protocol.
    #[serde(default)]
    pub device_rx_discards: Option<u64>,
    /// Its counters of losses and errors that grew: `link.` the kernel's, `ethtool.` the driver's.
    #[serde(default)]
    pub device_counters: BTreeMap<String, u64>,
    /// Datagrams that could not be delivered to any socket, whatever the reason, in this network namespace.
    #[serde(default)]
    pub udp_in_errors: Option<u64>,
    /// Of these: the socket's receive buffer was full.
    #[serde(default)]
    pub udp_receive_buffer_errors: Option<u64>,
    /// Datagrams that sockets sent and that came no further than the device's queue, in this network
    /// namespace.
    #[serde(default)]
    pub udp_send_buffer_errors: Option<u64>,
    /// Queries that the AuthDNS received during the trial, where it was ours.
    pub auth_queries: Option<u64>,
    /// Answers that it sent.
    pub auth_answers: Option<u64>,
    /// Datagrams dropped at its sockets.
    pub auth_socket_drops: Option<u64>,
    /// Questions that the Tester put to the AuthDNS beside the trial, from where the server asks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_probes: Option<u64>,
    /// Of these, without an answer after a quarter of the timeout (RFC 8219 9.2.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_probes_late: Option<u64>,
    /// Queries at the AuthDNS for each query of the Measurer; 2.0 is expected where no name has a AAAA.
    pub auth_queries_per_query: Option<f64>,
}

impl Observation {
    /// The processor time of other programs in percent of one processor. Interrupts are not theirs: the
    /// kernel works in them for the datagrams of the trial. `None` where the server's process is not known:
    /// its own work would look like that of other programs.
    pub fn other_programs_pct(&self) -> Option<f64> {
        let foreign_pct = self.foreign_cpu_pct.filter(|_| self.dut_cpu_pct.is_some())?;
        Some((foreign_pct - self.interrupt_pct.unwrap_or(0.0)).max(0.0))
    }
}

/// What limited the rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// In a few words, for example `DUT CPU`; `unattributed` if the counters do not tell.
    pub cause: Cause,
    /// The counters that say so.
    pub evidence: String,
}

/// One MUST or SHOULD of RFC 8219.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    /// For example `9.2.1`.
    pub section: String,
    /// `MUST` or `SHOULD`.
    pub level: Level,
    /// What it asks, in our words.
    pub text: String,
    /// `Some(true)` kept, `Some(false)` not kept, `None` if it does not apply here or the record does not
    /// tell.
    pub kept: Option<bool>,
    /// How, or why not.
    pub note: String,
}

/// The machine, as far as it matters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Groups of facts in the order to be shown.
    pub facts: Vec<Fact>,
    /// What may limit or disturb a measurement here.
    pub findings: Vec<Finding>,
}

/// One fact of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// For example `Processor`.
    pub group: String,
    /// For example `model`.
    pub name: String,
    /// Before the measurement.
    pub before: String,
    /// After it, where it differs.
    pub after: Option<String>,
}

/// Something that may limit or disturb a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is.
    pub what: String,
    /// How we know.
    pub evidence: String,
    /// What to do about it.
    pub remedy: String,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Results may suffer.
    Warning,
    /// Nothing can be measured so.
    Fatal,
}
