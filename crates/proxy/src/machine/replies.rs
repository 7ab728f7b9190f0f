//! Upstream servers' replies: matched to their lookup, cleaned, remembered.

use dns64::rewrite::full_rcode;
use dns64::rule;
use dns64::scrub::scrub;
use dns64::wire::{Header, Message, rcode};
use dns64::wire::{Options, option_code};

use super::jobs::Known;
use super::lookups::wanted_of;
use super::{Machine, Notice, Output};
use crate::cache::lifetime_s;
use crate::ede::code;
use crate::inflight::{Lookup, Way};

/// So many answers with the right ID and the wrong question look like a forgery in progress: the query goes on over
/// a stream, where guessing does not help (RFC 5452 9.2).
const MISMATCHES_MAX: u8 = 3;

impl Machine {
    /// Takes a datagram that came to a socket of an upstream server from that server's address.
    pub fn handle_upstream(
        &mut self,
        now_ns: u64,
        upstream: usize,
        socket: usize,
        message: &[u8],
        out: &mut impl Output,
    ) {
        let Ok(header) = Header::parse(message) else { return self.stats.upstream_unexpected += 1 };
        let known_socket = self.upstreams.contains(upstream) && socket < self.settings.asking.ports;
        let slot = known_socket.then(|| self.ids.slot(self.socket_number(upstream, socket), header.id));
        let Some((slot, lookup)) = slot.flatten().and_then(|slot| Some((slot, self.lookups.get(slot)?)))
        else {
            return self.stats.upstream_unexpected += 1;
        };
        let Some(reply) = matching(lookup, message) else { return self.mismatch(now_ns, slot, out) };
        let spelled = !self.settings.asking.case_randomization || is_spelled_as_sent(lookup, &reply);
        if !spelled || self.settings.asking.cookies && !self.upstream_cookies.accepts(upstream, &reply) {
            return self.distrust(now_ns, slot, out);
        }
        self.note_answer(now_ns, slot, out);
        self.end_try(slot);
        // A server that wants a better cookie (RFC 7873 5.3) has sent it with this reply: for the next query.
        if reply.header.has(Header::TC) || full_rcode(&reply) == Ok(rcode::BADCOOKIE) {
            self.try_stream(now_ns, slot, out);
        } else {
            self.take_reply(now_ns, slot, &reply, out);
        }
    }

    /// Takes the answer to a query over a stream, or `None` when there will be none.
    pub fn handle_upstream_stream(
        &mut self,
        now_ns: u64,
        token: u64,
        message: Option<&[u8]>,
        out: &mut impl Output,
    ) {
        let Some(slot) = self.lookups.slot_of(token) else { return };
        let Some(lookup) = self.lookups.get(slot).filter(|lookup| lookup.way == Way::Stream) else { return };
        let reply = message
            .filter(|message| Header::parse(message).is_ok_and(|header| header.id == lookup.id))
            .and_then(|message| matching(lookup, message))
            // There is no way left to get the rest.
            .filter(|reply| !reply.header.has(Header::TC));
        let upstream = lookup.upstream;
        let Some(reply) = reply else {
            if message.is_none() {
                self.note_silence(now_ns, slot, out);
            }
            self.end_try(slot);
            return self.retry(now_ns, slot, out);
        };
        if self.sends_cookies(upstream) {
            self.upstream_cookies.learn(upstream, &reply);
        }
        self.note_answer(now_ns, slot, out);
        self.end_try(slot);
        self.take_reply(now_ns, slot, &reply, out);
    }

    fn mismatch(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        let Some(lookup) = self.lookups.get_mut(slot) else { return };
        lookup.mismatches += 1;
        if lookup.mismatches >= MISMATCHES_MAX {
            return self.distrust(now_ns, slot, out);
        }
        self.stats.upstream_mismatched += 1;
    }

    /// Somebody forges answers, or the server has given cookies up or does not keep spellings: it is asked over a
    /// stream, which tells.
    fn distrust(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        self.stats.upstream_mismatched += 1;
        self.end_try(slot);
        self.try_stream(now_ns, slot, out);
    }

    fn note_answer(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        self.stats.upstream_answers += 1;
        let Some(lookup) = self.lookups.get(slot) else { return };
        let rtt_ns = now_ns.saturating_sub(lookup.sent_ns);
        if self.upstreams.answered(lookup.upstream, rtt_ns) {
            out.notice(Notice::UpstreamUp(lookup.upstream));
        }
    }

    /// Takes the reply to the current try, which has ended.
    fn take_reply(&mut self, now_ns: u64, slot: u16, reply: &Message<'_>, out: &mut impl Output) {
        let Some(lookup) = self.lookups.get(slot) else { return };
        // A server that cannot or will not answer says nothing about what the next one knows. One that found forged
        // data does.
        let unwilling = matches!(reply.header.rcode(), rcode::SERVFAIL | rcode::REFUSED)
            && !rule::failed_validation(reply);
        let others_left = self.upstreams.group_len(lookup.group) > 1 && self.may_try_again(now_ns, slot);
        if unwilling && others_left {
            return self.try_next_server(now_ns, slot, out);
        }
        let trusted = self.settings.upstreams[lookup.upstream].trust_ad;
        let mut buffer = std::mem::take(&mut self.buffers.scrubbed);
        match cleaned(reply, trusted, &mut buffer) {
            Some(reply) => {
                self.remember(now_ns, slot, &reply);
                self.complete(now_ns, slot, Known::Reply(&reply), out);
            }
            None if others_left => self.try_next_server(now_ns, slot, out),
            None => self.fail_lookup(now_ns, slot, code::INVALID_DATA, out),
        }
        self.buffers.scrubbed = buffer;
    }

    fn remember(&mut self, now_ns: u64, slot: u16, reply: &Message<'_>) {
        let Some(lookup) = self.lookups.get(slot) else { return };
        if lookup.shared.is_none() {
            return;
        }
        let wanted = wanted_of(lookup);
        if let Some(ttl_s) = lifetime_s(&self.settings.caching, reply) {
            self.shared.cache.insert(&wanted.key(), reply, ttl_s, now_ns);
        } else if !matches!(reply.header.rcode(), rcode::NOERROR | rcode::NXDOMAIN) {
            let cause = extended_error(reply).unwrap_or(code::OTHER);
            self.remember_failure(now_ns, &wanted, lookup.shared, cause);
        }
    }
}

/// The reply in a message, if its question is the one that was sent: name, type and class (RFC 5452 9.1).
fn matching<'m>(lookup: &Lookup, message: &'m [u8]) -> Option<Message<'m>> {
    let reply = Message::parse(message).ok().filter(|reply| reply.header.has(Header::QR))?;
    (reply.header.opcode() == 0 && reply.asks(&lookup.question)).then_some(reply)
}

/// Whether the question came back in the case that was drawn (0x20).
fn is_spelled_as_sent(lookup: &Lookup, reply: &Message<'_>) -> bool {
    lookup.question.name.is_flipped(&lookup.case_bits, reply.qname_octets())
}

/// The reply without what does not belong to its question, and without an AD bit that is not to be believed. `None` for
/// one that cannot be read to its end.
fn cleaned<'b>(reply: &Message<'b>, trusted: bool, buffer: &'b mut [u8]) -> Option<Message<'b>> {
    let scrubbed = scrub(reply, buffer).ok()?;
    let unbelieved = reply.header.has(Header::AD) && !trusted;
    let octets = match scrubbed {
        None if !unbelieved => return Some(*reply),
        None => {
            let octets = reply.octets();
            buffer.get_mut(..octets.len())?.copy_from_slice(octets);
            octets.len()
        }
        Some(octets) => octets,
    };
    if unbelieved {
        // The AD bit stands in the fourth octet of the header.
        *buffer.get_mut(3)? &= !(Header::AD as u8);
    }
    Message::parse(&buffer[..octets]).ok()
}

/// Why an upstream server failed: a verdict on forged data before anything else it says.
fn extended_error(reply: &Message<'_>) -> Option<u16> {
    let errors = || {
        let options = Options::of(reply);
        options
            .iter()
            .filter(|(option, _)| *option == option_code::EXTENDED_ERROR)
            .filter_map(|(_, value)| value.first_chunk().map(|code| u16::from_be_bytes(*code)))
    };
    errors().find(|&error| rule::is_validation_failure(error)).or_else(|| errors().next())
}
