//! A machine with its sockets towards the upstream servers. After a reload, the generation before answers the
//! queries that it has taken.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use server_core::machine::Machine;
use server_core::settings::Settings;
use sys::poll::{Interest, Poller};

use super::bypass::{Queries, Rings};
use super::judging::ValidationHandle;
use super::observer::Observer;
use super::outlet::{ClientSide, Outlet, StreamSide, UpstreamSide};
use super::token::Token;
use super::worker::NextGeneration;

/// Where all generations of one thread send to.
pub(super) struct Senders {
    pub clients: ClientSide,
    pub rings: Rings,
    pub streams: StreamSide,
    pub observer: Observer,
}

/// A machine and its sockets.
pub(super) struct Generation {
    pub number: u64,
    pub machine: Machine,
    // Dropped before the sockets: their ports are free for others then.
    pub queries: Queries,
    pub upstreams: UpstreamSide,
    settings: Arc<Settings>,
    judge: Option<ValidationHandle>,
    upstream_addresses: Vec<SocketAddr>,
    /// When it ends at the latest, once it has a successor.
    pub end_ns: u64,
}

impl Generation {
    pub fn new(adoption: &mut NextGeneration) -> Self {
        let settings = adoption.settings.clone();
        let mut machine = Machine::new(settings.clone(), adoption.shared.clone(), adoption.seed);
        let (unix_ns, monotonic_ns) = (sys::clock::realtime_ns(), sys::clock::monotonic_ns());
        machine.set_unix_zero_s(unix_ns.saturating_sub(monotonic_ns) / 1_000_000_000);
        Self {
            number: adoption.generation,
            machine,
            upstreams: UpstreamSide::new(std::mem::take(&mut adoption.upstreams), adoption.exchange.take()),
            queries: std::mem::take(&mut adoption.queries),
            settings,
            judge: adoption.judge.take(),
            upstream_addresses: std::mem::take(&mut adoption.upstream_addresses),
            end_ns: u64::MAX,
        }
    }

    /// Puts a new socket in the place of one that was used for its burst, for each server. One in a round: a
    /// worker that has little to do has a round for each query, and one that has much to do has less time.
    pub fn renew_sockets(&mut self, poller: &Poller, rings: &Rings, now_ns: u64) {
        for upstream in 0..self.upstreams.len() {
            if self.upstreams.has_fresh(upstream)
                && let Some(socket) = self.machine.drained_socket(now_ns, upstream)
                && let Some(fresh) = self.upstreams.take_fresh(upstream)
            {
                let token = Token::Upstream { generation: self.number as u8, upstream, socket };
                // Without it in the poller its answers would wait in vain; the used one goes on then.
                if poller.add(&fresh.socket, token.encode(), Interest::Read).is_ok() {
                    self.queries.replace(upstream, socket, fresh.address, rings);
                    self.upstreams.replace(upstream, socket, fresh, poller);
                }
                self.machine.socket_renewed(upstream, socket);
            }
        }
        self.upstreams.trade(now_ns);
    }

    /// Lets the machine work, with a way out.
    pub fn with<R>(
        &mut self,
        ways: &mut Senders,
        work: impl FnOnce(&mut Machine, &mut Outlet<'_>) -> R,
    ) -> R {
        let mut outlet = Outlet {
            clients: &mut ways.clients,
            upstreams: &mut self.upstreams,
            rings: &mut ways.rings,
            queries: &mut self.queries,
            streams: &mut ways.streams,
            observer: &ways.observer,
            upstream_addresses: &self.upstream_addresses,
            judge: self.judge.as_ref(),
            generation: self.number,
            timeout: Duration::from_nanos(self.settings.asking.timeout_ns),
        };
        work(&mut self.machine, &mut outlet)
    }

    /// The address of an upstream server.
    pub fn upstream_address(&self, upstream: usize) -> Option<&SocketAddr> {
        self.upstream_addresses.get(upstream)
    }

    /// It has a successor: it takes no more clients, and ends when those it has are answered.
    pub fn retire(&mut self, now_ns: u64) {
        self.end_ns = now_ns + 2 * self.settings.asking.deadline_ns;
    }

    /// Whether nobody waits for it any more.
    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.end_ns || self.machine.waiting() == 0
    }
}
