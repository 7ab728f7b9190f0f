//! Proofs that a name or type does not exist: NSEC3 records that cover one hash each (RFC 7129 appendix B).
//!
//! NXDOMAIN stays NXDOMAIN, and no record tells of another name. No salt, no iterations (RFC 9276 3.1).

use dns64::wire::{Name, rtype};
use ring::digest;

use super::node::Node;
use super::sets::RecordSet;
use super::view::View;

/// SHA-1, no flags, no iterations, no salt, and the length of the next hash.
const NSEC3_HEAD: [u8; 6] = [1, 0, 0, 0, 0, HASH_OCTETS as u8];
const HASH_OCTETS: usize = 20;

/// A hashed owner name, as a number of 160 bits in network order.
type Hash = [u8; HASH_OCTETS];

impl View<'_> {
    /// The proof that a name has no record of the type asked for (RFC 5155 7.2.3).
    pub(super) fn deny_type(&self, node: &Node<'_>, name: &Name) -> Vec<RecordSet> {
        vec![self.matching(node, name)]
    }

    /// The proof that there is no such name, nor a wildcard for it (RFC 5155 7.2.2): the closest encloser,
    /// and that neither the next closer name nor the wildcard exists.
    pub(super) fn deny_name(&self, name: &Name) -> Vec<RecordSet> {
        let mut next_closer = *name;
        while let Some(encloser) = next_closer.parent().filter(|parent| parent.is_under(&self.apex)) {
            let node = self.node(&encloser);
            if matches!(node, Node::Missing) {
                next_closer = encloser;
                continue;
            }
            // Once where the wildcard itself is asked for.
            let wildcard = encloser.below(b"*").ok().filter(|wildcard| *wildcard != next_closer);
            let covered = [Some(next_closer), wildcard].into_iter().flatten();
            return [self.matching(&node, &encloser)]
                .into_iter()
                .chain(covered.map(|name| self.covering(&name)))
                .collect();
        }
        Vec::new()
    }

    fn matching(&self, node: &Node<'_>, name: &Name) -> RecordSet {
        let mut types = self.types(node, name);
        if !types.is_empty() {
            types.push(rtype::RRSIG);
            types.sort_unstable();
        }
        let hash = hash(name);
        self.nsec3(hash, &types, neighbour(hash, true))
    }

    fn covering(&self, name: &Name) -> RecordSet {
        let hash = hash(name);
        self.nsec3(neighbour(hash, false), &[], neighbour(hash, true))
    }

    fn nsec3(&self, owner: Hash, types: &[u16], next: Hash) -> RecordSet {
        let label = domain::utils::base32::encode_string_hex(&owner).to_ascii_lowercase();
        // The zone is checked to leave room for it.
        let owner = self.apex.below(label.as_bytes()).unwrap_or(self.apex);
        let rdata = [&NSEC3_HEAD, &next[..], &type_bitmap(types)].concat();
        RecordSet::new(owner, rtype::NSEC3, self.config().negative_ttl_s, vec![rdata])
    }
}

/// RFC 5155 5.
fn hash(name: &Name) -> Hash {
    let mut hash = [0; HASH_OCTETS];
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, name.to_lowercase().as_wire());
    hash.copy_from_slice(digest.as_ref());
    hash
}

/// The hash one higher or lower; the last is followed by the first.
fn neighbour(mut hash: Hash, up: bool) -> Hash {
    for octet in hash.iter_mut().rev() {
        let (changed, carry) = if up { octet.overflowing_add(1) } else { octet.overflowing_sub(1) };
        *octet = changed;
        if !carry {
            break;
        }
    }
    hash
}

/// Types in ascending order, in windows of 256 (RFC 4034 4.1.2).
fn type_bitmap(types: &[u16]) -> Vec<u8> {
    let mut bitmap = Vec::new();
    for window in types.chunk_by(|a, b| a >> 8 == b >> 8) {
        let mut bits = [0u8; 32];
        for &rtype in window {
            bits[usize::from(rtype & 0xff) / 8] |= 0x80 >> (rtype % 8);
        }
        let length = bits.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
        bitmap.extend([(window[0] >> 8) as u8, length as u8]);
        bitmap.extend(&bits[..length]);
    }
    bitmap
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_literal_hash_of_rfc_5155_without_salt_and_iterations() {
        // `nsec3hash - 1 0 example`
        let hash = hash(&Name::from_text("Example").unwrap());
        assert_eq!(domain::utils::base32::encode_string_hex(&hash), "3MSEV9USMD4BR9S97V51R2TDVMR9IQO1");
    }

    #[test]
    fn hashes_have_neighbours() {
        let one = [&[0; 19][..], &[1]].concat();
        assert_eq!(neighbour([0; 20], true)[..], one);
        assert_eq!(neighbour([0; 20], false), [0xff; 20]);
        assert_eq!(neighbour([0xff; 20], true), [0; 20]);
    }

    #[test]
    fn the_literal_bitmap_of_rfc_4034() {
        let bitmap = type_bitmap(&[1, 15, 46, 47, 1234]);
        let second = [&[4, 27][..], &[0; 26], &[0x20]].concat();
        assert_eq!(bitmap, [&[0, 6, 0x40, 1, 0, 0, 0, 3][..], &second].concat());
        assert!(type_bitmap(&[]).is_empty());
    }
}
