//! One client's connection, as all protocols see it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, watch};

use super::budget::Charge;
use super::guests::ClientConnection;
use super::pending::{PendingAnswer, Reply};
use super::room::Context;
use super::usage::Usage;
use crate::counts::ClientCells;
use crate::message::QUERY_OCTETS_MAX;
use crate::{Limits, Protocol, Query, lock};

/// Octets of answers that wait for one client to take them. What comes on top is not sent.
pub(super) const OUTPUT_MAX_OCTETS: usize = 512 << 10;

/// What a query takes up beside its octets, at most: its task, and its places in maps and lists.
const QUERY_EXTRA_OCTETS: usize = 1 << 10;

/// A listener, as its connections see it. The owner may renumber it while they run.
#[derive(Debug)]
pub(super) struct ListenerState {
    pub protocol: Protocol,
    number: AtomicUsize,
    path: Mutex<Arc<str>>,
}

impl ListenerState {
    pub fn new(protocol: Protocol, number: usize, path: &str) -> Self {
        Self { protocol, number: AtomicUsize::new(number), path: Mutex::new(path.into()) }
    }

    /// Takes the number and the path of `other`.
    pub fn renew_from(&self, other: &Self) {
        self.number.store(other.number.load(Ordering::Relaxed), Ordering::Relaxed);
        *lock(&self.path) = other.path();
    }

    pub fn path(&self) -> Arc<str> {
        lock(&self.path).clone()
    }
}

/// What a connection carries with it. The client's place among the guests is free again when it is dropped.
pub(super) struct Session {
    pub room: Arc<Context>,
    pub place: Arc<ListenerState>,
    pub client: SocketAddr,
    pub limits: Limits,
    /// Shared with the pool of the connection.
    pub usage: Arc<Usage>,
    /// Becomes true when the listener is removed: idle connections end then.
    retired: watch::Receiver<bool>,
    _guest: ClientConnection,
}

impl Session {
    /// Admits a client that has come to `place`.
    pub fn admit(
        room: &Arc<Context>,
        place: &Arc<ListenerState>,
        client: SocketAddr,
        retired: &watch::Receiver<bool>,
    ) -> Option<Self> {
        let guest = ClientConnection::admit(room, place.protocol, client.ip())?;
        let limits = room.guests.limits();
        Some(Self {
            room: room.clone(),
            place: place.clone(),
            client,
            limits,
            usage: guest.usage.clone(),
            retired: retired.clone(),
            _guest: guest,
        })
    }

    pub fn cells(&self) -> &ClientCells {
        self.room.tally.of(self.place.protocol)
    }

    /// Gives a query to the owner.
    pub fn offer(&self, octets: Vec<u8>, reply: Reply, permit: OwnedSemaphorePermit) {
        self.cells().queries.add();
        self.usage.touch(self.room.guests.now_us());
        let charge = self.charge(octets.len() + QUERY_EXTRA_OCTETS);
        let token = self.room.pending.begin(reply, permit, charge);
        (self.room.on_query)(Query {
            token,
            listener: self.place.number.load(Ordering::Relaxed),
            protocol: self.place.protocol,
            client: self.client,
            octets,
        });
    }

    /// Counts octets of this connection among those that wait.
    pub fn charge(&self, octets: usize) -> Charge {
        let charge = Charge::new(&self.room.guests.budget, &self.usage, octets);
        self.room.relieve();
        charge
    }

    /// The answer, unless too many wait for the client: for protocols whose libraries do the waiting.
    pub fn unless_too_many(&self, answer: PendingAnswer) -> Option<PendingAnswer> {
        let queries_octets = self.usage.in_progress() * (QUERY_OCTETS_MAX + QUERY_EXTRA_OCTETS);
        let max_octets = (OUTPUT_MAX_OCTETS + queries_octets) as u64;
        (self.usage.waiting_octets() <= max_octets).then_some(answer)
    }

    /// Waits until the listener is removed.
    pub async fn retired(&self) {
        // The sender goes only when the listener does.
        let _ = self.retired.clone().wait_for(|&retired| retired).await;
    }

    pub fn is_retired(&self) -> bool {
        *self.retired.borrow() || self.retired.has_changed().is_err()
    }
}
