//! Plans that become trials that become a record.
//!
//! [`Tester`] runs one trial and knows what the machine's counters said of it; [`Certification`] certifies the Tester;
//! [`bench`](run) repeats the search and keeps the [`Results`](engine::record::Results) on disk after every trial;
//! [`series`] runs many of them.

mod account;
mod auth_probe;
mod bench;
mod bottleneck;
pub mod certificate;
mod checklist;
mod detail;
pub mod ladder;
mod live;
mod observed;
mod plan;
mod progress;
mod reach;
mod selftest;
pub mod series;
mod site;
mod store;
mod tester;
mod watch;

pub use bench::{Bench, Ended, empty_results, observes, run};
pub use detail::Detail;
pub use plan::{Plan, Preset, SECOND_NS};
pub use progress::{Doing, Progress, short_duration};
pub use reach::{Unreached, reach};
pub use selftest::{Certification, selftest_timeout_ns};
pub use site::{DUT_PORT, LoopError, Looped, PathChoice, Site, Wanted, auth_cpus, loop_back};
pub use store::Store;
pub use tester::{Auth, MeasureError, Target, Tester, Tried};
pub use watch::{Now, Server, Watch};
