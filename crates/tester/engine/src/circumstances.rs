//! Circumstances of a trial besides the queries and answers that the Measurer counted, and the rule of which
//! answers count.

use std::ops::Range;

use record::{Observation, Trial};

/// Which answers count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validity {
    /// The AAAA expected from the name.
    #[default]
    Strict,
    /// dns64perf++'s rule: a NOERROR response with any answer record.
    Compat,
    /// Any response that repeats ID and question: what reflectors and ordinary servers give.
    Response,
}

impl Validity {
    /// The queries of a trial that count as answered.
    pub fn counted(self, trial: &Trial) -> u64 {
        match self {
            // The workload of such a trial takes any response for valid.
            Self::Strict | Self::Response => trial.valid,
            Self::Compat => trial.valid_compat,
        }
    }
}

impl From<Validity> for record::Validity {
    fn from(validity: Validity) -> Self {
        match validity {
            Validity::Strict => Self::Strict,
            Validity::Compat => Self::Compat,
            Validity::Response => Self::Response,
        }
    }
}

/// What the Tester knows of its own losses and of those that the machine's counters showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnFaults {
    /// Datagrams dropped at the Measurer's sockets or rings.
    pub socket_drops: u64,
    /// Answers that came to a queue of the device that nobody read.
    pub wrong_queue: u64,
    /// Packets that the device of the queries dropped, in either direction.
    pub device_drops: u64,
    /// What the system said when it refused to send.
    pub send_error: Option<String>,
    /// The trial was cut short.
    pub interrupted: bool,
}

/// Names that were to be cached and were not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColdCache {
    /// Names asked before the trial.
    pub queries: u64,
    /// Of these, without a valid answer in time.
    pub without: u64,
    /// What the Tester's own counters showed that makes the failure the Tester's; `None`: it is the server's.
    pub tester_fault: Option<String>,
}

/// The processor time that others took in a short part of a trial. The instants are on the schedule's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadSample {
    /// Its start in ns.
    pub from_ns: u64,
    /// Its end in ns.
    pub until_ns: u64,
    /// What the hypervisor took, all processors, in ns.
    pub steal_ns: u64,
    /// What programs used that are neither Tester nor server, all processors, in ns; `None` where the
    /// server's process is not known, whose work would look like theirs.
    pub other_programs_ns: Option<u64>,
}

impl LoadSample {
    /// Its length in ns.
    pub fn length_ns(&self) -> u64 {
        self.until_ns.saturating_sub(self.from_ns)
    }

    /// What is known of the time of other programs, in ns.
    pub(crate) fn foreign_ns(&self) -> u64 {
        self.other_programs_ns.unwrap_or(0)
    }
}

/// What befell a trial beside what the Measurer counted; nothing where nobody looked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Circumstances {
    /// The Tester's own losses.
    pub own: OwnFaults,
    /// Names that were to be cached and were not.
    pub cold_cache: Option<ColdCache>,
    /// So many connections were to stand from before the first query until after the last answer; `None`:
    /// they could come and go.
    pub standing: Option<u64>,
    /// What the counters of the machine, of the server and of the AuthDNS showed.
    pub observation: Option<Observation>,
    /// What others used of the processors, in the order of time; without samples their load excuses nothing.
    pub load: Vec<LoadSample>,
    /// From when until when each question to the AuthDNS waited that had no answer in its time, in ns on the
    /// schedule's clock.
    pub auth_late: Vec<Range<u64>>,
    /// Packets that the kernel dropped before any socket, without those that the device of the queries counts
    /// as its own.
    pub softnet_drops: u64,
    /// Packets that the device of the queries took and the kernel dropped, without
    /// [`Circumstances::softnet_drops`].
    pub device_discards: u64,
}
