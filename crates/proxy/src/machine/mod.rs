//! The state machine: one for each thread, told the time and handed the octets.
//!
//! A client's query becomes a *job*. A job needs the reply to one question, and sometimes to a second: AAAA, then A. Each
//! reply comes from the cache or from a *lookup*, which all jobs with the same question share. So every job walks the
//! same loop (`jobs`): recall what is known, judge it by the DNS64 rule, and answer, ask for more or fail. `lookups`
//! is what happens upstream: tries, servers, timeouts.

mod clients;
mod endings;
mod jobs;
mod late;
mod lookups;
mod output;
mod recall;
mod replies;
mod shared;
mod stale;
mod tries;

use std::sync::Arc;

use crate::cookies::UpstreamCookies;
use crate::ids::{Ids, Random};
use crate::inflight::{Jobs, Lookups, Wait};
use crate::settings::Settings;
use crate::stats::Stats;
use crate::upstreams::{UpstreamCounts, Upstreams};
use late::Late;
pub use output::{Notice, Output};
use recall::Hash;
pub use shared::{Loops, Shared};

/// The longest message.
const MESSAGE_OCTETS_MAX: usize = 65_535;

/// dns64d without sockets and clock.
pub struct Machine {
    settings: Arc<Settings>,
    shared: Shared,
    jobs: Jobs,
    lookups: Lookups,
    ids: Ids,
    upstreams: Upstreams,
    upstream_cookies: UpstreamCookies,
    random: Random,
    hash: Hash,
    late: Late,
    stats: Stats,
    /// Counts the jobs: their numbers, and whose turn it is where prefixes rotate.
    jobs_begun: u64,
    loops_seen: u32,
    /// Until when all that was recalled for the present message stays as it is.
    recalled_until_ns: u64,
    /// Seconds since 1970 at the monotonic clock's zero.
    unix_zero_s: u64,
    buffers: Buffers,
}

/// Space that is used again and again, so that nothing is allocated for a message.
struct Buffers {
    recalled: Vec<u8>,
    respelled: Vec<u8>,
    scrubbed: Vec<u8>,
    woken: Vec<(usize, Wait)>,
}

impl Machine {
    /// A machine at rest. `seed` is the secret that IDs, ports and spellings are drawn from.
    pub fn new(settings: Arc<Settings>, shared: Shared, seed: [u8; 32]) -> Self {
        let mut random = Random::new(seed);
        Self {
            jobs: Jobs::new(settings.in_flight),
            lookups: Lookups::new(settings.in_flight),
            ids: Ids::new(settings.in_flight),
            upstreams: Upstreams::new(&settings),
            upstream_cookies: UpstreamCookies::new(settings.upstreams.len(), random.seed()),
            hash: Hash::new(&mut random),
            random,
            late: Late::default(),
            stats: Stats::default(),
            jobs_begun: 0,
            loops_seen: 0,
            recalled_until_ns: u64::MAX,
            unix_zero_s: 0,
            buffers: Buffers {
                recalled: Vec::with_capacity(MESSAGE_OCTETS_MAX),
                respelled: Vec::with_capacity(MESSAGE_OCTETS_MAX),
                scrubbed: vec![0; MESSAGE_OCTETS_MAX],
                woken: Vec::new(),
            },
            settings,
            shared,
        }
    }

    /// Tells the time of day: the seconds since 1970 at the monotonic clock's zero. Cookies need it.
    pub fn set_unix_zero_s(&mut self, unix_zero_s: u64) {
        self.unix_zero_s = unix_zero_s;
    }

    /// What was counted so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Until when the cache would have said the same of the last client's message: when the first TTL among what it said is
    /// less by a second. `u64::MAX` if it said nothing.
    pub fn recalled_until_ns(&self) -> u64 {
        self.recalled_until_ns
    }

    /// What each upstream server did so far.
    pub fn upstream_counts(&self, now_ns: u64) -> impl Iterator<Item = UpstreamCounts> + '_ {
        self.upstreams.counts(now_ns)
    }

    /// The number of clients' queries that wait for an answer.
    pub fn waiting(&self) -> usize {
        self.jobs.len()
    }

    /// The number of lookups in flight.
    pub fn in_flight(&self) -> usize {
        self.lookups.len()
    }

    /// When [`Machine::handle_timeout`] must be called, if nothing else happens before.
    pub fn poll_timeout(&self) -> Option<u64> {
        let tries = self.lookups.first_due().map(|(_, due_ns)| due_ns);
        let stale = self.jobs.first_young().map(|(_, due_ns)| due_ns).filter(|&due_ns| due_ns != u64::MAX);
        tries.into_iter().chain(stale).chain(self.late.first_due_ns()).min()
    }

    /// Ends the tries whose time is over, and does for clients what is to be done while they wait.
    pub fn handle_timeout(&mut self, now_ns: u64, out: &mut impl Output) {
        self.ask_late(now_ns, out);
        self.end_tries(now_ns, out);
        self.serve_waiting_stale(now_ns, out);
    }
}
