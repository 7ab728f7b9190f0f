//! DNS64 as pure functions.
//!
//! [`prefix`] embeds IPv4 addresses in IPv6 addresses (RFC 6052), [`rule`] decides what a DNS64 server does
//! with a reply and writes the answer (RFC 6147), [`names`] holds the benchmark's names and the answers
//! expected for them, and [`wire`] reads and writes DNS messages without allocating.
//!
//! Nothing here knows a clock, a socket or a file, and no byte from the network can make it panic.
#![forbid(unsafe_code)]

pub mod chain;
mod effort;
pub mod names;
pub mod prefix;
pub mod range;
pub mod reverse;
pub mod rewrite;
pub mod rule;
pub mod scrub;
pub mod steps;
pub mod wire;

pub use names::NameSpace;
pub use prefix::Prefix;
pub use range::Range;
