//! The n-th query: its octets, and the answer expected for it.

mod activity;
mod asked;
mod generator;
mod names;
mod options;
pub mod question;
mod random_label;
mod recorded;
mod spread;
mod template;
mod types;
mod zipf;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use dns64::names::{LABEL_LENGTH, has_aaaa, parse_label};
use dns64::wire::{HEADER_LENGTH, NAME_LENGTH_MAX, Name, rtype};
use dns64::{NameSpace, Prefix};

use crate::tsig;
use names::Picker;
use options::OptRecord;
use random_label::CHARACTERS_PER_PLACE;

pub(crate) use activity::Draw;
pub use activity::{Activity, NoActivity};
pub use generator::{Generator, GeneratorError, TEMPLATES_MAX};
pub use names::{Agent, Choice};
pub(crate) use options::{CLIENT_COOKIE_OCTETS, client_cookie};
pub use options::{Client, EdnsOption, OPTION_OCTETS_MAX, QueryOptions};
pub use recorded::{ARENA_OCTETS_MAX, Arena, Feed, Feeds, Recording, Stamp, shuffled};
pub use template::{Template, TemplateError};
pub use types::{QueryClass, TYPES_MAX, TypeError, TypeMix, type_name, type_number};

/// What to ask and what to expect.
#[derive(Clone, Debug)]
pub struct WorkloadSpec {
    /// The range of addresses that the names encode.
    pub names: NameSpace,
    /// The index of the first name; the following queries take the following names.
    pub first_name: u64,
    /// The zone that the names are in.
    pub suffix: Name,
    /// The prefix under which synthesized answers are expected.
    pub prefix: Prefix,
    /// Names with a AAAA record of their own: their share of all in percent, and the prefix of those records.
    pub native: Option<(u8, Prefix)>,
    /// Payload size of an OPT record to add, in octets; `None` sends none, as dns64perf++ does, unless an
    /// option needs it.
    pub edns_octets: Option<u16>,
    /// How the queries depart from RFC 8219's.
    pub variation: Variation,
}

/// How queries depart from those of RFC 8219: a AAAA query for each name, once. The default does not.
#[derive(Clone, Debug, Default)]
pub struct Variation {
    /// The order in which names of the range are asked.
    pub choice: Choice,
    /// How the clients share the queries. Recorded queries have clients of their own, and those of closed
    /// loops ask in turn.
    pub activity: Activity,
    /// Which of several Measurers this is.
    pub agent: Agent,
    /// The types asked and their shares.
    pub types: TypeMix,
    /// The class asked. Of other classes than IN any response is right.
    pub class: QueryClass,
    /// Flags and EDNS options.
    pub options: QueryOptions,
    /// The key that signs every query, and by which the answers are verified.
    pub tsig: Option<Arc<tsig::Key>>,
    /// Any response to the question is right ([`crate::circumstances::Validity::Response`]).
    pub any_response: bool,
    /// Of everything random. The same seed gives the same queries.
    pub seed: u64,
}

/// The right answer to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// A AAAA record with this address.
    Aaaa(Ipv6Addr),
    /// An A record with this address.
    A(Ipv4Addr),
    /// Any response that matches the query, whatever its RCODE and records.
    Response,
}

impl Expectation {
    /// The address expected; the unspecified one if any will do.
    pub fn address(self) -> IpAddr {
        match self {
            Self::Aaaa(address) => address.into(),
            Self::A(address) => address.into(),
            Self::Response => Ipv6Addr::UNSPECIFIED.into(),
        }
    }
}

/// Queries, most of them made from a template of which little changes.
#[derive(Clone, Debug)]
pub struct Workload {
    spec: WorkloadSpec,
    /// `None` where names are not of the range.
    picker: Option<Picker>,
    template: Vec<u8>,
    /// Where the template's question ends.
    question_end: usize,
    tail: OptRecord,
}

/// Why queries cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unaskable {
    /// The names are too long: over 255 octets.
    SuffixTooLong,
    /// The queries are too long: over [`QUERY_OCTETS_MAX`].
    QueryTooLong,
}

impl std::fmt::Display for Unaskable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SuffixTooLong => write!(
                f,
                "the suffix is too long: with a label of {LABEL_LENGTH} characters the names exceed 255 octets"
            ),
            Self::QueryTooLong => write!(
                f,
                "the queries are longer than {QUERY_OCTETS_MAX} octets: leave out EDNS options, or take shorter names"
            ),
        }
    }
}

impl std::error::Error for Unaskable {}

/// Where places start over that do not stand for the names of a range: a number that every reader of JSON has
/// exactly.
pub const PLACES: u64 = 1 << 48;
/// Where the first label's text stands in a query.
const LABEL_AT: usize = HEADER_LENGTH + 1;
/// The longest query: what the transports have room for, in octets.
pub const QUERY_OCTETS_MAX: usize = 512;

/// The three digits and the dash of each octet in a label, so that no division is needed.
const DIGITS: [[u8; 4]; 256] = {
    let (mut all, mut octet) = ([*b"000-"; 256], 0);
    while octet < 256 {
        all[octet][0] += octet as u8 / 100;
        all[octet][1] += octet as u8 / 10 % 10;
        all[octet][2] += octet as u8 % 10;
        octet += 1;
    }
    all
};

/// The label of an address and the first octet after it: 16 octets, of which the last is overwritten.
fn label_of(address: Ipv4Addr) -> [u8; LABEL_LENGTH + 1] {
    let mut label = [0; LABEL_LENGTH + 1];
    for (place, octet) in label.chunks_exact_mut(4).zip(address.octets()) {
        place.copy_from_slice(&DIGITS[usize::from(octet)]);
    }
    label
}

impl Workload {
    /// Makes the template.
    ///
    /// # Errors
    /// Suffix or options are too long.
    pub fn new(spec: WorkloadSpec) -> Result<Self, Unaskable> {
        let Variation { choice, types, class, options, seed, .. } = &spec.variation;
        let picker = Picker::new(choice, &spec.names);
        let wire = longest_name(choice, &spec.suffix);
        Name::parse(&wire, 0).map_err(|_| Unaskable::SuffixTooLong)?;
        let tail = OptRecord::new(spec.edns_octets, options, *seed);
        let mut template = header(options, &tail).to_vec();
        template.extend(wire);
        template.extend(types.at(0).to_be_bytes());
        template.extend(class.0.to_be_bytes());
        let question_end = template.len();
        template.resize(QUERY_OCTETS_MAX, 0);
        // Padding beyond the largest query is left out.
        let length = tail.append(0, &Client::default(), &mut template, question_end);
        template.truncate(length);
        let signature_octets = spec.variation.tsig.as_ref().map_or(0, |key| key.signature_octets());
        if length == 0 || length + signature_octets > QUERY_OCTETS_MAX {
            return Err(Unaskable::QueryTooLong);
        }
        Ok(Self { picker, template, question_end, tail, spec })
    }

    /// What it was made from.
    pub fn spec(&self) -> &WorkloadSpec {
        &self.spec
    }

    /// The length of every query in octets; of generated ones that of the longest, of recorded ones that of
    /// none in particular.
    pub fn query_octets(&self) -> usize {
        self.template.len()
    }

    /// Whether every name is asked at most once, so that a reply's name says which query it answers.
    pub fn is_by_name(&self) -> bool {
        matches!(self.picker, Some(Picker::Each))
    }

    /// Whether the queries come while the trial runs ([`Workload::open`]).
    pub fn is_streamed(&self) -> bool {
        matches!(self.spec.variation.choice, Choice::Recorded { recording: Recording::Stream(_), .. })
    }

    /// The feed of a lane, where the queries are streamed.
    pub fn open(&self, lane: u64, lanes: u64) -> Option<Box<dyn Feed>> {
        match &self.spec.variation.choice {
            Choice::Recorded { recording: Recording::Stream(feeds), .. } => Some(feeds.open(lane, lanes)),
            _ => None,
        }
    }

    /// How many names of the range a trial of so many queries goes through; 0 if it does not matter.
    pub fn names_needed(&self, queries: u64) -> u64 {
        let in_turn = queries.saturating_mul(self.spec.variation.agent.agents.into());
        match self.picker {
            Some(Picker::Each) => in_turn,
            Some(Picker::Cached { share_pct: 100, hot_names } | Picker::OverAndOver { names: hot_names }) => {
                hot_names
            }
            Some(Picker::Cached { hot_names, .. }) => in_turn.saturating_add(hot_names),
            Some(Picker::Zipf(_)) | None => 0,
        }
    }

    /// The index of the first name of a trial that follows one of so many queries: none is asked again before
    /// all were.
    pub fn first_name_after(&self, queries: u64) -> u64 {
        let places = match self.picker {
            Some(Picker::Zipf(_)) | None => PLACES,
            Some(_) => self.spec.names.size(),
        };
        let in_turn = queries.saturating_mul(self.spec.variation.agent.agents.into());
        self.spec.first_name.wrapping_add(self.names_needed(queries).max(in_turn)) & (places - 1)
    }

    /// The queries that must be answered before the trial so that its cached share is cached, and how many
    /// they are.
    pub fn warm_up(&self) -> Option<(Self, u64)> {
        let Choice::Cached { share_pct: 1.., hot_names } = self.spec.variation.choice else { return None };
        let mut spec = self.spec.clone();
        spec.variation.choice = Choice::OverAndOver { names: hot_names };
        spec.variation.agent = Agent::default();
        let types = spec.variation.types.types().count() as u64;
        Some((Self::new(spec).ok()?, u64::from(hot_names) * types))
    }

    /// Writes query `n` of the trial; returns its length, or 0 if the buffer is too small or the queries are
    /// streamed.
    pub fn write(&self, n: u64, id: u16, buffer: &mut [u8]) -> usize {
        self.write_from(n, id, &Client::default(), buffer)
    }

    /// Likewise for a client.
    #[inline]
    pub fn write_from(&self, n: u64, id: u16, client: &Client<'_>, buffer: &mut [u8]) -> usize {
        match &self.spec.variation.choice {
            Choice::Recorded { recording, .. } => {
                return recording.get(n).map_or(0, |query| self.write_recorded(query, n, id, client, buffer));
            }
            Choice::Generated(generator) => return self.write_generated(generator, n, id, client, buffer),
            _ => {}
        }
        let Some(place) = buffer.get_mut(..self.template.len()) else { return 0 };
        place.copy_from_slice(&self.template);
        place[..2].copy_from_slice(&id.to_be_bytes());
        self.write_label(n, &mut place[LABEL_AT..]);
        if self.spec.variation.types.only().is_none() {
            let qtype = self.type_of(n).to_be_bytes();
            place[self.question_end - 4..self.question_end - 2].copy_from_slice(&qtype);
        }
        if self.tail.varies() {
            if !client.server_cookie.is_empty() {
                return self.tail.append(n, client, buffer, self.question_end);
            }
            self.tail.vary(n, client.source, &mut place[self.question_end..]);
        }
        self.template.len()
    }

    #[inline]
    fn write_label(&self, n: u64, place: &mut [u8]) {
        match self.index(n) {
            Some(index) => {
                let label = label_of(self.spec.names.address(index));
                place[..LABEL_LENGTH].copy_from_slice(&label[..LABEL_LENGTH]);
            }
            None => {
                let label = &mut place[..CHARACTERS_PER_PLACE];
                random_label::write(self.spec.variation.seed, self.place(n), label);
            }
        }
    }

    /// Writes a recorded query: a question with header and options, or a whole message.
    pub(crate) fn write_recorded(
        &self,
        query: &[u8],
        n: u64,
        id: u16,
        client: &Client<'_>,
        buffer: &mut [u8],
    ) -> usize {
        let whole = matches!(self.spec.variation.choice, Choice::Recorded { whole_messages: true, .. });
        let start = if whole { 0 } else { HEADER_LENGTH };
        let end = start + query.len();
        let Some(place) = buffer.get_mut(..end) else { return 0 };
        place[..start].copy_from_slice(&self.template[..start]);
        place[start..].copy_from_slice(query);
        if let Some(place) = place.first_chunk_mut() {
            *place = id.to_be_bytes();
        }
        if whole { end } else { self.tail.append(n, client, buffer, end) }
    }

    /// Writes a query whose question is made from a template.
    fn write_generated(
        &self,
        generator: &Generator,
        n: u64,
        id: u16,
        client: &Client<'_>,
        buffer: &mut [u8],
    ) -> usize {
        let (place, mut name) = (self.place(n), [0; NAME_LENGTH_MAX]);
        let length = generator.write(place, &mut name);
        let end = HEADER_LENGTH + length + 4;
        let Some(octets) = buffer.get_mut(..end) else { return 0 };
        octets[..HEADER_LENGTH].copy_from_slice(&self.template[..HEADER_LENGTH]);
        octets[..2].copy_from_slice(&id.to_be_bytes());
        octets[HEADER_LENGTH..end - 4].copy_from_slice(&name[..length]);
        let qtype = generator.qtype(place).unwrap_or_else(|| self.type_of(n));
        octets[end - 4..end - 2].copy_from_slice(&qtype.to_be_bytes());
        octets[end - 2..].copy_from_slice(&self.spec.variation.class.0.to_be_bytes());
        self.tail.append(n, client, buffer, end)
    }

    /// The place of query `n` among those of all agents and trials.
    #[inline]
    fn place(&self, n: u64) -> u64 {
        let Agent { index, agents } = self.spec.variation.agent;
        self.spec.first_name.wrapping_add(n.wrapping_mul(agents.into())).wrapping_add(index.into())
    }

    /// The index of the name of query `n`, where it is one of the range.
    #[inline]
    fn index(&self, n: u64) -> Option<u64> {
        let picker = self.picker.as_ref()?;
        Some(picker.index(self.place(n), n, self.spec.first_name, self.spec.variation.seed))
    }

    fn type_of(&self, n: u64) -> u16 {
        let types = &self.spec.variation.types;
        match self.picker {
            Some(Picker::OverAndOver { names }) => {
                let lap = (n / names) as usize % types.types().count().max(1);
                types.types().nth(lap).unwrap_or(types.at(0))
            }
            _ => types.at(self.place(n)),
        }
    }

    /// Whether a reply repeats the question of query `n` octet by octet, as nearly every server does. Only
    /// where names say which query they belong to.
    #[inline]
    pub(crate) fn repeats(&self, n: u64, reply: &[u8]) -> bool {
        const AFTER_LABEL: usize = LABEL_AT + LABEL_LENGTH;
        let Some(question) = reply.get(4..self.question_end) else { return false };
        let label = label_of(self.spec.names.address(self.place(n)));
        question[..2] == [0, 1]
            && question[LABEL_AT - 4..AFTER_LABEL - 4] == label[..LABEL_LENGTH]
            && question[HEADER_LENGTH - 4] == LABEL_LENGTH as u8
            && question[AFTER_LABEL - 4..question.len() - 4]
                == self.template[AFTER_LABEL..self.question_end - 4]
            && question[question.len() - 4..] == self.kind(n)
    }

    /// Type and class of query `n`.
    #[inline]
    fn kind(&self, n: u64) -> [u8; 4] {
        let qtype = self.spec.variation.types.only().unwrap_or_else(|| self.type_of(n)).to_be_bytes();
        let class = self.spec.variation.class.0.to_be_bytes();
        [qtype[0], qtype[1], class[0], class[1]]
    }

    /// The number within the trial of the query that a reply repeats; `None` if its question is not one of
    /// ours, or if names are asked several times.
    pub fn number_of(&self, reply: &[u8]) -> Option<u64> {
        if !self.is_by_name() {
            return None;
        }
        let index = self.spec.names.index(self.address_in(reply)?)?;
        let Agent { index: agent, agents } = self.spec.variation.agent;
        let place = index.wrapping_sub(self.spec.first_name) & (self.spec.names.size() - 1);
        let own = place.checked_sub(agent.into())?;
        let n = (own % u64::from(agents) == 0).then(|| own / u64::from(agents))?;
        (reply[self.question_end - 4..self.question_end] == self.kind(n)).then_some(n)
    }

    /// The address whose name of ours a message asks for, whatever the type.
    fn address_in(&self, message: &[u8]) -> Option<Ipv4Addr> {
        self.picker?;
        let question = message.get(HEADER_LENGTH..self.question_end)?;
        let own = &self.template[HEADER_LENGTH..self.question_end];
        let (after_label, name) = (1 + LABEL_LENGTH, question.len() - 4);
        let same = question[0] == own[0]
            && question[after_label..name].eq_ignore_ascii_case(&own[after_label..name])
            && message[4..6] == [0, 1];
        if same { parse_label(&question[1..after_label]) } else { None }
    }

    /// Where the records of a reply begin; of recorded queries each has its own place ([`question::end`]).
    pub fn question_end(&self) -> usize {
        self.question_end
    }

    /// The address that the right AAAA answer to query `n` carries, where its name is one of the range.
    pub fn expected(&self, n: u64) -> Ipv6Addr {
        self.aaaa(self.spec.names.address(self.index(n).unwrap_or_default()))
    }

    fn aaaa(&self, address: Ipv4Addr) -> Ipv6Addr {
        match self.spec.native {
            Some((share, prefix)) if has_aaaa(address, share) => prefix.embed(address),
            _ => self.spec.prefix.embed(address),
        }
    }

    /// The right answer to query `n`, whose question was compared and ends at `end` of the reply.
    #[inline]
    pub fn expectation(&self, n: u64, reply: &[u8], end: usize) -> Expectation {
        let Variation { any_response, class, .. } = &self.spec.variation;
        if *any_response || *class != QueryClass::default() || self.picker.is_none() {
            return Expectation::Response;
        }
        let address = if self.is_by_name() {
            Some(self.spec.names.address(self.place(n)))
        } else {
            self.address_in(reply)
        };
        let qtype = u16::from_be_bytes([reply[end - 4], reply[end - 3]]);
        match (qtype, address) {
            (rtype::AAAA, Some(address)) => Expectation::Aaaa(self.aaaa(address)),
            (rtype::A, Some(address)) => Expectation::A(address),
            _ => Expectation::Response,
        }
    }
}

/// A name as long as the longest that is asked, on the wire.
fn longest_name(choice: &Choice, suffix: &Name) -> Vec<u8> {
    let label = match choice {
        Choice::Generated(generator) => return generator.longest_name(),
        Choice::RandomLabels => CHARACTERS_PER_PLACE,
        _ => LABEL_LENGTH,
    };
    let mut wire = vec![label as u8];
    wire.resize(1 + label, b'0');
    wire.extend(suffix.as_wire());
    wire
}

/// The header of every query, with ID 0.
fn header(options: &QueryOptions, tail: &OptRecord) -> [u8; HEADER_LENGTH] {
    let [high, low] = options.header_flags().to_be_bytes();
    [0, 0, high, low, 0, 1, 0, 0, 0, 0, 0, tail.records()]
}

#[cfg(test)]
pub(crate) mod tests;
