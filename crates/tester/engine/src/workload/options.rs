//! The parts of a query besides its question: header flags and the OPT record with its options.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use dns64::Range;
use dns64::wire::option_code::{COOKIE, PADDING};
use dns64::wire::{Header, rtype};

use record::random;

/// An EDNS option that is in every query as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdnsOption {
    /// OPTION-CODE (RFC 6891 6.1.2).
    pub code: u16,
    /// OPTION-DATA, at most [`OPTION_OCTETS_MAX`].
    pub data: Vec<u8>,
}

/// The most octets of data of an [`EdnsOption`], so that it fits beside the longest name.
pub const OPTION_OCTETS_MAX: usize = 128;

impl FromStr for EdnsOption {
    type Err = String;

    /// Reads `CODE` or `CODE:HEX`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (code, hex) = text.split_once(':').unwrap_or((text, ""));
        let code = code.parse().map_err(|_| {
            format!("'{code}' is no option code from 0 to 65535: write CODE:HEX, for example 65001:c0ffee")
        })?;
        let digits = hex.chars().map(|digit| digit.to_digit(16)).collect::<Option<Vec<u32>>>();
        let digits = digits.filter(|digits| digits.len().is_multiple_of(2));
        let digits = digits.ok_or_else(|| format!("'{hex}' is no even number of hexadecimal digits"))?;
        let data: Vec<u8> = digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect();
        if data.len() > OPTION_OCTETS_MAX {
            return Err(format!("{} octets are too many: at most {OPTION_OCTETS_MAX}", data.len()));
        }
        Ok(Self { code, data })
    }
}

impl fmt::Display for EdnsOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.code)?;
        self.data.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// Who sends a query.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client<'a> {
    /// A socket of one of the lanes, by its number: it has a client cookie of its own.
    pub source: u64,
    /// The server's cookie that it keeps; empty where it has none (RFC 7873 5.1).
    pub server_cookie: &'a [u8],
}

/// Flags and options of every query. The default sends none, as dns64perf++ does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// A client cookie for each source, which keeps the server's cookie and sends it back (RFC 7873).
    pub cookie: bool,
    /// Options as they stand, in this order.
    pub others: Vec<EdnsOption>,
}

const OPTION_NSID: u16 = 3;
const OPTION_ECS: u16 = 8;
/// Octets of a client cookie.
pub(crate) const CLIENT_COOKIE_OCTETS: usize = 8;
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
        let plain = QueryOptions { checking_disabled: false, authentic_data: false, ..options.clone() };
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
        for EdnsOption { code, data } in &options.others {
            tail.option(*code, data);
        }
        // Last but for the padding, because it grows by the server's cookie.
        if options.cookie {
            tail.cookie_at = Some(tail.octets.len() + 4);
            tail.option(COOKIE, &[0; CLIENT_COOKIE_OCTETS]);
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
    pub(super) fn append(&self, n: u64, client: &Client<'_>, buffer: &mut [u8], at: usize) -> usize {
        if self.octets.is_empty() {
            return at;
        }
        let end = at + self.octets.len();
        let Some(place) = buffer.get_mut(at..end) else { return 0 };
        place.copy_from_slice(&self.octets);
        self.vary(n, client.source, place);
        let end = self.give_back(client.server_cookie, buffer, at, end);
        if end == 0 { 0 } else { self.pad(buffer, at, end) }
    }

    /// Puts the server's cookie behind the client's, the last option of the record, which begins at `at`.
    fn give_back(&self, server_cookie: &[u8], buffer: &mut [u8], at: usize, end: usize) -> usize {
        let Some(cookie_at) = self.cookie_at.filter(|_| !server_cookie.is_empty()) else { return end };
        let longer = end + server_cookie.len();
        let Some(place) = buffer.get_mut(end..longer) else { return 0 };
        place.copy_from_slice(server_cookie);
        let both = (CLIENT_COOKIE_OCTETS + server_cookie.len()) as u16;
        buffer[at + cookie_at - 2..at + cookie_at].copy_from_slice(&both.to_be_bytes());
        let length = (longer - at - OPT_FIXED) as u16;
        buffer[at + OPT_FIXED - 2..at + OPT_FIXED].copy_from_slice(&length.to_be_bytes());
        longer
    }

    /// Puts in what belongs to this query and its source; `record` is a copy of the record.
    pub(super) fn vary(&self, n: u64, source: u64, record: &mut [u8]) {
        if let Some((at, range, length_bits)) = self.ecs {
            let bits = random::at(self.seed, STREAM_ECS, n);
            write_subnet(&range, length_bits, bits, &mut record[at..]);
        }
        if let Some(at) = self.cookie_at {
            record[at..at + CLIENT_COOKIE_OCTETS].copy_from_slice(&client_cookie(self.seed, source));
        }
    }

    /// Padding that has no room is left out.
    fn pad(&self, buffer: &mut [u8], at: usize, end: usize) -> usize {
        let Some(block) = self.padding_octets.map(|octets| usize::from(octets.max(1))) else { return end };
        let padding = (block - (end + 4) % block) % block;
        let Some(place) = buffer.get_mut(end..end + 4 + padding) else { return end };
        place[..2].copy_from_slice(&PADDING.to_be_bytes());
        place[2..4].copy_from_slice(&(padding as u16).to_be_bytes());
        place[4..].fill(0);
        let length = (end + 4 + padding - at - OPT_FIXED) as u16;
        buffer[at + OPT_FIXED - 2..at + OPT_FIXED].copy_from_slice(&length.to_be_bytes());
        end + 4 + padding
    }
}

/// The client cookie of a source.
pub(crate) fn client_cookie(seed: u64, source: u64) -> [u8; CLIENT_COOKIE_OCTETS] {
    random::at(seed, STREAM_COOKIE, source).to_be_bytes()
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

    fn client(source: u64) -> Client<'static> {
        Client { source, server_cookie: &[] }
    }

    fn record(options: &QueryOptions, n: u64, source: u64, question_end: usize) -> Vec<u8> {
        let mut buffer = [0xff; 512];
        let length = OptRecord::new(None, options, 5).append(n, &client(source), &mut buffer, question_end);
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
            others: vec!["65001:c0FFee".parse().unwrap(), "9".parse().unwrap()],
            ..QueryOptions::default()
        };
        let octets = record(&all, 3, 1, 50);
        assert_eq!(octets[..9], [0, 0, 41, 4, 208, 0, 0, 0x80, 0]);
        let found = options(&octets);
        let codes: Vec<u16> = found.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, [3, 8, 65_001, 9, 10, 12]);
        assert_eq!((&found[2].1[..], found[3].1.len()), (&[0xc0, 0xff, 0xee][..], 0));
        assert_eq!(found[1].1[..4], [0, 1, 24, 0]);
        assert!(found[1].1[4] == 198 && [18, 19].contains(&found[1].1[5]) && found[1].1.len() == 7);
        assert_eq!(found[4].1.len(), 8);
        assert_eq!((50 + octets.len()) % 128, 0);
        assert_ne!(found[4], options(&record(&all, 3, 2, 50))[4], "another source, another cookie");
        assert_eq!(found[4], options(&record(&all, 4, 1, 50))[4], "one cookie for each source");
    }

    #[test]
    fn a_server_cookie_lengthens_its_option_and_keeps_the_padding() {
        let wanted = QueryOptions { cookie: true, padding_octets: Some(64), ..QueryOptions::default() };
        let tail = OptRecord::new(None, &wanted, 5);
        for octets in [8, 16, 32] {
            let mut buffer = [0xff; 512];
            let server_cookie = &[7; 32][..octets];
            let length = tail.append(0, &Client { source: 3, server_cookie }, &mut buffer, 40);
            let found = options(&buffer[40..length]);
            assert_eq!((length % 64, found[0].0, found[0].1.len()), (0, 10, 8 + octets));
            assert_eq!((&found[0].1[..8], &found[0].1[8..]), (&client_cookie(5, 3)[..], server_cookie));
            assert_eq!(tail.append(0, &Client { source: 3, server_cookie }, &mut [0; 70], 40), 0, "no room");
        }
    }

    #[test]
    fn options_are_read_as_they_are_written() {
        for text in ["65001:c0ffee", "9:"] {
            assert_eq!(text.parse::<EdnsOption>().unwrap().to_string(), text);
        }
        let long = format!("1:{}", "00".repeat(OPTION_OCTETS_MAX + 1));
        for (text, reason) in [
            ("cookie", "'cookie' is no option code"),
            ("65536:00", "'65536' is no option code"),
            ("1:abc", "no even number of hexadecimal digits"),
            ("1:0g", "hexadecimal"),
            (long.as_str(), "129 octets are too many: at most 128"),
        ] {
            let error = text.parse::<EdnsOption>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn flags_alone_need_no_record() {
        let flags = QueryOptions { checking_disabled: true, authentic_data: true, ..QueryOptions::default() };
        assert!(record(&flags, 0, 0, 40).is_empty());
        assert_eq!(flags.header_flags(), Header::RD | Header::CD | Header::AD);
        assert_eq!(OptRecord::new(Some(512), &flags, 0).records(), 1);
        assert_eq!(OptRecord::new(None, &flags, 0).records(), 0);
    }

    #[test]
    fn too_small_a_buffer_is_no_panic() {
        let padded = QueryOptions { padding_octets: Some(468), ..QueryOptions::default() };
        assert_eq!(
            OptRecord::new(None, &padded, 0).append(0, &client(0), &mut [0; 100], 50),
            61,
            "without the padding"
        );
        assert_eq!(OptRecord::new(None, &padded, 0).append(0, &client(0), &mut [0; 55], 50), 0);
    }

    proptest! {
        #[test]
        fn subnets_lie_in_their_range(address: u32, length in 0u8..=32, n: u64) {
            let ecs = Range::v4(address.into(), length);
            let octets = record(&QueryOptions { ecs: Some(ecs), ..QueryOptions::default() }, n, 0, 40);
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
            let octets = record(&wanted, n, 0, 40);
            let (_, data) = options(&octets).remove(0);
            prop_assert_eq!(data[2], length.max(56));
            let mut subnet = [0; 16];
            subnet[..data.len() - 4].copy_from_slice(&data[4..]);
            prop_assert!(ecs.contains(IpAddr::from(subnet)));
            prop_assert_eq!((40 + octets.len()) % usize::from(block), 0);
        }
    }
}
