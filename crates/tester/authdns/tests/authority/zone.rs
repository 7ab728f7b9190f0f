//! What the zone says, with the `domain` crate as oracle.

use authdns::{QueryKind, Transport, Zone, ZoneConfig};
use domain::base::iana::{Rcode, Rtype};
use domain::base::name::ToLabelIter;
use domain::base::{Message, MessageBuilder, Name};
use domain::rdata::AllRecordData;
use proptest::prelude::*;

pub const HOST: &str = "010-000-000-007.dns64perf.test";

/// An EDNS offer: payload size and DO.
pub type Offer = Option<(u16, bool)>;

pub fn query(name: &str, qtype: Rtype, offer: Offer) -> Vec<u8> {
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(0x1234);
    builder.header_mut().set_rd(true);
    let mut question = builder.question();
    question.push((name.parse::<Name<Vec<u8>>>().unwrap(), qtype)).unwrap();
    let mut additional = question.additional();
    if let Some((payload, dnssec_ok)) = offer {
        additional
            .opt(|opt| {
                opt.set_udp_payload_size(payload);
                opt.set_dnssec_ok(dnssec_ok);
                Ok(())
            })
            .unwrap();
    }
    additional.finish()
}

/// Answers, and checks what holds for every answer to a well-formed query.
fn ask(zone: &Zone, query: &[u8]) -> Vec<u8> {
    let mut out = [0; 4096];
    let length = zone.respond(query, Transport::Udp, &mut out);
    let answer = out[..length].to_vec();
    let (asked, told) = (Message::from_octets(query).unwrap(), Message::from_octets(&answer[..]).unwrap());
    assert_eq!(told.header().id(), asked.header().id());
    assert!(told.header().qr() && !told.header().ra() && !told.header().tc() && !told.header().ad());
    assert_eq!(told.header().rd(), asked.header().rd());
    let question_end = 12 + told.sole_question().unwrap().qname().compose_len() as usize + 4;
    assert_eq!(answer[12..question_end], query[12..question_end], "the question octet for octet");
    assert_eq!(told.opt().is_some(), asked.opt().is_some());
    if let (Some(offer), Some(opt)) = (asked.opt(), told.opt()) {
        assert_eq!((opt.udp_payload_size(), opt.version()), (1232, 0));
        assert_eq!(opt.dnssec_ok(), offer.dnssec_ok());
        assert_eq!(
            told.additional().unwrap().last().unwrap().unwrap().rtype(),
            Rtype::OPT,
            "OPT stands last"
        );
    }
    answer
}

/// The records of the answer, authority and additional sections, as text; OPT left out.
pub fn records(answer: &[u8]) -> [Vec<String>; 3] {
    let message = Message::from_octets(answer).unwrap();
    [message.answer(), message.authority(), message.additional()].map(|section| {
        section
            .unwrap()
            .map(|record| record.unwrap().into_any_record::<AllRecordData<_, _>>().unwrap())
            .filter(|record| record.rtype() != Rtype::OPT)
            .map(|record| {
                format!("{} {} {} {}", record.owner(), record.ttl().as_secs(), record.rtype(), record.data())
            })
            .collect()
    })
}

pub fn rcode(answer: &[u8]) -> (Rcode, bool) {
    let header = Message::from_octets(answer).unwrap().header();
    (header.rcode(), header.aa())
}

fn zone(change: impl FnOnce(&mut ZoneConfig)) -> Zone {
    let mut config = ZoneConfig::default();
    change(&mut config);
    Zone::new(config).unwrap()
}

pub const SOA: &str =
    "dns64perf.test 60 SOA ns.dns64perf.test. hostmaster.dns64perf.test. 1 3600 600 86400 60";

#[test]
fn every_kind_of_name_and_type() {
    let with_aaaa = zone(|config| config.aaaa_share_percent = 100);
    let ipv4_only = zone(|_| ());
    let no_error = (Rcode::NOERROR, true);
    let (a, aaaa) = (format!("{HOST} 60 A 10.0.0.7"), format!("{HOST} 60 AAAA 2001:2:0:aaaa::a00:7"));
    let glue = ["ns.dns64perf.test 60 A 127.0.0.1", "ns.dns64perf.test 60 AAAA ::1"];
    for (zone, name, qtype, expected, sections) in [
        (&ipv4_only, HOST, Rtype::A, no_error, [&[&a[..]][..], &[], &[]]),
        (&with_aaaa, HOST, Rtype::A, no_error, [&[&a], &[], &[]]),
        (&with_aaaa, HOST, Rtype::AAAA, no_error, [&[&aaaa], &[], &[]]),
        (&ipv4_only, HOST, Rtype::AAAA, no_error, [&[], &[SOA], &[]]),
        (&ipv4_only, HOST, Rtype::ANY, no_error, [&[&a], &[], &[]]),
        (&ipv4_only, HOST, Rtype::HTTPS, no_error, [&[], &[SOA], &[]]),
        (&ipv4_only, HOST, Rtype::CNAME, no_error, [&[], &[SOA], &[]]),
        (&ipv4_only, "dns64perf.test", Rtype::SOA, no_error, [&[SOA], &[], &[]]),
        (&ipv4_only, "dns64perf.test", Rtype::ANY, no_error, [&[SOA], &[], &[]]),
        (
            &ipv4_only,
            "dns64perf.test",
            Rtype::NS,
            no_error,
            [&["dns64perf.test 60 NS ns.dns64perf.test."], &[], &glue],
        ),
        (&ipv4_only, "dns64perf.test", Rtype::AAAA, no_error, [&[], &[SOA], &[]]),
        (&ipv4_only, "dns64perf.test", Rtype::DS, no_error, [&[], &[SOA], &[]]),
        (&ipv4_only, "ns.dns64perf.test", Rtype::A, no_error, [&glue[..1], &[], &[]]),
        (&ipv4_only, "ns.dns64perf.test", Rtype::AAAA, no_error, [&glue[1..], &[], &[]]),
        (&ipv4_only, "ns.dns64perf.test", Rtype::TXT, no_error, [&[], &[SOA], &[]]),
        (&ipv4_only, "www.dns64perf.test", Rtype::A, (Rcode::NXDOMAIN, true), [&[], &[SOA], &[]]),
        (&ipv4_only, "010-000-000-256.dns64perf.test", Rtype::A, (Rcode::NXDOMAIN, true), [&[], &[SOA], &[]]),
        (
            &ipv4_only,
            "a.010-000-000-007.dns64perf.test",
            Rtype::A,
            (Rcode::NXDOMAIN, true),
            [&[], &[SOA], &[]],
        ),
        (&ipv4_only, "test", Rtype::NS, (Rcode::REFUSED, false), [&[], &[], &[]]),
        (&ipv4_only, "010-000-000-007.example", Rtype::A, (Rcode::REFUSED, false), [&[], &[], &[]]),
        (&ipv4_only, "xdns64perf.test", Rtype::A, (Rcode::REFUSED, false), [&[], &[], &[]]),
        (&ipv4_only, "dns64perf.test", Rtype::AXFR, (Rcode::REFUSED, false), [&[], &[], &[]]),
    ] {
        for offer in [None, Some((4096, false)), Some((512, true)), Some((0, false))] {
            let answer = ask(zone, &query(name, qtype, offer));
            assert_eq!(rcode(&answer), expected, "{name} {qtype}");
            assert_eq!(records(&answer), sections.map(<[&str]>::to_vec), "{name} {qtype}");
        }
    }
}

#[test]
fn options_show_in_the_answers() {
    let zone = zone(|config| {
        config.suffix = "Example.".to_owned();
        (config.ttl_s, config.negative_ttl_s) = (0, 5);
        config.names = Some("10.0.0.0/30".parse().unwrap());
        config.aaaa_share_percent = 100;
        config.aaaa_prefix = "2001:db8::/32".parse().unwrap();
        (config.ns_ipv4, config.ns_ipv6) = (None, Some("2001:db8::53".parse().unwrap()));
    });
    let soa = "example 5 SOA ns.example. hostmaster.example. 1 3600 600 86400 5";
    let inside = ask(&zone, &query("010-000-000-003.example", Rtype::AAAA, None));
    assert_eq!(records(&inside)[0], ["010-000-000-003.example 0 AAAA 2001:db8:a00:3::"]);
    let outside = ask(&zone, &query("010-000-000-004.example", Rtype::A, None));
    assert_eq!((rcode(&outside).0, &records(&outside)[1][..]), (Rcode::NXDOMAIN, &[soa.to_owned()][..]));
    assert_eq!(records(&ask(&zone, &query("ns.example", Rtype::A, None)))[1], [soa]);
    let name_server = ask(&zone, &query("example", Rtype::NS, None));
    assert_eq!(records(&name_server)[2], ["ns.example 0 AAAA 2001:db8::53"]);
}

#[test]
fn bad_configurations_are_told() {
    let error = |change: fn(&mut ZoneConfig)| {
        let mut config = ZoneConfig::default();
        change(&mut config);
        Zone::new(config).unwrap_err().to_string()
    };
    assert!(error(|config| config.suffix.clear()).contains("needs a label"));
    assert!(error(|config| config.suffix = "a..b".into()).contains("suffix 'a..b'"));
    assert!(error(|config| config.suffix = "a b".into()).contains("only letters"));
    assert!(error(|config| config.suffix = "a.".repeat(120)).contains("no room"));
    assert!(error(|config| config.ttl_s = 1 << 31).contains("TTL 2147483648"));
    assert!(error(|config| config.aaaa_share_percent = 101).contains("0 to 100"));
}

#[test]
fn the_case_of_the_question_is_kept_in_the_names_of_the_answer() {
    let answer = ask(&zone(|_| ()), &query("010-000-000-007.DNS64perf.TeSt", Rtype::AAAA, None));
    assert_eq!(records(&answer)[1][0], SOA.replace("dns64perf.test", "DNS64perf.TeSt"));
}

/// The first four octets of the flags and counts, and the kind, of the answer to a changed query.
fn answer_to(change: impl FnOnce(&mut Vec<u8>)) -> Option<(u16, [u8; 8], QueryKind)> {
    let mut query = query(HOST, Rtype::A, Some((1232, false)));
    change(&mut query);
    let mut out = [0; 512];
    let answer = zone(|_| ()).answer(&query, Transport::Udp, &mut out);
    let flags = u16::from_be_bytes([out[2], out[3]]);
    (answer.octets > 0).then(|| (flags, out[4..12].try_into().unwrap(), answer.kind))
}

#[test]
fn unusual_headers() {
    let header_alone = [0; 8];
    let with_question = [0, 1, 0, 0, 0, 0, 0, 1];
    let answered = [0, 1, 0, 1, 0, 0, 0, 1];
    assert_eq!(answer_to(|_| ()), Some((0x8500, answered, QueryKind::A)), "RD is copied");
    assert_eq!(answer_to(|query| query[2] |= 0x80), None, "an answer is dropped");
    assert_eq!(answer_to(|query| query.truncate(11)), None, "less than a header is dropped");
    let not_implemented = Some((0xa904, header_alone, QueryKind::Other));
    assert_eq!(answer_to(|query| query[2] |= 5 << 3), not_implemented, "UPDATE");
    let malformed = Some((0x8101, header_alone, QueryKind::Malformed));
    assert_eq!(answer_to(|query| query[5] = 0), malformed, "no question");
    assert_eq!(answer_to(|query| query[5] = 2), malformed, "two questions");
    assert_eq!(answer_to(|query| query.truncate(40)), malformed, "half a question");
    assert_eq!(answer_to(|query| query[12] = 0xc0), malformed, "a compressed question");
    assert_eq!(answer_to(|query| query[11] = 2), malformed, "a record is missing");
    let twice = |query: &mut Vec<u8>| {
        query[11] = 2;
        query.extend_from_within(query.len() - 11..);
    };
    assert_eq!(answer_to(twice), malformed, "two OPT records");
    let version = |query: &mut Vec<u8>| {
        let at = query.len() - 5;
        query[at] = 1;
    };
    assert_eq!(
        answer_to(version),
        Some((0x8100, with_question, QueryKind::A)),
        "BADVERS is in the OPT record"
    );
    let chaos = |query: &mut Vec<u8>| {
        let at = query.len() - 12;
        query[at] = 3;
    };
    assert_eq!(answer_to(chaos), Some((0x8105, with_question, QueryKind::Other)), "class CHAOS");
    assert_eq!(answer_to(|query| query.push(0)), Some((0x8500, answered, QueryKind::A)), "octets at the end");
    assert_eq!(answer_to(|query| query[3] = 0xff), Some((0x8500, answered, QueryKind::A)), "CD, AD, Z");
}

/// The root is shorter than the suffix.
#[test]
fn a_question_for_the_root_is_refused() {
    let zone = zone(|_| ());
    let mut out = [0; 512];
    let query = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];
    let length = zone.respond(&query, Transport::Udp, &mut out);
    assert_eq!(out[..length], [0, 1, 0x81, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]);
}

#[test]
fn badvers_is_extended_and_carries_version_0() {
    let mut query = query(HOST, Rtype::A, Some((1232, true)));
    let version_at = query.len() - 5;
    query[version_at] = 7;
    let answer = ask(&zone(|_| ()), &query);
    let opt = Message::from_octets(&answer[..]).unwrap().opt().unwrap();
    assert_eq!(opt.rcode(rcode_header(&answer)).to_string(), "BADVERS");
    assert_eq!(records(&answer), <[Vec<String>; 3]>::default());
}

fn rcode_header(answer: &[u8]) -> domain::base::Header {
    Message::from_octets(answer).unwrap().header()
}

#[test]
fn what_does_not_fit_is_truncated() {
    let zone = zone(|_| ());
    let query = query(HOST, Rtype::AAAA, Some((1232, false)));
    let mut out = [0; 512];
    let whole = zone.respond(&query, Transport::Udp, &mut out);
    for room in 0..whole {
        let length = zone.respond(&query, Transport::Tcp, &mut out[..room]);
        assert!(length <= room);
        if length > 0 {
            let answer = Message::from_octets(&out[..length]).unwrap();
            assert!(answer.header().tc() && answer.header_counts().ancount() == 0);
            assert_eq!(answer.opt().is_some(), room >= query.len(), "with OPT where there is room");
        }
        assert_eq!(length > 0, room >= query.len() - 11, "{room}");
    }
}

proptest! {
    #[test]
    fn any_octets_are_answered_or_not(octets in prop::collection::vec(any::<u8>(), 0..600), room in 0usize..600) {
        let mut out = vec![0; room];
        prop_assert!(zone(|_| ()).respond(&octets, Transport::Udp, &mut out) <= room.min(512));
    }

    #[test]
    fn changed_queries_are_answered_within_their_limits(
        name in prop::sample::select(vec![HOST, "dns64perf.test", "ns.dns64perf.test", "nothing.dns64perf.test", "org"]),
        qtype in prop::sample::select(vec![1u16, 2, 6, 28, 41, 65, 252, 255]),
        offer in prop::option::of((any::<u16>(), any::<bool>())),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut query = query(name, Rtype::from_int(qtype), offer);
        for (at, octet) in changes {
            let at = at.index(query.len());
            query[at] = octet;
        }
        if let Some(cut) = cut {
            query.truncate(cut.index(query.len()));
        }
        let mut out = [0; 4096];
        let length = zone(|config| config.aaaa_share_percent = 50).respond(&query, Transport::Udp, &mut out);
        prop_assert!(length <= 512);
        if length > 0 {
            let answer = Message::from_octets(&out[..length]).unwrap();
            prop_assert!(answer.header().qr() && !answer.header().tc());
            prop_assert_eq!(&out[..2], &query[..2]);
            for record in answer.iter() {
                prop_assert!(record.is_ok());
            }
        }
    }
}
