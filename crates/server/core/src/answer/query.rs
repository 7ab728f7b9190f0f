//! Queries to upstream servers.

use dns64::rewrite::{OPT_LENGTH, append_edns};
use dns64::wire::{Edns, HEADER_LENGTH, Header, NAME_LENGTH_MAX, Writer};
use dns64::wire::{append_option, option_code};

use crate::inflight::Lookup;

/// The UDP payload size announced to upstream servers (RFC 9715).
pub const UPSTREAM_PAYLOAD_OCTETS: u16 = 1232;

/// The longest COOKIE option: code, length, client cookie, the longest server cookie (RFC 7873 4).
const COOKIE_OPTION_OCTETS_MAX: usize = 4 + 8 + 32;

/// The longest query: header, name, type and class, OPT, COOKIE.
pub const QUERY_OCTETS_MAX: usize =
    HEADER_LENGTH + NAME_LENGTH_MAX + 4 + OPT_LENGTH + COOKIE_OPTION_OCTETS_MAX;

/// Writes the query of a lookup. CD and DO are the clients'; AD asks a trusted server for its verdict
/// (RFC 6840 5.7). An empty cookie is left out.
pub fn write_query(lookup: &Lookup, trust_ad: bool, cookie: &[u8], out: &mut [u8]) -> usize {
    let mut flags = Header::RD;
    for (set, flag) in [(lookup.query.checking_disabled, Header::CD), (trust_ad, Header::AD)] {
        flags |= if set { flag } else { 0 };
    }
    let length = Writer::new(out, lookup.id, flags, &lookup.sent_question()).map_or(0, Writer::finish);
    let edns = Edns {
        payload_octets: UPSTREAM_PAYLOAD_OCTETS,
        extended_rcode: 0,
        version: 0,
        dnssec_ok: lookup.query.dnssec_ok,
    };
    let length = append_edns(out, length, &edns);
    if cookie.is_empty() { length } else { append_option(out, length, option_code::COOKIE, cookie) }
}
