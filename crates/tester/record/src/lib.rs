//! The record of a measurement: the schema of `results.json`, its statistics, and the format of its numbers.
//!
//! The reports know nothing else. The crate is pure: no clock, socket, thread, file or environment.
#![forbid(unsafe_code)]

pub mod campaign;
mod connections;
mod goals;
pub mod identifiers;
mod interval;
pub mod ladder;
mod latency;
pub mod limits;
mod load;
pub mod machine;
pub mod number;
pub mod preflight;
mod questions;
pub mod random;
mod replay;
mod results;
mod sought;
pub mod standing;
pub mod statistics;
mod summary;
mod terms;
mod transfer;

pub use connections::{Connections, FoundConnections, Transport};
pub use goals::{Goal, GoalResult, GoalSummary};
pub use interval::RateInterval;
pub use latency::Latency;
pub use load::LoadModel;
pub use questions::{FileQuestions, Questions};
pub use replay::Replay;
pub use results::*;
pub use sought::Sought;
pub use summary::{MedianInterval, Steadiness, Summary};
pub use terms::{
    Cause, Kind, Level, LossPlace, NameChoice, SearchMode, TransferAnswer, TransferEnd, Validity,
};
pub use transfer::{Spread, Transfer, TransferFailure, TransferSummary, Transfers};
