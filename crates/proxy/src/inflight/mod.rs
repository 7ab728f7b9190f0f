//! What is in flight: lookups at upstream servers, and the clients' queries that wait for them. Both are fixed slabs.

pub mod chain;
pub mod jobs;
pub mod lookups;

pub use jobs::{Held, Job, Jobs, Stage, Wait};
pub use lookups::{Lookup, Lookups, Way};
