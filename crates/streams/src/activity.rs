//! Whether a connection is in use, for protocols whose libraries keep idle ones for ever.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::lock;

/// The use of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    in_use: AtomicUsize,
    ended: Mutex<Instant>,
}

/// A use. It ends when this is dropped.
pub(crate) struct Use(Arc<Activity>);

impl Activity {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { in_use: AtomicUsize::new(0), ended: Mutex::new(Instant::now()) })
    }

    pub fn begin(self: &Arc<Self>) -> Use {
        self.in_use.fetch_add(1, Ordering::Relaxed);
        Use(self.clone())
    }

    /// Waits until nothing has used the connection for so long.
    pub async fn idle(&self, limit: Duration) {
        loop {
            let now = Instant::now();
            let end = match self.in_use.load(Ordering::Relaxed) {
                0 => *lock(&self.ended) + limit,
                _ => now + limit.max(CHECK_EVERY_MIN),
            };
            if end <= now {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }
}

/// Connections in use are looked at no more often than this.
const CHECK_EVERY_MIN: Duration = Duration::from_millis(20);

impl Drop for Use {
    fn drop(&mut self) {
        *lock(&self.0.ended) = Instant::now();
        self.0.in_use.fetch_sub(1, Ordering::Relaxed);
    }
}
