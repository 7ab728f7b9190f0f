//! A connection of DNS over HTTPS: HTTP/2 over TLS. What HTTP/3 has in common with it is here, too.

pub(super) mod fields;
mod frames;
mod huffman;
pub(super) mod literals;
pub(super) mod request;
mod session;
pub(super) mod streams;

use engine::connections::Breakdown;

pub use request::{Https, Method, WrongPath};
pub use session::Session;

use super::link::{End, News, Scratch, Waiting};
use super::octets::{Arrival, Octets};

/// A connection.
pub(super) struct HttpsLink {
    octets: Octets,
    session: Session,
}

/// A server that makes the Tester answer and does not read is left, as it could fill all memory.
const UNSENT_OCTETS_MAX: usize = 1 << 20;

impl HttpsLink {
    /// One that has begun to connect; an answer is waited for so long, in ns.
    pub fn new(octets: Octets, https: Https, timeout_ns: u64) -> Self {
        Self { octets, session: Session::new(https, timeout_ns) }
    }

    /// Does what the socket is ready for; `tell` hears what came of it.
    ///
    /// # Errors
    /// The connection is over.
    pub fn drive(
        &mut self,
        now_ns: u64,
        (scratch, waiting): (&mut Scratch, Waiting<'_>),
        tell: &mut dyn FnMut(News<'_>),
    ) -> Result<(), End> {
        let session = &mut self.session;
        let driven = self.octets.drive(now_ns, (scratch, waiting), &mut |arrival| match arrival {
            Arrival::Ready(news) => {
                tell(news);
                Ok(())
            }
            Arrival::Octets(at_ns, octets) => session.take(at_ns, octets, tell),
        });
        driven.map_err(|end| self.said_before(end))?;
        match self.session.expire(now_ns) {
            0 => {}
            unanswered => tell(News::GivenUp(unanswered)),
        }
        if self.octets.unsent_octets() > UNSENT_OCTETS_MAX {
            return Err(Breakdown::Reset.into());
        }
        self.flush(scratch, waiting)
    }

    /// A server that said that it would go has not closed the connection by surprise.
    fn said_before(&self, end: End) -> End {
        let closed = matches!(end.why, Breakdown::Closed | Breakdown::Reset);
        if closed && self.session.was_told_to_leave() { Breakdown::GoAway.into() } else { end }
    }

    /// Whether it takes a query now.
    pub fn has_room(&self) -> bool {
        self.octets.has_room() && self.session.has_room()
    }

    /// Whether it will take no more queries.
    pub fn is_leaving(&self) -> bool {
        self.session.is_leaving()
    }

    /// Cancels what nobody waits for any more; returns how many queries had no answer.
    pub fn expire(&mut self, now_ns: u64) -> u64 {
        self.session.expire(now_ns)
    }

    /// Adds a query to those that leave with the next [`HttpsLink::flush`], with its place among those of the
    /// client and the time. Only where it has room.
    pub fn push(&mut self, message: &[u8], at: (u64, u64), scratch: &mut Scratch) {
        self.session.push(message, at, &mut scratch.plain);
    }

    /// Sends what was added, in one write.
    ///
    /// # Errors
    /// The connection is over.
    pub fn flush(&mut self, scratch: &mut Scratch, waiting: Waiting<'_>) -> Result<(), End> {
        if self.octets.is_open() {
            self.session.take_output(&mut scratch.plain);
        }
        self.octets.flush(scratch, waiting).map_err(|end| self.said_before(end))
    }

    /// Says goodbye, as far as that can be done without waiting.
    pub fn close(&mut self, scratch: &mut Scratch) {
        self.session.close();
        self.session.take_output(&mut scratch.plain);
        self.octets.close(scratch);
    }
}
