//! The requirements of a DNS64 server, point by point, against the real dns64d: between a client and upstream
//! servers that the test plays. Tests of RFC 6147 begin with `point_` and the number that the requirements
//! give it (as those of the crate `dns64` do), tests of other RFCs with theirs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cache;
mod clients;
mod dnssec;
mod encrypted;
mod guessing;
mod hostile;
mod matching;
mod observing;
mod own_names;
mod peers;
mod prefixes;
mod protocol;
mod rule;
mod service;
#[path = "../support/mod.rs"]
mod support;
mod wishes;

/// What most conversations are about.
const AAAA: &str = "www.example.com AAAA";
const A: &str = "www.example.com A";
/// The SOA record of a denial: it lets nothing live longer than 60 s.
const SOA: &str = "ns example.com 60 SOA 60";
const A_RECORD: &str = "an www.example.com 300 A 192.0.2.1";
const SYNTHESIZED: &str = "an www.example.com 60 AAAA 2001:db8:64::c000:201";
