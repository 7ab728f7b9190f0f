//! The benchmark's names: `010-000-000-007.dns64perf.test` stands for 10.0.0.7 (dns64perf++'s name space).

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The length of the first label of a benchmark name.
pub const LABEL_LENGTH: usize = 15;

/// A range of IPv4 addresses, and with it of benchmark names.
///
/// ```
/// let names: dns64::NameSpace = "10.0.0.0/8".parse().unwrap();
/// assert_eq!(names.size(), 1 << 24);
/// assert_eq!(names.address(7).to_string(), "10.0.0.7");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameSpace {
    first: u32,
    length_bits: u8,
}

/// Why a text is no range of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameSpaceError {
    /// Not of the form ADDRESS/LENGTH with a length from 0 to 32.
    Syntax(String),
    /// Bits after the prefix length are set.
    HostBits(u8),
}

impl fmt::Display for NameSpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(text) => {
                write!(f, "'{text}' is not an IPv4 range: write ADDRESS/LENGTH, for example 10.0.0.0/8")
            }
            Self::HostBits(bits) => write!(f, "bits after the first {bits} must be zero"),
        }
    }
}

impl std::error::Error for NameSpaceError {}

impl NameSpace {
    /// The number of names in the range, 1 to 2^32.
    pub fn size(&self) -> u64 {
        1 << (32 - u32::from(self.length_bits))
    }

    /// The address of the `index`-th name; indexes beyond the range start over.
    pub fn address(&self, index: u64) -> Ipv4Addr {
        // The mask leaves at most 32 bits.
        let offset = (index & (self.size() - 1)) as u32;
        Ipv4Addr::from(self.first | offset)
    }

    /// Whether the range shares addresses with those that begin with the first `length_bits` (0 to 32) bits
    /// of `address`.
    pub fn overlaps(&self, address: Ipv4Addr, length_bits: u8) -> bool {
        let common_bits = u32::from(self.length_bits.min(length_bits));
        let differing = u32::from(address) ^ self.first;
        differing.checked_shr(32 - common_bits).unwrap_or(0) == 0
    }

    /// The number of leading bits that all addresses of the range share, 0 to 32.
    pub fn length_bits(&self) -> u8 {
        self.length_bits
    }

    /// The index of an address in the range.
    pub fn index(&self, address: Ipv4Addr) -> Option<u64> {
        let offset = u64::from(u32::from(address) ^ self.first);
        (offset < self.size()).then_some(offset)
    }

    /// The smallest range around this one with so many names; `None` if IPv4 has not as many.
    pub fn widened_to(self, names: u64) -> Option<Self> {
        let mut wide = self;
        while wide.size() < names {
            wide.length_bits = wide.length_bits.checked_sub(1)?;
            wide.first &= (u64::from(u32::MAX) & !(wide.size() - 1)) as u32;
        }
        Some(wide)
    }
}

impl FromStr for NameSpace {
    type Err = NameSpaceError;

    fn from_str(text: &str) -> Result<Self, NameSpaceError> {
        let syntax = || NameSpaceError::Syntax(text.to_owned());
        let (address, length) = text.split_once('/').ok_or_else(syntax)?;
        let first = u32::from(address.parse::<Ipv4Addr>().map_err(|_| syntax())?);
        let length_bits: u8 = length.parse().map_err(|_| syntax())?;
        if length_bits > 32 {
            return Err(syntax());
        }
        let space = Self { first, length_bits };
        if u64::from(first) & (space.size() - 1) != 0 {
            return Err(NameSpaceError::HostBits(length_bits));
        }
        Ok(space)
    }
}

impl fmt::Display for NameSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.first), self.length_bits)
    }
}

/// Writes the label of an address, for example `010-000-000-007`.
pub fn write_label(address: Ipv4Addr, label: &mut [u8; LABEL_LENGTH]) {
    for (position, octet) in address.octets().into_iter().enumerate() {
        let at = position * 4;
        label[at] = b'0' + octet / 100;
        label[at + 1] = b'0' + octet / 10 % 10;
        label[at + 2] = b'0' + octet % 10;
        if position < 3 {
            label[at + 3] = b'-';
        }
    }
}

/// Reads a label that [`write_label`] wrote; `None` for any other.
pub fn parse_label(label: &[u8]) -> Option<Ipv4Addr> {
    let label: &[u8; LABEL_LENGTH] = label.try_into().ok()?;
    let mut octets = [0; 4];
    for (position, octet) in octets.iter_mut().enumerate() {
        let at = position * 4;
        if position < 3 && label[at + 3] != b'-' {
            return None;
        }
        let mut value = 0u16;
        for &digit in &label[at..at + 3] {
            if !digit.is_ascii_digit() {
                return None;
            }
            value = value * 10 + u16::from(digit - b'0');
        }
        *octet = u8::try_from(value).ok()?;
    }
    Some(octets.into())
}

/// Reads a label without leading zeros, for example `10-0-0-7`; `None` for any other.
pub fn parse_short_label(label: &[u8]) -> Option<Ipv4Addr> {
    let text = std::str::from_utf8(label).ok()?;
    let mut parts = text.split('-');
    let mut octets = [0; 4];
    for octet in &mut octets {
        *octet = parse_octet(parts.next()?.as_bytes())?;
    }
    parts.next().is_none().then_some(octets.into())
}

/// Reads a number from 0 to 255 without sign or leading zeros.
pub fn parse_octet(digits: &[u8]) -> Option<u8> {
    let written = matches!(digits, [b'0'] | [b'1'..=b'9', ..]) && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| written)?.parse().ok()
}

/// Whether the name of this address has a AAAA record when `share_percent` (0 to 100) of all names have one.
///
/// The AuthDNS and the Measurer ask the same function, so that the Measurer knows what to expect. A
/// multiplicative hash spreads the names evenly over any run of neighbouring addresses.
pub fn has_aaaa(address: Ipv4Addr, share_percent: u8) -> bool {
    let hash = u32::from(address).wrapping_mul(0x9e37_79b1);
    (u64::from(hash) * 100) >> 32 < u64::from(share_percent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_range_is_widened_as_far_as_it_must() {
        let names: NameSpace = "10.0.0.0/8".parse().unwrap();
        let widened = |count| names.widened_to(count).map(|wide| wide.to_string());
        assert_eq!(widened(1 << 24).as_deref(), Some("10.0.0.0/8"));
        assert_eq!(widened((1 << 24) + 1).as_deref(), Some("10.0.0.0/7"));
        assert_eq!(widened(132_000_000).as_deref(), Some("8.0.0.0/5"));
        assert_eq!(widened(1 << 32).as_deref(), Some("0.0.0.0/0"));
        assert_eq!(widened((1 << 32) + 1), None);
    }

    #[test]
    fn names_follow_their_addresses() {
        let names: NameSpace = "10.0.0.0/8".parse().unwrap();
        assert_eq!(names.address(1 << 24), Ipv4Addr::new(10, 0, 0, 0), "starts over");
        assert_eq!(names.index(Ipv4Addr::new(10, 1, 2, 3)), Some(0x01_02_03));
        assert_eq!(names.index(Ipv4Addr::new(11, 0, 0, 0)), None);
        assert!(names.overlaps([10, 9, 0, 0].into(), 16) && names.overlaps([11, 9, 0, 0].into(), 7));
        assert!(names.overlaps([0; 4].into(), 0) && !names.overlaps([11, 0, 0, 0].into(), 8));
        assert_eq!("0.0.0.0/0".parse::<NameSpace>().unwrap().size(), 1 << 32);
        assert_eq!("10.0.0.1/8".parse::<NameSpace>(), Err(NameSpaceError::HostBits(8)));
        assert!("10.0.0.0/33".parse::<NameSpace>().is_err());
    }

    #[test]
    fn only_exact_labels_are_read() {
        for wrong in ["10-000-000-007", "010-000-000-256", "010_000-000-007", "010-000-000-0a7", ""] {
            assert_eq!(parse_label(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn short_labels_have_no_leading_zeros() {
        assert_eq!(parse_short_label(b"10-0-63-255"), Some([10, 0, 63, 255].into()));
        assert_eq!(parse_short_label(b"100-100-100-100"), Some([100; 4].into()));
        for wrong in
            ["010-0-0-7", "10-0-0", "10-0-0-7-1", "10-0-0-256", "10-0-+1-7", "10--0-7", "10-0-0-00", ""]
        {
            assert_eq!(parse_short_label(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn the_share_of_aaaa_is_kept_on_every_thousand_neighbours() {
        for share in [0u8, 20, 40, 60, 80, 100] {
            for first in [0u32, 0x0a00_0000, 0x0a12_3456] {
                let with = (first..first + 1000).filter(|&a| has_aaaa(a.into(), share)).count();
                assert!(with.abs_diff(usize::from(share) * 10) <= 10, "{share} % gave {with} of 1000");
            }
        }
    }

    proptest! {
        #[test]
        fn labels_round_trip(address: u32) {
            let mut label = [0; LABEL_LENGTH];
            write_label(address.into(), &mut label);
            prop_assert_eq!(parse_label(&label), Some(address.into()));
        }

        #[test]
        fn any_bytes_are_a_label_or_not(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some(address) = parse_label(&bytes) {
                let mut label = [0; LABEL_LENGTH];
                write_label(address, &mut label);
                prop_assert_eq!(&label[..], &bytes[..]);
            }
        }
    }
}
