//! What a reply is worth: is it the right answer to the query whose question it repeats?

use std::net::Ipv6Addr;

use dns64::wire::{Header, Name, Record, Records, Section, rcode, rtype};

use crate::workload::Workload;

/// Why an answer in time is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Defect {
    /// The records could not be read.
    Malformed,
    /// TC was set.
    Truncated,
    /// A response code other than NOERROR.
    Rcode(u8),
    /// No AAAA record for the name asked, nor at the end of its CNAME chain.
    NoAaaa,
    /// AAAA records, but none with the address expected; the first of them.
    WrongAddress(Ipv6Addr),
}

impl std::fmt::Display for Defect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed => f.write_str("malformed"),
            Self::Truncated => f.write_str("truncated (TC)"),
            Self::Rcode(code) => match *code {
                rcode::FORMERR => f.write_str("FORMERR"),
                rcode::SERVFAIL => f.write_str("SERVFAIL"),
                rcode::NXDOMAIN => f.write_str("NXDOMAIN"),
                rcode::NOTIMP => f.write_str("NOTIMP"),
                rcode::REFUSED => f.write_str("REFUSED"),
                other => write!(f, "RCODE {other}"),
            },
            Self::NoAaaa => f.write_str("no AAAA record"),
            Self::WrongAddress(_) => f.write_str("wrong address"),
        }
    }
}

/// What was found in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Strictly: the AAAA expected is there.
    pub strict: Result<(), Defect>,
    /// By dns64perf++'s rule: a NOERROR response with any answer record.
    pub compat: bool,
}

/// Judges a reply to query `n` whose question has been compared already ([`Workload::number_of`]).
pub fn judge(workload: &Workload, n: u64, header: &Header, reply: &[u8]) -> Judgement {
    Judgement { strict: judge_strictly(workload, n, header, reply), compat: is_compat(header) }
}

/// dns64perf++'s rule: a NOERROR response with any answer record.
pub fn is_compat(header: &Header) -> bool {
    header.rcode() == rcode::NOERROR && header.counts[1] > 0
}

fn judge_strictly(workload: &Workload, n: u64, header: &Header, reply: &[u8]) -> Result<(), Defect> {
    if header.rcode() != rcode::NOERROR {
        return Err(Defect::Rcode(header.rcode()));
    }
    if header.has(Header::TC) {
        return Err(Defect::Truncated);
    }
    let expected = workload.expected(n);
    let answers = Records::new(reply, header, workload.question_end());
    let mut owner: Option<Name> = None;
    let mut wrong = None;
    for record in answers {
        let record = record.map_err(|_| Defect::Malformed)?;
        if record.section != Section::Answer {
            break;
        }
        match record.rtype {
            rtype::AAAA if belongs(&record, owner.as_ref(), reply) => {
                let octets: [u8; 16] = record.rdata.try_into().map_err(|_| Defect::Malformed)?;
                if octets == expected.octets() {
                    return Ok(());
                }
                wrong.get_or_insert(Ipv6Addr::from(octets));
            }
            rtype::CNAME if belongs(&record, owner.as_ref(), reply) => {
                owner = Some(record.name_in_rdata(0).map_err(|_| Defect::Malformed)?.0);
            }
            _ => {}
        }
    }
    Err(wrong.map_or(Defect::NoAaaa, Defect::WrongAddress))
}

/// Whether the record's owner is the name asked for or, after a CNAME, that one's target.
fn belongs(record: &Record<'_>, target: Option<&Name>, reply: &[u8]) -> bool {
    match target {
        None if record.owner_is_question_pointer() => true,
        None => Name::parse(reply, dns64::wire::HEADER_LENGTH)
            .is_ok_and(|(asked, _)| record.owner().is_ok_and(|owner| owner == asked)),
        Some(target) => record.owner().is_ok_and(|owner| owner == *target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::workload;
    use dns64::wire::{CLASS_IN, Message, Question, Writer};
    use proptest::prelude::*;

    /// A reply to query 7, with flags and answer records as told.
    fn reply(flags: u16, answers: impl FnOnce(&mut Writer<'_>, &Question)) -> Vec<u8> {
        let mut query = [0; 512];
        let length = workload(0).write(7, 3, &mut query);
        let question = Message::parse(&query[..length]).unwrap().question;
        let mut buffer = [0; 512];
        let mut writer = Writer::new(&mut buffer, 3, Header::QR | flags, &question).unwrap();
        answers(&mut writer, &question);
        let length = writer.finish();
        buffer[..length].to_vec()
    }

    fn judged(octets: &[u8]) -> Judgement {
        judge(&workload(0), 7, &Header::parse(octets).unwrap(), octets)
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
