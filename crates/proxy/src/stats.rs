//! What a machine counted.

use std::ops::AddAssign;

/// Defines the counters once, with their sum and their names.
macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counters since the start. Every client message ends in exactly one of `dropped`, `refused`, `rate_slipped`,
        /// `rate_dropped` and `accepted`; every accepted query in one of `answered`, `failed` and `evicted`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Stats {
            /// Every counter: its name, what it counts, and its value.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($doc),*).trim_ascii(), self.$name),)*].into_iter()
            }
        }

        impl AddAssign for Stats {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Messages from clients.
    client_messages,
    /// Client messages dropped: answers, shorter than a header, or our own.
    dropped,
    /// Client messages answered at once with an error (FORMERR, NOTIMP, REFUSED, BADVERS).
    refused,
    /// Client queries over the rate limit, answered with TC.
    rate_slipped,
    /// Client queries over the rate limit, dropped.
    rate_dropped,
    /// Client queries taken.
    accepted,
    /// Queries that ended with an answer, synthesized or not.
    answered,
    /// Queries that ended with a SERVFAIL of our own.
    failed,
    /// Queries given up without an answer, because too many were in flight.
    evicted,
    /// Answers with at least one synthesized AAAA record.
    synthesized,
    /// Answers that did not fit and went out with TC.
    truncated,
    /// Answers made without asking (ipv4only.arpa and the like).
    local,
    /// AAAA answers passed on because the name has usable AAAA records.
    passed_aaaa,
    /// AAAA answers passed on because the name does not exist.
    passed_nxdomain,
    /// AAAA answers passed on because they are errors.
    passed_error,
    /// AAAA questions that the client validates itself (CD).
    passed_validating,
    /// AAAA questions of views or domains without DNS64.
    passed_policy,
    /// Answers to other questions than AAAA.
    passed_other,
    /// Questions answered from the cache.
    cache_hits,
    /// Questions that the cache had no fresh answer to.
    cache_misses,
    /// Questions answered by a failure that is remembered.
    failure_hits,
    /// Answers given after their end of life, because no fresh one could be had.
    stale_answers,
    /// Questions that joined a lookup in flight.
    coalesced,
    /// Lookups started because an entry was about to expire.
    prefetches,
    /// Queries sent to upstream servers over UDP.
    upstream_queries,
    /// Queries sent to upstream servers over streams.
    upstream_stream_queries,
    /// Answers of upstream servers that belong to a query in flight.
    upstream_answers,
    /// Upstream datagrams that belong to no query in flight: late, or forged.
    upstream_unexpected,
    /// Upstream messages with an ID in flight and another question or cookie: forged, or a broken server.
    upstream_mismatched,
    /// Tries that an upstream server did not answer in time.
    timeouts,
    /// Tries after the first.
    retries,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_name_and_a_meaning() {
        let mut stats = Stats { client_messages: 3, ..Stats::default() };
        stats += Stats { client_messages: 4, retries: 1, ..Stats::default() };
        let listed: Vec<_> = stats.each().collect();
        assert_eq!(listed[0], ("client_messages", "Messages from clients.", 7));
        assert_eq!(listed.last().unwrap().2, 1);
        assert!(listed.iter().all(|(_, meaning, _)| meaning.ends_with('.')), "{listed:?}");
    }
}
