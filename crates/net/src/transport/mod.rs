//! How the Measurer's queries leave and its answers come in: one trait, several back-ends.

mod udp;
pub mod xdp;

use std::io;

pub use udp::{UdpConfig, UdpTransport};

/// What became of the queries of one call.
#[derive(Debug, Default)]
pub struct Sent {
    /// Queries that were refused; the others were taken.
    pub failed: usize,
    /// Why, for the last of them.
    pub error: Option<io::Error>,
}

/// A back-end of the Measurer. One belongs to one thread.
pub trait Transport {
    /// Sends `count` queries with one of its sockets; `write` fills a buffer and returns the length.
    fn send(&mut self, socket: usize, count: usize, write: &mut dyn FnMut(&mut [u8]) -> usize) -> Sent;

    /// Hands over what has arrived, a bounded number: when it arrived (ns, `CLOCK_MONOTONIC`), at which socket, and
    /// the octets. Returns how many there were.
    ///
    /// # Errors
    /// Those that no later call can mend.
    fn receive(&mut self, deliver: &mut dyn FnMut(u64, usize, &[u8])) -> io::Result<usize>;

    /// Sleeps until something arrives or the time, in ns, is over.
    ///
    /// # Errors
    /// Those that no later call can mend.
    fn wait(&mut self, timeout_ns: u64) -> io::Result<()>;

    /// Answers that were dropped at its own sockets or rings so far.
    fn drops(&self) -> u64;
}
