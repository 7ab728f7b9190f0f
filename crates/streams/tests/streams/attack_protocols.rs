//! Attacks on HTTP/2 and QUIC themselves: streams that are reset at once, headers without an end, and servers
//! that are made to send to an address that never asked.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use streams::{Limits, Protocol};

use crate::common::*;

/// Types of frames and their flags (RFC 9113 6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// CANCEL, as a client that wants no answer any more (RFC 9113 7).
const CANCEL: [u8; 4] = [0, 0, 0, 8];

/// A frame of HTTP/2 (RFC 9113 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The field lines of a request with a query, not compressed (RFC 7541 6.2.2, appendix A).
fn request_fields() -> Vec<u8> {
    let path = format!("{PATH}?dns={}", BASE64_URL_SAFE_NO_PAD.encode(query(0, "a.test")));
    let literal = |name: u8, value: &str| {
        let length = u8::try_from(value.len()).unwrap();
        assert!(length < 127);
        [&[name, length], value.as_bytes()].concat()
    };
    [&[0x82, 0x87], &literal(1, NAME)[..], &literal(4, &path)].concat()
}

/// Writes until the server ends the connection; how many octets the client wrote.
fn write_until_closed(
    stream: &mut (impl Read + Write),
    pieces: impl Iterator<Item = Vec<u8>>,
) -> Option<usize> {
    let mut written = 0;
    for piece in pieces {
        if stream.write_all(&piece).is_err() {
            return Some(written);
        }
        written += piece.len();
    }
    // What the server said before it closed, then the end. It waits for the client otherwise.
    let mut rest = [0; 4096];
    loop {
        match stream.read(&mut rest) {
            Ok(0) => return Some(written),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return None,
            Err(_) => return Some(written),
        }
    }
}

fn is_another_client_answered(server: &Server) -> bool {
    let client = Asker::new(vec![server.upstream(Protocol::Https, 0)]);
    client.ask(0, query(1, "other.test")).is_some()
}

/// CVE-2023-44487: a stream that is reset makes room for the next one, and its query is work all the same.
#[test]
fn attack_rapid_reset_ends_the_connection_and_leaves_others_alone() {
    const STREAMS: u32 = 200_000;
    let limits = Limits { pipelined: 8, ..Limits::default() };
    let answers_the_other = |asked: &streams::Query| match asked.octets == query(0, "a.test") {
        true => Reaction::Keep,
        false => answers(asked),
    };
    let server = Server::start(&[Protocol::Https], limits, answers_the_other);
    let mut attacker = server.tls(0, &[b"h2"]);
    let fields = request_fields();
    let pieces = (0..STREAMS / 100).map(|hundred| {
        let streams = (hundred * 100..(hundred + 1) * 100).map(|number| 2 * number + 1);
        let reset = |stream| {
            let headers = frame(HEADERS, END_STREAM | END_HEADERS, stream, &fields);
            [headers, frame(RST_STREAM, 0, stream, &CANCEL)].concat()
        };
        streams.flat_map(reset).collect()
    });
    let opening = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    let written = write_until_closed(&mut attacker, std::iter::once(opening).chain(pieces));
    let all = STREAMS as usize * (frame(RST_STREAM, 0, 1, &CANCEL).len() + 9 + fields.len());
    assert!(written.is_some_and(|written| written < all), "{written:?} of {all}");
    let asked = server.queries.lock().unwrap().len();
    assert!(asked <= 8, "{asked} queries of one connection in progress");
    assert!(is_another_client_answered(&server));
}

/// CVE-2024-27316 and its kin: field lines that go on in frame after frame.
#[test]
fn attack_headers_without_an_end_are_not_kept() {
    for payload in [vec![], vec![0; 1], vec![0; 16_384]] {
        let server = Server::start(&[Protocol::Https], Limits::default(), answers);
        let mut attacker = server.tls(0, &[b"h2"]);
        let opening =
            [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(HEADERS, END_STREAM, 1, &request_fields())]
                .concat();
        let most = 64 << 20;
        let piece = frame(CONTINUATION, 0, 1, &payload).repeat(16_384 / (9 + payload.len()) + 1);
        let pieces = std::iter::repeat_n(&piece, most / piece.len()).cloned();
        let written = write_until_closed(&mut attacker, std::iter::once(opening).chain(pieces));
        assert!(written.is_some_and(|written| written < most / 2), "{written:?} by {}", payload.len());
        assert!(server.queries.lock().unwrap().is_empty());
        assert!(is_another_client_answered(&server));
    }
}

/// Somebody forges the address of a victim. The server says at most three times as much as it heard, before
/// the address is proven (RFC 9000 8.1).
#[test]
fn attack_quic_is_no_amplifier() {
    let limits = Limits { message_timeout: Duration::from_secs(2), ..Limits::default() };
    // A certificate that is longer than what may be sent.
    let certificate = Certificate::with_more_names(200);
    let server = Server::start_with(certificate, &[Protocol::Quic], limits, answers);
    let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    far.connect(server.addresses[0]).unwrap();
    far.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let upstream = upstream(Protocol::Quic, near.local_addr().unwrap(), Some(server.certificate.roots()));
    let client = Asker::new(vec![upstream]);
    client.handle.ask(1, 0, 9, query(0, "a.test"), Duration::from_secs(1));
    let mut datagram = [0; 2048];
    let first = near.recv(&mut datagram).unwrap();
    far.send(&datagram[..first]).unwrap();
    // The client hears nothing, and nothing else comes from the client.
    let sent = Cell::new(0);
    let hear = || {
        while let Ok(octets) = far.recv(&mut [0; 2048]) {
            sent.set(sent.get() + octets);
        }
    };
    until("the handshake has failed", || {
        hear();
        server.streams.counts().of(Protocol::Quic).handshake_failures == 1
    });
    hear();
    let sent = sent.into_inner();
    assert!(sent > 0 && sent <= 3 * first, "{sent} octets for {first}");
    assert!(sent > 2 * first, "{sent}: the certificate would have been longer");
}
