//! The limits that decide: one table for the verdict on trials, for the search, the self-test and the
//! preflight.
//!
//! docs/method.md prints [`TABLE`]. A number that decides something has one name and one value here; where
//! two limits look alike and differ, [`Limit::source`] says why.

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Its name in the documentation.
    pub name: &'static str,
    /// The number.
    pub value: f64,
    /// What the number counts.
    pub unit: &'static str,
    /// What becomes of a trial or a measurement beyond it.
    pub decides: &'static str,
    /// Where the number comes from.
    pub source: &'static str,
}

impl Limit {
    /// That share of a time; the limit is in percent.
    pub const fn of_ns(&self, time_ns: u64) -> u64 {
        (time_ns as f64 * self.value / 100.0) as u64
    }
}

/// The lateness of 999 of 1,000 queries.
pub const LATENESS_P999: Limit = Limit {
    name: "lateness, p99.9",
    value: 1.0,
    unit: "% of the timeout",
    decides: "above it the Tester was late: the trial is void",
    source: "own; an answer has at least 99 % of its time. RFC 8219 9.2 asks for a constant rate and names no bound",
};
/// The lateness of any query.
pub const LATENESS_MAX: Limit = Limit {
    name: "lateness, largest",
    value: 10.0,
    unit: "% of the timeout",
    decides: "above it the Tester was late: the trial is void",
    source: "own; a pause of a virtual machine may occur, as long as an answer has 90 % of its time",
};
/// The lateness of any query of a self-test beside [`LATENESS_MAX`].
pub const LATENESS_IN_TRIAL: Limit = Limit {
    name: "lateness, largest, in a self-test",
    value: 10.0,
    unit: "% of the trial",
    decides: "above it, or above the largest lateness, the Tester fell behind: the rate is not certified",
    source: "own; in a short trial the timeout would hide a Tester that is always slower than its schedule",
};
/// How far a window's count may be off its schedule.
pub const WINDOW_DEVIATION: Limit = Limit {
    name: "deviation of a window",
    value: 5.0,
    unit: "% of its queries",
    decides: "above it, and above one query, a window of 1, 10 or 100 ms is uneven",
    source: "own; this limit is for one window, `uneven windows` is for their number",
};
/// The share of windows that may be uneven.
pub const UNEVEN_WINDOWS: Limit = Limit {
    name: "uneven windows",
    value: 2.0,
    unit: "% of the windows",
    decides: "above it in windows of 10 ms the trial is void (not with bursts), in windows of 100 ms a self-test fails",
    source: "own; of the 100 windows of a second one pause may spoil two",
};
/// How long a pause of the Tester may tell on the server.
pub const AFTER_A_PAUSE: Limit = Limit {
    name: "time after a pause",
    value: 100.0,
    unit: "% of the pause with its burst",
    decides: "for this time after a pause of the Tester, at least 10 ms, a failure may be an effect of the pause",
    source: "own; a burst fills the server's queue, and a server that keeps up empties the queue while it is idle for as long",
};
/// The time that the AuthDNS has for an answer.
pub const AUTH_ANSWER: Limit = Limit {
    name: "answer of the AuthDNS",
    value: 25.0,
    unit: "% of the timeout",
    decides: "a later answer is late, in the self-test and for the queries that probe the AuthDNS during a trial",
    source: "RFC 8219 9.2.1",
};
/// The rate of the self-test.
pub const SELFTEST_RATE: Limit = Limit {
    name: "rate of the self-test",
    value: 2.2,
    unit: "times the rate",
    decides: "the Tester is certified for a rate if every answer arrives in time at this multiple of the rate",
    source: "RFC 8219 9.2.1: 2 * (1 + delta), with delta = 0.1",
};
/// So many late answers of the AuthDNS prove that it was slow.
pub const AUTH_LATE_ANSWERS: Limit = Limit {
    name: "late answers of the AuthDNS, number",
    value: 2.0,
    unit: "answers",
    decides: "from here on, with the share below, the AuthDNS was slow: a failure at that time is void",
    source: "own; a single one may be a pause of the whole machine",
};
/// Such a share of late answers proves it.
pub const AUTH_LATE_SHARE: Limit = Limit {
    name: "late answers of the AuthDNS, share",
    value: 1.0,
    unit: "% of the questions",
    decides: "from here on, with the number above, the AuthDNS was slow: a failure at that time is void",
    source: "own; fewer prove nothing",
};
/// A thread of the server at its limit.
pub const DUT_THREAD_BUSY: Limit = Limit {
    name: "busy thread of the DUT",
    value: 90.0,
    unit: "% of a processor",
    decides: "from here on the thread is at its limit: the cause is the DUT's CPU",
    source: "own; at a constant rate queues overflow before a thread is busy all of the time",
};
/// All other threads of a server whose one thread is at its limit.
pub const DUT_THREADS_IDLE: Limit = Limit {
    name: "other threads of the DUT",
    value: 25.0,
    unit: "% of a processor",
    decides: "below it, beside a busy thread, all others together are idle: the cause is one thread",
    source: "own; threads that only wait and keep time stay below it",
};
/// What was lost on the way must explain so much.
pub const PATH_SHARE: Limit = Limit {
    name: "losses on the path",
    value: 50.0,
    unit: "% of the queries lost",
    decides: "from here on, if the counters at both ends of the path show the losses, the cause is the path",
    source: "own; the counters hold other traffic too",
};
/// Other programs' load during a trial.
pub const FOREIGN_LOAD: Limit = Limit {
    name: "other programs",
    value: 20.0,
    unit: "% of a processor",
    decides: "a tenth of a second counts as loaded if the half second around it has this load or more: a failure then may be an effect of the load. Only where the server's process is known",
    source: "own; one value for the verdict and the cause, so that no trial counts as failed and is blamed on other load",
};
/// The hypervisor's part during a trial.
pub const STEAL: Limit = Limit {
    name: "steal",
    value: 5.0,
    unit: "% of a processor",
    decides: "a tenth of a second counts as loaded if the half second around it has this load or more: a failure then may be an effect of the load",
    source: "own; for the reason of `other programs`",
};
/// Samples that the two limits above are applied to together.
pub const LOAD_SAMPLES: Limit = Limit {
    name: "samples of the load",
    value: 5.0,
    unit: "tenths of a second",
    decides: "the load of a tenth of a second is the mean of this many tenths around it",
    source: "own; the kernel counts processor time in hundredths of a second, and a tenth has too few of these",
};
/// Other programs' load before a measurement.
pub const FOREIGN_LOAD_WARNING: Limit = Limit {
    name: "other programs, warning",
    value: 10.0,
    unit: "% of a processor",
    decides: "above it the preflight warns",
    source: "half of `other programs`: a short sample before the measurement, and a warning voids nothing",
};
/// How long the Tester waits for a quiet machine.
pub const QUIET_WAIT: Limit = Limit {
    name: "waiting for a quiet machine",
    value: 120.0,
    unit: "s in a measurement",
    decides: "after it, or after as much time as the trials take, the Tester waits no more: trials are run as the machine is",
    source: "own; about the time of a measurement with the quick preset. A short measurement is not worth a long wait",
};
/// How long the Tester looks before it calls a machine quiet.
pub const QUIET_TIME: Limit = Limit {
    name: "quiet time",
    value: 10.0,
    unit: "tenths of a second",
    decides: "the machine is quiet if none of these tenths counts as loaded, while the Tester keeps every processor busy",
    source: "own; the hypervisor takes little from an idle machine",
};
/// The hypervisor's part before a measurement.
pub const STEAL_WARNING: Limit = Limit {
    name: "steal, warning",
    value: 1.0,
    unit: "% of a processor",
    decides: "above it the preflight warns",
    source: "below `steal`: the hypervisor takes little from an idle machine, and more under load",
};
/// A worker of a reflector at its limit.
pub const WORKER_BUSY: Limit = Limit {
    name: "busy worker of a reflector",
    value: 85.0,
    unit: "% of a processor",
    decides: "from here on the ladder says that the worker limits",
    source: "below `busy thread of the DUT`: in the ladder's closed loop a worker at its limit waits for the Tester now and then",
};
/// A failure that may have been a pause.
pub const MARGINAL_LOSS: Limit = Limit {
    name: "marginal failure",
    value: 5.0,
    unit: "% of the queries",
    decides: "up to it `--search verify` makes a second trial at the rate; above it the failure decides alone",
    source: "own; a pause of 100 ms in a trial of 2 s. A failure that decides alone can only make the result lower",
};
/// Void trials in a row.
pub const VOIDS_IN_A_ROW: Limit = Limit {
    name: "void trials in a row",
    value: 8.0,
    unit: "trials at a rate",
    decides: "the rate stays undecided, and the search looks for bounds above or below it",
    source: "own; more repetitions of the same fault tell nothing new",
};
/// Void trials among all of a search, with [`VOID_SHARE`].
pub const VOIDS_IN_SEARCH: Limit = Limit {
    name: "void trials of a search",
    value: 3.0,
    unit: "times the void trials in a row",
    decides: "from here on, with the share below, the search ends with what is known, or goes down to a rate with every answer",
    source: "own; one rate undecided, and two more to find bounds. It limits the time of a measurement",
};
/// Void trials among all of a search.
pub const VOID_SHARE: Limit = Limit {
    name: "void trials, share",
    value: 50.0,
    unit: "% of a search's trials",
    decides: "above it, with the number above, the search ends with what is known",
    source: "own; a void trial may hide a failure and is repeated: with more void trials than others, chance would select the rate",
};

/// All limits, in the order of the documentation.
pub const TABLE: [&Limit; 25] = [
    &LATENESS_P999,
    &LATENESS_MAX,
    &LATENESS_IN_TRIAL,
    &WINDOW_DEVIATION,
    &UNEVEN_WINDOWS,
    &AFTER_A_PAUSE,
    &AUTH_ANSWER,
    &SELFTEST_RATE,
    &AUTH_LATE_ANSWERS,
    &AUTH_LATE_SHARE,
    &DUT_THREAD_BUSY,
    &DUT_THREADS_IDLE,
    &PATH_SHARE,
    &FOREIGN_LOAD,
    &STEAL,
    &LOAD_SAMPLES,
    &QUIET_TIME,
    &QUIET_WAIT,
    &FOREIGN_LOAD_WARNING,
    &STEAL_WARNING,
    &WORKER_BUSY,
    &MARGINAL_LOSS,
    &VOIDS_IN_A_ROW,
    &VOIDS_IN_SEARCH,
    &VOID_SHARE,
];
