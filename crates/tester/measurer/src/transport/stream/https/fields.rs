//! The header fields of responses (HPACK, RFC 7541): of each is kept what the Tester asks of it.

use std::collections::VecDeque;

use super::literals::Rest;

/// A header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transport::stream) enum Field {
    /// `:status`; 0 if it is no number of three digits.
    Status(u16),
    /// `content-type`, and whether it is that of DNS messages (RFC 8484 6).
    ContentType { is_dns: bool },
    /// Any other one.
    Other,
}

/// What is asked of the header fields of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::transport::stream) struct Head {
    /// 0: there is none.
    pub status: u16,
    /// Its type is that of DNS messages.
    pub is_dns: bool,
}

impl Head {
    /// Notes a field.
    pub fn note(&mut self, field: Field) {
        match field {
            Field::Status(status) => self.status = status,
            Field::ContentType { is_dns } => self.is_dns = is_dns,
            Field::Other => {}
        }
    }
}

impl Field {
    /// The field of this name, without a value.
    pub fn named(name: &[u8]) -> Self {
        match name {
            b":status" => Self::Status(0),
            b"content-type" => Self::ContentType { is_dns: false },
            _ => Self::Other,
        }
    }

    /// The same field with this value.
    pub fn with(self, value: &[u8]) -> Self {
        match self {
            Self::Status(_) => Self::Status(status(value)),
            Self::ContentType { .. } => Self::ContentType { is_dns: is_dns(value) },
            Self::Other => Self::Other,
        }
    }
}

/// What a block breaks: the connection cannot go on, as its table is not known any more.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::transport::stream) struct Unreadable;

/// The table that the Tester offers, as large as everybody's before any SETTINGS.
const TABLE_OCTETS: usize = 4096;
/// What an entry counts beside its octets (RFC 7541 4.1).
const ENTRY_OCTETS: usize = 32;
/// How long the names of the static table are (RFC 7541 Appendix A), from index 1.
const STATIC_NAMES: [usize; 61] = [
    10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13,
    12, 6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3,
    16,
];
/// The values of `:status` in it, from index 8.
const STATIC_STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
const STATIC_STATUS: usize = 8;
const STATIC_CONTENT_TYPE: usize = 31;
const MEDIA_TYPE: &[u8] = b"application/dns-message";

/// The receiving side of a connection's header fields.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The newest first.
    table: VecDeque<Entry>,
    octets: usize,
    octets_max: usize,
    /// A string that was decoded.
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    field: Field,
    name_octets: usize,
    octets: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { table: VecDeque::new(), octets: 0, octets_max: TABLE_OCTETS, text: Vec::new() }
    }
}

impl Decoder {
    /// Reads a whole block for what is asked of a response.
    ///
    /// # Errors
    /// It breaks RFC 7541.
    pub fn head(&mut self, block: &[u8]) -> Result<Head, Unreadable> {
        let mut head = Head::default();
        self.read(block, &mut |field| head.note(field)).map(|()| head)
    }

    /// Reads a whole block.
    ///
    /// # Errors
    /// It breaks RFC 7541.
    fn read(&mut self, block: &[u8], tell: &mut impl FnMut(Field)) -> Result<(), Unreadable> {
        let mut rest = Rest(block);
        while let Some(&first) = rest.0.first() {
            if first & 0x80 != 0 {
                let index = rest.integer(7)?;
                tell(self.entry(index)?.field);
            } else if first & 0x40 != 0 {
                let entry = self.literal(&mut rest, 6, true)?;
                tell(entry.field);
                self.insert(entry);
            } else if first & 0x20 != 0 {
                let octets_max = rest.integer(5)?;
                if octets_max > TABLE_OCTETS {
                    return Err(Unreadable);
                }
                self.octets_max = octets_max;
                self.evict();
            } else {
                tell(self.literal(&mut rest, 4, false)?.field);
            }
        }
        Ok(())
    }

    /// The entry of an index, from 1: of the static table, then of the dynamic one.
    fn entry(&self, index: usize) -> Result<Entry, Unreadable> {
        let place = index.checked_sub(1).ok_or(Unreadable)?;
        let Some(&name_octets) = STATIC_NAMES.get(place) else {
            return self.table.get(place - STATIC_NAMES.len()).copied().ok_or(Unreadable);
        };
        let status = index.checked_sub(STATIC_STATUS).and_then(|status| STATIC_STATUSES.get(status));
        let field = match index {
            STATIC_CONTENT_TYPE => Field::ContentType { is_dns: false },
            _ => status.map_or(Field::Other, |&status| Field::Status(status)),
        };
        Ok(Entry { field, name_octets, octets: 0 })
    }

    /// Reads a field whose value, at least, is in the block.
    fn literal(&mut self, rest: &mut Rest<'_>, prefix: u32, kept: bool) -> Result<Entry, Unreadable> {
        let named = match rest.integer(prefix)? {
            0 => {
                let name = rest.string(7, &mut self.text)?;
                Entry { field: Field::named(name), name_octets: name.len(), octets: 0 }
            }
            index => self.entry(index)?,
        };
        if named.field == Field::Other && !kept {
            // Nobody asks for the value.
            rest.raw_string(7)?;
            return Ok(named);
        }
        let value = rest.string(7, &mut self.text)?;
        Ok(Entry {
            field: named.field.with(value),
            octets: named.name_octets + value.len() + ENTRY_OCTETS,
            ..named
        })
    }

    fn insert(&mut self, entry: Entry) {
        self.octets += entry.octets;
        self.table.push_front(entry);
        self.evict();
    }

    fn evict(&mut self) {
        while self.octets > self.octets_max {
            self.octets -= self.table.pop_back().map_or(self.octets, |entry| entry.octets);
        }
    }
}

fn status(value: &[u8]) -> u16 {
    match value {
        [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
            value.iter().fold(0, |number, digit| 10 * number + u16::from(digit - b'0'))
        }
        _ => 0,
    }
}

/// Whether this is the media type of DNS messages, with parameters or without.
fn is_dns(value: &[u8]) -> bool {
    let media_type = value.split(|&octet| octet == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(MEDIA_TYPE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Field>, Unreadable> {
        let mut fields = Vec::new();
        decoder.read(block, &mut |field| fields.push(field))?;
        Ok(fields)
    }

    /// RFC 7541 C.6: three responses with the Huffman code, by a table of 256 octets.
    #[test]
    fn responses_of_the_rfc_are_read() {
        let mut decoder = Decoder::default();
        assert_eq!(read(&mut decoder, &[0x3f, 0xe1, 0x01]), Ok(vec![]));
        let hex = |text: &str| -> Vec<u8> {
            let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
            let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            digits.chunks(2).map(octet).collect()
        };
        let first = "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e \
                     919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
        let others = [Field::Other; 3];
        let fields = |status| [&[Field::Status(status)][..], &others].concat();
        assert_eq!(read(&mut decoder, &hex(first)), Ok(fields(302)));
        assert_eq!((decoder.table.len(), decoder.octets), (4, 222));
        assert_eq!(read(&mut decoder, &hex("4883 640e ffc1 c0bf")), Ok(fields(307)));
        assert_eq!((decoder.table.len(), decoder.octets), (4, 222));
        let third = "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d \
                     d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 \
                     b106 3d50 07";
        let six = [&fields(200)[..], &[Field::Other; 2]].concat();
        assert_eq!(read(&mut decoder, &hex(third)), Ok(six));
        assert_eq!((decoder.table.len(), decoder.octets), (3, 215));
    }

    #[test]
    fn the_type_of_content_is_compared_as_a_media_type() {
        for (value, is_dns) in [
            ("application/dns-message", true),
            ("Application/DNS-Message; charset=x", true),
            ("application/dns-messages", false),
            ("text/html", false),
            ("", false),
        ] {
            let mut block = vec![0x5f, value.len() as u8];
            block.extend(value.bytes());
            let (mut decoder, field) = (Decoder::default(), Field::ContentType { is_dns });
            assert_eq!(read(&mut decoder, &block), Ok(vec![field]), "{value}");
            // It is in the table now.
            assert_eq!(read(&mut decoder, &[0xbe, 0x8c]), Ok(vec![field, Field::Status(400)]));
        }
    }

    #[test]
    fn what_breaks_the_format_is_refused() {
        for block in [
            &[0x80][..],                        // no index
            &[0xbe],                            // an index beyond the table
            &[0xff, 0xff, 0xff, 0xff, 0xff, 1], // an integer too large
            &[0x3f, 0xe2, 0x1f],                // a table of 4097 octets
            &[0x5f, 9, b'x'],                   // a string that is cut off
            &[0x00],                            // no name
            &[0x48, 0x81, 0xff],                // no Huffman code
        ] {
            assert_eq!(read(&mut Decoder::default(), block), Err(Unreadable), "{block:x?}");
        }
        assert_eq!(read(&mut Decoder::default(), &[0x48, 2, b'2', b'0']), Ok(vec![Field::Status(0)]));
    }

    proptest! {
        #[test]
        fn no_octets_make_the_table_too_large(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..8)) {
            let mut decoder = Decoder::default();
            for block in blocks {
                let _ = read(&mut decoder, &block);
                prop_assert!(decoder.octets <= decoder.octets_max);
                prop_assert_eq!(decoder.octets, decoder.table.iter().map(|entry| entry.octets).sum::<usize>());
            }
        }
    }
}
