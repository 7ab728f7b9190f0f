//! Any octets from a server of DNS over HTTPS to the Measurer's session: every query that left ends in
//! exactly one way, and what the session sends by itself is bounded by what it took.
//!
//! An input is an octet that chooses the method, and operations: an octet for the kind and its fields.

use std::collections::HashSet;

use measurer::transport::stream::{Https, Method, News, Session};

use super::input::Input;

const TIMEOUT_NS: u64 = 100_000_000;
const MILLISECOND_NS: u64 = 1_000_000;
const OPERATIONS_MAX: usize = 512;
const HEADER_OCTETS: usize = 12;
const MESSAGE_OCTETS_MAX: usize = 65_535;
/// What a session begins with, and the headers of the frames that it sends by itself for a stream.
const OWN_OCTETS: usize = 256;
const OWN_OCTETS_OF_STREAM: usize = 64;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status 200` and `content-type: application/dns-message`, without the table.
const ANSWER_FIELDS: &[u8] = b"\x88\x0f\x10\x17application/dns-message";

/// Plays the operations.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut talk = Talk::new(input.octet());
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() || talk.is_over {
            break;
        }
        talk.play(&mut input);
    }
    talk.end();
}

struct Talk {
    session: Session,
    now_ns: u64,
    asked: u16,
    /// Queries that had an answer, or were lost by name.
    ended: HashSet<u64>,
    given_up: u64,
    is_over: bool,
    /// Octets of queries and from the server, and octets that left beside the queries.
    taken_octets: usize,
    left_octets: usize,
}

impl Talk {
    fn new(choice: u8) -> Self {
        let method = if choice & 1 == 0 { Method::Post } else { Method::Get };
        let https = Https::new(method, "/dns-query", "dns.test", 443).expect("a path");
        Self {
            session: Session::new(https, TIMEOUT_NS),
            now_ns: 0,
            asked: 0,
            ended: HashSet::new(),
            given_up: 0,
            is_over: false,
            taken_octets: 0,
            left_octets: 0,
        }
    }

    fn play(&mut self, input: &mut Input<'_>) {
        match input.octet() % 6 {
            0 => {
                self.now_ns += u64::from(input.octet()) * MILLISECOND_NS;
                self.given_up += self.session.expire(self.now_ns);
            }
            1 => self.ask(HEADER_OCTETS + usize::from(input.octet())),
            2 => {
                let (kind, flags, stream) = (input.octet(), input.octet(), input.octet());
                let octets = usize::from(input.octet());
                self.take(&frame(kind % 12, flags, stream.into(), input.take(octets)));
            }
            3 => self.answer(input),
            4 => {
                let octets = usize::from(input.octet());
                self.take(input.take(octets));
            }
            _ => {
                // A body in parts, so that messages can become long.
                let (stream, word) = (input.octet(), input.word());
                self.take(&frame(DATA, 0, stream.into(), &vec![0; usize::from(word) % 16_385]));
            }
        }
        self.flush();
    }

    /// The next query, where there is room; its ID is its place.
    fn ask(&mut self, octets: usize) {
        if !self.session.has_room() {
            return;
        }
        let mut query = vec![0; octets];
        query[..2].copy_from_slice(&self.asked.to_be_bytes());
        self.session.push(&query, (self.asked.into(), self.now_ns), &mut Vec::new());
        self.taken_octets += octets;
        self.asked += 1;
    }

    /// The right answer on a stream, cut where the input says.
    fn answer(&mut self, input: &mut Input<'_>) {
        let (stream, id, cut) = (input.octet(), input.word(), input.octet());
        let mut body = vec![0; 40];
        body[..2].copy_from_slice(&id.to_be_bytes());
        let fields = frame(HEADERS, END_HEADERS, stream.into(), ANSWER_FIELDS);
        let octets = [fields, frame(DATA, END_STREAM, stream.into(), &body)].concat();
        let (first, second) = octets.split_at(usize::from(cut).min(octets.len()));
        self.take(first);
        self.take(second);
    }

    fn take(&mut self, octets: &[u8]) {
        if self.is_over {
            return;
        }
        self.taken_octets += octets.len();
        let (asked, ended) = (u64::from(self.asked), &mut self.ended);
        let mut end = |place: u64| {
            assert!(place < asked, "no query");
            assert!(ended.insert(place), "query {place} ends twice");
        };
        let taken = self.session.take(self.now_ns, octets, &mut |news| match news {
            News::Message(at_ns, message) => {
                assert!(
                    at_ns == self.now_ns && (HEADER_OCTETS..=MESSAGE_OCTETS_MAX).contains(&message.len())
                );
                end(u16::from_be_bytes([message[0], message[1]]).into());
            }
            News::Lost(place, _) => end(place),
            News::Refused(why) => assert!(why.len() < 100, "{why}"),
            News::Ready { .. } | News::GivenUp(_) => panic!("not said by a session"),
        });
        self.is_over = taken.is_err();
    }

    /// What the session says by itself is no longer than what was said to it.
    fn flush(&mut self) {
        let mut output = Vec::new();
        self.session.take_output(&mut output);
        self.left_octets += output.len();
        let own = OWN_OCTETS + OWN_OCTETS_OF_STREAM * usize::from(self.asked);
        assert!(self.left_octets <= 2 * self.taken_octets + own, "{} octets left", self.left_octets);
    }

    /// Where the server did not end the connection, all that is left has no answer within the timeout.
    fn end(mut self) {
        if !self.is_over {
            self.given_up += self.session.expire(self.now_ns + TIMEOUT_NS + 1);
        }
        let ended = self.ended.len() as u64 + self.given_up;
        assert!(ended <= self.asked.into());
        assert!(self.is_over || ended == u64::from(self.asked), "{ended} of {} queries ended", self.asked);
        self.session.close();
        self.flush();
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}
