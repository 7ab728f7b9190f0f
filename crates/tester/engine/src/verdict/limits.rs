//! The limits of the verdict, and those among them that follow the timeout.

use record::limits as table;

pub use record::limits::TABLE as LIMITS;

/// The limits for trials with a timeout: what [`LIMITS`] gives in shares of it is resolved here and nowhere
/// else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The timeout, in ns.
    pub timeout_ns: u64,
    /// p99.9 of the lateness of the queries, in ns.
    pub lateness_p999_ns: u64,
    /// The lateness of any query, in ns.
    pub lateness_max_ns: u64,
    /// The lateness of any query of a self-test, in percent of the trial.
    pub lateness_in_trial_pct: f64,
    /// The share of uneven windows, in percent.
    pub uneven_windows_pct: f64,
    /// The time that the AuthDNS has for an answer, in ns.
    pub auth_answer_ns: u64,
    /// So many late answers of the AuthDNS.
    pub auth_late_answers: u64,
    /// The share of its late answers, in percent.
    pub auth_late_pct: f64,
    /// A thread of the server at its limit, in percent of a processor.
    pub dut_thread_busy_pct: f64,
    /// All its other threads, in percent of a processor.
    pub dut_threads_idle_pct: f64,
    /// The share of the losses that the path must explain, in percent.
    pub path_share_pct: f64,
    /// Other programs, in percent of a processor.
    pub foreign_load_pct: f64,
    /// The hypervisor, in percent of a processor.
    pub steal_pct: f64,
}

impl Limits {
    /// Those of the table, for a timeout in ns.
    pub const fn for_timeout(timeout_ns: u64) -> Self {
        Self {
            timeout_ns,
            lateness_p999_ns: table::LATENESS_P999.of_ns(timeout_ns),
            lateness_max_ns: table::LATENESS_MAX.of_ns(timeout_ns),
            lateness_in_trial_pct: table::LATENESS_IN_TRIAL.value,
            uneven_windows_pct: table::UNEVEN_WINDOWS.value,
            auth_answer_ns: table::AUTH_ANSWER.of_ns(timeout_ns),
            auth_late_answers: table::AUTH_LATE_ANSWERS.value as u64,
            auth_late_pct: table::AUTH_LATE_SHARE.value,
            dut_thread_busy_pct: table::DUT_THREAD_BUSY.value,
            dut_threads_idle_pct: table::DUT_THREADS_IDLE.value,
            path_share_pct: table::PATH_SHARE.value,
            foreign_load_pct: table::FOREIGN_LOAD.value,
            steal_pct: table::STEAL.value,
        }
    }
}
