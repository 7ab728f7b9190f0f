//! What the fuzz targets do with an input: functions that panic where something is wrong.
//!
//! The targets in `fuzz_targets` hand over libFuzzer's inputs; `tests/crash_history` replays the seeds on the
//! stable compiler, in every run of the tests.

pub mod answer;
pub mod capture;
pub mod config;
pub mod control;
pub mod cost;
pub mod dns64d;
pub mod evidence;
pub mod exchange;
pub mod http3_session;
pub mod https_request;
pub mod https_session;
pub mod import;
mod input;
mod judge;
pub mod lane;
pub mod records;
pub mod replay;
pub mod sessions;
pub mod zone;
