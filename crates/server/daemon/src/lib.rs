//! The DNS64 forwarder dns64d as a program: configuration, threads, reload, control, metrics and privileges.
//!
//! `runtime` owns the sockets and drives one [`server_core::Machine`] in each thread.
#![forbid(unsafe_code)]

pub mod bypass;
mod command;
pub mod config;
pub mod control;
mod dnstap;
mod log;
mod metrics;
mod notify;
pub mod privileges;
mod program;
pub mod runtime;
pub mod snapshot;

/// The compiled XDP programs of `bpf/`.
mod objects {
    include!(concat!(env!("OUT_DIR"), "/objects.rs"));
}

pub use command::command;
pub use config::Config;
pub use program::main;
pub use runtime::{Server, ServerError};
