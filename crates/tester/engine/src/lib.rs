//! The pure core of the Measurer.
//!
//! A query walks workload, pacer, transport, matcher, stats, trial verdict, search, record. All rooms but the
//! transport are here: they are told the time and handed the bytes, so that the same code runs on sockets and
//! in a simulation.
#![forbid(unsafe_code)]

pub mod checklist;
pub mod circumstances;
pub mod lane;
pub mod matcher;
pub mod pacer;
pub mod querylog;
pub mod search;
pub mod stats;
pub mod trial;
pub mod verdict;
pub mod workload;
