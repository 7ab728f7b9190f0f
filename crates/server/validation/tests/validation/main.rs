//! The room against scripted zones: what is secure, insecure and bogus, and what attackers and failures make
//! of it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod attacks;
mod bounds;
mod verdicts;
mod world;
