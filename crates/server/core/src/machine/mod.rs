//! The state machine: one for each thread, told the time and handed the octets.
//!
//! A client's query becomes a *job*, which has a slot from its beginning to its end. A job is in a
//! [`State`](crate::inflight::State), which says what reply it needs:
//!
//! ```text
//!                    the client's query
//!       +--------------------+---------------------+
//!       |                    |                     |
//!   NeedsReply           NeedsAaaa             NeedsPtr
//!       |                    |    \                |
//!       |                    |     +-> NeedsUnchecked (after a SERVFAIL that may be a verdict)
//!       |                    |     |      |        |
//!       |                    |     +-> NeedsA      |
//!       |                    |            |        |
//!       +--------------------+------------+--------+
//!                            |
//!             Answered, Failed or Evicted
//! ```
//!
//! One loop leads every job (`advance`). An [`Event`](crate::inflight::Event) comes to a job: the query, a
//! reply, or a failure. [`State::next`](crate::inflight::State::next) says what follows from state and event.
//! Where the job needs another reply, the loop takes that from the cache or from the A lookup that was sent
//! ahead; where neither has it, the job waits for a *lookup*, which all jobs with the same question share.
//! The end of a lookup is the next event of each job that waits.

mod advance;
mod ahead;
mod client_side;
mod eviction;
mod lookups;
mod output;
mod queries;
mod recall;
mod replies;
mod shared;
mod stale;
mod upstream_side;

use std::sync::Arc;

use crate::inflight::{Jobs, Wait};
use crate::settings::Settings;
use crate::stats::Stats;
use crate::strangers::Strangers;
use crate::upstreams::UpstreamCounts;
use ahead::Late;
use client_side::ClientSide;
pub use output::{Notice, Output};
use recall::Recall;
pub use shared::{Loops, Shared};
use upstream_side::UpstreamSide;

/// The longest message.
const MESSAGE_OCTETS_MAX: usize = 65_535;

/// dns64d without sockets and clock.
pub struct Machine {
    settings: Arc<Settings>,
    client_side: ClientSide,
    strangers: Strangers,
    recall: Recall,
    upstream_side: UpstreamSide,
    jobs: Jobs,
    late: Late,
    stats: Stats,
    /// Space for a reply without what does not belong to its question.
    scrubbed: Vec<u8>,
    /// Space for the jobs that go on when a lookup ends.
    woken: Vec<(usize, Wait)>,
}

impl Machine {
    /// A machine at rest. `seed` is the secret that IDs, ports and spellings are drawn from.
    pub fn new(settings: Arc<Settings>, shared: Shared, seed: [u8; 32]) -> Self {
        Self {
            client_side: ClientSide::new(settings.clone(), &shared),
            strangers: Strangers::default(),
            upstream_side: UpstreamSide::new(settings.clone(), &shared, seed),
            recall: Recall::new(&settings, shared.cache),
            jobs: Jobs::new(settings.in_flight),
            late: Late::default(),
            stats: Stats::default(),
            scrubbed: vec![0; MESSAGE_OCTETS_MAX],
            woken: Vec::new(),
            settings,
        }
    }

    /// Tells the time of day: the seconds since 1970 at the monotonic clock's zero. Cookies need it.
    pub fn set_unix_zero_s(&mut self, unix_zero_s: u64) {
        self.client_side.unix_zero_s = unix_zero_s;
    }

    /// What was counted so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Until when the cache would have said the same of the last client's message: when the first TTL among
    /// what it said is less by a second. `u64::MAX` if it said nothing.
    pub fn recalled_until_ns(&self) -> u64 {
        self.recall.until_ns
    }

    /// What each upstream server did so far.
    pub fn upstream_counts(&self, now_ns: u64) -> impl Iterator<Item = UpstreamCounts> + '_ {
        self.upstream_side.counts(now_ns)
    }

    /// Takes over what a machine with other settings learnt of its upstream servers: cookies, spellings, how
    /// they do, and who guesses their answers. `same` has for each server its number there, where it is the
    /// same one.
    pub fn inherit(&mut self, before: &Self, same: &[Option<usize>]) {
        self.upstream_side.inherit(&before.upstream_side, same);
    }

    /// Takes in another secret, so that what is drawn from now on follows from no earlier state.
    pub fn renew_secret(&mut self, secret: [u8; 32]) {
        self.upstream_side.renew_secret(secret);
    }

    /// A UDP socket of an upstream server that is used and waits for nothing: the caller puts a new one with
    /// another port in its place, and calls [`Machine::socket_renewed`].
    pub fn drained_socket(&mut self, now_ns: u64, upstream: usize) -> Option<usize> {
        self.upstream_side.upstreams.drained_socket(upstream, now_ns)
    }

    /// A new socket is in the place of the drained one.
    pub fn socket_renewed(&mut self, upstream: usize, socket: usize) {
        self.upstream_side.upstreams.renewed_socket(upstream, socket);
    }

    /// The number of clients' queries that wait for an answer.
    pub fn waiting(&self) -> usize {
        self.jobs.len()
    }

    /// The number of lookups in flight.
    pub fn in_flight(&self) -> usize {
        self.upstream_side.lookups.len()
    }

    /// When [`Machine::handle_timeout`] must be called, if nothing else happens before.
    pub fn poll_timeout(&self) -> Option<u64> {
        let tries = self.upstream_side.lookups.first_due().map(|(_, due_ns)| due_ns);
        let stale = self.jobs.first_young().map(|(_, due_ns)| due_ns).filter(|&due_ns| due_ns != u64::MAX);
        let doubts = self.upstream_side.first_doubt_ns();
        tries.into_iter().chain(stale).chain(self.late.first_due_ns()).chain(doubts).min()
    }

    /// Ends the tries whose time is over, and does for clients what is to be done while they wait.
    pub fn handle_timeout(&mut self, now_ns: u64, out: &mut impl Output) {
        self.ask_late(now_ns, out);
        self.end_doubts(now_ns, out);
        self.end_tries(now_ns, out);
        self.serve_waiting_stale(now_ns, out);
    }
}
