//! What is spoken over a connection: DNS over QUIC (RFC 9250), or HTTP/3 (RFC 9114).

use engine::connections::Breakdown;
use quinn_proto::{Dir, StreamId, VarInt};

use super::answers::{Asked, Progress};
use super::codes;
use crate::transport::stream::framing;
use crate::transport::stream::http3::{Code, Http3Session, Stop};
use crate::transport::stream::https::Https;
use crate::transport::stream::link::{Leaving, News};

/// A dialect, with the queries of the connection whose streams are open.
pub(super) enum Dialect {
    Doq(Asked),
    Http3(Box<Http3Session>),
}

/// What the server did that ends the connection, and the code that tells it so.
#[derive(Debug)]
pub(super) struct Violation {
    pub code: VarInt,
    pub reason: String,
}

impl From<&'static str> for Violation {
    /// RFC 9250 4.3.3.
    fn from(reason: &'static str) -> Self {
        Self { code: codes::PROTOCOL_ERROR, reason: reason.to_owned() }
    }
}

impl From<Code> for Violation {
    fn from(code: Code) -> Self {
        Self { code: number(code), reason: code.to_string() }
    }
}

fn number(code: Code) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or(VarInt::MAX)
}

impl Dialect {
    /// HTTP/3, if something is asked for by it.
    pub fn new(https: Option<&Https>) -> Self {
        match https {
            Some(https) => Self::Http3(Box::new(Http3Session::new(https.clone()))),
            None => Self::Doq(Asked::default()),
        }
    }

    /// What the client says on a stream of its own, which stays open.
    pub fn control(&self) -> &'static [u8] {
        match self {
            Self::Doq(_) => &[],
            Self::Http3(_) => &Http3Session::CONTROL,
        }
    }

    /// Streams of queries that are not closed.
    pub fn open(&self) -> usize {
        match self {
            Self::Doq(asked) => asked.len(),
            Self::Http3(session) => session.open(),
        }
    }

    /// Whether the server said that it would take no more queries.
    pub fn is_leaving(&self) -> bool {
        match self {
            Self::Doq(_) => false,
            Self::Http3(session) => session.is_leaving(),
        }
    }

    /// The number of the oldest stream of a query, and when the query left, in ns.
    pub fn oldest(&self) -> Option<(u64, u64)> {
        match self {
            Self::Doq(asked) => asked.oldest(),
            Self::Http3(session) => session.oldest(),
        }
    }

    /// Writes what is to be sent on the next stream for this query, whose ID this is.
    pub fn write(&mut self, query: &Leaving<'_>, id: [u8; 2], octets: &mut Vec<u8>) {
        octets.clear();
        match self {
            Self::Doq(asked) => {
                framing::push(query.octets, octets);
                octets[framing::LENGTH..framing::LENGTH + id.len()].fill(0);
                asked.push(query.place, id, query.now_ns);
            }
            Self::Http3(session) => session.push(query.octets, (query.place, query.now_ns), octets),
        }
    }

    /// Takes octets of a stream; `tell` hears what they said. Returns the code that its sender is to be told
    /// if the rest is not wanted.
    pub fn take(
        &mut self,
        (at_ns, stream): (u64, StreamId),
        octets: &[u8],
        room: &mut [u8],
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<Option<VarInt>, Violation> {
        let at = (stream.index(), octets);
        let stop = match self {
            Self::Doq(asked) => {
                if let Progress::Whole(length) = asked.take(stream.index(), octets, room)? {
                    tell(News::Message(at_ns, &room[..length]));
                }
                None
            }
            Self::Http3(session) if stream.dir() == Dir::Uni => session.take_incoming(at, tell)?,
            Self::Http3(session) => session.take(at_ns, at, tell)?,
        };
        Ok(stop.map(|Stop(code)| number(code)))
    }

    /// The server has ended a stream in order.
    pub fn finish(
        &mut self,
        (at_ns, stream): (u64, StreamId),
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), Violation> {
        match self {
            Self::Doq(asked) => asked.finish(stream.index())?,
            Self::Http3(session) if stream.dir() == Dir::Uni => session.finish_incoming(stream.index())?,
            Self::Http3(session) => session.finish(at_ns, stream.index(), tell)?,
        }
        Ok(())
    }

    /// The server has reset a stream.
    pub fn reset(
        &mut self,
        stream: StreamId,
        code: VarInt,
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), Violation> {
        match self {
            Self::Doq(asked) => {
                if let Some(place) = asked.close(stream.index()) {
                    tell(News::Refused(codes::name(code)));
                    tell(News::Lost(place, Breakdown::StreamReset));
                }
            }
            Self::Http3(session) if stream.dir() == Dir::Uni => session.finish_incoming(stream.index())?,
            Self::Http3(session) => session.reset(stream.index(), Code(code.into_inner()), tell),
        }
        Ok(())
    }

    /// Nobody waits for the answer on this stream any more; returns the code that says so.
    pub fn forget(&mut self, number_of_stream: u64) -> VarInt {
        match self {
            Self::Doq(asked) => {
                asked.close(number_of_stream);
                codes::REQUEST_CANCELLED
            }
            Self::Http3(session) => {
                session.forget(number_of_stream);
                number(Code::REQUEST_CANCELLED)
            }
        }
    }

    /// The code that says that nothing is wrong.
    pub fn no_error(&self) -> VarInt {
        match self {
            Self::Doq(_) => codes::NO_ERROR,
            Self::Http3(_) => number(Code::NO_ERROR),
        }
    }

    /// The name of a code, or its number.
    pub fn name(&self, code: VarInt) -> String {
        match self {
            Self::Doq(_) => codes::name(code),
            Self::Http3(_) => Code(code.into_inner()).to_string(),
        }
    }

    /// A stream that the client must keep was refused.
    pub fn refused_control(&self) -> Violation {
        Code::CLOSED_CRITICAL_STREAM.into()
    }
}
