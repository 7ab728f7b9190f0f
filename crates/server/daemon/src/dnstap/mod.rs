//! Messages for observers: dnstap records over a Unix socket (dnstap.info, Frame Streams).
//!
//! A thread that records never waits. Frames go through a bounded queue to a thread of its own; what does not
//! fit is dropped and counted. The thread connects again, once a second, when the receiver is gone.

mod protobuf;
mod sender;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use crate::config::DnstapChoice;
use crate::log::Log;
use sender::Item;

/// Frames that wait for the receiver, at most.
const QUEUE_FRAMES: usize = 8192;
/// The octets of all messages that wait, at most.
const QUEUE_OCTETS: usize = 8 << 20;
/// How long [`Tap::finish`] waits for the receiver.
const FINISH_PATIENCE: Duration = Duration::from_secs(2);

/// A message as dnstap records it.
#[derive(Clone, Copy, Debug)]
pub struct Event<'m> {
    pub kind: Kind,
    /// What it came or went over.
    pub protocol: Protocol,
    /// Who asked: the client, or the socket that asked an upstream server.
    pub query_address: Option<SocketAddr>,
    /// Who answers: the listener, or the upstream server.
    pub response_address: Option<SocketAddr>,
    /// When the query came or went, in nanoseconds since 1970.
    pub query_time_ns: Option<u64>,
    /// When the answer came or went, likewise; none for a query.
    pub response_time_ns: Option<u64>,
    /// The message as on the wire.
    pub message: &'m [u8],
}

/// What a message is (`Message.Type` of dnstap.proto).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A client's query.
    ClientQuery = 5,
    /// The answer to a client.
    ClientResponse = 6,
    /// A query to an upstream server.
    ForwarderQuery = 7,
    /// An upstream server's answer.
    ForwarderResponse = 8,
}

impl Kind {
    const fn is_query(self) -> bool {
        matches!(self, Self::ClientQuery | Self::ForwarderQuery)
    }

    const fn is_client(self) -> bool {
        matches!(self, Self::ClientQuery | Self::ClientResponse)
    }
}

/// What a message goes over (`SocketProtocol` of dnstap.proto).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Udp = 1,
    Tcp = 2,
    /// TLS (RFC 7858).
    Tls = 3,
    /// HTTPS (RFC 8484).
    Https = 4,
    /// QUIC (RFC 9250).
    Quic = 7,
}

/// Records messages. Clones record to the same receiver.
#[derive(Clone, Debug)]
pub struct Tap {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clients: bool,
    upstreams: bool,
    identity: String,
    queue: SyncSender<Item>,
    counters: Arc<Counters>,
}

/// What the recorder and the thread both see.
#[derive(Debug, Default)]
struct Counters {
    queued_octets: AtomicUsize,
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// What became of the records since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapCounts {
    /// Frames written to the receiver.
    pub sent: u64,
    /// Frames dropped, because the receiver was slow or gone.
    pub dropped: u64,
}

impl Tap {
    /// Starts the thread that sends. A receiver that is not there yet is waited for meanwhile.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(choice: &DnstapChoice, log: Log) -> std::io::Result<Self> {
        let (queue, items) = sync_channel(QUEUE_FRAMES);
        let counters = Arc::new(Counters::default());
        sender::start(choice.socket.clone(), items, Arc::clone(&counters), log)?;
        let &DnstapChoice { clients, upstreams, ref identity, .. } = choice;
        let identity = identity.clone();
        Ok(Self { inner: Arc::new(Inner { clients, upstreams, identity, queue, counters }) })
    }

    /// Whether messages of clients are recorded.
    pub fn clients(&self) -> bool {
        self.inner.clients
    }

    /// Whether messages of upstream servers are recorded.
    pub fn upstreams(&self) -> bool {
        self.inner.upstreams
    }

    /// Records a message, if its side is recorded at all.
    pub fn record(&self, event: &Event<'_>) {
        let Inner { clients, upstreams, identity, queue, counters } = &*self.inner;
        if !(if event.kind.is_client() { *clients } else { *upstreams }) {
            return;
        }
        let full = counters.queued_octets.load(Ordering::Relaxed) >= QUEUE_OCTETS;
        let sent = !full && {
            let frame = protobuf::frame(identity, event);
            let octets = frame.len();
            counters.queued_octets.fetch_add(octets, Ordering::Relaxed);
            let sent = queue.try_send(Item::Frame(frame)).is_ok();
            if !sent {
                counters.queued_octets.fetch_sub(octets, Ordering::Relaxed);
            }
            sent
        };
        if !sent {
            counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What became of the records so far.
    pub fn counts(&self) -> TapCounts {
        let Counters { sent, dropped, .. } = &*self.inner.counters;
        TapCounts { sent: sent.load(Ordering::Relaxed), dropped: dropped.load(Ordering::Relaxed) }
    }

    /// Sends what is queued and ends the stream as the protocol wants it; a slow receiver is given two
    /// seconds. What is recorded later is dropped.
    pub fn finish(&self) {
        let (done, when_done) = sync_channel(1);
        // A full queue has no place for the end: then the receiver does not read anyway.
        if self.inner.queue.try_send(Item::Finish(done)).is_ok() {
            let _ = when_done.recv_timeout(FINISH_PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests;
