//! Captures made octet by octet, and what is read of them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Cursor;

use capture::compact::{HEADER_OCTETS, Reader};
use capture::{ConvertError, Converted, LeftOut, Reason, convert, is_capture};
use proptest::prelude::*;

const ETHERNET: u32 = 1;
const RAW: u32 = 101;
const SLL: u32 = 113;
const SLL2: u32 = 276;

/// A query for `n.test`, AAAA.
fn query(n: u8) -> Vec<u8> {
    let mut message = vec![n, n, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a' + n % 26, 4];
    message.extend(b"test\0\0\x1c\0\x01");
    message
}

fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    for number in [from, to, 8 + payload.len() as u16, 0] {
        octets.extend(number.to_be_bytes());
    }
    octets.extend(payload);
    octets
}

fn tcp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut octets = [from.to_be_bytes(), to.to_be_bytes()].concat();
    octets.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    octets.extend(payload);
    octets
}

fn ipv4(source: u8, protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut octets = vec![0x45, 0];
    octets.extend((20 + payload.len() as u16).to_be_bytes());
    octets.extend([0, 1]);
    octets.extend(fragment.to_be_bytes());
    octets.extend([64, protocol, 0, 0, 192, 0, 2, source, 198, 51, 100, 1]);
    octets.extend(payload);
    octets
}

fn ipv6(source: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut octets = vec![0x60, 0, 0, 0];
    octets.extend((payload.len() as u16).to_be_bytes());
    octets.extend([next, 64]);
    octets.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, source]);
    octets.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x53]);
    octets.extend(payload);
    octets
}

/// A query over UDP and IPv4.
fn packet(n: u8) -> Vec<u8> {
    ipv4(n, 17, 0, &udp(40_000, 53, &query(n)))
}

fn framed(link_type: u32, packet: &[u8]) -> Vec<u8> {
    let ether_type: [u8; 2] = if packet[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    let header = match link_type {
        ETHERNET => [&[2; 12][..], &[0x81, 0, 0, 7], &ether_type].concat(),
        SLL => [&[0, 0, 0, 1, 0, 6][..], &[2; 8], &ether_type].concat(),
        SLL2 => [&ether_type[..], &[0, 0, 0, 0, 0, 1, 0, 1, 0, 6], &[2; 8]].concat(),
        _ => Vec::new(),
    };
    [&header, packet].concat()
}

/// Packets with their times in units of the file, and how many octets of each are kept.
type Rows = Vec<(u64, Vec<u8>)>;

fn pcap(link_type: u32, nanoseconds: bool, rows: &Rows) -> Vec<u8> {
    let magic: u32 = if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 };
    let units = if nanoseconds { 1_000_000_000 } else { 1_000_000 };
    let mut file = magic.to_le_bytes().to_vec();
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0]);
    file.extend(link_type.to_le_bytes());
    for (time, octets) in rows {
        let length = octets.len() as u32;
        for number in [(time / units) as u32, (time % units) as u32, length, length] {
            file.extend(number.to_le_bytes());
        }
        file.extend(octets);
    }
    file
}

fn block(big_endian: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let number = |number: u32| if big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
    let padding = body.len().next_multiple_of(4) - body.len();
    let length = number((12 + body.len() + padding) as u32);
    [&number(kind)[..], &length, body, &[0; 3][..padding], &length].concat()
}

/// Of one interface, whose times have this resolution and offset in seconds.
fn pcapng(big_endian: bool, (link_type, resolution, offset_s): (u32, u8, i64), rows: &Rows) -> Vec<u8> {
    let number = |number: u32| if big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
    let short = |number: u16| if big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
    let offset = if big_endian { offset_s.to_be_bytes() } else { offset_s.to_le_bytes() };
    let section = [&number(0x1a2b_3c4d)[..], &short(1), &short(0), &[0xff; 8]].concat();
    let options =
        [&short(9)[..], &short(1), &[resolution, 0, 0, 0], &short(14), &short(8), &offset, &[0; 4]].concat();
    let interface = [&short(link_type as u16)[..], &[0; 2], &number(0), &options].concat();
    let mut file = [block(big_endian, 0x0a0d_0d0a, &section), block(big_endian, 1, &interface)].concat();
    for (time, octets) in rows {
        let length = octets.len() as u32;
        let head = [0, (time >> 32) as u32, *time as u32, length, length].map(number).concat();
        file.extend(block(big_endian, 6, &[&head[..], octets].concat()));
    }
    file
}

type Converting = Result<Converted<Cursor<Vec<u8>>>, ConvertError>;

fn converted(file: &[u8]) -> Converting {
    convert(file, Cursor::new(Vec::new()), 53)
}

/// Time after the first, client and ID of each query.
fn read(converted: Converted<Cursor<Vec<u8>>>) -> Vec<(u64, u32, u8)> {
    let file = converted.output.into_inner();
    assert_eq!(file.len(), HEADER_OCTETS + converted.header.octets as usize);
    let mut reader = Reader::new(&file[..]).unwrap();
    assert_eq!(*reader.header(), converted.header);
    let mut rows = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        rows.push((entry.time_ns, entry.client, entry.message[0]));
    }
    rows
}

fn counts(left_out: &LeftOut) -> Vec<(Reason, u64)> {
    left_out.iter().collect()
}

#[test]
fn queries_are_read_from_every_link_type() {
    let queries = [packet(1), ipv6(1, 17, &udp(40_000, 53, &query(2))), packet(3), packet(1)];
    for link_type in [ETHERNET, RAW, SLL, SLL2] {
        let rows: Rows = (1_700_000_000_000_000..)
            .step_by(10)
            .zip(queries.iter().map(|packet| framed(link_type, packet)))
            .collect();
        let converted = converted(&pcap(link_type, false, &rows)).unwrap();
        assert_eq!((converted.header.queries, converted.header.clients), (4, 3), "{link_type}");
        assert_eq!(converted.header.first_ns, 1_700_000_000_000_000_000);
        assert!(converted.stopped.is_none() && counts(&converted.header.left_out).is_empty());
        assert_eq!(read(converted), [(0, 0, 1), (10_000, 1, 2), (20_000, 2, 3), (30_000, 0, 1)]);
    }
}

#[test]
fn times_of_every_resolution_are_the_same_instants() {
    let second = 1_700_000_000u64;
    let of = |units: u64, offset_s: u64| -> Rows {
        let at = |n: u64| (second - offset_s) * units + n * units / 4;
        (0..4).map(|n| (at(n.into()), packet(n))).collect()
    };
    let mut files = vec![pcap(RAW, true, &of(1_000_000_000, 0)), pcap(RAW, false, &of(1_000_000, 0))];
    for big_endian in [false, true] {
        files.push(pcapng(big_endian, (RAW, 6, 0), &of(1_000_000, 0)));
        files.push(pcapng(big_endian, (RAW, 9, 1000), &of(1_000_000_000, 1000)));
        files.push(pcapng(big_endian, (RAW, 0x80 | 20, -7), &{
            let later = |(time, octets): (u64, Vec<u8>)| (time + (7 << 20), octets);
            of(1 << 20, 0).into_iter().map(later).collect()
        }));
    }
    for file in files {
        assert!(is_capture(&file));
        let converted = converted(&file).unwrap();
        assert_eq!(converted.header.first_ns, second * 1_000_000_000);
        let times: Vec<u64> = read(converted).iter().map(|row| row.0).collect();
        assert_eq!(times, [0, 250_000_000, 500_000_000, 750_000_000]);
    }
}

#[test]
fn what_is_left_out_is_counted_by_its_reason() {
    let message = query(5);
    let behind_length = [&[0, message.len() as u8][..], &message].concat();
    let mut response = message.clone();
    response[2] |= 0x80;
    let long = [&message[..], &[0; 600]].concat();
    let short_datagram = ipv4(1, 17, 0, &udp(4, 53, &message)[..20]);
    let rows: Rows = [
        ipv4(1, 17, 0, &udp(53, 4, &response)),
        ipv4(1, 17, 0, &udp(4, 53, &response)),
        ipv4(1, 17, 0, &udp(4, 53, &long)),
        ipv4(1, 17, 0, &udp(4, 80, &message)),
        ipv4(1, 1, 0, &message),
        ipv4(1, 17, 0x2000, &udp(4, 53, &message)),
        short_datagram,
        ipv4(1, 6, 0, &tcp(4, 53, &[])),
        // Two messages and the begin of a third.
        ipv4(1, 6, 0, &tcp(4, 53, &[&behind_length[..], &behind_length, &[0]].concat())),
        ipv6(1, 6, &tcp(4, 53, &behind_length)),
        vec![0xff; 60],
        Vec::new(),
    ]
    .into_iter()
    .zip(0..)
    .map(|(octets, time)| (time, octets))
    .collect();
    let converted = converted(&pcap(RAW, true, &rows)).unwrap();
    assert_eq!((converted.header.queries, converted.header.clients), (3, 2));
    let expected = [
        (Reason::Other, 5),
        (Reason::Response, 1),
        (Reason::Fragment, 1),
        (Reason::Cut, 1),
        (Reason::Segment, 1),
        (Reason::Unaskable, 2),
    ];
    assert_eq!(counts(&converted.header.left_out), expected);
}

#[test]
fn a_capture_that_ends_early_is_used_up_to_there() {
    let rows: Rows = (0..5).map(|n| (n.into(), packet(n))).collect();
    for file in [pcap(RAW, true, &rows), pcapng(false, (RAW, 9, 0), &rows)] {
        let cut = converted(&file[..file.len() - 3]).unwrap();
        let stopped = cut.stopped.clone().unwrap();
        assert_eq!((cut.header.queries, stopped.packets), (4, 4));
        assert!(stopped.to_string().ends_with("after 4 packets: the file ends within a packet or block"));
        let at = stopped.octet as usize;
        // The same with octets that are no packet: a length of 4 GiB.
        let garbage = [&file[..at], &[0xff; 64]].concat();
        assert_eq!(converted(&garbage).unwrap().stopped.unwrap().octet as usize, at);
    }
    for (file, reason) in [
        (Vec::new(), "octet 0, after 0 packets: the file is empty"),
        (b"www.example.com AAAA\n".repeat(4), "no pcap or pcapng file"),
        (pcap(RAW, true, &rows)[..30].to_vec(), "octet 24, after 0 packets: the file ends within"),
        (pcap(RAW, true, &Vec::new()), "holds no DNS query"),
        (pcap(147, true, &rows), "holds no DNS query, unknown link type 5: record Ethernet"),
    ] {
        let error = converted(&file).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn queries_are_put_in_order() {
    let times = [5u64, 3, 9, 1, 7];
    let rows: Rows = times.iter().map(|&time| (time, packet(time as u8))).collect();
    let read = read(converted(&pcap(RAW, true, &rows)).unwrap());
    assert_eq!(read, [(0, 3, 1), (2, 1, 3), (4, 0, 5), (6, 4, 7), (8, 2, 9)]);
}

proptest! {
    #[test]
    fn any_file_is_converted_or_refused(
        octets in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..400, flip: u8, cut in 0usize..600,
        is_new: bool, link_type in prop::sample::select(vec![ETHERNET, RAW, SLL, SLL2, 9]),
    ) {
        let _ = converted(&octets);
        let mut rows: Rows = (0..4).map(|n| (n.into(), framed(link_type, &packet(n)))).collect();
        rows.push((9, octets));
        let mut file =
            if is_new { pcapng(false, (link_type, 9, 0), &rows) } else { pcap(link_type, true, &rows) };
        let at = at % file.len();
        file[at] ^= flip;
        file.truncate(file.len().saturating_sub(cut));
        if let Ok(converted) = converted(&file) {
            prop_assert!(converted.header.queries > 0);
            let queries = converted.header.queries;
            prop_assert_eq!(read(converted).len() as u64, queries);
        }
    }
}
