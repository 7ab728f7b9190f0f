//! Trials over HTTPS against a server that speaks HTTP/2 as a test wants: what it does to a query is found in
//! the account of the trial. The frames and the header fields are written by hand.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::connections::{Breakdown, ConnectionStats};
use engine::queries_each::QueriesEach;
use engine::stats::Stats;
use engine::workload::Workload;
use measurer::transport::stream::{Https, Method, Protocol, StreamConfig, Tls, TlsOptions};

use super::server::{Behaviour, Seen, Server, answer, read};
use super::{NAME, certificate, lost, plan, streams, tried, workload};

/// What the server does with the n-th query of a connection, from 0; it answers all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {
    /// It answers it, too.
    Answer,
    /// It responds with status 503.
    Unavailable(u64),
    /// It resets the stream.
    Reset(u64),
    /// It takes neither this query nor later ones, and closes after some time.
    GoAway(u64),
    /// It sends its own frames for HTTP/2 and never answers from here on.
    SilentFrom(u64),
    /// It answers with a message of another type.
    Html(u64),
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const PREFACE_OCTETS: usize = 24;
/// As many streams at a time as the server allows.
const STREAMS: u32 = 10;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Speaks with a client until the client, or the test, ends.
pub fn converse(
    stream: &mut (impl Read + Write),
    (behaviour, workload): (Http, &Workload),
    (seen, stop): (&Seen, &AtomicBool),
) {
    let mut preface = [0; PREFACE_OCTETS];
    if read(stream, &mut preface, stop).is_none() {
        return;
    }
    assert!(preface.starts_with(b"PRI * HTTP/2.0"));
    let streams = [&[0, 3][..], &STREAMS.to_be_bytes()].concat();
    if stream.write_all(&frame(SETTINGS, 0, 0, &streams)).is_err() {
        return;
    }
    let mut number = 0;
    loop {
        let mut header = [0; 9];
        if read(stream, &mut header, stop).is_none() {
            return;
        }
        let [high, middle, low, kind, flags, identifier @ ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        if read(stream, &mut payload, stop).is_none() {
            return;
        }
        let identifier = u32::from_be_bytes(identifier);
        let octets = match (kind, flags) {
            (SETTINGS, 0) => frame(SETTINGS, 1, 0, &[]),
            (RST_STREAM, _) => {
                seen.cancelled.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            (DATA, 1) => {
                number += 1;
                seen.most.fetch_max(number, Ordering::Relaxed);
                respond((identifier, number - 1), behaviour, &answer(workload, &payload))
            }
            _ => continue,
        };
        if stream.write_all(&octets).and_then(|()| stream.flush()).is_err() {
            return;
        }
        if kind == DATA && octets.get(3) == Some(&HEADERS) {
            seen.answers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn respond((stream, number): (u32, u64), behaviour: Http, answer: &[u8]) -> Vec<u8> {
    let response =
        |fields: &[u8]| [frame(HEADERS, 4, stream, fields), frame(DATA, 1, stream, answer)].concat();
    match behaviour {
        Http::Unavailable(at) if at == number => frame(HEADERS, 5, stream, b"\x08\x03503"),
        Http::Reset(at) if at == number => frame(RST_STREAM, 0, stream, &[0, 0, 0, 7]),
        Http::GoAway(at) if at <= number => {
            let last = (2 * at).saturating_sub(1) as u32;
            frame(GOAWAY, 0, 0, &[&last.to_be_bytes()[..], &[0; 4]].concat())
        }
        Http::SilentFrom(from) if from <= number => Vec::new(),
        Http::Html(at) if at == number => response(b"\x88\x5f\x09text/html"),
        _ => response(b"\x88\x0f\x10\x17application/dns-message"),
    }
}

/// A trial against such a server, which every connection can use for so many queries.
fn tried_over_https(behaviour: Http, queries_each: u64, timeout_ms: u64) -> (Stats, ConnectionStats, Server) {
    let (mut config, _) = certificate();
    Arc::make_mut(&mut config).alpn_protocols = vec![b"h2".to_vec()];
    let server = Server::start(Behaviour::Http(behaviour), workload(), Some(config));
    let options = TlsOptions { name: Some(NAME.to_owned()), ..TlsOptions::default() };
    let tls = Tls::new(Protocol::Doh, &options, server.address.ip()).unwrap();
    let https = Https::new(Method::Post, "/dns-query", NAME, server.address.port()).unwrap();
    let (tls, https) = (Some(tls), Some(https));
    let queries_each = QueriesEach::fixed(queries_each);
    let streams = StreamConfig { protocol: Protocol::Doh, tls, https, queries_each, ..streams(4) };
    let (stats, seen) = tried(&plan(server.address, streams, timeout_ms));
    (stats, seen, server)
}

fn refusals(seen: &ConnectionStats, kind: &str) -> u64 {
    assert!(seen.refusals.keys().all(|key| key == kind), "{:?}", seen.refusals);
    seen.refusals.get(kind).copied().unwrap_or(0)
}

#[test]
fn connections_of_https_carry_every_query() {
    for (queries_each, opened) in [(0, 4), (10, 42)] {
        let (stats, seen, server) = tried_over_https(Http::Answer, queries_each, 1000);
        assert_eq!((stats.valid, server.answers()), (400, 400), "{:?} {:?}", stats.defects, stats.broken);
        assert!(seen.opened.abs_diff(opened) <= 2 && seen.refusals.is_empty(), "{}", seen.opened);
        assert_eq!((stats.unexpected, stats.duplicates, seen.closed_by_server), (0, 0, 0));
    }
}

#[test]
fn a_response_that_is_no_answer_loses_one_query_and_no_connection() {
    for (behaviour, why, kind) in [
        (Http::Unavailable(3), Breakdown::HttpStatus, "status 503"),
        (Http::Reset(3), Breakdown::StreamReset, "RST_STREAM REFUSED_STREAM"),
        (Http::Html(3), Breakdown::HttpMalformed, "no application/dns-message"),
    ] {
        let (stats, seen, server) = tried_over_https(behaviour, 0, 1000);
        assert_eq!((stats.valid, stats.cut_off, stats.never_left), (396, 4, 0), "{behaviour:?}");
        assert_eq!((stats.broken, refusals(&seen, kind)), (lost([(why, 4)]), 4));
        assert_eq!((server.connections(), seen.closed_by_server), (4, 0));
    }
}

#[test]
fn after_goaway_the_next_query_opens_a_connection() {
    let (stats, seen, server) = tried_over_https(Http::GoAway(10), 0, 1000);
    // Each connection answers ten queries, and the queries that it takes no more are lost.
    assert!(stats.broken.keys().eq([&Breakdown::GoAway]), "{:?}", stats.broken);
    let each = stats.broken[&Breakdown::GoAway];
    assert_eq!(stats.valid + each, 400);
    assert!(refusals(&seen, "GOAWAY NO_ERROR") >= 32 && each < 100, "{each} lost");
    assert!(seen.opened > 32 && server.connections() == seen.opened, "{}", seen.opened);
}

#[test]
fn a_silent_server_has_its_streams_cancelled() {
    let (stats, _, server) = tried_over_https(Http::SilentFrom(20), 0, 50);
    assert_eq!(stats.valid, 80);
    // No more than ten streams of a connection wait at a time: the other queries find none in time.
    assert!(stats.broken.keys().all(|why| *why == Breakdown::FlowControl), "{:?}", stats.broken);
    let cancelled = server.seen.cancelled.load(Ordering::Relaxed);
    assert!(cancelled >= 40 && cancelled <= stats.sent - 80, "{cancelled} of {}", stats.sent);
}

#[test]
fn a_server_without_http_is_a_failed_handshake() {
    let (config, _) = certificate();
    let server = Server::start(Behaviour::Answer, workload(), Some(config));
    let tls = Tls::new(Protocol::Doh, &TlsOptions::default(), server.address.ip()).unwrap();
    let https = Https::new(Method::Get, "/dns-query", NAME, server.address.port()).unwrap();
    let (tls, https) = (Some(tls), Some(https));
    let streams = StreamConfig { protocol: Protocol::Doh, tls, https, ..streams(2) };
    let (stats, seen) = tried(&plan(server.address, streams, 200));
    assert_eq!(stats.broken, lost([(Breakdown::Handshake, 400)]));
    let reasons: Vec<_> = seen.handshake_failures.keys().map(String::as_str).collect();
    assert_eq!(reasons, ["the server chose no protocol (ALPN)"]);
}
