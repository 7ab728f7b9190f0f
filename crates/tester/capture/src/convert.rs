//! From a capture to a compact file.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Seek, Write};
use std::net::IpAddr;

use crate::compact::{CLIENTS_MAX, Header, Writer};
use crate::left_out::{LeftOut, Reason};
use crate::order::{Order, Waiting};
use crate::packets::{Packets, Stopped};
use crate::queries::{Query, queries_of};

/// Queries may stand so many places too late in a capture, as those of several receive queues do.
pub const WINDOW_QUERIES: usize = 1 << 16;

/// Why there is no file.
#[derive(Debug)]
pub enum ConvertError {
    /// The capture cannot be read from its beginning, and has not one query before the place.
    Capture(Stopped),
    /// The capture has not one query, but what was left out.
    NoQuery(LeftOut),
    /// More than [`CLIENTS_MAX`] clients.
    TooManyClients,
    /// The output failed.
    Output(io::Error),
}

impl fmt::Display for ConvertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capture(stopped) => stopped.fmt(f),
            Self::NoQuery(left_out) => {
                f.write_str("the capture holds no DNS query")?;
                left_out.iter().try_for_each(|(why, count)| write!(f, ", {} {count}", why.in_words()))?;
                left_out.most().map_or(Ok(()), |why| write!(f, ": {}", why.advice()))
            }
            Self::TooManyClients => write!(f, "over {CLIENTS_MAX} clients: convert a part of the capture"),
            Self::Output(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConvertError {}

/// What a conversion gave.
#[derive(Debug)]
pub struct Converted<W> {
    /// The header of the file.
    pub header: Header,
    /// The output.
    pub output: W,
    /// Why the capture was not read to its end; all before that place was.
    pub stopped: Option<Stopped>,
}

/// Reads the queries to `port` of a pcap or pcapng file, and writes them in the order of their times.
///
/// # Errors
/// [`ConvertError`].
pub fn convert<R: Read + Send, W: Write + Seek>(
    input: R,
    output: W,
    port: u16,
) -> Result<Converted<W>, ConvertError> {
    let mut packets = Packets::new(input).map_err(ConvertError::Capture)?;
    let mut sorting = Sorting::new(output).map_err(ConvertError::Output)?;
    let mut left_out = LeftOut::default();
    let stopped = loop {
        let mut taken = Ok(());
        let more = packets.next(&mut |packet| {
            let mut late = 0;
            queries_of(&packet, port, &mut left_out, &mut |query| match sorting.take(&query) {
                Ok(in_order) => late += u64::from(!in_order),
                Err(error) => taken = Err(error),
            });
            (0..late).for_each(|_| left_out.note(Reason::OutOfOrder));
        });
        taken?;
        match more {
            Ok(true) => {}
            Ok(false) => break None,
            Err(stopped) => break Some(stopped),
        }
    };
    let queries = sorting.end().map_err(ConvertError::Output)?;
    if queries == 0 {
        return Err(stopped.map_or(ConvertError::NoQuery(left_out), ConvertError::Capture));
    }
    let (header, output) = sorting.writer.finish(left_out).map_err(ConvertError::Output)?;
    Ok(Converted { header, output, stopped })
}

/// Queries on their way into the file.
struct Sorting<W> {
    writer: Writer<W>,
    order: Order,
    clients: HashMap<IpAddr, u32>,
    read: u64,
}

impl<W: Write + Seek> Sorting<W> {
    fn new(output: W) -> io::Result<Self> {
        let (writer, order) = (Writer::new(output)?, Order::new(WINDOW_QUERIES));
        Ok(Self { writer, order, clients: HashMap::new(), read: 0 })
    }

    /// Takes a query; `false` if it comes too late to be put in order.
    fn take(&mut self, query: &Query<'_>) -> Result<bool, ConvertError> {
        let next = self.clients.len();
        if next == CLIENTS_MAX && !self.clients.contains_key(&query.client) {
            return Err(ConvertError::TooManyClients);
        }
        let client = *self.clients.entry(query.client).or_insert(next as u32);
        self.read += 1;
        let waiting =
            Waiting { time_ns: query.time_ns, number: self.read, client, message: query.message.into() };
        let Ok(first) = self.order.push(waiting) else { return Ok(false) };
        first.map_or(Ok(()), |first| self.write(&first)).map_err(ConvertError::Output)?;
        Ok(true)
    }

    fn write(&mut self, query: &Waiting) -> io::Result<()> {
        self.writer.push(query.time_ns, query.client, &query.message)
    }

    /// Writes what waits; returns the number of all queries.
    fn end(&mut self) -> io::Result<u64> {
        while let Some(query) = self.order.pop() {
            self.write(&query)?;
        }
        Ok(self.writer.queries())
    }
}
