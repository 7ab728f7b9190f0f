//! The Huffman code of header fields (RFC 7541 5.2, Appendix B).
//!
//! The code is canonical: codes of one length follow one another in the order of their symbols, and those of
//! the next length begin where they end. The symbols of each length say it all.

/// Lengths of codes in bits, and their symbols. EOS follows the last one.
const SYMBOLS: [(u32, &[u8]); 21] = [
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b"!\"()?"),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\x00$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
    (19, b"\\\xc3\xd0"),
    (20, b"\x80\x82\x83\xa2\xb8\xc2\xe0\xe2"),
    (21, b"\x99\xa1\xa7\xac\xb0\xb1\xb3\xd1\xd8\xd9\xe3\xe5\xe6"),
    (22, b"\x81\x84\x85\x86\x88\x92\x9a\x9c\xa0\xa3\xa4\xa9\xaa\xad\xb2\xb5\xb9\xba\xbb\xbd\xbe\xc4\xc6\xe4\xe8\xe9"),
    (
        23,
        b"\x01\x87\x89\x8a\x8b\x8c\x8d\x8f\x93\x95\x96\x97\x98\x9b\x9d\x9e\xa5\xa6\xa8\xae\xaf\xb4\xb6\xb7\xbc\xbf\
          \xc5\xe7\xef",
    ),
    (24, b"\x09\x8e\x90\x91\x94\x9f\xab\xce\xd7\xe1\xec\xed"),
    (25, b"\xc7\xcf\xea\xeb"),
    (26, b"\xc0\xc1\xc8\xc9\xca\xcd\xd2\xd5\xda\xdb\xee\xf0\xf2\xf3\xff"),
    (27, b"\xcb\xcc\xd3\xd4\xd6\xdd\xde\xdf\xf1\xf4\xf5\xf6\xf7\xf8\xfa\xfb\xfc\xfd\xfe"),
    (
        28,
        b"\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\
          \x7f\xdc\xf9",
    ),
    (30, b"\x0a\x0d\x16"),
];

/// Decodes a string into `text`, in place of what was there; `None` if this is no string of the code.
pub(super) fn decode(octets: &[u8], text: &mut Vec<u8>) -> Option<()> {
    text.clear();
    // The bits of the present symbol, and the first code of that length.
    let (mut code, mut first, mut length, mut row) = (0u32, 0u32, 0u32, 0);
    for bit in octets.iter().flat_map(|octet| (0..8).rev().map(move |bit| u32::from(octet >> bit & 1))) {
        (code, first, length) = (code << 1 | bit, first << 1, length + 1);
        let &(row_length, symbols) = SYMBOLS.get(row)?;
        if length < row_length {
            continue;
        }
        if let Some(&symbol) = symbols.get((code - first) as usize) {
            text.push(symbol);
            (code, first, length, row) = (0, 0, 0, 0);
        } else {
            first += symbols.len() as u32;
            row += 1;
        }
    }
    // The last octet is filled with the beginning of EOS, which is ones.
    (length < 8 && code == (1 << length) - 1).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(octets: &[u8]) -> Option<String> {
        let mut text = b"before".to_vec();
        decode(octets, &mut text)?;
        Some(text.iter().map(|&octet| char::from(octet)).collect())
    }

    #[test]
    fn examples_of_the_rfc_are_read() {
        // RFC 7541 C.4.1, C.4.2, C.6.1.
        let authority = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decoded(&authority).unwrap(), "www.example.com");
        assert_eq!(decoded(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).unwrap(), "no-cache");
        let date = [
            0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b, 0x81, 0x66,
            0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff,
        ];
        assert_eq!(decoded(&date).unwrap(), "Mon, 21 Oct 2013 20:13:21 GMT");
        assert_eq!(decoded(&[]).unwrap(), "");
        // The longest code that has a symbol (Appendix B).
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfb]).unwrap(), "\x16");
    }

    #[test]
    fn what_is_no_string_is_refused() {
        // EOS, more than seven bits of it, a filler with a zero.
        for octets in
            [&[0xff, 0xff, 0xff, 0xff][..], &[0x1f, 0xff, 0xff], &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbe]]
        {
            assert_eq!(decoded(octets), None, "{octets:x?}");
        }
    }

    #[test]
    fn the_code_is_complete() {
        let symbols: usize = SYMBOLS.iter().map(|(_, symbols)| symbols.len()).sum();
        let used: u64 = SYMBOLS.iter().map(|(length, symbols)| (symbols.len() as u64) << (30 - length)).sum();
        assert_eq!((symbols, used), (256, (1 << 30) - 1));
    }
}
