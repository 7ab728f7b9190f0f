//! Faults on demand: what a broken name server, or a bad path to the server, does to answers.
//!
//! `Faults::befall` is a pure function of the seed, the query and its answer. [`draw()`] says which queries a
//! fault meets. The shares of all faults lie side by side on the 2^32 values of the draw, in the order given,
//! so that 1 % loss and 2 % SERVFAIL meet 3 % of the queries. Shares beyond 100 % start again at 0 and
//! overlap.

mod delay;
mod draw;
mod kind;
mod parse;
mod pattern;
mod reply;
mod spoil;

pub use delay::{DELAY_NS_MAX, Delay, Distribution};
pub use draw::{NAME_OCTETS, draw, name_octets};
pub use kind::{Counts, Kind, Kinds};
pub use parse::FaultError;
pub use pattern::Pattern;
pub use reply::Reply;

use dns64::wire::{Message, rtype};

use super::zone::{Answer, Transport};

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// There is no answer.
    Loss,
    /// There is no answer to questions for AAAA.
    AaaaSilent,
    /// The answer is sent later by a time drawn from the distribution.
    Delay(Delay),
    /// The answer comes twice, over UDP and TCP.
    Duplicate,
    /// The answer has TC set and no records, over UDP.
    Truncate,
    /// The answer has this RCODE and no records; above 15 only where the query has EDNS.
    Rcode(u16),
    /// The answer has another ID.
    WrongId,
    /// The answer is to another question.
    WrongQuestion,
    /// The answer is a referral to the root, without authority: what a server says to which a zone was
    /// delegated and which does not know it (RFC 9499 7, "lame delegation").
    Lame,
    /// The signatures in the answer are damaged.
    Bogus,
}

impl Effect {
    /// What it counts as.
    pub fn kind(self) -> Kind {
        match self {
            Self::Loss => Kind::Loss,
            Self::AaaaSilent => Kind::AaaaSilent,
            Self::Delay(_) => Kind::Delay,
            Self::Duplicate => Kind::Duplicate,
            Self::Truncate => Kind::Truncate,
            Self::Rcode(_) => Kind::Rcode,
            Self::WrongId => Kind::WrongId,
            Self::WrongQuestion => Kind::WrongQuestion,
            Self::Lame => Kind::Lame,
            Self::Bogus => Kind::Bogus,
        }
    }
}

/// A part of the queries or names, of 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u64);

impl Share {
    /// The share of every answer.
    pub const ALL: Self = Self(1 << 32);

    /// `None` below 0 and above 100.
    pub fn percent(percent: f64) -> Option<Self> {
        let parts = (percent / 100.0 * Self::ALL.0 as f64).round();
        (0.0..=100.0).contains(&percent).then_some(Self(parts as u64))
    }
}

/// One fault and whom it meets: all conditions must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The effect on the answers that it befalls.
    pub effect: Effect,
    /// The share of the queries, drawn anew for each ID.
    pub share: Share,
    /// The share of the names, always the same ones.
    pub names_share: Share,
    /// The names; all where there is none.
    pub pattern: Option<Pattern>,
    /// The type of the question; all where there is none.
    pub qtype: Option<u16>,
    /// How the query came; all where there is none.
    pub transport: Option<Transport>,
}

impl Fault {
    /// A fault that meets every query it can.
    pub fn new(effect: Effect) -> Self {
        let qtype = matches!(effect, Effect::AaaaSilent).then_some(rtype::AAAA);
        Self { effect, share: Share::ALL, names_share: Share::ALL, pattern: None, qtype, transport: None }
    }

    /// Whether the draw alone tells whom it meets.
    fn is_by_share_alone(&self) -> bool {
        self.names_share == Share::ALL
            && self.pattern.is_none()
            && self.qtype.is_none()
            && self.transport.is_none()
    }
}

/// A part of the circle of 2^32 values.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: u32,
    share: Share,
}

impl Span {
    fn contains(self, value: u32) -> bool {
        u64::from(value.wrapping_sub(self.from)) < self.share.0
    }
}

#[derive(Clone, Debug)]
struct Rule {
    fault: Fault,
    queries: Span,
    names: Span,
}

/// All faults of an AuthDNS.
#[derive(Clone, Debug)]
pub struct Faults {
    seed: u64,
    rules: Vec<Rule>,
}

/// What is looked at of a query.
struct QueryFacts<'q> {
    message: Option<Message<'q>>,
    transport: Transport,
    bits: u64,
    name_draw: u32,
}

impl Faults {
    /// Faults in the order in which their shares lie side by side. The same seed draws the same queries.
    pub fn new(seed: u64, faults: Vec<Fault>) -> Self {
        let (mut queries, mut names) = (0u32, 0u32);
        let after = |from: &mut u32, share: Share| {
            let span = Span { from: *from, share };
            // A share of all leads round to where it began.
            *from = from.wrapping_add(share.0 as u32);
            span
        };
        let rule = |fault: Fault| Rule {
            queries: after(&mut queries, fault.share),
            names: after(&mut names, fault.names_share),
            fault,
        };
        Self { seed, rules: faults.into_iter().map(rule).collect() }
    }

    /// The seed of the draws.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether any of them delays answers.
    pub(crate) fn can_delay(&self) -> bool {
        self.rules.iter().any(|rule| matches!(rule.fault.effect, Effect::Delay(_)))
    }

    /// A query meets no fault if its [`draw()`] is not below this: the sum of all shares. `u32::MAX` stands
    /// for all queries.
    pub fn threshold(&self) -> u32 {
        let sum = self.rules.iter().fold(0u64, |sum, rule| sum.saturating_add(rule.fault.share.0));
        sum.min(u32::MAX.into()) as u32
    }

    /// The first fault for which more than the draw must be looked at: the name, the type or the transport.
    pub fn first_conditional(&self) -> Option<&Fault> {
        self.rules.iter().map(|rule| &rule.fault).find(|fault| !fault.is_by_share_alone())
    }

    /// Lets the faults that the query meets befall its answer, at the start of `out`, which has room for
    /// more.
    ///
    /// The order is: loss (nothing else happens then); one of lame and RCODE, the first given; truncation;
    /// signatures; the question; the ID; delays, which add up; duplication.
    pub(crate) fn befall(&self, query: &[u8], transport: Transport, answer: Answer, out: &mut [u8]) -> Reply {
        let mut reply = Reply::plain(answer);
        if answer.octets == 0 {
            return reply;
        }
        let subject = self.subject(query, transport);
        let is_met = |rule: &&Rule| rule.is_met_by(&subject);
        let silences = |effect| matches!(effect, Effect::Loss | Effect::AaaaSilent);
        let met = self.rules.iter().filter(is_met).map(|rule| rule.fault.effect);
        if let Some(loss) = met.clone().find(|&effect| silences(effect)) {
            reply.faults.add(loss.kind());
            reply.copies = 0;
            return reply;
        }
        spoil::spoil(&met, transport, subject.bits, &mut reply, out);
        for (index, effect) in (0..).zip(met) {
            match effect {
                Effect::Delay(delay) => {
                    let delay_ns = delay.sample_ns(subject.bits, index);
                    reply.delay_ns = reply.delay_ns.saturating_add(delay_ns).min(DELAY_NS_MAX);
                }
                Effect::Duplicate if transport.can_repeat() => reply.copies = 2,
                _ => continue,
            }
            reply.faults.add(effect.kind());
        }
        reply
    }

    fn subject<'q>(&self, query: &'q [u8], transport: Transport) -> QueryFacts<'q> {
        let message = Message::parse(query).ok();
        let (id, qtype) = message.map_or((0, 0), |message| (message.header.id, message.qtype));
        let name = name_octets(query);
        QueryFacts {
            message,
            transport,
            bits: draw::bits(self.seed, id, qtype, &name),
            // The same for every question for the name.
            name_draw: draw(!self.seed, 0, 0, &name),
        }
    }
}

impl Rule {
    fn is_met_by(&self, subject: &QueryFacts<'_>) -> bool {
        let Fault { pattern, qtype, transport, .. } = &self.fault;
        self.queries.contains((subject.bits >> 32) as u32)
            && self.names.contains(subject.name_draw)
            && transport.is_none_or(|transport| transport == subject.transport)
            && subject.message.map_or(qtype.is_none() && pattern.is_none(), |message| {
                qtype.is_none_or(|qtype| qtype == message.qtype)
                    && pattern.as_ref().is_none_or(|pattern| pattern.matches(&message.question().name))
            })
    }
}

#[cfg(test)]
mod tests;
