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
        /// Counters since the start. Every client message ends in exactly one of the first group.
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
        assert!(dropped.help.starts_with("Of those: dropped") && dropped.help.ends_with("our own"));
        assert_eq!(list.last().unwrap().help, "Tries after the first");
        assert_eq!(list.iter().map(|counter| counter.value).sum::<u64>(), 16);
    }
}
