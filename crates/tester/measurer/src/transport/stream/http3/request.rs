//! Requests of DNS over HTTPS (RFC 8484 4.1), as frames of HTTP/3.
//!
//! But for its message a request is always the same. Its fields are written without a table of the connection
//! (QPACK, RFC 9204): what is not in the static one is written as it is, each time.

use super::frames::{self, Kind};
use crate::transport::stream::https::literals::write_integer;
use crate::transport::stream::https::request::{Https, Method, write_length};

/// Indices of the static table (RFC 9204 Appendix A).
mod index {
    pub(super) const AUTHORITY: u8 = 0;
    pub(super) const PATH: u8 = 1;
    pub(super) const CONTENT_LENGTH: u8 = 4;
    pub(super) const METHOD_GET: u8 = 17;
    pub(super) const METHOD_POST: u8 = 20;
    pub(super) const SCHEME_HTTPS: u8 = 23;
    pub(super) const ACCEPT_DNS: u8 = 30;
    pub(super) const CONTENT_TYPE_DNS: u8 = 44;
}

/// A field of the static table (RFC 9204 4.5.2).
const INDEXED: u8 = 0xc0;
/// A field whose name alone is there (RFC 9204 4.5.4).
const NAMED: u8 = 0x50;

/// What the requests of a connection have in common.
#[derive(Debug)]
pub(super) struct Requests {
    pub https: Https,
    /// The fields before the one that each query has for itself.
    before: Vec<u8>,
    /// The fields of a request.
    fields: Vec<u8>,
}

impl Requests {
    pub fn new(https: Https) -> Self {
        // No entry of a table is required (RFC 9204 4.5.1).
        let mut before = vec![0, 0];
        let asked = if https.method == Method::Get { index::METHOD_GET } else { index::METHOD_POST };
        before.extend([INDEXED | asked, INDEXED | index::SCHEME_HTTPS]);
        push_named(index::AUTHORITY, &https.authority, &mut before);
        if https.method == Method::Post {
            push_named(index::PATH, &https.path, &mut before);
            before.extend([INDEXED | index::ACCEPT_DNS, INDEXED | index::CONTENT_TYPE_DNS]);
        }
        Self { https, before, fields: Vec::new() }
    }

    /// Appends the frames of the request for a query.
    pub fn write(&mut self, query: &[u8], output: &mut Vec<u8>) {
        self.fields.clone_from(&self.before);
        match self.https.method {
            Method::Get => {
                // Pseudo-header fields are before all others (RFC 9114 4.3).
                self.fields.push(NAMED | index::PATH);
                self.https.write_path(query, &mut self.fields);
                self.fields.push(INDEXED | index::ACCEPT_DNS);
                frames::push(Kind::HEADERS, &self.fields, output);
            }
            Method::Post => {
                self.fields.push(NAMED | index::CONTENT_LENGTH);
                write_length(query.len(), &mut self.fields);
                frames::push(Kind::HEADERS, &self.fields, output);
                frames::push(Kind::DATA, query, output);
            }
        }
    }
}

/// Appends a field whose name is in the static table, at one of the first places.
fn push_named(name: u8, value: &str, output: &mut Vec<u8>) {
    output.push(NAMED | name);
    write_integer(value.len(), 7, 0, output);
    output.extend_from_slice(value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01";

    fn written(https: Https) -> Vec<u8> {
        let (mut requests, mut output) = (Requests::new(https), Vec::new());
        requests.write(&[7; 40], &mut output);
        output.clear();
        requests.write(QUERY, &mut output);
        output
    }

    #[test]
    fn a_post_is_two_frames() {
        let https = Https::new(Method::Post, "/dns-query", "dns.test", 8443).unwrap();
        let mut fields = b"\0\0\xd4\xd7\x50\x0ddns.test:8443\x51\x0a/dns-query".to_vec();
        fields.extend(b"\xde\xec\x54\x0233");
        let expected = [&[1, fields.len() as u8][..], &fields, &[0, 33], QUERY].concat();
        assert_eq!(written(https), expected);
    }

    #[test]
    fn the_example_of_the_rfc_has_its_path() {
        // RFC 8484 4.1.1, whose query has the ID 0.
        let https = Https::new(Method::Get, "/dns-query", "2001:db8::1", 443).unwrap();
        let path = b"/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";
        let fields =
            [&b"\0\0\xd1\xd7\x50\x0d[2001:db8::1]\x51"[..], &[path.len() as u8], path, b"\xde"].concat();
        assert_eq!(written(https), [&[1, 0x40, fields.len() as u8], &fields[..]].concat());
    }
}
