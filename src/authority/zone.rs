//! The AuthDNS's zone: a rule that knows the answer to every name, so that a zone of 2^32 names takes no memory.
//!
//! `nnn-nnn-nnn-nnn.SUFFIX` has the A record its name says and, for a share of the names, a AAAA record; `SUFFIX`
//! has SOA and NS, `ns.SUFFIX` the addresses of the name server. Nothing else exists.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use dns64::wire::{NAME_LENGTH_MAX, Name};
use dns64::{NameSpace, Prefix, names};

use super::hot::Hot;
use super::rule::Rule;

/// A buffer of this many octets holds every answer of every zone.
pub const ANSWER_OCTETS_MAX: usize = 512;
/// The payload size that the zone's OPT records offer (DNS Flag Day 2020).
pub const EDNS_PAYLOAD_OCTETS: u16 = 1232;
/// The largest TTL (RFC 2181 8).
pub const TTL_S_MAX: u32 = i32::MAX as u32;
/// The longest suffix, in wire format, that leaves room for a label such as `010-000-000-007`.
const SUFFIX_OCTETS_MAX: usize = NAME_LENGTH_MAX - names::LABEL_LENGTH - 1;

/// What a zone is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneConfig {
    /// The name of the zone; a dot at the end may be left out.
    pub suffix: String,
    /// The TTL of every positive answer in seconds, 0 to 2^31 - 1.
    pub ttl_s: u32,
    /// The TTL of the SOA record and its MINIMUM in seconds: how long "no such name or type" is cached (RFC 2308 5).
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
}

impl Default for ZoneConfig {
    /// dns64perf++'s names, all IPv4-only; the AAAA prefix is out of the benchmarking range 2001:2::/48 (RFC 5180 8).
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
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Suffix(suffix, reason) => {
                write!(f, "suffix '{suffix}': {reason}; write for example dns64perf.test")
            }
            Self::Ttl(ttl) => write!(f, "TTL {ttl}: must be 0 to {TTL_S_MAX} seconds (RFC 2181 8)"),
            Self::Share(share) => write!(f, "AAAA share {share}: must be 0 to 100 percent"),
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
    /// The suffix is no name or leaves no room for a label of 15 octets, a TTL or the share is out of its range.
    pub fn new(config: ZoneConfig) -> Result<Self, ZoneError> {
        let suffix = read_suffix(&config.suffix)?;
        for ttl_s in [config.ttl_s, config.negative_ttl_s] {
            if ttl_s > TTL_S_MAX {
                return Err(ZoneError::Ttl(ttl_s));
            }
        }
        if config.aaaa_share_percent > 100 {
            return Err(ZoneError::Share(config.aaaa_share_percent));
        }
        let rule = Rule { suffix, config };
        let hot = Hot::learn(&rule);
        Ok(Self { rule, hot })
    }

    /// What the zone is made of.
    pub fn config(&self) -> &ZoneConfig {
        &self.rule.config
    }

    /// Writes the answer to `query` into `out` and returns its length, 0 when the query must be dropped.
    ///
    /// A buffer of [`ANSWER_OCTETS_MAX`] octets is always enough; what does not fit is cut off with TC set. Octets of
    /// `out` beyond the answer are undefined. Takes any octets, never allocates and never panics.
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
fn read_suffix(text: &str) -> Result<Name, ZoneError> {
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
    Ok(name)
}
