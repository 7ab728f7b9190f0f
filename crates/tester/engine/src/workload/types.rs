//! Query types and their shares: `aaaa`, `type65`, `a=30,aaaa=70`.

use std::fmt;
use std::str::FromStr;

use dns64::wire::{CLASS_IN, rtype};

use super::spread;

/// The most types of a mix.
pub const TYPES_MAX: usize = 16;

/// Types that are asked by name (IANA), those that files of recorded queries hold among them; any other is
/// written `TYPE` and its number (RFC 3597 5).
const NAMES: [(&str, u16); 47] = [
    ("A", rtype::A),
    ("NS", rtype::NS),
    ("CNAME", rtype::CNAME),
    ("SOA", rtype::SOA),
    ("NULL", 10),
    ("PTR", rtype::PTR),
    ("HINFO", 13),
    ("MX", rtype::MX),
    ("TXT", rtype::TXT),
    ("RP", 17),
    ("AFSDB", 18),
    ("X25", 19),
    ("ISDN", 20),
    ("SIG", 24),
    ("KEY", 25),
    ("AAAA", rtype::AAAA),
    ("LOC", 29),
    ("SRV", rtype::SRV),
    ("NAPTR", 35),
    ("KX", 36),
    ("CERT", 37),
    ("A6", 38),
    ("DNAME", rtype::DNAME),
    ("APL", 42),
    ("DS", rtype::DS),
    ("SSHFP", 44),
    ("IPSECKEY", 45),
    ("RRSIG", rtype::RRSIG),
    ("NSEC", 47),
    ("DNSKEY", 48),
    ("DHCID", 49),
    ("NSEC3", 50),
    ("NSEC3PARAM", 51),
    ("TLSA", 52),
    ("SMIMEA", 53),
    ("CDS", 59),
    ("CDNSKEY", 60),
    ("OPENPGPKEY", 61),
    ("CSYNC", 62),
    ("ZONEMD", 63),
    ("SVCB", 64),
    ("HTTPS", 65),
    ("SPF", 99),
    ("TKEY", 249),
    ("ANY", rtype::ANY),
    ("URI", 256),
    ("CAA", 257),
];

/// The number of a query type by its name, in any case; `None` if it is none.
///
/// ```
/// assert_eq!(engine::workload::type_number("aaaa"), Some(28));
/// assert_eq!(engine::workload::type_number("TYPE65"), Some(65));
/// ```
pub fn type_number(name: &str) -> Option<u16> {
    let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, number)| *number);
    let generic = || name.get(..4).filter(|head| head.eq_ignore_ascii_case("TYPE")).and(name.get(4..));
    known.or_else(|| generic()?.parse().ok().filter(|number| *number > 0))
}

/// The name of a query type by its number; of one without a name `TYPE` and the number (RFC 3597 5).
pub fn type_name(number: u16) -> String {
    let known = NAMES.iter().find(|(_, known)| *known == number);
    known.map_or_else(|| format!("TYPE{number}"), |(name, _)| (*name).to_owned())
}

/// Types and their shares, interleaved evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeMix {
    /// Each type with the upper end of its part of 2^32.
    parts: [(u16, u64); TYPES_MAX],
    count: u8,
}

/// The class of the queries, by its IANA number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryClass(pub u16);

/// Classes that are asked by name (IANA); any other is written `CLASS` and its number (RFC 3597 5).
const CLASSES: [(&str, u16); 5] = [("IN", CLASS_IN), ("CH", 3), ("HS", 4), ("NONE", 254), ("ANY", 255)];

impl Default for QueryClass {
    fn default() -> Self {
        Self(CLASS_IN)
    }
}

impl fmt::Display for QueryClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = CLASSES.iter().find(|(_, number)| *number == self.0);
        match known {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "CLASS{}", self.0),
        }
    }
}

impl FromStr for QueryClass {
    type Err = TypeError;

    fn from_str(text: &str) -> Result<Self, TypeError> {
        let known = CLASSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        let generic = || text.get(..5).filter(|head| head.eq_ignore_ascii_case("CLASS")).and(text.get(5..));
        let number = known.map(|(_, number)| *number).or_else(|| generic()?.parse().ok());
        let number = number.filter(|number| *number > 0);
        number.map(Self).ok_or_else(|| {
            TypeError(format!("'{text}' is no class: write in, ch, hs, none, any, or for example CLASS65280"))
        })
    }
}

impl Default for TypeMix {
    fn default() -> Self {
        Self::of(rtype::AAAA)
    }
}

impl TypeMix {
    /// One type alone.
    pub fn of(qtype: u16) -> Self {
        let mut parts = [(0, 0); TYPES_MAX];
        parts[0] = (qtype, 1 << 32);
        Self { parts, count: 1 }
    }

    /// The types.
    pub fn types(&self) -> impl Iterator<Item = u16> {
        self.parts[..usize::from(self.count)].iter().map(|(qtype, _)| *qtype)
    }

    /// Whether there is only one, and which.
    pub fn only(&self) -> Option<u16> {
        (self.count == 1).then_some(self.parts[0].0)
    }

    /// The type of query `n`.
    pub fn at(&self, n: u64) -> u16 {
        if self.count == 1 {
            return self.parts[0].0;
        }
        let place = u64::from(spread::types(n));
        let parts = &self.parts[..usize::from(self.count)];
        parts.iter().find(|(_, end)| place < *end).map_or(self.parts[0].0, |(qtype, _)| *qtype)
    }
}

impl fmt::Display for TypeMix {
    /// Numbers and shares in percent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = 0;
        for (index, (qtype, end)) in self.parts[..usize::from(self.count)].iter().enumerate() {
            let share_pct = (end - before) as f64 / (1u64 << 32) as f64 * 100.0;
            before = *end;
            let name = type_name(*qtype);
            write!(f, "{}{name} {share_pct:.0} %", if index > 0 { " and " } else { "" })?;
        }
        Ok(())
    }
}

/// Why a text is no mix of types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeError(String);

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TypeError {}

impl FromStr for TypeMix {
    type Err = TypeError;

    fn from_str(text: &str) -> Result<Self, TypeError> {
        let read: Vec<(u16, u64)> = text.split(',').map(part).collect::<Result<_, _>>()?;
        if read.len() > TYPES_MAX {
            return Err(TypeError(format!("{} types are too many: {TYPES_MAX} are allowed", read.len())));
        }
        let total: u64 = read.iter().map(|(_, share)| share).sum();
        let (mut parts, mut sum) = ([(0, 0); TYPES_MAX], 0);
        for (place, (qtype, share)) in parts.iter_mut().zip(&read) {
            sum += share;
            *place = (*qtype, (sum << 32) / total);
        }
        Ok(Self { parts, count: read.len() as u8 })
    }
}

/// `aaaa` or `aaaa=70`.
fn part(text: &str) -> Result<(u16, u64), TypeError> {
    let (name, share) = text.split_once('=').unwrap_or((text, "1"));
    let qtype = type_number(name).ok_or_else(|| {
        TypeError(format!("'{name}' is no query type: write for example aaaa, TYPE65 or a=30,aaaa=70"))
    })?;
    let share = share.parse().ok().filter(|share| (1..=1_000_000).contains(share));
    let share = share.ok_or_else(|| {
        TypeError(format!("the share of {name} must be a whole number from 1 to 1000000, as in a=30,aaaa=70"))
    })?;
    Ok((qtype, share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_kept_on_every_stride() {
        let mix: TypeMix = "a=30,aaaa=70".parse().unwrap();
        for (start, stride) in [(0u64, 1u64), (5, 2), (1 << 40, 3), (7, 16)] {
            let a = (0..1000).filter(|k| mix.at(start + k * stride) == rtype::A).count();
            assert!(a.abs_diff(300) <= 12, "{a} of 1000 with stride {stride}");
        }
        assert_eq!(mix.to_string(), "A 30 % and AAAA 70 %");
        assert_eq!("aaaa".parse::<TypeMix>().unwrap(), TypeMix::default());
        assert_eq!(TypeMix::of(16).only(), Some(16));
        assert_eq!(mix.types().collect::<Vec<_>>(), [1, 28]);
    }

    #[test]
    fn classes_have_names_and_numbers() {
        for (text, number) in [("in", 1), ("CH", 3), ("class65280", 65_280), ("ANY", 255)] {
            let class: QueryClass = text.parse().unwrap();
            assert_eq!((class.0, class.to_string()), (number, text.to_uppercase()));
        }
        for text in ["", "inn", "CLASS0", "CLASS65536", "CLASS", "é"] {
            assert!(text.parse::<QueryClass>().unwrap_err().to_string().contains("is no class"), "{text}");
        }
    }

    #[test]
    fn wrong_texts_say_what_is_wrong() {
        for (text, reason) in [
            ("", "'' is no query type"),
            ("quad", "'quad' is no query type"),
            ("TYPE0", "'TYPE0' is no query type"),
            ("TYPE65536", "is no query type"),
            ("a=0", "the share of a"),
            ("a=30,aaaa=x", "the share of aaaa"),
        ] {
            let error = text.parse::<TypeMix>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(vec!["a"; 17].join(",").parse::<TypeMix>().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "[aA=,0-9éT-Y]{0,40}", n: u64) {
            if let Ok(mix) = text.parse::<TypeMix>() {
                prop_assert!(mix.types().any(|qtype| qtype == mix.at(n)));
            }
        }
    }
}
