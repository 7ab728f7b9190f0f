//! Replies of upstream servers and timeouts, and how both end lookups.

use dns64::rule;
use dns64::scrub::scrub;
use dns64::wire::{Header, Message, Options, option_code, rcode};

use super::upstream_side::NotAsked;
use super::{Machine, Output};
use crate::ede::code;
use crate::inflight::Event;
use crate::inflight::state::is_error;

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
        let from = (upstream, socket);
        let reply = self.upstream_side.receive(now_ns, from, message, &mut self.stats, out);
        if let Some((slot, reply)) = reply {
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
        match self.upstream_side.receive_stream(now_ns, token, message, &mut self.stats, out) {
            Some((slot, Some(reply))) => self.take_reply(now_ns, slot, &reply, out),
            Some((slot, None)) => self.retry(now_ns, slot, out),
            None => {}
        }
    }

    /// Learns that a query over a stream found too many in flight. That is a limit of our own: it counts
    /// neither as the server's silence nor as a failure of the name (RFC 9520).
    pub fn handle_upstream_stream_full(&mut self, now_ns: u64, token: u64, out: &mut impl Output) {
        let Some(slot) = self.upstream_side.lookups.slot_of(token) else { return };
        self.stats.server_limited += 1;
        self.upstream_side.end_try(slot);
        let asked = match self.upstream_side.may_ask_another(now_ns, slot) {
            true => self.upstream_side.send_to_next(now_ns, slot, &mut self.stats, out),
            false => Err(NotAsked::ServersFull),
        };
        self.end_unless_asked(now_ns, slot, asked, out);
    }

    /// Learns that nothing listens at an upstream server's address (ICMP port unreachable at one of its
    /// sockets). Anybody can say so: it is believed if the server is silent from now on, and if another
    /// server does its task.
    pub fn handle_upstream_unreachable(&mut self, now_ns: u64, upstream: usize) {
        self.upstream_side.note_refusal(now_ns, upstream);
    }

    /// Asks other servers instead of those that were refused and are silent. A lookup's last try waits to its
    /// end all the same: no refusal makes a lookup fail.
    pub(super) fn end_doubts(&mut self, now_ns: u64, out: &mut impl Output) {
        while let Some(upstream) = self.upstream_side.believe_refusal(now_ns, out) {
            // Queries that are sent again go to the end of the list, so it is walked only as far as it is
            // long now.
            let mut at = self.upstream_side.lookups.first_due().map(|(slot, _)| slot);
            for _ in 0..self.upstream_side.lookups.len() {
                let Some(slot) = at else { break };
                at = self.upstream_side.lookups.next_of(slot);
                if self.upstream_side.is_replaceable(now_ns, slot, upstream) {
                    self.retry(now_ns, slot, out);
                }
            }
        }
    }

    /// Ends the tries whose time is over.
    pub(super) fn end_tries(&mut self, now_ns: u64, out: &mut impl Output) {
        let due = |(_, due_ns): &(u16, u64)| *due_ns <= now_ns;
        while let Some((slot, _)) = self.upstream_side.lookups.first_due().filter(due) {
            self.stats.timeouts += 1;
            self.upstream_side.note_silence(now_ns, slot, out);
            self.retry(now_ns, slot, out);
        }
    }

    /// Goes on after a try without a usable answer: another try, or the end.
    fn retry(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        let asked = self.upstream_side.retry(now_ns, slot, &mut self.stats, out);
        self.end_unless_asked(now_ns, slot, asked, out);
    }

    /// Takes the reply to the current try, which has ended.
    fn take_reply(&mut self, now_ns: u64, slot: u16, reply: &Message<'_>, out: &mut impl Output) {
        let Some(lookup) = self.upstream_side.lookups.get(slot) else { return };
        let trusted = self.settings.upstreams[lookup.upstream].trust_ad;
        let mut buffer = std::mem::take(&mut self.scrubbed);
        // A server that cannot or will not answer says nothing about what the next one knows. One that found
        // forged data does.
        let unwilling = matches!(reply.header.rcode(), rcode::SERVFAIL | rcode::REFUSED)
            && !rule::failed_validation(reply);
        let others_left = self.upstream_side.may_ask_another(now_ns, slot);
        let usable = if unwilling && others_left { None } else { cleaned(reply, trusted, &mut buffer) };
        match usable {
            Some(reply) => {
                self.keep(now_ns, slot, &reply);
                self.end_lookup(now_ns, slot, Event::Reply(&reply), out);
            }
            None if others_left => {
                let asked = self.upstream_side.send_to_next(now_ns, slot, &mut self.stats, out);
                self.end_unless_asked(now_ns, slot, asked, out);
            }
            None => self.fail_lookup(now_ns, slot, code::INVALID_DATA, out),
        }
        self.scrubbed = buffer;
    }

    /// Keeps a reply, or that the lookup failed.
    fn keep(&self, now_ns: u64, slot: u16, reply: &Message<'_>) {
        let lookup = self.upstream_side.lookups.get(slot).filter(|lookup| lookup.shared.is_some());
        let Some(lookup) = lookup else { return };
        let kept = self.recall.keep(now_ns, &lookup.query, reply);
        if !kept && is_error(reply) {
            let cause = extended_error(reply).unwrap_or(code::OTHER);
            self.recall.keep_failure(now_ns, &lookup.query, cause);
        }
    }
}

/// The reply without what does not belong to its question, and without an AD bit that is not to be believed.
/// `None` for one that cannot be read to its end.
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
