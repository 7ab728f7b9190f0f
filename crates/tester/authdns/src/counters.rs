//! What the AuthDNS counts. Each thread adds to counters of its own once for every batch; readers sum them.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::faults::Reply;
use super::faults::{Counts, Kind};
use super::zone::QueryKind;

/// The counts of one transport. At rest, queries + duplicates = answers + dropped + lost + undelivered + send
/// failures, where faults duplicate and lose answers; [`Traffic::unaccounted`] is the difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Questions for type A.
    pub queries_a: u64,
    /// Questions for type AAAA.
    pub queries_aaaa: u64,
    /// Other well-formed messages.
    pub queries_other: u64,
    /// Messages that are no DNS query: answered with FORMERR or dropped.
    pub malformed: u64,
    /// Answers that the kernel took.
    pub answers: u64,
    /// Messages that got no answer, as is due to answers and to less than a header.
    pub dropped: u64,
    /// Answers that could not be sent.
    pub send_failures: u64,
    /// Answers that a fault delayed and that were never sent: too many were waiting, the client was gone, or
    /// the server was stopped.
    pub undelivered: u64,
    /// Faults that befell answers.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub faults: Counts,
}

impl Traffic {
    const FIELDS: usize = 8 + Kind::ALL.len();

    /// All messages received.
    pub fn queries(&self) -> u64 {
        self.queries_a + self.queries_aaaa + self.queries_other + self.malformed
    }

    /// Messages for which no reason is known why they were not answered; delayed answers are among them while
    /// they wait.
    pub fn unaccounted(&self) -> i64 {
        let due = self.queries() + self.faults.of(Kind::Duplicate);
        let accounted =
            self.answers + self.dropped + self.faults.lost() + self.undelivered + self.send_failures;
        due.wrapping_sub(accounted) as i64
    }

    /// Counts a message, the faults that befell its answer and, where it gets none, that. Answers are counted
    /// when they are sent.
    pub(super) fn count(&mut self, reply: &Reply) {
        let kind = match reply.answer.kind {
            QueryKind::A => &mut self.queries_a,
            QueryKind::Aaaa => &mut self.queries_aaaa,
            QueryKind::Other => &mut self.queries_other,
            QueryKind::Malformed => &mut self.malformed,
        };
        *kind += 1;
        self.dropped += u64::from(reply.answer.octets == 0);
        if !reply.faults.is_empty() {
            self.faults.count(reply.faults);
        }
    }

    fn to_array(self) -> [u64; Self::FIELDS] {
        let mut values = [0; Self::FIELDS];
        let (own, faults) = values.split_at_mut(Self::FIELDS - Kind::ALL.len());
        own.copy_from_slice(&[
            self.queries_a,
            self.queries_aaaa,
            self.queries_other,
            self.malformed,
            self.answers,
            self.dropped,
            self.send_failures,
            self.undelivered,
        ]);
        faults.copy_from_slice(&self.faults.0);
        values
    }

    fn from_array(values: [u64; Self::FIELDS]) -> Self {
        let [
            queries_a,
            queries_aaaa,
            queries_other,
            malformed,
            answers,
            dropped,
            send_failures,
            undelivered,
            faults @ ..,
        ] = values;
        Self {
            queries_a,
            queries_aaaa,
            queries_other,
            malformed,
            answers,
            dropped,
            send_failures,
            undelivered,
            faults: Counts(faults),
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        let (mut sum, other) = (self.to_array(), other.to_array());
        for (value, more) in sum.iter_mut().zip(other) {
            *value += more;
        }
        *self = Self::from_array(sum);
    }
}

/// A [`Traffic`] that one thread adds to while others read it.
#[derive(Debug, Default)]
pub(super) struct SharedTraffic([AtomicU64; Traffic::FIELDS]);

impl SharedTraffic {
    pub fn add(&self, traffic: Traffic) {
        for (shared, more) in self.0.iter().zip(traffic.to_array()).filter(|(_, more)| *more > 0) {
            shared.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub fn read(&self) -> Traffic {
        Traffic::from_array(self.0.each_ref().map(|value| value.load(Ordering::Relaxed)))
    }
}

/// The counts of one encrypted transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EncryptedCounters {
    /// Queries and answers. An answer counts when it is handed to the connection; broken messages and HTTP
    /// requests without a query are malformed and dropped.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Connections accepted, unfinished handshakes among them.
    pub connections: u64,
    /// Handshakes that failed or took too long.
    pub handshake_failures: u64,
    /// Connections refused, because the limit was reached and none was idle.
    pub connections_refused: u64,
    /// Idle connections closed to make room for others.
    pub connections_evicted: u64,
    /// Connections closed because the client took too long to send a message or to read its answers.
    pub too_slow: u64,
}

/// Everything an [`Authority`](super::Authority) counts, since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Queries and answers over UDP, of sockets, AF_XDP and the kernel together.
    pub udp: Traffic,
    /// Over TCP; an answer counts when it is handed to the connection.
    pub tcp: Traffic,
    /// Over TLS, where that is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dot: Option<EncryptedCounters>,
    /// Over HTTPS, where that is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doh: Option<EncryptedCounters>,
    /// Over QUIC, where that is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doq: Option<EncryptedCounters>,
    /// Over HTTP/3, where that is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doh3: Option<EncryptedCounters>,
    /// Datagrams that the kernel dropped at our sockets, most often because their receive buffers were full.
    pub udp_socket_drops: u64,
    /// Times that a socket reported an error on receiving.
    pub udp_receive_failures: u64,
    /// Queries that the XDP program left to the sockets, which count them too.
    pub kernel_passed: u64,
    /// Of these, the ones whose frames had no room for the answer.
    pub kernel_no_room: u64,
    /// TCP connections served.
    pub tcp_connections: u64,
    /// TCP connections closed at once because the limit was reached.
    pub tcp_connections_refused: u64,
}

impl Counters {
    /// All messages received, over all transports.
    pub fn queries(&self) -> u64 {
        self.all().map(Traffic::queries).sum()
    }

    /// All answers, over all transports.
    pub fn answers(&self) -> u64 {
        self.all().map(|traffic| traffic.answers).sum()
    }

    fn all(&self) -> impl Iterator<Item = &Traffic> {
        let encrypted = [&self.dot, &self.doh, &self.doq, &self.doh3].into_iter().flatten();
        [&self.udp, &self.tcp].into_iter().chain(encrypted.map(|counters| &counters.traffic))
    }
}
