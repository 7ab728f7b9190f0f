//! Queries of a file one after another.

use std::io::{self, BufRead};

use engine::workload::question::check_request;

use super::line::{question_of, timed};

/// How queries are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// NAME and TYPE on each line, as dnsperf reads them.
    #[default]
    Text,
    /// SECONDS, NAME and TYPE on each line: each query is asked at its time, counted from the first
    Timed,
    /// Whole messages, each after its length in two octets (RFC 1035 4.2.2), as dnsperf -B reads them:
    /// queries, also NOTIFY and UPDATE
    Wire,
}

/// A query, or why it is none.
pub type Read = Result<Vec<u8>, Malformed>;

/// A line or message that is no query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// `line 17` or `message 17`.
    pub place: String,
    /// The line, or the message of a binary file, counted from 1.
    pub reason: String,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

/// A line is cut after so many octets: a name with all its octets escaped is shorter.
const LINE_OCTETS_MAX: u64 = 4096;

/// Reads queries; memory is bounded whatever the file holds.
pub struct Queries<R> {
    input: R,
    format: Format,
    number: u64,
    buffer: Vec<u8>,
    /// The time of the last query, where queries have times, in ns.
    time_ns: u64,
}

impl<R: BufRead> Queries<R> {
    pub fn new(input: R, format: Format) -> Self {
        Self { input, format, number: 0, buffer: Vec::new(), time_ns: 0 }
    }

    /// When the query that was read last was asked, in ns; 0 where queries have no times.
    pub fn time_ns(&self) -> u64 {
        self.time_ns
    }

    /// The next query; `None` at the end.
    ///
    /// # Errors
    /// Those of the input.
    pub fn next(&mut self) -> io::Result<Option<Read>> {
        match self.format {
            Format::Text | Format::Timed => self.next_line(),
            Format::Wire => self.next_message(),
        }
    }

    fn next_line(&mut self) -> io::Result<Option<Read>> {
        loop {
            self.buffer.clear();
            let mut limited = io::Read::take(&mut self.input, LINE_OCTETS_MAX);
            if limited.read_until(b'\n', &mut self.buffer)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            let ended = self.buffer.last() == Some(&b'\n');
            if !ended && self.buffer.len() as u64 == LINE_OCTETS_MAX {
                self.input.skip_until(b'\n')?;
                return Ok(Some(Err(self.malformed("line", &format!("over {LINE_OCTETS_MAX} octets")))));
            }
            let question = match self.format {
                Format::Timed => timed(&self.buffer, &mut self.time_ns),
                _ => question_of(&self.buffer),
            };
            match question {
                Ok(None) => {}
                Ok(Some(question)) => return Ok(Some(Ok(question))),
                Err(reason) => return Ok(Some(Err(self.malformed("line", &reason)))),
            }
        }
    }

    fn next_message(&mut self) -> io::Result<Option<Read>> {
        let mut length = [0; 2];
        if self.input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let cut = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Ok(()),
            _ => Err(error),
        };
        let whole = self.input.read_exact(&mut length).and_then(|()| {
            self.buffer.resize(u16::from_be_bytes(length).into(), 0);
            self.input.read_exact(&mut self.buffer)
        });
        if let Err(error) = whole {
            cut(error)?;
            return Ok(Some(Err(self.malformed("message", "the file ends within it"))));
        }
        Ok(Some(match check_request(&self.buffer) {
            Ok(()) => Ok(self.buffer.clone()),
            Err(reason) => Err(self.malformed("message", &reason)),
        }))
    }

    fn malformed(&self, what: &str, reason: &str) -> Malformed {
        Malformed { place: format!("{what} {}", self.number), reason: reason.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(octets: &[u8], format: Format) -> Vec<Read> {
        let mut queries = Queries::new(octets, format);
        std::iter::from_fn(|| queries.next().unwrap()).collect()
    }

    #[test]
    fn lines_are_counted_as_an_editor_does() {
        let long = format!("; first\na A\n\nb\n{}\nc AAAA", "x".repeat(10_000));
        let read = all(long.as_bytes(), Format::Text);
        assert_eq!(read.len(), 4);
        assert!(read[0].is_ok() && read[3].is_ok());
        assert_eq!(read[1].as_ref().unwrap_err().place, "line 4");
        assert_eq!(read[2].as_ref().unwrap_err().to_string(), "line 5: over 4096 octets");
    }

    #[test]
    fn messages_come_after_their_lengths() {
        let message = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x1c\0\x01";
        let framed = [&[0, message.len() as u8], &message[..]].concat();
        let file = [&framed[..], &[0, 3, 1, 2, 3], &framed, &[0, 40, 1]].concat();
        let read = all(&file, Format::Wire);
        assert_eq!(read.len(), 4);
        assert_eq!((read[0].as_deref().unwrap(), read[2].as_deref().unwrap()), (&message[..], &message[..]));
        assert_eq!(read[1].as_ref().unwrap_err().place, "message 2");
        assert_eq!(read[3].as_ref().unwrap_err().to_string(), "message 4: the file ends within it");
        assert!(all(&[], Format::Wire).is_empty());
    }
}
