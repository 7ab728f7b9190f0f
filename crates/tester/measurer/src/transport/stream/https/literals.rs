//! Integers and strings as both compressions of header fields write them (RFC 7541 5, RFC 9204 4.1).

use super::fields::Unreadable;
use super::huffman;

/// What is left of a block.
pub(in crate::transport::stream) struct Rest<'a>(pub &'a [u8]);

impl<'a> Rest<'a> {
    /// An integer that begins in the low bits of the next octet (RFC 7541 5.1).
    pub fn integer(&mut self, prefix: u32) -> Result<usize, Unreadable> {
        /// Larger ones count nothing that a connection has.
        const SHIFT_MAX: u32 = 21;
        let max = (1usize << prefix) - 1;
        let mut number = usize::from(self.octet()?) & max;
        if number < max {
            return Ok(number);
        }
        for shift in (0..=SHIFT_MAX).step_by(7) {
            let octet = self.octet()?;
            number += usize::from(octet & 0x7f) << shift;
            if octet & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Unreadable)
    }

    fn octet(&mut self) -> Result<u8, Unreadable> {
        let (&octet, rest) = self.0.split_first().ok_or(Unreadable)?;
        self.0 = rest;
        Ok(octet)
    }

    /// A string as it stands there, whose length begins in so many bits of the next octet, and whether it is
    /// in the Huffman code.
    pub fn raw_string(&mut self, prefix: u32) -> Result<(&'a [u8], bool), Unreadable> {
        let coded = self.0.first().is_some_and(|octet| octet >> prefix & 1 != 0);
        let length = self.integer(prefix)?;
        let (octets, rest) = self.0.split_at_checked(length).ok_or(Unreadable)?;
        self.0 = rest;
        Ok((octets, coded))
    }

    /// A string; one in the Huffman code is decoded into `text`.
    pub fn string<'b>(&mut self, prefix: u32, text: &'b mut Vec<u8>) -> Result<&'b [u8], Unreadable>
    where
        'a: 'b,
    {
        match self.raw_string(prefix)? {
            (octets, false) => Ok(octets),
            (octets, true) => huffman::decode(octets, text).map(|()| &text[..]).ok_or(Unreadable),
        }
    }
}

/// An integer whose first bits are in an octet with others (RFC 7541 5.1).
pub(in crate::transport::stream) fn write_integer(
    number: usize,
    prefix: u32,
    others: u8,
    output: &mut Vec<u8>,
) {
    let max = (1 << prefix) - 1;
    if number < max {
        return output.push(others | number as u8);
    }
    output.push(others | max as u8);
    let mut rest = number - max;
    while rest >= 0x80 {
        output.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    output.push(rest as u8);
}
