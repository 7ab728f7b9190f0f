//! Sextant: RFC 8219 benchmarks for DNS64 servers, and the parts of `dns64d`, a DNS64 forwarder.
//!
//! The instrument's corridor is workload, pacer, transport, matcher, stats, trial verdict, search, record, report:
//! the pure rooms are in the `engine` crate, the sockets in `net`, and this crate joins them to programs.
#![forbid(unsafe_code)]

pub mod authority;
pub mod campaign;
pub mod cli;
pub mod echo;
pub mod import;
pub mod lab;
mod listen;
pub mod output;
pub mod report;
pub mod workload_file;
pub mod zone_file;
