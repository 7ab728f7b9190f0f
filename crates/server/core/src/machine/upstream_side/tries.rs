//! The attempts of a lookup: sending a query, and what follows if there is no usable answer.

use super::{NotAsked, UpstreamSide};
use crate::answer::{QUERY_OCTETS_MAX, write_query};
use crate::cookies::OPTION_OCTETS_MAX;
use crate::inflight::{Lookup, TryTransport};
use crate::machine::{Notice, Output};
use crate::stats::Stats;

impl UpstreamSide {
    /// The number of an upstream server's socket among all of the machine.
    pub(super) fn socket_number(&self, upstream: usize, socket: usize) -> usize {
        upstream * self.settings.asking.ports + socket
    }

    /// Frees the ID of the current try.
    pub fn end_try(&mut self, slot: u16) {
        let Some(lookup) = self.lookups.get_mut(slot) else { return };
        let (upstream, id) = (lookup.upstream, lookup.id);
        match std::mem::replace(&mut lookup.way, TryTransport::None) {
            TryTransport::None => return,
            TryTransport::Stream => {}
            TryTransport::Udp { socket } => {
                self.ids.release(self.socket_number(upstream, socket), id);
                return self.upstreams.ended_from(upstream, socket);
            }
        }
        self.upstreams.ended(upstream);
    }

    /// Starts a try with the server that the lookup names.
    pub fn send(
        &mut self,
        now_ns: u64,
        slot: u16,
        stats: &mut Stats,
        out: &mut impl Output,
    ) -> Result<(), NotAsked> {
        let Some(lookup) = self.lookups.get_mut(slot) else { return Ok(()) };
        lookup.tries_left = lookup.tries_left.saturating_sub(1);
        lookup.mismatches = 0;
        let upstream = lookup.upstream;
        if self.settings.upstreams[upstream].stream_only || self.upstreams.is_guarded(upstream, now_ns) {
            self.send_over_stream(now_ns, slot, stats, out);
            return Ok(());
        }
        let socket = self.upstreams.socket(upstream, now_ns, &mut self.random);
        let number = self.socket_number(upstream, socket);
        let id = self.ids.take(number, slot, &mut self.random).ok_or(NotAsked::NoId)?;
        let Some(lookup) = self.lookups.get_mut(slot) else { return Ok(()) };
        (lookup.id, lookup.way, lookup.sent_ns) = (id, TryTransport::Udp { socket }, now_ns);
        let spelled = self.settings.asking.case_randomization && self.upstreams.draws_spelling(upstream);
        lookup.case_bits = if spelled { self.random.bits() } else { [0; 32] };
        let trust_ad = self.settings.upstreams[upstream].trust_ad;
        let mut cookie = [0; OPTION_OCTETS_MAX];
        let cookie = self.cookie_for(upstream, &mut cookie);
        let Some(lookup) = self.lookups.get(slot) else { return Ok(()) };
        out.to_upstream(upstream, socket, |buffer| write_query(lookup, trust_ad, cookie, buffer));
        self.upstreams.sent_from(upstream, socket);
        stats.upstream_queries += 1;
        self.lookups.restart(slot, now_ns + self.settings.asking.timeout_ns);
        Ok(())
    }

    /// Asks the server of a lookup over a stream. After an answer over UDP this is no new try.
    pub(super) fn send_over_stream(
        &mut self,
        now_ns: u64,
        slot: u16,
        stats: &mut Stats,
        out: &mut impl Output,
    ) {
        let id = self.random.word();
        let Some(lookup) = self.lookups.get_mut(slot) else { return };
        (lookup.id, lookup.way, lookup.sent_ns) = (id, TryTransport::Stream, now_ns);
        let upstream = lookup.upstream;
        let mut buffer = [0; QUERY_OCTETS_MAX];
        let mut cookie = [0; OPTION_OCTETS_MAX];
        let cookie = self.cookie_for(upstream, &mut cookie);
        let Some(lookup) = self.lookups.get(slot) else { return };
        let length = write_query(lookup, self.settings.upstreams[upstream].trust_ad, cookie, &mut buffer);
        self.lookups.restart(slot, now_ns + self.settings.asking.timeout_ns);
        self.upstreams.sent(upstream);
        stats.upstream_stream_queries += 1;
        out.to_upstream_stream(upstream, self.lookups.token(slot), &buffer[..length]);
    }

    fn cookie_for<'c>(&self, upstream: usize, space: &'c mut [u8; OPTION_OCTETS_MAX]) -> &'c [u8] {
        if !self.sends_cookies(upstream) {
            return &[];
        }
        let length = self.cookies.write(upstream, space);
        &space[..length]
    }

    /// Whether a server gets cookies: where only streams are used, nobody can forge an answer that does not
    /// see the question. After an answer over UDP the stream tells what cookies the server has.
    pub(super) fn sends_cookies(&self, upstream: usize) -> bool {
        self.settings.asking.cookies && !self.settings.upstreams[upstream].stream_only
    }

    /// Ends a try without a usable answer, and starts another where there may be one.
    pub fn retry(
        &mut self,
        now_ns: u64,
        slot: u16,
        stats: &mut Stats,
        out: &mut impl Output,
    ) -> Result<(), NotAsked> {
        self.end_try(slot);
        if !self.may_try_again(now_ns, slot) {
            return Err(NotAsked::NoServer);
        }
        self.send_to_next(now_ns, slot, stats, out)
    }

    pub(super) fn may_try_again(&self, now_ns: u64, slot: u16) -> bool {
        let asking = &self.settings.asking;
        let may = |lookup: &Lookup| lookup.tries_left > 0 && asking.in_time(now_ns, lookup.deadline_ns);
        self.lookups.get(slot).is_some_and(may)
    }

    /// Starts a try with the server after the one that was asked.
    pub fn send_to_next(
        &mut self,
        now_ns: u64,
        slot: u16,
        stats: &mut Stats,
        out: &mut impl Output,
    ) -> Result<(), NotAsked> {
        let Some(lookup) = self.lookups.get(slot) else { return Ok(()) };
        let next = self.upstreams.after(lookup.query.group, lookup.upstream, now_ns);
        self.lookups.set_upstream(slot, next.ok_or(NotAsked::ServersFull)?);
        stats.retries += 1;
        self.send(now_ns, slot, stats, out)
    }

    /// The server of a lookup did not answer the current try.
    pub fn note_silence(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        let Some(lookup) = self.lookups.get(slot) else { return };
        if self.upstreams.timed_out(lookup.upstream, now_ns) {
            out.notice(Notice::UpstreamDown(lookup.upstream));
        }
    }
}
