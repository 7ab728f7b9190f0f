//! Which records of a reply belong to its question.

use super::{Malformed, Message, Name, Record, Section, TYPE_TSIG, rtype};
use crate::chain::{LINKS_MAX, Position, follow_to_end, signed_type};
use crate::effort::Effort;
use crate::wire::{CLASS_IN, names_in_rdata};

/// The longest message, in octets.
const MESSAGE_OCTETS_MAX: usize = u16::MAX as usize;
/// The shortest record: the root's name, type, class, TTL and the length of its RDATA, in octets.
const RECORD_OCTETS_MIN: usize = 11;
const MARKS: usize = MESSAGE_OCTETS_MAX.div_ceil(RECORD_OCTETS_MIN).div_ceil(64);

/// Records of the authority and of the additional section that are looked at; true replies have far fewer.
const RECORDS_MAX: usize = 256;
/// Names in RDATA whose addresses may follow in the additional section.
const TARGETS_MAX: usize = 64;
/// Zones whose NSEC and NSEC3 records may stand in the authority section.
const ZONES_MAX: usize = 8;

const TYPE_AFSDB: u16 = 18;
const TYPE_RT: u16 = 21;
const TYPE_NAPTR: u16 = 35;
const TYPE_KX: u16 = 36;
const TYPE_NSEC: u16 = 47;
const TYPE_SVCB: u16 = 64;
const CLASS_ANY: u16 = 255;

/// Where the name of the signer begins in RDATA of RRSIG (RFC 4034 3.1).
const SIGNER_AT: usize = 18;

/// The names of a chain: of each link, and of its end.
type Chain = Names<{ LINKS_MAX + 2 }>;

/// Whether a record at the end of a chain answers a question for this type: it has that type, or signs it.
pub(super) fn is_of_type(record: &Record<'_>, qtype: u16) -> bool {
    record.rtype == qtype || qtype == rtype::ANY || signed_type(record) == Some(qtype)
}

pub(super) struct Plan {
    /// A bit for each place where a record may begin: no two begin within the same eleven octets.
    marks: [u64; MARKS],
}

impl Plan {
    /// The plan, made within an effort. Where that is used up before the authority and the additional section
    /// are looked at to their ends, the rest of them goes.
    pub(super) fn of(reply: &Message<'_>, effort: &mut Effort) -> Result<Self, Malformed> {
        if reply.octets().len() > MESSAGE_OCTETS_MAX {
            return Err(Malformed("over 65535 octets"));
        }
        let mut plan = Self { marks: [0; MARKS] };
        if !says_more(reply)? {
            // A chain and its end, as most servers answer today: nothing depends on the names of the chain.
            plan.mark_answers(reply, effort, |_| ())?;
            plan.mark_options(reply)?;
            return Ok(plan);
        }
        let mut chain = Chain::new();
        plan.mark_answers(reply, effort, |name| chain.add(name))?;
        let marked = plan.mark_authorities(reply, &chain, effort);
        let marked = marked.and_then(|()| plan.mark_additionals(reply, &chain, effort));
        if !effort.is_used_up() {
            marked?;
        }
        plan.mark_options(reply)?;
        Ok(plan)
    }

    pub(super) fn keeps(&self, record: &Record<'_>) -> bool {
        let place = record.position() / RECORD_OCTETS_MIN;
        self.marks[place / 64] >> (place % 64) & 1 != 0
    }

    fn mark(&mut self, record: &Record<'_>) {
        let place = record.position() / RECORD_OCTETS_MIN;
        self.marks[place / 64] |= 1 << (place % 64);
    }

    /// Marks the answer section; tells `note` the names of the chain.
    fn mark_answers(
        &mut self,
        reply: &Message<'_>,
        effort: &mut Effort,
        mut note: impl FnMut(&Name),
    ) -> Result<(), Malformed> {
        let asked = &reply.question();
        if asked.qclass == CLASS_IN && asked.qtype != rtype::ANY {
            let end = follow_to_end(reply, &asked.name, effort, |place, name, record| {
                if place == Position::Link {
                    note(name);
                }
                if place == Position::Link || is_of_type(record, asked.qtype) {
                    self.mark(record);
                }
                Ok::<_, Malformed>(())
            })?;
            note(&end);
            return Ok(());
        }
        note(&asked.name);
        for record in section(reply, Section::Answer) {
            let record = record?;
            if fits_class(reply, &record) && record.owner_is(&asked.name, effort)? {
                self.mark(&record);
            }
        }
        Ok(())
    }

    fn mark_authorities(
        &mut self,
        reply: &Message<'_>,
        chain: &Chain,
        effort: &mut Effort,
    ) -> Result<(), Malformed> {
        let mut zones = None;
        for record in section(reply, Section::Authority).take(RECORDS_MAX) {
            let record = record?;
            if !fits_class(reply, &record) {
                continue;
            }
            let owner = record.owner_within(effort)?;
            if chain.any_under(&owner, effort)? {
                self.mark(&record);
            } else if is_proof(signed_type(&record).unwrap_or(record.rtype)) {
                let zones = match &zones {
                    Some(zones) => zones,
                    None => zones.insert(zones_of(reply, chain, effort)?),
                };
                if zones.any_above(&owner, effort)? {
                    self.mark(&record);
                }
            }
        }
        Ok(())
    }

    fn mark_additionals(
        &mut self,
        reply: &Message<'_>,
        chain: &Chain,
        effort: &mut Effort,
    ) -> Result<(), Malformed> {
        let targets = self.targets(reply, effort)?;
        for record in section(reply, Section::Additional).take(RECORDS_MAX) {
            let record = record?;
            if matches!(record.rtype, rtype::OPT | TYPE_TSIG) || !fits_class(reply, &record) {
                continue;
            }
            let owner = record.owner_within(effort)?;
            if chain.contains(&owner, effort)? || targets.contain(reply, &owner, effort)? {
                self.mark(&record);
            }
        }
        Ok(())
    }

    fn mark_options(&mut self, reply: &Message<'_>) -> Result<(), Malformed> {
        for record in section(reply, Section::Additional) {
            let record = record?;
            if record.rtype == rtype::OPT {
                self.mark(&record);
            }
        }
        Ok(())
    }

    /// The names that the records kept so far speak of.
    fn targets(&self, reply: &Message<'_>, effort: &mut Effort) -> Result<Targets, Malformed> {
        let mut targets = Targets { places: [0; TARGETS_MAX], count: 0 };
        for record in reply.records() {
            let record = record?;
            if record.section == Section::Additional || targets.count == TARGETS_MAX {
                break;
            }
            let Some(offset) = target_offset(&record).filter(|_| self.keeps(&record)) else { continue };
            if name_in_rdata(&record, offset, effort)?.is_some() {
                targets.places[targets.count] = record.rdata_position() + offset;
                targets.count += 1;
            }
        }
        Ok(targets)
    }
}

/// Names of RDATA, by their places in the message.
struct Targets {
    places: [usize; TARGETS_MAX],
    count: usize,
}

impl Targets {
    fn contain(&self, reply: &Message<'_>, name: &Name, effort: &mut Effort) -> Result<bool, Malformed> {
        for &place in &self.places[..self.count] {
            if name.stands_at(reply.octets(), place, effort)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

struct Names<const MAX: usize> {
    names: [Name; MAX],
    count: usize,
}

impl<const MAX: usize> Names<MAX> {
    fn new() -> Self {
        Self { names: [Name::ROOT; MAX], count: 0 }
    }

    /// Adds a name that is not there, as long as there is room.
    fn add(&mut self, name: &Name) {
        if self.count < MAX && !self.as_slice().contains(name) {
            self.names[self.count] = *name;
            self.count += 1;
        }
    }

    fn as_slice(&self) -> &[Name] {
        &self.names[..self.count]
    }

    fn contains(&self, name: &Name, effort: &mut Effort) -> Result<bool, Malformed> {
        self.any(|own| own == name, effort, |own| own.comparison_steps(name))
    }

    /// Whether any of them is `ancestor` or below it.
    fn any_under(&self, ancestor: &Name, effort: &mut Effort) -> Result<bool, Malformed> {
        self.any(|name| name.is_under(ancestor), effort, |name| name.comparison_steps(ancestor))
    }

    /// Whether `name` is any of them or below one.
    fn any_above(&self, name: &Name, effort: &mut Effort) -> Result<bool, Malformed> {
        self.any(|ancestor| name.is_under(ancestor), effort, |ancestor| name.comparison_steps(ancestor))
    }

    fn any(
        &self,
        is_wanted: impl Fn(&Name) -> bool,
        effort: &mut Effort,
        steps: impl Fn(&Name) -> usize,
    ) -> Result<bool, Malformed> {
        for name in self.as_slice() {
            effort.spend(steps(name))?;
            if is_wanted(name) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The records of one section, and the error that ends them.
fn section<'a>(
    reply: &Message<'a>,
    wanted: Section,
) -> impl Iterator<Item = Result<Record<'a>, Malformed>> + use<'a> {
    reply.records().filter(move |record| record.as_ref().map_or(true, |record| record.section == wanted))
}

fn fits_class(reply: &Message<'_>, record: &Record<'_>) -> bool {
    reply.qclass == CLASS_ANY || record.class == reply.qclass
}

/// Whether a reply has more than an answer section and OPT records.
fn says_more(reply: &Message<'_>) -> Result<bool, Malformed> {
    for record in reply.records() {
        let record = record?;
        if record.section != Section::Answer && record.rtype != rtype::OPT {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The zones of the chain's names whose proofs may stand in the authority section: those that have an SOA or
/// NS record there, and those that signed a proof, for a server may leave the others out of a positive
/// answer.
fn zones_of(reply: &Message<'_>, chain: &Chain, effort: &mut Effort) -> Result<Names<ZONES_MAX>, Malformed> {
    let mut zones = Names::new();
    for record in section(reply, Section::Authority).take(RECORDS_MAX) {
        let record = record?;
        if !fits_class(reply, &record) {
            continue;
        }
        let zone = match record.rtype {
            rtype::SOA | rtype::NS => record.owner_within(effort)?,
            rtype::RRSIG if signed_type(&record).is_some_and(is_proof) => {
                match name_in_rdata(&record, SIGNER_AT, effort)? {
                    Some(signer) if record.owner_within(effort)?.is_under(&signer) => signer,
                    _ => continue,
                }
            }
            _ => continue,
        };
        if chain.any_under(&zone, effort)? {
            zones.add(&zone);
        }
    }
    Ok(zones)
}

/// Whether records of the type prove that something does not exist (RFC 4035 3.1.3, RFC 5155 7.2).
fn is_proof(rtype: u16) -> bool {
    matches!(rtype, TYPE_NSEC | rtype::NSEC3)
}

/// A name in RDATA. Where it may not be compressed (RFC 3597 4) it counts only if it is not: its place
/// changes when the reply is written again, and a pointer would then mean something else.
fn name_in_rdata(record: &Record<'_>, offset: usize, effort: &mut Effort) -> Result<Option<Name>, Malformed> {
    match record.name_in_rdata_within(offset, effort) {
        Ok((name, end)) => {
            let (_, names) = names_in_rdata(record.rtype);
            Ok((names > 0 || end - offset == name.as_wire().len()).then_some(name))
        }
        Err(malformed) if effort.is_used_up() => Err(malformed),
        Err(Malformed(_)) => Ok(None),
    }
}

/// Where the name begins in RDATA whose records a server may add (RFC 1035 3.3, RFC 2782, RFC 9460 4.1,
/// RFC 3403 4.1).
fn target_offset(record: &Record<'_>) -> Option<usize> {
    match record.rtype {
        rtype::NS | rtype::CNAME | rtype::PTR | rtype::DNAME | rtype::SOA => Some(0),
        rtype::MX | TYPE_AFSDB | TYPE_RT | TYPE_KX | TYPE_SVCB | rtype::HTTPS => Some(2),
        rtype::SRV => Some(6),
        TYPE_NAPTR => {
            // Order and preference, then flags, services and expression as strings.
            (0..3).try_fold(4, |at, _| Some(at + 1 + usize::from(*record.rdata.get(at)?)))
        }
        _ => None,
    }
}
