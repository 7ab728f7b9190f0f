//! DNS messages in words, for scripted conversations.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::net::{Ipv4Addr, Ipv6Addr};

use dns64::rewrite::ClientQuery;
use dns64::wire::{CLASS_IN, Edns, Header, Message, Name, Question, Section, Writer, rtype};

pub fn name(text: &str) -> Name {
    Name::from_text(text).unwrap()
}

fn type_number(text: &str) -> u16 {
    match text {
        "A" => rtype::A,
        "NS" => rtype::NS,
        "CNAME" => rtype::CNAME,
        "SOA" => rtype::SOA,
        "PTR" => rtype::PTR,
        "MX" => rtype::MX,
        "TXT" => rtype::TXT,
        "AAAA" => rtype::AAAA,
        "DNAME" => rtype::DNAME,
        "RRSIG" => rtype::RRSIG,
        "HTTPS" => 65,
        "ANY" => rtype::ANY,
        other => other.strip_prefix("TYPE").unwrap().parse().unwrap(),
    }
}

fn type_text(number: u16) -> String {
    const KNOWN: [&str; 11] =
        ["A", "NS", "CNAME", "SOA", "PTR", "MX", "TXT", "AAAA", "DNAME", "RRSIG", "HTTPS"];
    KNOWN.into_iter().find(|text| type_number(text) == number).map_or(format!("TYPE{number}"), str::to_owned)
}

/// A question from words: `www.example.com AAAA`.
pub fn question(words: &str) -> Question {
    let (owner, qtype) = words.split_once(' ').unwrap();
    Question { name: name(owner), qtype: type_number(qtype), qclass: CLASS_IN }
}

/// A client's question with RD set.
pub fn asked(words: &str) -> ClientQuery {
    ClientQuery {
        id: 0x1234,
        question: question(words),
        recursion_desired: true,
        checking_disabled: false,
        dnssec_ok: false,
    }
}

/// Writes one record from words: `an www.example.com 300 A 192.0.2.1`; `an`, `ns` and `ar` are the sections.
fn put(writer: &mut Writer<'_>, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let [section, owner, ttl, rtype, rdata @ ..] = words.as_slice() else { panic!("{line}") };
    let section = match *section {
        "an" => Section::Answer,
        "ns" => Section::Authority,
        _ => Section::Additional,
    };
    let (number, ttl) = (type_number(rtype), ttl.parse().unwrap());
    let result = writer.record_with(section, &name(owner), number, CLASS_IN, ttl, |writer| match *rtype {
        "A" => writer.put(&rdata[0].parse::<Ipv4Addr>().unwrap().octets()),
        "AAAA" => writer.put(&rdata[0].parse::<Ipv6Addr>().unwrap().octets()),
        "NS" | "CNAME" | "PTR" | "DNAME" => writer.name(&name(rdata[0])),
        // `SOA MINIMUM`
        "SOA" => {
            writer.name(&name(owner))?;
            writer.name(&name("hostmaster.test"))?;
            writer.put(&[0; 16])?;
            writer.put(&rdata[0].parse::<u32>().unwrap().to_be_bytes())
        }
        // `RRSIG COVERED`
        "RRSIG" => {
            writer.put(&type_number(rdata[0]).to_be_bytes())?;
            writer.put(&[0; 16])?;
            writer.put(&[0, 1, 2, 3])
        }
        _ => writer.put(rdata.first().copied().unwrap_or_default().as_bytes()),
    });
    result.unwrap();
}

/// A reply from words, with records as [`put`] takes them. `opt HEX` adds an OPT record with options.
pub fn reply(id: u16, words: &str, rcode: u8, lines: &[&str]) -> Vec<u8> {
    let mut buffer = vec![0; 65_535];
    let flags = Header::QR | Header::RD | Header::RA | u16::from(rcode);
    let mut writer = Writer::new(&mut buffer, id, flags, &question(words)).unwrap();
    for line in lines {
        if let Some(options) = line.strip_prefix("opt") {
            let edns = Edns { payload_octets: 4096, extended_rcode: 0, version: 0, dnssec_ok: false };
            let options: Vec<u8> =
                options.split_whitespace().map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
            writer.edns(&edns, &options).unwrap();
        } else {
            put(&mut writer, line);
        }
    }
    let length = writer.finish();
    buffer.truncate(length);
    buffer
}

/// A query from words with RD set; `edns` adds an OPT record with this payload size and DO.
pub fn query(id: u16, words: &str, edns: Option<(u16, bool)>) -> Vec<u8> {
    let mut buffer = vec![0; 600];
    let mut writer = Writer::new(&mut buffer, id, Header::RD, &question(words)).unwrap();
    if let Some((payload_octets, dnssec_ok)) = edns {
        writer.edns(&Edns { payload_octets, extended_rcode: 0, version: 0, dnssec_ok }, &[]).unwrap();
    }
    let length = writer.finish();
    buffer.truncate(length);
    buffer
}

/// The records of a message in the words of [`put`]; an OPT record is `opt PAYLOAD`.
pub fn lines(octets: &[u8]) -> Vec<String> {
    let message = Message::parse(octets).unwrap();
    let line = |record: dns64::wire::Record<'_>| {
        if record.rtype == rtype::OPT {
            return format!("opt {}", record.class);
        }
        let section = ["", "an", "ns", "ar"][record.section as usize];
        let owner = record.owner().unwrap().to_string();
        let rdata = match record.rtype {
            rtype::A => Ipv4Addr::from(<[u8; 4]>::try_from(record.rdata).unwrap()).to_string(),
            rtype::AAAA => Ipv6Addr::from(<[u8; 16]>::try_from(record.rdata).unwrap()).to_string(),
            rtype::NS | rtype::CNAME | rtype::PTR | rtype::DNAME => {
                record.name_in_rdata(0).unwrap().0.to_string().trim_end_matches('.').to_owned()
            }
            rtype::SOA => record.soa_minimum().unwrap().to_string(),
            rtype::RRSIG => type_text(u16::from_be_bytes([record.rdata[0], record.rdata[1]])),
            _ => String::from_utf8_lossy(record.rdata).into_owned(),
        };
        format!(
            "{section} {} {} {} {rdata}",
            owner.trim_end_matches('.'),
            record.ttl,
            type_text(record.rtype)
        )
    };
    message.records().map(|record| line(record.unwrap())).collect()
}
