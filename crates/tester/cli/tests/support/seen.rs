//! Queries as an AuthDNS sees them.

use record::identifiers::Seen;

/// 4000 queries of a server that counts its IDs: AAAA and A of each name.
pub fn queries() -> Vec<Seen> {
    let query = |n: u16| Seen {
        at_ns: u64::from(n) * 500_000,
        name: u64::from(n / 2),
        client: 1,
        upper_case: 0,
        port: 40_000 + n % 7,
        id: n.wrapping_mul(3),
        qtype: if n.is_multiple_of(2) { 28 } else { 1 },
        tcp: false,
        letters: 13,
    };
    (0..4000).map(query).collect()
}
