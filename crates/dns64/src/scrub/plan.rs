//! Which records of a reply belong to its question.

use super::{Malformed, Message, Name, Record, Section, TYPE_TSIG, rtype};
use crate::chain::{LINKS_MAX, follow_to_end, signed_type};
use crate::wire::CLASS_IN;

/// The longest message, in octets.
const MESSAGE_OCTETS_MAX: usize = u16::MAX as usize;
/// The shortest record: the root's name, type, class, TTL and the length of its RDATA, in octets.
const RECORD_OCTETS_MIN: usize = 11;
const MARKS: usize = MESSAGE_OCTETS_MAX.div_ceil(RECORD_OCTETS_MIN).div_ceil(64);

/// CNAME and DNAME records and their signatures in an answer section. A longer chain is not followed, and looking for
/// each link among thousands of others would take long.
const LINKS_SEEN_MAX: usize = 4 * LINKS_MAX;
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

/// The records to keep.
pub(super) struct Plan {
    /// A bit for each place where a record may begin: no two begin within the same eleven octets.
    marks: [u64; MARKS],
}

impl Plan {
    pub(super) fn of(reply: &Message<'_>) -> Result<Self, Malformed> {
        if reply.octets().len() > MESSAGE_OCTETS_MAX {
            return Err(Malformed("over 65535 octets"));
        }
        let mut plan = Self { marks: [0; MARKS] };
        let chain = plan.mark_answers(reply)?;
        plan.mark_authorities(reply, &chain)?;
        plan.mark_additionals(reply, &chain)?;
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

    /// Marks the answer section; returns the names of the chain.
    fn mark_answers(&mut self, reply: &Message<'_>) -> Result<Names<{ LINKS_MAX + 2 }>, Malformed> {
        let asked = &reply.question;
        let mut names = Names::new();
        if asked.qclass != CLASS_IN || asked.qtype == rtype::ANY {
            names.add(&asked.name);
            for record in section(reply, Section::Answer) {
                let record = record?;
                if fits_class(reply, &record) && record.owner()? == asked.name {
                    self.mark(&record);
                }
            }
            return Ok(names);
        }
        check_links(reply)?;
        let end = follow_to_end(reply, &asked.name, |_, name, record| {
            names.add(name);
            self.mark(record);
            Ok::<_, Malformed>(())
        })?;
        names.add(&end);
        Ok(names)
    }

    fn mark_authorities<const N: usize>(
        &mut self,
        reply: &Message<'_>,
        chain: &Names<N>,
    ) -> Result<(), Malformed> {
        let zones = zones(reply, chain)?;
        for record in section(reply, Section::Authority).take(RECORDS_MAX) {
            let record = record?;
            let owner = record.owner()?;
            let proof = is_proof(signed_type(&record).unwrap_or(record.rtype));
            let belongs = chain.any_under(&owner) || proof && zones.any_above(&owner);
            if belongs && fits_class(reply, &record) {
                self.mark(&record);
            }
        }
        Ok(())
    }

    fn mark_additionals<const N: usize>(
        &mut self,
        reply: &Message<'_>,
        chain: &Names<N>,
    ) -> Result<(), Malformed> {
        if reply.header.counts[3] == 0 {
            return Ok(());
        }
        let targets = self.targets(reply)?;
        for (n, record) in section(reply, Section::Additional).enumerate() {
            let record = record?;
            let belongs = match record.rtype {
                rtype::OPT => true,
                TYPE_TSIG => false,
                _ if n >= RECORDS_MAX || !fits_class(reply, &record) => false,
                _ => {
                    let owner = record.owner()?;
                    chain.contains(&owner) || targets.contain(reply, &owner)
                }
            };
            if belongs {
                self.mark(&record);
            }
        }
        Ok(())
    }

    /// The names that the records kept so far speak of.
    fn targets(&self, reply: &Message<'_>) -> Result<Targets, Malformed> {
        let mut targets = Targets { places: [0; TARGETS_MAX], count: 0 };
        for record in reply.records() {
            let record = record?;
            if record.section == Section::Additional || targets.count == TARGETS_MAX {
                break;
            }
            if let Some(offset) = target_offset(&record).filter(|_| self.keeps(&record)) {
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
    fn contain(&self, reply: &Message<'_>, name: &Name) -> bool {
        let read = |&place: &usize| Name::parse(reply.octets(), place).ok();
        self.places[..self.count].iter().filter_map(read).any(|(target, _)| target == *name)
    }
}

/// A few names.
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
        if self.count < MAX && self.as_slice().last() != Some(name) && !self.contains(name) {
            self.names[self.count] = *name;
            self.count += 1;
        }
    }

    fn as_slice(&self) -> &[Name] {
        &self.names[..self.count]
    }

    fn contains(&self, name: &Name) -> bool {
        self.as_slice().contains(name)
    }

    /// Whether any of them is `ancestor` or below it.
    fn any_under(&self, ancestor: &Name) -> bool {
        self.as_slice().iter().any(|name| name.is_under(ancestor))
    }

    /// Whether `name` is any of them or below one.
    fn any_above(&self, name: &Name) -> bool {
        self.as_slice().iter().any(|ancestor| name.is_under(ancestor))
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
    reply.question.qclass == CLASS_ANY || record.class == reply.question.qclass
}

/// Refuses an answer section with more links than any chain has.
fn check_links(reply: &Message<'_>) -> Result<(), Malformed> {
    let mut links = 0;
    for record in section(reply, Section::Answer) {
        let record = record?;
        let linked = signed_type(&record).unwrap_or(record.rtype);
        links += usize::from(matches!(linked, rtype::CNAME | rtype::DNAME));
    }
    if links > LINKS_SEEN_MAX { Err(Malformed("too many CNAME and DNAME records")) } else { Ok(()) }
}

/// The zones of the chain's names whose proofs may stand in the authority section: those that have an SOA or NS record
/// there, and those that signed a proof, for a server may leave the others out of a positive answer.
fn zones<const N: usize>(reply: &Message<'_>, chain: &Names<N>) -> Result<Names<ZONES_MAX>, Malformed> {
    let mut zones = Names::new();
    for record in section(reply, Section::Authority).take(RECORDS_MAX) {
        let record = record?;
        if !fits_class(reply, &record) {
            continue;
        }
        let zone = match record.rtype {
            rtype::SOA | rtype::NS => record.owner()?,
            rtype::RRSIG if signed_type(&record).is_some_and(is_proof) => {
                let (signer, _) = record.name_in_rdata(SIGNER_AT)?;
                if !record.owner()?.is_under(&signer) {
                    continue;
                }
                signer
            }
            _ => continue,
        };
        if chain.any_under(&zone) {
            zones.add(&zone);
        }
    }
    Ok(zones)
}

/// Whether records of the type prove that something does not exist (RFC 4035 3.1.3, RFC 5155 7.2).
fn is_proof(rtype: u16) -> bool {
    matches!(rtype, TYPE_NSEC | rtype::NSEC3)
}

/// Where the name begins in RDATA whose records a server may add (RFC 1035 3.3, RFC 2782, RFC 9460 4.1, RFC 3403 4.1).
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
