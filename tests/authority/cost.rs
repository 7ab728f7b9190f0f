//! What an answer costs, on request: `cargo test --release --test authority -- --ignored --nocapture cost`.

use std::hint::black_box;
use std::time::Instant;

use domain::base::iana::Rtype;
use sextant::authority::{Transport, Zone, ZoneConfig};

use crate::zone::query;

#[test]
#[ignore = "a measurement, not a check"]
fn cost_of_an_answer() {
    const ROUNDS: u32 = 20;
    const ADDRESSES: usize = 1 << 14;
    let with_aaaa = Zone::new(ZoneConfig { aaaa_share_percent: 100, ..ZoneConfig::default() }).unwrap();
    let ipv4_only = Zone::new(ZoneConfig::default()).unwrap();
    let names = || {
        (0..ADDRESSES)
            .map(|n| format!("010-{:03}-{:03}-{:03}.dns64perf.test", n >> 16, n >> 8 & 255, n & 255))
    };
    let missing = || (0..ADDRESSES).map(|n| format!("n{n}.dns64perf.test"));
    let batch = |names: Vec<String>, qtype, offer| -> Vec<Vec<u8>> {
        names.iter().map(|name| query(name, qtype, offer)).collect()
    };
    for (what, zone, queries) in [
        ("A", &ipv4_only, batch(names().collect(), Rtype::A, None)),
        ("A, EDNS", &ipv4_only, batch(names().collect(), Rtype::A, Some((1232, true)))),
        ("AAAA, EDNS", &with_aaaa, batch(names().collect(), Rtype::AAAA, Some((1232, true)))),
        ("no AAAA (SOA), EDNS", &ipv4_only, batch(names().collect(), Rtype::AAAA, Some((1232, true)))),
        (
            "NXDOMAIN, EDNS (general way)",
            &ipv4_only,
            batch(missing().collect(), Rtype::A, Some((1232, true))),
        ),
    ] {
        let mut best_ns = f64::INFINITY;
        let mut out = [0; 512];
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for query in &queries {
                black_box(zone.respond(black_box(query), Transport::Udp, black_box(&mut out)));
            }
            best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / ADDRESSES as f64);
        }
        println!("{what}: {best_ns:.1} ns");
    }
}
