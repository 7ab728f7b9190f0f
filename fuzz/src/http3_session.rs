//! Any octets from a server of DNS over HTTP/3 to the Measurer's session: every query that left ends in at
//! most one way, and in exactly one if the connection stands.
//!
//! An input is an octet that chooses the method, and operations: an octet for the kind, and its fields.

use std::collections::HashSet;

use measurer::transport::stream::{Code, Http3Session, Https, Method, News, Stop};

use super::input::Input;

const OPERATIONS_MAX: usize = 512;
const HEADER_OCTETS: usize = 12;
const MESSAGE_OCTETS_MAX: usize = 65_535;
/// HEADERS with `:status 200` and `content-type: application/dns-message`, and the header of DATA of 40
/// octets.
const ANSWER: &[u8] = &[1, 4, 0, 0, 0xd9, 0xec, 0, 40];

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
    session: Http3Session,
    asked: u16,
    /// Queries that had an answer, or were lost by name.
    ended: HashSet<u64>,
    is_over: bool,
}

impl Talk {
    fn new(choice: u8) -> Self {
        let method = if choice & 1 == 0 { Method::Post } else { Method::Get };
        let https = Https::new(method, "/dns-query", "dns.test", 443).expect("a path");
        Self { session: Http3Session::new(https), asked: 0, ended: HashSet::new(), is_over: false }
    }

    fn play(&mut self, input: &mut Input<'_>) {
        let (kind, stream) = (input.octet(), u64::from(input.octet()));
        match kind % 7 {
            0 => self.ask(HEADER_OCTETS + usize::from(kind)),
            1 => {
                let octets = usize::from(input.octet());
                let octets = input.take(octets);
                self.act(|session, tell| session.take(0, (stream, octets), tell));
            }
            2 => {
                let octets = usize::from(input.octet());
                let octets = input.take(octets);
                self.act(|session, tell| session.take_incoming((stream, octets), tell));
            }
            3 => {
                // The right answer, cut where the input says.
                let (id, cut) = (input.word(), input.octet());
                let octets = [ANSWER, &id.to_be_bytes(), &[0; 38]].concat();
                let (first, second) = octets.split_at(usize::from(cut).min(octets.len()));
                for part in [first, second] {
                    self.act(|session, tell| session.take(0, (stream, part), tell));
                }
            }
            4 => self.act(|session, tell| session.finish(0, stream, tell).map(|()| None)),
            5 => self.act(|session, _| session.finish_incoming(stream).map(|()| None)),
            _ => {
                let code = Code(input.word().into());
                self.act(|session, tell| {
                    session.reset(stream, code, tell);
                    Ok(None)
                });
            }
        }
    }

    /// The next query; its ID is its place.
    fn ask(&mut self, octets: usize) {
        let mut query = vec![0; octets];
        query[..2].copy_from_slice(&self.asked.to_be_bytes());
        self.session.push(&query, (self.asked.into(), 0), &mut Vec::new());
        self.asked += 1;
    }

    fn act(
        &mut self,
        act: impl FnOnce(&mut Http3Session, &mut dyn FnMut(News<'_>)) -> Result<Option<Stop>, Code>,
    ) {
        if self.is_over {
            return;
        }
        let (asked, ended) = (u64::from(self.asked), &mut self.ended);
        let mut end = |place: u64| {
            assert!(place < asked, "no query");
            assert!(ended.insert(place), "query {place} ends twice");
        };
        let done = act(&mut self.session, &mut |news| match news {
            News::Message(_, message) => {
                assert!((HEADER_OCTETS..=MESSAGE_OCTETS_MAX).contains(&message.len()));
                end(u16::from_be_bytes([message[0], message[1]]).into());
            }
            News::Lost(place, _) => end(place),
            News::Refused(why) => assert!(why.len() < 100, "{why}"),
            News::Ready { .. } | News::GivenUp(_) => panic!("not said by a session"),
        });
        self.is_over = done.is_err();
    }

    /// Where the server did not end the connection, all that is left has no answer.
    fn end(mut self) {
        while let Some((stream, _)) = self.session.oldest() {
            if let Some(place) = self.session.forget(stream) {
                assert!(self.ended.insert(place), "query {place} ends twice");
            }
        }
        assert!(self.is_over || self.ended.len() == usize::from(self.asked), "a query without an end");
        assert_eq!(self.session.open(), 0);
    }
}
