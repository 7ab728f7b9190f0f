//! The reflector in the kernel, asked by ordinary sockets.

#[path = "../../../sys/tests/support/mod.rs"]
mod support;

use std::net::UdpSocket;
use std::time::Duration;

use authdns::echo::{Reflector, ReflectorCounters};
use support::{PEER, Pair, TESTER, can_run, device};
use sys::bpf;

/// A query header with its question, and something to tell queries apart and to vary the length.
fn query(number: u8, tail: usize) -> Vec<u8> {
    let mut query = vec![number, 0x5a, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a' + number % 26, 0, 0, 28, 0, 1];
    query.extend((0..tail).map(|at| (at as u8).wrapping_mul(number)));
    query
}

#[test]
fn queries_from_sockets_come_back_as_responses() {
    if !can_run() {
        return;
    }
    let pair = Pair::new();
    let reflector = pair.peer(|| Reflector::start_timed(device(), 5300, None).unwrap());
    let _pass = pair.tester(|| bpf::attach_pass(device(), None).unwrap());
    pair.tester(|| {
        for family in 0..2 {
            let socket = UdpSocket::bind((TESTER[family], 0)).unwrap();
            socket.connect((PEER[family], 5300)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            // All lengths modulo 8, the longest that fits, and both halves of the checksum's range.
            for (number, tail) in (0..20).chain([400, 1450 - 20 * family]).enumerate() {
                let mut query = query(number as u8, tail);
                socket.send(&query).unwrap();
                let mut answer = [0; 2000];
                let length = socket.recv(&mut answer).unwrap_or_else(|error| panic!("{tail}: {error}"));
                query[2] |= 0x80;
                assert_eq!(answer[..length], query, "only QR is set");
            }
            // Neither a response nor a fragment of a header is reflected; the stack refuses them, for nobody
            // listens.
            for left_alone in [&[0, 1, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &[0, 1, 0]] {
                socket.send(left_alone).unwrap();
                let error = socket.recv(&mut [0; 100]).unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
            }
        }
    });
    let expected = ReflectorCounters { reflected: 44, responses: 2, unfit: 0, after_series: 0 };
    assert_eq!(reflector.counters(), expected);
    let series = reflector.series();
    assert_eq!(series.iter().sum::<u64>(), 44);
    assert!(series[0] > 0, "time starts with the first query");
}
