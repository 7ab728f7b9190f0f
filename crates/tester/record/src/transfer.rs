//! Zone transfers and their times: `transfers.json`, and the output of `sextant trial --transfer --json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::statistics::percentile;
use crate::terms::{TransferAnswer, TransferEnd};

/// Transfers of a zone (AXFR, RFC 5936; IXFR, RFC 1995), one after another or at a rate.
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
    /// The serial since which the changes were asked for; absent if the whole zone was.
    pub since: Option<u32>,
    /// The algorithm and the name of the key that signed; empty without one.
    pub tsig: String,
    /// Transfers that begin in each second; absent if one followed another.
    pub rate: Option<u64>,
    /// The most seconds for the connection, for the handshake and for each message; at a rate for a whole
    /// transfer.
    pub timeout_s: f64,
    /// The most seconds for all transfers; at a rate how long transfers begin.
    pub duration_s: f64,
    /// How many transfers were asked for.
    pub wanted: u32,
    /// Those that were begun, in their order.
    pub transfers: Vec<Transfer>,
    /// Over those that were complete; absent if none was.
    pub summary: Option<TransferSummary>,
    /// What the complete ones brought.
    pub answers: BTreeMap<TransferAnswer, u32>,
    /// How many failed, by the place.
    pub failures: BTreeMap<TransferEnd, u32>,
}

/// One transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Its instant, in ns since that of the first one: when it was due at a rate, else when it began.
    pub instant_ns: u64,
    /// How long after its instant it began, in ns.
    pub late_ns: u64,
    /// From its instant to its end, in ns.
    pub whole_ns: u64,
    /// From its beginning until TCP had connected, in ns; absent if it never had.
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
    /// Of the records those that the zone no longer has, with the SOA records of the old versions.
    pub removed: u64,
    /// Of the records those that the zone got, with the SOA records of the new versions.
    pub added: u64,
    /// Octets of the messages.
    pub octets: u64,
    /// The serial of the zone's SOA record; absent if none came.
    pub serial: Option<u32>,
    /// What it brought; absent if it is not complete.
    pub answer: Option<TransferAnswer>,
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
    /// Of [`Transfer::late_ns`].
    pub late_ns: Spread,
    /// Of [`Transfer::whole_ns`].
    pub whole_ns: Spread,
    /// Of [`Transfer::connect_ns`].
    pub connect_ns: Spread,
    /// Of [`Transfer::handshake_ns`]; absent without TLS.
    pub handshake_ns: Option<Spread>,
    /// Of [`Transfer::first_message_ns`].
    pub first_message_ns: Spread,
    /// Of [`Transfer::last_message_ns`].
    pub last_message_ns: Spread,
    /// Of [`Transfer::records`].
    pub records: Spread,
    /// Of [`Transfer::octets`].
    pub octets: Spread,
    /// Records per second from sending the query to the last message.
    pub records_per_s: Spread,
}

/// Values of several transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Of an even number the lower one in the middle.
    pub median: u64,
    /// The 99th percentile (RFC 2330 11.3).
    pub p99: u64,
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
        let [median, p99] = [50.0, 99.0].map(|percent| percentile(&sorted, percent));
        Some(Self { median: median?, p99: p99?, min: *sorted.first()?, max: *sorted.last()? })
    }
}

impl Transfers {
    /// With the summary of its transfers. Each one is either in `answers` or in `failures`, once.
    pub fn summed_up(mut self) -> Self {
        for transfer in &self.transfers {
            match &transfer.failure {
                Some(failure) => *self.failures.entry(failure.place.clone()).or_default() += 1,
                None => *self.answers.entry(transfer.answer.clone().unwrap_or_default()).or_default() += 1,
            }
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
            late_ns: spread(|transfer| Some(transfer.late_ns))?,
            whole_ns: spread(|transfer| Some(transfer.whole_ns))?,
            connect_ns: spread(|transfer| transfer.connect_ns)?,
            handshake_ns: spread(|transfer| transfer.handshake_ns),
            first_message_ns: spread(|transfer| transfer.first_message_ns)?,
            last_message_ns: spread(|transfer| transfer.last_message_ns)?,
            records: spread(|transfer| Some(transfer.records))?,
            octets: spread(|transfer| Some(transfer.octets))?,
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
            answer: Some(TransferAnswer::Full),
            ..Transfer::default()
        }
    }

    fn spread(median: u64, min: u64, max: u64) -> Spread {
        Spread { median, p99: max, min, max }
    }

    #[test]
    fn complete_transfers_are_summed_up_and_failures_counted() {
        let failure = TransferFailure { place: TransferEnd::Rcode, reason: "REFUSED".into() };
        let failed = Transfer { failure: Some(failure), connect_ns: Some(1), ..Transfer::default() };
        let transfers = vec![transfer(2_000_000), failed, transfer(1_000_000), transfer(4_000_000)];
        let all = Transfers { wanted: 4, transfers, ..Transfers::default() }.summed_up();
        let summary = all.summary.clone().unwrap();
        assert_eq!((summary.complete, summary.handshake_ns), (3, None));
        assert_eq!(summary.last_message_ns, spread(2_000_000, 1_000_000, 4_000_000));
        assert_eq!(summary.records_per_s, spread(500_000, 250_000, 1_000_000));
        assert_eq!(summary.connect_ns, spread(10, 10, 10));
        assert_eq!(summary.records, spread(1000, 1000, 1000));
        assert_eq!(all.failures, BTreeMap::from([(TransferEnd::Rcode, 1)]));
        assert_eq!(all.answers, BTreeMap::from([(TransferAnswer::Full, 3)]));
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
