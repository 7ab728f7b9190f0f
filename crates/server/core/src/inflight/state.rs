//! The states of a job, the events that change them, and what follows from both (RFC 6147 5.1).

use std::net::Ipv4Addr;

use dns64::reverse::{in_addr_arpa, ipv6_of};
use dns64::rewrite::ClientQuery;
use dns64::rule::{self, AaaaPolicy, Step};
use dns64::wire::{CLASS_IN, Message, Question, rcode, rtype};

use super::UpstreamQuery;
use crate::domains::Routes;
use crate::ede::code;
use crate::settings::View;

/// The reply that a job needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The reply to the client's question, which the DNS64 rule has no part in.
    NeedsReply,
    /// The reply to the client's AAAA question, for the DNS64 rule.
    NeedsAaaa,
    /// The reply to the same question without validation (CD): whether the SERVFAIL before was a verdict.
    NeedsUnchecked,
    /// The reply to the A question of the same name, to synthesize from.
    NeedsA {
        /// The limit of the synthesized TTL in seconds.
        ttl_cap_s: u32,
    },
    /// The reply to the PTR question of the `in-addr.arpa` name of a synthesized address.
    NeedsPtr {
        /// The IPv4 address in the synthesized one.
        ipv4: Ipv4Addr,
    },
}

/// What happens to a job.
#[derive(Clone, Copy, Debug)]
pub enum Event<'m> {
    /// The client has asked.
    Query,
    /// The reply that the job needs: from the cache, from a lookup, or from the A lookup that was sent ahead.
    Reply(&'m Message<'m>),
    /// There is no such reply.
    Failure(Failure),
}

/// A lookup without a usable reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason, an extended error (RFC 8914).
    pub cause: u16,
    /// The lookup failed earlier, and the cache remembers that (RFC 9520).
    pub remembered: bool,
}

/// What follows for a job.
#[derive(Clone, Copy, Debug)]
pub enum Next<'m> {
    /// The job needs another reply.
    Ask(State),
    /// The job is answered from this reply, without excluded AAAA records where `strip` is set.
    Answer {
        /// The reply to the question of the job's state.
        reply: &'m Message<'m>,
        /// Excluded AAAA records are taken out.
        strip: bool,
    },
    /// The job fails.
    Fail(Failure),
}

impl Failure {
    /// A failure of this moment.
    pub const fn new(cause: u16) -> Self {
        Self { cause, remembered: false }
    }

    /// A failure that the cache remembers.
    pub const fn remembered(cause: u16) -> Self {
        Self { cause, remembered: true }
    }
}

impl Event<'_> {
    /// Whether the event is a failure or an error reply: it says nothing about the name.
    pub fn is_error(&self) -> bool {
        match self {
            Self::Query => false,
            Self::Reply(reply) => is_error(reply),
            Self::Failure(_) => true,
        }
    }

    /// Whether the event may be the verdict of a server that validates, without saying so (RFC 6147 5.5).
    fn may_be_verdict(&self) -> bool {
        match self {
            Self::Query => false,
            Self::Reply(reply) => rule::may_be_failed_validation(reply),
            // What is remembered of a reply is the reason that it gave.
            Self::Failure(failure) => failure.remembered && !rule::is_other_reason(failure.cause),
        }
    }
}

/// Whether a reply says nothing about the name.
pub fn is_error(reply: &Message<'_>) -> bool {
    !matches!(reply.header.rcode(), rcode::NOERROR | rcode::NXDOMAIN)
}

impl State {
    /// The state that a job with this question begins in.
    pub fn first(view: &View, asked: &ClientQuery) -> Self {
        let Some(policy) = &view.rule else { return Self::NeedsReply };
        let question = &asked.question;
        if policy.applies_to(asked) && !view.never.covers(&question.name) {
            return Self::NeedsAaaa;
        }
        if question.qtype == rtype::PTR
            && question.qclass == CLASS_IN
            && view.ptr.is_some()
            && let Some(ipv6) = ipv6_of(&question.name)
            && let Some(ipv4) = policy.ipv4_of(ipv6)
        {
            return Self::NeedsPtr { ipv4 };
        }
        Self::NeedsReply
    }

    /// Whether A may be needed afterwards.
    pub fn is_before_a(self) -> bool {
        matches!(self, Self::NeedsAaaa | Self::NeedsUnchecked)
    }

    /// What follows from an event. `in_time` says whether a try that starts now ends before the job's
    /// deadline.
    pub fn next<'m>(self, view: &View, asked: &ClientQuery, in_time: bool, event: Event<'m>) -> Next<'m> {
        let (true, Some(policy)) = (self.is_before_a(), &view.rule) else {
            return match event {
                Event::Query => Next::Ask(self),
                Event::Reply(reply) => Next::Answer { reply, strip: false },
                Event::Failure(failure) => Next::Fail(failure),
            };
        };
        let always = view.always.covers(&asked.question.name);
        let treatment = if always { AaaaPolicy::Always } else { AaaaPolicy::Rule };
        let (step, otherwise) = match event {
            Event::Query => return Next::Ask(self),
            // The server knows the name and withholds it from those who want it checked (RFC 4035 3.2.2).
            Event::Reply(reply) if self == Self::NeedsUnchecked && !is_error(reply) => {
                return Next::Fail(Failure::new(code::DNSSEC_INDETERMINATE));
            }
            Event::Reply(reply) => match rule::next_step(policy, treatment, asked, Some(reply)) {
                Step::PassThrough => return Next::Answer { reply, strip: false },
                Step::StripExcluded => return Next::Answer { reply, strip: true },
                step => (step, Failure::new(code::NO_REACHABLE_AUTHORITY)),
            },
            // An address that was found forged must not be got around by way of A.
            Event::Failure(failure) if rule::is_validation_failure(failure.cause) => {
                return Next::Fail(failure);
            }
            Event::Failure(failure) => (rule::next_step(policy, treatment, asked, None), failure),
        };
        let in_doubt = self == Self::NeedsAaaa && !asked.checking_disabled && event.may_be_verdict();
        match step {
            Step::AskA { .. } if in_time && in_doubt => Next::Ask(Self::NeedsUnchecked),
            Step::AskA { ttl_cap_s } if in_time => Next::Ask(Self::NeedsA { ttl_cap_s }),
            _ => Next::Fail(otherwise),
        }
    }

    /// The query whose reply a job in this state needs.
    pub fn query(&self, asked: &ClientQuery, routes: &Routes) -> UpstreamQuery {
        let (name, qtype) = match self {
            Self::NeedsReply | Self::NeedsAaaa | Self::NeedsUnchecked => {
                (asked.question.name, asked.question.qtype)
            }
            Self::NeedsA { .. } => (asked.question.name, rtype::A),
            Self::NeedsPtr { ipv4 } => (in_addr_arpa(*ipv4), rtype::PTR),
        };
        UpstreamQuery {
            question: Question { name, qtype, qclass: asked.question.qclass },
            checking_disabled: asked.checking_disabled || *self == Self::NeedsUnchecked,
            dnssec_ok: asked.dnssec_ok,
            group: routes.group_of(&name),
        }
    }
}
