//! The parts of a query besides its question: header flags and the OPT record with its options.

use std::net::IpAddr;

use dns64::Range;
use dns64::wire::{Header, rtype};

use record::random;

/// Flags and options of every query. The default sends none, as dns64perf++ does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryOptions {
    /// DO: the client takes DNSSEC records (RFC 3225).
    pub dnssec_ok: bool,
    /// CD: the server shall not validate (RFC 4035 3.2.2).
    pub checking_disabled: bool,
    /// AD: the client wants to know whether the answer is authentic (RFC 6840 5.7).
    pub authentic_data: bool,
    /// Ask for the server's identifier (RFC 5001).
    pub nsid: bool,
    /// Pad to a multiple of so many octets (RFC 7830; RFC 8467 recommends 128 for queries).
    pub padding_octets: Option<u16>,
    /// Client subnets within this range, another for each query (RFC 7871): /24 or /56, as its section 11.1
    /// recommends, or the range itself if that is smaller.
    pub ecs: Option<Range>,
    /// A client cookie for each source (RFC 7873).
    pub cookie: bool,
}

const OPTION_NSID: u16 = 3;
const OPTION_ECS: u16 = 8;
const OPTION_COOKIE: u16 = 10;
const OPTION_PADDING: u16 = 12;
/// Payload size where options need an OPT record and none was given, in octets (the DNS flag day's).
const PAYLOAD_OCTETS: u16 = 1232;
/// An OPT record up to its options: root name, type, payload size, TTL, length.
const OPT_FIXED: usize = 11;
/// Streams of the seed's numbers.
const STREAM_ECS: u64 = 0xec5;
const STREAM_COOKIE: u64 = 0xc00_c1e;

impl QueryOptions {
    /// The flags of the header: RD and those asked for.
    pub(super) fn header_flags(&self) -> u16 {
        let flag = |wanted: bool, mask: u16| if wanted { mask } else { 0 };
        Header::RD | flag(self.checking_disabled, Header::CD) | flag(self.authentic_data, Header::AD)
    }
}

/// The OPT record of the queries, ready to be copied; empty where there is none.
#[derive(Clone, Debug, Default)]
pub(super) struct OptRecord {
    octets: Vec<u8>,
    padding_octets: Option<u16>,
    ecs: Option<(usize, Range, u8)>,
    cookie_at: Option<usize>,
    seed: u64,
}

impl OptRecord {
    pub(super) fn new(edns_octets: Option<u16>, options: &QueryOptions, seed: u64) -> Self {
        let plain = QueryOptions { checking_disabled: false, authentic_data: false, ..*options };
        let Some(payload) = edns_octets.or((plain != QueryOptions::default()).then_some(PAYLOAD_OCTETS))
        else {
            return Self::default();
        };
        let mut tail = Self { padding_octets: options.padding_octets, seed, ..Self::default() };
        tail.octets.push(0);
        tail.put(rtype::OPT);
        tail.put(payload);
        tail.put(0);
        tail.put(if options.dnssec_ok { 0x8000 } else { 0 });
        tail.put(0);
        if options.nsid {
            tail.option(OPTION_NSID, &[]);
        }
        if let Some(range) = options.ecs {
            let (family, enough, whole) = if range.first().is_ipv4() { (1, 24, 32) } else { (2, 56, 128) };
            let length_bits = range.length_bits().max(enough).min(whole);
            let mut data = vec![0, family, length_bits, 0];
            data.resize(4 + usize::from(length_bits).div_ceil(8), 0);
            let at = tail.octets.len() + 8;
            tail.option(OPTION_ECS, &data);
            tail.ecs = Some((at, range, length_bits));
        }
        if options.cookie {
            tail.cookie_at = Some(tail.octets.len() + 4);
            tail.option(OPTION_COOKIE, &[0; 8]);
        }
        tail
    }

    fn put(&mut self, word: u16) {
        self.octets.extend(word.to_be_bytes());
    }

    fn option(&mut self, code: u16, data: &[u8]) {
        self.put(code);
        self.put(data.len() as u16);
        self.octets.extend(data);
        let length = (self.octets.len() - OPT_FIXED) as u16;
        self.octets[OPT_FIXED - 2..OPT_FIXED].copy_from_slice(&length.to_be_bytes());
    }

    pub(super) fn records(&self) -> u8 {
        u8::from(!self.octets.is_empty())
    }

    /// Whether the record differs from query to query even if the questions are equally long.
    pub(super) fn varies(&self) -> bool {
        self.ecs.is_some() || self.cookie_at.is_some()
    }

    /// Writes the record after the question, which ends at `at`; returns the length of the message, 0 if the
    /// buffer is too small.
    pub(super) fn append(&self, n: u64, source: u64, buffer: &mut [u8], at: usize) -> usize {
        if self.octets.is_empty() {
            return at;
        }
        let end = at + self.octets.len();
        let Some(place) = buffer.get_mut(at..end) else { return 0 };
        place.copy_from_slice(&self.octets);
        self.vary(n, source, place);
        self.pad(buffer, at, end)
    }

    /// Puts in what belongs to this query and its source; `record` is a copy of the record.
    pub(super) fn vary(&self, n: u64, source: u64, record: &mut [u8]) {
        if let Some((at, range, length_bits)) = self.ecs {
            let bits = random::at(self.seed, STREAM_ECS, n);
            write_subnet(&range, length_bits, bits, &mut record[at..]);
        }
        if let Some(at) = self.cookie_at {
            let cookie = random::at(self.seed, STREAM_COOKIE, source);
            record[at..at + 8].copy_from_slice(&cookie.to_be_bytes());
        }
    }

    /// Padding that has no room is left out.
    fn pad(&self, buffer: &mut [u8], at: usize, end: usize) -> usize {
        let Some(block) = self.padding_octets.map(|octets| usize::from(octets.max(1))) else { return end };
        let padding = (block - (end + 4) % block) % block;
        let Some(place) = buffer.get_mut(end..end + 4 + padding) else { return end };
        place[..2].copy_from_slice(&OPTION_PADDING.to_be_bytes());
        place[2..4].copy_from_slice(&(padding as u16).to_be_bytes());
        place[4..].fill(0);
        let length = (end + 4 + padding - at - OPT_FIXED) as u16;
        buffer[at + OPT_FIXED - 2..at + OPT_FIXED].copy_from_slice(&length.to_be_bytes());
        end + 4 + padding
    }
}

/// Writes the first `length_bits` bits of an address of the range, the rest of them from `bits`.
fn write_subnet(range: &Range, length_bits: u8, bits: u64, place: &mut [u8]) {
    let octets = usize::from(length_bits).div_ceil(8);
    let free = u32::from(length_bits - range.length_bits().min(length_bits));
    let fill = if free >= 64 { bits } else { bits & ((1 << free) - 1) };
    match range.first() {
        IpAddr::V4(first) => {
            let address =
                first.to_bits() | (fill as u32).checked_shl(32 - u32::from(length_bits)).unwrap_or(0);
            place[..octets].copy_from_slice(&address.to_be_bytes()[..octets]);
        }
        IpAddr::V6(first) => {
            let fill = u128::from(fill).checked_shl(128 - u32::from(length_bits)).unwrap_or(0);
            place[..octets].copy_from_slice(&(first.to_bits() | fill).to_be_bytes()[..octets]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Code and data of each option of an OPT record.
    fn options(record: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let length = usize::from(u16::from_be_bytes([record[9], record[10]]));
        assert_eq!(record.len(), OPT_FIXED + length);
        let mut rest = &record[OPT_FIXED..];
        let mut found = Vec::new();
        while let [a, b, c, d, tail @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*c, *d]));
            found.push((u16::from_be_bytes([*a, *b]), tail[..length].to_vec()));
            rest = &tail[length..];
        }
        assert!(rest.is_empty());
        found
    }

    fn record(options: QueryOptions, n: u64, source: u64, question_end: usize) -> Vec<u8> {
        let mut buffer = [0xff; 512];
        let length = OptRecord::new(None, &options, 5).append(n, source, &mut buffer, question_end);
        buffer[question_end..length].to_vec()
    }

    #[test]
    fn every_option_has_its_code_and_length() {
        let all = QueryOptions {
            dnssec_ok: true,
            nsid: true,
            padding_octets: Some(128),
            ecs: Some("198.18.0.0/15".parse().unwrap()),
            cookie: true,
            ..QueryOptions::default()
        };
        let octets = record(all, 3, 1, 50);
        assert_eq!(octets[..9], [0, 0, 41, 4, 208, 0, 0, 0x80, 0]);
        let found = options(&octets);
        let codes: Vec<u16> = found.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, [3, 8, 10, 12]);
        assert_eq!(found[1].1[..4], [0, 1, 24, 0]);
        assert!(found[1].1[4] == 198 && [18, 19].contains(&found[1].1[5]) && found[1].1.len() == 7);
        assert_eq!(found[2].1.len(), 8);
        assert_eq!((50 + octets.len()) % 128, 0);
        assert_ne!(found[2], options(&record(all, 3, 2, 50))[2], "another source, another cookie");
        assert_eq!(found[2], options(&record(all, 4, 1, 50))[2], "one cookie for each source");
    }

    #[test]
    fn flags_alone_need_no_record() {
        let flags = QueryOptions { checking_disabled: true, authentic_data: true, ..QueryOptions::default() };
        assert!(record(flags, 0, 0, 40).is_empty());
        assert_eq!(flags.header_flags(), Header::RD | Header::CD | Header::AD);
        assert_eq!(OptRecord::new(Some(512), &flags, 0).records(), 1);
        assert_eq!(OptRecord::new(None, &flags, 0).records(), 0);
    }

    #[test]
    fn too_small_a_buffer_is_no_panic() {
        let padded = QueryOptions { padding_octets: Some(468), ..QueryOptions::default() };
        assert_eq!(
            OptRecord::new(None, &padded, 0).append(0, 0, &mut [0; 100], 50),
            61,
            "without the padding"
        );
        assert_eq!(OptRecord::new(None, &padded, 0).append(0, 0, &mut [0; 55], 50), 0);
    }

    proptest! {
        #[test]
        fn subnets_lie_in_their_range(address: u32, length in 0u8..=32, n: u64) {
            let ecs = Range::v4(address.into(), length);
            let octets = record(QueryOptions { ecs: Some(ecs), ..QueryOptions::default() }, n, 0, 40);
            let (code, data) = options(&octets).remove(0);
            prop_assert_eq!((code, data[2]), (8, length.max(24)));
            let mut subnet = [0; 4];
            subnet[..data.len() - 4].copy_from_slice(&data[4..]);
            prop_assert!(ecs.contains(IpAddr::from(subnet)));
        }

        #[test]
        fn v6_subnets_too(address: u128, length in 0u8..=128, n: u64, block in 1u16..200) {
            let ecs = Range::v6(address.into(), length);
            let wanted = QueryOptions { ecs: Some(ecs), padding_octets: Some(block), ..QueryOptions::default() };
            let octets = record(wanted, n, 0, 40);
            let (_, data) = options(&octets).remove(0);
            prop_assert_eq!(data[2], length.max(56));
            let mut subnet = [0; 16];
            subnet[..data.len() - 4].copy_from_slice(&data[4..]);
            prop_assert!(ecs.contains(IpAddr::from(subnet)));
            prop_assert_eq!((40 + octets.len()) % usize::from(block), 0);
        }
    }
}
