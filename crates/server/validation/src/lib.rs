//! DNSSEC validation (RFC 4033 to 4035, RFC 5155) of what upstream servers answer, in a side thread.
//!
//! ```text
//! owner --Handle::ask(token)--> [Validation] --stream--> upstream --> judged --> on_answer(Answer) --> owner
//! ```
//!
//! An upstream server is asked over its stream with DO and CD set, and so are the DS and DNSKEY records that
//! lead from a trust anchor to the answer. What is secure comes back with AD, what is insecure without, and
//! what is bogus as SERVFAIL with an extended error (RFC 8914). Questions with CD set are passed on and not
//! judged.
//!
//! The verdict is that of the validator of the `domain` crate, which is young. `evidence` stands before it
//! and takes away what it would take for good: see there.

#![forbid(unsafe_code)]

mod anchors;
mod chain;
mod counts;
pub mod evidence;
mod room;
mod server;
#[cfg(test)]
mod tests;
mod verdict;
mod way;

pub use anchors::{Anchors, AnchorsError};
pub use counts::Counts;
pub use room::{Handle, Validation};
pub use streams::{Answer, Upstream, UpstreamError};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A task that panicked with the lock held leaves data that is still whole: no lock here spans two
/// changes that belong together.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
