//! The chain of CNAME and DNAME records from a question to its answer (RFC 1034 3.6.2, RFC 6672 3.2).
//!
//! Only records that belong to the chain of the question are taken from an answer section; whatever else a
//! server puts there is left out.

use crate::wire::{CLASS_IN, Malformed, Message, Name, Record, Section, rtype};

/// The most links that are followed. A longer chain is taken for a loop.
pub(crate) const LINKS_MAX: usize = 16;

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
/// Those of `visit`; malformed records; a chain of over [`LINKS_MAX`] links.
pub(crate) fn follow<E: From<Malformed>>(
    reply: &Message<'_>,
    start: &Name,
    visit: impl FnMut(Position, &Name, &Record<'_>) -> Result<(), E>,
) -> Result<(), E> {
    follow_to_end(reply, start, visit).map(drop)
}

/// The same; returns the name that the chain ends at, which may have no record at all.
///
/// # Errors
/// Those of [`follow`].
pub(crate) fn follow_to_end<E: From<Malformed>>(
    reply: &Message<'_>,
    start: &Name,
    mut visit: impl FnMut(Position, &Name, &Record<'_>) -> Result<(), E>,
) -> Result<Name, E> {
    let mut at = *start;
    // Nearly every server writes the question's name as a pointer to it: that need not be read.
    let asked = reply.qname_octets() == start.as_wire();
    for link in 0..=LINKS_MAX {
        let own = |record: &Record<'_>, at: &Name| {
            if asked && link == 0 && record.owner_is_question_pointer() {
                Ok(true)
            } else {
                record.owner_is(at)
            }
        };
        let Some(next) = next_name(reply, &at)? else {
            each_answer(
                reply,
                |record| {
                    if own(record, &at)? { visit(Position::End, &at, record) } else { Ok(()) }
                },
            )?;
            return Ok(at);
        };
        let mut cname_seen = false;
        each_answer(reply, |record| {
            let linked = signed_type(record).unwrap_or(record.rtype);
            let belongs = match linked {
                // A name has one CNAME record at most (RFC 1034 3.6.2).
                rtype::CNAME if own(record, &at)? => {
                    record.rtype != rtype::CNAME || !std::mem::replace(&mut cname_seen, true)
                }
                rtype::DNAME => is_below(&at, &record.owner()?),
                _ => false,
            };
            if belongs { visit(Position::Link, &at, record) } else { Ok(()) }
        })?;
        at = next;
    }
    Err(Malformed("chain of CNAME records is too long").into())
}

/// The name that the chain goes on to: the target of a CNAME record, or of a DNAME record where a server left
/// the CNAME record out that follows from it.
fn next_name(reply: &Message<'_>, at: &Name) -> Result<Option<Name>, Malformed> {
    if !has_links(reply)? {
        return Ok(None);
    }
    let (mut cname, mut dname) = (None, None);
    each_answer(reply, |record| -> Result<(), Malformed> {
        match record.rtype {
            rtype::CNAME if cname.is_none() && record.owner_is(at)? => {
                cname = Some(record.name_in_rdata(0)?.0);
            }
            rtype::DNAME if dname.is_none() => {
                let owner = record.owner()?;
                if is_below(at, &owner) {
                    dname = Some(at.with_ending(&owner, &record.name_in_rdata(0)?.0)?);
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(cname.or(dname))
}

/// Whether there is any chain at all; mostly there is none, and no name need be read.
fn has_links(reply: &Message<'_>) -> Result<bool, Malformed> {
    let mut found = false;
    each_answer(reply, |record| -> Result<(), Malformed> {
        found |= matches!(record.rtype, rtype::CNAME | rtype::DNAME);
        Ok(())
    })?;
    Ok(found)
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
