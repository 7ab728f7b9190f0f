//! A session against streams written by hand.

use proptest::prelude::*;

use super::*;
use crate::transport::stream::https::request::Method;
use crate::transport::stream::https::streams::MESSAGE_OCTETS_MAX;

const MS_NS: u64 = 1_000_000;
/// `:status 200` and `content-type: application/dns-message`.
const ANSWER_FIELDS: &[u8] = &[0, 0, 0xd9, 0xec];

/// What a session said.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Message(Vec<u8>),
    Lost(u64, Breakdown),
    Refused(String),
}

/// What the server does with a stream.
#[derive(Clone, Debug)]
enum Act {
    Send(Vec<u8>),
    Finish,
    Reset(u64),
}

/// A session, and what left.
struct Talk {
    session: Http3Session,
    left: Vec<u8>,
}

/// A query, or an answer, with this ID and so many octets.
fn message(id: u16, octets: usize) -> Vec<u8> {
    let mut message = vec![7; octets];
    message[..2].copy_from_slice(&id.to_be_bytes());
    message
}

fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    frames::push(kind, payload, &mut octets);
    octets
}

fn fields(block: &[u8]) -> Vec<u8> {
    frame(Kind::HEADERS, block)
}

fn data(body: &[u8]) -> Vec<u8> {
    frame(Kind::DATA, body)
}

fn answer(body: &[u8]) -> Vec<u8> {
    [fields(ANSWER_FIELDS), data(body)].concat()
}

fn lost(place: u64, why: Breakdown, said: &str) -> Vec<Said> {
    vec![Said::Refused(said.to_owned()), Said::Lost(place, why)]
}

impl Talk {
    fn new(method: Method) -> Self {
        let https = Https::new(method, "/dns-query", "dns.test", 443).unwrap();
        Self { session: Http3Session::new(https), left: Vec::new() }
    }

    /// One that sent so many queries of 40 octets; those at the places 0, 1, ... have the IDs 1, 2, ...
    fn asked(method: Method, queries: u16) -> Self {
        let mut talk = Self::new(method);
        (0..queries).for_each(|place| talk.ask(place));
        talk
    }

    fn ask(&mut self, place: u16) {
        let at = (place.into(), u64::from(place) * MS_NS);
        self.session.push(&message(place + 1, 40), at, &mut self.left);
    }

    /// Does this with the stream of a request, or with one that the server opened.
    fn act(&mut self, is_incoming: bool, number: u64, act: &Act) -> Result<(Vec<Said>, Option<Stop>), Code> {
        let (mut said, session) = (Vec::new(), &mut self.session);
        let mut tell = |news: News<'_>| match news {
            News::Message(at_ns, octets) => {
                assert_eq!(at_ns, 5);
                said.push(Said::Message(octets.to_vec()));
            }
            News::Lost(place, why) => said.push(Said::Lost(place, why)),
            News::Refused(why) => said.push(Said::Refused(why)),
            News::Ready { .. } | News::GivenUp(_) => panic!("not said by a session"),
        };
        let mut stop = None;
        match act {
            Act::Send(octets) if is_incoming => stop = session.take_incoming((number, octets), &mut tell)?,
            Act::Send(octets) => stop = session.take(5, (number, octets), &mut tell)?,
            Act::Finish | Act::Reset(_) if is_incoming => session.finish_incoming(number)?,
            Act::Finish => session.finish(5, number, &mut tell)?,
            Act::Reset(code) => session.reset(number, Code(*code), &mut tell),
        }
        Ok((said, stop))
    }

    fn take(&mut self, number: u64, octets: &[u8]) -> Result<Vec<Said>, Code> {
        self.act(false, number, &Act::Send(octets.to_vec())).map(|(said, _)| said)
    }

    /// The same with the end of the stream.
    fn take_last(&mut self, number: u64, octets: &[u8]) -> Result<Vec<Said>, Code> {
        let mut said = self.take(number, octets)?;
        said.extend(self.act(false, number, &Act::Finish)?.0);
        Ok(said)
    }

    fn control(&mut self, octets: &[u8]) -> Result<Vec<Said>, Code> {
        self.act(true, 0, &Act::Send(octets.to_vec())).map(|(said, _)| said)
    }

    /// Takes the beginning of the server's control stream, with settings that mean nothing to the Tester.
    fn set(mut self) -> Self {
        let settings = frame(Kind::SETTINGS, &[1, 0x50, 0, 6, 0x41, 0, 0x40, 0x33, 1]);
        assert_eq!(self.control(&[&[0], &settings[..]].concat()), Ok(vec![]));
        self
    }
}

#[test]
fn the_control_stream_says_that_there_is_no_table() {
    let (kind, frame) = Http3Session::CONTROL.split_first().unwrap();
    assert_eq!((*kind, &frame[..2]), (0, &[4, 7][..]));
    assert_eq!(check_settings(&frame[2..]), Ok(()));
    assert_eq!(frame[2..], [1, 0, 7, 0, 6, 0x7f, 0xff]);
}

#[test]
fn answers_come_whole_in_any_order_and_in_parts() {
    let mut talk = Talk::asked(Method::Post, 3).set();
    let (first, second, third) = (message(1, 50), message(2, 60), message(3, 70));
    // An interim response before it, frames that nobody knows, an empty one, and two frames for one body.
    let octets = [
        fields(&[0, 0, 0xff, 0]),
        frame(Kind(0x21), b"grease"),
        fields(ANSWER_FIELDS),
        data(&second[..20]),
        data(&[]),
        frame(Kind(0xf0700), &[]),
        data(&second[20..]),
    ];
    assert_eq!(talk.take_last(1, &octets.concat()), Ok(vec![Said::Message(second)]));
    // One octet by octet.
    for octet in answer(&first) {
        assert_eq!(talk.take(0, &[octet]), Ok(vec![]));
    }
    assert_eq!(talk.take_last(0, &[]), Ok(vec![Said::Message(first)]));
    // One that ends with trailers.
    let octets = [answer(&third), fields(&[0, 0, 0x23, b'x', b'y', b'z', 1, b'v'])].concat();
    assert_eq!(talk.take_last(2, &octets), Ok(vec![Said::Message(third.clone())]));
    assert_eq!((talk.session.open(), talk.session.oldest()), (0, None));
    // What comes for streams that are over is ignored.
    assert_eq!(talk.take_last(2, &answer(&third)), Ok(vec![]));
}

#[test]
fn get_leaves_with_the_id_0_and_its_answer_gets_the_id_of_the_query() {
    let mut talk = Talk::asked(Method::Get, 2);
    assert_eq!(talk.take_last(0, &answer(&message(0, 50))), Ok(vec![Said::Message(message(1, 50))]));
    let another = lost(1, Breakdown::HttpMalformed, "another ID");
    assert_eq!(talk.take_last(1, &answer(&message(2, 50))), Ok(another));
}

#[test]
fn responses_without_an_answer_lose_their_query_by_name() {
    use Breakdown::{HttpMalformed, HttpStatus};
    for (octets, why, said) in [
        (fields(&[0, 0, 0xdb]), HttpStatus, "status 404"),
        // A redirection is not followed.
        ([fields(&[0, 0, 0xff, 3]), data(b"moved")].concat(), HttpStatus, "status 302"),
        (fields(&[0, 0, 0xec]), HttpMalformed, "no status"),
        (fields(&[0, 0, 0xd9, 0xf4]), HttpMalformed, "no application/dns-message"),
        (fields(&[0, 0, 0xd9]), HttpMalformed, "no application/dns-message"),
        (fields(ANSWER_FIELDS), HttpMalformed, "no message"),
        (answer(&[0; 11]), HttpMalformed, "no message"),
        (answer(&message(2, 40)), HttpMalformed, "another ID"),
        (Vec::new(), HttpMalformed, "no header fields"),
        (fields(&[0, 0, 0xff, 0]), HttpMalformed, "no header fields"),
    ] {
        let mut talk = Talk::asked(Method::Post, 1);
        assert_eq!(talk.take_last(0, &octets), Ok(lost(0, why, said)));
        assert_eq!(talk.session.open(), 0, "{said}");
    }
}

#[test]
fn the_longest_message_is_taken_and_a_longer_one_left() {
    let mut talk = Talk::asked(Method::Post, 2);
    let longest = message(1, MESSAGE_OCTETS_MAX);
    let octets = answer(&longest);
    for part in octets.chunks(1100) {
        assert_eq!(talk.take(0, part), Ok(vec![]));
    }
    assert_eq!(talk.take_last(0, &[]), Ok(vec![Said::Message(longest)]));
    let octets = answer(&message(2, MESSAGE_OCTETS_MAX + 1));
    let long = lost(1, Breakdown::HttpMalformed, "longer than 65,535 octets");
    let stop = Some(Stop(Code::REQUEST_CANCELLED));
    assert_eq!(talk.act(false, 1, &Act::Send(octets)), Ok((long, stop)));
    assert_eq!(talk.session.open(), 0);
}

#[test]
fn resets_and_goaway_lose_what_they_name() {
    let mut talk = Talk::asked(Method::Post, 4).set();
    let reset = Act::Reset(0x10b);
    let refused = lost(1, Breakdown::StreamReset, "H3_REQUEST_REJECTED");
    assert_eq!(talk.act(false, 1, &reset), Ok((refused, None)));
    assert_eq!(talk.act(false, 1, &reset), Ok((vec![], None)));
    assert!(!talk.session.is_leaving());
    // The identifier 8 is that of the third request: it and what follows is not taken.
    let goaway = frame(Kind::GOAWAY, &[8]);
    let said = Said::Refused("GOAWAY".to_owned());
    let all = vec![said, Said::Lost(3, Breakdown::GoAway), Said::Lost(2, Breakdown::GoAway)];
    assert_eq!(talk.control(&goaway), Ok(all));
    assert!(talk.session.is_leaving());
    // Its number may fall, not rise.
    assert_eq!(talk.control(&frame(Kind::GOAWAY, &[4])), Ok(vec![]));
    assert_eq!(talk.control(&goaway), Err(Code::ID));
    // The first one may be answered yet.
    let first = message(1, 40);
    assert_eq!(talk.take_last(0, &answer(&first)), Ok(vec![Said::Message(first)]));
}

#[test]
fn queries_that_nobody_waits_for_are_forgotten() {
    let mut talk = Talk::asked(Method::Post, 2);
    let _ = talk.take(0, &fields(&[0, 0, 0xdb]));
    assert_eq!(talk.session.oldest(), Some((0, 0)));
    assert_eq!((talk.session.forget(0), talk.session.forget(0)), (None, None));
    assert_eq!(talk.session.oldest(), Some((1, MS_NS)));
    assert_eq!((talk.session.forget(1), talk.session.open()), (Some(1), 0));
    // An answer that was on its way is too late.
    assert_eq!(talk.take_last(1, &answer(&message(2, 40))), Ok(vec![]));
}

#[test]
fn streams_of_the_server_are_told_apart() {
    let mut talk = Talk::asked(Method::Post, 1).set();
    let mut send = |number, octets: &[u8]| talk.act(true, number, &Act::Send(octets.to_vec()));
    let nothing = || Ok((vec![], None));
    // A type of two octets that comes in two parts, and is one that nobody knows.
    assert_eq!(send(1, &[0x40]), nothing());
    assert_eq!(send(1, &[0x21, 7, 7]), Ok((vec![], Some(Stop(Code::STREAM_CREATION)))));
    // The tables of header fields.
    assert_eq!(send(2, &[2]), nothing());
    assert_eq!(send(3, &[3, 0x40]), nothing());
    assert_eq!(send(3, &[0x44]), nothing());
    assert_eq!(send(2, &[0x20]), Err(Code::QPACK_ENCODER_STREAM));
    let mut end = |number| talk.act(true, number, &Act::Finish);
    assert_eq!(end(1), nothing());
    assert_eq!(end(3), Err(Code::CLOSED_CRITICAL_STREAM));
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let settings = frame(Kind::SETTINGS, &[]);
    let control = |frames: &[u8]| Talk::asked(Method::Post, 1).set().control(frames).unwrap_err();
    for (frames, code) in [
        (settings.clone(), Code::FRAME_UNEXPECTED),
        (data(b"x"), Code::FRAME_UNEXPECTED),
        (fields(ANSWER_FIELDS), Code::FRAME_UNEXPECTED),
        (frame(Kind::MAX_PUSH_ID, &[1]), Code::FRAME_UNEXPECTED),
        (frame(Kind::CANCEL_PUSH, &[1]), Code::ID),
        (frame(Kind(6), &[]), Code::FRAME_UNEXPECTED),
        (frame(Kind::GOAWAY, &[]), Code::FRAME),
        (frame(Kind::GOAWAY, &[0, 0]), Code::FRAME),
        (frame(Kind::GOAWAY, &[5]), Code::ID),
    ] {
        assert_eq!(control(&frames), code, "{frames:?}");
    }
    let first = |octets: &[u8]| Talk::asked(Method::Post, 1).control(octets).unwrap_err();
    assert_eq!(first(&[0, 7, 1, 0]), Code::MISSING_SETTINGS);
    assert_eq!(first(&[0, 4, 1, 1]), Code::FRAME);
    assert_eq!(first(&[0, 4, 2, 2, 0]), Code::SETTINGS);
    assert_eq!(first(&[0, 4, 4, 6, 1, 6, 2]), Code::SETTINGS);
    assert_eq!(first(&[1, 0]), Code::ID);
    let mut talk = Talk::asked(Method::Post, 1).set();
    assert_eq!(talk.act(true, 4, &Act::Send(vec![0])), Err(Code::STREAM_CREATION));
    for (octets, code) in [
        (data(b"x"), Code::FRAME_UNEXPECTED),
        (settings, Code::FRAME_UNEXPECTED),
        (frame(Kind::PUSH_PROMISE, &[0, 0, 0]), Code::ID),
        (fields(&[1, 0]), Code::QPACK_DECOMPRESSION_FAILED),
        (frame(Kind(2), &[]), Code::FRAME_UNEXPECTED),
        (vec![1, 0x80, 1, 0, 1], Code::EXCESSIVE_LOAD),
        (fields(ANSWER_FIELDS)[..4].to_vec(), Code::FRAME),
    ] {
        assert_eq!(Talk::asked(Method::Post, 1).take_last(0, &octets), Err(code), "{octets:?}");
    }
}

/// What a server may do, or nearly so: with a stream of its own or of a request, its number, and what.
fn any_act() -> impl Strategy<Value = (bool, u64, Act)> {
    let blocks = [ANSWER_FIELDS, &[0, 0, 0xdb], &[0, 0, 0xd9], &[0, 0], &[]].map(<[u8]>::to_vec);
    let payload = prop_oneof![
        prop::sample::select(blocks.to_vec()),
        (0u16..12, 0usize..60).prop_map(|(id, octets)| message(id, octets.max(2))),
        prop::collection::vec(any::<u8>(), 0..12),
        (0u8..24).prop_map(|number| vec![number]),
    ];
    let kind = prop::sample::select(vec![0u64, 0, 1, 1, 3, 4, 5, 6, 7, 0xd, 0x21]);
    let frames =
        prop::collection::vec((kind, payload).prop_map(|(kind, payload)| frame(Kind(kind), &payload)), 1..4);
    let act = prop_oneof![
        6 => frames.prop_map(|frames| Act::Send(frames.concat())),
        2 => prop::collection::vec(any::<u8>(), 0..6).prop_map(Act::Send),
        2 => Just(Act::Finish),
        1 => (0x0ffu64..0x112).prop_map(Act::Reset),
    ];
    (prop::bool::weighted(0.2), 0u64..12, act)
}

proptest! {
    #[test]
    fn no_octets_make_it_panic_and_no_query_ends_twice(
        acts in prop::collection::vec(any_act(), 0..60),
        is_set in any::<bool>(),
    ) {
        let mut talk = Talk::new(Method::Post);
        if is_set {
            talk = talk.set();
        }
        let mut ended = std::collections::HashSet::new();
        for (place, (is_incoming, number, act)) in acts.iter().enumerate() {
            talk.ask(place as u16);
            let Ok((said, _)) = talk.act(*is_incoming, *number, act) else { break };
            for one in said {
                let place = match one {
                    Said::Message(message) => u64::from(u16::from_be_bytes([message[0], message[1]])) - 1,
                    Said::Lost(place, _) => place,
                    Said::Refused(_) => continue,
                };
                prop_assert!(ended.insert(place));
            }
            prop_assert!(talk.session.open() <= place + 1);
        }
    }
}
