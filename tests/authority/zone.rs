//! What the zone says, with the `domain` crate as oracle.

use domain::base::iana::{Class, Opcode, OptRcode, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, Ttl};
use domain::rdata::{A, Aaaa, AllRecordData, Ns, Soa};
use proptest::prelude::*;
use sextant::authority::{QueryKind, Transport, Zone, ZoneConfig};

type AnyRecord<'a> = domain::base::Record<
    domain::base::ParsedName<&'a [u8]>,
    AllRecordData<&'a [u8], domain::base::ParsedName<&'a [u8]>>,
>;

const HOST: &str = "010-000-000-007.dns64perf.test";

/// An EDNS offer: payload size and DO.
type Offer = Option<(u16, bool)>;

fn query(name: &str, qtype: Rtype, offer: Offer) -> Vec<u8> {
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
    let question_end = 12 + told.sole_question().unwrap().qname().as_slice().len() + 4;
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

fn records(section: domain::base::message::RecordSection<'_, [u8]>) -> Vec<String> {
    section
        .limit_to::<AllRecordData<_, _>>()
        .map(|record| record.unwrap())
        .filter(|record| record.rtype() != Rtype::OPT)
        .map(|record| {
            format!("{} {} {} {}", record.owner(), record.ttl().as_secs(), record.rtype(), record.data())
        })
        .collect()
}
