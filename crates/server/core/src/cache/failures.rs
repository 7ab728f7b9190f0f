//! Cached failures: a question that cannot be answered is not asked again and again (RFC 9520).

use std::sync::atomic::Ordering;

use super::entry::{Header, Kind};
use super::{Cache, Key};

/// The longest time that a failure is in force, in seconds (RFC 9520 3.2).
const LIFE_MAX_S: u32 = 300;
/// A failure so long after the end of the one before begins a new series, in seconds.
const MEMORY_S: u32 = 300;

/// A failure that is in force: its question is not to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why it failed: an extended DNS error (RFC 8914 4).
    pub cause: u16,
    /// The seconds until it may be asked again, 1 to 300.
    pub left_s: u32,
}

impl Cache {
    /// The failure of a question that is in force (RFC 9520 3.2). Costs nothing while the cache holds none.
    pub fn failure(&self, key: &Key, now_ns: u64) -> Option<Failure> {
        if self.failures.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let (shard, hash) = self.locate(key)?;
        let (header, cause) = shard.lock().word(hash, Kind::Failure, key.as_octets())?;
        let left_s = header.left_s(now_ns);
        (left_s > 0).then_some(Failure { cause, left_s })
    }

    /// Keeps that a question failed, and why: an extended DNS error (RFC 8914 4). It is in force for
    /// `first_ttl_s` seconds, 1 to 300, and for twice as long as the last time, up to 300, when that one
    /// ended less than 300 seconds ago. While one is in force another changes nothing: it comes from a try
    /// that began before.
    pub fn insert_failure(&self, key: &Key, first_ttl_s: u32, cause: u16, now_ns: u64) {
        let Some((shard, hash)) = self.locate(key) else { return };
        self.change(shard, |shard| {
            let last = shard.word(hash, Kind::Failure, key.as_octets()).map(|(header, _)| header);
            let Some(life_s) = next_life_s(last.as_ref(), first_ttl_s, now_ns) else { return };
            let header = Header::of_word(Kind::Failure, hash, key.as_octets());
            shard.write_word(&Header { born_ns: now_ns, life_s, ..header }, key.as_octets(), cause);
        });
    }
}

/// How long a failure is in force after the last one; `None` while that one still is.
fn next_life_s(last: Option<&Header>, first_s: u32, now_ns: u64) -> Option<u32> {
    match last {
        Some(last) if last.left_s(now_ns) > 0 => None,
        Some(last) if last.stale_s(now_ns) < MEMORY_S => Some(last.life_s.saturating_mul(2).min(LIFE_MAX_S)),
        _ => Some(first_s.clamp(1, LIFE_MAX_S)),
    }
}
