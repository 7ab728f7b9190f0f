//! What each fault makes of an answer, and whom it meets.

use domain::base::Message as Read;
use std::sync::LazyLock;

use domain::base::iana::{OptRcode, Rcode};
use proptest::prelude::*;
use record::random::mix;

use super::*;
use crate::{ANSWER_OCTETS_MAX, Zone, ZoneConfig};

const A: u16 = rtype::A;
const AAAA: u16 = rtype::AAAA;

fn query(id: u16, host: u32, qtype: u16, edns: bool) -> Vec<u8> {
    let mut query = id.to_be_bytes().to_vec();
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, edns.into()]);
    query.extend(format!("\x0f010-{:03}-{:03}-{:03}", host >> 16 & 255, host >> 8 & 255, host & 255).bytes());
    query.extend(b"\x09dns64perf\x04test\0");
    query.extend([0, qtype as u8, 0, 1]);
    if edns {
        query.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    }
    query
}

fn faults(texts: &[&str]) -> Faults {
    Faults::new(1, texts.iter().map(|text| text.parse().unwrap()).collect())
}

fn befall(faults: &Faults, query: &[u8], transport: Transport) -> (Reply, Vec<u8>) {
    static ZONE: LazyLock<Zone> = LazyLock::new(|| Zone::new(ZoneConfig::default()).unwrap());
    let mut out = [0; ANSWER_OCTETS_MAX];
    let answer = ZONE.answer(query, transport, &mut out);
    let reply = faults.befall(query, transport, answer, &mut out);
    (reply, out[..reply.answer.octets].to_vec())
}

/// What one fault that meets everything does to the answer to a question for A with EDNS.
fn one(fault: &str) -> (Reply, Vec<u8>) {
    let (reply, octets) = befall(&faults(&[fault]), &query(0x1234, 7, A, true), Transport::Udp);
    let kind = fault.parse::<Fault>().unwrap().effect.kind();
    let mut expected = Kinds::default();
    expected.add(kind);
    assert_eq!(reply.faults, expected, "{fault}");
    (reply, octets)
}

fn read(octets: &[u8]) -> &Read<[u8]> {
    Read::from_slice(octets).unwrap()
}

#[test]
fn ways_of_sending_leave_the_answer_as_it_is() {
    let (plain, whole) = befall(&faults(&[]), &query(0x1234, 7, A, true), Transport::Udp);
    assert_eq!((plain.copies, plain.delay_ns, plain.faults.is_empty()), (1, 0, true));
    for (fault, copies, delay_ns) in
        [("loss", 0, 0), ("duplicate", 2, 0), ("delay=20ms", 1, 20_000_000), ("delay=0ms", 1, 0)]
    {
        let (reply, octets) = one(fault);
        assert_eq!((reply.copies, reply.delay_ns, octets == whole), (copies, delay_ns, true), "{fault}");
    }
}

#[test]
fn contents_change_as_they_are_told() {
    let (_, truncated) = one("truncate");
    let message = read(&truncated);
    assert!(message.header().tc() && message.header().aa() && message.header().id() == 0x1234);
    assert_eq!((message.header_counts().ancount(), message.header_counts().arcount()), (0, 1));

    let (_, lame) = one("lame");
    let message = read(&lame);
    assert!(!message.header().aa() && message.no_error());
    assert_eq!((message.header_counts().ancount(), message.header_counts().nscount()), (0, 1));
    let referral = message.authority().unwrap().next().unwrap().unwrap();
    assert_eq!((referral.owner().to_string(), referral.rtype().to_int()), (String::new(), rtype::NS));

    let (_, wrong) = one("wrong-question");
    assert_eq!(read(&wrong).sole_question().unwrap().qname().to_string(), "x10-000-000-007.dns64perf.test");
    assert_ne!(read(&one("wrong-id").1).header().id(), 0x1234);
}

#[test]
fn rcodes_stand_in_header_and_opt() {
    for (fault, rcode, authoritative) in [
        ("rcode=NOERROR", OptRcode::NOERROR, true),
        ("rcode=SERVFAIL", OptRcode::SERVFAIL, false),
        ("rcode=NXDOMAIN", OptRcode::NXDOMAIN, true),
        ("rcode=REFUSED", OptRcode::REFUSED, false),
        ("rcode=NOTZONE", OptRcode::NOTZONE, false),
        ("rcode=BADVERS", OptRcode::BADVERS, false),
        ("rcode=BADCOOKIE", OptRcode::BADCOOKIE, false),
        ("rcode=4095", OptRcode::masked_from_int(4095), false),
    ] {
        let (_, octets) = one(fault);
        let message = read(&octets);
        assert_eq!(message.opt_rcode(), rcode, "{fault}");
        assert_eq!((message.header().aa(), message.header_counts().ancount()), (authoritative, 0), "{fault}");
    }
    let plain = query(1, 7, A, false);
    let (reply, octets) = befall(&faults(&["rcode=BADVERS"]), &plain, Transport::Udp);
    assert!(reply.faults.is_empty(), "without EDNS there is no room for it");
    assert_eq!(
        (read(&octets).header().rcode(), read(&octets).header_counts().ancount()),
        (Rcode::NOERROR, 1)
    );
}

#[test]
fn what_does_not_apply_is_not_counted() {
    let faults = faults(&["truncate", "bogus"]);
    let (reply, octets) = befall(&faults, &query(1, 7, A, true), Transport::Tcp);
    assert!(reply.faults.is_empty() && !read(&octets).header().tc());
}

#[test]
fn signatures_are_damaged_and_nothing_else() {
    let mut out = [0; ANSWER_OCTETS_MAX];
    let name = dns64::wire::Name::from_text("a.test").unwrap();
    let question = dns64::wire::Question { name, qtype: A, qclass: 1 };
    let mut writer = dns64::wire::Writer::new(&mut out, 1, 0x8400, &question).unwrap();
    let answer = dns64::wire::Section::Answer;
    writer.record(answer, &name, A, 1, 60, &[10, 0, 0, 7]).unwrap();
    writer.record(answer, &name, rtype::RRSIG, 1, 60, &[0x5a; 40]).unwrap();
    let octets = writer.finish();
    let whole = out;
    let answer = Answer { octets, kind: crate::QueryKind::A };
    let reply = faults(&["bogus"]).befall(&query(1, 7, A, true), Transport::Udp, answer, &mut out);
    assert!(reply.faults.has(Kind::Bogus));
    let changed: Vec<usize> = (0..octets).filter(|&at| whole[at] != out[at]).collect();
    assert_eq!(changed, [octets - 1], "the end of the signature");
}

#[test]
fn faults_combine_in_their_order() {
    let faults = faults(&[
        "delay=5ms",
        "wrong-id",
        "truncate",
        "rcode=SERVFAIL",
        "rcode=REFUSED",
        "delay=7ms",
        "duplicate",
        "wrong-question",
    ]);
    let (reply, octets) = befall(&faults, &query(1, 7, A, false), Transport::Udp);
    let header = read(&octets).header();
    assert_eq!((header.rcode(), header.tc(), header.id() == 1), (Rcode::SERVFAIL, true, false));
    assert!(read(&octets).sole_question().unwrap().qname().to_string().starts_with("x10-"));
    assert_eq!((reply.copies, reply.delay_ns), (2, 12_000_000));
    let mut counts = Counts::default();
    counts.count(reply.faults);
    assert_eq!(counts.iter().count(), 6);
    let lost = Faults::new(1, vec![Fault::new(Effect::Duplicate), Fault::new(Effect::Loss)]);
    assert_eq!(
        befall(&lost, &query(1, 7, A, false), Transport::Udp).0.copies,
        0,
        "what is lost is lost once"
    );
}

/// How many of 100,000 queries with random IDs meet a fault, for each kind and for both of two kinds.
fn met(faults: &Faults) -> (Counts, u64) {
    let (mut counts, mut several) = (Counts::default(), 0);
    for n in 0..100_000u32 {
        let query = query(mix(n.into()) as u16, n, AAAA, false);
        let (reply, _) = befall(faults, &query, Transport::Udp);
        counts.count(reply.faults);
        several += u64::from(Kind::ALL.into_iter().filter(|&kind| reply.faults.has(kind)).count() > 1);
        let drawn = draw(faults.seed(), mix(n.into()) as u16, AAAA, &name_octets(&query));
        assert!(
            reply.faults.is_empty() || drawn <= faults.threshold(),
            "the kernel's program would not know"
        );
    }
    (counts, several)
}

#[test]
fn shares_lie_side_by_side() {
    let near = |count: u64, expected: u64| count.abs_diff(expected) < 400;
    let (counts, several) = met(&faults(&["delay=1ms,share=10%", "rcode=2,share=20%", "wrong-id=5%"]));
    assert!(near(counts.of(Kind::Delay), 10_000) && near(counts.of(Kind::Rcode), 20_000));
    assert!(near(counts.of(Kind::WrongId), 5000) && several == 0, "{counts:?} {several}");
    let (counts, several) = met(&faults(&["duplicate=60%", "wrong-id=60%"]));
    assert!(near(counts.of(Kind::Duplicate), 60_000) && near(counts.of(Kind::WrongId), 60_000));
    assert!(near(several, 20_000), "what is over 100 % begins again: {several}");
}

#[test]
fn a_share_of_names_is_always_the_same() {
    let faults = faults(&["aaaa-silent=10%"]);
    let silent =
        |host, id, qtype| befall(&faults, &query(id, host, qtype, false), Transport::Udp).0.copies == 0;
    let hosts: Vec<u32> = (0..1000).filter(|&host| silent(host, 1, AAAA)).collect();
    assert!(hosts.len().abs_diff(100) < 35, "{}", hosts.len());
    assert!(hosts.iter().all(|&host| silent(host, 2, AAAA) && !silent(host, 2, A)));
    let missed = (0..1000).filter(|host| !hosts.contains(host));
    assert!(missed.into_iter().all(|host| !silent(host, 3, AAAA)));
}

#[test]
fn another_id_draws_anew_and_conditions_hold() {
    let half = faults(&["loss=50%"]);
    let lost = |id| befall(&half, &query(id, 7, A, false), Transport::Udp).0.copies == 0;
    let count = (0..1000).filter(|&id| lost(id)).count();
    assert!(count.abs_diff(500) < 80, "{count}");
    assert!((0..100).all(|id| lost(id) == lost(id)));

    let picky = faults(&["rcode=SERVFAIL,type=AAAA,name=*-007.*,over=tcp"]);
    let met = |host, qtype, transport| {
        !befall(&picky, &query(1, host, qtype, false), transport).0.faults.is_empty()
    };
    assert!(met(7, AAAA, Transport::Tcp));
    assert!(!met(7, A, Transport::Tcp) && !met(8, AAAA, Transport::Tcp) && !met(7, AAAA, Transport::Udp));
    assert!(picky.first_conditional().is_some() && half.first_conditional().is_none());
}

#[test]
fn broken_queries_are_no_danger() {
    let all =
        faults(&["delay=1ms", "truncate", "lame", "rcode=SERVFAIL", "bogus", "wrong-id", "wrong-question"]);
    let whole = query(1, 7, AAAA, true);
    for length in 0..whole.len() {
        befall(&all, &whole[..length], Transport::Udp);
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x3f, 0x40, 0xc0, 0xff] {
            let mut broken = whole.clone();
            broken[at] = value;
            let (reply, octets) = befall(&all, &broken, Transport::Udp);
            assert!(octets.len() <= ANSWER_OCTETS_MAX && reply.copies == 1);
        }
    }
}

proptest! {
    #[test]
    fn any_octets_meet_any_faults_without_harm(
        query in prop::collection::vec(any::<u8>(), 0..300),
        answer in prop::collection::vec(any::<u8>(), 0..ANSWER_OCTETS_MAX),
    ) {
        let all = faults(&["truncate", "bogus", "wrong-id", "wrong-question", "delay=normal(1ms,9ms)", "rcode=4095,share=50%", "lame"]);
        let mut out = [0; ANSWER_OCTETS_MAX];
        out[..answer.len()].copy_from_slice(&answer);
        let answer = Answer { octets: answer.len(), kind: crate::QueryKind::Malformed };
        for transport in [Transport::Udp, Transport::Tcp] {
            let reply = all.befall(&query, transport, answer, &mut out);
            prop_assert!(reply.answer.octets <= out.len() && reply.delay_ns <= DELAY_NS_MAX);
        }
    }

    #[test]
    fn any_text_is_a_fault_or_told_why_not(text in "[a-z0-9=%,().*-]{0,40}", kind in 0..Kind::ALL.len()) {
        for text in [text.clone(), format!("{}={text}", Kind::ALL[kind].name()), format!("loss,{text}")] {
            if let Err(error) = text.parse::<Fault>() {
                let error = error.to_string();
                prop_assert!(!error.contains('\n') && error.len() < 500, "{error}");
            }
        }
    }
}
