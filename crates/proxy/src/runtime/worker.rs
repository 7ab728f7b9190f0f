//! One thread: wait, receive, let the machine work, send.

use std::sync::Arc;
use std::time::Duration;

use net::poll::{Event, Events, Interest, Poller, Waker};
use net::udp::ReceiveBatch;

use super::ServerError;
use super::outlet::{BATCH, Outlet};
use super::sockets::ThreadSockets;
use super::tcp_clients::take_frame;
use crate::config::Config;
use crate::inflight::{Channel, Client};
use crate::machine::Machine;
use crate::stats::Stats;

/// Room for one datagram: more than any client or server sends after EDNS with 1232 octets.
const DATAGRAM_OCTETS: usize = 4096;

/// How often idle TCP connections are looked for.
const SWEEP_NS: u64 = 250_000_000;

/// What an event of the poller is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Stop,
    Listener(usize),
    Upstream { upstream: usize, socket: usize },
    TcpListener(usize),
    TcpClient(u64),
    TcpUpstream(u32),
}

impl Token {
    const KIND_SHIFT: u32 = 56;

    /// The kind in the top octet, its value below.
    pub fn encode(self) -> u64 {
        let (kind, value) = match self {
            Self::Stop => (0, 0),
            Self::Listener(index) => (1, index as u64),
            Self::Upstream { upstream, socket } => (2, (upstream as u64) << 16 | socket as u64),
            Self::TcpListener(index) => (3, index as u64),
            Self::TcpClient(number) => (4, number),
            Self::TcpUpstream(number) => (5, u64::from(number)),
        };
        kind << Self::KIND_SHIFT | value
    }

    fn decode(token: u64) -> Self {
        let value = token & ((1 << Self::KIND_SHIFT) - 1);
        match token >> Self::KIND_SHIFT {
            0 => Self::Stop,
            1 => Self::Listener(value as usize),
            2 => Self::Upstream { upstream: (value >> 16) as usize, socket: (value & 0xffff) as usize },
            3 => Self::TcpListener(value as usize),
            4 => Self::TcpClient(value),
            _ => Self::TcpUpstream(value as u32),
        }
    }
}

/// A machine and its sockets.
pub(super) struct Worker {
    machine: Machine,
    outlet: Outlet,
    from_clients: ReceiveBatch,
    from_upstreams: ReceiveBatch,
    waker: Arc<Waker>,
    swept_ns: u64,
    stopping: bool,
}

impl Worker {
    pub fn new(
        config: &Config,
        sockets: ThreadSockets,
        waker: Arc<Waker>,
        seed: [u8; 32],
    ) -> Result<Self, ServerError> {
        let poller = Poller::new().map_err(|error| ServerError::System("make an epoll instance", error))?;
        let outlet = Outlet::new(config, sockets, poller);
        let worker = Self {
            machine: Machine::new(config.settings.clone(), seed),
            outlet,
            from_clients: ReceiveBatch::new(BATCH, DATAGRAM_OCTETS),
            from_upstreams: ReceiveBatch::new(BATCH, DATAGRAM_OCTETS),
            waker,
            swept_ns: 0,
            stopping: false,
        };
        worker.watch_all().map_err(|error| ServerError::System("wait for a socket", error))?;
        Ok(worker)
    }

    fn watch_all(&self) -> std::io::Result<()> {
        let poller = &self.outlet.poller;
        poller.add(&*self.waker, Token::Stop.encode(), Interest::Read)?;
        for (index, socket) in self.outlet.listeners().enumerate() {
            poller.add(socket, Token::Listener(index).encode(), Interest::Read)?;
        }
        for (upstream, socket, source) in self.outlet.upstream_sockets() {
            poller.add(source, Token::Upstream { upstream, socket }.encode(), Interest::Read)?;
        }
        for (index, listener) in self.outlet.tcp_clients.listeners().enumerate() {
            poller.add(listener, Token::TcpListener(index).encode(), Interest::Read)?;
        }
        Ok(())
    }

    /// Works until it is told to stop.
    pub fn run(mut self) -> Result<Stats, ServerError> {
        let mut events = Events::with_capacity(BATCH);
        while !self.stopping {
            let timeout = self.time_to_wait();
            self.outlet
                .poller
                .wait(&mut events, timeout)
                .map_err(|error| ServerError::System("wait for events", error))?;
            self.outlet.now_ns = net::clock::monotonic_ns();
            self.machine.begin_batch();
            for event in events.iter() {
                self.handle(event);
            }
            self.machine.handle_timeout(self.outlet.now_ns, &mut self.outlet);
            self.finish_round();
        }
        Ok(*self.machine.stats())
    }

    fn time_to_wait(&self) -> Option<Duration> {
        let now_ns = net::clock::monotonic_ns();
        let idle = self.outlet.tcp_clients.is_idle() && self.outlet.tcp_upstreams.is_empty();
        let sweep = (!idle).then_some(self.swept_ns + SWEEP_NS);
        let next = self.machine.poll_timeout().into_iter().chain(sweep).min()?;
        Some(Duration::from_nanos(next.saturating_sub(now_ns)))
    }

    fn handle(&mut self, event: Event) {
        match Token::decode(event.token) {
            Token::Stop => self.stopping = true,
            Token::Listener(index) => self.receive_from_clients(index),
            Token::Upstream { upstream, socket } => {
                self.receive_from_upstream(upstream, socket, event.closed);
            }
            Token::TcpListener(index) => {
                self.outlet.tcp_clients.accept(&self.outlet.poller, index, self.outlet.now_ns);
            }
            Token::TcpClient(number) => self.tcp_client_ready(number, event),
            Token::TcpUpstream(number) => {
                if let Some(ended) = self.outlet.tcp_upstreams.ready(&self.outlet.poller, number, event) {
                    let now_ns = self.outlet.now_ns;
                    self.machine.handle_upstream_tcp(now_ns, ended.token, ended.message(), &mut self.outlet);
                }
            }
        }
    }

    fn receive_from_clients(&mut self, socket: usize) {
        let Some(listener) = self.outlet.listener(socket) else { return };
        // A receive error concerns this call alone; what waits is reported again.
        let _ = self.from_clients.receive(listener);
        for datagram in self.from_clients.iter() {
            let channel = Channel::Udp { socket, local: datagram.local };
            let client = Client { address: datagram.from, channel };
            self.machine.handle_client(self.outlet.now_ns, client, datagram.octets, &mut self.outlet);
        }
    }

    fn receive_from_upstream(&mut self, upstream: usize, socket: usize, failed: bool) {
        let now_ns = self.outlet.now_ns;
        let Some(source) = self.outlet.upstream_socket(upstream, socket) else { return };
        if failed && matches!(source.take_error(), Ok(Some(_))) {
            self.outlet.refused.push((upstream, socket));
            return;
        }
        let _ = self.from_upstreams.receive(source);
        for datagram in self.from_upstreams.iter() {
            self.machine.handle_upstream(now_ns, upstream, socket, datagram.octets, &mut self.outlet);
        }
    }

    fn tcp_client_ready(&mut self, number: u64, event: Event) {
        if event.writable {
            self.outlet.tcp_clients.writable(number);
        }
        if !event.readable && event.closed {
            return self.outlet.tcp_clients.failed(number);
        }
        if !event.readable {
            return;
        }
        let Some((address, input)) = self.outlet.tcp_clients.read(number) else { return };
        let client = Client { address, channel: Channel::Tcp { connection: number } };
        let (mut used, now_ns) = (0, self.outlet.now_ns);
        while let Some(message) = take_frame(&input[used..]) {
            self.outlet.tcp_clients.expect_answer(number, now_ns);
            self.machine.handle_client(now_ns, client, message, &mut self.outlet);
            used += 2 + message.len();
        }
        self.outlet.tcp_clients.keep(number, input, used);
    }

    /// Sends everything. Failures that show up on the way may make the machine send more.
    fn finish_round(&mut self) {
        let now_ns = self.outlet.now_ns;
        self.outlet.flush();
        while let Some((upstream, socket)) = self.outlet.refused.pop() {
            self.machine.handle_upstream_unreachable(now_ns, upstream, socket, &mut self.outlet);
        }
        while let Some(token) = self.outlet.tcp_upstreams.take_failed() {
            self.machine.handle_upstream_tcp(now_ns, token, None, &mut self.outlet);
        }
        self.outlet.flush();
        if now_ns >= self.swept_ns + SWEEP_NS {
            self.swept_ns = now_ns;
            self.outlet.tcp_clients.sweep(&self.outlet.poller, now_ns);
            self.outlet.tcp_upstreams.sweep(now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back() {
        for token in [
            Token::Stop,
            Token::Listener(3),
            Token::Upstream { upstream: 5, socket: 1023 },
            Token::TcpListener(1),
            Token::TcpClient((1 << 56) - 1),
            Token::TcpUpstream(u32::MAX),
        ] {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
