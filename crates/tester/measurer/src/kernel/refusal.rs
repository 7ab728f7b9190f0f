//! Messages about what the `kernel` back-end cannot do, one line each.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use dns64::Prefix;
use engine::pacer::SECOND_NS;

use super::parameters::{QUERIES_MAX, SUFFIX_MAX_OCTETS, TIMEOUT_MAX_NS};

/// What the `kernel` back-end cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Fewer names than the trial needs.
    NamesRepeat {
        /// The names that the trial needs.
        needed: u64,
        /// The names of the range.
        names: u64,
    },
    /// Queries or a load that it has no program for: which.
    Workload(&'static str),
    /// More queries than the accounts hold.
    TooManyQueries(u64),
    /// A longer timeout than 100 s.
    Timeout(u64),
    /// A suffix longer than 64 octets.
    Suffix(usize),
    /// Queries longer than the generator's frames.
    QueryOctets(usize),
    /// Source and server are of two address families.
    Families(IpAddr, SocketAddr),
    /// Two prefixes of different lengths are expected.
    PrefixLengths(Prefix, Prefix),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kernel back-end cannot do this: ")?;
        match self {
            Self::NamesRepeat { needed, names } => write!(
                f,
                "the trial needs {needed} names, but there are {names}; take a larger --names range, a lower \
                 rate or a shorter trial"
            ),
            Self::Workload(which) => write!(f, "{which}; use another --io"),
            Self::TooManyQueries(queries) => {
                write!(f, "{queries} queries are more than {QUERIES_MAX}; take a shorter trial")
            }
            Self::Timeout(timeout_ns) => {
                write!(
                    f,
                    "a timeout of {} s; at most {} s",
                    timeout_ns / SECOND_NS,
                    TIMEOUT_MAX_NS / SECOND_NS
                )
            }
            Self::Suffix(octets) => {
                write!(f, "the suffix has {octets} octets in wire format; at most {SUFFIX_MAX_OCTETS}")
            }
            Self::QueryOctets(octets) => {
                write!(
                    f,
                    "queries of {octets} octets are too long for its frames; leave out options or padding"
                )
            }
            Self::Families(source, server) => {
                write!(f, "source {source} and server {server} are of two address families")
            }
            Self::PrefixLengths(one, other) => {
                write!(f, "the prefixes {one} and {other} have different lengths; give them the same one")
            }
        }
    }
}

impl std::error::Error for Refusal {}
