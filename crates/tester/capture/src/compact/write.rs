//! Writing: the header comes last, so that a file that was not finished is known as such.

use std::io::{self, Seek, SeekFrom, Write};

use super::{HEADER_OCTETS, Header, NUMBER_OCTETS_MAX};
use crate::left_out::LeftOut;

/// Octets that are written at once.
const WRITE_OCTETS: usize = 1 << 18;

/// Writes a file; it has a bounded number of octets in memory.
pub struct Writer<W> {
    output: W,
    buffer: Vec<u8>,
    header: Header,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of the output.
    pub fn new(mut output: W) -> io::Result<Self> {
        output.write_all(&[0; HEADER_OCTETS])?;
        Ok(Self { output, buffer: Vec::with_capacity(2 * WRITE_OCTETS), header: Header::default() })
    }

    /// Adds a query, asked at `time_ns` since 1970 and not before the last one.
    ///
    /// # Errors
    /// Those of the output.
    pub fn push(&mut self, time_ns: u64, client: u32, message: &[u8]) -> io::Result<()> {
        let header = &mut self.header;
        if header.queries == 0 {
            header.first_ns = time_ns;
        }
        let after_ns = time_ns.saturating_sub(header.first_ns).max(header.length_ns);
        let since_ns = after_ns - header.length_ns;
        header.length_ns = after_ns;
        header.queries += 1;
        header.clients = header.clients.max(u64::from(client) + 1);
        let before = self.buffer.len();
        for number in [since_ns, client.into(), message.len() as u64] {
            push_number(&mut self.buffer, number);
        }
        self.buffer.extend_from_slice(message);
        header.octets += (self.buffer.len() - before) as u64;
        if self.buffer.len() >= WRITE_OCTETS {
            self.output.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Queries so far.
    pub fn queries(&self) -> u64 {
        self.header.queries
    }

    /// Completes the file; returns its header and the output.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self, left_out: LeftOut) -> io::Result<(Header, W)> {
        self.output.write_all(&self.buffer)?;
        self.header.left_out = left_out;
        self.output.seek(SeekFrom::Start(0))?;
        self.output.write_all(&self.header.to_octets())?;
        self.output.flush()?;
        Ok((self.header, self.output))
    }
}

fn push_number(buffer: &mut Vec<u8>, mut number: u64) {
    for _ in 1..NUMBER_OCTETS_MAX {
        if number < 0x80 {
            break;
        }
        buffer.push(number as u8 | 0x80);
        number >>= 7;
    }
    buffer.push(number as u8);
}
