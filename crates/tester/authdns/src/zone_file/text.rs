//! One line of a master file (RFC 1035 5.1), appended to a buffer without allocating.

use dns64::wire::{Name, Record, rtype};

/// A line under construction.
pub struct Line<'t>(&'t mut Vec<u8>);

impl<'t> Line<'t> {
    /// Begins at the end of the text.
    pub fn new(text: &'t mut Vec<u8>) -> Self {
        Self(text)
    }

    /// Octets as they are.
    pub fn word(&mut self, octets: &[u8]) {
        self.0.extend_from_slice(octets);
    }

    pub fn end(&mut self) {
        self.0.push(b'\n');
    }

    /// A whole line: the owner as it is written, the TTL where it is not the file's, type and RDATA.
    pub fn record(&mut self, owner: &[u8], record: &Record<'_>, default_ttl_s: u32) {
        self.word(owner);
        self.0.push(b' ');
        if record.ttl != default_ttl_s {
            self.number(record.ttl);
            self.0.push(b' ');
        }
        let from = self.0.len();
        if self.known(record).is_none() {
            self.0.truncate(from);
            self.unknown(record);
        }
        self.end();
    }

    /// A type with a form of its own; `None` for others, and where the octets are not what the type wants.
    fn known(&mut self, record: &Record<'_>) -> Option<()> {
        match record.rtype {
            rtype::A => {
                self.word(b"A ");
                self.ipv4(*record.rdata.first_chunk()?);
            }
            rtype::AAAA => {
                self.word(b"AAAA ");
                self.ipv6(*record.rdata.first_chunk()?);
            }
            rtype::NS => {
                self.word(b"NS ");
                self.name(&record.name_in_rdata(0).ok()?.0);
            }
            rtype::SOA => self.soa(record)?,
            _ => return None,
        }
        Some(())
    }

    /// Any type, by RFC 3597 5.
    fn unknown(&mut self, record: &Record<'_>) {
        self.word(b"TYPE");
        self.number(record.rtype.into());
        self.word(br" \# ");
        self.number(record.rdata.len() as u32);
        self.0.push(b' ');
        for octet in record.rdata {
            self.hex(octet >> 4);
            self.hex(octet & 15);
        }
    }

    fn soa(&mut self, record: &Record<'_>) -> Option<()> {
        self.word(b"SOA ");
        let (server, end) = record.name_in_rdata(0).ok()?;
        let (mailbox, end) = record.name_in_rdata(end).ok()?;
        self.name(&server);
        self.0.push(b' ');
        self.name(&mailbox);
        for number in record.rdata.get(end..)?.chunks_exact(4) {
            self.0.push(b' ');
            self.number(u32::from_be_bytes(*number.first_chunk()?));
        }
        Some(())
    }

    /// A name with the root's dot; what is not a letter, digit, hyphen or underscore is escaped.
    pub fn name(&mut self, name: &Name) {
        if *name == Name::ROOT {
            self.0.push(b'.');
        }
        for label in name.labels() {
            for &octet in label {
                match octet {
                    b'-' | b'_' | b'*' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => self.0.push(octet),
                    _ => {
                        let digits = [octet / 100, octet / 10 % 10, octet % 10].map(|digit| b'0' + digit);
                        self.0.push(b'\\');
                        self.word(&digits);
                    }
                }
            }
            self.0.push(b'.');
        }
    }

    /// A number in decimal.
    pub fn number(&mut self, number: u32) {
        let (mut digits, mut at, mut rest) = ([0; 10], 10, number);
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return self.word(&digits[at..]);
            }
        }
    }

    fn ipv4(&mut self, octets: [u8; 4]) {
        for (position, octet) in octets.into_iter().enumerate() {
            if position > 0 {
                self.0.push(b'.');
            }
            if octet >= 100 {
                self.0.push(b'0' + octet / 100);
            }
            if octet >= 10 {
                self.0.push(b'0' + octet / 10 % 10);
            }
            self.0.push(b'0' + octet % 10);
        }
    }

    /// All eight groups, without the leading zeros of each (RFC 4291 2.2).
    fn ipv6(&mut self, octets: [u8; 16]) {
        for (position, group) in octets.chunks_exact(2).enumerate() {
            if position > 0 {
                self.0.push(b':');
            }
            let digits = [group[0] >> 4, group[0] & 15, group[1] >> 4, group[1] & 15];
            let first = digits[..3].iter().position(|&digit| digit > 0).unwrap_or(3);
            digits[first..].iter().for_each(|&digit| self.hex(digit));
        }
    }

    fn hex(&mut self, digit: u8) {
        self.0.push(b"0123456789abcdef"[usize::from(digit & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn text(write: impl FnOnce(&mut Line<'_>)) -> String {
        let mut text = Vec::new();
        write(&mut Line::new(&mut text));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn names_are_escaped_where_a_master_file_wants_it() {
        let (name, _) = Name::parse(b"\x05a.b;\x02\x01c\0", 0).unwrap();
        assert_eq!(text(|line| line.name(&name)), r"a\046b\059\002.c.");
        assert_eq!(text(|line| line.name(&Name::ROOT)), ".");
    }

    proptest! {
        #[test]
        fn numbers_and_addresses_read_back(number: u32, ipv4: u32, ipv6: u128, small: u8) {
            prop_assert_eq!(text(|line| line.number(number)), number.to_string());
            let ipv4 = Ipv4Addr::from_bits(ipv4);
            prop_assert_eq!(text(|line| line.ipv4(ipv4.octets())), ipv4.to_string());
            let ipv6 = Ipv6Addr::from_bits(ipv6 >> (small & 127));
            prop_assert_eq!(text(|line| line.ipv6(ipv6.octets())).parse::<Ipv6Addr>(), Ok(ipv6));
        }
    }
}
