//! Frames that a worker receives by AF_XDP.

use crate::bypass::{Arrivals, Arrived};

use super::Worker;
use crate::dnstap::Kind;
use crate::runtime::bypass::Given;

impl Worker {
    /// Takes some of what has come to a ring.
    pub(super) fn receive_from_ring(&mut self, number: usize) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.ways.rings.receive(number, &mut arrivals);
        for arrived in arrivals.iter() {
            if self.take_frame(number, &arrived) {
                continue;
            }
            // It may be for a listener of which the word is waiting in the inbox.
            self.open_inbox();
            self.take_frame(number, &arrived);
        }
        self.arrivals = arrivals;
    }

    /// Takes everything that has come to the rings, before listeners close.
    pub(super) fn drain_rings(&mut self) {
        for number in 0..self.ways.rings.len() {
            let mut arrivals = Arrivals::default();
            self.ways.rings.receive(number, &mut arrivals);
            for arrived in arrivals.iter() {
                self.take_frame(number, &arrived);
            }
        }
    }

    /// Whether somebody waits for this datagram, who has it then.
    fn take_frame(&mut self, number: usize, arrived: &Arrived<'_>) -> bool {
        let Some(client) = self.ways.rings.client(number, arrived, &self.ways.clients) else {
            return self.take_answer(number, arrived);
        };
        self.ways.observer.client_query(&client, arrived.octets);
        let epoch = self.ways.rings.epoch(number, self.current.number);
        let before = *self.current.machine.stats();
        self.current.with(&mut self.ways, |machine, out| {
            machine.handle_client(self.now_ns, client, arrived.octets, out);
        });
        if epoch != 0 {
            let machine = &self.current.machine;
            let (counted, until_ns) = (machine.stats().since(&before), machine.recalled_until_ns());
            let given = Given { query: arrived.octets, epoch, counted, until_ns };
            self.ways.rings.offer(number, self.now_ns, &given);
        }
        true
    }

    fn take_answer(&mut self, number: usize, arrived: &Arrived<'_>) -> bool {
        let Some(device) = self.ways.rings.device(number) else { return false };
        let mut generations = std::iter::once(&mut self.current).chain(&mut self.retiring);
        let asked =
            generations.find_map(|generation| Some((generation.queries.find(device, arrived)?, generation)));
        let Some(((upstream, socket), generation)) = asked else { return false };
        let address = Some(&arrived.source);
        self.ways.observer.upstream(address, false, Kind::ForwarderResponse, arrived.octets);
        generation.with(&mut self.ways, |machine, out| {
            machine.handle_upstream(self.now_ns, upstream, socket, arrived.octets, out);
        });
        true
    }
}
