//! What is read of streams: the query in an HTTPS request, messages behind their lengths, and what the room
//! of the streams looks at in a message.
//!
//! An input is a request in three parts, divided by line feeds: `METHOD PATH?QUERY`, the content type, the
//! body.

use streams::message::{self, FRAME_OCTETS_MAX, LENGTH_OCTETS};
use streams::request::{Head, QueryLocation};

const PATH: &str = "/dns-query";
const HEADER_OCTETS: usize = 12;

/// Reads a request, and its body as the octets of a stream.
pub fn run(input: &[u8]) {
    let mut parts = input.splitn(3, |&octet| octet == b'\n');
    let (line, content_type) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let body = parts.next().unwrap_or_default();
    if let (Ok(line), Ok(content_type)) = (std::str::from_utf8(line), std::str::from_utf8(content_type)) {
        request(line, content_type, body);
    }
    whole_frames(body);
    pieces(body);
    look(body, body);
}

fn request(line: &str, content_type: &str, body: &[u8]) {
    let (method, uri) = line.split_once(' ').unwrap_or((line, ""));
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let head = Head { method, path, query, content_type };
    match head.place(PATH) {
        Ok(QueryLocation::Uri(octets)) => {
            assert!(method == "GET" && path == PATH);
            assert!(octets.len() <= query.len() * 3 / 4, "base64 makes no octets");
            look(&octets, body);
        }
        Ok(QueryLocation::Body) => assert!(method == "POST" && path == PATH && !content_type.is_empty()),
        Err(status) => assert!(status.is_client_error()),
    }
}

/// Whole messages come out of a stream as they went in.
fn whole_frames(octets: &[u8]) {
    let mut input = octets.into();
    let mut again = Default::default();
    let mut taken = 0;
    while let Ok(Some(frame)) = message::take_frame(&mut input) {
        assert!((HEADER_OCTETS..=FRAME_OCTETS_MAX - LENGTH_OCTETS).contains(&frame.len()));
        assert!(message::push_frame(&mut again, &frame));
        assert_eq!(message::only_frame(&again[taken..]).as_deref(), Ok(&frame[..]));
        taken = again.len();
    }
    assert_eq!(again[..], octets[..taken], "frame by frame");
    assert_eq!(input[..], octets[taken..], "nothing is lost");
}

/// The same messages come out however the stream is cut.
fn pieces(octets: &[u8]) {
    let mut whole = octets.into();
    let mut grown = Default::default();
    let mut at = 0;
    while at < octets.len() {
        let next = (at + 1 + usize::from(octets[at] % 16)).min(octets.len());
        extend(&mut grown, &octets[at..next]);
        at = next;
        while let Ok(Some(frame)) = message::take_frame(&mut grown) {
            assert_eq!(message::take_frame(&mut whole), Ok(Some(frame)));
        }
    }
}

fn extend(buffer: &mut impl Extend<u8>, octets: &[u8]) {
    buffer.extend(octets.iter().copied());
}

/// What is looked at in a message.
fn look(query: &[u8], reply: &[u8]) {
    message::has_keepalive(query);
    message::lifetime_s(reply);
    if message::is_reply(query, reply) {
        assert!(reply.len() >= HEADER_OCTETS && reply[2] & 0x80 != 0, "a response");
    }
    let mut changed = query.to_vec();
    message::set_id(&mut changed, 0x1234);
    assert_eq!(message::id(&changed), if query.len() < 2 { 0 } else { 0x1234 });
}
