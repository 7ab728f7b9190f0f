//! What the records of a zone transfer mean, in their order (RFC 5936 2.2, RFC 1995 4).

use dns64::wire::{CLASS_IN, Name, Record, rtype};
use record::TransferAnswer;

use super::{TransferFault, malformed};

/// The SOA record of the zone, its names written in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Soa {
    primary: Name,
    mailbox: Name,
    numbers: [u8; 20],
}

impl Soa {
    fn read(record: &Record<'_>) -> Result<Self, TransferFault> {
        let (primary, at) = record.name_in_rdata(0)?;
        let (mailbox, at) = record.name_in_rdata(at)?;
        let numbers = record.rdata.get(at..).and_then(|rest| rest.try_into().ok());
        let Some(numbers) = numbers else { return malformed("the SOA record has not five numbers") };
        Ok(Self { primary, mailbox, numbers })
    }

    fn serial(&self) -> u32 {
        let [a, b, c, d, ..] = self.numbers;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// Where in the transfer the next record stands.
#[derive(Clone, Debug)]
enum Place {
    /// Nothing has come.
    Start,
    /// The SOA record of the zone has come. The next record tells what the transfer is.
    Begun,
    /// Among the records of the zone.
    Zone,
    /// Among those that the zone no longer has.
    Removed,
    /// Among those that the zone got with the version of this serial.
    Added(u32),
    /// Behind the last one.
    Over(TransferAnswer),
}

/// The records of a transfer, as far as they have come.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub zone: Name,
    since: Option<u32>,
    begin: Option<Soa>,
    place: Place,
    /// Records of the whole zone, or the SOA record at the beginning of a difference.
    listed: u64,
    pub removed: u64,
    pub added: u64,
}

impl Content {
    /// Of a zone, since the version of this serial or as a whole.
    pub fn new(zone: Name, since: Option<u32>) -> Self {
        Self { zone, since, begin: None, place: Place::Start, listed: 0, removed: 0, added: 0 }
    }

    /// All records but the SOA record that ends the transfer.
    pub fn records(&self) -> u64 {
        self.listed + self.removed + self.added
    }

    /// The serial of the zone; `None` before its SOA record has come.
    pub fn serial(&self) -> Option<u32> {
        self.begin.as_ref().map(Soa::serial)
    }

    /// What the transfer was; `None` before its end.
    pub fn answer(&self) -> Option<&TransferAnswer> {
        if let Place::Over(answer) = &self.place { Some(answer) } else { None }
    }

    /// Takes the next record of an answer section.
    ///
    /// # Errors
    /// It is none of the transfer.
    pub fn take(&mut self, record: &Record<'_>) -> Result<(), TransferFault> {
        let owner = record.owner()?;
        if self.answer().is_some() {
            return malformed("a record follows the SOA record that ends the transfer");
        }
        if !owner.is_under(&self.zone) {
            return malformed(format!("the record of {owner} is of another zone"));
        }
        if record.class != CLASS_IN {
            return malformed(format!("the record of {owner} is of class {}", record.class));
        }
        if record.rtype == rtype::SOA && owner == self.zone {
            return self.take_soa(Soa::read(record)?);
        }
        match self.place {
            Place::Start => return malformed("the first record is not the SOA record of the zone"),
            Place::Removed => self.removed += 1,
            Place::Added(_) => self.added += 1,
            _ => {
                self.place = Place::Zone;
                self.listed += 1;
            }
        }
        Ok(())
    }

    fn take_soa(&mut self, soa: Soa) -> Result<(), TransferFault> {
        let Some(begin) = self.begin else {
            (self.begin, self.place, self.listed) = (Some(soa), Place::Begun, 1);
            return Ok(());
        };
        match (&self.place, self.since) {
            (Place::Removed, _) => {
                self.place = Place::Added(soa.serial());
                self.added += 1;
            }
            (Place::Begun, Some(since)) if soa != begin => self.begin_difference(&soa, since)?,
            (Place::Added(serial), _) if *serial != begin.serial() => self.begin_difference(&soa, *serial)?,
            _ if soa != begin => {
                return malformed("the SOA record at the end is not the one at the beginning");
            }
            (Place::Added(_), _) => self.place = Place::Over(TransferAnswer::Incremental),
            _ => self.place = Place::Over(TransferAnswer::Full),
        }
        Ok(())
    }

    /// Takes the SOA record of the version from which a difference leads on.
    fn begin_difference(&mut self, soa: &Soa, from: u32) -> Result<(), TransferFault> {
        if soa.serial() != from {
            return malformed(format!("a difference is from serial {}, not from {from}", soa.serial()));
        }
        self.place = Place::Removed;
        self.removed += 1;
        Ok(())
    }

    /// Ends a message: the asker is up to date if the first one has the SOA record alone, of a version that
    /// is not newer than the asker's (RFC 1995 2).
    ///
    /// # Errors
    /// Not even that has come.
    pub fn end_message(&mut self, is_first: bool) -> Result<(), TransferFault> {
        let Some(begin) = &self.begin else {
            return malformed("the first message has no record, where the SOA record of the zone must stand");
        };
        let is_alone = is_first && matches!(self.place, Place::Begun);
        if is_alone && self.since.is_some_and(|since| !is_newer(begin.serial(), since)) {
            self.place = Place::Over(TransferAnswer::UpToDate);
        }
        Ok(())
    }
}

/// Whether a serial is greater than another (RFC 1982 3.2).
fn is_newer(serial: u32, than: u32) -> bool {
    (1..1 << 31).contains(&serial.wrapping_sub(than))
}
