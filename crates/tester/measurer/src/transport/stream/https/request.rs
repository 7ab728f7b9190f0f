//! Requests of DNS over HTTPS (RFC 8484 4.1), as frames of HTTP/2.
//!
//! But for its message a request is always the same. The first one of a connection puts its fields into the
//! table of the server's decoder (HPACK, RFC 7541), the later ones say their indices.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::frames::{self, Kind, flag};
use super::literals::write_integer;

/// How a query is put into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// In the path.
    Get,
    /// In the body.
    Post,
}

/// What is asked for by HTTPS.
#[derive(Clone, Debug)]
pub struct Https {
    pub(in crate::transport::stream) method: Method,
    pub(in crate::transport::stream) authority: String,
    pub(in crate::transport::stream) path: String,
    forms: Arc<[Form; 3]>,
}

impl fmt::Display for Https {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = if self.method == Method::Get { "GET" } else { "POST" };
        write!(f, "{method} https://{}{}", self.authority, self.path)
    }
}

/// No path of a URI.
#[derive(Debug)]
pub struct WrongPath(String);

impl fmt::Display for WrongPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, max) = (&self.0, PATH_OCTETS_MAX);
        write!(
            f,
            "'{path}' is no path of DNS over HTTPS: it begins with '/', has no '?', and at most {max} octets"
        )
    }
}

impl std::error::Error for WrongPath {}

/// How the fields of a request are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Writing {
    /// For the first time: the server's decoder is to keep them.
    #[default]
    First,
    /// By their places in its table.
    Again,
    /// As they are, since its table is small; before the first of them this has to be said.
    Bare {
        /// It was said.
        said: bool,
    },
}

/// The fields before the one that each query has for itself, and those after it.
#[derive(Debug, Default)]
struct Form {
    before: Vec<u8>,
    after: Vec<u8>,
}

/// Longer paths are of no use, and would not fit into the table.
const PATH_OCTETS_MAX: usize = 1024;
/// The port that is not named (RFC 9110 4.2.2).
const PORT: u16 = 443;
const MEDIA_TYPE: &str = "application/dns-message";
/// A table without room (RFC 7541 6.3).
const NO_TABLE: u8 = 0x20;

/// Indices of the static table (RFC 7541 Appendix A).
mod index {
    pub(super) const AUTHORITY: u8 = 1;
    pub(super) const METHOD_GET: u8 = 2;
    pub(super) const METHOD_POST: u8 = 3;
    pub(super) const PATH: u8 = 4;
    pub(super) const SCHEME_HTTPS: u8 = 7;
    pub(super) const ACCEPT: u8 = 19;
    pub(super) const CONTENT_LENGTH: u8 = 28;
    pub(super) const CONTENT_TYPE: u8 = 31;
    /// The newest entry of the dynamic table.
    pub(super) const NEWEST: u8 = 62;
}

impl Https {
    /// Asks a server of this name, or address, and port for this path; port 0: one that is not known yet, and
    /// is not named.
    ///
    /// # Errors
    /// There is no such path.
    pub fn new(method: Method, path: &str, name: &str, port: u16) -> Result<Self, WrongPath> {
        let is_usable = path.starts_with('/')
            && path.len() <= PATH_OCTETS_MAX
            && path.bytes().all(|octet| octet.is_ascii_graphic() && !b"?#{}".contains(&octet));
        if !is_usable {
            return Err(WrongPath(path.to_owned()));
        }
        let host = if name.contains(':') { format!("[{name}]") } else { name.to_owned() };
        let authority = if [PORT, 0].contains(&port) { host } else { format!("{host}:{port}") };
        let form = |writing| Form::new(method, &authority, path, writing);
        let forms = [Writing::First, Writing::Again, Writing::Bare { said: true }].map(form);
        Ok(Self { method, authority, path: path.to_owned(), forms: Arc::new(forms) })
    }

    /// Appends the frame that opens this stream for a query.
    pub(super) fn write(&self, (stream, query): (u32, &[u8]), writing: &mut Writing, output: &mut Vec<u8>) {
        let end = if self.method == Method::Get { flag::END_STREAM } else { 0 };
        let header = frames::begin(Kind::HEADERS, flag::END_HEADERS | end, stream, output);
        if *writing == (Writing::Bare { said: false }) {
            output.push(NO_TABLE);
        }
        let form = &self.forms[match writing {
            Writing::First => 0,
            Writing::Again => 1,
            Writing::Bare { .. } => 2,
        }];
        output.extend_from_slice(&form.before);
        match self.method {
            Method::Get => {
                output.push(index::PATH);
                self.write_path(query, output);
            }
            Method::Post => {
                write_integer(index::CONTENT_LENGTH.into(), 4, 0, output);
                write_length(query.len(), output);
            }
        }
        output.extend_from_slice(&form.after);
        frames::finish(header, output);
        *writing = match writing {
            Writing::First | Writing::Again => Writing::Again,
            Writing::Bare { .. } => Writing::Bare { said: true },
        };
    }

    /// The ID that a query with this one leaves with. GET says the ID 0, so that answers of caches serve
    /// everybody (RFC 8484 4.1).
    pub(in crate::transport::stream) fn sent_id(&self, id: [u8; 2]) -> [u8; 2] {
        match self.method {
            Method::Get => [0; 2],
            Method::Post => id,
        }
    }

    /// Appends the path of a query with the ID 0 (RFC 8484 4.1.1), as a string that is not in the Huffman
    /// code.
    pub(in crate::transport::stream) fn write_path(&self, query: &[u8], output: &mut Vec<u8>) {
        const VARIABLE: &str = "?dns=";
        let query = query.get(2..).unwrap_or_default();
        // The ID of two octets, and what follows: their bits do not meet in one character if three go first.
        let head = [0, 0, query.first().copied().unwrap_or_default()];
        let tail = query.get(1..).unwrap_or_default();
        let length =
            self.path.len() + VARIABLE.len() + base64::encoded_len(3 + tail.len(), false).unwrap_or(0);
        write_integer(length, 7, 0, output);
        output.extend_from_slice(self.path.as_bytes());
        output.extend_from_slice(VARIABLE.as_bytes());
        for part in [&head[..], tail] {
            let at = output.len();
            output.resize(at + base64::encoded_len(part.len(), false).unwrap_or(0), 0);
            let written = URL_SAFE_NO_PAD.encode_slice(part, &mut output[at..]);
            debug_assert_eq!(written.ok(), Some(output.len() - at));
        }
    }
}

impl Form {
    fn new(method: Method, authority: &str, path: &str, writing: Writing) -> Self {
        let mut form = Self::default();
        let kept: &[(u8, &str)] = match method {
            Method::Get => &[(index::AUTHORITY, authority), (index::ACCEPT, MEDIA_TYPE)],
            Method::Post => &[
                (index::AUTHORITY, authority),
                (index::PATH, path),
                (index::ACCEPT, MEDIA_TYPE),
                (index::CONTENT_TYPE, MEDIA_TYPE),
            ],
        };
        let asked = if method == Method::Get { index::METHOD_GET } else { index::METHOD_POST };
        form.before.extend([0x80 | asked, 0x80 | index::SCHEME_HTTPS]);
        for (place, &(name, value)) in (0u8..).zip(kept) {
            // Pseudo-header fields are before all others (RFC 9113 8.3): the path of GET stands between them.
            let is_after = method == Method::Get && name == index::ACCEPT;
            let output = if is_after { &mut form.after } else { &mut form.before };
            match writing {
                Writing::Again => output.push(0x80 | (index::NEWEST + kept.len() as u8 - 1 - place)),
                Writing::First => write_integer(name.into(), 6, 0x40, output),
                Writing::Bare { .. } => write_integer(name.into(), 4, 0, output),
            }
            if writing != Writing::Again {
                write_integer(value.len(), 7, 0, output);
                output.extend_from_slice(value.as_bytes());
            }
        }
        form
    }
}

/// The length of a query in digits, as a string.
pub(in crate::transport::stream) fn write_length(length: usize, output: &mut Vec<u8>) {
    let digits = [10_000, 1000, 100, 10, 1].map(|unit| b'0' + (length / unit % 10) as u8);
    let leading = digits.iter().take_while(|&&digit| digit == b'0').count().min(digits.len() - 1);
    output.push((digits.len() - leading) as u8);
    output.extend_from_slice(&digits[leading..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01";

    /// The octets of three requests that follow one another, without their frame headers.
    fn written(https: &Https, mut writing: Writing) -> [Vec<u8>; 3] {
        [1u32, 3, 5].map(|stream| {
            let mut output = Vec::new();
            https.write((stream, QUERY), &mut writing, &mut output);
            assert_eq!(output[..3], [0, 0, (output.len() - 9) as u8]);
            assert_eq!((output[3], output[8]), (1, stream as u8));
            output.split_off(9)
        })
    }

    #[test]
    fn a_request_is_written_once_and_then_by_its_places() {
        let https = Https::new(Method::Post, "/dns-query", "dns.test", 8443).unwrap();
        let [first, second, third] = written(&https, Writing::First);
        let mut expected = b"\x83\x87\x41\x0ddns.test:8443\x44\x0a/dns-query\x53\x17".to_vec();
        expected.extend(b"application/dns-message\x5f\x17application/dns-message\x0f\x0d\x0233");
        assert_eq!(first, expected);
        assert_eq!(second, b"\x83\x87\xc1\xc0\xbf\xbe\x0f\x0d\x0233");
        assert_eq!(third, second);
        let [said, bare, again] = written(&https, Writing::Bare { said: false });
        assert_eq!((said[0], &said[1..], &again), (0x20, &bare[..], &bare));
        assert!(bare.starts_with(b"\x83\x87\x01\x0ddns.test:8443\x04\x0a/dns-query\x0f\x04\x17app"));
    }

    #[test]
    fn the_example_of_the_rfc_has_its_path() {
        // RFC 8484 4.1.1, whose query has the ID 0.
        let https = Https::new(Method::Get, "/dns-query", "2001:db8::1", 443).unwrap();
        let [first, second, _] = written(&https, Writing::First);
        let path = b"/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";
        let path = [&[0x04, path.len() as u8][..], path].concat();
        let before = b"\x82\x87\x41\x0d[2001:db8::1]";
        assert_eq!(first, [&before[..], &path, b"\x53\x17application/dns-message"].concat());
        assert_eq!(second, [b"\x82\x87\xbf", &path[..], b"\xbe"].concat());
    }

    #[test]
    fn integers_and_lengths_are_written_as_the_rfc_does() {
        let integer = |number, prefix| {
            let mut output = Vec::new();
            write_integer(number, prefix, 0, &mut output);
            output
        };
        // RFC 7541 C.1.
        assert_eq!((integer(10, 5), integer(1337, 5)), (vec![10], vec![31, 154, 10]));
        for (length, digits) in [(0, &b"0"[..]), (7, b"7"), (40, b"40"), (4096, b"4096")] {
            let mut output = Vec::new();
            write_length(length, &mut output);
            assert_eq!(output, [&[digits.len() as u8], digits].concat());
        }
    }

    #[test]
    fn paths_that_are_none_are_refused() {
        for path in
            ["", "dns-query", "/a b", "/dns-query?x=1", "/dns-query{?dns}", "/\u{e4}", &"/x".repeat(600)]
        {
            assert!(Https::new(Method::Get, path, "dns.test", 443).is_err(), "{path}");
        }
    }
}
