//! The same over HTTP/3. The frames and the header fields are written by hand.

use measurer::transport::stream::{Https, Method};
use quinn_proto::{Connection, Dir, StreamId, VarInt};

use super::doq::quic_certificate;
use super::quic::QuicServer;
use super::*;

/// What the server does with the n-th query of a connection, from 0; it answers all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http3 {
    /// It answers it, too.
    Answer,
    /// The same, with frames and streams that mean nothing.
    Grease,
    /// It responds with status 503.
    Unavailable(u64),
    /// It resets the stream with H3_REQUEST_REJECTED.
    Reset(u64),
    /// It takes neither this query nor later ones, and closes.
    GoAway(u64),
    /// It never answers from here on.
    SilentFrom(u64),
    /// It responds with these octets.
    Octets(u64, &'static [u8]),
    /// It says this on a stream of its own, at the beginning.
    Say(&'static [u8]),
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const GOAWAY: u8 = 7;
/// The type of the control stream, and its settings.
const CONTROL: &[u8] = &[0, 4, 0];
/// `:status 200` and `content-type: application/dns-message`.
const ANSWER_FIELDS: &[u8] = &[0, 0, 0xd9, 0xec];

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [
        &(0x4000 | u16::from(kind)).to_be_bytes()[..],
        &[0x80, 0],
        &(payload.len() as u16).to_be_bytes(),
        payload,
    ]
    .concat()
}

/// The message in a request that is a POST.
pub fn query(request: &[u8]) -> &[u8] {
    let integer = |octets: &[u8]| match octets[0] >> 6 {
        0 => (usize::from(octets[0]), 1),
        _ => (usize::from(u16::from_be_bytes([octets[0] & 0x3f, octets[1]])), 2),
    };
    assert_eq!(request[0], HEADERS);
    let (length, used) = integer(&request[1..]);
    let body = &request[1 + used + length..];
    let (length, used) = integer(&body[1..]);
    assert_eq!((body[0], body.len()), (DATA, 1 + used + length));
    &body[1 + used..]
}

impl Http3 {
    /// Opens the server's own streams.
    pub fn begin(self, connection: &mut Connection) {
        let mut say = |octets: &[u8]| {
            let id = connection.streams().open(Dir::Uni).unwrap();
            connection.send_stream(id).write(octets).unwrap();
        };
        match self {
            Self::Say(octets) => say(octets),
            // A type that nobody knows, before the control stream; the tables of header fields.
            Self::Grease => [&[0x40, 0x21, 1, 2, 3][..], CONTROL, &[2], &[3, 0x44]].into_iter().for_each(say),
            _ => say(CONTROL),
        }
    }

    /// The code that the client stops this stream with.
    pub fn stop_code(self, id: StreamId) -> u64 {
        if id.dir() == Dir::Uni { 0x103 } else { 0x10c }
    }

    /// Does what it does with the query on this stream, the n-th of the connection.
    pub fn respond(self, connection: &mut Connection, (id, number): (StreamId, u64), answer: &[u8]) {
        let whole = [frame(HEADERS, ANSWER_FIELDS), frame(DATA, answer)].concat();
        let octets = match self {
            Self::Unavailable(at) if at == number => frame(HEADERS, &[0, 0, 0xdc]),
            Self::Octets(at, octets) if at == number => octets.to_vec(),
            Self::Reset(at) if at == number => {
                return connection.send_stream(id).reset(VarInt::from_u32(0x10b)).unwrap();
            }
            Self::GoAway(at) if at == number => {
                let control = StreamId::new(quinn_proto::Side::Server, Dir::Uni, 0);
                let goaway = frame(GOAWAY, &[0x40, (4 * at) as u8]);
                connection.send_stream(control).write(&goaway).unwrap();
                return;
            }
            Self::GoAway(at) if at < number => return,
            Self::SilentFrom(from) if from <= number => return,
            Self::Grease => [&[0x21, 2, 9, 9][..], &whole, &[0x40, 0x40, 0]].concat(),
            _ => whole,
        };
        connection.send_stream(id).write(&octets).unwrap();
        connection.send_stream(id).finish().unwrap();
    }
}

fn over_http3(server: SocketAddr) -> StreamConfig {
    let options = TlsOptions { name: Some(NAME.to_owned()), ..TlsOptions::default() };
    let tls = Tls::new(Protocol::Doh3, &options, server.ip()).unwrap();
    let https = Https::new(Method::Post, "/dns-query", NAME, server.port()).unwrap();
    StreamConfig { protocol: Protocol::Doh3, tls: Some(tls), https: Some(https), ..streams(4) }
}

/// A trial against such a server, which allows so many streams at a time.
fn tried_over_http3(
    behaviour: Http3,
    (streams, timeout_ms): (u32, u64),
    change: impl Fn(&mut StreamConfig),
) -> (Stats, ConnectionStats, QuicServer) {
    let behaviour = quic::Behaviour::Http3(behaviour);
    let server = QuicServer::start(behaviour, workload(), (quic_certificate("h3").0, streams));
    let mut config = over_http3(server.address);
    change(&mut config);
    let (stats, seen) = tried(&plan(server.address, config, timeout_ms));
    (stats, seen, server)
}

#[test]
fn connections_of_http3_carry_every_query() {
    for (behaviour, queries_each, pipelined) in [
        (Http3::Answer, 0, true),
        (Http3::Answer, 10, true),
        (Http3::Grease, 0, true),
        (Http3::Answer, 0, false),
    ] {
        let change = |config: &mut StreamConfig| {
            (config.queries_each, config.pipelined) = (QueriesEach::fixed(queries_each), pipelined);
        };
        let (stats, seen, server) = tried_over_http3(behaviour, (100, 1000), change);
        assert_eq!((stats.valid, server.queries()), (400, 400), "{:?} {:?}", seen.refusals, stats.broken);
        let opened = if queries_each == 0 { 4 } else { 42 };
        assert!(seen.opened.abs_diff(opened) <= 2 && seen.refusals.is_empty(), "{}", seen.opened);
        assert_eq!((stats.unexpected, stats.duplicates, seen.closed_by_server), (0, 0, 0));
        assert_eq!(server.close_code(), 0x100, "H3_NO_ERROR");
    }
}

#[test]
fn a_response_that_is_no_answer_loses_one_query_and_no_connection() {
    for (behaviour, why, kind) in [
        (Http3::Unavailable(3), Breakdown::HttpStatus, "status 503"),
        (Http3::Reset(3), Breakdown::StreamReset, "H3_REQUEST_REJECTED"),
        (Http3::Octets(3, &[1, 4, 0, 0, 0xd9, 0xf4]), Breakdown::HttpMalformed, "no application/dns-message"),
        (Http3::Octets(3, &[]), Breakdown::HttpMalformed, "no header fields"),
    ] {
        let (stats, seen, server) = tried_over_http3(behaviour, (100, 1000), |_| {});
        assert_eq!((stats.valid, stats.cut_off, stats.never_left), (396, 4, 0), "{behaviour:?}");
        assert_eq!((stats.broken, seen.refusals), (lost([(why, 4)]), [(kind.to_owned(), 4)].into()));
        assert_eq!((server.seen.connections.load(Ordering::Relaxed), seen.closed_by_server), (4, 0));
    }
}

#[test]
fn after_goaway_the_next_query_opens_a_connection() {
    let (stats, seen, server) = tried_over_http3(Http3::GoAway(10), (100, 1000), |_| {});
    // Each connection answers ten queries, and the queries that it takes no more are lost.
    assert!(stats.broken.keys().eq([&Breakdown::GoAway]), "{:?}", stats.broken);
    let each = stats.broken[&Breakdown::GoAway];
    assert_eq!(stats.valid + each, 400);
    assert!(
        seen.refusals.keys().eq(["GOAWAY"]) && seen.refusals["GOAWAY"] >= 32 && each < 100,
        "{each} lost"
    );
    assert_eq!(server.seen.connections.load(Ordering::Relaxed), seen.opened);
    assert!(seen.opened > 32, "{}", seen.opened);
}

#[test]
fn a_silent_server_has_its_streams_cancelled() {
    let (stats, _, server) = tried_over_http3(Http3::SilentFrom(20), (10, 50), |_| {});
    assert_eq!(stats.valid, 80);
    // No more than ten streams of a connection wait at a time: the other queries find none in time.
    assert!(stats.broken.keys().all(|why| *why == Breakdown::FlowControl), "{:?}", stats.broken);
    let stopped = server.seen.stopped.load(Ordering::Relaxed);
    assert!(stopped >= 40 && stopped <= stats.sent - 80, "{stopped} of {}", stats.sent);
}

#[test]
fn what_breaks_the_protocol_ends_the_connection_with_its_code() {
    for (behaviour, reason, code) in [
        (Http3::Octets(0, &[0, 1, 7]), "H3_FRAME_UNEXPECTED", 0x105),
        (Http3::Octets(0, &[1, 3, 1, 0, 0x80]), "QPACK_DECOMPRESSION_FAILED", 0x200),
        (Http3::Octets(0, &[1, 9, 0]), "H3_FRAME_ERROR", 0x106),
        (Http3::Say(&[0, 7, 1, 0]), "H3_MISSING_SETTINGS", 0x10a),
        (Http3::Say(&[1, 0]), "H3_ID_ERROR", 0x108),
        (Http3::Say(&[2, 0x20]), "QPACK_ENCODER_STREAM_ERROR", 0x201),
    ] {
        let (stats, seen, server) =
            tried_over_http3(behaviour, (100, 1000), |config| config.pipelined = false);
        assert_eq!(stats.valid + stats.broken[&Breakdown::Reset], 400, "{:?}", stats.broken);
        assert_eq!(seen.refusals, [(reason.to_owned(), seen.closed_by_server)].into());
        assert!(seen.closed_by_server >= 4 && server.close_code() == code, "{reason}");
    }
}
