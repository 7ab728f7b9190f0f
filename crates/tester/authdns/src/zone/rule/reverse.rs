//! Reverse names: the PTR records of the names' addresses (RFC 1035 3.5, RFC 3596 2.5).

use std::net::{Ipv4Addr, Ipv6Addr};

use dns64::Prefix;
use dns64::names::{self, parse_octet};
use dns64::wire::Name;

use super::node::Node;
use super::view::View;

const NIBBLE_BITS: u32 = 4;

/// The zone of the addresses that share their first so many octets with `first`.
pub(crate) fn in4_apex(first: Ipv4Addr, octets: usize) -> Name {
    let labels: String = first.octets()[..octets].iter().rev().map(|octet| format!("{octet}.")).collect();
    Name::from_text(&format!("{labels}in-addr.arpa")).expect("three short labels more at most")
}

/// The zone of a prefix; its length is a multiple of eight bits.
pub(crate) fn in6_apex(prefix: &Prefix) -> Name {
    let bits = prefix.address().to_bits();
    let nibbles = u32::from(prefix.length_bits()) / NIBBLE_BITS;
    let labels: String = (0..nibbles)
        .rev()
        .map(|nibble| format!("{:x}.", bits >> (128 - NIBBLE_BITS * (nibble + 1)) & 0xf))
        .collect();
    Name::from_text(&format!("{labels}ip6.arpa")).expect("34 short labels at most")
}

impl<'r> View<'r> {
    /// What an `in-addr.arpa` name is, whose apex holds the first so many octets of the address.
    pub(super) fn in4_node(&self, name: &Name, apex_octets: usize) -> Node<'r> {
        let depth = self.depth(name);
        let known = apex_octets + depth;
        if depth == 0 {
            return Node::Apex;
        }
        let first = self.config().names.map_or([0; 4].into(), |names| names.address(0));
        let mut octets = [0; 4];
        octets[..apex_octets].copy_from_slice(&first.octets()[..apex_octets]);
        for (position, label) in name.labels().take(depth).enumerate() {
            match (octets.get_mut(known - 1 - position), parse_octet(label)) {
                (Some(place), Some(octet)) => *place = octet,
                _ => return Node::Missing,
            }
        }
        self.block_node(octets.into(), known as u8 * 8)
    }

    /// What an `ip6.arpa` name is.
    pub(super) fn in6_node(&self, name: &Name) -> Node<'r> {
        let depth = self.depth(name) as u32;
        if depth == 0 {
            return Node::Apex;
        }
        let prefix = self.config().aaaa_prefix;
        let known_bits = u32::from(prefix.length_bits()) + depth * NIBBLE_BITS;
        if known_bits > 128 {
            return Node::Missing;
        }
        let mut bits = prefix.address().to_bits();
        for (position, label) in name.labels().take(depth as usize).enumerate() {
            let &[digit] = label else { return Node::Missing };
            let Some(nibble) = char::from(digit).to_digit(16) else { return Node::Missing };
            let at = 128 - known_bits + NIBBLE_BITS * position as u32;
            bits |= u128::from(nibble) << at;
        }
        match embedded_block(&prefix, bits, known_bits) {
            // A whole address; what follows the IPv4 address in shorter prefixes are zeros.
            Some((ipv4, _)) if known_bits == 128 => {
                if names::has_aaaa(ipv4, self.config().aaaa_share_percent) {
                    self.block_node(ipv4, 32)
                } else {
                    Node::Missing
                }
            }
            Some((ipv4, length_bits)) => match self.block_node(ipv4, length_bits) {
                Node::Missing => Node::Missing,
                _ => Node::Empty,
            },
            None => Node::Missing,
        }
    }

    /// A block of addresses: a whole one has a PTR record, a larger one is an empty non-terminal (RFC 9499
    /// 7).
    fn block_node(&self, first: Ipv4Addr, length_bits: u8) -> Node<'r> {
        if !self.config().names.is_none_or(|names| names.overlaps(first, length_bits)) {
            Node::Missing
        } else if length_bits == 32 {
            Node::Pointer(first)
        } else {
            Node::Empty
        }
    }
}

/// The block of IPv4 addresses whose embedded addresses begin with `known_bits` bits of `bits`, with its
/// length in bits.
fn embedded_block(prefix: &Prefix, bits: u128, known_bits: u32) -> Option<(Ipv4Addr, u8)> {
    let mask = u128::MAX << (128 - known_bits);
    let first = prefix.extract(Ipv6Addr::from_bits(bits))?;
    if prefix.embed(first).to_bits() & mask != bits {
        return None;
    }
    let known = prefix.embed(Ipv4Addr::BROADCAST).to_bits() & mask;
    let known = prefix.extract(Ipv6Addr::from_bits(known))?;
    Some((first, known.to_bits().count_ones() as u8))
}
