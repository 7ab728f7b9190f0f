//! A session against frames written by hand.

use proptest::prelude::*;

use super::*;
use crate::transport::stream::https::streams::MESSAGE_OCTETS_MAX;

const MS_NS: u64 = 1_000_000;
/// `:status 200` and `content-type: application/dns-message`, for the first time.
const ANSWER_FIELDS: &[u8] = b"\x88\x5f\x17application/dns-message";
/// The same by their places.
const FIELDS_AGAIN: &[u8] = &[0x88, 0xbe];

/// What a session said.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Message(Vec<u8>),
    Lost(u64, Breakdown),
    Refused(String),
}

/// A session whose preface has left, and what left since.
struct Talk {
    session: Session,
    left: Vec<u8>,
}

/// A query, or an answer, with this ID and so many octets.
fn message(id: u16, octets: usize) -> Vec<u8> {
    let mut message = vec![7; octets];
    message[..2].copy_from_slice(&id.to_be_bytes());
    message
}

fn frame(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    frames::push((kind, flags, stream), payload, &mut octets);
    octets
}

fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let each =
        settings.iter().flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat());
    frame(Kind::SETTINGS, 0, 0, &each.collect::<Vec<u8>>())
}

impl Talk {
    fn new(method: Method) -> Self {
        let https = Https::new(method, "/dns-query", "dns.test", 443).unwrap();
        let mut session = Session::new(https, 100 * MS_NS);
        let mut preface = Vec::new();
        session.take_output(&mut preface);
        let rest = preface.strip_prefix(PREFACE).unwrap();
        assert_eq!(kinds(rest), [Kind::SETTINGS, Kind::WINDOW_UPDATE]);
        Self { session, left: Vec::new() }
    }

    /// One that sent so many queries of 40 octets; those at the places 0, 1, ... have the IDs 1, 2, ...
    fn asked(method: Method, queries: u16) -> Self {
        let mut talk = Self::new(method);
        (0..queries).for_each(|place| talk.ask(place, 40));
        talk.left.clear();
        talk
    }

    fn ask(&mut self, place: u16, octets: usize) {
        assert!(self.session.has_room());
        let at = (place.into(), u64::from(place) * MS_NS);
        self.session.push(&message(place + 1, octets), at, &mut self.left);
    }

    fn take(&mut self, octets: &[u8]) -> Result<Vec<Said>, End> {
        let mut said = Vec::new();
        let taken = self.session.take(5, octets, &mut |news| match news {
            News::Message(at_ns, octets) => {
                assert_eq!(at_ns, 5);
                said.push(Said::Message(octets.to_vec()));
            }
            News::Lost(place, why) => said.push(Said::Lost(place, why)),
            News::Refused(why) => said.push(Said::Refused(why)),
            News::Ready { .. } | News::GivenUp(_) => panic!("not said by a session"),
        });
        self.session.take_output(&mut self.left);
        taken.map(|()| said)
    }

    /// What left since the last time.
    fn left(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.left)
    }
}

fn kinds(octets: &[u8]) -> Vec<Kind> {
    let mut kinds = Vec::new();
    let taken = Frames::default().take(octets, &mut |frame| {
        kinds.push(frame.kind);
        Ok::<_, TooLong>(())
    });
    assert!(taken.is_ok());
    kinds
}

fn fields(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(Kind::HEADERS, flag::END_HEADERS, stream, block)
}

fn last_data(stream: u32, body: &[u8]) -> Vec<u8> {
    frame(Kind::DATA, flag::END_STREAM, stream, body)
}

fn lost(place: u64, why: Breakdown, said: &str) -> Vec<Said> {
    vec![Said::Refused(said.to_owned()), Said::Lost(place, why)]
}

#[test]
fn answers_come_whole_in_any_order_and_in_parts() {
    let mut talk = Talk::asked(Method::Post, 3);
    let (first, second, third) = (message(1, 50), message(2, 60), message(3, 70));
    // An answer with padding and an interim response before it.
    let padded =
        frame(Kind::DATA, flag::END_STREAM | flag::PADDED, 3, &[&[2][..], &second, &[0, 0]].concat());
    let interim = fields(3, b"\x08\x03100");
    let octets = [interim, fields(3, ANSWER_FIELDS), padded].concat();
    assert_eq!(talk.take(&octets), Ok(vec![Said::Message(second)]));
    // One in parts, whose end is a frame of its own.
    let parts = [
        fields(1, FIELDS_AGAIN),
        frame(Kind::DATA, 0, 1, &first[..20]),
        frame(Kind::DATA, 0, 1, &first[20..]),
    ];
    assert_eq!(talk.take(&parts.concat()), Ok(vec![]));
    assert_eq!(talk.take(&last_data(1, &[])), Ok(vec![Said::Message(first)]));
    // One whose fields come in parts and that ends with trailers.
    let octets = [
        frame(Kind::HEADERS, 0, 5, &FIELDS_AGAIN[..1]),
        frame(Kind::CONTINUATION, flag::END_HEADERS, 5, &FIELDS_AGAIN[1..]),
        frame(Kind::DATA, 0, 5, &third),
        frame(Kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 5, b"\x00\x01x\x01y"),
    ];
    assert_eq!(talk.take(&octets.concat()), Ok(vec![Said::Message(third)]));
    assert_eq!(talk.session.streams.open(), 0);
    // What comes for streams that are over is ignored.
    assert_eq!(talk.take(&[fields(5, FIELDS_AGAIN), last_data(1, &[1])].concat()), Ok(vec![]));
}

#[test]
fn get_leaves_with_the_id_0_and_its_answer_gets_the_id_of_the_query() {
    let mut talk = Talk::new(Method::Get);
    talk.ask(0, 40);
    let left = talk.left();
    assert_eq!(kinds(&left), [Kind::HEADERS]);
    assert_eq!(left[4], flag::END_HEADERS | flag::END_STREAM);
    let octets = [fields(1, ANSWER_FIELDS), last_data(1, &message(0, 50))].concat();
    assert_eq!(talk.take(&octets), Ok(vec![Said::Message(message(1, 50))]));
    talk.ask(1, 40);
    let octets = [fields(3, FIELDS_AGAIN), last_data(3, &message(2, 50))].concat();
    assert_eq!(talk.take(&octets), Ok(lost(1, Breakdown::HttpMalformed, "another ID")));
}

#[test]
fn responses_without_an_answer_lose_their_query_by_name() {
    use Breakdown::{HttpMalformed, HttpStatus};
    let end = flag::END_HEADERS | flag::END_STREAM;
    let long =
        [message(1, 16_000), message(7, 16_000), message(7, 16_000), message(7, 16_000), message(7, 1536)];
    let long: Vec<u8> = long.iter().flat_map(|part| frame(Kind::DATA, 0, 1, part)).collect();
    for (octets, why, said) in [
        (frame(Kind::HEADERS, end, 1, b"\x8d"), HttpStatus, "status 404"),
        // A redirection is not followed.
        ([fields(1, b"\x08\x03302"), last_data(1, b"moved")].concat(), HttpStatus, "status 302"),
        (frame(Kind::HEADERS, end, 1, b"\x5f\x01x"), HttpMalformed, "no status"),
        (fields(1, b"\x88\x5f\x09text/html"), HttpMalformed, "no application/dns-message"),
        (fields(1, b"\x88"), HttpMalformed, "no application/dns-message"),
        (frame(Kind::HEADERS, end, 1, ANSWER_FIELDS), HttpMalformed, "no message"),
        ([fields(1, ANSWER_FIELDS), last_data(1, &[0; 11])].concat(), HttpMalformed, "no message"),
        ([fields(1, ANSWER_FIELDS), last_data(1, &message(2, 40))].concat(), HttpMalformed, "another ID"),
        (last_data(1, &message(1, 40)), HttpMalformed, "no header fields"),
        ([fields(1, ANSWER_FIELDS), long].concat(), HttpMalformed, "longer than 65,535 octets"),
    ] {
        let mut talk = Talk::asked(Method::Post, 1);
        assert_eq!(talk.take(&octets), Ok(lost(0, why, said)));
        // Whatever follows is not another loss.
        assert_eq!(talk.take(&last_data(1, &[])), Ok(vec![]));
        assert_eq!(talk.session.streams.open(), 0, "{said}");
    }
}

#[test]
fn the_longest_message_is_taken() {
    let mut talk = Talk::asked(Method::Post, 1);
    let answer = message(1, MESSAGE_OCTETS_MAX);
    let mut octets = fields(1, ANSWER_FIELDS);
    answer.chunks(16_384).for_each(|part| octets.extend(frame(Kind::DATA, 0, 1, part)));
    octets.extend(last_data(1, &[]));
    assert_eq!(talk.take(&octets), Ok(vec![Said::Message(answer)]));
}

#[test]
fn resets_and_goaway_lose_what_they_name() {
    let mut talk = Talk::asked(Method::Post, 4);
    let reset = frame(Kind::RST_STREAM, 0, 3, &7u32.to_be_bytes());
    let refused = lost(1, Breakdown::StreamReset, "RST_STREAM REFUSED_STREAM");
    assert_eq!(talk.take(&reset), Ok(refused));
    assert_eq!(talk.take(&reset), Ok(vec![]));
    assert!(talk.session.has_room());
    let goaway = frame(Kind::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 11, b'x']);
    let said = Said::Refused("GOAWAY ENHANCE_YOUR_CALM".to_owned());
    let all = vec![said, Said::Lost(3, Breakdown::GoAway), Said::Lost(2, Breakdown::GoAway)];
    assert_eq!(talk.take(&goaway), Ok(all));
    assert!(!talk.session.has_room() && talk.session.is_leaving());
    // The first one may be answered yet.
    let answer = message(1, 40);
    let octets = [fields(1, ANSWER_FIELDS), last_data(1, &answer)].concat();
    assert_eq!(talk.take(&octets), Ok(vec![Said::Message(answer)]));
}

#[test]
fn the_servers_number_of_streams_is_kept() {
    let mut talk = Talk::asked(Method::Post, STREAMS_UNTOLD as u16);
    assert!(!talk.session.has_room());
    assert_eq!(talk.take(&settings(&[(setting::MAX_CONCURRENT_STREAMS, 101)])), Ok(vec![]));
    assert_eq!(talk.left(), frame(Kind::SETTINGS, flag::ACK, 0, &[]));
    talk.ask(100, 40);
    assert!(!talk.session.has_room());
    // A stream is free again when its response has ended, not when its query is lost.
    let _ = talk.take(&fields(9, b"\x8e"));
    assert!(!talk.session.has_room());
    let _ = talk.take(&last_data(9, &[]));
    assert!(talk.session.has_room());
    assert_eq!(talk.take(&settings(&[(setting::MAX_CONCURRENT_STREAMS, u32::MAX)])), Ok(vec![]));
    assert_eq!(talk.session.streams_max, STREAMS_MAX);
}

#[test]
fn a_query_leaves_as_far_as_the_windows_allow() {
    let mut talk = Talk::new(Method::Post);
    assert_eq!(talk.take(&settings(&[(setting::INITIAL_WINDOW_SIZE, 10)])), Ok(vec![]));
    talk.left();
    talk.ask(0, 40);
    let left = talk.left();
    assert_eq!(kinds(&left), [Kind::HEADERS, Kind::DATA]);
    assert!(left.ends_with(&message(1, 10)) && !talk.session.has_room());
    let credit = |stream, octets: u32| frame(Kind::WINDOW_UPDATE, 0, stream, &octets.to_be_bytes());
    let part = |flags, octets| frame(Kind::DATA, flags, 1, &vec![7; octets]);
    assert_eq!((talk.take(&credit(1, 5)), talk.left()), (Ok(vec![]), part(0, 5)));
    // A smaller window than what has left leaves nothing until it is made up for (RFC 9113 6.9.2).
    talk.take(&settings(&[(setting::INITIAL_WINDOW_SIZE, 8)])).unwrap();
    assert_eq!(kinds(&talk.left()), [Kind::SETTINGS]);
    assert_eq!((talk.take(&credit(1, 2)), talk.left()), (Ok(vec![]), Vec::new()));
    assert_eq!((talk.take(&credit(1, 100)), talk.left()), (Ok(vec![]), part(flag::END_STREAM, 25)));
    assert!(talk.session.has_room());
    // The window of the connection holds all of them.
    talk.take(&settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 20)])).unwrap();
    (1..17).for_each(|place| talk.ask(place, if place < 16 { 4096 } else { 4000 }));
    talk.left();
    assert_eq!((talk.session.window, talk.session.has_room()), (55, true));
    talk.ask(17, 60);
    assert_eq!((talk.session.window, talk.session.has_room()), (0, false));
    talk.left();
    let rest = frame(Kind::DATA, flag::END_STREAM, 35, &[7; 5]);
    assert_eq!((talk.take(&credit(0, 7)), talk.left()), (Ok(vec![]), rest));
    assert_eq!((talk.session.window, talk.session.has_room()), (2, true));
}

#[test]
fn a_small_table_of_the_server_is_said_and_kept_empty() {
    let mut talk = Talk::asked(Method::Post, 1);
    talk.take(&settings(&[(setting::HEADER_TABLE_SIZE, 0)])).unwrap();
    talk.left();
    talk.ask(1, 40);
    assert_eq!(talk.left()[9..12], [0x20, 0x83, 0x87]);
    talk.take(&settings(&[(setting::HEADER_TABLE_SIZE, 100)])).unwrap();
    talk.left();
    talk.ask(2, 40);
    assert_eq!(talk.left()[9..12], [0x83, 0x87, 0x01]);
}

#[test]
fn queries_that_nobody_waits_for_are_cancelled() {
    let mut talk = Talk::asked(Method::Post, 3);
    let _ = talk.take(&fields(1, b"\x8e"));
    // They left at 0, 1 and 2 ms; the first one is lost already.
    assert_eq!(talk.session.expire(101 * MS_NS + 1), 1);
    let _ = talk.take(&[]);
    let cancel = |stream| frame(Kind::RST_STREAM, 0, stream, &8u32.to_be_bytes());
    assert_eq!(talk.left(), [cancel(1), cancel(3)].concat());
    // An answer that was on its way is too late.
    assert_eq!(talk.take(&last_data(3, &message(2, 40))), Ok(vec![]));
    assert_eq!((talk.session.streams.open(), talk.session.expire(50 * MS_NS)), (1, 0));
}

#[test]
fn pings_are_answered_and_octets_credited_again() {
    let mut talk = Talk::asked(Method::Post, 1);
    let ping = |flags| frame(Kind::PING, flags, 0, b"12345678");
    assert_eq!((talk.take(&ping(0)), talk.left()), (Ok(vec![]), ping(flag::ACK)));
    assert_eq!((talk.take(&ping(flag::ACK)), talk.left()), (Ok(vec![]), Vec::new()));
    talk.session.uncredited = OWN_WINDOW_LOW - 10;
    talk.take(&frame(Kind::DATA, 0, 1, &[0; 10])).unwrap();
    let credit = frame(Kind::WINDOW_UPDATE, 0, 0, &OWN_WINDOW_LOW.to_be_bytes());
    assert_eq!(talk.left(), credit);
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let end = flag::END_HEADERS;
    for octets in [
        frame(Kind::DATA, 0, 0, &[]),
        frame(Kind::DATA, 0, 3, &[]),
        frame(Kind::DATA, flag::PADDED, 1, &[9]),
        frame(Kind::HEADERS, end, 2, FIELDS_AGAIN),
        frame(Kind::HEADERS, end, 1, &[0xbe]),
        [frame(Kind::HEADERS, 0, 1, &[0x88]), frame(Kind::PING, 0, 0, &[0; 8])].concat(),
        [frame(Kind::HEADERS, 0, 1, &[0x88]), frame(Kind::CONTINUATION, end, 3, &[])].concat(),
        [frame(Kind::HEADERS, 0, 1, &[0x88]), frame(Kind::CONTINUATION, 0, 1, &[])].concat(),
        frame(Kind::CONTINUATION, end, 1, &[0x88]),
        frame(Kind::RST_STREAM, 0, 1, &[0; 3]),
        frame(Kind::RST_STREAM, 0, 0, &[0; 4]),
        frame(Kind::SETTINGS, 0, 0, &[0; 5]),
        settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 31)]),
        frame(Kind::PUSH_PROMISE, end, 1, &[0, 0, 0, 2, 0x82]),
        frame(Kind::PING, 0, 0, &[0; 7]),
        frame(Kind::GOAWAY, 0, 0, &[0; 7]),
        frame(Kind::WINDOW_UPDATE, 0, 0, &[0; 4]),
        frame(Kind::WINDOW_UPDATE, 0, 0, &WINDOW_MAX.to_be_bytes()),
    ] {
        assert_eq!(Talk::asked(Method::Post, 1).take(&octets), Err(broken()), "{octets:?}");
    }
    // Fields without an end do not fill the memory.
    let mut talk = Talk::asked(Method::Post, 1);
    talk.take(&frame(Kind::HEADERS, 0, 1, &[0x88])).unwrap();
    let more = frame(Kind::CONTINUATION, 0, 1, &[0x88; 16_000]);
    let ends = (0..).find_map(|round| talk.take(&more).err().map(|_| round));
    assert_eq!(ends, Some(4));
}

/// A frame that a server may send, or nearly so.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let blocks = [ANSWER_FIELDS, FIELDS_AGAIN, b"\x8d", b"\x88", b""].map(<[u8]>::to_vec);
    let payload = prop_oneof![
        prop::sample::select(blocks.to_vec()),
        (0u16..12, 0usize..60).prop_map(|(id, octets)| message(id, octets.max(2))),
        prop::collection::vec(any::<u8>(), 0..12),
        (0u32..4).prop_map(|number| number.to_be_bytes().to_vec()),
    ];
    let flags = prop::sample::select(vec![0, 0x1, 0x4, 0x5, 0x8, 0x25, 0xff]);
    (0u8..11, flags, 0u32..24, payload)
        .prop_map(|(kind, flags, stream, payload)| frame(Kind(kind), flags, stream, &payload))
}

proptest! {
    #[test]
    fn no_frames_make_it_panic_and_no_query_ends_twice(
        sent in prop::collection::vec(prop_oneof![any_frame(), Just(Vec::new())], 0..60),
    ) {
        let mut talk = Talk::new(Method::Post);
        let mut ended = std::collections::HashSet::new();
        for (place, octets) in sent.iter().enumerate() {
            if talk.session.has_room() {
                talk.ask(place as u16, 40);
            }
            let Ok(said) = talk.take(octets) else { break };
            for one in said {
                let place = match one {
                    Said::Message(message) => u64::from(u16::from_be_bytes([message[0], message[1]])) - 1,
                    Said::Lost(place, _) => place,
                    Said::Refused(_) => continue,
                };
                prop_assert!(ended.insert(place));
            }
            prop_assert!(talk.session.streams.open() <= STREAMS_UNTOLD.max(talk.session.streams_max));
        }
    }
}
