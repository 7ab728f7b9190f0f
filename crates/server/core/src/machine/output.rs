//! Where a machine's messages go.

use crate::client::Client;

/// What happened that an operator may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The upstream server of this number is left out for a while.
    UpstreamDown(usize),
    /// It answers again.
    UpstreamUp(usize),
    /// A question asked there came back to us: it is not asked any more.
    Loop(usize),
    /// Somebody guesses answers of the upstream server of this number: it is asked over streams for a while.
    Guessing(usize),
    /// It does not keep the spelling of names: names are not spelled at random for it.
    SpellingChanged(usize),
    /// Queries are given up without an answer: too many are in flight.
    Full,
}

/// The way out. A message is written straight into the buffer it leaves from; a writer that returns 0 has
/// nothing to send.
pub trait Output {
    /// Sends an answer to a client. The buffer holds at least
    /// [`crate::settings::Settings::udp_payload_octets`], 65,535 for streams.
    fn to_client(&mut self, client: &Client, write: impl FnOnce(&mut [u8]) -> usize);
    /// A client's query ends without an answer.
    fn no_answer(&mut self, client: &Client);
    /// Sends a query from a UDP socket of an upstream server. The buffer holds
    /// [`crate::answer::QUERY_OCTETS_MAX`].
    fn to_upstream(&mut self, upstream: usize, socket: usize, write: impl FnOnce(&mut [u8]) -> usize);
    /// Asks an upstream server over a stream; the answer comes with `token` to
    /// [`super::Machine::handle_upstream_stream`].
    fn to_upstream_stream(&mut self, upstream: usize, token: u64, query: &[u8]);
    /// Tells the operator.
    fn notice(&mut self, notice: Notice);
}
