//! Which clients may hold a connection, and how many connections.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use tokio::time::Instant;

use super::budget::Budget;
use super::pool::Pool;
use super::room::Context;
use super::usage::Usage;
use crate::gate::OpenGate;
use crate::{Gate, Limits, Protocol, lock};

/// The longest time limit.
const DAY: Duration = Duration::from_secs(86_400);

/// All connections of clients. Those in the clear and those that are encrypted have pools of their own, so
/// that neither kind can take the places of the other.
pub(crate) struct ClientConnections {
    limits: Mutex<Limits>,
    gate: Mutex<Arc<dyn Gate>>,
    plain: Mutex<Pool>,
    encrypted: Mutex<Pool>,
    /// What waits for all of them.
    pub budget: Arc<Budget>,
    /// One thread at a time ends connections for what waits.
    relief: Mutex<()>,
    next_number: AtomicU64,
    /// Zero of the pools' clock.
    began: Instant,
}

/// One admitted connection. Dropping it makes room for another.
pub(crate) struct ClientConnection {
    room: Arc<Context>,
    number: u64,
    pub(super) usage: Arc<Usage>,
}

impl ClientConnections {
    pub fn new() -> Self {
        Self {
            limits: Mutex::default(),
            gate: Mutex::new(Arc::new(OpenGate)),
            plain: Mutex::default(),
            encrypted: Mutex::default(),
            budget: Arc::default(),
            relief: Mutex::default(),
            next_number: AtomicU64::new(0),
            began: Instant::now(),
        }
    }

    pub fn limits(&self) -> Limits {
        *lock(&self.limits)
    }

    /// Times are cut to a day, which nobody can tell from more, so that no sum of times overflows.
    pub fn set_limits(&self, limits: Limits) {
        let (idle, message_timeout) = (limits.idle.min(DAY), limits.message_timeout.min(DAY));
        *lock(&self.limits) = Limits { idle, message_timeout, ..limits };
        self.budget.set_limits(&limits);
    }

    pub fn gate(&self) -> Arc<dyn Gate> {
        lock(&self.gate).clone()
    }

    pub fn set_gate(&self, gate: Arc<dyn Gate>) {
        *lock(&self.gate) = gate;
    }

    /// Microseconds on the pools' clock.
    pub fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// Whether more than half of what `client` can have is taken: then QUIC clients have to prove their
    /// address first, lest forged ones use up the connections of others.
    pub fn is_crowded(&self, client: IpAddr) -> bool {
        lock(&self.encrypted).is_crowded(&self.limits(), client)
    }

    /// Takes out the connection that the most octets wait for, of the network that the most wait for.
    fn leave_heaviest(&self) -> Option<Arc<Usage>> {
        let pools = [&self.plain, &self.encrypted];
        let heaviest = pools.map(|pool| lock(pool).heaviest()).into_iter().zip(pools);
        let heaviest = heaviest.filter_map(|(heaviest, pool)| Some((heaviest?, pool)));
        let ((_, number), pool) = heaviest.max_by_key(|((octets, _), _)| *octets)?;
        lock(pool).leave(number)
    }

    fn pool(&self, protocol: Protocol) -> &Mutex<Pool> {
        if protocol.is_encrypted() { &self.encrypted } else { &self.plain }
    }
}

impl Context {
    /// Ends the connections that are idle for too long in a pool that is more than half full.
    pub fn end_idle_clients(&self) {
        let (limits, now_us) = (self.guests.limits(), self.guests.now_us());
        for pool in [&self.guests.plain, &self.guests.encrypted] {
            let idle = lock(pool).leave_idle(&limits, now_us);
            idle.iter().for_each(|usage| self.evict(usage));
        }
    }

    /// Ends connections until no more octets of queries and answers wait than may.
    pub fn relieve(&self) {
        // Whoever is at it already goes on until it is enough.
        let _relief = match self.guests.relief.try_lock() {
            Ok(relief) => relief,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        while self.guests.budget.is_exceeded() {
            let Some(usage) = self.guests.leave_heaviest() else { return };
            self.evict(&usage);
        }
    }

    fn evict(&self, usage: &Usage) {
        self.tally.of(usage.protocol).evicted.add();
        self.guests.budget.forget(usage.cut());
    }
}

impl ClientConnection {
    /// Admits a connection that the gate lets in, and ends another for it if need be; or counts it as
    /// refused.
    pub fn admit(room: &Arc<Context>, protocol: Protocol, client: IpAddr) -> Option<Self> {
        let (guests, cells) = (&room.guests, room.tally.of(protocol));
        let limits = guests.limits();
        let number = guests.next_number.fetch_add(1, Ordering::Relaxed);
        let usage = Usage::new(protocol, &limits, guests.now_us());
        let entered = lock(guests.pool(protocol)).enter(&limits, number, client, usage.clone());
        let Ok(gone) = entered else {
            cells.refused.add();
            return None;
        };
        gone.iter().for_each(|gone| room.evict(gone));
        cells.accepted.add();
        cells.open.add();
        Some(Self { room: room.clone(), number, usage })
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        let protocol = self.usage.protocol;
        self.room.tally.of(protocol).open.subtract();
        lock(self.room.guests.pool(protocol)).leave(self.number);
    }
}
