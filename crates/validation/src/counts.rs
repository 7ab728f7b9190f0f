//! What has happened so far, counted.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// A copy of all counters.
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

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Cell(AtomicU64);

impl Cell {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

counters! {
    /// Questions taken.
    asked,
    /// Answers that are secure.
    secure,
    /// Answers that are insecure: a parent proves that they are not signed.
    insecure,
    /// Answers that are bogus.
    bogus,
    /// Answers that were passed on without a verdict: questions with CD, and failures of the server.
    unjudged,
    /// Questions without an answer or a verdict in time.
    failures,
    /// Questions for DS and DNSKEY records.
    chain_queries,
}
