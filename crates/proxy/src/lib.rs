//! dns64d: a DNS64 forwarder as a state machine without sockets or clock, and the threads that drive it.
//!
//! The corridor: client datagram -> [`screen`] (policy) -> cache (none yet) -> [`inflight`] -> [`upstreams`] ->
//! [`dns64::rule`] -> [`answer`]. [`machine`] walks it, told the time and handed the octets; [`runtime`] owns the
//! sockets, one machine for each thread.
#![forbid(unsafe_code)]

pub mod answer;
pub mod command;
pub mod config;
pub mod ids;
pub mod inflight;
pub mod machine;
pub mod runtime;
pub mod screen;
pub mod settings;
pub mod stats;
pub mod upstreams;

pub use config::Config;
pub use machine::{Machine, Output};
pub use runtime::{Server, ServerError};
pub use settings::Settings;
pub use stats::Stats;
