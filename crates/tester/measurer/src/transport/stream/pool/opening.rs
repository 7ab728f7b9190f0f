//! How connections begin.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::connections::Breakdown;
use rustls::pki_types::ServerName;
use sys::clock;

use super::{Security, Slot, StreamTransport};
use crate::transport::stream::connection::Connection;
use crate::transport::stream::https::HttpsLink;
use crate::transport::stream::link::{End, Link, Waiting};
use crate::transport::stream::octets::Octets;
use crate::transport::stream::quic::{QuicLink, Way};
use crate::transport::stream::tcp::TcpLink;

/// So many connections are begun at once before the first query is due: fewer than servers let wait.
const OPENING_MAX: usize = 32;
/// How long one look at them waits.
const LOOK: Duration = Duration::from_millis(5);

impl StreamTransport {
    /// The slot of the client's connection; a new one is begun if there is none.
    pub(super) fn current(&mut self, client: usize, now_ns: u64) -> Result<usize, End> {
        match self.clients[client].current {
            Some(slot) => Ok(slot),
            None => self.open(client, now_ns),
        }
    }

    /// Begins a connection.
    fn open(&mut self, client: usize, now_ns: u64) -> Result<usize, End> {
        let slot = match self.free.last() {
            Some(&slot) => slot,
            None if self.slots.len() >= self.config.connections_max => return Err(Breakdown::OwnLimit.into()),
            None => {
                self.slots.push(Slot::default());
                self.free.push(self.slots.len() - 1);
                self.slots.len() - 1
            }
        };
        let link = self.link(client, slot, now_ns)?;
        self.free.pop();
        let of_client = &mut self.clients[client];
        let number = (self.config.first_client + client) as u64;
        let queries = self.config.streams.queries_each.of(self.config.seed, number, of_client.begun);
        of_client.begun += 1;
        of_client.current = Some(slot);
        let connection = Connection::new(link, (client, of_client.next, queries), now_ns);
        self.slots[slot].connection = Some(Box::new(connection));
        self.opening += 1;
        self.set_alarm(slot);
        self.look_again(slot, now_ns);
        Ok(slot)
    }

    fn link(&mut self, client: usize, slot: usize, now_ns: u64) -> Result<Link, End> {
        let (server, source) = (self.config.server, self.source(client));
        let waiting = Waiting { poller: &self.poller, token: self.token(slot) };
        let name = self.config.streams.tls.as_ref().map(|tls| &tls.name);
        if let Security::Quic(quic) = &self.clients[client].security {
            let name = name.map_or("".into(), ServerName::to_str);
            let (timeout_ns, https) = (self.config.timeout_ns, self.config.streams.https.as_ref());
            let way = Way { server, name: &name, source, timeout_ns, https };
            let link = QuicLink::open(quic, &way, &mut self.scratch, (waiting, now_ns))?;
            return Ok(Link::Quic(Box::new(link)));
        }
        let tls = match &self.clients[client].security {
            Security::Tls(config) => name.map(|name| (config.clone(), name.clone())),
            _ => None,
        };
        let octets = Octets::open(server, source, tls, (waiting, now_ns))?;
        Ok(match &self.config.streams.https {
            None => Link::Tcp(TcpLink::new(octets)),
            Some(https) => {
                Link::Https(Box::new(HttpsLink::new(octets, https.clone(), self.config.timeout_ns)))
            }
        })
    }

    /// Where the client asks from; `None`: where the kernel chooses.
    fn source(&self, client: usize) -> Option<IpAddr> {
        let sources = &self.config.sources;
        sources
            .addresses
            .map(|_| sources.of_socket(self.config.first_client + client, self.config.server).ip())
    }

    /// Opens the connections of all clients. After the first one that fails the others are left for the
    /// queries: a server that takes no more would keep the trial from its beginning.
    pub(super) fn open_all(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut next = 0;
        loop {
            let opening = self.opening;
            let failed = self.stats.failed.values().sum::<u64>() > 0 || stop.load(Ordering::Relaxed);
            if opening == 0 && (next == self.clients.len() || failed) {
                return Ok(());
            }
            let more = if failed { 0 } else { OPENING_MAX.saturating_sub(opening) };
            let until = self.clients.len().min(next + more);
            while next < until {
                if let Err(end) = self.current(next, clock::monotonic_ns()) {
                    self.stats.note_failed(end.why, end.reason);
                }
                next += 1;
            }
            self.turn(LOOK, &mut |_, _, _| false)?;
        }
    }
}
