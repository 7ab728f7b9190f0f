//! Which replies are kept, and how long.

use dns64::wire::Edns;

use super::*;
use crate::settings::Caching;

const CACHING: Caching = Caching {
    ttl_max_s: 1000,
    negative_ttl_max_s: 500,
    failure_ttl_s: 1,
    stale: None,
    prefetch: false,
    nxdomain_cut: false,
};

const TARGET: &[u8] = &[1, b'x', 0];

type Described<'a> = (Section, &'a str, u16, u32, &'a [u8]);

fn life_s(rcode: u8, records: &[Described<'_>]) -> Option<u32> {
    let octets = reply(&question("a.test", rtype::AAAA), rcode, records);
    lifetime_s(&CACHING, &Message::parse(&octets).unwrap())
}

fn answer(ttl_s: u32) -> Described<'static> {
    (Section::Answer, "a.test", rtype::AAAA, ttl_s, &[1; 16])
}

fn alias(ttl_s: u32) -> Described<'static> {
    (Section::Answer, "a.test", rtype::CNAME, ttl_s, TARGET)
}

fn soa_record(ttl_s: u32, rdata: &[u8]) -> Described<'_> {
    (Section::Authority, "test", rtype::SOA, ttl_s, rdata)
}

#[test]
fn a_positive_reply_lives_as_long_as_its_shortest_answer() {
    assert_eq!(life_s(0, &[answer(60)]), Some(60));
    assert_eq!(life_s(0, &[alias(30), answer(60)]), Some(30));
    assert_eq!(life_s(0, &[answer(60), soa_record(5, &soa(5))]), Some(60), "the SOA is not the answer's");
    assert_eq!(life_s(0, &[answer(100_000)]), Some(1000), "capped");
    assert_eq!(life_s(0, &[answer(60), answer(0)]), None);
    assert_eq!(life_s(0, &[answer(0x8000_0000)]), None, "RFC 2181 8");
}

#[test]
fn a_negative_reply_lives_as_its_soa_says() {
    for rcode in [rcode::NOERROR, rcode::NXDOMAIN] {
        assert_eq!(life_s(rcode, &[soa_record(60, &soa(90))]), Some(60));
        assert_eq!(life_s(rcode, &[soa_record(90, &soa(60))]), Some(60));
        assert_eq!(life_s(rcode, &[alias(30), soa_record(90, &soa(60))]), Some(30));
        assert_eq!(life_s(rcode, &[alias(90), soa_record(90, &soa(60))]), Some(60));
        assert_eq!(life_s(rcode, &[soa_record(900, &soa(900))]), Some(500), "capped");
        assert_eq!(life_s(rcode, &[soa_record(900, &soa(0))]), None);
        assert_eq!(life_s(rcode, &[]), None, "RFC 2308 5");
        assert_eq!(life_s(rcode, &[alias(60)]), None);
        assert_eq!(life_s(rcode, &[soa_record(60, &[1])]), None, "malformed");
    }
}

#[test]
fn failures_truncated_and_malformed_replies_and_transfers_are_not_kept() {
    for rcode in [rcode::FORMERR, rcode::SERVFAIL, rcode::NOTIMP, rcode::REFUSED, rcode::YXDOMAIN] {
        assert_eq!(life_s(rcode, &[answer(60)]), None, "{rcode}");
    }
    let octets = reply(&question("a.test", rtype::AAAA), 0, &[answer(60)]);
    let judge = |octets: &[u8]| lifetime_s(&CACHING, &Message::parse(octets).unwrap());
    assert_eq!(judge(&octets), Some(60));
    assert_eq!(judge(&octets[..octets.len() - 1]), None);
    let mut truncated = octets;
    truncated[2] |= 2;
    assert_eq!(judge(&truncated), None);
    let transfer = question("a.test", 252);
    assert_eq!(judge(&reply(&transfer, 0, &[(Section::Answer, "a.test", 252, 60, &[])])), None);
    let any = question("a.test", rtype::ANY);
    assert_eq!(judge(&reply(&any, 0, &[answer(60)])), Some(60));
}

#[test]
fn an_extended_error_code_is_no_success() {
    let asked = question("a.test", rtype::AAAA);
    let mut buffer = [0; 512];
    let mut writer = Writer::new(&mut buffer, 1, Header::QR, &asked).unwrap();
    writer.record(Section::Answer, &asked.name, rtype::AAAA, CLASS_IN, 60, &[1; 16]).unwrap();
    let edns = Edns { payload_octets: 1232, extended_rcode: 1, version: 0, dnssec_ok: false };
    writer.edns(&edns, &[]).unwrap();
    let length = writer.finish();
    assert_eq!(lifetime_s(&CACHING, &Message::parse(&buffer[..length]).unwrap()), None);
}
