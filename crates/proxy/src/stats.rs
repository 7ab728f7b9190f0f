//! What a machine counted.

use std::ops::AddAssign;

/// Defines the counters once, with their sum.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters since the start. Every client message ends in exactly one of the first group.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
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
    /// Of those: dropped, because they are answers, shorter than a header, or our own.
    dropped,
    /// Of those: answered at once with an error (FORMERR, NOTIMP, REFUSED, BADVERS).
    refused,
    /// Of those: queries taken, which end in one of the next three.
    accepted,
    /// Queries that ended with an upstream's answer, synthesized or not.
    answered,
    /// Queries that ended with a SERVFAIL of our own.
    failed,
    /// Queries given up without an answer, because the in-flight table was full.
    evicted,
    /// Answers with at least one synthesized AAAA record.
    synthesized,
    /// Answers that did not fit and went out with TC.
    truncated,
    /// Queries sent to upstream servers over UDP.
    upstream_queries,
    /// Queries sent to upstream servers over TCP.
    upstream_tcp_queries,
    /// Answers of upstream servers that belong to a query in flight.
    upstream_answers,
    /// Upstream datagrams that belong to no query in flight: late, or forged.
    upstream_unexpected,
    /// Upstream datagrams with an ID in flight and another question: forged, or a broken server.
    upstream_mismatched,
    /// Tries that an upstream server did not answer in time.
    timeouts,
    /// Tries after the first.
    retries,
}
