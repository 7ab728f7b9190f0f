//! Decides who may connect over streams, by the configuration in force.

use std::net::IpAddr;

use dns64::Range;
use server_core::buckets::{Buckets, Verdict};
use server_core::settings::RateLimit;
use streams::Gate;

use crate::config::Config;

/// Handshakes at once, for each that may begin in a second.
const BURST: u32 = 2;

/// The ranges of `allow`, and the rate of handshakes.
pub(super) struct ConnectionGate {
    allow: Vec<Range>,
    proven: Buckets,
    /// For addresses that may be forged: these leave the handshakes of proven ones alone.
    unproven: Buckets,
}

impl ConnectionGate {
    /// The seeds must be secret, each of its own.
    pub fn new(config: &Config, seeds: [[u8; 32]; 2]) -> Self {
        let per_second = config.streams.handshakes_per_second;
        let limit = RateLimit { per_second, burst: per_second.saturating_mul(BURST), slip: 0 };
        let [proven, unproven] = seeds.map(|seed| Buckets::new(limit, seed));
        Self { allow: config.settings.allow.clone(), proven, unproven }
    }
}

impl Gate for ConnectionGate {
    fn allows(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.allow.iter().any(|range| range.contains(client))
    }

    fn may_shake_hands(&self, client: IpAddr, proven: bool) -> bool {
        let buckets = if proven { &self.proven } else { &self.unproven };
        buckets.take(client, sys::clock::monotonic_ns()) == Verdict::Pass
    }
}
