//! What the names below the suffix are.

use std::net::Ipv4Addr;

use dns64::names;
use dns64::wire::Name;

use super::fixed::FixedSet;
use super::view::View;

/// The label of the name server.
const NS_LABEL: &[u8] = b"ns";
/// The label below which every name has an address.
const WILDCARD_LABEL: &[u8] = b"any";
/// The label of a CNAME record that leads to itself.
const LOOP_LABEL: &[u8] = b"cloop";
/// The longest chain of CNAME or DNAME records.
pub(crate) const CHAIN_LINKS_MAX: u16 = 16;
/// The longest text in a TXT record, in octets.
pub const TEXT_OCTETS_MAX: u16 = 4096;

pub(crate) enum Node<'r> {
    Apex,
    /// `ns.SUFFIX`.
    NameServer,
    Host(Ipv4Addr),
    /// A name with a TXT record of so many octets.
    Text(u16),
    /// A name with a CNAME record.
    Alias(Box<Name>),
    /// A name with a DNAME record, or one below it.
    Redirect(Box<Redirect>),
    /// A reverse name of this address.
    Pointer(Ipv4Addr),
    /// A name of the file of records.
    Fixed(&'r [FixedSet]),
    /// A name without records that others stand below (RFC 9499 7: empty non-terminal).
    Empty,
    Missing,
}

pub struct Redirect {
    pub owner: Name,
    pub target: Name,
}

/// What the label directly below the suffix says.
enum Branch {
    NameServer,
    Host(Ipv4Addr),
    Loop,
    Wildcard,
    Aliases(u16),
    Redirects(u16),
    Texts(u16),
    Unknown,
}

impl<'r> View<'r> {
    /// What a name below the suffix is: the file of records first, then the rules.
    pub(super) fn forward_node(&self, name: &Name) -> Node<'r> {
        let fixed = self.fixed();
        if fixed.is_empty() {
            return self.rule_node(name);
        }
        if self.depth(name) == 0 {
            return Node::Apex;
        }
        let sets = fixed.sets(name);
        match sets {
            Some(sets) if !sets.is_empty() => return Node::Fixed(sets),
            _ => {}
        }
        if let Some(redirect) = fixed.redirect_above(name) {
            return Node::Redirect(redirect.into());
        }
        match self.rule_node(name) {
            Node::Missing if sets.is_some() => Node::Empty,
            node => node,
        }
    }

    fn rule_node(&self, name: &Name) -> Node<'r> {
        let depth = self.depth(name);
        let Some(top) = depth.checked_sub(1).and_then(|at| name.labels().nth(at)) else { return Node::Apex };
        let first = name.labels().next().unwrap_or_default();
        match (self.branch(top), depth) {
            (Branch::NameServer, 1) => Node::NameServer,
            (Branch::Host(ipv4), 1) => Node::Host(ipv4),
            (Branch::Loop, 1) => Node::Alias(Box::new(*name)),
            (Branch::Wildcard | Branch::Aliases(_) | Branch::Texts(_), 1) => Node::Empty,
            (Branch::Wildcard, _) => self.hashed_node(name),
            (Branch::Aliases(links), 2) if self.host(first).is_some() => self
                .below_link(b'c', links - 1)
                .below(first)
                .map_or(Node::Missing, |target| Node::Alias(target.into())),
            (Branch::Texts(octets), 2) if self.host(first).is_some() => Node::Text(octets),
            (Branch::Redirects(links), _) => match self.apex.below(top) {
                Ok(owner) => {
                    let target = self.below_link(b'd', links - 1);
                    Node::Redirect(Redirect { owner, target }.into())
                }
                Err(_) => Node::Missing,
            },
            _ => Node::Missing,
        }
    }

    fn branch(&self, label: &[u8]) -> Branch {
        let rules = self.config().rules;
        if label.eq_ignore_ascii_case(NS_LABEL) {
            return Branch::NameServer;
        }
        if let Some(ipv4) = self.host(label) {
            return Branch::Host(ipv4);
        }
        if rules.wildcard && label.eq_ignore_ascii_case(WILDCARD_LABEL) {
            return Branch::Wildcard;
        }
        if rules.chains && label.eq_ignore_ascii_case(LOOP_LABEL) {
            return Branch::Loop;
        }
        match numbered(label) {
            Some((b'c', links @ 1..=CHAIN_LINKS_MAX)) if rules.chains => Branch::Aliases(links),
            Some((b'd', links @ 1..=CHAIN_LINKS_MAX)) if rules.chains => Branch::Redirects(links),
            Some((b't', octets @ 0..=TEXT_OCTETS_MAX)) if rules.types => Branch::Texts(octets),
            _ => Branch::Unknown,
        }
    }

    /// The address of a host's label, if there is such a host.
    fn host(&self, label: &[u8]) -> Option<Ipv4Addr> {
        let config = self.config();
        let short = || config.rules.short.then(|| names::parse_short_label(label)).flatten();
        names::parse_label(label)
            .or_else(short)
            .filter(|&ipv4| config.names.is_none_or(|names| names.index(ipv4).is_some()))
    }

    /// `LETTERn.SUFFIX`, or the suffix itself where no links are left.
    fn below_link(&self, letter: u8, links: u16) -> Name {
        if links == 0 {
            return self.apex;
        }
        let label = format!("{}{links}", char::from(letter));
        // As long as the name asked for, or shorter.
        self.apex.below(label.as_bytes()).unwrap_or(self.apex)
    }

    /// A name below the wildcard's label: its hash is its number in the range of names. Only printable octets
    /// make such a name.
    fn hashed_node(&self, name: &Name) -> Node<'r> {
        if !name.labels().flatten().all(u8::is_ascii_graphic) {
            return Node::Missing;
        }
        let hash = fnv1a(name.to_lowercase().as_wire());
        Node::Host(self.config().names_or_default().address(hash.into()))
    }
}

/// A letter, in lower case, and a number without leading zeros.
fn numbered(label: &[u8]) -> Option<(u8, u16)> {
    let (letter, digits) = label.split_first()?;
    let written = matches!(digits, [b'0'] | [b'1'..=b'9', ..]) && digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(digits).ok().filter(|_| written)?.parse().ok()?;
    Some((letter.to_ascii_lowercase(), number))
}

/// The 32-bit FNV-1a hash (draft-eastlake-fnv): short, and easily computed by whoever checks the answers.
fn fnv1a(octets: &[u8]) -> u32 {
    octets.iter().fold(0x811c_9dc5, |hash, &octet| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_spelling() {
        assert_eq!(numbered(b"C16"), Some((b'c', 16)));
        assert_eq!(numbered(b"t0"), Some((b't', 0)));
        for wrong in ["c", "c01", "c+1", "c1x", "", "c70000"] {
            assert_eq!(numbered(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn the_hash_is_fnv1a() {
        assert_eq!(fnv1a(b""), 0x811c_9dc5);
        assert_eq!(fnv1a(b"a"), 0xe40c_292c);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
    }
}
