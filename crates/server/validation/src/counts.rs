//! What has happened so far, counted.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// All counters at one time, since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts { $(#[doc = $doc] pub $name: u64,)* }

        #[derive(Debug, Default)]
        pub(crate) struct Tally { $(pub $name: Cell,)* }

        impl Tally {
            pub fn copy(&self) -> Counts {
                Counts { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

#[derive(Debug, Default)]
pub(crate) struct Cell(AtomicU64);

impl Cell {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

counters! {
    /// Questions that the owner has asked.
    asked,
    /// Answers that are secure (RFC 4035 4.3).
    secure,
    /// Answers that are insecure: a parent proves that they are not signed.
    insecure,
    /// Answers that are bogus (RFC 4035 4.3); the client gets SERVFAIL.
    bogus,
    /// Answers that were passed on without a verdict: questions with CD, and failures of the server.
    unjudged,
    /// Questions without an answer or a verdict in time.
    failures,
    /// Questions for DS and DNSKEY records.
    chain_queries,
}
