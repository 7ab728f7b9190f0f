//! What an answer of the AuthDNS costs without its sockets: `cargo bench --bench authority`.

use std::hint::black_box;
use std::time::Instant;

use authdns::{ANSWER_OCTETS_MAX, Rules, Signing, SigningKey, Transport, Zone, ZoneConfig, ZoneError};
use dns64::wire::{CLASS_IN, Edns, Header, Name, Overflow, Question, Writer, rtype};

const ROUNDS: u32 = 20;
const NAMES: usize = 1 << 14;

fn main() -> Result<(), ZoneError> {
    let ipv4_only = Zone::new(ZoneConfig::default())?;
    let with_aaaa = Zone::new(ZoneConfig { aaaa_share_percent: 100, ..ZoneConfig::default() })?;
    let existing = |n: usize| format!("010-{:03}-{:03}-{:03}.dns64perf.test", n >> 16, n >> 8 & 255, n & 255);
    let missing = |n: usize| format!("n{n}.dns64perf.test");
    report("A", &ipv4_only, &queries(existing, rtype::A, false));
    report("A, EDNS", &ipv4_only, &queries(existing, rtype::A, true));
    report("AAAA, EDNS", &with_aaaa, &queries(existing, rtype::AAAA, true));
    report("no AAAA (SOA), EDNS", &ipv4_only, &queries(existing, rtype::AAAA, true));
    report("NXDOMAIN, EDNS (general way)", &ipv4_only, &queries(missing, rtype::A, true));
    report_extras(&existing)
}

/// What the rule answers, with names added to it and signed.
fn report_extras(existing: &impl Fn(usize) -> String) -> Result<(), ZoneError> {
    let rules = Rules { short: true, wildcard: true, chains: true, types: true, reverse: true };
    let signing = Signing { key: SigningKey::from_seed("bench"), inception_s: 0, expiration_s: 1 };
    let all = Zone::new(ZoneConfig { rules, ..ZoneConfig::default() })?;
    let signed = Zone::new(ZoneConfig { rules, signing: Some(signing), ..ZoneConfig::default() })?;
    let below =
        |top| move |n: usize| format!("10-{}-{}-{}.{top}.dns64perf.test", n >> 16, n >> 8 & 255, n & 255);
    report("wildcard name", &all, &queries(below("any"), rtype::A, false));
    report("chain of 4 CNAMEs", &all, &queries(below("c4"), rtype::A, false));
    report("signed, A without EDNS", &signed, &queries(existing, rtype::A, false));
    // Each signature costs as much as hundreds of other answers.
    report("signed, A with DO", &signed, &queries(existing, rtype::A, true)[..NAMES / 64]);
    report("signed, no AAAA with DO", &signed, &queries(existing, rtype::AAAA, true)[..NAMES / 64]);
    Ok(())
}

fn queries(name: impl Fn(usize) -> String, qtype: u16, edns: bool) -> Vec<Vec<u8>> {
    (0..NAMES).map(|n| query(&name(n), qtype, edns).expect("512 octets hold a query")).collect()
}

fn query(name: &str, qtype: u16, edns: bool) -> Result<Vec<u8>, Overflow> {
    let name = Name::from_text(name).expect("the names of this file are names");
    let mut buffer = [0; 512];
    let mut writer = Writer::new(&mut buffer, 1, Header::RD, &Question { name, qtype, qclass: CLASS_IN })?;
    if edns {
        writer.edns(&Edns { payload_octets: 1232, extended_rcode: 0, version: 0, dnssec_ok: true }, &[])?;
    }
    let length = writer.finish();
    Ok(buffer[..length].to_vec())
}

/// The best of some rounds, for pauses of the machine only ever add.
fn report(what: &str, zone: &Zone, queries: &[Vec<u8>]) {
    let (mut best_ns, mut out) = (f64::INFINITY, [0; ANSWER_OCTETS_MAX]);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for query in queries {
            black_box(zone.respond(black_box(query), Transport::Udp, black_box(&mut out)));
        }
        best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / queries.len() as f64);
    }
    println!("{what}: {best_ns:.1} ns");
}
