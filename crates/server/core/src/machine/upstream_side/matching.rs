//! Upstream servers' messages, matched to the lookups that they belong to.

use dns64::rewrite::full_rcode;
use dns64::wire::{Header, Message, rcode};

use super::UpstreamSide;
use crate::inflight::{Lookup, TryTransport, UpstreamQuery};
use crate::machine::{Notice, Output};
use crate::stats::Stats;
use crate::upstreams::Spelled;

/// So many answers with the right ID and the wrong question look like a forgery in progress: the query goes
/// on over a stream, where guessing does not help (RFC 5452 9.2).
const MISMATCHES_MAX: u8 = 3;

impl UpstreamSide {
    /// Matches a datagram that came to a socket of an upstream server from that server's address. Returns the
    /// reply and the slot of its lookup, whose try has ended.
    pub fn receive<'m>(
        &mut self,
        now_ns: u64,
        (upstream, socket): (usize, usize),
        message: &'m [u8],
        stats: &mut Stats,
        out: &mut impl Output,
    ) -> Option<(u16, Message<'m>)> {
        let Some((slot, lookup)) = self.lookup_of(upstream, socket, message) else {
            stats.upstream_unexpected += 1;
            if let Some(slot) = self.nearly_hit((upstream, socket), message) {
                self.note_near_miss(now_ns, slot, stats, out);
            }
            return None;
        };
        let Some(reply) = matching(lookup, message) else {
            self.note_mismatch(now_ns, slot, stats, out);
            return None;
        };
        let spelling = self.settings.asking.case_randomization.then(|| spelling_of(lookup, &reply));
        let spelled = spelling.is_none_or(|spelling| self.is_well_spelled(upstream, spelling, out));
        if !spelled || self.settings.asking.cookies && !self.cookies.accepts(upstream, &reply) {
            self.distrust(now_ns, slot, stats, out);
            return None;
        }
        self.note_answer(now_ns, slot, stats, out);
        self.end_try(slot);
        // A server that wants a better cookie (RFC 7873 5.3) has sent it with this reply: for the next query.
        if reply.header.has(Header::TC) || full_rcode(&reply) == Ok(rcode::BADCOOKIE) {
            self.send_over_stream(now_ns, slot, stats, out);
            return None;
        }
        Some((slot, reply))
    }

    /// Matches an answer over a stream, or its absence. Returns the reply, if there is a usable one, and the
    /// slot of its lookup.
    pub fn receive_stream<'m>(
        &mut self,
        now_ns: u64,
        token: u64,
        message: Option<&'m [u8]>,
        stats: &mut Stats,
        out: &mut impl Output,
    ) -> Option<(u16, Option<Message<'m>>)> {
        let slot = self.lookups.slot_of(token)?;
        let lookup = self.lookups.get(slot).filter(|lookup| lookup.way == TryTransport::Stream)?;
        let reply = message
            .filter(|message| Header::parse(message).is_ok_and(|header| header.id == lookup.id))
            .and_then(|message| matching(lookup, message))
            // There is no way left to get the rest.
            .filter(|reply| !reply.header.has(Header::TC));
        let upstream = lookup.upstream;
        match &reply {
            Some(reply) => {
                if self.sends_cookies(upstream) {
                    self.cookies.learn(upstream, reply);
                }
                self.note_answer(now_ns, slot, stats, out);
                self.end_try(slot);
            }
            None if message.is_none() => self.note_silence(now_ns, slot, out),
            None => {}
        }
        Some((slot, reply))
    }

    /// The lookup whose ID on this socket a message has.
    fn lookup_of(&self, upstream: usize, socket: usize, message: &[u8]) -> Option<(u16, &Lookup)> {
        let header = Header::parse(message).ok()?;
        if !self.upstreams.contains(upstream) || socket >= self.settings.asking.ports {
            return None;
        }
        let slot = self.ids.slot(self.socket_number(upstream, socket), header.id)?;
        Some((slot, self.lookups.get(slot)?))
    }

    /// The lookup that a message without its ID is about, sent from the same socket: somebody who does not
    /// see the query has found the port.
    fn nearly_hit(&self, from: (usize, usize), message: &[u8]) -> Option<u16> {
        let reply = Message::parse(message).ok().filter(|reply| reply.header.has(Header::QR))?;
        let question = reply.question();
        let group = self.settings.routes.group_of(&question.name);
        // What the forger cannot know of the query is whether the client wants DNSSEC records or checks them.
        [(false, false), (true, false), (false, true), (true, true)].iter().find_map(|&flags| {
            let (dnssec_ok, checking_disabled) = flags;
            let query = UpstreamQuery { question, checking_disabled, dnssec_ok, group };
            let slot = self.lookups.find(self.shared_hash(&query), &question)?;
            let lookup = self.lookups.get(slot)?;
            (lookup.upstream == from.0 && lookup.way == TryTransport::Udp { socket: from.1 }).then_some(slot)
        })
    }

    /// One guess for each lookup: it goes on over a stream, where guessing does not help. After many, all
    /// lookups of the server do so for a while.
    fn note_near_miss(&mut self, now_ns: u64, slot: u16, stats: &mut Stats, out: &mut impl Output) {
        stats.upstream_near_misses += 1;
        let Some(lookup) = self.lookups.get(slot) else { return };
        let upstream = lookup.upstream;
        if self.upstreams.near_miss(upstream, now_ns) {
            out.notice(Notice::Guessing(upstream));
        }
        self.end_try(slot);
        self.send_over_stream(now_ns, slot, stats, out);
    }

    /// Whether an answer is spelled as the server spells. That it keeps spellings no longer, or never did, is
    /// news.
    fn is_well_spelled(
        &mut self,
        upstream: usize,
        (kept, tells): (bool, bool),
        out: &mut impl Output,
    ) -> bool {
        let judged = self.upstreams.judge_spelling(upstream, kept, tells);
        if matches!(judged, Spelled::Otherwise | Spelled::SuspectAndLast) {
            out.notice(Notice::SpellingChanged(upstream));
        }
        matches!(judged, Spelled::Well | Spelled::Otherwise)
    }

    fn note_mismatch(&mut self, now_ns: u64, slot: u16, stats: &mut Stats, out: &mut impl Output) {
        let Some(lookup) = self.lookups.get_mut(slot) else { return };
        lookup.mismatches += 1;
        if lookup.mismatches >= MISMATCHES_MAX {
            return self.distrust(now_ns, slot, stats, out);
        }
        stats.upstream_mismatched += 1;
    }

    /// Somebody forges answers, or the server has given cookies up or does not keep spellings: it is asked
    /// over a stream, which tells.
    fn distrust(&mut self, now_ns: u64, slot: u16, stats: &mut Stats, out: &mut impl Output) {
        stats.upstream_mismatched += 1;
        self.end_try(slot);
        self.send_over_stream(now_ns, slot, stats, out);
    }

    fn note_answer(&mut self, now_ns: u64, slot: u16, stats: &mut Stats, out: &mut impl Output) {
        stats.upstream_answers += 1;
        let Some(lookup) = self.lookups.get(slot) else { return };
        let rtt_ns = now_ns.saturating_sub(lookup.sent_ns);
        if self.upstreams.answered(lookup.upstream, now_ns, rtt_ns) {
            out.notice(Notice::UpstreamUp(lookup.upstream));
        }
    }
}

/// The reply in a message, if its question is the one that was sent: name, type and class (RFC 5452 9.1).
fn matching<'m>(lookup: &Lookup, message: &'m [u8]) -> Option<Message<'m>> {
    let reply = Message::parse(message).ok().filter(|reply| reply.header.has(Header::QR))?;
    (reply.header.opcode() == 0 && reply.asks(&lookup.query.question)).then_some(reply)
}

/// Whether the question came back in the case that was drawn (0x20), and whether that had upper-case letters.
fn spelling_of(lookup: &Lookup, reply: &Message<'_>) -> (bool, bool) {
    let (name, octets) = (&lookup.query.question.name, reply.qname_octets());
    let kept = name.is_flipped(&lookup.case_bits, octets);
    (kept, octets.iter().any(u8::is_ascii_uppercase))
}
