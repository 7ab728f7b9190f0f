//! Any octets as a pcap or pcapng file: a compact file comes of it that is read again query by query, or one
//! line of error.
//!
//! An input is the file.

use std::io::Cursor;

use capture::compact::{HEADER_OCTETS, Reader};
use capture::{Converted, DNS_PORT, convert};
use engine::workload::question::check_request;

/// Numbers in front of a message: at most ten octets each.
const NUMBERS_OCTETS_MAX: u64 = 30;

/// Converts the file.
pub fn run(input: &[u8]) {
    match convert(input, Cursor::new(Vec::new()), DNS_PORT) {
        Ok(converted) => check(input, converted),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error:?}"),
    }
}

fn check(input: &[u8], converted: Converted<Cursor<Vec<u8>>>) {
    let Converted { header, output, stopped } = converted;
    if let Some(stopped) = &stopped {
        assert!(stopped.octet <= input.len() as u64 && !stopped.to_string().contains('\n'), "{stopped:?}");
    }
    assert!((1..=header.queries).contains(&header.clients) || header.left_out != Default::default());
    // A file cannot grow: each query stands in the capture, and has three numbers in front.
    assert!(header.octets <= input.len() as u64 + header.queries * NUMBERS_OCTETS_MAX);
    let file = output.into_inner();
    assert_eq!(file.len() as u64, HEADER_OCTETS as u64 + header.octets);
    let mut reader = Reader::new(&file[..]).expect("the file that was written");
    assert_eq!(*reader.header(), header);
    let (mut queries, mut last_ns) = (0, 0);
    while let Some(entry) = reader.next_entry().expect("the file that was written") {
        assert_eq!(check_request(entry.message), Ok(()));
        assert!(entry.time_ns >= last_ns && u64::from(entry.client) < header.clients);
        (queries, last_ns) = (queries + 1, entry.time_ns);
    }
    assert_eq!((queries, last_ns), (header.queries, header.length_ns));
}
