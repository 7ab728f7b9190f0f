//! Any octets as a query to the zone: it never panics, and what it answers is an answer, as another DNS
//! library reads it.

use std::sync::LazyLock;

use authdns::{ANSWER_OCTETS_MAX, RecordsFile, Rules, Signing, SigningKey, Transport, Zone, ZoneConfig};
use domain::base::Message;
use domain::base::iana::Rtype;
use domain::base::name::ToLabelIter;

/// The least that every client takes over UDP (RFC 1035 4.2.1), and the header.
const UDP_OCTETS: usize = 512;
const HEADER_OCTETS: usize = 12;

const RECORDS: &str =
    "www A 192.0.2.1\nb.c TXT text\nold DNAME new\nx.new AAAA 2001:db8::1\nalias CNAME www\n";

/// The plain zone, and a signed one with everything in it.
static ZONES: LazyLock<[Zone; 2]> = LazyLock::new(|| {
    let plain = ZoneConfig { aaaa_share_percent: 50, ..ZoneConfig::default() };
    let key = SigningKey::from_seed("fuzz");
    let full = ZoneConfig {
        names: "10.0.0.0/8".parse().ok(),
        rules: Rules { short: true, wildcard: true, chains: true, types: true, reverse: true },
        addresses_per_name: 3,
        records: Some(RecordsFile { name: "records".into(), text: RECORDS.into() }),
        signing: Some(Signing { key, inception_s: 1, expiration_s: 2 }),
        ..plain.clone()
    };
    [plain, full].map(|config| Zone::new(config).expect("a zone"))
});

/// Asks the zones.
pub fn run(query: &[u8]) {
    let mut answer = [0; 65_535];
    for zone in ZONES.iter() {
        let octets = zone.respond(query, Transport::Tcp, &mut answer);
        check(query, &answer[..octets], 65_535);
        let octets = zone.respond(query, Transport::Udp, &mut answer[..ANSWER_OCTETS_MAX]);
        check(query, &answer[..octets], udp_limit(query));
        // A buffer that is too small is no reason to panic or to write beyond its end.
        let small = query.len() % (UDP_OCTETS + 1);
        assert!(zone.respond(query, Transport::Udp, &mut answer[..small]) <= small);
    }
}

/// What the answer over UDP may have at most: what the client's OPT says, but not less than 512 (RFC 6891
/// 6.2.3). Its options, which may be malformed, are nobody's concern.
fn udp_limit(query: &[u8]) -> usize {
    let Ok(message) = Message::from_octets(query) else { return UDP_OCTETS };
    let Ok(additional) = message.additional() else { return UDP_OCTETS };
    let opt = additional.flatten().find(|record| record.rtype() == Rtype::OPT);
    opt.map_or(UDP_OCTETS, |opt| usize::from(opt.class().to_int()).max(UDP_OCTETS))
}

fn check(query: &[u8], answer: &[u8], limit: usize) {
    let is_query = query.len() >= HEADER_OCTETS && query[2] & 0x80 == 0;
    assert_eq!(!answer.is_empty(), is_query, "queries get answers, and nothing else does");
    if answer.is_empty() {
        return;
    }
    assert!(answer.len() <= limit, "{} octets, {limit} allowed", answer.len());
    let read = Message::from_octets(answer).expect("a header at least");
    let header = read.header();
    assert_eq!(header.id().to_be_bytes(), query[..2]);
    assert!(header.qr() && !header.ra() && !header.ad());
    assert_eq!(header.rd(), query[2] & 1 == 1);
    for record in [read.answer(), read.authority(), read.additional()].into_iter().flat_map(Result::unwrap) {
        record.expect("a record");
    }
    let Ok(question) = read.sole_question() else {
        assert_eq!(answer.len(), HEADER_OCTETS, "an answer without a question is a header");
        return;
    };
    let end = HEADER_OCTETS + usize::from(question.qname().compose_len()) + 4;
    assert_eq!(answer[HEADER_OCTETS..end], query[HEADER_OCTETS..end], "the question, octet by octet");
}
