//! The query in an HTTPS request (RFC 8484 4.1), without the HTTP: what a request says, and where its query
//! is.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

/// The media type of DNS messages (RFC 8484 6).
pub const MEDIA_TYPE: &str = "application/dns-message";

/// What a request says before its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'r> {
    /// The method: `GET`, `POST` or another word.
    pub method: &'r str,
    /// The path of the URI, without the query (RFC 3986 3.3).
    pub path: &'r str,
    /// What stands behind the question mark of its URI.
    pub query: &'r str,
    /// The content type of its body; empty where none is said, or not in ASCII.
    pub content_type: &'r str,
}

/// Where the query of a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryLocation {
    /// In the URI as base64url (RFC 8484 4.1): the octets of the message.
    Uri(Vec<u8>),
    /// The body of the request is the message (RFC 8484 4.1).
    Body,
}

impl Head<'_> {
    /// Where the query is, for a resource at `path`.
    ///
    /// # Errors
    /// The status that says why there is none.
    pub fn place(&self, path: &str) -> Result<QueryLocation, StatusCode> {
        match self.method {
            _ if self.path != path => Err(StatusCode::NOT_FOUND),
            "GET" => from_uri(self.query).map(QueryLocation::Uri),
            "POST" if !is_message_type(self.content_type) => Err(StatusCode::UNSUPPORTED_MEDIA_TYPE),
            "POST" => Ok(QueryLocation::Body),
            _ => Err(StatusCode::METHOD_NOT_ALLOWED),
        }
    }
}

/// The content type of a message; empty where there is none that can be read.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Whether a content type is that of DNS messages. Parameters of the media type mean nothing here.
pub fn is_message_type(content_type: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(MEDIA_TYPE)
}

/// The variable `dns` of a GET, in base64url without padding (RFC 8484 4.1.1). A URI is too short for more
/// than a message can have.
fn from_uri(query: &str) -> Result<Vec<u8>, StatusCode> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("dns=")).ok_or(StatusCode::BAD_REQUEST)?;
    BASE64_URL_SAFE_NO_PAD.decode(value).map_err(|_| StatusCode::BAD_REQUEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_of_a_get_is_found() {
        // The example of RFC 8484 4.1.1.
        let octets = from_uri("dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB").unwrap();
        assert_eq!(octets.len(), 33);
        assert_eq!(from_uri("a=b&dns=AAAB"), Ok(vec![0, 0, 1]));
        for garbage in ["", "dns", "DNS=AAAB", "dns=AAAB=", "dns=AA+/", "dns=A"] {
            assert_eq!(from_uri(garbage), Err(StatusCode::BAD_REQUEST), "{garbage}");
        }
    }

    #[test]
    fn media_types_compare_without_case_and_parameters() {
        assert!(is_message_type("application/dns-message"));
        assert!(is_message_type("Application/DNS-Message; charset=x"));
        assert!(!is_message_type("application/dns-json") && !is_message_type(""));
    }

    #[test]
    fn each_request_has_its_place_or_its_status() {
        let get = Head { method: "GET", path: "/q", query: "dns=AAAB", content_type: "" };
        let post = Head { method: "POST", query: "", content_type: MEDIA_TYPE, ..get };
        assert_eq!(get.place("/q"), Ok(QueryLocation::Uri(vec![0, 0, 1])));
        assert_eq!(post.place("/q"), Ok(QueryLocation::Body));
        assert_eq!(get.place("/"), Err(StatusCode::NOT_FOUND));
        assert_eq!(Head { query: "", ..get }.place("/q"), Err(StatusCode::BAD_REQUEST));
        assert_eq!(Head { content_type: "", ..post }.place("/q"), Err(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        assert_eq!(Head { method: "HEAD", ..get }.place("/q"), Err(StatusCode::METHOD_NOT_ALLOWED));
    }
}
