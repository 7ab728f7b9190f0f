//! What may happen in a conversation, and how it stands in an input.

use dns64::wire::{CLASS_IN, Edns, HEADER_LENGTH, Header, Message, Name, Overflow, Section, Writer, rtype};

use super::super::input::Input;

/// One step of a conversation: an octet for its kind, modulo 8, and its fields. Queries to upstream servers
/// are counted from the latest, 0, backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'i> {
    /// 0: a client of this kind sends these octets, which stand behind their number in two octets.
    Client { kind: u8, octets: &'i [u8] },
    /// 1: an upstream server answers a query: its ID and question, the second word of the header, three
    /// counts in an octet each, and records, which stand behind the number of their octets in two.
    Reply { query: u8, flags: u16, counts: [u8; 3], records: &'i [u8] },
    /// 2: these octets come where the reply to a query belongs; if `id` is odd, with the query's ID.
    Forged { query: u8, id: u8, octets: &'i [u8] },
    /// 3: time passes.
    Wait { units: u16 },
    /// 4: the stream of a query ends.
    StreamEnd { query: u8 },
    /// 5: nothing listens where a query went.
    Unreachable { query: u8 },
    /// 6: another client sends what one sent before, counted from the latest.
    Again { kind: u8, message: u8 },
    /// 7: an upstream server answers a query with an RCODE and with records of which each is an octet: its
    /// type in the lower three bits, its TTL in the next two. They stand behind their number in one octet.
    Told { query: u8, rcode: u8, records: &'i [u8] },
}

impl<'i> Operation<'i> {
    /// Takes an operation from the front of an input.
    pub fn decode(input: &mut Input<'i>) -> Self {
        match input.octet() % 8 {
            0 => Self::Client { kind: input.octet(), octets: input.counted() },
            1 => Self::Reply {
                query: input.octet(),
                flags: input.word(),
                counts: input.array(),
                records: input.counted(),
            },
            2 => Self::Forged { query: input.octet(), id: input.octet(), octets: input.counted() },
            3 => Self::Wait { units: input.word() },
            4 => Self::StreamEnd { query: input.octet() },
            5 => Self::Unreachable { query: input.octet() },
            6 => Self::Again { kind: input.octet(), message: input.octet() },
            _ => {
                let (query, rcode, records) = (input.octet(), input.octet(), input.octet());
                Self::Told { query, rcode, records: input.take(records.into()) }
            }
        }
    }

    /// Appends the operation to an input.
    pub fn encode(&self, input: &mut Vec<u8>) {
        let counted = |octets: &[u8]| [&(octets.len() as u16).to_be_bytes(), octets].concat();
        match *self {
            Self::Client { kind, octets } => input.extend([&[0, kind], &counted(octets)[..]].concat()),
            Self::Reply { query, flags, counts: [answers, authorities, additionals], records } => {
                let [high, low] = flags.to_be_bytes();
                input.extend([1, query, high, low, answers, authorities, additionals]);
                input.extend(counted(records));
            }
            Self::Forged { query, id, octets } => {
                input.extend([&[2, query, id], &counted(octets)[..]].concat());
            }
            Self::Wait { units } => input.extend([&[3], &units.to_be_bytes()[..]].concat()),
            Self::StreamEnd { query } => input.extend([4, query]),
            Self::Unreachable { query } => input.extend([5, query]),
            Self::Again { kind, message } => input.extend([6, kind, message]),
            Self::Told { query, rcode, records } => {
                input.extend([&[7, query, rcode, records.len() as u8], records].concat());
            }
        }
    }

    /// The reply to these octets of a query.
    pub(super) fn reply_to(&self, query: &[u8]) -> Option<Vec<u8>> {
        let end = Message::parse(query).expect("the machine's own query").question_end();
        match *self {
            Self::Reply { flags, counts: [answers, authorities, additionals], records, .. } => {
                let [high, low] = (flags | Header::QR).to_be_bytes();
                let head = [query[0], query[1], high, low, 0, 1, 0, answers, 0, authorities, 0, additionals];
                Some([&head, &query[HEADER_LENGTH..end], records].concat())
            }
            Self::Forged { id, octets, .. } => {
                let mut octets = octets.to_vec();
                if let Some(place) = octets.get_mut(..2).filter(|_| id % 2 == 1) {
                    place.copy_from_slice(&query[..2]);
                }
                Some(octets)
            }
            Self::Told { rcode, records, .. } => told(query, rcode, records).ok(),
            _ => None,
        }
    }
}

/// Units below 2^15 are 10 ms each, the others 10 s.
pub(super) fn duration_ns(units: u16) -> u64 {
    let unit_ns = if units >> 15 == 0 { 10_000_000 } else { 10_000_000_000 };
    u64::from(units & 0x7fff) * unit_ns
}

fn told(query: &[u8], rcode: u8, records: &[u8]) -> Result<Vec<u8>, Overflow> {
    const TTLS_S: [u32; 4] = [60, 1, 0, u32::MAX];
    let question = Message::parse(query).expect("the machine's own query").question();
    let id = u16::from_be_bytes([query[0], query[1]]);
    let mut out = vec![0; 8192];
    let mut writer = Writer::new(&mut out, id, Header::QR | u16::from(rcode & 15), &question)?;
    for &record in records {
        put(&mut writer, &question.name, record & 7, TTLS_S[usize::from(record >> 3 & 3)])?;
    }
    let length = writer.finish();
    out.truncate(length);
    Ok(out)
}

fn put(writer: &mut Writer<'_>, name: &Name, kind: u8, ttl_s: u32) -> Result<(), Overflow> {
    let elsewhere = Name::from_text("www.example").unwrap_or(Name::ROOT);
    let answer = Section::Answer;
    let mut alias = |target: &Name| {
        writer.record_with(answer, name, rtype::CNAME, CLASS_IN, ttl_s, |writer| writer.name(target))
    };
    match kind {
        0 => writer.record(answer, name, rtype::A, CLASS_IN, ttl_s, &[192, 0, 2, 1]),
        1 => writer.record(answer, name, rtype::AAAA, CLASS_IN, ttl_s, &[0x20; 16]),
        2 => alias(name),
        3 => alias(&elsewhere),
        4 => writer.record(answer, &elsewhere, rtype::A, CLASS_IN, ttl_s, &[192, 0, 2, 2]),
        5 => writer.record(Section::Authority, &Name::ROOT, rtype::SOA, CLASS_IN, ttl_s, &[0; 22]),
        // An extended error of failed validation (RFC 8914 4.7).
        6 => {
            let edns = Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: false };
            writer.edns(&edns, &[0, 15, 0, 2, 0, 6])
        }
        _ => writer.record(Section::Additional, &elsewhere, rtype::AAAA, CLASS_IN, ttl_s, &[0x20; 16]),
    }
}
