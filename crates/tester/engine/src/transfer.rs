//! A zone transfer (AXFR, RFC 5936), message by message.

use std::fmt;

use dns64::wire::{CLASS_IN, HEADER_LENGTH, Header, Malformed, Name, Record, Records, Section, rcode, rtype};

use crate::matcher::rcode_name;
use crate::workload::question;

/// AXFR as a type of queries (RFC 5936).
const TYPE_AXFR: u16 = 252;

/// Why what a server sends is no transfer of the zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferFault {
    /// Another RCODE than NOERROR.
    Rcode(u8),
    /// Anything else.
    Malformed(String),
}

impl fmt::Display for TransferFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rcode(code) => f.write_str(&rcode_name(*code)),
            Self::Malformed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for TransferFault {}

impl From<Malformed> for TransferFault {
    fn from(why: Malformed) -> Self {
        Self::Malformed(why.0.to_owned())
    }
}

fn malformed<T>(why: impl Into<String>) -> Result<T, TransferFault> {
    Err(TransferFault::Malformed(why.into()))
}

/// The SOA record of the zone, its names written in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Soa {
    primary: Name,
    mailbox: Name,
    numbers: [u8; 20],
}

/// A transfer of which some messages have come.
#[derive(Clone, Debug)]
pub struct Axfr {
    zone: Name,
    id: u16,
    begin: Option<Soa>,
    is_over: bool,
    messages: u64,
    records: u64,
    octets: u64,
}

impl Axfr {
    /// A transfer that is asked for with this ID.
    pub fn new(zone: Name, id: u16) -> Self {
        Self { zone, id, begin: None, is_over: false, messages: 0, records: 0, octets: 0 }
    }

    /// The query, in wire format.
    pub fn query(&self) -> Vec<u8> {
        let mut query = vec![0; HEADER_LENGTH];
        query[..2].copy_from_slice(&self.id.to_be_bytes());
        query[5] = 1;
        query.extend(self.zone.as_wire());
        query.extend([TYPE_AXFR.to_be_bytes(), CLASS_IN.to_be_bytes()].concat());
        query
    }

    /// The messages taken.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// The records of the zone in them, without the SOA record that ends the transfer.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The octets of the messages.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// The serial of the zone; `None` before its SOA record has come.
    pub fn serial(&self) -> Option<u32> {
        let numbers = self.begin?.numbers;
        Some(u32::from_be_bytes([numbers[0], numbers[1], numbers[2], numbers[3]]))
    }

    /// Takes the next message; tells whether it was the last.
    ///
    /// # Errors
    /// It is none of this transfer. The transfer is over.
    pub fn take(&mut self, message: &[u8]) -> Result<bool, TransferFault> {
        self.messages += 1;
        self.octets += message.len() as u64;
        let header = Header::parse(message)?;
        let question_end = self.check(&header, message)?;
        for record in Records::new(message, &header, question_end) {
            let record = record?;
            if record.section == Section::Answer {
                self.take_record(&record)?;
            }
        }
        if self.begin.is_none() {
            return malformed("the first message has no record, where the SOA record of the zone must stand");
        }
        Ok(self.is_over)
    }

    /// Whether a message belongs to the transfer, and where its records begin. Messages after the first one
    /// may have no question (RFC 5936 2.2.1).
    fn check(&self, header: &Header, message: &[u8]) -> Result<usize, TransferFault> {
        if header.id != self.id {
            return malformed(format!("the message has the ID {}, and the query {}", header.id, self.id));
        }
        if !header.has(Header::QR) || header.opcode() != 0 {
            return malformed("the message is no response to a query");
        }
        if header.rcode() != rcode::NOERROR {
            return Err(TransferFault::Rcode(header.rcode()));
        }
        if header.has(Header::TC) {
            return malformed("the message is truncated (TC)");
        }
        if header.counts[0] == 0 && self.messages > 1 {
            return Ok(HEADER_LENGTH);
        }
        let Some(end) = question::end(message) else { return malformed("the message has not one question") };
        let asked = [TYPE_AXFR.to_be_bytes(), CLASS_IN.to_be_bytes()].concat();
        if Name::parse(message, HEADER_LENGTH)?.0 != self.zone || message[end - 4..end] != asked {
            return malformed("the message repeats another question");
        }
        Ok(end)
    }

    fn take_record(&mut self, record: &Record<'_>) -> Result<(), TransferFault> {
        let owner = record.owner()?;
        if self.is_over {
            return malformed("a record follows the SOA record that ends the transfer");
        }
        if !owner.is_under(&self.zone) {
            return malformed(format!("the record of {owner} is of another zone"));
        }
        if record.class != CLASS_IN {
            return malformed(format!("the record of {owner} is of class {}", record.class));
        }
        let soa = if record.rtype == rtype::SOA && owner == self.zone { Some(soa(record)?) } else { None };
        match (self.begin, soa) {
            (None, None) => return malformed("the first record is not the SOA record of the zone"),
            (None, Some(soa)) => self.begin = Some(soa),
            (Some(begin), Some(soa)) if begin == soa => {
                self.is_over = true;
                return Ok(());
            }
            (Some(_), Some(_)) => {
                return malformed("the SOA record at the end is not the one at the beginning");
            }
            (Some(_), None) => {}
        }
        self.records += 1;
        Ok(())
    }
}

fn soa(record: &Record<'_>) -> Result<Soa, TransferFault> {
    let (primary, at) = record.name_in_rdata(0)?;
    let (mailbox, at) = record.name_in_rdata(at)?;
    let numbers = record.rdata.get(at..).and_then(|rest| rest.try_into().ok());
    let Some(numbers) = numbers else { return malformed("the SOA record has not five numbers") };
    Ok(Soa { primary, mailbox, numbers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns64::wire::{Question, Writer};
    use proptest::prelude::*;

    const ID: u16 = 77;

    fn name(text: &str) -> Name {
        Name::from_text(text).unwrap()
    }

    fn axfr() -> Axfr {
        Axfr::new(name("zone.test"), ID)
    }

    /// RDATA of an SOA record.
    fn soa_data(serial: u32) -> Vec<u8> {
        let mut rdata = [name("ns.zone.test").as_wire(), name("host.zone.test").as_wire()].concat();
        for number in [serial, 1, 2, 3, 4] {
            rdata.extend(number.to_be_bytes());
        }
        rdata
    }

    /// A message with these records: owner, type and RDATA.
    fn message(id: u16, flags: u16, records: &[(&str, u16, Vec<u8>)]) -> Vec<u8> {
        message_of(CLASS_IN, id, flags, records)
    }

    fn message_of(class: u16, id: u16, flags: u16, records: &[(&str, u16, Vec<u8>)]) -> Vec<u8> {
        let mut buffer = [0; 2000];
        let question = Question { name: name("zone.test"), qtype: TYPE_AXFR, qclass: CLASS_IN };
        let mut writer = Writer::new(&mut buffer, id, Header::QR | flags, &question).unwrap();
        for (owner, rtype, rdata) in records {
            writer.record(Section::Answer, &name(owner), *rtype, class, 60, rdata).unwrap();
        }
        let length = writer.finish();
        buffer[..length].to_vec()
    }

    fn without_question(message: &[u8]) -> Vec<u8> {
        let end = question::end(message).unwrap();
        let mut short = [&message[..HEADER_LENGTH], &message[end..]].concat();
        short[5] = 0;
        short
    }

    #[test]
    fn the_query_asks_for_the_zone() {
        let query = axfr().query();
        assert_eq!(question::check_request(&query), Ok(()));
        assert_eq!(query[..6], [0, 77, 0, 0, 0, 1]);
        assert_eq!(query[HEADER_LENGTH..], *b"\x04zone\x04test\0\0\xfc\0\x01");
    }

    #[test]
    fn records_are_counted_from_one_soa_to_the_other() {
        let a = |owner| (owner, 1, vec![192, 0, 2, 1]);
        let mut transfer = axfr();
        let first = message(ID, 0, &[("zone.test", 6, soa_data(9)), a("a.zone.test"), a("ZONE.test")]);
        assert_eq!(transfer.take(&first), Ok(false));
        let second = without_question(&message(ID, 0, &[]));
        assert_eq!(transfer.take(&second), Ok(false));
        let third = message(ID, 0, &[a("b.c.zone.test"), ("zone.TEST", 6, soa_data(9))]);
        assert_eq!(transfer.take(&third), Ok(true));
        assert_eq!((transfer.messages(), transfer.records(), transfer.serial()), (3, 4, Some(9)));
        assert_eq!(transfer.octets(), (first.len() + second.len() + third.len()) as u64);
        let at_once = message(ID, 0, &[("zone.test", 6, soa_data(9)), ("zone.test", 6, soa_data(9))]);
        assert_eq!(axfr().take(&at_once), Ok(true));
    }

    #[test]
    fn what_is_no_transfer_says_why() {
        let begin = [("zone.test", 6, soa_data(9))];
        let mut other_question = message(ID, 0, &begin);
        other_question[HEADER_LENGTH + 1] ^= 1;
        let mut query = message(ID, 0, &[]);
        query[2] = 0;
        for (message, why) in [
            (vec![0; 5], "shorter than a header"),
            (message(ID + 1, 0, &begin), "the message has the ID 78, and the query 77"),
            (query, "no response"),
            (message(ID, 5, &[]), "REFUSED"),
            (message(ID, 9, &begin), "NOTAUTH"),
            (message(ID, Header::TC, &begin), "truncated"),
            (message(ID, 0, &[]), "has no record"),
            (without_question(&message(ID, 0, &begin)), "not one question"),
            (other_question, "another question"),
            (message(ID, 0, &[("a.zone.test", 1, vec![1; 4])]), "the first record is not the SOA record"),
            (
                message(ID, 0, &[("zone2.test", 6, soa_data(9))]),
                "the record of zone2.test. is of another zone",
            ),
            (message(ID, 0, &[begin[0].clone(), ("test", 1, vec![1; 4])]), "of another zone"),
            (message(ID, 0, &[("zone.test", 6, vec![0; 10])]), "five numbers"),
            (
                message(ID, 0, &[begin[0].clone(), ("zone.test", 6, soa_data(10))]),
                "is not the one at the beginning",
            ),
            (message(ID, 0, &[begin[0].clone(), begin[0].clone(), begin[0].clone()]), "a record follows"),
            (message_of(3, ID, 0, &begin), "of class 3"),
        ] {
            let fault = axfr().take(&message).unwrap_err().to_string();
            assert!(fault.contains(why), "{why}: {fault}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_taken_without_a_panic(
            octets in prop::collection::vec(any::<u8>(), 0..200), at: usize, value: u8
        ) {
            let _ = axfr().take(&octets);
            let mut changed = message(ID, 0, &[("zone.test", 6, soa_data(9)), ("zone.test", 6, soa_data(9))]);
            let at = at % changed.len();
            changed[at] = value;
            let _ = axfr().take(&changed);
            changed.truncate(at);
            prop_assert!(axfr().take(&changed) != Ok(true));
        }
    }
}
