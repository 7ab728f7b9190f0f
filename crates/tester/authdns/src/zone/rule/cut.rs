//! The zones that are answered for: the names below the suffix, and the reverse names that lead back to them.

use dns64::NameSpace;
use dns64::wire::Name;

use super::reverse;
use crate::zone::ZoneConfig;

/// A zone, by the name at its top.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The name of the zone, in lower case.
    pub apex: Name,
    pub labels: usize,
    /// What stands below it.
    pub tree: Tree,
}

/// What the names below a zone's apex mean.
#[derive(Clone, Copy, Debug)]
pub enum Tree {
    Forward,
    /// `in-addr.arpa` names: the first so many octets of the addresses stand in the apex.
    In4 {
        /// 0 to 3.
        octets: usize,
    },
    /// `ip6.arpa` names of the prefix of the AAAA records, all of whose nibbles stand in the apex.
    In6,
}

impl Cut {
    fn new(apex: Name, tree: Tree) -> Self {
        Self { apex, labels: apex.labels().count(), tree }
    }

    /// The zones of a configuration, that of the suffix first.
    pub fn all(suffix: Name, config: &ZoneConfig) -> Vec<Self> {
        let mut cuts = vec![Self::new(suffix, Tree::Forward)];
        if config.rules.reverse {
            // The last octet never stands in the apex, as no delegation of the real in-addr.arpa goes so
            // deep.
            let octets = config.names.map_or(0, |names: NameSpace| (names.length_bits() / 8).min(3)).into();
            let first = config.names.map_or([0; 4].into(), |names| names.address(0));
            cuts.push(Self::new(reverse::in4_apex(first, octets), Tree::In4 { octets }));
            cuts.push(Self::new(reverse::in6_apex(&config.aaaa_prefix), Tree::In6));
        }
        cuts
    }
}
