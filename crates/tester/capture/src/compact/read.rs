//! Reading, one query after another.

use std::fmt;
use std::io::{self, Read};

use engine::workload::QUERY_OCTETS_MAX;

use super::{CLIENTS_MAX, HEADER_OCTETS, Header, MAGIC, NUMBER_OCTETS_MAX};

/// Octets that are read at once.
const READ_OCTETS: usize = 1 << 18;
/// The longest query: its numbers and the message.
const ENTRY_OCTETS_MAX: usize = 3 * NUMBER_OCTETS_MAX + QUERY_OCTETS_MAX;

/// Why a file cannot be read. Each displays as one line.
#[derive(Debug)]
pub enum ReadError {
    /// The input failed.
    Io(io::Error),
    /// It does not begin as such a file does, or is of another version.
    Unknown,
    /// Its header was never written: the conversion was broken off.
    Unfinished,
    /// It ends after so many queries, and its header tells of more.
    CutOff {
        /// Queries that were read.
        read: u64,
        /// Queries by the header.
        of: u64,
    },
    /// The header counts more clients than a file may have.
    TooManyClients(u64),
    /// A query, counted from 1, is not as the format has it.
    Malformed(u64, &'static str),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Unknown => f.write_str("no file of 'sextant convert', or one of another version"),
            Self::Unfinished => {
                f.write_str("'sextant convert' did not finish this file: convert the capture again")
            }
            Self::CutOff { read, of } => {
                write!(f, "the file is cut off: it ends after query {read} of {of}")
            }
            Self::TooManyClients(clients) => {
                write!(f, "the header counts {clients} clients; at most {CLIENTS_MAX} are possible")
            }
            Self::Malformed(number, reason) => write!(f, "query {number}: {reason}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'b> {
    /// When it was asked, in ns after the first.
    pub time_ns: u64,
    /// Who asked, from 0.
    pub client: u32,
    /// The message, of at most [`QUERY_OCTETS_MAX`] octets.
    pub message: &'b [u8],
}

/// Reads a file; it has a bounded number of octets in memory.
pub struct Reader<R> {
    input: R,
    header: Header,
    buffer: Vec<u8>,
    /// What of the buffer is not read yet.
    at: usize,
    ended: bool,
    read: u64,
    time_ns: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn new(mut input: R) -> Result<Self, ReadError> {
        let mut octets = [0; HEADER_OCTETS];
        input.read_exact(&mut octets).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError::Unknown,
            _ => ReadError::Io(error),
        })?;
        if octets[..8] == [0; 8] {
            return Err(ReadError::Unfinished);
        }
        if octets[..8] != MAGIC {
            return Err(ReadError::Unknown);
        }
        let header = Header::from_octets(&octets);
        // Whoever reads the file keeps a number for each client.
        if header.clients > CLIENTS_MAX as u64 {
            return Err(ReadError::TooManyClients(header.clients));
        }
        let buffer = Vec::with_capacity(READ_OCTETS + ENTRY_OCTETS_MAX);
        Ok(Self { input, header, buffer, at: 0, ended: false, read: 0, time_ns: 0 })
    }

    /// What the file says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next query; `None` after the last.
    ///
    /// # Errors
    /// [`ReadError`]; nothing can be read after it.
    #[inline]
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, ReadError> {
        if self.read == self.header.queries {
            return Ok(None);
        }
        if self.buffer.len() - self.at < ENTRY_OCTETS_MAX && !self.ended {
            self.fill()?;
        }
        let cut_off = ReadError::CutOff { read: self.read, of: self.header.queries };
        let malformed = |reason| ReadError::Malformed(self.read + 1, reason);
        let mut rest = &self.buffer[self.at..];
        let mut number = || match take_number(&mut rest) {
            Some(number) => Ok(number),
            None if rest.len() < NUMBER_OCTETS_MAX => Err(None),
            None => Err(Some("a number of over 64 bits")),
        };
        let mut numbers = || Ok((number()?, number()?, number()?));
        let (since_ns, client, length) = match numbers() {
            Ok(numbers) => numbers,
            Err(None) => return Err(cut_off),
            Err(Some(reason)) => return Err(malformed(reason)),
        };
        let client = u32::try_from(client).ok().filter(|client| u64::from(*client) < self.header.clients);
        let client = client.ok_or_else(|| malformed("a client that the header does not count"))?;
        let length = usize::try_from(length).ok().filter(|length| *length <= QUERY_OCTETS_MAX);
        let length = length.ok_or_else(|| malformed("a message that is too long"))?;
        let time_ns = self.time_ns.checked_add(since_ns).filter(|time_ns| *time_ns <= self.header.length_ns);
        let time_ns = time_ns.ok_or_else(|| malformed("a time after the last"))?;
        let message = rest.get(..length).ok_or(cut_off)?;
        self.at = self.buffer.len() - rest.len() + length;
        self.time_ns = time_ns;
        self.read += 1;
        Ok(Some(Entry { time_ns, client, message }))
    }

    /// Reads on, until there is room for no more or the input ends.
    #[cold]
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let before = self.buffer.len();
        let read = self.input.by_ref().take(READ_OCTETS as u64).read_to_end(&mut self.buffer)?;
        self.ended = read < READ_OCTETS;
        debug_assert_eq!(self.buffer.len(), before + read);
        Ok(())
    }
}

/// Takes a number; `None` if it does not end, or has over 64 bits.
#[inline]
fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for (index, &octet) in rest.iter().take(NUMBER_OCTETS_MAX).enumerate() {
        let bits = u64::from(octet & 0x7f);
        if index + 1 == NUMBER_OCTETS_MAX && bits > 1 {
            return None;
        }
        number |= bits << (7 * index);
        if octet & 0x80 == 0 {
            *rest = &rest[index + 1..];
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::super::Writer;
    use super::*;
    use crate::left_out::{LeftOut, Reason};
    use proptest::prelude::*;

    type Row = (u64, u32, Vec<u8>);

    fn written(rows: &[Row]) -> Vec<u8> {
        let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
        for (time_ns, client, message) in rows {
            writer.push(*time_ns, *client, message).unwrap();
        }
        let mut left_out = LeftOut::default();
        left_out.note(Reason::Cut);
        writer.finish(left_out).unwrap().1.into_inner()
    }

    fn read(file: &[u8]) -> Result<Vec<Row>, ReadError> {
        let mut reader = Reader::new(file)?;
        let mut rows = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            rows.push((entry.time_ns, entry.client, entry.message.to_vec()));
        }
        Ok(rows)
    }

    #[test]
    fn wrong_files_say_what_is_wrong() {
        let file = written(&[(5, 0, vec![1; 40]), (9, 1, vec![2; 40])]);
        assert_eq!(Reader::new(&file[..]).unwrap().header().left_out.of(Reason::Cut), 1);
        for (octets, reason) in [
            (&file[..100], "no file of 'sextant convert'"),
            (&file[..file.len() - 1], "cut off: it ends after query 1 of 2"),
            (&file[..HEADER_OCTETS], "cut off: it ends after query 0 of 2"),
            (&[0; 200][..], "did not finish this file"),
        ] {
            assert!(read(octets).unwrap_err().to_string().contains(reason), "{reason}");
        }
        let changed = |at: usize, octet: u8| {
            let mut file = file.clone();
            file[at] = octet;
            read(&file).unwrap_err().to_string()
        };
        assert!(changed(7, 2).contains("of another version"));
        assert!(changed(23, 1).contains("counts 72057594037927938 clients; at most 16777216"));
        assert!(changed(HEADER_OCTETS, 1).contains("a time after the last"));
        assert!(changed(HEADER_OCTETS + 1, 2).contains("query 1: a client"));
        assert!(changed(16, 1).contains("query 2: a client"));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            rows in prop::collection::vec(
                (any::<u64>(), 0u32..1000, prop::collection::vec(any::<u8>(), 0..=512)), 0..40,
            ),
        ) {
            let mut rows = rows;
            rows.sort();
            let file = written(&rows);
            let first_ns = rows.first().map_or(0, |row| row.0);
            rows.iter_mut().for_each(|row| row.0 -= first_ns);
            let header = *Reader::new(&file[..]).unwrap().header();
            prop_assert_eq!(header.queries, rows.len() as u64);
            prop_assert_eq!(header.octets, (file.len() - HEADER_OCTETS) as u64);
            prop_assert_eq!(header.length_ns, rows.last().map_or(0, |row| row.0));
            prop_assert_eq!(read(&file).unwrap(), rows);
        }

        #[test]
        fn any_octets_are_read_or_refused(
            octets in prop::collection::vec(any::<u8>(), 0..400), queries in 0u64..50,
        ) {
            let header = Header { queries, clients: 200, length_ns: 1 << 40, ..Header::default() };
            let mut file = header.to_octets().to_vec();
            file.extend(&octets);
            if let Ok(rows) = read(&file) {
                prop_assert_eq!(rows.len() as u64, queries);
                prop_assert!(rows.is_sorted_by_key(|row| row.0));
            }
            let _ = read(&octets);
        }
    }
}
