//! What is in flight: lookups at upstream servers, and jobs, the clients' queries that wait for them. Both
//! are fixed slabs. `state` says what becomes of a job.

pub mod chain;
pub mod crowds;
pub mod jobs;
pub mod lookups;
pub mod query;
pub mod state;
pub mod zones;

pub use crowds::Network;
pub use jobs::{Held, Job, Jobs, Wait};
pub use lookups::{Lookup, Lookups, TryTransport};
pub use query::UpstreamQuery;
pub use state::{Event, Failure, Next, State};
pub use zones::Zone;
