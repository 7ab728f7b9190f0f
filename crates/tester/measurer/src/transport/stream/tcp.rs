//! Messages over TCP, with or without TLS, each behind its length.

use super::framing::{self, Frames};
use super::link::{End, News, Scratch, Waiting};
use super::octets::{Arrival, Octets};

/// A connection over TCP.
pub(super) struct TcpLink {
    octets: Octets,
    frames: Frames,
}

impl TcpLink {
    /// One that has begun to connect.
    pub fn new(octets: Octets) -> Self {
        Self { octets, frames: Frames::default() }
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
        let frames = &mut self.frames;
        self.octets.drive(now_ns, (scratch, waiting), &mut |arrival| {
            match arrival {
                Arrival::Ready(news) => tell(news),
                Arrival::Octets(at_ns, octets) => {
                    frames.take(octets, &mut |message| tell(News::Message(at_ns, message)));
                }
            }
            Ok(())
        })?;
        self.octets.flush(scratch, waiting)
    }

    /// Whether it takes a query now.
    pub fn has_room(&self) -> bool {
        self.octets.has_room()
    }

    /// Adds a query to those that leave with the next [`TcpLink::flush`]. Only where it has room.
    pub fn push(&mut self, message: &[u8], scratch: &mut Scratch) {
        framing::push(message, &mut scratch.plain);
    }

    /// Sends what was added, in one write.
    ///
    /// # Errors
    /// The connection is over.
    pub fn flush(&mut self, scratch: &mut Scratch, waiting: Waiting<'_>) -> Result<(), End> {
        self.octets.flush(scratch, waiting)
    }

    /// Says goodbye, as far as that can be done without waiting.
    pub fn close(&mut self, scratch: &mut Scratch) {
        self.octets.close(scratch);
    }
}
