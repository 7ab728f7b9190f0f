//! The record sets of each kind of name.

use std::net::{Ipv4Addr, Ipv6Addr};

use dns64::names::{self, LABEL_LENGTH};
use dns64::wire::{Name, rtype};

use super::node::Node;
use super::view::View;

/// The SOA record's times: refresh, retry and expire in seconds. Nobody transfers the zone, so they only look
/// usual.
const SOA_TIMES_S: [u32; 3] = [3600, 600, 86_400];
/// The zone never changes while a process runs.
const SOA_SERIAL: u32 = 1;
/// The TTL of the zone's key, whatever that of the names is: fetching it again and again measures nothing.
const DNSKEY_TTL_S: u32 = 3600;
/// Types that a rule may give a name, in ascending order.
const RULE_TYPES: [u16; 12] = [
    rtype::A,
    rtype::NS,
    rtype::CNAME,
    rtype::SOA,
    rtype::PTR,
    rtype::MX,
    rtype::TXT,
    rtype::AAAA,
    rtype::DNAME,
    rtype::DNSKEY,
    rtype::NSEC3PARAM,
    rtype::HTTPS,
];
/// What ANY gets, the first that exists (RFC 8482 4.1).
const ANY_PREFERENCE: [u16; 3] = [rtype::SOA, rtype::A, rtype::AAAA];

/// The records of one owner and type.
#[derive(Clone, Debug)]
pub struct RecordSet {
    pub owner: Name,
    pub rtype: u16,
    pub ttl_s: u32,
    /// RDATA of each record, names in it uncompressed.
    pub rdatas: Vec<Vec<u8>>,
    /// RDATA of its RRSIG record, if it has one.
    pub signature: Option<Vec<u8>>,
    pub shown: SetPart,
}

/// What of a set stands in an answer where it is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetPart {
    Whole,
    /// Not the signature: a CNAME record that says what a DNAME record means has none (RFC 6672 5.3.1).
    Records,
    /// Only the signature, which was asked for.
    Signature,
}

impl RecordSet {
    pub fn new(owner: Name, rtype: u16, ttl_s: u32, rdatas: Vec<Vec<u8>>) -> Self {
        Self { owner, rtype, ttl_s, rdatas, signature: None, shown: SetPart::Whole }
    }
}

impl View<'_> {
    /// The records of a type that a name has itself.
    pub(super) fn set(&self, node: &Node<'_>, owner: &Name, rtype: u16) -> Option<RecordSet> {
        let config = self.config();
        let (ttl_s, rdatas) = match (node, rtype) {
            (Node::Apex, rtype::SOA) => (config.negative_ttl_s, vec![self.soa()]),
            (Node::Apex, rtype::NS) => (config.ttl_s, vec![self.name_server().as_wire().to_vec()]),
            (Node::Apex, rtype::DNSKEY) => (DNSKEY_TTL_S, vec![self.rule.signer.as_ref()?.dnskey().to_vec()]),
            // SHA-1, no flags, no iterations, no salt (RFC 9276 3.1).
            (Node::Apex, rtype::NSEC3PARAM) if self.rule.signer.is_some() => (0, vec![vec![1, 0, 0, 0, 0]]),
            (Node::Apex, _) => return self.fixed().apex_set(&self.cut.tree, owner, rtype),
            (Node::Fixed(sets), _) => {
                return sets.iter().find(|set| set.rtype == rtype).map(|set| set.at(*owner));
            }
            (Node::NameServer, rtype::A) => (config.ttl_s, vec![config.ns_ipv4?.octets().to_vec()]),
            (Node::NameServer, rtype::AAAA) => (config.ttl_s, vec![config.ns_ipv6?.octets().to_vec()]),
            (Node::Host(ipv4), _) => (config.ttl_s, self.host_rdatas(*ipv4, owner, rtype)?),
            (Node::Text(octets), rtype::TXT) => (config.ttl_s, vec![text(*octets)]),
            (Node::Alias(target), rtype::CNAME) => (config.ttl_s, vec![target.as_wire().to_vec()]),
            (Node::Redirect(redirect), rtype::DNAME) if redirect.owner == *owner => {
                (config.ttl_s, vec![redirect.target.as_wire().to_vec()])
            }
            (Node::Pointer(ipv4), rtype::PTR) => {
                (config.ttl_s, vec![self.host_name(*ipv4).as_wire().to_vec()])
            }
            _ => return None,
        };
        Some(RecordSet::new(*owner, rtype, ttl_s, rdatas))
    }

    /// The set that answers a question at this name; ANY and RRSIG get one that exists.
    pub(super) fn answering_set(&self, node: &Node<'_>, owner: &Name, qtype: u16) -> Option<RecordSet> {
        if !matches!(qtype, rtype::ANY | rtype::RRSIG)
            || (qtype == rtype::RRSIG && self.rule.signer.is_none())
        {
            return self.set(node, owner, qtype);
        }
        let preferred = ANY_PREFERENCE.iter().find_map(|&rtype| self.set(node, owner, rtype));
        preferred.or_else(|| self.types(node, owner).iter().find_map(|&rtype| self.set(node, owner, rtype)))
    }

    /// The types a name has, in ascending order.
    pub(super) fn types(&self, node: &Node<'_>, owner: &Name) -> Vec<u16> {
        let fixed = match node {
            Node::Fixed(sets) => sets.iter().map(|set| set.rtype).collect(),
            Node::Apex => self.fixed().apex_types(&self.cut.tree, owner),
            _ => Vec::new(),
        };
        let mut types: Vec<u16> = RULE_TYPES
            .into_iter()
            .filter(|&rtype| self.set(node, owner, rtype).is_some())
            .chain(fixed)
            .collect();
        types.sort_unstable();
        types.dedup();
        types
    }

    /// The name of the name server.
    pub(super) fn name_server(&self) -> Name {
        self.suffix().below(b"ns").unwrap_or(Name::ROOT)
    }

    /// The TTL of the SOA record is its MINIMUM, so that negative answers need no other (RFC 2308 3).
    fn soa(&self) -> Vec<u8> {
        let [refresh_s, retry_s, expire_s] = SOA_TIMES_S;
        let hostmaster = self.suffix().below(b"hostmaster").unwrap_or(Name::ROOT);
        let mut rdata = [self.name_server().as_wire(), hostmaster.as_wire()].concat();
        for word in [SOA_SERIAL, refresh_s, retry_s, expire_s, self.config().negative_ttl_s] {
            rdata.extend(word.to_be_bytes());
        }
        rdata
    }

    fn host_rdatas(&self, ipv4: Ipv4Addr, owner: &Name, rtype: u16) -> Option<Vec<Vec<u8>>> {
        let config = self.config();
        let types = config.rules.types;
        // The other addresses of a name are its neighbours in a block of a power of two.
        let addresses =
            || (0..u32::from(config.addresses_per_name)).map(|n| Ipv4Addr::from(ipv4.to_bits() ^ n));
        match rtype {
            rtype::A => Some(addresses().map(|ipv4| ipv4.octets().to_vec()).collect()),
            rtype::AAAA => {
                self.ipv6(ipv4)?;
                Some(addresses().map(|ipv4| config.aaaa_prefix.embed(ipv4).octets().to_vec()).collect())
            }
            rtype::TXT if types => Some(vec![text(config.txt_octets)]),
            rtype::MX if types => Some(vec![[&[0, 10], owner.as_wire()].concat()]),
            rtype::HTTPS if types => Some(vec![https(ipv4, self.ipv6(ipv4))]),
            _ => None,
        }
    }

    fn ipv6(&self, ipv4: Ipv4Addr) -> Option<Ipv6Addr> {
        let config = self.config();
        names::has_aaaa(ipv4, config.aaaa_share_percent).then(|| config.aaaa_prefix.embed(ipv4))
    }

    fn host_name(&self, ipv4: Ipv4Addr) -> Name {
        let mut label = [0; LABEL_LENGTH];
        names::write_label(ipv4, &mut label);
        // The suffix leaves room for it.
        self.suffix().below(&label).unwrap_or(Name::ROOT)
    }
}

/// A TXT record with so many octets of text, in as few strings as possible.
fn text(octets: u16) -> Vec<u8> {
    const STRING_OCTETS_MAX: usize = 255;
    if octets == 0 {
        return vec![0];
    }
    let letters: Vec<u8> = (b'a'..=b'z').cycle().take(octets.into()).collect();
    letters.chunks(STRING_OCTETS_MAX).flat_map(|string| [&[string.len() as u8], string].concat()).collect()
}

/// An HTTPS record in ServiceMode for the owner itself: HTTP/2, and its addresses as hints (RFC 9460 9).
fn https(ipv4: Ipv4Addr, ipv6: Option<Ipv6Addr>) -> Vec<u8> {
    const ALPN: u8 = 1;
    const IPV4_HINT: u8 = 4;
    const IPV6_HINT: u8 = 6;
    let mut rdata = vec![0, 1, 0];
    rdata.extend([0, ALPN, 0, 3, 2, b'h', b'2']);
    rdata.extend([0, IPV4_HINT, 0, 4]);
    rdata.extend(ipv4.octets());
    if let Some(ipv6) = ipv6 {
        rdata.extend([0, IPV6_HINT, 0, 16]);
        rdata.extend(ipv6.octets());
    }
    rdata
}
