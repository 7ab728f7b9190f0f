//! The chain of CNAME and DNAME records from a question to its answer (RFC 1034 3.6.2, RFC 6672 3.2).
//!
//! Only records that belong to the chain of the question are taken from an answer section; whatever else a
//! server puts there is left out.

use crate::effort::Effort;
use crate::wire::{CLASS_IN, Malformed, Message, Name, Record, Section, rtype};

/// The most links that are followed. A longer chain is taken for a loop.
pub(crate) const LINKS_MAX: usize = 16;

/// CNAME and DNAME records and their signatures in an answer section at most: each is looked at for each
/// link.
const LINKS_SEEN_MAX: usize = 4 * LINKS_MAX;

/// Where a record of the answer section stands in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// A CNAME or DNAME record, or a signature over one.
    Link,
    /// A record of the name that the chain ends at, whatever its type.
    End,
}

/// Shows `visit` the records of the answer section that belong to the chain from `start`, in the order of the
/// chain, each with its owner in the spelling of the record before it.
///
/// # Errors
/// Those of `visit`; malformed records; a chain of over [`LINKS_MAX`] links, more CNAME and DNAME records
/// than any chain has, or names that cost too much to compare.
pub(crate) fn follow<E: From<Malformed>>(
    reply: &Message<'_>,
    start: &Name,
    visit: impl FnMut(Position, &Name, &Record<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut effort = Effort::of_message(reply.octets().len());
    follow_to_end(reply, start, &mut effort, visit).map(drop)
}

/// The same within an effort; returns the name that the chain ends at, which may have no record at all.
///
/// # Errors
/// Those of [`follow`].
pub(crate) fn follow_to_end<E: From<Malformed>>(
    reply: &Message<'_>,
    start: &Name,
    effort: &mut Effort,
    mut visit: impl FnMut(Position, &Name, &Record<'_>) -> Result<(), E>,
) -> Result<Name, E> {
    let mut owner = OwnerTest::new(reply, start);
    // Mostly there is no chain, and no link to remember.
    if has_links(reply)? {
        follow_links(reply, &mut owner, effort, &mut visit)?;
    }
    each_answer(reply, |record| {
        if owner.is_of(record, effort)? { visit(Position::End, &owner.name, record) } else { Ok(()) }
    })?;
    Ok(owner.name)
}

/// Shows `visit` the links of a chain; `owner` is the name at its end then.
///
/// # Errors
/// Those of [`follow`].
fn follow_links<E: From<Malformed>>(
    reply: &Message<'_>,
    owner: &mut OwnerTest,
    effort: &mut Effort,
    visit: &mut impl FnMut(Position, &Name, &Record<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let links = Links::of(reply, effort)?;
    for _ in 0..=LINKS_MAX {
        let Some((next, belonging)) = links.from(reply, owner, effort)? else { return Ok(()) };
        for place in (0..links.count).filter(|place| belonging >> place & 1 != 0) {
            visit(Position::Link, &owner.name, &links.record(reply, place)?)?;
        }
        *owner = OwnerTest { name: next, is_asked: false, last: None };
    }
    Err(Malformed("chain of CNAME records is too long").into())
}

/// Whether an answer section has records that a chain may have.
fn has_links(reply: &Message<'_>) -> Result<bool, Malformed> {
    let mut found = false;
    each_answer(reply, |record| -> Result<(), Malformed> {
        found |= matches!(record.rtype, rtype::CNAME | rtype::DNAME);
        Ok(())
    })?;
    Ok(found)
}

/// Tells the records of one name from others.
struct OwnerTest {
    name: Name,
    /// The name is the question's. Nearly every server writes that as a pointer: it need not be read.
    is_asked: bool,
    /// The last owner that was a pointer alone, and whether the name stands there. The records of one name
    /// mostly point to one place.
    last: Option<([u8; 2], bool)>,
}

impl OwnerTest {
    fn new(reply: &Message<'_>, name: &Name) -> Self {
        Self { name: *name, is_asked: reply.qname_octets() == name.as_wire(), last: None }
    }

    fn is_of(&mut self, record: &Record<'_>, effort: &mut Effort) -> Result<bool, Malformed> {
        if self.is_asked && record.owner_is_question_pointer() {
            return Ok(true);
        }
        let pointer = record.owner_pointer();
        if let (Some(pointer), Some((last, known))) = (pointer, self.last)
            && pointer == last
        {
            return Ok(known);
        }
        let is_own = record.owner_is(&self.name, effort)?;
        self.last = pointer.map(|pointer| (pointer, is_own));
        Ok(is_own)
    }
}

/// The records of an answer section that a chain may have.
struct Links {
    places: [Place; LINKS_SEEN_MAX],
    count: usize,
}

/// Where the owner and the type of a record stand, and the owner's hash.
#[derive(Clone, Copy, Default)]
struct Place {
    owner_at: u16,
    type_at: u16,
    owner_hash: u64,
}

impl Links {
    fn of(reply: &Message<'_>, effort: &mut Effort) -> Result<Self, Malformed> {
        let mut links = Self { places: [Place::default(); LINKS_SEEN_MAX], count: 0 };
        each_answer(reply, |record| {
            if !matches!(linked_type(record), rtype::CNAME | rtype::DNAME) {
                return Ok(());
            }
            let place = links.places.get_mut(links.count);
            let place = place.ok_or(Malformed("too many CNAME and DNAME records"))?;
            let octets = |at: usize| u16::try_from(at).map_err(|_| Malformed("over 65535 octets"));
            *place = Place {
                owner_at: octets(record.position())?,
                type_at: octets(record.type_position())?,
                owner_hash: record.owner_within(effort)?.folded_hash(),
            };
            links.count += 1;
            Ok::<_, Malformed>(())
        })?;
        Ok(links)
    }

    fn record<'a>(&self, reply: &Message<'a>, place: usize) -> Result<Record<'a>, Malformed> {
        let Place { owner_at, type_at, .. } = self.places[place];
        Record::at(reply.octets(), Section::Answer, owner_at.into(), type_at.into())
    }

    /// The name that the chain goes on to: the target of a CNAME record, or of a DNAME record where a server
    /// left the CNAME record out that follows from it. With it come the places of the records that belong to
    /// the link, a bit for each.
    fn from(
        &self,
        reply: &Message<'_>,
        owner: &mut OwnerTest,
        effort: &mut Effort,
    ) -> Result<Option<(Name, u64)>, Malformed> {
        let (mut cname, mut dname, mut belonging) = (None, None, 0u64);
        let hash = if self.count > 0 { owner.name.folded_hash() } else { 0 };
        for place in 0..self.count {
            let record = self.record(reply, place)?;
            let belongs = match linked_type(&record) {
                // A name has one CNAME record at most (RFC 1034 3.6.2).
                rtype::CNAME => {
                    let is_first = record.rtype != rtype::CNAME || cname.is_none();
                    is_first && self.places[place].owner_hash == hash && owner.is_of(&record, effort)?
                }
                _ => {
                    let above = record.owner_within(effort)?;
                    effort.spend(owner.name.as_wire().len() / 2)?;
                    let belongs = is_below(&owner.name, &above);
                    if belongs && record.rtype == rtype::DNAME && dname.is_none() {
                        let (target, _) = record.name_in_rdata_within(0, effort)?;
                        dname = Some(owner.name.with_ending(&above, &target)?);
                    }
                    belongs
                }
            };
            if belongs && record.rtype == rtype::CNAME {
                cname = Some(record.name_in_rdata_within(0, effort)?.0);
            }
            belonging |= u64::from(belongs) << place;
        }
        Ok(cname.or(dname).map(|next| (next, belonging)))
    }
}

/// The type of a record, or of the records that it signs.
fn linked_type(record: &Record<'_>) -> u16 {
    signed_type(record).unwrap_or(record.rtype)
}

/// A DNAME record says nothing about its own name.
fn is_below(name: &Name, ancestor: &Name) -> bool {
    name != ancestor && name.is_under(ancestor)
}

/// Visits the records of the answer section that are of class IN.
fn each_answer<E: From<Malformed>>(
    reply: &Message<'_>,
    mut visit: impl FnMut(&Record<'_>) -> Result<(), E>,
) -> Result<(), E> {
    for record in reply.records() {
        let record = record?;
        if record.section != Section::Answer {
            break;
        }
        if record.class == CLASS_IN {
            visit(&record)?;
        }
    }
    Ok(())
}

/// The type of the records that a signature is over (RFC 4034 3.1.1).
pub(crate) fn signed_type(record: &Record<'_>) -> Option<u16> {
    let covered = record.rdata.first_chunk().filter(|_| record.rtype == rtype::RRSIG)?;
    Some(u16::from_be_bytes(*covered))
}
