//! The use of one connection, for the choice of the connection that is ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tokio::sync::{Notify, Semaphore};

use crate::{Limits, Protocol};

/// The use of one connection. The connection and its pool share it.
pub(crate) struct Usage {
    pub protocol: Protocol,
    /// Has a permit for each further query that may be in progress.
    pub pipeline: Arc<Semaphore>,
    pipelined: usize,
    /// When the connection or its last query began, in microseconds on the clock of the pool.
    used_us: AtomicU64,
    /// Octets of queries and answers that wait, and [`CUT`] after the connection was told to end.
    waiting_octets: AtomicI64,
    cut: Notify,
}

/// A bit far above all octets that can wait.
const CUT: i64 = 1 << 62;

impl Usage {
    pub fn new(protocol: Protocol, limits: &Limits, now_us: u64) -> Arc<Self> {
        let pipelined = limits.pipelined.clamp(1, Semaphore::MAX_PERMITS);
        Arc::new(Self {
            protocol,
            pipeline: Arc::new(Semaphore::new(pipelined)),
            pipelined,
            used_us: AtomicU64::new(now_us),
            waiting_octets: AtomicI64::new(0),
            cut: Notify::new(),
        })
    }

    /// A query begins.
    pub fn touch(&self, now_us: u64) {
        self.used_us.store(now_us, Ordering::Relaxed);
    }

    pub fn used_us(&self) -> u64 {
        self.used_us.load(Ordering::Relaxed)
    }

    /// How many queries are in progress.
    pub fn in_progress(&self) -> usize {
        self.pipelined - self.pipeline.available_permits()
    }

    /// Whether no query is in progress. A connection in its handshake is idle, too.
    pub fn is_idle(&self) -> bool {
        self.in_progress() == 0
    }

    /// Counts so many octets more among those that wait, or fewer. Returns whether the connection still
    /// counts among the others.
    pub fn add_waiting(&self, more: i64) -> bool {
        self.waiting_octets.fetch_add(more, Ordering::Relaxed) & CUT == 0
    }

    /// Octets of queries and answers that wait.
    pub fn waiting_octets(&self) -> u64 {
        (self.waiting_octets.load(Ordering::Relaxed) & !CUT) as u64
    }

    /// The connection has to end now. Returns the octets that wait for it, which count no more.
    pub fn cut(&self) -> u64 {
        let waiting = self.waiting_octets.fetch_or(CUT, Ordering::Relaxed);
        self.cut.notify_one();
        if waiting & CUT == 0 { waiting as u64 } else { 0 }
    }

    /// Waits until the connection has to end.
    pub async fn until_cut(&self) {
        self.cut.notified().await;
    }
}
