//! Messages written octet by octet: queries to upstream servers, their replies passed on, errors of our own.

mod form;
mod pass;
mod query;
mod refusal;

use dns64::reverse;
use dns64::rewrite::ClientQuery;
use dns64::rule::{self, Policy};
use dns64::wire::{Header, Malformed, Message};

pub use form::{ExtendedErrors, Form, reply_octets_max};
pub use query::{QUERY_OCTETS_MAX, UPSTREAM_PAYLOAD_OCTETS, write_query};
pub use refusal::write_refusal;

use crate::client::Query;
use crate::inflight::State;
use crate::settings::View;

/// The TTL of the CNAME record from a synthesized address to its `in-addr.arpa` name, in seconds: it follows
/// from the prefix, which hardly ever changes.
pub(crate) const REVERSE_CNAME_TTL_S: u32 = 600;

/// What an answer was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// It holds synthesized AAAA records.
    pub synthesized: bool,
    /// It did not fit and went out with TC.
    pub truncated: bool,
}

/// What an answer is made from.
pub struct Source<'a> {
    /// The client's view.
    pub view: &'a View,
    /// Its query.
    pub query: &'a Query,
    /// What the reply answers.
    pub state: State,
    /// Which of several prefixes is used, where they rotate.
    pub turn: usize,
    /// The reply, whose question has the client's spelling.
    pub reply: &'a Message<'a>,
    /// Take excluded AAAA records out.
    pub strip: bool,
}

impl Source<'_> {
    /// Writes the answer to the client. `notes` are its extended errors; one says that records were
    /// synthesized.
    ///
    /// # Errors
    /// Records that cannot be read.
    pub fn write(
        &self,
        form: &Form,
        notes: &mut ExtendedErrors<'_>,
        out: &mut [u8],
    ) -> Result<(usize, Outcome), Malformed> {
        let (asked, reply) = (&self.query.asked, self.reply);
        let Some(policy) = &self.view.rule else { return pass::write(self, form, notes, out) };
        match self.state {
            State::NeedsA { ttl_cap_s } => self.write_synthesized(policy, ttl_cap_s, form, notes, out),
            State::NeedsPtr { ipv4 } => {
                let (style, target) = (self.view.ptr.unwrap_or_default(), reverse::in_addr_arpa(ipv4));
                let room = form.room(out);
                let written = reverse::answer(style, asked, &target, reply, REVERSE_CNAME_TTL_S, room)?;
                Ok(finished(form, notes, out, written, false))
            }
            _ if self.strip => {
                let written = rule::strip(policy, asked, reply, form.room(out))?;
                Ok(finished(form, notes, out, written, false))
            }
            State::NeedsReply | State::NeedsAaaa | State::NeedsUnchecked => {
                pass::write(self, form, notes, out)
            }
        }
    }

    fn write_synthesized(
        &self,
        policy: &Policy,
        ttl_cap_s: u32,
        form: &Form,
        notes: &mut ExtendedErrors<'_>,
        out: &mut [u8],
    ) -> Result<(usize, Outcome), Malformed> {
        let room = form.room(out);
        let (written, count) =
            rule::synthesize(policy, self.turn, &self.query.asked, self.reply, ttl_cap_s, room)?;
        if count > 0 {
            notes.say(crate::ede::code::SYNTHESIZED);
        }
        Ok(finished(form, notes, out, written, count > 0))
    }

    /// The flags of the answer for an RCODE: AD only for a client that understands it, from a server that is
    /// trusted (of others the bit was cleared when the reply came).
    fn flags(&self, rcode: u8) -> u16 {
        let ad = if self.query.wants_ad { self.reply.header.flags & Header::AD } else { 0 };
        self.query.asked.answer_flags(rcode) | ad
    }
}

fn finished(
    form: &Form,
    notes: &ExtendedErrors<'_>,
    out: &mut [u8],
    written: dns64::rewrite::WrittenAnswer,
    synthesized: bool,
) -> (usize, Outcome) {
    let octets = form.finish(out, written.octets, notes);
    (octets, Outcome { synthesized, truncated: written.truncated })
}

/// Writes an answer without records.
pub fn write_empty(
    form: &Form,
    asked: &ClientQuery,
    flags: u16,
    notes: &ExtendedErrors<'_>,
    out: &mut [u8],
) -> usize {
    let octets = dns64::rewrite::write_empty(asked, flags, form.room(out));
    form.finish(out, octets, notes)
}
