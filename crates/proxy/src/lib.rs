//! dns64d: a DNS64 forwarder as a state machine without sockets or clock, and the threads that drive it.
//!
//! The corridor: client message -> `screen` -> `buckets`, `cookies` -> `local` -> view -> `cache` ->
//! `inflight` -> `upstreams` -> [`dns64::rule`] -> `answer`. `machine` walks it, told the time and handed the
//! octets; `runtime` owns the sockets, one machine for each thread.
#![forbid(unsafe_code)]

pub mod buckets;
pub mod config;
pub mod cookies;
pub mod domains;
pub mod ede;
pub mod ids;
pub mod local;
pub mod settings;
pub mod stats;

pub use config::Config;
pub use settings::Settings;
pub use stats::Stats;
