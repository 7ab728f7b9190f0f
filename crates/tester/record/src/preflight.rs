//! What limits or disturbs a measurement on a machine, as `sextant preflight` says it.

use serde::{Deserialize, Serialize};

/// Subjects of findings whose bearing on a rate the trials of the measurement show.
pub mod subject {
    /// What other programs used before the measurement.
    pub const OTHER_LOAD: &str = "other load";
    /// What the hypervisor took before the measurement.
    pub const STEAL: &str = "steal";
    /// The largest receive buffer of a socket.
    pub const RECEIVE_BUFFERS: &str = "receive buffers";
    /// The queue before all sockets.
    pub const BACKLOG: &str = "backlog";
    /// What the kernel has said since it was booted.
    pub const KERNEL_WARNINGS: &str = "kernel warnings";
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing stands against measuring.
    Ok,
    /// Results may suffer.
    Warning,
    /// Nothing can be measured so.
    Fatal,
}

/// One rung of the ladder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What was looked at, for example `receive buffers`.
    pub what: String,
    /// The value found and where it was read.
    pub evidence: String,
    /// What it does to the results; empty if nothing.
    pub cost: String,
    /// What to do about it; empty if nothing.
    pub remedy: String,
    /// The remedy is a command for a shell.
    pub is_command: bool,
}

/// What is wrong.
pub struct Fault {
    /// How much it matters.
    pub severity: Severity,
    /// What it does to the results.
    pub cost: String,
    /// The command or setting that mends it.
    pub remedy: String,
    /// The remedy is a command for a shell.
    pub is_command: bool,
}

impl Fault {
    /// One with its cost, for a person to mend.
    pub fn new(severity: Severity, cost: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { severity, cost: cost.into(), remedy: remedy.into(), is_command: false }
    }

    /// One that results may suffer from, and the command for a shell that mends it.
    pub fn mended_by(command: impl Into<String>, cost: impl Into<String>) -> Self {
        Self { is_command: true, ..Self::new(Severity::Warning, cost, command) }
    }
}

impl Finding {
    /// What was found of `what`, and what is wrong with it.
    pub fn new(what: impl Into<String>, evidence: String, fault: Option<Fault>) -> Self {
        let (what, ok) = (what.into(), Fault::new(Severity::Ok, "", ""));
        let Fault { severity, cost, remedy, is_command } = fault.unwrap_or(ok);
        Self { severity, what, evidence, cost, remedy, is_command }
    }
}

impl From<Finding> for crate::Finding {
    fn from(finding: Finding) -> Self {
        let Finding { severity, what, evidence, cost, remedy, .. } = finding;
        let severity = match severity {
            Severity::Ok => crate::Severity::Info,
            Severity::Warning => crate::Severity::Warning,
            Severity::Fatal => crate::Severity::Fatal,
        };
        let evidence = if cost.is_empty() { evidence } else { format!("{evidence}: {cost}") };
        Self { severity, what, evidence, remedy }
    }
}
