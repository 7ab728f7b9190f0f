//! What the rings of a thread carried.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::snapshot::Metric;

/// Written by its thread, read by all.
#[derive(Default)]
pub(in crate::runtime) struct Counts {
    pub received: AtomicU64,
    pub sent: AtomicU64,
    pub by_socket: AtomicU64,
    pub damaged: AtomicU64,
    pub dropped: AtomicU64,
    pub refused: AtomicU64,
    pub repeated: AtomicU64,
}

/// Counts up; nobody else writes there.
pub(super) fn add(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Ordering::Relaxed) + number, Ordering::Relaxed);
}

/// The sums over all threads.
pub(super) fn readings(all: &[Arc<Counts>]) -> Vec<Metric> {
    let sum =
        |field: fn(&Counts) -> &AtomicU64| all.iter().map(|one| field(one).load(Ordering::Relaxed)).sum();
    vec![
        Metric::counter("xdp_received", "Datagrams received by AF_XDP", sum(|c| &c.received)),
        Metric::counter("xdp_sent", "Datagrams sent by AF_XDP", sum(|c| &c.sent)),
        Metric::counter(
            "xdp_by_socket",
            "Answers and queries that a socket sent because no ring had room or they were too long for a frame",
            sum(|c| &c.by_socket),
        ),
        Metric::counter(
            "xdp_damaged",
            "Datagrams received by AF_XDP with a wrong checksum, dropped",
            sum(|c| &c.damaged),
        ),
        Metric::counter("xdp_dropped", "Datagrams dropped because a ring was full", sum(|c| &c.dropped)),
        Metric::counter("xdp_refused", "Datagrams that a device did not send", sum(|c| &c.refused)),
        Metric::counter(
            "xdp_repeated",
            "Answers of the cache that the program repeated",
            sum(|c| &c.repeated),
        ),
    ]
}
