//! Looks up a query to upstream servers in the cache, and stores the reply.

use std::sync::Arc;

use dns64::wire::{Header, Malformed, Message, NAME_LENGTH_MAX, Overflow, Question, Section, Writer};

use super::MESSAGE_OCTETS_MAX;
use crate::cache::{Cache, lifetime_s};
use crate::inflight::{Failure, UpstreamQuery};
use crate::settings::{Caching, Settings};
use crate::stats::Stats;

/// The cache as one machine uses it.
pub(super) struct Recall {
    pub cache: Arc<Cache>,
    pub caching: Caching,
    /// The reply that was recalled last.
    pub octets: Vec<u8>,
    /// Space to write a denial in.
    denial: Vec<u8>,
    /// Until when all that was recalled for the present message stays as it is.
    pub until_ns: u64,
}

/// What is remembered of a query.
#[derive(Clone, Copy, Debug)]
pub(super) enum Recalled {
    /// A reply in its time of life; `ageing` means that it will end soon and should be asked for again. It
    /// stands in [`Recall::octets`] if it was `copied`, and is too long otherwise.
    Fresh { ageing: bool, copied: bool },
    /// A failure.
    Failure(Failure),
}

impl Recall {
    pub fn new(settings: &Settings, cache: Arc<Cache>) -> Self {
        Self {
            cache,
            caching: settings.caching,
            octets: Vec::with_capacity(MESSAGE_OCTETS_MAX),
            denial: Vec::with_capacity(MESSAGE_OCTETS_MAX),
            until_ns: u64::MAX,
        }
    }

    /// Looks for a fresh reply, or a failure that is still in force, and counts. A reply of more than
    /// `octets_max` octets is not copied.
    pub fn get(
        &mut self,
        now_ns: u64,
        query: &UpstreamQuery,
        octets_max: usize,
        stats: &mut Stats,
    ) -> Option<Recalled> {
        let recalled = self.look_up(now_ns, query, octets_max);
        let counter = match recalled {
            Some(Recalled::Fresh { .. }) => &mut stats.cache_hits,
            Some(Recalled::Failure(_)) => &mut stats.failure_hits,
            None => &mut stats.cache_misses,
        };
        *counter += 1;
        recalled
    }

    /// Whether nothing need be asked upstream now.
    pub fn is_known(&mut self, now_ns: u64, query: &UpstreamQuery) -> bool {
        // The news that an entry ends soon is told once: here it leads to a question, too.
        let known = self.look_up(now_ns, query, 0);
        known.is_some_and(|known| !matches!(known, Recalled::Fresh { ageing: true, .. }))
    }

    fn look_up(&mut self, now_ns: u64, query: &UpstreamQuery, octets_max: usize) -> Option<Recalled> {
        let (key, buffer) = (query.key(), &mut self.octets);
        if let Some(found) = self.cache.get_within(&key, now_ns, octets_max, buffer)
            && found.ttl_left_s > 0
        {
            self.until_ns = self.until_ns.min(found.ticks_ns);
            let ageing = found.ageing && self.caching.prefetch;
            return Some(Recalled::Fresh { ageing, copied: found.copied });
        }
        if self.caching.nxdomain_cut
            && let Some(above) = self.cache.nxdomain_above(&key, now_ns, octets_max, buffer)
        {
            self.until_ns = self.until_ns.min(above.ticks_ns);
            if above.copied {
                denial_of(&query.question, buffer, &mut self.denial).ok()?;
                std::mem::swap(buffer, &mut self.denial);
            }
            return Some(Recalled::Fresh { ageing: false, copied: above.copied });
        }
        let failure = self.cache.failure(&key, now_ns)?;
        Some(Recalled::Failure(Failure::remembered(failure.cause)))
    }

    /// Keeps a reply; false where it may not be kept.
    pub fn keep(&self, now_ns: u64, query: &UpstreamQuery, reply: &Message<'_>) -> bool {
        let Some(ttl_s) = lifetime_s(&self.caching, reply) else { return false };
        self.cache.insert(&query.key(), reply, ttl_s, now_ns);
        true
    }

    /// Keeps that a lookup failed (RFC 9520).
    pub fn keep_failure(&self, now_ns: u64, query: &UpstreamQuery, cause: u16) {
        self.cache.insert_failure(&query.key(), self.caching.failure_ttl_s, cause, now_ns);
    }
}

/// Writes the reply that a name above does not exist as the reply to a question below it (RFC 8020 2). Of its
/// records only those of the authority section belong there; nobody has validated them for this name.
fn denial_of(question: &Question, above: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let above = Message::parse(above)?;
    let no_room = |_: Overflow| Malformed("longer than its buffer when written again");
    let flags = above.header.flags & !Header::AD;
    // Names may be compressed worse than before; a reply for which this is not enough is asked for.
    out.resize((2 * above.octets().len() + NAME_LENGTH_MAX).min(MESSAGE_OCTETS_MAX), 0);
    let mut writer = Writer::new(out, above.header.id, flags, question).map_err(no_room)?;
    for record in above.records() {
        let record = record?;
        if record.section == Section::Authority {
            writer.copy(&record, record.ttl).map_err(no_room)?;
        }
    }
    let length = writer.finish();
    out.truncate(length);
    Ok(())
}
