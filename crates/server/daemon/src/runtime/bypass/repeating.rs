//! Answers of the cache that the program on a device repeats: which they may be, and what they count for.
//!
//! A query that the cache alone answered would be answered so again, until the first TTL in what the cache
//! said is less by a second. Until then the program gives the answer to whoever asks the same. What a machine
//! counted for the first it counts for each: machine, cache and program need not know of each other.

use std::sync::Arc;

use crate::bypass::{BypassRing, BypassTable, CLASSES, RANGES_MAX, Repeatable};
use dns64::rule::PrefixChoice;
use server_core::stats::Stats;

use crate::config::Config;

/// What one thread has given to the programs.
#[derive(Default)]
pub(super) struct Repeating {
    worker: usize,
    tables: Vec<Arc<BypassTable>>,
    /// What an answer of each class counts for.
    classes: Vec<Stats>,
    /// When the last of them will be over.
    pub until_ns: u64,
}

/// An answer that a machine has just given.
pub(in crate::runtime) struct Given<'m> {
    pub query: &'m [u8],
    /// The epoch before it was answered.
    pub epoch: u64,
    /// What the machine counted for it.
    pub counted: Stats,
    /// When the cache will say something else.
    pub until_ns: u64,
}

impl Repeating {
    pub fn new(worker: usize, tables: Vec<Arc<BypassTable>>) -> Self {
        Self { worker, tables, ..Self::default() }
    }

    /// Has a ring's program repeat an answer, if that may be. Returns whether it does.
    pub fn offer(&mut self, ring: &BypassRing, now_ns: u64, given: &Given<'_>, answer: &[u8]) -> bool {
        if !is_repeatable(&given.counted) || given.until_ns <= now_ns {
            return false;
        }
        let Some(class) = self.class_of(&given.counted) else { return false };
        let Given { query, epoch, until_ns, .. } = *given;
        let remembered = ring.remember(now_ns, &Repeatable { query, answer, until_ns, epoch, class });
        if remembered {
            self.until_ns = self.until_ns.max(until_ns);
        }
        remembered
    }

    /// What the programs' answers count for.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        for table in &self.tables {
            for (counted, number) in self.classes.iter().zip(table.given(self.worker)) {
                stats += counted.times(number);
            }
        }
        stats
    }

    /// How many answers the programs gave.
    pub fn given(&self) -> u64 {
        self.tables.iter().flat_map(|table| table.given(self.worker)).sum()
    }

    fn class_of(&mut self, counted: &Stats) -> Option<u8> {
        let known = self.classes.iter().position(|class| class == counted);
        let class = known.unwrap_or(self.classes.len());
        if class == CLASSES {
            return None;
        }
        if known.is_none() {
            self.classes.push(*counted);
        }
        u8::try_from(class).ok()
    }
}

/// Whether the cache alone made the answer, nothing else happened, and the same would happen again.
fn is_repeatable(counted: &Stats) -> bool {
    let Stats { synthesized, cache_hits, passed_aaaa, passed_nxdomain, .. } = *counted;
    let Stats { passed_validating, passed_policy, passed_other, .. } = *counted;
    let harmless = Stats {
        client_messages: 1,
        accepted: 1,
        answered: 1,
        synthesized,
        cache_hits,
        passed_aaaa,
        passed_nxdomain,
        passed_validating,
        passed_policy,
        passed_other,
        ..Stats::default()
    };
    cache_hits > 0 && *counted == harmless
}

/// Why the programs may repeat nothing, in words that follow "because".
pub(super) fn reason_against(config: &Config) -> Option<&'static str> {
    let settings = &config.settings;
    let rotates = |view: &server_core::settings::View| {
        view.rule.as_ref().is_some_and(|rule| rule.spread == PrefixChoice::Rotated && rule.prefixes.len() > 1)
    };
    let reasons = [
        (!config.xdp.repeat, "xdp.repeat is false"),
        (config.cache_octets == 0, "there is no cache"),
        (settings.rate.is_some(), "limits.queries_per_second counts every query"),
        (settings.views.len() > 1, "there are views"),
        (settings.views.iter().any(rotates), "prefixes rotate"),
        (settings.allow.len() > RANGES_MAX, "allow has more than 64 ranges"),
        (config.log.queries, "log.queries wants every query"),
        (config.dnstap.as_ref().is_some_and(|tap| tap.clients), "dnstap wants every query"),
    ];
    reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_cache_answered_without_more_is_repeated() {
        let hit = Stats {
            client_messages: 1,
            accepted: 1,
            answered: 1,
            cache_hits: 2,
            synthesized: 1,
            ..Stats::default()
        };
        assert!(is_repeatable(&hit));
        assert!(is_repeatable(&Stats { cache_hits: 1, synthesized: 0, passed_aaaa: 1, ..hit }));
        for other in [
            Stats { cache_hits: 0, local: 1, ..hit },
            Stats { prefetches: 1, upstream_queries: 1, ..hit },
            Stats { truncated: 1, ..hit },
            Stats { stale_answers: 1, ..hit },
            Stats { failure_hits: 1, ..hit },
            Stats { passed_error: 1, ..hit },
            Stats { answered: 0, failed: 1, ..hit },
            Stats { answered: 2, ..hit },
        ] {
            assert!(!is_repeatable(&other), "{other:?}");
        }
    }

    #[test]
    fn classes_are_few_and_stay() {
        let mut repeating = Repeating::default();
        let counted = |cache_hits| Stats { cache_hits, ..Stats::default() };
        for number in 0..CLASSES as u64 {
            assert_eq!(repeating.class_of(&counted(number)), u8::try_from(number).ok());
        }
        assert_eq!((repeating.class_of(&counted(99)), repeating.class_of(&counted(3))), (None, Some(3)));
    }

    #[test]
    fn whatever_needs_to_see_every_query_speaks_against_it() {
        let reason = |more: &str| {
            let text = format!("upstreams = ['192.0.2.1:53']\nprefixes = ['2001:db8:64::/96']\n{more}");
            reason_against(&Config::parse(&text, "test").unwrap()).unwrap_or("")
        };
        assert_eq!(reason(""), "");
        for (more, word) in [
            ("[xdp]\nrepeat = false", "xdp.repeat"),
            ("[cache]\nsize_mib = 0", "no cache"),
            ("[limits]\nqueries_per_second = 10", "queries_per_second"),
            ("[[view]]\nname = 'a'\nclients = ['10.0.0.0/8']", "views"),
            ("[log]\nqueries = true", "log.queries"),
            ("[dnstap]\nsocket = '/run/tap'", "dnstap"),
        ] {
            assert!(reason(more).contains(word), "{more}: {}", reason(more));
        }
        assert_eq!(reason("[dnstap]\nsocket = '/run/tap'\nclients = false\nupstreams = true"), "");
    }
}
