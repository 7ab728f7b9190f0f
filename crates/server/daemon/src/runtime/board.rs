//! The state of a worker that other threads can read.

use std::sync::{Mutex, PoisonError};

use server_core::stats::Stats;
use server_core::upstreams::UpstreamCounts;

/// What a worker lets others see.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub stats: Stats,
    pub upstreams: Vec<UpstreamCounts>,
    /// The generation that `upstreams` belongs to.
    pub generation: u64,
}

/// Where it lets them see it.
#[derive(Default)]
pub(super) struct SharedReport(Mutex<Report>);

impl SharedReport {
    /// Changes the report that other threads read.
    pub fn write(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub fn read(&self) -> Report {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
