//! The tries of a lookup: sending, and what follows when there is no usable answer.

use super::{Machine, Notice, Output};
use crate::answer::{QUERY_OCTETS_MAX, write_query};
use crate::ede::code;
use crate::inflight::{Lookup, Way};
use crate::upstreams::PAUSE_NS;

/// The longest value of a COOKIE option (RFC 7873 4).
const COOKIE_OCTETS_MAX: usize = 40;

impl Machine {
    /// The number of an upstream server's socket among all of the machine.
    pub(super) fn socket_number(&self, upstream: usize, socket: usize) -> usize {
        upstream * self.settings.asking.ports + socket
    }

    /// Frees the ID of the current try.
    pub(super) fn end_try(&mut self, slot: u16) {
        let Some(lookup) = self.lookups.get_mut(slot) else { return };
        let (upstream, id) = (lookup.upstream, lookup.id);
        match std::mem::replace(&mut lookup.way, Way::None) {
            Way::None => return,
            Way::Stream => {}
            Way::Udp { socket } => self.ids.release(self.socket_number(upstream, socket), id),
        }
        self.upstreams.ended(upstream);
    }

    /// Starts a try with the server that the lookup names.
    pub(super) fn try_once(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        let Some(lookup) = self.lookups.get_mut(slot) else { return };
        lookup.tries_left = lookup.tries_left.saturating_sub(1);
        lookup.mismatches = 0;
        let upstream = lookup.upstream;
        if self.settings.upstreams[upstream].stream_only {
            return self.try_stream(now_ns, slot, out);
        }
        let socket = self.upstreams.socket(upstream, now_ns, &mut self.random);
        let number = self.socket_number(upstream, socket);
        let Some(id) = self.ids.take(number, slot, &mut self.random) else {
            return self.fail_lookup(now_ns, slot, code::OTHER, out);
        };
        let Some(lookup) = self.lookups.get_mut(slot) else { return };
        (lookup.id, lookup.way, lookup.sent_ns) = (id, Way::Udp { socket }, now_ns);
        if self.settings.asking.case_randomization {
            lookup.case_bits = self.random.bits();
        }
        let trust_ad = self.settings.upstreams[upstream].trust_ad;
        let mut cookie = [0; COOKIE_OCTETS_MAX];
        let cookie = self.cookie_for(upstream, &mut cookie);
        let Some(lookup) = self.lookups.get(slot) else { return };
        out.to_upstream(upstream, socket, |buffer| write_query(lookup, trust_ad, cookie, buffer));
        self.upstreams.sent(upstream);
        self.stats.upstream_queries += 1;
        self.lookups.restart(slot, now_ns + self.settings.asking.timeout_ns);
    }

    /// Asks the server of a lookup over a stream. After an answer over UDP this is no new try.
    pub(super) fn try_stream(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        let id = self.random.word();
        let Some(lookup) = self.lookups.get_mut(slot) else { return };
        (lookup.id, lookup.way, lookup.sent_ns) = (id, Way::Stream, now_ns);
        let upstream = lookup.upstream;
        let mut buffer = [0; QUERY_OCTETS_MAX];
        let mut cookie = [0; COOKIE_OCTETS_MAX];
        let cookie = self.cookie_for(upstream, &mut cookie);
        let Some(lookup) = self.lookups.get(slot) else { return };
        let length = write_query(lookup, self.settings.upstreams[upstream].trust_ad, cookie, &mut buffer);
        self.lookups.restart(slot, now_ns + self.settings.asking.timeout_ns);
        self.upstreams.sent(upstream);
        self.stats.upstream_stream_queries += 1;
        out.to_upstream_stream(upstream, self.lookups.token(slot), &buffer[..length]);
    }

    fn cookie_for<'c>(&self, upstream: usize, space: &'c mut [u8; COOKIE_OCTETS_MAX]) -> &'c [u8] {
        if !self.sends_cookies(upstream) {
            return &[];
        }
        let length = self.upstream_cookies.write(upstream, space);
        &space[..length]
    }

    /// Whether a server gets cookies: where only streams are used, nobody can forge an answer that does not see the
    /// question. After an answer over UDP the stream tells what cookies the server has.
    pub(super) fn sends_cookies(&self, upstream: usize) -> bool {
        self.settings.asking.cookies && !self.settings.upstreams[upstream].stream_only
    }

    /// Goes on after a try without a usable answer: another try, or the end.
    pub(super) fn retry(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        if self.may_try_again(now_ns, slot) {
            self.try_next_server(now_ns, slot, out);
        } else {
            self.fail_lookup(now_ns, slot, code::NO_REACHABLE_AUTHORITY, out);
        }
    }

    pub(super) fn may_try_again(&self, now_ns: u64, slot: u16) -> bool {
        let may = |lookup: &Lookup| lookup.tries_left > 0 && self.in_time(now_ns, lookup.deadline_ns);
        self.lookups.get(slot).is_some_and(may)
    }

    /// Whether a try that starts now ends before the deadline.
    pub(super) fn in_time(&self, now_ns: u64, deadline_ns: u64) -> bool {
        now_ns + self.settings.asking.timeout_ns <= deadline_ns
    }

    pub(super) fn try_next_server(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        let Some(lookup) = self.lookups.get_mut(slot) else { return };
        let Some(next) = self.upstreams.after(lookup.group, lookup.upstream, now_ns) else {
            return self.fail_lookup(now_ns, slot, code::NO_REACHABLE_AUTHORITY, out);
        };
        lookup.upstream = next;
        self.stats.retries += 1;
        self.try_once(now_ns, slot, out);
    }

    /// Ends the tries whose time is over.
    pub(super) fn end_tries(&mut self, now_ns: u64, out: &mut impl Output) {
        while let Some((slot, _)) = self.lookups.first_due().filter(|&(_, due_ns)| due_ns <= now_ns) {
            self.stats.timeouts += 1;
            self.note_silence(now_ns, slot, out);
            self.end_try(slot);
            self.retry(now_ns, slot, out);
        }
    }

    /// The server of a lookup did not answer the current try.
    pub(super) fn note_silence(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        let Some(lookup) = self.lookups.get(slot) else { return };
        if self.upstreams.timed_out(lookup.upstream, now_ns) {
            out.notice(Notice::UpstreamDown(lookup.upstream));
        }
    }

    /// Learns that nothing listens at an upstream server's address (ICMP port unreachable at this socket).
    ///
    /// Where its group has several servers, the socket's queries go to the next one at once. With one, they wait for
    /// their timeout: a server that restarts is back by then.
    pub fn handle_upstream_unreachable(
        &mut self,
        now_ns: u64,
        upstream: usize,
        socket: usize,
        out: &mut impl Output,
    ) {
        if !self.upstreams.contains(upstream) || self.upstreams.is_alone(upstream) {
            return;
        }
        if self.upstreams.pause(upstream, now_ns, PAUSE_NS) {
            out.notice(Notice::UpstreamDown(upstream));
        }
        // Queries that are sent again go to the end of the list, so it is walked only as far as it is long now.
        let mut at = self.lookups.first_due().map(|(slot, _)| slot);
        for _ in 0..self.lookups.len() {
            let Some(slot) = at else { break };
            at = self.lookups.next_of(slot);
            let affected = |lookup: &Lookup| {
                let here = lookup.upstream == upstream && lookup.way == Way::Udp { socket };
                here && self.upstreams.group_len(lookup.group) > 1
            };
            if self.lookups.get(slot).is_some_and(affected) {
                self.end_try(slot);
                self.retry(now_ns, slot, out);
            }
        }
    }
}
