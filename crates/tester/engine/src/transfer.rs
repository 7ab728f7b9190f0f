//! A zone transfer, whole (AXFR, RFC 5936) or incremental (IXFR, RFC 1995), message by message.

mod content;

use std::fmt;
use std::sync::Arc;

use dns64::wire::{CLASS_IN, HEADER_LENGTH, Header, Malformed, Name, Records, Section, rcode, rtype};
use record::TransferAnswer;

use crate::matcher::rcode_name;
use crate::tsig::{Key, Sequence, TsigDefect};
use crate::workload::question;
use content::Content;

/// IXFR and AXFR as types of queries (RFC 1995, RFC 5936).
const TYPE_IXFR: u16 = 251;
const TYPE_AXFR: u16 = 252;

/// Why what a server sends is no transfer of the zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferFault {
    /// Another RCODE than NOERROR.
    Rcode(u8),
    /// A signature that does not hold.
    Signature(TsigDefect),
    /// Anything else.
    Malformed(String),
}

impl fmt::Display for TransferFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rcode(code) => f.write_str(&rcode_name(*code)),
            Self::Signature(defect) => defect.fmt(f),
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

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The zone.
    pub zone: Name,
    /// The serial from which the changes are asked for (IXFR); `None` asks for the whole zone (AXFR).
    pub since: Option<u32>,
    /// Signs the query; the messages must be signed, too.
    pub key: Option<Arc<Key>>,
}

impl Ask {
    fn question(&self) -> Vec<u8> {
        let qtype = if self.since.is_some() { TYPE_IXFR } else { TYPE_AXFR };
        [self.zone.as_wire(), &qtype.to_be_bytes(), &CLASS_IN.to_be_bytes()].concat()
    }

    /// The query in wire format, without a signature.
    fn query(&self, id: u16) -> Vec<u8> {
        let mut query = vec![0; HEADER_LENGTH];
        query[..2].copy_from_slice(&id.to_be_bytes());
        query[5] = 1;
        query.extend(self.question());
        if let Some(serial) = self.since {
            query[9] = 1;
            // The SOA record of the zone that the asker has; of its data the serial alone counts.
            query.extend([0xc0, HEADER_LENGTH as u8]);
            query.extend([rtype::SOA.to_be_bytes(), CLASS_IN.to_be_bytes()].concat());
            query.extend([0, 0, 0, 0, 0, 22, 0, 0]);
            query.extend(serial.to_be_bytes());
            query.extend([0; 16]);
        }
        query
    }
}

/// A transfer of which some messages have come.
#[derive(Clone, Debug)]
pub struct Incoming {
    question: Vec<u8>,
    id: u16,
    content: Content,
    signatures: Option<Sequence>,
    messages: u64,
    octets: u64,
}

impl Incoming {
    /// A transfer that is asked for with this ID at `now_ns`, and its query in wire format.
    pub fn begin(ask: &Ask, id: u16, now_ns: u64) -> (Self, Vec<u8>) {
        let mut query = ask.query(id);
        let signatures = ask.key.as_ref().and_then(|key| {
            let length = query.len();
            query.resize(length + key.signature_octets(), 0);
            let (_, mac) = key.sign(now_ns, &mut query, length)?;
            Some(Sequence::new(key.clone(), &mac))
        });
        let content = Content::new(ask.zone, ask.since);
        (Self { question: ask.question(), id, content, signatures, messages: 0, octets: 0 }, query)
    }

    /// The messages taken.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// The octets of the messages.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// The records in them, without the SOA record that ends the transfer.
    pub fn records(&self) -> u64 {
        self.content.records()
    }

    /// Of the records, those that the zone no longer has; the SOA records of old versions are among them.
    pub fn removed(&self) -> u64 {
        self.content.removed
    }

    /// Likewise those that the zone has got.
    pub fn added(&self) -> u64 {
        self.content.added
    }

    /// The serial of the zone; `None` before its SOA record has come.
    pub fn serial(&self) -> Option<u32> {
        self.content.serial()
    }

    /// What the transfer was; `None` before its end.
    pub fn answer(&self) -> Option<&TransferAnswer> {
        self.content.answer()
    }

    /// Takes the next message, which came at `now_ns`; tells whether it was the last.
    ///
    /// # Errors
    /// It is none of this transfer. The transfer is over.
    pub fn take(&mut self, now_ns: u64, message: &[u8]) -> Result<bool, TransferFault> {
        self.messages += 1;
        self.octets += message.len() as u64;
        let header = Header::parse(message)?;
        let records_at = self.check(now_ns, &header, message)?;
        for record in Records::new(message, &header, records_at) {
            let record = record?;
            if record.section == Section::Answer {
                self.content.take(&record)?;
            }
        }
        self.content.end_message(self.messages == 1)?;
        let is_over = self.answer().is_some();
        if is_over && let Some(signatures) = &self.signatures {
            signatures.end().map_err(TransferFault::Signature)?;
        }
        Ok(is_over)
    }

    /// Whether a message belongs to the transfer, and where its records begin.
    fn check(&mut self, now_ns: u64, header: &Header, message: &[u8]) -> Result<usize, TransferFault> {
        if header.id != self.id {
            return malformed(format!("the message has the ID {}, and the query {}", header.id, self.id));
        }
        if !header.has(Header::QR) || header.opcode() != 0 {
            return malformed("the message is no response to a query");
        }
        let has_question = header.counts[0] > 0;
        let question_end = if has_question { question::end(message) } else { Some(HEADER_LENGTH) };
        let signed = match (&mut self.signatures, question_end) {
            (Some(signatures), Some(end)) => signatures.take(now_ns, header, message, end),
            (Some(_), None) => Err(TsigDefect::Malformed),
            (None, _) => Ok(()),
        };
        match signed {
            // The server refuses the signature, and says so in more detail than by the RCODE.
            Err(defect @ TsigDefect::Error(_)) => return Err(TransferFault::Signature(defect)),
            _ if header.rcode() != rcode::NOERROR => return Err(TransferFault::Rcode(header.rcode())),
            signed => signed.map_err(TransferFault::Signature)?,
        }
        if header.has(Header::TC) {
            return malformed("the message is truncated (TC)");
        }
        // Messages after the first one may have no question (RFC 5936 2.2.1).
        match question_end {
            Some(end) if !has_question && self.messages > 1 => Ok(end),
            Some(end) if has_question => self.check_question(message, end).map(|()| end),
            _ => malformed("the message has not one question"),
        }
    }

    fn check_question(&self, message: &[u8], end: usize) -> Result<(), TransferFault> {
        let kind = &self.question[self.question.len() - 4..];
        let is_asked =
            Name::parse(message, HEADER_LENGTH)?.0 == self.content.zone && message[end - 4..end] == *kind;
        if is_asked { Ok(()) } else { malformed("the message repeats another question") }
    }
}

#[cfg(test)]
mod tests;
