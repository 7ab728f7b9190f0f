//! The use of one connection, for the choice of the connection that is ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, Semaphore};

use crate::{Limits, Protocol};

/// The use of one connection. The connection and its pool share it.
pub(super) struct Usage {
    pub protocol: Protocol,
    /// Has a permit for each further query that may be in progress.
    pub pipeline: Arc<Semaphore>,
    pipelined: usize,
    /// When the connection or its last query began, in microseconds on the clock of the pool.
    used_us: AtomicU64,
    cut: Notify,
}

impl Usage {
    pub fn new(protocol: Protocol, limits: &Limits, now_us: u64) -> Arc<Self> {
        let pipelined = limits.pipelined.clamp(1, Semaphore::MAX_PERMITS);
        Arc::new(Self {
            protocol,
            pipeline: Arc::new(Semaphore::new(pipelined)),
            pipelined,
            used_us: AtomicU64::new(now_us),
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

    /// Whether no query is in progress. A connection in its handshake is idle, too.
    pub fn is_idle(&self) -> bool {
        self.pipeline.available_permits() == self.pipelined
    }

    /// The connection has to end now.
    pub fn cut(&self) {
        self.cut.notify_one();
    }

    /// Waits until the connection has to end.
    pub async fn until_cut(&self) {
        self.cut.notified().await;
    }
}
