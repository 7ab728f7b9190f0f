//! The program in the kernel gives the octets of the answer function, or leaves the frame alone; tried frame by frame,
//! without a device (BPF_PROG_TEST_RUN).

use net::kernel::{Answerer, AnswererCounters, HotZone};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sextant::authority::{Zone, ZoneConfig, faults};

use super::frames::{
    Asked, SERVER_MAC, SERVERS, answer_frame, asked, has_valid_checksums, query_frame, tags,
};

const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;

/// Whether programs can be used here; if not, says so as a skipped test must.
pub fn can_run() -> bool {
    net::bpf::available().map_err(|why| println!("SKIPPED: {why}")).is_ok()
}

fn load(zone: &Zone) -> Answerer {
    let listen = SERVERS.map(|server| server.parse().unwrap());
    Answerer::load(&zone.hot_zone().unwrap(), &listen, SERVER_MAC, false).unwrap()
}

/// Zones of all kinds that the program must know, with suffixes of all lengths modulo eight.
fn zones() -> Vec<Zone> {
    let mut zones = Vec::new();
    let prefixes = [
        "2001:2::/32",
        "2001:2::/40",
        "2001:2:3300::/48",
        "2001:2::/56",
        "2001:2:0:aaaa::/64",
        "2001:2::/96",
    ];
    let suffixes = [
        "a",
        "dns64perf.test",
        "x.y",
        "abcdefgh.example",
        "z9.dns64perf.test",
        "a-b_c.example.org",
        &["abc"; 15].join("."),
        "abcd.efg",
    ];
    for (index, suffix) in suffixes.into_iter().enumerate() {
        zones.push(ZoneConfig {
            suffix: suffix.to_owned(),
            ttl_s: 0x0102_0304 * (index as u32 % 2) + 60,
            negative_ttl_s: 7 * index as u32,
            aaaa_share_percent: [50, 100, 0, 33][index % 4],
            aaaa_prefix: prefixes[index % prefixes.len()].parse().unwrap(),
            names: [None, Some("128.0.0.0/1"), Some("0.0.0.0/0")][index % 3]
                .map(|names| names.parse().unwrap()),
            ..ZoneConfig::default()
        });
    }
    zones.into_iter().map(|config| Zone::new(config).unwrap()).collect()
}

/// Whether the zone's short cut, and so the program, must take a query that was not damaged.
fn is_usual(asked: &Asked, zone: &Zone) -> bool {
    let label = dns64::names::parse_label(&asked.label);
    let exists =
        label.is_some_and(|address| zone.config().names.is_none_or(|names| names.index(address).is_some()));
    let has_plain_opt = asked.opt.as_ref().is_none_or(|opt| opt.len() == 11 && opt[6] == 0);
    asked.damage.is_none()
        && exists
        && has_plain_opt
        && asked.flags & 0xf800 == 0
        && asked.qclass == 1
        && [1, 28].contains(&asked.qtype)
}

#[test]
fn queries_that_a_fault_may_meet_are_left_to_the_sockets() {
    if !can_run() {
        return;
    }
    let zone = Zone::new(ZoneConfig::default()).unwrap();
    let listen = SERVERS.map(|server| server.parse().unwrap());
    for (threshold, seed) in [(0, 1), (1 << 30, 42), (1 << 31, 7), (1 << 32, 42)] {
        let hot = HotZone { fault_threshold: threshold, fault_seed: seed, ..zone.hot_zone().unwrap() };
        let program = Answerer::load(&hot, &listen, SERVER_MAC, false).unwrap();
        for id in 0..500u16 {
            let label = format!("010-000-000-{:03}", id % 256).into_bytes();
            let qtype = if id % 3 == 0 { 1 } else { 28 };
            let asked = Asked { id, label, qtype, ..Asked::default() };
            let query = asked.message(&zone.config().suffix);
            let draw = faults::draw(seed, id, qtype, &faults::name_octets(&query));
            let run = program.run(&query_frame(0, &[], &query)).unwrap();
            assert_eq!(run.action == XDP_PASS, u64::from(draw) < threshold, "{id}");
        }
    }
}

#[test]
fn the_program_gives_the_octets_of_the_answer_function() {
    if !can_run() {
        return;
    }
    for zone in zones() {
        let program = load(&zone);
        let mut runner =
            TestRunner::new(Config { cases: 1000, failure_persistence: None, ..Config::default() });
        let input = (asked(), 0usize..2, tags(), prop::option::weighted(0.1, 1usize..40));
        let tested = runner.run(&input, |(asked, family, tags, padding)| {
            let query = asked.message(&zone.config().suffix);
            let mut frame = query_frame(family, &tags, &query);
            frame.resize(frame.len() + padding.unwrap_or(0), 0xee);
            let run = program.run(&frame).unwrap();
            if is_usual(&asked, &zone) {
                prop_assert_eq!(run.action, XDP_TX, "passed");
            }
            if run.action == XDP_PASS {
                prop_assert_eq!(run.frame, frame);
                return Ok(());
            }
            prop_assert_eq!(run.action, XDP_TX);
            prop_assert!(has_valid_checksums(&run.frame, tags.len()));
            prop_assert_eq!(Some(run.frame), answer_frame(&zone, family, &tags, &query));
            Ok(())
        });
        tested.unwrap();
        let AnswererCounters { a, aaaa, no_data, passed, no_room } = program.counters();
        assert!(a + aaaa + no_data > 30 && passed > 30 && no_room == 0, "{:?}", program.counters());
    }
}
