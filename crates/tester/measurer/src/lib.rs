//! The Measurer: one trial, from its plan to its statistics.
//!
//! [`measure`] runs the lanes of [`engine`] on a [`transport`] of sockets or AF_XDP rings; [`kernel`] has XDP
//! programs generate the queries and take the answers; [`live`] tells meanwhile how the trial goes;
//! [`workload_file`] reads queries, [`replay`] those of a capture with their times and clients; [`transfer`]
//! times transfers of a zone.
#![forbid(unsafe_code)]

mod connection_limits;
mod feed;
pub mod kernel;
pub mod live;
pub mod measure;
mod plan;
pub mod replay;
pub mod transfer;
pub mod transport;
pub mod workload_file;

pub use plan::{Measured, Plan};

/// The compiled XDP programs of `bpf/`.
mod objects {
    include!(concat!(env!("OUT_DIR"), "/objects.rs"));
}
