//! The DNS64 forwarder dns64d as a state machine without sockets, files, threads or clock.
//!
//! A client's message passes these modules: `screen` -> `buckets`, `cookies` -> `local` -> view -> `cache` ->
//! `inflight` -> `upstreams` -> [`dns64::rule`] -> `answer`. `machine` calls them in this order. The caller
//! passes the time and the octets to the machine, and sends the octets that the machine writes.
#![forbid(unsafe_code)]

pub mod answer;
pub mod buckets;
pub mod cache;
pub mod client;
pub mod cookies;
pub mod domains;
pub mod ede;
pub mod guessing;
pub mod ids;
pub mod inflight;
pub mod local;
pub mod machine;
pub mod own_sockets;
pub mod screen;
pub mod settings;
pub mod stats;
mod strangers;
pub mod upstreams;

pub use machine::{Machine, Output};
pub use settings::Settings;
pub use stats::Stats;
