//! The header fields of responses (QPACK, RFC 9204), as far as they need no table of the connection: the
//! Tester offers none.

use crate::transport::stream::https::fields::{Field, Head, Unreadable};
use crate::transport::stream::https::literals::Rest;

/// Entries of the static table (RFC 9204 Appendix A).
const STATIC_ENTRIES: usize = 99;
/// Those of `:status`.
const STATUSES: [(usize, u16); 14] = [
    (24, 103),
    (25, 200),
    (26, 304),
    (27, 404),
    (28, 503),
    (63, 100),
    (64, 204),
    (65, 206),
    (66, 302),
    (67, 400),
    (68, 403),
    (69, 421),
    (70, 425),
    (71, 500),
];
/// Those of `content-type`; the first one is that of DNS messages.
const CONTENT_TYPES: std::ops::RangeInclusive<usize> = 44..=54;

/// Reads the header fields of a response. A string in the Huffman code is decoded into `text`.
///
/// # Errors
/// They break RFC 9204, or need a table that is not there.
pub(super) fn read(block: &[u8], text: &mut Vec<u8>) -> Result<Head, Unreadable> {
    let (mut rest, mut head) = (Rest(block), Head::default());
    // The required insert count, and the base, which means nothing without one (RFC 9204 4.5.1).
    if rest.integer(8)? != 0 {
        return Err(Unreadable);
    }
    rest.integer(7)?;
    while let Some(&first) = rest.0.first() {
        let named = match first {
            0xc0.. => {
                head.note(entry(rest.integer(6)?)?);
                continue;
            }
            // The name is in the static table.
            0x40..0x80 if first & 0x10 != 0 => entry(rest.integer(4)?)?,
            0x20..0x40 => Field::named(rest.string(3, text)?),
            _ => return Err(Unreadable),
        };
        match named {
            // Nobody asks for the value.
            Field::Other => drop(rest.raw_string(7)?),
            named => head.note(named.with(rest.string(7, text)?)),
        }
    }
    Ok(head)
}

/// The entry of the static table at this index, from 0.
fn entry(index: usize) -> Result<Field, Unreadable> {
    let status = STATUSES.iter().find(|(place, _)| *place == index);
    match status {
        _ if index >= STATIC_ENTRIES => Err(Unreadable),
        Some(&(_, status)) => Ok(Field::Status(status)),
        None if CONTENT_TYPES.contains(&index) => {
            Ok(Field::ContentType { is_dns: index == *CONTENT_TYPES.start() })
        }
        None => Ok(Field::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(block: &[u8]) -> Result<(u16, bool), Unreadable> {
        read(block, &mut Vec::new()).map(|head| (head.status, head.is_dns))
    }

    #[test]
    fn fields_are_read_in_all_forms() {
        // Indexed: 200, application/dns-message, and a third one.
        assert_eq!(head(&[0, 0, 0xd9, 0xec, 0xc1]), Ok((200, true)));
        assert_eq!(head(&[0, 0, 0xff, 0, 0xed]), Ok((100, false)));
        // With the name of an entry: `:status` (25) 429, `content-type` (44) with a parameter, `age` (2) 7.
        let mut named = vec![0, 0, 0x5f, 10, 3];
        named.extend(b"429\x5f\x1d\x1bapplication/dns-message;q=x\x52\x017");
        assert_eq!(head(&named), Ok((429, true)));
        // With names of their own: `:status` 404, `content-type`, in the Huffman code and not.
        let mut own = vec![0, 0, 0x27, 0];
        own.extend(b":status\x03404\x27\x05content-type\x09text/html\x23xyz\x01v");
        assert_eq!(head(&own), Ok((404, false)));
        // `no-cache` in the Huffman code (RFC 7541 C.4.2), as a name.
        assert_eq!(head(&[0, 0, 0x2e, 0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf, 1, b'x', 0xd9]), Ok((200, false)));
        assert_eq!(head(&[0, 0]), Ok((0, false)));
    }

    #[test]
    fn what_needs_a_table_or_breaks_the_format_is_refused() {
        for block in [
            &[][..],
            &[0],
            &[1, 0, 0xd9],                 // an entry of the table is required
            &[0, 0, 0x80],                 // an index of it
            &[0, 0, 0x40, 1, b'x'],        // a name of it
            &[0, 0, 0x10],                 // an index behind the base
            &[0, 0, 0x00, 1, b'x'],        // a name behind it
            &[0, 0, 0xff, 36],             // an index beyond the static table
            &[0, 0, 0x5f, 10, 9, b'x'],    // a string that is cut off
            &[0, 0, 0x5f, 10, 0x81, 0xff], // no Huffman code
        ] {
            assert_eq!(head(block), Err(Unreadable), "{block:x?}");
        }
    }

    proptest! {
        #[test]
        fn no_octets_make_it_panic(block in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = head(&block);
            let _ = head(&[&[0, 0], &block[..]].concat());
        }
    }
}
