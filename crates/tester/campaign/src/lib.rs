//! Turns plans into trials, and trials into a record.
//!
//! [`Tester`] runs one trial and knows what the machine's counters said of it; [`Certification`] certifies
//! the Tester; [`bench`](run) repeats the search and keeps the [`Results`](record::Results) on disk after
//! every trial; [`series`] runs many of them.
#![forbid(unsafe_code)]

mod account;
mod auth_probe;
mod auth_threads;
mod bench;
pub mod certificate;
mod detail;
pub mod ladder;
mod load_probe;
mod loopback;
mod memory_probe;
mod plan;
mod progress;
mod quiet;
mod reach;
mod selftest;
pub mod series;
mod site;
mod store;
mod target;
mod tester;
mod watch;

pub use auth_threads::AuthThreads;
pub use bench::{Bench, BenchEnd, empty_results, observes, run};
pub use detail::Detail;
pub use loopback::{BackendChoice, Loopback, LoopbackError, loop_back};
pub use plan::{Plan, Preset, SECOND_NS};
pub use progress::{Progress, Status, short_duration};
pub use reach::{Unreached, reach};
pub use selftest::Certification;
pub use site::{DUT_PORT, PathChoice, Site};
pub use store::Store;
pub use target::{Auth, Target, selftest_timeout_ns, transport_of};
pub use tester::{MeasureError, Tester, TrialRun};
pub use watch::{Now, Server, Watch};
