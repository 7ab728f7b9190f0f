//! IPv4-embedded IPv6 addresses (RFC 6052).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A DNS64 prefix of one of the six lengths that RFC 6052 2.2 allows.
///
/// ```
/// use dns64::Prefix;
/// let prefix: Prefix = "2001:db8:122:344::/64".parse().unwrap();
/// let synthesized = prefix.embed("192.0.2.33".parse().unwrap());
/// assert_eq!(synthesized.to_string(), "2001:db8:122:344:c0:2:2100:0");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    octets: [u8; 16],
    length_octets: u8,
}

/// Why a text or an address is no DNS64 prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrefixError {
    /// Not of the form ADDRESS/LENGTH.
    Syntax(String),
    /// The length is none of 32, 40, 48, 56, 64 and 96 (RFC 6052 2.2).
    Length(u8),
    /// Bits 64 to 71 of the prefix are not zero (RFC 6052 2.2).
    ReservedOctet,
    /// Bits after the prefix length are set.
    HostBits(u8),
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(text) => {
                write!(f, "'{text}' is not a prefix: write ADDRESS/LENGTH, for example 2001:db8:64::/96")
            }
            Self::Length(bits) => {
                write!(f, "prefix length {bits} is not one of 32, 40, 48, 56, 64, 96 (RFC 6052 2.2)")
            }
            Self::ReservedOctet => f.write_str("bits 64 to 71 must be zero (RFC 6052 2.2)"),
            Self::HostBits(bits) => write!(f, "bits after the first {bits} must be zero"),
        }
    }
}

impl std::error::Error for PrefixError {}

/// The octet of bits 64 to 71, which stays zero (RFC 6052 2.2).
const RESERVED_OCTET: usize = 8;

impl Prefix {
    /// The well-known prefix `64:ff9b::/96` (RFC 6052 2.1).
    pub const WELL_KNOWN: Self =
        Self { octets: [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], length_octets: 12 };

    /// Checks an address and a length in bits.
    ///
    /// # Errors
    /// Every rule of RFC 6052 2.2 that the prefix breaks has its own [`PrefixError`].
    pub fn new(address: Ipv6Addr, length_bits: u8) -> Result<Self, PrefixError> {
        if !matches!(length_bits, 32 | 40 | 48 | 56 | 64 | 96) {
            return Err(PrefixError::Length(length_bits));
        }
        let octets = address.octets();
        let length_octets = length_bits / 8;
        if length_bits == 96 && octets[RESERVED_OCTET] != 0 {
            return Err(PrefixError::ReservedOctet);
        }
        if octets[usize::from(length_octets)..].iter().any(|&octet| octet != 0) {
            return Err(PrefixError::HostBits(length_bits));
        }
        Ok(Self { octets, length_octets })
    }

    /// How an IPv4 address is cut into the halves of an IPv6 address (RFC 6052 2.2), for code that works on
    /// 64-bit words: the shift to the right into the upper half, the shift to the left into the lower half,
    /// and the mask of the bits that go there. Octet 8 stays zero.
    pub fn embedding(&self) -> (u64, u64, u64) {
        match self.length_bits() {
            32 => (0, 0, 0),
            40 => (8, 48, 0xff),
            48 => (16, 40, 0xffff),
            56 => (24, 32, 0xff_ffff),
            64 => (32, 24, 0xffff_ffff),
            _ => (32, 0, 0xffff_ffff),
        }
    }

    /// The prefix length in bits: 32, 40, 48, 56, 64 or 96.
    pub fn length_bits(&self) -> u8 {
        self.length_octets * 8
    }

    /// The prefix as an address whose other bits are zero.
    pub fn address(&self) -> Ipv6Addr {
        self.octets.into()
    }

    /// Writes an IPv4 address into the prefix (RFC 6052 2.3); the suffix is zero.
    ///
    /// This is the algorithm alone: whether the prefix *may* carry the address is [`Prefix::may_carry`].
    pub fn embed(&self, ipv4: Ipv4Addr) -> Ipv6Addr {
        let mut octets = self.octets;
        for (position, octet) in self.ipv4_positions().zip(ipv4.octets()) {
            octets[position] = octet;
        }
        octets.into()
    }

    /// Reads the IPv4 address out of an address under this prefix (RFC 6052 2.3); the suffix is ignored.
    pub fn extract(&self, ipv6: Ipv6Addr) -> Option<Ipv4Addr> {
        let octets = ipv6.octets();
        let length = usize::from(self.length_octets);
        if octets[..length] != self.octets[..length] || octets[RESERVED_OCTET] != 0 {
            return None;
        }
        let mut ipv4 = [0; 4];
        for (octet, position) in ipv4.iter_mut().zip(self.ipv4_positions()) {
            *octet = octets[position];
        }
        Some(ipv4.into())
    }

    /// Whether RFC 6052 3.1 lets this prefix represent the address: the well-known prefix must not carry
    /// non-global IPv4 addresses, except for the two of `ipv4only.arpa` (RFC 7050 5.1, RFC 8880).
    pub(crate) fn may_carry(&self, ipv4: Ipv4Addr) -> bool {
        *self != Self::WELL_KNOWN || is_global(ipv4) || IPV4ONLY_ARPA.contains(&ipv4)
    }

    fn ipv4_positions(&self) -> impl Iterator<Item = usize> {
        (usize::from(self.length_octets)..16).filter(|&position| position != RESERVED_OCTET).take(4)
    }
}

/// The addresses of `ipv4only.arpa` (RFC 7050 2.2).
pub const IPV4ONLY_ARPA: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 0, 170), Ipv4Addr::new(192, 0, 0, 171)];

/// Whether no host beyond a link can have the address: "this" network, loopback, link-local, multicast and
/// broadcast (RFC 6890, RFC 1112 4). A NAT64 has no use for it, and whoever names it means the NAT64 itself.
pub(crate) fn is_bound_to_link(ipv4: Ipv4Addr) -> bool {
    let [first, ..] = ipv4.octets();
    first == 0 || ipv4.is_loopback() || ipv4.is_link_local() || ipv4.is_multicast() || ipv4.is_broadcast()
}

/// Whether the IANA special-purpose registry (RFC 6890) calls the address globally reachable.
pub(crate) fn is_global(ipv4: Ipv4Addr) -> bool {
    let [a, b, c, d] = ipv4.octets();
    let special = match a {
        0 | 10 | 127 | 224..=255 => true,
        100 => b & 0xc0 == 64,
        169 => b == 254,
        172 => b & 0xf0 == 16,
        // 192.0.0.9 and .10 are global anycast addresses (RFC 7723, RFC 8155).
        192 => (b == 168) || (b == 0 && c == 0 && d != 9 && d != 10) || (b == 0 && c == 2),
        198 => b & 0xfe == 18 || (b == 51 && c == 100),
        203 => b == 0 && c == 113,
        _ => false,
    };
    !special
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let syntax = || PrefixError::Syntax(text.to_owned());
        let (address, length) = text.split_once('/').ok_or_else(syntax)?;
        Self::new(address.parse().map_err(|_| syntax())?, length.parse().map_err(|_| syntax())?)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(), self.length_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 6052 2.4, Table 1 and Table 2, and RFC 6147's own examples of embedding.
    #[test]
    fn every_literal_example_of_rfc_6052() {
        let examples = [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
            ("64:ff9b::/96", "64:ff9b::192.0.2.33"),
        ];
        let ipv4: Ipv4Addr = "192.0.2.33".parse().unwrap();
        for (prefix, expected) in examples {
            let prefix: Prefix = prefix.parse().unwrap();
            let expected: Ipv6Addr = expected.parse().unwrap();
            assert_eq!(prefix.embed(ipv4), expected, "{prefix}");
            assert_eq!(prefix.extract(expected), Some(ipv4), "{prefix}");
        }
    }

    #[test]
    fn rejects_what_the_rfc_forbids_with_its_reason() {
        let reason = |text: &str| text.parse::<Prefix>().unwrap_err();
        assert_eq!(reason("2001:db8::/0"), PrefixError::Length(0));
        assert_eq!(reason("2001:db8::/129"), PrefixError::Length(129));
        assert_eq!(reason("2001:db8::/80"), PrefixError::Length(80));
        assert_eq!(reason("2001:db8:0:0:100::/96"), PrefixError::ReservedOctet);
        assert_eq!(reason("2001:db8::1/96"), PrefixError::HostBits(96));
        assert_eq!(reason("2001:db8:1::/32"), PrefixError::HostBits(32));
        assert_eq!(reason("2001:db8::"), PrefixError::Syntax("2001:db8::".into()));
        assert_eq!(reason("192.0.2.0/32"), PrefixError::Syntax("192.0.2.0/32".into()));
        assert!(PrefixError::ReservedOctet.to_string().contains("bits 64 to 71 must be zero"));
    }

    #[test]
    fn the_well_known_prefix_carries_global_addresses_only() {
        let local: Prefix = "64:ff9b:1:fffe::/96".parse().unwrap();
        for refused in
            ["10.0.0.1", "127.0.0.1", "192.168.1.1", "100.64.0.1", "198.18.0.1", "0.0.0.0", "224.0.0.1"]
        {
            let ipv4 = refused.parse().unwrap();
            assert!(!Prefix::WELL_KNOWN.may_carry(ipv4), "{refused}");
            assert!(local.may_carry(ipv4), "{refused}");
        }
        for carried in ["192.0.0.170", "192.0.0.171", "8.8.8.8", "100.128.0.1", "198.20.0.1", "192.0.0.9"] {
            assert!(Prefix::WELL_KNOWN.may_carry(carried.parse().unwrap()), "{carried}");
        }
    }

    #[test]
    fn reading_ignores_the_suffix_but_not_the_reserved_octet() {
        let prefix: Prefix = "2001:db8:122:344::/64".parse().unwrap();
        let with_suffix = "2001:db8:122:344:c0:2:21ff:1234".parse().unwrap();
        assert_eq!(prefix.extract(with_suffix), Some(Ipv4Addr::new(192, 0, 2, 33)));
        assert_eq!(prefix.extract("2001:db8:122:344:1c0:2:2100:0".parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn extract_undoes_embed(address: u128, length in prop::sample::select(vec![32u8, 40, 48, 56, 64, 96]), ipv4: u32) {
            let keep = !(u128::MAX >> length) & !(0xff << 56);
            let prefix = Prefix::new((address & keep).into(), length).unwrap();
            let embedded = prefix.embed(ipv4.into());
            prop_assert_eq!(prefix.extract(embedded), Some(Ipv4Addr::from(ipv4)));
            prop_assert_eq!(embedded.octets()[8], 0);
            prop_assert_eq!(prefix.to_string().parse::<Prefix>().unwrap(), prefix);
        }

        #[test]
        fn parsing_never_panics(text in ".{0,60}") {
            let _ = text.parse::<Prefix>();
        }
    }
}
