//! The rings of one thread, and how queries of clients come out of them and answers go in.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::bypass::{Arrivals, Arrived, BypassRing, BypassTable};
use server_core::answer::QUERY_OCTETS_MAX;
use server_core::client::{Channel, Client};
use server_core::stats::Stats;
use sys::frame::Template;
use sys::poll::{Interest, Poller};

use super::counts::{Counts, add};
use super::is_of;
use super::repeating::{Given, Repeating};
use crate::runtime::outlet::ClientSide;
use crate::runtime::token::Token;

/// The longest answer over UDP that the configuration allows.
const ANSWER_OCTETS_MAX: usize = 4096;

#[derive(Default)]
pub(in crate::runtime) struct Rings {
    list: Vec<BypassRing>,
    /// The addresses of the thread's listening sockets, with their numbers; wildcards last.
    listeners: Vec<(SocketAddr, usize)>,
    /// Where answers are written before it is known how long they are.
    answer: Vec<u8>,
    /// How long the answer there is; 0 if there is none since the last [`Rings::epoch`].
    answered_octets: usize,
    repeating: Repeating,
    counts: Arc<Counts>,
}

impl Rings {
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Whose these are, and what the programs of all devices share with them.
    pub fn own(&mut self, worker: usize, tables: Vec<Arc<BypassTable>>) {
        self.repeating = Repeating::new(worker, tables);
    }

    pub fn push(&mut self, ring: BypassRing) {
        self.answer.resize(ANSWER_OCTETS_MAX, 0);
        self.list.push(ring);
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Has the poller report them.
    pub fn watch(&self, poller: &Poller) -> io::Result<()> {
        for (number, ring) in self.list.iter().enumerate() {
            poller.add(ring, Token::Ring(number).encode(), Interest::Read)?;
        }
        Ok(())
    }

    /// The listening sockets are these from now on.
    pub fn know(&mut self, clients: &ClientSide) {
        if self.list.is_empty() {
            return;
        }
        let sockets = clients.sockets();
        self.listeners =
            sockets.filter_map(|(number, socket)| Some((socket.local_addr().ok()?, number))).collect();
        self.listeners.sort_by_key(|(address, _)| address.ip().is_unspecified());
    }

    /// Takes some of what has come to a ring; nothing if there is no such ring.
    pub fn receive(&mut self, number: usize, into: &mut Arrivals) {
        let Some(ring) = self.list.get_mut(number) else { return };
        let damaged = into.damaged();
        let frames = ring.receive(into);
        add(&self.counts.received, frames as u64);
        add(&self.counts.damaged, into.damaged() - damaged);
    }

    /// Whom a datagram of a ring is from, where it is for one of the listeners.
    pub fn client(&self, number: usize, arrived: &Arrived<'_>, clients: &ClientSide) -> Option<Client> {
        let to = arrived.destination;
        let takes = |known: SocketAddr| {
            known == to
                || known.ip().is_unspecified() && known.port() == to.port() && known.is_ipv4() == to.is_ipv4()
        };
        let &(_, socket) = self.listeners.iter().find(|(known, _)| takes(*known))?;
        let (_, listener) = clients.get(socket)?;
        let channel = Channel::Frame {
            socket: u32::try_from(socket).ok()?,
            local: to.ip(),
            ring: u16::try_from(number).ok()?,
            mac: arrived.mac,
        };
        Some(Client { address: arrived.source, listener, channel })
    }

    /// Sends an answer the way its query came, or by the listening socket.
    pub fn answer(
        &mut self,
        client: &Client,
        clients: &mut ClientSide,
        write: impl FnOnce(&mut [u8]) -> usize,
    ) {
        let octets = write(&mut self.answer);
        self.answered_octets = octets;
        if octets == 0 || self.try_answer(client, octets) {
            return;
        }
        add(&self.counts.by_socket, 1);
        let answer = &self.answer[..octets];
        clients.push(client, |buffer| {
            // Both are as long as the configuration allows; a reload may have changed that.
            let Some(buffer) = buffer.get_mut(..octets) else { return 0 };
            buffer.copy_from_slice(answer);
            octets
        });
    }

    fn try_answer(&mut self, client: &Client, octets: usize) -> bool {
        let Channel::Frame { socket, local, ring, mac } = client.channel else { return false };
        let listener = self.listeners.iter().find(|(_, number)| *number == socket as usize);
        let (Some(&(listener, _)), Some(ring)) = (listener, self.list.get_mut(usize::from(ring))) else {
            return false;
        };
        let source = SocketAddr::new(local, listener.port());
        let Some(template) = ring.template(mac, source, client.address) else { return false };
        if !ring.holds(&template, octets) || !ring.has_room() {
            return false;
        }
        let answer = &self.answer[..octets];
        let sent = ring.send(&template, octets, |payload| {
            payload.copy_from_slice(answer);
            octets
        });
        add(&self.counts.sent, sent.into());
        sent
    }

    /// Which answers a ring's program repeats, to be asked before a query is answered; 0 if none of this
    /// generation.
    pub fn epoch(&mut self, number: usize, generation: u64) -> u64 {
        self.answered_octets = 0;
        let epoch = self.list.get(number).map_or(0, BypassRing::epoch);
        if is_of(epoch, generation) { epoch } else { 0 }
    }

    /// Has a ring's program repeat the answer that was written last, if that may be.
    pub fn offer(&mut self, number: usize, now_ns: u64, given: &Given<'_>) {
        let answer = &self.answer[..self.answered_octets];
        if let Some(ring) = self.list.get(number)
            && !answer.is_empty()
        {
            self.repeating.offer(ring, now_ns, given, answer);
        }
    }

    /// What the programs' answers count for.
    pub fn repeated(&self) -> Stats {
        self.repeating.stats()
    }

    /// Until when the programs may give answers without being seen.
    pub fn repeats_until_ns(&self) -> u64 {
        self.repeating.until_ns
    }

    /// The number of the device that a ring is at.
    pub fn device(&self, number: usize) -> Option<u32> {
        self.list.get(number).map(BypassRing::device)
    }

    /// The ring of a device, by its number; one is as good as another to send by.
    pub fn on_device(&self, device: u32) -> Option<(usize, &BypassRing)> {
        self.list.iter().enumerate().find(|(_, ring)| ring.device() == device)
    }

    /// Whether a query can be put in line at a ring.
    pub fn has_room(&mut self, number: usize) -> bool {
        self.list.get_mut(number).is_some_and(BypassRing::has_room)
    }

    /// Puts a query in line at a ring that has room.
    pub fn query(&mut self, number: usize, template: &Template, write: impl FnOnce(&mut [u8]) -> usize) {
        let sent = self.list.get_mut(number).is_some_and(|ring| ring.send(template, QUERY_OCTETS_MAX, write));
        add(&self.counts.sent, sent.into());
    }

    /// Sends everything that waits, as far as the devices take it.
    pub fn flush(&mut self) {
        for ring in self.list.iter_mut().filter(|ring| ring.has_pending()) {
            // A device that is down takes nothing; what waits leaves when it is up again.
            let _ = ring.flush();
            add(&self.counts.refused, ring.take_refused() as u64);
        }
    }

    /// Whether something waits that the devices did not take.
    pub fn has_pending(&self) -> bool {
        self.list.iter().any(BypassRing::has_pending)
    }

    /// Lets others see what the kernel counted.
    pub fn publish(&self) {
        let dropped = self.list.iter().map(BypassRing::drops).sum();
        self.counts.dropped.store(dropped, Ordering::Relaxed);
        self.counts.repeated.store(self.repeating.given(), Ordering::Relaxed);
    }
}
