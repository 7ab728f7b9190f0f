//! The pure core of the Measurer.
//!
//! A query passes the stages workload, pacer, transport, matcher, stats, verdict, search, record. All stages
//! but the transport are in this crate. The caller passes the time and the octets, so that the same code runs
//! on sockets and in a simulation.
#![forbid(unsafe_code)]

pub mod checklist;
pub mod circumstances;
pub mod connections;
pub mod lane;
pub mod matcher;
pub mod pacer;
pub mod queries_each;
pub mod querylog;
pub mod quiet;
pub mod search;
pub mod stats;
mod times;
pub mod transfer;
pub mod trial;
pub mod tsig;
pub mod verdict;
pub mod workload;
