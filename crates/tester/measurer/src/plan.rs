//! The plan of a trial, and its result.

use std::io;
use std::ops::Range;

use engine::lane::LaneSpec;
use engine::pacer::{Model, Schedule};
use engine::stats::Stats;

use crate::transport::stream::StreamConfig;
use crate::transport::{Backend, UdpConfig};

/// A trial for all threads.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rate in q/s.
    pub rate_qps: u64,
    /// Length in ns.
    pub duration_ns: u64,
    /// Timeout of an answer in ns.
    pub timeout_ns: u64,
    /// How long to listen after the last query is due, in ns; at least the timeout.
    pub listen_ns: u64,
    /// How queries leave and answers come in.
    pub backend: Backend,
    /// Sockets of all threads together.
    pub udp: UdpConfig,
    /// Queries go by connections instead, one for each of these sockets; `None`: in UDP datagrams.
    pub streams: Option<StreamConfig>,
    /// Keep everybody else off the processors of the Measurer's threads as far as ordinary priorities can.
    /// Only right where no server that matters to the trial runs there: it would starve.
    pub prioritized: bool,
    /// Keep a log of every query ([`Stats::log`]).
    pub log: bool,
    /// How the queries lie in time. Models with rates of their own go before [`Plan::rate_qps`].
    pub model: Model,
}

/// What a trial gave.
#[derive(Debug)]
pub struct Measured {
    /// The schedule as it was run.
    pub schedule: Schedule,
    /// The counts of all threads.
    pub stats: Stats,
    /// Answers dropped at the Measurer's own sockets or rings; of [`Backend::Kernel`] also those that its
    /// program could not read or its device certainly dropped.
    pub socket_drops: u64,
    /// Answers that came to a queue of the device that nobody read.
    pub wrong_queue: u64,
    /// How often the network said that a query was not delivered (ICMP); what comes while such news waits is
    /// one.
    pub icmp_errors: u64,
    /// What the back-end did instead of its proper work, if it had to.
    pub fallback: Option<&'static str>,
    /// The trial was stopped before its end.
    pub interrupted: bool,
    /// Processor time of the Measurer's threads in ns.
    pub cpu_ns: u64,
    /// The last error of a send, if any failed.
    pub send_error: Option<io::Error>,
}

impl Plan {
    /// The share of thread `lane` of `lanes`, in a schedule that starts at `start_ns`.
    pub(crate) fn spec(&self, lane: usize, lanes: usize, start_ns: u64) -> LaneSpec {
        LaneSpec {
            schedule: Schedule::with_model(start_ns, self.rate_qps, self.duration_ns, self.model),
            lane: lane as u64,
            lanes: lanes as u64,
            sockets: self.sockets_of(lane, lanes).len() as u64,
            timeout_ns: self.timeout_ns,
            listen_ns: self.listen_ns.max(self.timeout_ns),
            log: self.log,
        }
    }

    /// The sockets of thread `lane` of `lanes`: an equal share, at least one; the first threads have those
    /// that cannot be shared equally.
    pub(crate) fn sockets_of(&self, lane: usize, lanes: usize) -> Range<usize> {
        let (each, more) = (self.udp.sockets / lanes, self.udp.sockets % lanes);
        if each == 0 {
            return lane..lane + 1;
        }
        let first = |lane: usize| lane * each + lane.min(more);
        first(lane)..first(lane + 1)
    }

    /// About how much memory the accounts of a trial with so many threads take, in octets.
    pub fn memory_octets(&self, threads: usize) -> u64 {
        let lanes = threads.max(1);
        let spec = self.spec(0, lanes, 0);
        // What the threads counted is added up in one more account.
        spec.memory_octets().saturating_mul(lanes as u64).saturating_add(Stats::memory_octets(&spec.schedule))
    }
}
