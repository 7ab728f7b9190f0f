//! Decides whether a reply is the right answer to the query whose question the reply repeats.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dns64::wire::{CLASS_IN, HEADER_LENGTH, Header, Name, Record, Records, Section, rcode, rtype};

use crate::tsig::TsigDefect;
use crate::workload::Expectation;

/// Why an answer in time is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// The records could not be read.
    Malformed,
    /// The TC bit was set: the answer is cut (RFC 1035 4.1.1).
    Truncated,
    /// A response code other than NOERROR.
    Rcode(u8),
    /// No AAAA record for the name asked, nor at the end of its CNAME chain.
    NoAaaa,
    /// No A record for the name asked, nor at the end of its CNAME chain, where A was asked for.
    NoA,
    /// Records of the type asked for, but none with the address expected; the first of them.
    WrongAddress(IpAddr),
    /// The signature does not hold, where queries are signed.
    Tsig(TsigDefect),
}

impl std::fmt::Display for Defect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed => f.write_str("malformed"),
            Self::Truncated => f.write_str("truncated (TC)"),
            Self::Rcode(code) => f.write_str(&rcode_name(*code)),
            Self::NoAaaa => f.write_str("no AAAA record"),
            Self::NoA => f.write_str("no A record"),
            Self::WrongAddress(_) => f.write_str("wrong address"),
            Self::Tsig(defect) => defect.fmt(f),
        }
    }
}

/// The name of an RCODE from 0 to 15 (IANA).
pub fn rcode_name(code: u8) -> String {
    const NAMES: [&str; 12] = [
        "NOERROR",
        "FORMERR",
        "SERVFAIL",
        "NXDOMAIN",
        "NOTIMP",
        "REFUSED",
        "YXDOMAIN",
        "YXRRSET",
        "NXRRSET",
        "NOTAUTH",
        "NOTZONE",
        "DSOTYPENI",
    ];
    NAMES.get(usize::from(code)).map_or_else(|| format!("RCODE {code}"), |name| (*name).to_owned())
}

/// What was found in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Strictly: the AAAA expected is there.
    pub strict: Result<(), Defect>,
    /// By dns64perf++'s rule: a NOERROR response with any answer record.
    pub compat: bool,
}

/// Judges a reply whose question has been compared already and ends at `question_end`.
#[inline]
pub fn judge(expected: Expectation, header: &Header, reply: &[u8], question_end: usize) -> Judgement {
    let compat = is_compat(header);
    let strict = match expected {
        Expectation::Response => Ok(()),
        Expectation::Aaaa(address) if compat && begins_with(reply, question_end, header, address) => Ok(()),
        _ => judge_strictly(expected, header, reply, question_end),
    };
    Judgement { strict, compat }
}

/// dns64perf++'s rule: a NOERROR response with any answer record.
pub(crate) fn is_compat(header: &Header) -> bool {
    header.rcode() == rcode::NOERROR && header.counts[1] > 0
}

/// Whether the first record is the AAAA expected, its owner a pointer to the question, as nearly every server
/// writes it.
fn begins_with(reply: &[u8], question_end: usize, header: &Header, address: Ipv6Addr) -> bool {
    const OWNER_TYPE_CLASS: [u8; 6] = [0xc0, HEADER_LENGTH as u8, 0, rtype::AAAA as u8, 0, CLASS_IN as u8];
    let Some(record) = reply.get(question_end..).and_then(<[u8]>::first_chunk::<28>) else { return false };
    !header.has(Header::TC)
        && record[..6] == OWNER_TYPE_CLASS
        && record[10..12] == [0, 16]
        && record[12..] == address.octets()
}

fn judge_strictly(
    expected: Expectation,
    header: &Header,
    reply: &[u8],
    question_end: usize,
) -> Result<(), Defect> {
    if header.rcode() != rcode::NOERROR {
        return Err(Defect::Rcode(header.rcode()));
    }
    if header.has(Header::TC) {
        return Err(Defect::Truncated);
    }
    let (wanted, none) = match expected {
        Expectation::Aaaa(_) => (rtype::AAAA, Defect::NoAaaa),
        Expectation::A(_) => (rtype::A, Defect::NoA),
        Expectation::Response => return Ok(()),
    };
    let answers = Records::new(reply, header, question_end);
    let mut owner: Option<Name> = None;
    let mut wrong = None;
    for record in answers {
        let record = record.map_err(|_| Defect::Malformed)?;
        if record.section != Section::Answer {
            break;
        }
        if record.rtype == wanted && belongs(&record, owner.as_ref(), reply) {
            let address = address_of(&record).ok_or(Defect::Malformed)?;
            if matches(expected, address) {
                return Ok(());
            }
            wrong.get_or_insert(address);
        } else if record.rtype == rtype::CNAME && belongs(&record, owner.as_ref(), reply) {
            owner = Some(record.name_in_rdata(0).map_err(|_| Defect::Malformed)?.0);
        }
    }
    Err(wrong.map_or(none, Defect::WrongAddress))
}

/// The address of an A or AAAA record.
fn address_of(record: &Record<'_>) -> Option<IpAddr> {
    match record.rtype {
        rtype::AAAA => <[u8; 16]>::try_from(record.rdata).ok().map(IpAddr::from),
        _ => <[u8; 4]>::try_from(record.rdata).ok().map(|octets| Ipv4Addr::from(octets).into()),
    }
}

fn matches(expected: Expectation, address: IpAddr) -> bool {
    match expected {
        Expectation::Aaaa(right) => address == IpAddr::V6(right),
        Expectation::A(right) => address == IpAddr::V4(right),
        Expectation::Response => true,
    }
}

/// Whether the record's owner is the name asked for or, after a CNAME, that one's target.
fn belongs(record: &Record<'_>, target: Option<&Name>, reply: &[u8]) -> bool {
    match target {
        None if record.owner_is_question_pointer() => true,
        None => Name::parse(reply, HEADER_LENGTH)
            .is_ok_and(|(asked, _)| record.owner().is_ok_and(|owner| owner == asked)),
        Some(target) => record.owner().is_ok_and(|owner| owner == *target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::workload;
    use dns64::wire::{Message, Question, Writer};
    use proptest::prelude::*;

    /// A reply to query 7, with flags and answer records as told.
    fn reply(flags: u16, answers: impl FnOnce(&mut Writer<'_>, &Question)) -> Vec<u8> {
        let mut query = [0; 512];
        let length = workload(0).write(7, 3, &mut query);
        let question = Message::parse(&query[..length]).unwrap().question();
        let mut buffer = [0; 512];
        let mut writer = Writer::new(&mut buffer, 3, Header::QR | flags, &question).unwrap();
        answers(&mut writer, &question);
        let length = writer.finish();
        buffer[..length].to_vec()
    }

    fn judged(octets: &[u8]) -> Judgement {
        judged_for(Expectation::Aaaa(workload(0).expected(7)), octets)
    }

    fn judged_for(expected: Expectation, octets: &[u8]) -> Judgement {
        judge(expected, &Header::parse(octets).unwrap(), octets, workload(0).question_end())
    }

    fn add_aaaa(writer: &mut Writer<'_>, owner: &Name, address: &str) {
        let octets = address.parse::<Ipv6Addr>().unwrap().octets();
        writer.record(Section::Answer, owner, rtype::AAAA, CLASS_IN, 60, &octets).unwrap();
    }

    #[test]
    fn the_right_aaaa_is_valid_directly_and_behind_a_cname() {
        assert_eq!(judged(&reply(0, |w, q| add_aaaa(w, &q.name, "2001:db8:64::a00:7"))).strict, Ok(()));
        let chain = reply(0, |w, q| {
            let target = Name::from_text("elsewhere.test").unwrap();
            w.record(Section::Answer, &q.name, rtype::CNAME, CLASS_IN, 60, target.as_wire()).unwrap();
            add_aaaa(w, &target, "2001:db8:64::a00:7");
        });
        assert_eq!(judged(&chain), Judgement { strict: Ok(()), compat: true });
    }

    #[test]
    fn what_dns64perf_takes_for_valid_is_told_apart() {
        let strict = |octets: &[u8]| judged(octets).strict.unwrap_err();
        let wrong = reply(0, |w, q| add_aaaa(w, &q.name, "64:ff9b::a00:7"));
        assert_eq!(strict(&wrong), Defect::WrongAddress("64:ff9b::a00:7".parse().unwrap()));
        assert!(judged(&wrong).compat);
        let a_only = reply(0, |w, q| {
            w.record(Section::Answer, &q.name, rtype::A, CLASS_IN, 60, &[10, 0, 0, 7]).unwrap();
        });
        assert_eq!(judged(&a_only), Judgement { strict: Err(Defect::NoAaaa), compat: true });
        let foreign_owner =
            reply(0, |w, _| add_aaaa(w, &Name::from_text("x.test").unwrap(), "2001:db8:64::a00:7"));
        assert_eq!(strict(&foreign_owner), Defect::NoAaaa);
        let truncated = reply(Header::TC, |w, q| add_aaaa(w, &q.name, "2001:db8:64::a00:7"));
        assert_eq!(strict(&truncated), Defect::Truncated);
        assert_eq!(judged(&reply(2, |_, _| ())), Judgement { strict: Err(Defect::Rcode(2)), compat: false });
    }

    #[test]
    fn a_queries_and_reflectors_have_their_own_right_answers() {
        let a = |last: u8| {
            reply(0, |w, q| {
                w.record(Section::Answer, &q.name, rtype::A, CLASS_IN, 60, &[10, 0, 0, last]).unwrap();
            })
        };
        let expected = Expectation::A([10, 0, 0, 7].into());
        assert_eq!(judged_for(expected, &a(7)).strict, Ok(()));
        assert_eq!(
            judged_for(expected, &a(8)).strict,
            Err(Defect::WrongAddress(IpAddr::from([10, 0, 0, 8])))
        );
        let aaaa = reply(0, |w, q| add_aaaa(w, &q.name, "2001:db8:64::a00:7"));
        assert_eq!(judged_for(expected, &aaaa).strict, Err(Defect::NoA));
        let refused = Judgement { strict: Ok(()), compat: false };
        assert_eq!(judged_for(Expectation::Response, &reply(5, |_, _| ())), refused);
    }

    #[test]
    fn a_reply_cut_short_is_malformed() {
        let whole = reply(0, |w, q| add_aaaa(w, &q.name, "2001:db8:64::a00:7"));
        assert_eq!(judged(&whole[..whole.len() - 3]).strict, Err(Defect::Malformed));
    }

    proptest! {
        #[test]
        fn no_octets_make_it_panic(tail in prop::collection::vec(any::<u8>(), 0..100), flags: u16, answers in 0u16..5) {
            let mut octets = reply(flags & 0x7ff0, |_, _| ());
            octets[6..8].copy_from_slice(&answers.to_be_bytes());
            octets.extend(tail);
            let _ = judged(&octets);
        }
    }
}
