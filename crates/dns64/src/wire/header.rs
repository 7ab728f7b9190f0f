//! The header (RFC 1035 4.1.1).

use super::{HEADER_LENGTH, Malformed};

/// The second and third 16-bit words and the counts of a header (RFC 1035 4.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The ID by which a reply is matched with its query.
    pub id: u16,
    /// QR, opcode, AA, TC, RD, RA, Z, AD, CD and RCODE as they stand on the wire.
    pub flags: u16,
    /// QDCOUNT, ANCOUNT, NSCOUNT and ARCOUNT.
    pub counts: [u16; 4],
}

impl Header {
    #![allow(missing_docs)]
    pub const QR: u16 = 0x8000;
    pub const AA: u16 = 0x0400;
    pub const TC: u16 = 0x0200;
    pub const RD: u16 = 0x0100;
    pub const RA: u16 = 0x0080;
    pub const AD: u16 = 0x0020;
    pub const CD: u16 = 0x0010;
    pub const OPCODE: u16 = 0x7800;
    pub const RCODE: u16 = 0x000f;

    /// Reads the first twelve octets.
    ///
    /// # Errors
    /// Fewer octets than that.
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let head: &[u8; HEADER_LENGTH] = octets.first_chunk().ok_or(Malformed("shorter than a header"))?;
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        Ok(Self { id: word(0), flags: word(2), counts: [word(4), word(6), word(8), word(10)] })
    }

    /// Whether any of the bits of `mask` is set.
    pub fn has(&self, mask: u16) -> bool {
        self.flags & mask != 0
    }

    /// The opcode, 0 to 15.
    pub fn opcode(&self) -> u8 {
        ((self.flags & Self::OPCODE) >> 11) as u8
    }

    /// The response code in the header, 0 to 15.
    pub fn rcode(&self) -> u8 {
        (self.flags & Self::RCODE) as u8
    }
}
