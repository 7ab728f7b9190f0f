//! What a machine counted.

use std::ops::AddAssign;

/// A counter with its name and meaning, for those who print all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The name of its field in [`Stats`].
    pub name: &'static str,
    /// What is counted, without a full stop.
    pub help: &'static str,
    /// The count.
    pub value: u64,
}

/// Defines the counters once: the fields, their sum and their list.
macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counters since the start. Every client message ends in exactly one of `dropped`, `refused`,
        /// `rate_slipped`, `rate_dropped` and `accepted`; every accepted query in one of `answered`, `failed`
        /// and `evicted`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl AddAssign for Stats {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl Stats {
            /// What was counted since `before`.
            pub fn since(&self, before: &Self) -> Self {
                Self { $($name: self.$name - before.$name,)* }
            }

            /// The same so many times.
            pub fn times(&self, number: u64) -> Self {
                Self { $($name: self.$name * number,)* }
            }

            /// All counters, in the order of their definition.
            pub fn list(&self) -> Vec<Counter> {
                vec![$(Counter {
                    name: stringify!($name),
                    help: concat!($($doc),*).trim().trim_end_matches('.'),
                    value: self.$name,
                },)*]
            }
        }
    };
}

counters! {
    /// Messages from clients.
    client_messages,
    /// Client messages dropped: answers, shorter than a header, or our own.
    dropped,
    /// Client messages dropped: from addresses that may not ask, beyond those that are refused.
    strangers_dropped,
    /// Client messages answered at once with an error (FORMERR, NOTIMP, REFUSED, BADVERS).
    refused,
    /// Client queries over the rate limit, answered with TC.
    rate_slipped,
    /// Client messages over the rate limit, dropped.
    rate_dropped,
    /// Client queries taken.
    accepted,
    /// Queries that ended with an answer, synthesized or not.
    answered,
    /// Queries that ended with a SERVFAIL of our own.
    failed,
    /// Queries given up without an answer, because too many were in flight.
    evicted,
    /// Lookups not started, because too many were in flight for the same zone.
    zone_limited,
    /// Lookups not started, because too many were in flight at the same upstream servers.
    server_limited,
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
    /// Upstream datagrams with a question in flight at their socket and a wrong ID: guesses. The question
    /// goes on over a stream.
    upstream_near_misses,
    /// Upstream messages with an ID in flight and another question or cookie: forged, or a broken server.
    upstream_mismatched,
    /// Sockets towards upstream servers that could not be opened, so that ports are not renewed.
    upstream_socket_failures,
    /// Tries that an upstream server did not answer in time.
    timeouts,
    /// Tries after the first.
    retries,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_counter_with_its_meaning() {
        let stats = Stats { dropped: 7, retries: 9, ..Stats::default() };
        let list = stats.list();
        assert_eq!(list.len() * size_of::<u64>(), size_of::<Stats>());
        let dropped = list.iter().find(|counter| counter.name == "dropped").unwrap();
        assert_eq!(dropped.value, 7);
        assert!(dropped.help.starts_with("Client messages dropped") && dropped.help.ends_with("our own"));
        assert_eq!(list.last().unwrap().help, "Tries after the first");
        assert_eq!(list.iter().map(|counter| counter.value).sum::<u64>(), 16);
    }
}
