//! The program in the kernel gives the octets of the answer function, or leaves the frame alone; tried frame
//! by frame, without a device (BPF_PROG_TEST_RUN).

use authdns::kernel_program::{Answerer, AnswererCounters, HotZone};
use authdns::{Signing, SigningKey, Zone, ZoneConfig, faults};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sys::frame;

use super::frames::{QueryFrame, SERVER_MAC, SERVERS, asked, query_frame, tags};
use super::oracle::{XDP_PASS, answers_rightly_or_passes};

/// Whether programs can be used here; if not, says so as a skipped test must.
pub fn can_run() -> bool {
    sys::bpf::available().map_err(|why| testing::skip("xdp", why)).is_ok()
}

fn load(zone: &HotZone<'_>) -> Answerer {
    let listen = SERVERS.map(|server| server.parse().unwrap());
    Answerer::load(zone, &listen, SERVER_MAC, false).unwrap()
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config { cases, source_file: Some(file!()), ..Config::default() })
}

/// Zones of all kinds that the program must know, with suffixes of all lengths modulo eight.
fn zones() -> Vec<Zone> {
    let prefixes = [
        "2001:2::/32",
        "2001:2::/40",
        "2001:2:3300::/48",
        "2001:2::/56",
        "2001:2:0:aaaa::/64",
        "2001:2::/96",
    ];
    let longest = ["abc"; 15].join(".");
    let suffixes = [
        "a",
        "dns64perf.test",
        "x.y",
        "abcdefgh.example",
        "z9.dns64perf.test",
        "a-b_c.example.org",
        &longest,
        "abcd.efg",
    ];
    let zone = |(index, suffix): (usize, &str)| {
        let config = ZoneConfig {
            suffix: suffix.to_owned(),
            ttl_s: 0x0102_0304 * (index as u32 % 2) + 60,
            negative_ttl_s: 7 * index as u32,
            aaaa_share_percent: [50, 100, 0, 33][index % 4],
            aaaa_prefix: prefixes[index % prefixes.len()].parse().unwrap(),
            signing: (index % 4 == 1).then(|| Signing {
                key: SigningKey::from_seed("a test"),
                inception_s: 0,
                expiration_s: 1 << 30,
            }),
            names: [None, Some("128.0.0.0/1"), Some("0.0.0.0/0")][index % 3]
                .map(|names| names.parse().unwrap()),
            ..ZoneConfig::default()
        };
        Zone::new(config).unwrap()
    };
    suffixes.into_iter().enumerate().map(zone).collect()
}

/// Whether the program must take a query.
fn is_usual(asked: &QueryFrame, zone: &Zone) -> bool {
    let label = dns64::names::parse_label(&asked.label);
    let exists = |address| zone.config().names.is_none_or(|names| names.index(address).is_some());
    let is_signed = zone.config().signing.is_some();
    // Of options only a client cookie.
    let is_plain =
        |opt: &Vec<u8>| [11, 23].contains(&opt.len()) && opt[6] == 0 && !(is_signed && opt[7] & 0x80 != 0);
    let has_plain_opt = asked.opt.as_ref().is_none_or(is_plain);
    asked.damage.is_none()
        && label.is_some_and(exists)
        && has_plain_opt
        && asked.flags & 0xf800 == 0
        && asked.qclass == 1
        && [1, 28].contains(&asked.qtype)
}

#[test]
fn the_program_gives_the_octets_of_the_answer_function() {
    if !can_run() {
        return;
    }
    for zone in zones() {
        let program = load(&zone.hot_zone().unwrap());
        let input = (asked(), 0usize..2, tags(), prop::option::weighted(0.1, 1usize..40));
        let tested = runner(1000).run(&input, |(asked, family, tags, padding)| {
            let mut frame = query_frame(family, &tags, &asked.message(&zone.config().suffix));
            frame.resize(frame.len() + padding.unwrap_or(0), 0xee);
            let answered = answers_rightly_or_passes(&zone, &program, &frame);
            prop_assert!(answered || !is_usual(&asked, &zone), "a usual query was passed");
            Ok(())
        });
        tested.unwrap();
        let AnswererCounters { a, aaaa, no_data, passed, no_room } = program.counters();
        assert!(a + aaaa + no_data > 30 && passed > 30 && no_room == 0, "{:?}", program.counters());
    }
}

#[test]
fn whatever_is_cut_or_changed_in_a_frame_is_answered_rightly_or_passes() {
    if !can_run() {
        return;
    }
    let zone = Zone::new(ZoneConfig { aaaa_share_percent: 50, ..ZoneConfig::default() }).unwrap();
    let program = load(&zone.hot_zone().unwrap());
    let opt = Some(vec![0, 0, 41, 4, 208, 0, 0, 128, 0, 0, 0]);
    for (family, tags, opt) in
        [(0, &[][..], None), (1, &[][..], opt.clone()), (1, &[[0x88, 0xa8, 0, 7], [0x81, 0, 0, 9]][..], opt)]
    {
        let frame =
            query_frame(family, tags, &QueryFrame { opt, ..QueryFrame::default() }.message("dns64perf.test"));
        assert!(answers_rightly_or_passes(&zone, &program, &frame));
        // The kernel runs no program on less than an Ethernet header.
        for length in frame::ETHERNET_OCTETS..frame.len() {
            assert!(!answers_rightly_or_passes(&zone, &program, &frame[..length]), "{length} octets");
        }
        for at in 0..frame.len() {
            for octet in [0, 1, 2, 0x20, 0x3f, 0x45, 0x7f, 0x80, 0xc0, 0xff, frame[at] ^ 1, frame[at] ^ 0x20]
            {
                let mut changed = frame.clone();
                changed[at] = octet;
                answers_rightly_or_passes(&zone, &program, &changed);
            }
        }
    }
}

/// Changes a frame at a place of its IP header, mends the header's checksum, and wants the program to pass
/// it.
fn passes_with(program: &Answerer, family: usize, changes: &[(usize, &[u8])]) {
    let mut frame = query_frame(family, &[], &QueryFrame::default().message("dns64perf.test"));
    for (at, octets) in changes {
        frame[*at..at + octets.len()].copy_from_slice(octets);
    }
    if family == 0 {
        frame[24..26].fill(0);
        let sum: u32 = frame[14..34].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
    let run = program.run(&frame).unwrap();
    assert_eq!((run.action, run.frame), (XDP_PASS, frame), "{changes:?}");
}

#[test]
fn what_must_not_be_answered_passes() {
    if !can_run() {
        return;
    }
    let zone = Zone::new(ZoneConfig::default()).unwrap();
    let program = load(&zone.hot_zone().unwrap());
    // Multicast and foreign frames, fragments, IPv4 options, no port to answer to, other ports and addresses.
    passes_with(&program, 0, &[(0, &[0x01, 0, 0x5e, 0, 0, 1])]);
    passes_with(&program, 0, &[(0, &[0xff; 6])]);
    passes_with(&program, 0, &[(5, &[9])]);
    for fragment in [[0x20, 0], [0, 1], [0x60, 0], [0x1f, 0xff]] {
        passes_with(&program, 0, &[(20, &fragment)]);
    }
    passes_with(&program, 0, &[(14, &[0x46])]);
    passes_with(&program, 0, &[(34, &[0, 0])]);
    passes_with(&program, 0, &[(36, &[0, 54])]);
    passes_with(&program, 0, &[(33, &[3])]);
    for source in [[0, 0, 0, 1], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4], [198, 18, 0, 2]] {
        passes_with(&program, 0, &[(26, &source)]);
    }
    // IPv6 extension headers (hop-by-hop, fragment), and sources that nobody has.
    for next_header in [0, 43, 44, 60] {
        passes_with(&program, 1, &[(20, &[next_header])]);
    }
    let own = [0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    let mut multicast = own;
    multicast[..2].copy_from_slice(&[0xff, 2]);
    let loopback = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    for source in [own, multicast, loopback, [0; 16]] {
        passes_with(&program, 1, &[(22, &source)]);
    }
    // A response is never answered, nor a length that says something else than the packet.
    passes_with(&program, 1, &[(64, &[0x80])]);
    passes_with(&program, 1, &[(58, &[0, 60])]);
    passes_with(&program, 1, &[(60, &[0, 0])]);
    passes_with(&program, 0, &[(16, &[0, 80])]);
    assert_eq!(program.counters().a + program.counters().aaaa + program.counters().no_data, 0);
}

#[test]
fn queries_that_a_fault_may_meet_are_left_to_the_sockets() {
    if !can_run() {
        return;
    }
    let zone = Zone::new(ZoneConfig::default()).unwrap();
    for (threshold, seed) in [(0, 1), (1 << 30, 42), (1 << 31, 7), (1 << 32, 42)] {
        let program =
            load(&HotZone { fault_threshold: threshold, fault_seed: seed, ..zone.hot_zone().unwrap() });
        for id in 0..500u16 {
            let label = format!("010-000-000-{:03}", id % 256).into_bytes();
            let qtype = if id % 3 == 0 { 1 } else { 28 };
            let query =
                QueryFrame { id, label, qtype, ..QueryFrame::default() }.message(&zone.config().suffix);
            let draw = faults::draw(seed, id, qtype, &faults::name_octets(&query));
            let run = program.run(&query_frame(0, &[], &query)).unwrap();
            assert_eq!(run.action == XDP_PASS, u64::from(draw) < threshold, "{id}");
        }
    }
}
