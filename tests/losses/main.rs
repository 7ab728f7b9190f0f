//! Each class of loss is provoked, and the real `sextant trial` must name its place and count it to the
//! query.
//!
//! Drops for a full backlog (softnet) are not provoked: the backlog's length is one setting for the whole
//! machine. Their counting is tested where it is read (`lab::observe`).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod own;
mod responder;
#[path = "../cli/running.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod running;
mod server;
mod tried;
mod wire;
