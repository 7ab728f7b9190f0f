//! Zone transfers and their times: `transfers.json`, and the output of `sextant trial --transfer --json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::statistics::percentile;
use crate::terms::TransferEnd;

/// Transfers of a zone, one after another (AXFR, RFC 5936).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Transfers {
    /// When the first one began, RFC 3339 in UTC.
    pub started_utc: String,
    /// Address and port of the server.
    pub server: String,
    /// The zone, without the dot at the end.
    pub zone: String,
    /// `tcp` or `dot`.
    pub protocol: String,
    /// How the certificate was checked; empty without TLS.
    pub certificate: String,
    /// The most seconds for the connection, for the handshake and for each message.
    pub timeout_s: f64,
    /// The most seconds for all transfers.
    pub duration_s: f64,
    /// How many transfers were asked for.
    pub wanted: u32,
    /// Those that were begun, in their order.
    pub transfers: Vec<Transfer>,
    /// Over those that were complete; absent if none was.
    pub summary: Option<TransferSummary>,
    /// How many failed, by the place.
    pub failures: BTreeMap<TransferEnd, u32>,
}

/// One transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Until the connection of TCP was there, in ns; absent if it never was.
    pub connect_ns: Option<u64>,
    /// From there until the handshake of TLS was done, in ns; absent without TLS.
    pub handshake_ns: Option<u64>,
    /// From sending the query to the whole first message, in ns; absent if none came.
    pub first_message_ns: Option<u64>,
    /// Likewise to the last message that came.
    pub last_message_ns: Option<u64>,
    /// Messages that came.
    pub messages: u64,
    /// Records of the zone in them; the SOA record that ends a transfer is not counted again.
    pub records: u64,
    /// Octets of the messages.
    pub octets: u64,
    /// The serial of the zone's SOA record; absent if none came.
    pub serial: Option<u32>,
    /// What ended it before its end; absent if it is complete.
    pub failure: Option<TransferFailure>,
}

/// What ended a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferFailure {
    /// Where.
    pub place: TransferEnd,
    /// In words.
    pub reason: String,
}

/// The transfers that were complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferSummary {
    /// How many.
    pub complete: u32,
    /// Of [`Transfer::connect_ns`].
    pub connect_ns: Spread,
    /// Of [`Transfer::handshake_ns`]; absent without TLS.
    pub handshake_ns: Option<Spread>,
    /// Of [`Transfer::first_message_ns`].
    pub first_message_ns: Spread,
    /// Of [`Transfer::last_message_ns`].
    pub last_message_ns: Spread,
    /// Records per second from sending the query to the last message.
    pub records_per_s: Spread,
}

/// Values of several transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Of an even number the lower one in the middle.
    pub median: u64,
    /// The least.
    pub min: u64,
    /// The greatest.
    pub max: u64,
}

impl Spread {
    /// `None` of no values.
    fn of(values: impl Iterator<Item = u64>) -> Option<Self> {
        let mut sorted: Vec<u64> = values.collect();
        sorted.sort_unstable();
        Some(Self { median: percentile(&sorted, 50.0)?, min: *sorted.first()?, max: *sorted.last()? })
    }
}

impl Transfers {
    /// With the summary and the failures of its transfers.
    pub fn summed_up(mut self) -> Self {
        for failure in self.transfers.iter().filter_map(|transfer| transfer.failure.as_ref()) {
            *self.failures.entry(failure.place.clone()).or_default() += 1;
        }
        self.summary = self.summarize();
        self
    }

    /// Whether as many transfers as were asked for are complete.
    pub fn is_complete(&self) -> bool {
        self.summary.as_ref().is_some_and(|summary| summary.complete == self.wanted)
    }

    fn summarize(&self) -> Option<TransferSummary> {
        let complete = || self.transfers.iter().filter(|transfer| transfer.failure.is_none());
        let spread = |of: fn(&Transfer) -> Option<u64>| Spread::of(complete().filter_map(of));
        let per_second = |transfer: &Transfer| {
            let time_ns = u128::from(transfer.last_message_ns?.max(1));
            u64::try_from(u128::from(transfer.records) * 1_000_000_000 / time_ns).ok()
        };
        Some(TransferSummary {
            complete: complete().count() as u32,
            connect_ns: spread(|transfer| transfer.connect_ns)?,
            handshake_ns: spread(|transfer| transfer.handshake_ns),
            first_message_ns: spread(|transfer| transfer.first_message_ns)?,
            last_message_ns: spread(|transfer| transfer.last_message_ns)?,
            records_per_s: spread(per_second)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(last_message_ns: u64) -> Transfer {
        Transfer {
            connect_ns: Some(10),
            first_message_ns: Some(20),
            last_message_ns: Some(last_message_ns),
            records: 1000,
            ..Transfer::default()
        }
    }

    #[test]
    fn complete_transfers_are_summed_up_and_failures_counted() {
        let failure = TransferFailure { place: TransferEnd::Rcode, reason: "REFUSED".into() };
        let failed = Transfer { failure: Some(failure), connect_ns: Some(1), ..Transfer::default() };
        let transfers = vec![transfer(2_000_000), failed, transfer(1_000_000), transfer(4_000_000)];
        let all = Transfers { wanted: 4, transfers, ..Transfers::default() }.summed_up();
        let summary = all.summary.clone().unwrap();
        assert_eq!((summary.complete, summary.handshake_ns), (3, None));
        assert_eq!(summary.last_message_ns, Spread { median: 2_000_000, min: 1_000_000, max: 4_000_000 });
        assert_eq!(summary.records_per_s, Spread { median: 500_000, min: 250_000, max: 1_000_000 });
        assert_eq!(summary.connect_ns, Spread { median: 10, min: 10, max: 10 });
        assert_eq!(all.failures, BTreeMap::from([(TransferEnd::Rcode, 1)]));
        assert!(!all.is_complete());
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Transfers>(&json).unwrap(), all);
    }

    #[test]
    fn nothing_complete_has_no_summary() {
        let none = Transfers { wanted: 1, ..Transfers::default() }.summed_up();
        assert_eq!((none.summary.is_none(), none.is_complete()), (true, false));
    }
}
