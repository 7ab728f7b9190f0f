//! What brought other DNS64 servers down, and what fuzzing has found: all of it again, in every run of the
//! tests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod histories;
mod seeds;
mod server;
#[path = "../../crates/dns64/tests/support/mod.rs"]
mod support;
#[allow(dead_code, reason = "the fuzz targets use what the replay does not")]
#[path = "../../fuzz/src/lib.rs"]
mod targets;
