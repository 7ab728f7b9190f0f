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
pub(crate) struct UseGuard(Arc<Activity>);

impl Activity {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { in_use: AtomicUsize::new(0), ended: Mutex::new(Instant::now()) })
    }

    pub fn begin(self: &Arc<Self>) -> UseGuard {
        self.in_use.fetch_add(1, Ordering::Relaxed);
        UseGuard(self.clone())
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

impl Drop for UseGuard {
    fn drop(&mut self) {
        *lock(&self.0.ended) = Instant::now();
        self.0.in_use.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn idleness_begins_with_the_end_of_the_last_use() {
        let (activity, began) = (Activity::new(), Instant::now());
        let (first, second) = (activity.begin(), activity.begin());
        let uses = async {
            tokio::time::sleep(LIMIT * 2).await;
            drop(first);
            tokio::time::sleep(LIMIT / 2).await;
            drop(second);
        };
        tokio::join!(uses, activity.idle(LIMIT));
        assert_eq!(began.elapsed().as_secs(), 35);
        activity.idle(LIMIT).await;
        assert_eq!(began.elapsed().as_secs(), 35, "it is idle still");
    }
}
