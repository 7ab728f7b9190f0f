//! DNS messages on the hot paths: read in place, written into a caller's buffer, no allocation (RFC 1035 4).
//!
//! Reading never panics and always ends: compression pointers must point backwards, counts are bounded by the
//! octets.

mod ending;
mod header;
mod name;
mod options;
mod read;
mod write;

use std::fmt;

use crate::effort::UsedUp;

pub use header::Header;
pub use name::Name;
pub use options::{Options, append_option, option_code};
pub use read::{Edns, Message, Question, Record, Records, Section};
pub use write::{Overflow, Writer, names_in_rdata};

/// The length of a DNS header in octets.
pub const HEADER_LENGTH: usize = 12;
/// The longest name in wire format, with the root label (RFC 1035 2.3.4).
pub const NAME_LENGTH_MAX: usize = 255;

/// Resource record types, by their IANA numbers.
pub mod rtype {
    #![allow(missing_docs)]
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const CNAME: u16 = 5;
    pub const SOA: u16 = 6;
    pub const PTR: u16 = 12;
    pub const HINFO: u16 = 13;
    pub const MX: u16 = 15;
    pub const TXT: u16 = 16;
    pub const AAAA: u16 = 28;
    pub const SRV: u16 = 33;
    pub const DNAME: u16 = 39;
    pub const OPT: u16 = 41;
    pub const DS: u16 = 43;
    pub const RRSIG: u16 = 46;
    pub const DNSKEY: u16 = 48;
    pub const NSEC3: u16 = 50;
    pub const NSEC3PARAM: u16 = 51;
    pub const HTTPS: u16 = 65;
    pub const ANY: u16 = 255;
}

/// The class IN, of the Internet (RFC 1035 3.2.4).
pub const CLASS_IN: u16 = 1;

/// Response codes, by their IANA numbers.
pub mod rcode {
    #![allow(missing_docs)]
    pub const NOERROR: u8 = 0;
    pub const FORMERR: u8 = 1;
    pub const SERVFAIL: u8 = 2;
    pub const NXDOMAIN: u8 = 3;
    pub const NOTIMP: u8 = 4;
    pub const REFUSED: u8 = 5;
    /// A name that DNAME made too long (RFC 6672 2.2).
    pub const YXDOMAIN: u8 = 6;
    /// Extended: BADVERS (RFC 6891 9).
    pub const BADVERS: u16 = 16;
    /// Extended: BADCOOKIE (RFC 7873 8).
    pub const BADCOOKIE: u16 = 23;
}

/// The octets are no well-formed DNS message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(
    /// What is wrong with the octets, in words.
    pub &'static str,
);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed DNS message: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<UsedUp> for Malformed {
    fn from(_: UsedUp) -> Self {
        Self("names that cost too much to compare")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effort::Effort;
    use proptest::prelude::*;

    fn question(text: &str) -> Question {
        Question { name: Name::from_text(text).unwrap(), qtype: rtype::AAAA, qclass: CLASS_IN }
    }

    #[test]
    fn writes_what_the_domain_crate_reads() {
        let mut buffer = [0; 512];
        let asked = question("www.Example.com");
        let mut writer = Writer::new(&mut buffer, 7, Header::QR | Header::RA, &asked).unwrap();
        writer.record(Section::Answer, &asked.name, rtype::AAAA, CLASS_IN, 60, &[9; 16]).unwrap();
        let host = Name::from_text("ns.example.com").unwrap();
        let zone = Name::from_text("Example.com").unwrap();
        writer.record_with(Section::Authority, &zone, rtype::NS, CLASS_IN, 60, |w| w.name(&host)).unwrap();
        writer
            .edns(&Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: true }, &[])
            .unwrap();
        let length = writer.finish();

        let message = domain::base::Message::from_octets(&buffer[..length]).unwrap();
        assert_eq!(message.sole_question().unwrap().qname().to_string(), "www.Example.com");
        let records: Vec<_> =
            message.answer().unwrap().map(|record| record.unwrap().owner().to_string()).collect();
        assert_eq!(records, ["www.Example.com"]);
        let authority = message.authority().unwrap().next().unwrap().unwrap();
        assert_eq!(authority.owner().to_string(), "Example.com");
        assert!(message.opt().unwrap().dnssec_ok());
        let ours = Message::parse(&buffer[..length]).unwrap();
        assert_eq!(ours.edns().unwrap().unwrap().payload_octets, 1232);
        let (read, _) = ours.records().nth(1).unwrap().unwrap().name_in_rdata(0).unwrap();
        assert_eq!(read, host);
    }

    #[test]
    fn what_stands_in_the_buffer_before_is_not_read() {
        let asked = question("0.0.0.0.a.a.test");
        for stale in [0xff, 0xc0, 0x01] {
            let (mut clean, mut stale) = ([0; 512], [stale; 512]);
            let [clean, stale] = [&mut clean, &mut stale].map(|buffer| {
                let mut writer = Writer::new(buffer, 7, Header::QR, &asked).unwrap();
                for owner in ["0.0.0.b.b.test", "0.0.0.0.0.a.a.test", "a.a.a.a"] {
                    let owner = Name::from_text(owner).unwrap();
                    writer.record(Section::Answer, &owner, rtype::A, CLASS_IN, 60, &[9; 4]).unwrap();
                }
                let length = writer.finish();
                buffer[..length].to_vec()
            });
            assert_eq!(clean, stale);
            assert_eq!(domain::base::Message::from_octets(&stale[..]).unwrap().iter().count(), 3);
        }
    }

    #[test]
    fn a_record_that_does_not_fit_leaves_no_trace() {
        let asked = question("a.test");
        let question_octets = HEADER_LENGTH + asked.name.as_wire().len() + 4;
        let mut buffer = [0; 40];
        let mut writer = Writer::new(&mut buffer, 1, 0, &asked).unwrap();
        assert_eq!(writer.record(Section::Answer, &asked.name, 28, 1, 0, &[0; 16]), Err(Overflow));
        assert_eq!(writer.finish(), question_octets);
        assert_eq!(buffer[7], 0);
    }

    #[test]
    fn hostile_names_are_refused() {
        let with_name = |name: &[u8]| [&[0u8; 5][..], &[1], &[0; 6], name, &[0, 28, 0, 1]].concat();
        for (name, reason) in [
            (&[0xc0, 12][..], "pointer to itself"),
            (&[1, b'a', 0xc0, 12], "pointer to its own start"),
            (&[0xc0, 200], "pointer beyond the end"),
            (&[0x40, 1], "reserved label"),
            (&[63, b'a'], "label over the end"),
            (&[0xc0, 0], "pointer into the header, where a root label stands"),
        ] {
            assert!(Message::parse(&with_name(name)).is_err(), "{reason}");
        }
    }

    #[test]
    fn a_row_of_pointers_ends() {
        let mut octets = vec![0];
        octets.extend((0..200u16).flat_map(|n| (0xc000 | (2 * n).saturating_sub(1)).to_be_bytes()));
        assert!(Name::parse(&octets, 2 * 127 - 1).is_ok());
        assert!(Name::parse(&octets, 2 * 128 - 1).is_err());
    }

    #[test]
    fn an_ending_gives_way_to_another() {
        let name = |text: &str| Name::from_text(text).unwrap();
        assert_eq!(name("a.b.c").with_ending(&name("b.c"), &name("d")), Ok(name("a.d")));
        assert_eq!(name("a.b").with_ending(&Name::ROOT, &name("c")), Ok(name("a.b.c")));
        assert!(name("a").with_ending(&name("a.b"), &Name::ROOT).is_err());
        let long = name(&format!("{0}.{0}.{0}.{0}", "x".repeat(62)));
        assert!(name("abcd.b").with_ending(&name("b"), &long).is_err());
    }

    #[test]
    fn names_compare_by_labels() {
        let name = |text| Name::from_text(text).unwrap();
        assert!(name("a.B.test").is_under(&name("b.TEST")));
        assert!(name("b.test").is_under(&name("b.test")));
        assert!(!name("ab.test").is_under(&name("b.test")));
        assert!(name("b.test").is_under(&Name::ROOT));
        assert_eq!(name("a.b").parent(), Some(name("b")));
        assert_eq!(Name::ROOT.parent(), None);
        assert!(Name::from_text("a..b").is_err());
        assert!(Name::from_text(&"a.".repeat(200)).is_err());
        assert_eq!(name("a.b.").to_string(), "a.b.");
        assert_eq!(name("b").below(b"a"), Ok(name("a.b")));
        assert!(name("b").below(b"").is_err() && name("b").below(&[b'x'; 64]).is_err());
        let long = Name::from_text(&"a.".repeat(126)).unwrap();
        assert!(long.below(b"ab").is_err(), "over 255 octets");
        assert_eq!(name("a.B.Test").ending(&name("b.test")).unwrap().to_string(), "B.Test.");
        assert_eq!(name("ab.test").ending(&name("b.test")), None);
        assert_eq!(name("a.B").to_lowercase().to_string(), "a.b.");
    }

    proptest! {
        #[test]
        fn any_octets_are_read_without_a_panic(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(message) = Message::parse(&octets) {
                let _ = message.edns();
                let mut buffer = [0; 600];
                let mut writer = Writer::new(&mut buffer, 0, 0, &message.question()).unwrap();
                for record in message.records().flatten() {
                    let _ = record.owner();
                    let _ = writer.copy(&record, 1);
                }
            }
        }

        #[test]
        fn names_are_compared_in_place_as_if_they_were_read(
            octets in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xc0), Just(b'a'), Just(b'A')], 1..40),
            at in 0..40usize,
            other in 0..40usize,
        ) {
            let effort = &mut Effort::of_one_name();
            if let (Ok((name, _)), Ok((other_name, _))) = (Name::parse(&octets, at), Name::parse(&octets, other)) {
                prop_assert_eq!(name.stands_at(&octets, at, effort), Ok(true));
                prop_assert_eq!(name.stands_at(&octets, other, effort), Ok(name == other_name));
            } else if Name::parse(&octets, at).is_err() {
                prop_assert_ne!(Name::ROOT.stands_at(&octets, at, effort), Ok(true));
            }
        }

        /// Names are written as the book says: a pointer to the first equal ending of the first 24.
        #[test]
        fn names_are_compressed_as_by_comparing_each_ending_with_each(
            texts in prop::collection::vec("([abA]{1,2}\\.){0,5}", 1..24),
        ) {
            let names: Vec<Name> = texts.iter().map(|text| Name::from_text(text).unwrap()).collect();
            let question = Question { name: names[0], qtype: rtype::NS, qclass: CLASS_IN };
            let mut buffer = [0; 4096];
            let mut writer = Writer::new(&mut buffer, 0, 0, &question).unwrap();
            for name in &names {
                writer.record(Section::Answer, name, rtype::A, CLASS_IN, 0, &[]).unwrap();
            }
            let length = writer.finish();
            let (mut plain, mut known) = (vec![0; HEADER_LENGTH], Vec::<(Vec<u8>, usize)>::new());
            let put = |plain: &mut Vec<u8>, known: &mut Vec<(Vec<u8>, usize)>, name: &Name| {
                let mut rest = name.as_wire();
                while rest[0] != 0 {
                    if let Some((_, at)) = known.iter().find(|(ending, _)| ending == rest) {
                        return plain.extend((0xc000 | *at as u16).to_be_bytes());
                    }
                    if known.len() < 24 {
                        known.push((rest.to_vec(), plain.len()));
                    }
                    let (label, tail) = rest.split_at(1 + usize::from(rest[0]));
                    plain.extend(label);
                    rest = tail;
                }
                plain.push(0);
            };
            put(&mut plain, &mut known, &question.name);
            plain.extend([0, 2, 0, 1]);
            for name in &names {
                put(&mut plain, &mut known, name);
                plain.extend([0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
            }
            prop_assert_eq!(&buffer[HEADER_LENGTH..length], &plain[HEADER_LENGTH..]);
        }

        #[test]
        fn records_agree_with_the_domain_crate(tail in prop::collection::vec(any::<u8>(), 0..120), counts in prop::array::uniform3(0u8..3)) {
            let mut octets = vec![0, 1, 0x80, 0, 0, 1, 0, counts[0], 0, counts[1], 0, counts[2], 1, b'a', 0, 0, 28, 0, 1];
            octets.extend(tail);
            let ours = Message::parse(&octets).unwrap().records().map_while(Result::ok)
                .take_while(|record| record.section == Section::Answer).count();
            let theirs = domain::base::Message::from_octets(&octets).unwrap().answer().unwrap()
                .map_while(Result::ok).count();
            // Theirs also checks owner names where they stand; ours when they are asked for.
            prop_assert!(ours >= theirs);
        }
    }

    #[test]
    fn an_opt_record_with_a_name_is_malformed() {
        let question = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, b'x', 0, 0, 1, 0, 1];
        let opt = [0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
        let edns = |owner: &[u8]| {
            let query = [&question[..], owner, &opt].concat();
            Message::parse(&query).unwrap().edns().map(|edns| edns.is_some())
        };
        assert_eq!(edns(&[0]), Ok(true));
        for owner in [&[0xc0, 12][..], &[0xd6, 0], &[1, b'x', 0]] {
            assert!(edns(owner).is_err(), "{owner:?}");
        }
    }
}
