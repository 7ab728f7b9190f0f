//! The AuthDNS's zone: a rule that knows the answer to every name, so that a zone of 2^32 names takes no
//! memory.
//!
//! `nnn-nnn-nnn-nnn.SUFFIX` has an A record with the address in the name and, for a share of the names, a
//! AAAA record; `SUFFIX` has SOA and NS, `ns.SUFFIX` the addresses of the name server. [`Rules`] and a file
//! of records add others.

mod hot;
mod response;
mod rule;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use dns64::wire::{NAME_LENGTH_MAX, Name};
use dns64::{NameSpace, Prefix, names};

use hot::Hot;
use rule::Rule;
pub use rule::{RecordsError, RecordsFile, Signing, SigningKey, TEXT_OCTETS_MAX, TrustAnchor};

/// A buffer of this many octets holds every answer over UDP: no more is sent than is offered.
pub const ANSWER_OCTETS_MAX: usize = EDNS_PAYLOAD_OCTETS as usize;
/// A buffer of this many octets holds every answer over TCP: the largest set of records (4096
/// octets) behind an alias, both signed.
pub const TCP_ANSWER_OCTETS_MAX: usize = 6144;
/// The payload size that the zone's OPT records offer (DNS Flag Day 2020).
pub const EDNS_PAYLOAD_OCTETS: u16 = 1232;
/// The largest TTL (RFC 2181 8).
pub const TTL_S_MAX: u32 = i32::MAX as u32;
/// The longest suffix, in wire format, that leaves room for a label such as `010-000-000-007`.
const SUFFIX_OCTETS_MAX: usize = NAME_LENGTH_MAX - names::LABEL_LENGTH - 1;
/// The longest suffix of a signed zone leaves room for a hash of 32 characters (RFC 5155 3.3).
const SIGNED_SUFFIX_OCTETS_MAX: usize = NAME_LENGTH_MAX - 32 - 1;
/// The most addresses of each family that a name has.
pub const ADDRESSES_MAX: u8 = 64;

/// Names and types beyond `nnn-nnn-nnn-nnn.SUFFIX`, each off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// `10-0-0-7.SUFFIX` is a host, too (the names of dns64perf).
    pub short: bool,
    /// Every name below `any.SUFFIX` has an address, from a hash of the name.
    pub wildcard: bool,
    /// `HOST.cN.SUFFIX` leads to `HOST.SUFFIX` over N CNAME records, `HOST.dN.SUFFIX` over N DNAME records (N
    /// = 1 to 16); `cloop.SUFFIX` is a CNAME record that leads to itself.
    pub chains: bool,
    /// Hosts have TXT, MX and HTTPS records; `HOST.tN.SUFFIX` has a TXT record of N octets (0 to 4096).
    pub types: bool,
    /// PTR records for the addresses of the names, in zones below `in-addr.arpa` and `ip6.arpa`.
    pub reverse: bool,
}

/// What a zone is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneConfig {
    /// The name of the zone; a dot at the end may be left out.
    pub suffix: String,
    /// The TTL of every positive answer in seconds, 0 to 2^31 - 1.
    pub ttl_s: u32,
    /// The TTL of the SOA record and its MINIMUM in seconds: how long "no such name or type" is cached
    /// (RFC 2308 5).
    pub negative_ttl_s: u32,
    /// How many of 100 names have a AAAA record, 0 to 100; [`names::has_aaaa`] tells which.
    pub aaaa_share_percent: u8,
    /// The AAAA record of a name is its IPv4 address embedded in this prefix.
    pub aaaa_prefix: Prefix,
    /// The names that exist, `None` for all; others below the suffix get NXDOMAIN.
    pub names: Option<NameSpace>,
    /// The A record of `ns.SUFFIX`; `None` for none.
    pub ns_ipv4: Option<Ipv4Addr>,
    /// The AAAA record of `ns.SUFFIX`; `None` for none.
    pub ns_ipv6: Option<Ipv6Addr>,
    /// Names and types beside those of the range.
    pub rules: Rules,
    /// How many A records, and AAAA records where it has them, a name has: 1 to [`ADDRESSES_MAX`]. The n-th
    /// has its number in the last bits of the address (exclusive or).
    pub addresses_per_name: u8,
    /// The text in the TXT record of a host, 0 to 4096 octets.
    pub txt_octets: u16,
    /// Fixed records, which come before the rules.
    pub records: Option<RecordsFile>,
    /// How the zone is signed; `None` for not at all.
    pub signing: Option<Signing>,
}

impl ZoneConfig {
    /// The names that exist; where all do, those that names from hashes have: 10.0.0.0/8.
    pub(super) fn names_or_default(&self) -> NameSpace {
        self.names.unwrap_or_else(|| "10.0.0.0/8".parse().expect("a constant, and right"))
    }
}

impl Default for ZoneConfig {
    /// dns64perf++'s names, all IPv4-only; the AAAA prefix is out of the benchmarking range 2001:2::/48
    /// (RFC 5180 8).
    fn default() -> Self {
        let benchmarking = Prefix::new(Ipv6Addr::new(0x2001, 2, 0, 0xaaaa, 0, 0, 0, 0), 96);
        Self {
            suffix: "dns64perf.test".to_owned(),
            ttl_s: 60,
            negative_ttl_s: 60,
            aaaa_share_percent: 0,
            aaaa_prefix: benchmarking.expect("a constant, and right"),
            names: None,
            ns_ipv4: Some(Ipv4Addr::LOCALHOST),
            ns_ipv6: Some(Ipv6Addr::LOCALHOST),
            rules: Rules::default(),
            addresses_per_name: 1,
            txt_octets: 64,
            records: None,
            signing: None,
        }
    }
}

/// Why a configuration makes no zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneError {
    /// The suffix is no host name, with the reason.
    Suffix(String, &'static str),
    /// A TTL over 2^31 - 1 seconds.
    Ttl(u32),
    /// A share over 100 %.
    Share(u8),
    /// No addresses, or too many for each name.
    Addresses(u8),
    /// Too much text for a TXT record.
    Text(u16),
    /// The file of records.
    Records(RecordsError),
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Suffix(suffix, reason) => {
                write!(f, "suffix '{suffix}': {reason}; write for example dns64perf.test")
            }
            Self::Ttl(ttl) => write!(f, "TTL {ttl}: must be 0 to {TTL_S_MAX} seconds (RFC 2181 8)"),
            Self::Share(share) => write!(f, "AAAA share {share}: must be 0 to 100 percent"),
            Self::Addresses(number) => write!(f, "{number} addresses per name: must be 1 to {ADDRESSES_MAX}"),
            Self::Text(octets) => write!(f, "TXT records of {octets} octets: must be 0 to {TEXT_OCTETS_MAX}"),
            Self::Records(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ZoneError {}

/// How a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The answer must fit into the client's payload size, 512 octets without EDNS.
    Udp,
    /// The answer may fill the buffer.
    Tcp,
    /// Over TLS (RFC 7858), as over TCP.
    Dot,
    /// Over HTTPS (RFC 8484), as over TCP.
    Doh,
    /// Over QUIC (RFC 9250), as over TCP.
    Doq,
    /// Over HTTP/3 (RFC 9114), as over TCP.
    Doh3,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Udp, Self::Tcp, Self::Dot, Self::Doh, Self::Doq, Self::Doh3];

    /// As options and conditions have it: `udp`, `tcp`, `dot`, `doh`, `doq` or `doh3`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Dot => "dot",
            Self::Doh => "doh",
            Self::Doq => "doq",
            Self::Doh3 => "doh3",
        }
    }

    /// Whether an answer can come twice. A stream of HTTPS or QUIC carries one answer; DoT is served like
    /// them.
    pub(crate) fn can_repeat(self) -> bool {
        matches!(self, Self::Udp | Self::Tcp)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Dot => "DoT",
            Self::Doh => "DoH",
            Self::Doq => "DoQ",
            Self::Doh3 => "DoH3",
        })
    }
}

/// What a query was, for the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKind {
    /// A well-formed question for type A.
    A,
    /// A well-formed question for type AAAA.
    Aaaa,
    /// Anything else that is well-formed.
    Other,
    /// Broken, and answered with FORMERR where it has a header of a query.
    Malformed,
}

/// What [`Zone::answer`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The length of the answer at the start of the buffer; 0 means that the query must be dropped.
    pub octets: usize,
    /// What the query was.
    pub kind: QueryKind,
}

/// A zone ready to answer.
#[derive(Clone, Debug)]
pub struct Zone {
    pub(super) rule: Rule,
    pub(super) hot: Hot,
}

impl Zone {
    /// Checks a configuration and prepares the answers.
    ///
    /// # Errors
    /// The suffix is no name or leaves no room for a label of 15 octets (signed: of 32), a number is out of
    /// its range, or a line of the file of records is no record of this zone.
    pub fn new(config: ZoneConfig) -> Result<Self, ZoneError> {
        let suffix = read_suffix(&config.suffix, config.signing.is_some())?;
        for ttl_s in [config.ttl_s, config.negative_ttl_s] {
            if ttl_s > TTL_S_MAX {
                return Err(ZoneError::Ttl(ttl_s));
            }
        }
        if config.aaaa_share_percent > 100 {
            return Err(ZoneError::Share(config.aaaa_share_percent));
        }
        if !(1..=ADDRESSES_MAX).contains(&config.addresses_per_name) {
            return Err(ZoneError::Addresses(config.addresses_per_name));
        }
        if config.txt_octets > TEXT_OCTETS_MAX {
            return Err(ZoneError::Text(config.txt_octets));
        }
        let rule = Rule::new(suffix, config)?;
        let hot = Hot::learn(&rule);
        Ok(Self { rule, hot })
    }

    /// What validating resolvers must be told of the zone and its reverse zones; empty where it is not
    /// signed.
    pub fn trust_anchors(&self) -> Vec<TrustAnchor> {
        self.rule.trust_anchors()
    }

    /// What the zone is made of.
    pub fn config(&self) -> &ZoneConfig {
        &self.rule.config
    }

    /// Writes the answer to `query` into `out` and returns its length, 0 when the query must be dropped.
    ///
    /// A buffer of [`ANSWER_OCTETS_MAX`] octets is always enough over UDP, one of [`TCP_ANSWER_OCTETS_MAX`]
    /// over TCP; what does not fit is cut off with TC set. Octets of `out` beyond the answer are undefined.
    /// Takes any octets, never panics, and does not allocate in the hot case: A and AAAA of
    /// `nnn-nnn-nnn-nnn.SUFFIX`.
    pub fn respond(&self, query: &[u8], transport: Transport, out: &mut [u8]) -> usize {
        self.answer(query, transport, out).octets
    }

    /// As [`Zone::respond`], and says what the query was.
    pub fn answer(&self, query: &[u8], transport: Transport, out: &mut [u8]) -> Answer {
        match self.hot.answer(&self.rule.config, query, out) {
            Some(answer) => answer,
            None => self.rule.answer(query, transport, out),
        }
    }
}

/// Reads the suffix in lower case: letters, digits, hyphens and underscores.
fn read_suffix(text: &str, is_signed: bool) -> Result<Name, ZoneError> {
    let error = |reason| ZoneError::Suffix(text.to_owned(), reason);
    if !text.bytes().all(|octet| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet)) {
        return Err(error("only letters, digits, '-', '_' and dots between labels"));
    }
    let name = Name::from_text(&text.to_ascii_lowercase()).map_err(|malformed| error(malformed.0))?;
    if name == Name::ROOT {
        return Err(error("needs a label"));
    }
    if name.as_wire().len() > SUFFIX_OCTETS_MAX {
        return Err(error("leaves no room for a label of 15 octets"));
    }
    if is_signed && name.as_wire().len() > SIGNED_SUFFIX_OCTETS_MAX {
        return Err(error("leaves no room for the hashes of a signed zone, labels of 32 octets"));
    }
    Ok(name)
}
