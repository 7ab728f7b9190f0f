//! Messages, written into a buffer with name compression.

use super::ending::EndingHash;
use super::{Edns, HEADER_LENGTH, Name, Question, Record, Section, rtype};
use crate::effort::Effort;
use crate::steps;

/// The message does not fit into the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

/// Where the names in the RDATA of a type begin, and how many stand there one after the other; none of types
/// whose names must be left as they are (RFC 3597 4, RFC 4034 6.2).
pub fn names_in_rdata(rtype: u16) -> (usize, usize) {
    match rtype {
        rtype::NS | rtype::CNAME | rtype::PTR | rtype::DNAME => (0, 1),
        rtype::MX => (2, 1),
        rtype::SRV => (6, 1),
        rtype::SOA => (0, 2),
        _ => (0, 0),
    }
}

/// Whether names in the RDATA of a type that has some may be compressed.
fn may_compress(rtype: u16) -> bool {
    !matches!(rtype, rtype::DNAME | rtype::SRV)
}

/// How many names a [`Writer`] remembers for compression.
const COMPRESSION_TARGETS: usize = 24;

/// Steps that a [`Writer`] may take to look for equal endings, whatever the length of the message, and for
/// each octet of it. Afterwards names are written out, which is always right, only longer.
const SEARCH_STEPS_FREE: usize = 512;
const SEARCH_STEPS_PER_OCTET: usize = 4;

/// A name in the message that later ones may point to.
#[derive(Clone, Copy, Default)]
struct Target {
    hash: u32,
    at: u16,
    /// The length of the name when it is written out.
    octets: u8,
}

/// Writes a message into a buffer, with name compression; the case of every name is kept.
pub struct Writer<'b> {
    buffer: &'b mut [u8],
    length: usize,
    targets: [Target; COMPRESSION_TARGETS],
    targets_used: usize,
    /// A bit for the hash of each target.
    hashes_seen: u128,
    search_steps: usize,
}

impl<'b> Writer<'b> {
    /// Starts a message: header with zero counts and the question.
    ///
    /// # Errors
    /// The buffer is too small.
    pub fn new(buffer: &'b mut [u8], id: u16, flags: u16, question: &Question) -> Result<Self, Overflow> {
        let mut writer = Self {
            buffer,
            length: 0,
            targets: [Target::default(); COMPRESSION_TARGETS],
            targets_used: 0,
            hashes_seen: 0,
            search_steps: 0,
        };
        let mut header = [0; HEADER_LENGTH];
        header[..2].copy_from_slice(&id.to_be_bytes());
        header[2..4].copy_from_slice(&flags.to_be_bytes());
        header[5] = 1;
        writer.put(&header)?;
        writer.first_name(&question.name)?;
        writer.put(&question.qtype.to_be_bytes())?;
        writer.put(&question.qclass.to_be_bytes())?;
        Ok(writer)
    }

    /// Adds the first name of a message: there is nothing yet that it could point to. Most messages have no
    /// other, so that its endings are hashed when another comes.
    fn first_name(&mut self, name: &Name) -> Result<(), Overflow> {
        self.put(name.as_wire())
    }

    /// Adds a record whose RDATA holds no compressible name. On overflow nothing of it stays.
    ///
    /// # Errors
    /// The record does not fit.
    pub fn record(
        &mut self,
        section: Section,
        owner: &Name,
        rtype: u16,
        class: u16,
        ttl: u32,
        rdata: &[u8],
    ) -> Result<(), Overflow> {
        self.record_with(section, owner, rtype, class, ttl, |writer| writer.put(rdata))
    }

    /// Adds a record whose RDATA `write_rdata` writes. On overflow nothing of it stays.
    ///
    /// # Errors
    /// The record does not fit.
    pub fn record_with(
        &mut self,
        section: Section,
        owner: &Name,
        rtype: u16,
        class: u16,
        ttl: u32,
        write_rdata: impl FnOnce(&mut Self) -> Result<(), Overflow>,
    ) -> Result<(), Overflow> {
        let (length, targets_used) = (self.length, self.targets_used);
        let written = self.try_record(section, owner, rtype, class, ttl, write_rdata);
        if written.is_err() {
            (self.length, self.targets_used) = (length, targets_used);
        }
        written
    }

    fn try_record(
        &mut self,
        section: Section,
        owner: &Name,
        rtype: u16,
        class: u16,
        ttl: u32,
        write_rdata: impl FnOnce(&mut Self) -> Result<(), Overflow>,
    ) -> Result<(), Overflow> {
        self.name(owner)?;
        let [type_high, type_low] = rtype.to_be_bytes();
        let [class_high, class_low] = class.to_be_bytes();
        let [a, b, c, d] = ttl.to_be_bytes();
        self.put(&[type_high, type_low, class_high, class_low, a, b, c, d, 0, 0])?;
        let rdata_at = self.length;
        write_rdata(self)?;
        let rdata_length = u16::try_from(self.length - rdata_at).map_err(|_| Overflow)?;
        self.buffer[rdata_at - 2..rdata_at].copy_from_slice(&rdata_length.to_be_bytes());
        let count_at = 4 + 2 * section as usize;
        let count = u16::from_be_bytes([self.buffer[count_at], self.buffer[count_at + 1]]);
        let count = count.checked_add(1).ok_or(Overflow)?;
        self.buffer[count_at..count_at + 2].copy_from_slice(&count.to_be_bytes());
        Ok(())
    }

    /// Copies a record of another message: names in its RDATA are decompressed where the type may hold
    /// compressed ones (RFC 3597 4). `Ok(false)` means that its names are malformed and nothing was written.
    ///
    /// # Errors
    /// The record does not fit.
    pub fn copy(&mut self, record: &Record<'_>, ttl: u32) -> Result<bool, Overflow> {
        self.copy_within(record, ttl, &mut Effort::of_one_name())
    }

    /// The same with a bound for all names of the other message; `Ok(false)` also where no effort is left.
    ///
    /// # Errors
    /// The record does not fit.
    pub(crate) fn copy_within(
        &mut self,
        record: &Record<'_>,
        ttl: u32,
        effort: &mut Effort,
    ) -> Result<bool, Overflow> {
        let Ok(owner) = record.owner_within(effort) else { return Ok(false) };
        let (first, names) = names_in_rdata(record.rtype);
        if names == 0 {
            let Record { section, rtype, class, rdata, .. } = *record;
            return self.record(section, &owner, rtype, class, ttl, rdata).map(|()| true);
        }
        let mut rdata_names = [Name::ROOT; 2];
        let mut at = first;
        for name in &mut rdata_names[..names] {
            let Ok((read, end)) = record.name_in_rdata_within(at, effort) else { return Ok(false) };
            (*name, at) = (read, end);
        }
        let Record { section, rtype, class, rdata, .. } = *record;
        let may_compress = may_compress(rtype);
        self.record_with(section, &owner, rtype, class, ttl, |writer| {
            writer.put(&rdata[..first])?;
            for name in &rdata_names[..names] {
                if may_compress { writer.name(name)? } else { writer.put(name.as_wire())? }
            }
            writer.put(&rdata[at..])
        })?;
        Ok(true)
    }

    /// Adds uncompressed RDATA of a type; names in it are compressed where the type allows it (RFC 3597 4).
    ///
    /// # Errors
    /// It does not fit.
    pub fn rdata(&mut self, rtype: u16, rdata: &[u8]) -> Result<(), Overflow> {
        let (mut at, names) = names_in_rdata(rtype);
        if names == 0 || !may_compress(rtype) {
            return self.put(rdata);
        }
        self.put(rdata.get(..at).unwrap_or(rdata))?;
        for _ in 0..names {
            let Ok((name, end)) = Name::parse(rdata, at) else { break };
            self.name(&name)?;
            at = end;
        }
        self.put(rdata.get(at..).unwrap_or_default())
    }

    /// Adds an OPT record (RFC 6891 6.1).
    ///
    /// # Errors
    /// The record does not fit.
    pub fn edns(&mut self, edns: &Edns, options: &[u8]) -> Result<(), Overflow> {
        let flags = if edns.dnssec_ok { 0x80 } else { 0 };
        let ttl = u32::from_be_bytes([edns.extended_rcode, edns.version, flags, 0]);
        self.record(Section::Additional, &Name::ROOT, rtype::OPT, edns.payload_octets, ttl, options)
    }

    /// Adds octets as they are.
    ///
    /// # Errors
    /// They do not fit.
    pub fn put(&mut self, octets: &[u8]) -> Result<(), Overflow> {
        steps::add_octets(octets.len());
        let place = self.buffer.get_mut(self.length..self.length + octets.len()).ok_or(Overflow)?;
        place.copy_from_slice(octets);
        self.length += octets.len();
        Ok(())
    }

    /// Adds a name, compressed where an equal ending stands in the message already (RFC 1035 4.1.4).
    ///
    /// # Errors
    /// It does not fit.
    pub fn name(&mut self, name: &Name) -> Result<(), Overflow> {
        let wire = name.as_wire();
        // Most are the question's name, which stands uncompressed behind the header.
        let question = self.buffer[..self.length].get(HEADER_LENGTH..HEADER_LENGTH + wire.len());
        if wire.len() > 1 && question == Some(wire) {
            return self.put(&(0xc000 | HEADER_LENGTH as u16).to_be_bytes());
        }
        if !self.may_search() {
            return self.put(wire);
        }
        if self.targets_used == 0 {
            self.remember_question();
        }
        let (mut hash, mut at) = (self.hash_of(name), 0);
        while wire[at] != 0 {
            if let Some(target) = self.find(hash, &wire[at..]) {
                return self.put(&(0xc000 | target).to_be_bytes());
            }
            self.remember(hash, self.length, wire.len() - at);
            let next = at + 1 + usize::from(wire[at]);
            self.put(&wire[at..next])?;
            hash = hash.without(&wire[at..next]);
            at = next;
        }
        self.put(&[0])
    }

    /// Whether there are steps left to look for equal endings.
    fn may_search(&self) -> bool {
        self.search_steps <= SEARCH_STEPS_FREE + SEARCH_STEPS_PER_OCTET * self.length
    }

    fn note_steps(&mut self, steps: usize) {
        steps::add(steps);
        self.search_steps += steps;
    }

    fn hash_of(&mut self, name: &Name) -> EndingHash {
        let (hash, labels) = EndingHash::of(name);
        self.note_steps(labels);
        hash
    }

    fn find(&mut self, hash: EndingHash, ending: &[u8]) -> Option<u16> {
        let (hash, bit) = hash.parts();
        self.note_steps(1);
        if self.hashes_seen & bit == 0 || !self.may_search() {
            return None;
        }
        self.note_steps(self.targets_used);
        for place in 0..self.targets_used {
            let target = self.targets[place];
            let alike = target.hash == hash && usize::from(target.octets) == ending.len();
            if alike && self.stands_at(target.at.into(), ending) {
                return Some(target.at);
            }
        }
        None
    }

    /// Whether the name written at `at` is `ending`, octet for octet.
    fn stands_at(&mut self, mut at: usize, mut ending: &[u8]) -> bool {
        while self.may_search() {
            self.note_steps(1);
            // The name that is being written may be a target, too: what stands after it is not of this
            // message.
            let message = &self.buffer[..self.length];
            let octet = match message.get(at..) {
                Some(&[high, low, ..]) if high & 0xc0 == 0xc0 => {
                    at = usize::from(u16::from_be_bytes([high & 0x3f, low]));
                    continue;
                }
                Some(&[octet, ..]) => octet,
                _ => return false,
            };
            let label_length = usize::from(octet) + 1;
            let (Some(label), Some(written)) =
                (ending.get(..label_length), message.get(at..at + label_length))
            else {
                return false;
            };
            if label != written {
                return false;
            }
            if octet == 0 {
                return true;
            }
            ending = &ending[label_length..];
            at += label_length;
        }
        false
    }

    fn remember(&mut self, hash: EndingHash, position: usize, octets: usize) {
        if self.targets_used < COMPRESSION_TARGETS && position < 0x4000 {
            let (hash, bit) = hash.parts();
            self.hashes_seen |= bit;
            self.targets[self.targets_used] = Target { hash, at: position as u16, octets: octets as u8 };
            self.targets_used += 1;
        }
    }

    /// Remembers the endings of the question's name.
    fn remember_question(&mut self) {
        let Ok((name, _)) = Name::parse(&self.buffer[..self.length], HEADER_LENGTH) else { return };
        let (wire, mut hash, mut at) = (name.as_wire(), self.hash_of(&name), 0);
        while wire[at] != 0 {
            self.remember(hash, HEADER_LENGTH + at, wire.len() - at);
            let next = at + 1 + usize::from(wire[at]);
            hash = hash.without(&wire[at..next]);
            at = next;
        }
    }

    /// The number of octets written.
    pub fn finish(self) -> usize {
        self.length
    }
}
