//! Any frame through the program in the kernel (BPF_PROG_TEST_RUN): it makes the octets of the answer
//! function of it, or leaves it alone. As root, or with the capabilities for XDP programs.
#![no_main]

use std::sync::LazyLock;

use authdns::kernel_program::Answerer;
use authdns::{Zone, ZoneConfig};
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tester/authdns/tests/authority/oracle.rs"]
mod oracle;

/// As in the seeds.
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const LISTEN: [&str; 2] = ["198.18.0.2:53", "[2001:2::2]:53"];
/// What the kernel takes for one run.
const FRAME_OCTETS: std::ops::RangeInclusive<usize> = 14..=1514;

static SUBJECT: LazyLock<(Zone, Answerer)> = LazyLock::new(|| {
    let config = ZoneConfig { aaaa_share_percent: 50, ..ZoneConfig::default() };
    let zone = Zone::new(config).expect("the default suffix is one");
    let listen = LISTEN.map(|address| address.parse().expect("an address"));
    let program = Answerer::load(&zone.hot_zone().expect("it has templates"), &listen, MAC, false);
    let program = program.unwrap_or_else(|why| panic!("cannot fuzz the program: {why}"));
    (zone, program)
});

fuzz_target!(|input: &[u8]| {
    if FRAME_OCTETS.contains(&input.len()) {
        let mut frame = input.to_vec();
        let (zone, program) = &*SUBJECT;
        oracle::answers_rightly_or_passes(zone, program, &frame);
        // The same with what inputs seldom guess: our hardware address and the checksum of an IPv4 header.
        frame[..6].copy_from_slice(&MAC);
        if let Some(ip) = frame.get_mut(14..34) {
            ip[10..12].fill(0);
            let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
            let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        if frame[12..14] == [8, 0] {
            oracle::answers_rightly_or_passes(zone, program, &frame);
        }
    }
});
