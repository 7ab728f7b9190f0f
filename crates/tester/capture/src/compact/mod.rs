//! A compact file of queries with their times and clients.
//!
//! The file begins with a header of [`HEADER_OCTETS`] octets; its numbers are little-endian and have 64 bits.
//!
//! | octets | what |
//! |---|---|
//! | 0-7 | [`MAGIC`], which ends with the version; zeros until the file is complete |
//! | 8-15 | queries |
//! | 16-23 | clients |
//! | 24-31 | time of the first query, in ns since 1970 |
//! | 32-39 | time of the last query, in ns after the first |
//! | 40-47 | octets after the header |
//! | 48-127 | what was left out of the capture: a number for each of [`crate::Reason::ALL`], then zeros |
//!
//! The queries follow in the order of their times. Each is three numbers (LEB128: seven bits in each octet,
//! the lowest first) and the message: the ns since the query before, the number of the client (from 0), and
//! the octets of the message.

mod read;
mod write;

use crate::left_out::{LeftOut, Reason};

pub use read::{Entry, ReadError, Reader};
pub use write::Writer;

/// How a complete file begins.
pub const MAGIC: [u8; 8] = *b"sxtqry\0\x01";
/// The most clients of a file: a bound for memory.
pub const CLIENTS_MAX: usize = 1 << 24;
/// The length of the header.
pub const HEADER_OCTETS: usize = 128;
/// A number has at most so many octets.
const NUMBER_OCTETS_MAX: usize = 10;

/// What stands in the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// How many queries the file has.
    pub queries: u64,
    /// How many clients asked them.
    pub clients: u64,
    /// When the first was asked, in ns since 1970.
    pub first_ns: u64,
    /// How long after it the last was asked, in ns.
    pub length_ns: u64,
    /// Octets after the header.
    pub octets: u64,
    /// What of the capture is not in the file.
    pub left_out: LeftOut,
}

/// Where the counts of what was left out begin.
const LEFT_OUT_AT: usize = 48;

impl Header {
    fn to_octets(self) -> [u8; HEADER_OCTETS] {
        let mut octets = [0; HEADER_OCTETS];
        octets[..8].copy_from_slice(&MAGIC);
        let numbers = [self.queries, self.clients, self.first_ns, self.length_ns, self.octets];
        let numbers = numbers.into_iter().chain(self.left_out.0);
        for (place, number) in octets[8..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        octets
    }

    fn from_octets(octets: &[u8; HEADER_OCTETS]) -> Self {
        let number = |at: usize| octets[at..].first_chunk().map_or(0, |octets| u64::from_le_bytes(*octets));
        let mut left_out = [0; Reason::ALL.len()];
        for (index, count) in left_out.iter_mut().enumerate() {
            *count = number(LEFT_OUT_AT + 8 * index);
        }
        Self {
            queries: number(8),
            clients: number(16),
            first_ns: number(24),
            length_ns: number(32),
            octets: number(40),
            left_out: LeftOut(left_out),
        }
    }
}

/// Whether a file that begins so is one of these, complete or not, of this version or another.
pub fn is_compact(first: &[u8]) -> bool {
    first.starts_with(&MAGIC[..6]) || (first.len() >= 8 && first[..8] == [0; 8])
}
