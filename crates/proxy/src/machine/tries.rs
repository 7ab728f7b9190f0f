//! The tries of a query: sending, and what follows when there is no usable answer.

use dns64::rule::{self, Step};

use super::{Machine, Output};
use crate::answer::{self, QUERY_OCTETS_MAX};
use crate::inflight::{Query, Stage, Way};

impl Machine {
    pub(super) fn ids_index(&self, upstream: usize, socket: usize) -> usize {
        upstream * self.settings.ports + socket
    }

    /// Frees the ID of the current try.
    pub(super) fn end_try(&mut self, slot: u16) {
        let Some(query) = self.inflight.get_mut(slot) else { return };
        if let Way::Udp { socket } = std::mem::replace(&mut query.way, Way::Tcp) {
            let (upstream, id) = (query.upstream, query.id);
            let index = self.ids_index(upstream, socket);
            self.ids[index].release(id);
        }
    }

    /// Starts a try of the current stage with the server that the query names.
    pub(super) fn send(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        let Some(query) = self.inflight.get_mut(slot) else { return };
        query.tries_left = query.tries_left.saturating_sub(1);
        query.mismatches = 0;
        if self.settings.tcp_only {
            return self.send_tcp(now_ns, slot, out);
        }
        let upstream = query.upstream;
        let socket = self.upstreams.socket(upstream);
        let index = self.ids_index(upstream, socket);
        // A socket with half of all IDs in flight takes no more; its server is as good as lost.
        let Some(id) = self.ids[index].take(slot, &mut self.random) else { return self.fail(slot, out) };
        let Some(query) = self.inflight.get_mut(slot) else { return };
        query.id = id;
        query.way = Way::Udp { socket };
        if self.settings.case_randomization {
            query.case_bits = self.random.bits();
        }
        let (query, settings) = (&*query, &self.settings);
        let question = query.upstream_question();
        out.to_upstream(upstream, socket, |buffer| {
            answer::write_upstream_query(settings, query, &question, id, buffer)
        });
        self.stats.upstream_queries += 1;
        self.inflight.restart(slot, now_ns + self.settings.timeout_ns);
    }

    /// Asks the same server again over TCP. This is no new try: the server did answer, and TCP never leads back here.
    pub(super) fn send_tcp(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        let Some(query) = self.inflight.get_mut(slot) else { return };
        query.id = self.random.word();
        query.way = Way::Tcp;
        let upstream = query.upstream;
        let question = query.upstream_question();
        let mut buffer = [0; QUERY_OCTETS_MAX];
        let length = answer::write_upstream_query(&self.settings, query, &question, query.id, &mut buffer);
        self.inflight.restart(slot, now_ns + self.settings.timeout_ns);
        self.stats.upstream_tcp_queries += 1;
        out.to_upstream_tcp(self.inflight.token(slot), upstream, &buffer[..length]);
    }

    /// Goes on after a try without a usable answer: another try, the next stage or the end.
    pub(super) fn retry(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        if self.may_try_again(now_ns, slot) {
            return self.try_next_server(now_ns, slot, out);
        }
        let Some(query) = self.inflight.get(slot) else { return };
        let next = match query.stage {
            Stage::Aaaa => rule::next_step(&self.settings.rule, &query.asked, None),
            _ => Step::Fail,
        };
        match next {
            Step::AskA { ttl_cap_s } if self.in_time(now_ns, query) => {
                self.ask_a(now_ns, slot, ttl_cap_s, out);
            }
            _ => self.fail(slot, out),
        }
    }

    pub(super) fn may_try_again(&self, now_ns: u64, slot: u16) -> bool {
        self.inflight.get(slot).is_some_and(|query| query.tries_left > 0 && self.in_time(now_ns, query))
    }

    pub(super) fn in_time(&self, now_ns: u64, query: &Query) -> bool {
        now_ns + self.settings.timeout_ns <= query.deadline_ns
    }

    pub(super) fn try_next_server(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        let Some(query) = self.inflight.get_mut(slot) else { return };
        query.upstream = self.upstreams.after(query.upstream, now_ns);
        self.stats.retries += 1;
        self.send(now_ns, slot, out);
    }

    pub(super) fn ask_a(&mut self, now_ns: u64, slot: u16, ttl_cap_s: u32, out: &mut impl Output) {
        let Some(query) = self.inflight.get_mut(slot) else { return };
        query.stage = Stage::A { ttl_cap_s };
        query.tries_left = self.settings.tries;
        self.send(now_ns, slot, out);
    }
}
