//! Ranges of addresses of either family, as operators write them: `10.0.0.0/8`, `2001:db8::/32`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of IPv4 or of IPv6 addresses. The families never mix: `::/0` holds no IPv4 address.
///
/// ```
/// let range: dns64::Range = "10.0.0.0/8".parse().unwrap();
/// assert!(range.contains("10.1.2.3".parse().unwrap()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    bits: Bits,
    length_bits: u8,
}

/// The first address and the mask, as integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bits {
    V4(u32, u32),
    V6(u128, u128),
}

/// Why a text is no range of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeError {
    /// Not of the form ADDRESS/LENGTH with a length that suits the address.
    Syntax,
    /// Bits after the prefix length are set.
    HostBits(u8),
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => f.write_str(
                "not an address range: write ADDRESS/LENGTH, for example 10.0.0.0/8 or 2001:db8::/32",
            ),
            Self::HostBits(bits) => write!(f, "bits after the first {bits} must be zero"),
        }
    }
}

impl std::error::Error for RangeError {}

impl Range {
    /// The IPv4 addresses that share the first `length_bits` (0 to 32) bits of `address`.
    pub const fn v4(address: Ipv4Addr, length_bits: u8) -> Self {
        let mask = if length_bits == 0 { 0 } else { u32::MAX << (32 - length_bits) };
        Self { bits: Bits::V4(address.to_bits() & mask, mask), length_bits }
    }

    /// The IPv6 addresses that share the first `length_bits` (0 to 128) bits of `address`.
    pub const fn v6(address: Ipv6Addr, length_bits: u8) -> Self {
        let mask = if length_bits == 0 { 0 } else { u128::MAX << (128 - length_bits) };
        Self { bits: Bits::V6(address.to_bits() & mask, mask), length_bits }
    }

    /// Whether the address lies in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.bits, address) {
            (Bits::V4(first, mask), IpAddr::V4(address)) => address.to_bits() & mask == first,
            (Bits::V6(first, mask), IpAddr::V6(address)) => address.to_bits() & mask == first,
            _ => false,
        }
    }

    /// Whether the two ranges share addresses.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.first()) || other.contains(self.first())
    }

    /// The first address of the range.
    pub fn first(&self) -> IpAddr {
        match self.bits {
            Bits::V4(first, _) => Ipv4Addr::from(first).into(),
            Bits::V6(first, _) => Ipv6Addr::from(first).into(),
        }
    }

    /// The number of fixed leading bits.
    pub fn length_bits(&self) -> u8 {
        self.length_bits
    }
}

impl FromStr for Range {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let (address, length) = text.split_once('/').ok_or(RangeError::Syntax)?;
        let address: IpAddr = address.parse().map_err(|_| RangeError::Syntax)?;
        let length_bits: u8 = length.parse().map_err(|_| RangeError::Syntax)?;
        let range = match address {
            IpAddr::V4(v4) if length_bits <= 32 => Self::v4(v4, length_bits),
            IpAddr::V6(v6) if length_bits <= 128 => Self::v6(v6, length_bits),
            _ => return Err(RangeError::Syntax),
        };
        if range.first() != address {
            return Err(RangeError::HostBits(length_bits));
        }
        Ok(range)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first(), self.length_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(text: &str) -> Range {
        text.parse().unwrap()
    }

    #[test]
    fn families_do_not_mix() {
        assert!(range("0.0.0.0/0").contains([192, 0, 2, 1].into()));
        assert!(!range("::/0").contains([192, 0, 2, 1].into()));
        assert!(!range("0.0.0.0/0").contains(Ipv6Addr::LOCALHOST.into()));
        assert!(range("::ffff:0:0/96").contains("::ffff:192.0.2.1".parse().unwrap()));
        assert!(!range("::ffff:0:0/96").contains("::1:0:0".parse().unwrap()));
    }

    #[test]
    fn wrong_texts_are_refused() {
        for text in ["10.0.0.0", "10.0.0.0/33", "::/129", "10/8", "x/8", "10.0.0.0/-1", ""] {
            assert_eq!(text.parse::<Range>(), Err(RangeError::Syntax), "{text}");
        }
        assert_eq!("10.0.0.1/8".parse::<Range>(), Err(RangeError::HostBits(8)));
        assert_eq!("2001:db8::1/64".parse::<Range>(), Err(RangeError::HostBits(64)));
    }

    #[test]
    fn overlap_is_symmetric() {
        for (one, other, expected) in [
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.0.0.0/8", "11.0.0.0/8", false),
            ("::/0", "0.0.0.0/0", false),
        ] {
            assert_eq!(range(one).overlaps(&range(other)), expected);
            assert_eq!(range(other).overlaps(&range(one)), expected);
        }
    }

    proptest! {
        #[test]
        fn texts_round_trip(address: u128, length in 0u8..=128) {
            let range = Range::v6(address.into(), length);
            prop_assert_eq!(range.to_string().parse::<Range>(), Ok(range));
            prop_assert!(range.contains(Ipv6Addr::from(address).into()));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,40}") {
            let _ = text.parse::<Range>();
        }
    }
}
