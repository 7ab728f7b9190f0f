//! Zones that every network may have for itself, so that questions for them say something of this network and
//! nobody outside can answer them: IANA's locally-served DNS zones, and `local`.

use dns64::wire::Name;

/// Labels of a whole `ip6.arpa` name in front of `ip6` and `arpa`.
const NIBBLES: usize = 32;

/// The private zone that a name lies in.
///
/// - `local` (RFC 6762 22.1), `home.arpa` (RFC 8375 4), `service.arpa` (RFC 9665);
/// - `in-addr.arpa` zones: of private addresses (RFC 6303 4.1), of "this" network, loopback, link-local
///   addresses, the documentation networks and broadcast (4.2), of shared addresses (RFC 7793);
/// - `ip6.arpa` zones: of `::` and `::1` (RFC 6303 4.3), unique local addresses (4.4), link-local addresses
///   (4.5) and the documentation prefix (4.6).
///
/// For all other names this takes a look at the last octets alone.
pub(super) fn private_zone(name: &Name) -> Option<Name> {
    let wire = name.as_wire();
    let ends_with = |zone: &[u8]| {
        wire.len().checked_sub(zone.len()).is_some_and(|at| wire[at..].eq_ignore_ascii_case(zone))
    };
    if ends_with(b"\x05local\0") {
        return ending(name, 1).filter(|zone| zone.as_wire().len() == 7);
    }
    if !ends_with(b"\x04arpa\0") {
        return None;
    }
    let count = name.labels().count();
    let mut above = name.labels().skip(count.saturating_sub(2));
    let (second, top) = (above.next()?, above.next()?);
    if top.len() != 4 {
        return None;
    }
    let is = |label: &[u8]| second.eq_ignore_ascii_case(label);
    let below = if is(b"home") || is(b"service") {
        0
    } else if is(b"in-addr") {
        ipv4_zone(&numbers::<4>(name, count, 10))?
    } else if is(b"ip6") {
        ipv6_zone(&numbers::<NIBBLES>(name, count, 16))?
    } else {
        return None;
    };
    ending(name, below + 2)
}

/// Whether a private zone is delegated from `arpa`, so that its DS records are in the zone above and it has a
/// SOA record of its own. `local` is in no zone at all.
pub(super) fn has_parent(zone: &Name) -> bool {
    zone.labels().count() > 1
}

/// The last so many labels of a name.
fn ending(name: &Name, labels: usize) -> Option<Name> {
    let skipped = name.labels().count().checked_sub(labels)?;
    let at = name.labels().take(skipped).map(|label| label.len() + 1).sum();
    Name::parse(name.as_wire(), at).ok().map(|(name, _)| name)
}

/// The labels in front of the last two of `count`, from the right, as numbers; `None` for those that are none
/// or that are written otherwise than in reverse names.
fn numbers<const N: usize>(name: &Name, count: usize, radix: u32) -> [Option<u8>; N] {
    let mut numbers = [None; N];
    let end = count - 2;
    let start = end.saturating_sub(N);
    for (place, label) in numbers[..end - start].iter_mut().rev().zip(name.labels().skip(start)) {
        let is_plain = label.iter().all(u8::is_ascii_alphanumeric) && (label.len() == 1 || label[0] != b'0');
        let text = std::str::from_utf8(label).ok().filter(|_| is_plain);
        *place = text.and_then(|text| u8::from_str_radix(text, radix).ok());
    }
    numbers
}

/// How many labels the zone has in front of `in-addr.arpa`.
fn ipv4_zone(octets: &[Option<u8>; 4]) -> Option<usize> {
    match octets.map(|octet| octet.map(u32::from)) {
        [Some(0 | 10 | 127), ..] => Some(1),
        [Some(100), Some(64..=127), ..]
        | [Some(169), Some(254), ..]
        | [Some(172), Some(16..=31), ..]
        | [Some(192), Some(168), ..] => Some(2),
        [Some(192), Some(0), Some(2), _]
        | [Some(198), Some(51), Some(100), _]
        | [Some(203), Some(0), Some(113), _] => Some(3),
        [Some(255), Some(255), Some(255), Some(255)] => Some(4),
        _ => None,
    }
}

/// How many labels the zone has in front of `ip6.arpa`.
fn ipv6_zone(nibbles: &[Option<u8>; NIBBLES]) -> Option<usize> {
    match nibbles {
        [Some(0xf), Some(0xd), ..] => Some(2),
        [Some(0xf), Some(0xe), Some(0x8..=0xb), ..] => Some(3),
        [Some(2), Some(0), Some(0), Some(1), Some(0), Some(0xd), Some(0xb), Some(8), ..] => Some(8),
        [zeros @ .., Some(0 | 1)] if zeros.iter().all(|nibble| *nibble == Some(0)) => Some(NIBBLES),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone_of(text: &str) -> Option<String> {
        private_zone(&Name::from_text(text).unwrap()).map(|zone| zone.to_string())
    }

    #[test]
    fn every_zone_of_the_registry_is_private_and_so_is_what_lies_below() {
        let mut zones: Vec<String> = (16..=31).map(|octet| format!("{octet}.172.in-addr.arpa.")).collect();
        zones.extend((64..=127).map(|octet| format!("{octet}.100.in-addr.arpa.")));
        zones.extend(["8", "9", "a", "b"].map(|nibble| format!("{nibble}.e.f.ip6.arpa.")));
        zones.extend(["0", "1"].map(|last| format!("{last}.{}ip6.arpa.", "0.".repeat(31))));
        zones.extend(
            [
                "local.",
                "home.arpa.",
                "service.arpa.",
                "10.in-addr.arpa.",
                "168.192.in-addr.arpa.",
                "0.in-addr.arpa.",
                "127.in-addr.arpa.",
                "254.169.in-addr.arpa.",
                "2.0.192.in-addr.arpa.",
                "100.51.198.in-addr.arpa.",
                "113.0.203.in-addr.arpa.",
                "255.255.255.255.in-addr.arpa.",
                "d.f.ip6.arpa.",
                "8.b.d.0.1.0.0.2.ip6.arpa.",
            ]
            .map(str::to_owned),
        );
        for zone in zones {
            for below in ["", "x.", "1.2.3.", &"a.".repeat(60)] {
                assert_eq!(zone_of(&format!("{below}{zone}")).as_ref(), Some(&zone), "{below}");
            }
            let (first, above) = zone.split_at(zone.find('.').unwrap());
            assert_eq!(zone_of(&format!("{first}x{above}")), None, "{zone}");
            assert_eq!(zone_of(if above == "." { above } else { &above[1..] }), None, "{zone}");
        }
    }

    #[test]
    fn other_names_are_not() {
        for name in [
            ".",
            "arpa",
            "in-addr.arpa",
            "ip6.arpa",
            "xlocal",
            "local.example",
            "home.arpa.example",
            "xhome.arpa",
            "8.8.8.8.in-addr.arpa",
            "15.172.in-addr.arpa",
            "32.172.in-addr.arpa",
            "63.100.in-addr.arpa",
            "128.100.in-addr.arpa",
            "010.in-addr.arpa",
            "+10.in-addr.arpa",
            "266.in-addr.arpa",
            "a.in-addr.arpa",
            "c.f.ip6.arpa",
            "c.e.f.ip6.arpa",
            "0d.f.ip6.arpa",
            "d.0f.ip6.arpa",
            "10.ip6.arpa",
        ] {
            assert_eq!(zone_of(name), None, "{name}");
        }
        assert_eq!(zone_of("A.LOCAL"), Some("LOCAL.".to_owned()));
    }
}
