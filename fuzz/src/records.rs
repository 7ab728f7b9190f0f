//! Any octets as an upstream server's reply, through all that rewrites replies: what comes out can be read,
//! is within its limit, and holds only what it may.
//!
//! An input is one octet that chooses the policy, two of the client's limit, and the reply.

use std::sync::LazyLock;

use dns64::reverse::{self, Style};
use dns64::rewrite::{
    ClientQuery, ROOM_MIN_OCTETS, WrittenAnswer, append_edns, copy_without_edns, write_empty,
};
use dns64::rule::{AaaaPolicy, Mapping, Policy, PrefixChoice, Step, next_step, strip, synthesize};
use dns64::scrub::scrub;
use dns64::wire::{CLASS_IN, Edns, Header, Message, Options, Question, append_option, option_code, rtype};
use server_core::cache::lifetime_s;
use server_core::settings::Caching;

use super::input::Input;
use super::judge::{self, Section, Seen};

const MESSAGE_OCTETS_MAX: usize = 65_535;
const TTL_CAP_S: u32 = 300;

/// The RFC's choices; several prefixes, of all lengths, with a range of their own; one of them at each turn.
static POLICIES: LazyLock<[Policy; 3]> = LazyLock::new(|| {
    let prefix = |text: &str| text.parse().expect("a prefix");
    let several = Policy {
        prefixes: vec![prefix("2001:db8::/32"), prefix("2001:db8:122:344::/64"), prefix("64:ff9b::/96")],
        mappings: vec![Mapping { range: "10.0.0.0/8".parse().expect("a range"), prefix: None }],
        excluded: vec!["::/0".parse().expect("a range")],
        ..Policy::default()
    };
    [Policy::default(), several.clone(), Policy { spread: PrefixChoice::Rotated, ..several }]
});

/// Takes the reply through everything.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let (choice, limit) = (input.octet(), usize::from(input.word()));
    let octets = input.0;
    options(octets);
    let Ok(reply) = Message::parse(octets) else { return };
    lifetime(&reply);
    let mut buffer = vec![0; MESSAGE_OCTETS_MAX];
    let Some(clean) = scrubbed(&reply, &mut buffer) else { return };
    let policy = &POLICIES[usize::from(choice % 3)];
    let out = &mut vec![0; limit.max(ROOM_MIN_OCTETS)][..];
    // As the machine does it, with the scrubbed reply; and as it never should, with the reply as it came.
    for reply in [clean, reply] {
        decide(policy, &reply);
        synthesized(policy, choice.into(), &reply, out);
        stripped(policy, &reply, out);
        for style in [Style::Cname, Style::Answer] {
            pointed(style, &reply, out);
        }
        copied(&reply, out);
    }
}

/// The question that a reply would have to be the answer to.
fn asked(reply: &Message<'_>, qtype: u16) -> ClientQuery {
    let question = Question { qtype, qclass: CLASS_IN, ..reply.question() };
    ClientQuery { id: 0x1234, question, recursion_desired: true, checking_disabled: false, dnssec_ok: false }
}

fn options(octets: &[u8]) {
    let mut out = octets.to_vec();
    out.resize(octets.len() + 40, 0);
    let longer = append_option(&mut out, octets.len(), option_code::COOKIE, &[7; 8]);
    assert!(longer == octets.len() || longer == octets.len() + 12);
    assert!(Options::new(octets).iter().map(|(_, value)| value.len() + 4).sum::<usize>() <= octets.len());
}

fn lifetime(reply: &Message<'_>) {
    let caching = Caching::default();
    if let Some(ttl_s) = lifetime_s(&caching, reply) {
        assert!((1..=caching.ttl_max_s).contains(&ttl_s), "{ttl_s} s");
    }
}

/// The reply without what does not belong to its question, if it can be read.
fn scrubbed<'b>(reply: &Message<'b>, out: &'b mut [u8]) -> Option<Message<'b>> {
    let Some(octets) = scrub(reply, out).ok()? else { return Some(*reply) };
    let out = &out[..octets];
    let clean = Message::parse(out).expect("a scrubbed message");
    assert_eq!(clean.question().name.as_wire(), reply.question().name.as_wire());
    assert_eq!((clean.header.id, clean.header.flags), (reply.header.id, reply.header.flags));
    let kept = judge::records(out);
    assert!(kept.len() <= reply.records().count(), "nothing is added");
    assert_eq!(scrub(&clean, &mut vec![0; MESSAGE_OCTETS_MAX]), Ok(None), "once is enough");
    if reply.qclass == CLASS_IN && reply.qtype != rtype::ANY {
        belongs_to_chain(&judge::question_name(out), &kept);
    }
    Some(clean)
}

/// Every record of the answer section stands at the question's name, or where an alias of the section leads.
fn belongs_to_chain(own: &str, kept: &[Seen]) {
    let answers = || kept.iter().filter(|record| record.section == Section::Answer);
    // The names below a DNAME record's owner lead anywhere below its target.
    if answers().any(|record| record.rtype == rtype::DNAME) {
        return;
    }
    for record in answers() {
        let is_target = |other: &Seen| other.target.as_deref() == Some(&record.owner);
        assert!(record.owner == own || answers().any(is_target), "{record:?} is not of {own}");
        assert_eq!(record.class, CLASS_IN);
    }
}

fn decide(policy: &Policy, reply: &Message<'_>) {
    let asked = asked(reply, rtype::AAAA);
    for treatment in [AaaaPolicy::Rule, AaaaPolicy::Always] {
        match next_step(policy, treatment, &asked, Some(reply)) {
            Step::AskA { ttl_cap_s } => assert!(ttl_cap_s <= i32::MAX as u32),
            Step::PassThrough | Step::StripExcluded | Step::Fail => {}
        }
    }
}

/// What was written, as another library reads it; nothing is in the answer section of a truncated message.
fn written(asked: &ClientQuery, written: WrittenAnswer, out: &[u8]) -> Vec<Seen> {
    assert!(written.octets <= out.len());
    let octets = &out[..written.octets];
    let message = Message::parse(octets).expect("an answer");
    let flags = message.header.flags;
    assert_eq!(message.header.id, asked.id);
    assert_eq!(message.question().name.as_wire(), asked.question.name.as_wire());
    assert_eq!(flags & !(Header::RCODE | Header::TC), Header::QR | Header::RD | Header::RA);
    assert_eq!(flags & Header::TC != 0, written.truncated);
    let seen = judge::records(octets);
    assert!(!written.truncated || seen.is_empty());
    assert!(seen.iter().all(|record| record.rtype != rtype::OPT || record.section != Section::Additional));
    let soas =
        seen.iter().filter(|record| (record.section, record.rtype) == (Section::Authority, rtype::SOA));
    assert!(soas.count() <= 1);
    seen
}

fn is_link(record: &Seen) -> bool {
    matches!(record.signed_type().unwrap_or(record.rtype), rtype::CNAME | rtype::DNAME)
}

fn synthesized(policy: &Policy, turn: usize, reply: &Message<'_>, out: &mut [u8]) {
    let asked = asked(reply, rtype::AAAA);
    let Ok((length, count)) = synthesize(policy, turn, &asked, reply, TTL_CAP_S, out) else { return };
    let seen = written(&asked, length, out);
    let answers: Vec<_> = seen.iter().filter(|record| record.section == Section::Answer).collect();
    let addresses = answers.iter().filter(|record| record.rtype == rtype::AAAA);
    assert_eq!(addresses.clone().count(), count as usize);
    for record in addresses {
        let ipv6: [u8; 16] = record.rdata.as_slice().try_into().expect("an address");
        assert!(policy.prefixes.iter().any(|prefix| prefix.extract(ipv6.into()).is_some()), "{record:?}");
        assert!(record.ttl_s <= TTL_CAP_S && record.class == CLASS_IN);
    }
    assert!(answers.iter().all(|record| record.rtype == rtype::AAAA || is_link(record)), "{answers:?}");
}

fn stripped(policy: &Policy, reply: &Message<'_>, out: &mut [u8]) {
    let asked = asked(reply, rtype::AAAA);
    let Ok(length) = strip(policy, &asked, reply, out) else { return };
    for record in written(&asked, length, out).iter().filter(|record| record.section == Section::Answer) {
        assert!(record.rtype == rtype::AAAA || is_link(record), "{record:?}");
        if let Ok(ipv6) = <[u8; 16]>::try_from(record.rdata.as_slice()) {
            let excluded =
                policy.excluded.iter().any(|range| range.contains(std::net::Ipv6Addr::from(ipv6).into()));
            assert!(record.rtype != rtype::AAAA || !excluded, "{record:?}");
        }
    }
}

fn pointed(style: Style, reply: &Message<'_>, out: &mut [u8]) {
    let asked = asked(reply, rtype::PTR);
    let Ok(length) = reverse::answer(style, &asked, &reply.question().name, reply, 600, out) else { return };
    for record in written(&asked, length, out).iter().filter(|record| record.section == Section::Answer) {
        let rtype = record.signed_type().unwrap_or(record.rtype);
        assert!(rtype == rtype::PTR || is_link(record), "{record:?}");
    }
}

fn copied(reply: &Message<'_>, out: &mut [u8]) {
    let asked = asked(reply, reply.qtype);
    if let Ok(length) = copy_without_edns(&asked, reply, out) {
        written(&asked, length, out);
        let edns = Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: true };
        let longer = append_edns(out, length.octets, &edns);
        let longest = append_option(out, longer, option_code::EXTENDED_ERROR, &[0, 29]);
        judge::records(&out[..longest]);
    }
    let octets = write_empty(&asked, asked.answer_flags(2), out);
    assert!(judge::records(&out[..octets]).is_empty());
}
