//! PTR questions for synthesized addresses (RFC 6147 5.3.1).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::chain::{Position, follow, signed_type};
use crate::rewrite::{ClientQuery, WrittenAnswer, copy, rewrite};
use crate::wire::{CLASS_IN, Malformed, Message, Name, Section, Writer, rtype};

/// How a PTR question under a prefix is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// With a CNAME record to the `in-addr.arpa` name, and the records there.
    #[default]
    Cname,
    /// With the records of the `in-addr.arpa` name, as if they stood at the name asked for.
    Answer,
}

/// The octets of a full `ip6.arpa` name: 32 labels of one nibble, `ip6`, `arpa`, the root (RFC 3596 2.5).
const IP6_ARPA_LENGTH: usize = 74;
const IP6_ARPA: &[u8] = b"\x03ip6\x04arpa\0";

/// The address that an `ip6.arpa` name stands for; `None` for any other name, for one of another length and
/// for one with labels that are no hexadecimal digits.
pub fn ipv6_of(name: &Name) -> Option<Ipv6Addr> {
    let wire: &[u8; IP6_ARPA_LENGTH] = name.as_wire().try_into().ok()?;
    let (nibbles, zone) = wire.split_at(IP6_ARPA_LENGTH - IP6_ARPA.len());
    if !zone.eq_ignore_ascii_case(IP6_ARPA) {
        return None;
    }
    let mut bits = 0u128;
    for (position, label) in nibbles.chunks_exact(2).enumerate() {
        let digit = char::from(label[1]).to_digit(16).filter(|_| label[0] == 1)?;
        bits |= u128::from(digit) << (4 * position);
    }
    Some(bits.into())
}

/// The `in-addr.arpa` name of an address (RFC 1035 3.5).
pub fn in_addr_arpa(ipv4: Ipv4Addr) -> Name {
    // Four labels of up to three digits, then "in-addr", "arpa" and the root.
    let mut wire = [0u8; 4 * 4 + 14];
    let mut length = 0;
    let mut put = |octets: &[u8]| {
        wire[length..length + octets.len()].copy_from_slice(octets);
        length += octets.len();
    };
    for octet in ipv4.octets().into_iter().rev() {
        let digits = [b'0' + octet / 100, b'0' + octet / 10 % 10, b'0' + octet % 10];
        let skip = match octet {
            0..10 => 2,
            10..100 => 1,
            _ => 0,
        };
        put(&[3 - skip as u8]);
        put(&digits[skip..]);
    }
    put(b"\x07in-addr\x04arpa\0");
    // The labels written above always make a name; the root stands for the impossible.
    Name::parse(&wire, 0).map_or(Name::ROOT, |(name, _)| name)
}

/// Writes the answer to a PTR question from the reply to the question for `target`, the `in-addr.arpa` name:
/// the records of its chain ([`crate::chain`]). RCODE, authority and additional section are the reply's.
/// `cname_ttl_s` is the TTL of the CNAME record of [`Style::Cname`].
///
/// # Errors
/// Malformed records in the reply.
pub fn answer(
    style: Style,
    asked: &ClientQuery,
    target: &Name,
    reply: &Message<'_>,
    cname_ttl_s: u32,
    out: &mut [u8],
) -> Result<WrittenAnswer, Malformed> {
    let own = &asked.question.name;
    rewrite(asked, reply, out, |writer| {
        if style == Style::Cname {
            let put_target = |writer: &mut Writer<'_>| writer.name(target);
            writer.record_with(Section::Answer, own, rtype::CNAME, CLASS_IN, cname_ttl_s, put_target)?;
        }
        follow(reply, target, |place, _, record| {
            let is_pointer = record.rtype == rtype::PTR || signed_type(record) == Some(rtype::PTR);
            if place == Position::End && !is_pointer {
                return Ok(());
            }
            if style == Style::Cname || record.owner()? != *target {
                return copy(writer, record);
            }
            // Under another owner a signature proves nothing.
            if record.rtype == rtype::RRSIG {
                return Ok(());
            }
            let (pointed, _) = record.name_in_rdata(0)?;
            let put_pointed = |writer: &mut Writer<'_>| writer.name(&pointed);
            Ok(writer.record_with(Section::Answer, own, record.rtype, CLASS_IN, record.ttl, put_pointed)?)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        Name::from_text(text).unwrap()
    }

    /// The `ip6.arpa` name of an address, by the book.
    fn ip6_arpa(address: Ipv6Addr) -> String {
        let digits = address.octets().map(|octet| format!("{octet:02x}")).concat();
        let labels: Vec<String> = digits.chars().rev().map(String::from).collect();
        format!("{}.ip6.arpa", labels.join("."))
    }

    #[test]
    fn the_literal_example_of_rfc_3596() {
        let address: Ipv6Addr = "4321:0:1:2:3:4:567:89ab".parse().unwrap();
        let text = "b.a.9.8.7.6.5.0.4.0.0.0.3.0.0.0.2.0.0.0.1.0.0.0.0.0.0.0.1.2.3.4.IP6.ARPA";
        assert_eq!(ipv6_of(&name(text)), Some(address));
        assert_eq!(name(&ip6_arpa(address)), name(text));
    }

    #[test]
    fn other_names_are_no_addresses() {
        let full = ip6_arpa("64:ff9b::192.0.2.1".parse().unwrap());
        for other in [
            full.replacen('1', "g", 1),
            full.replacen("1.", "11.", 1),
            full.replacen("1.", "", 1),
            format!("0.{full}"),
            full.replace("ip6", "ip5"),
            full.replacen("1.0", "1-0", 1),
            "ip6.arpa".into(),
            ".".into(),
        ] {
            assert_eq!(ipv6_of(&name(&other)), None, "{other}");
        }
    }

    #[test]
    fn in_addr_names_have_no_leading_zeros() {
        assert_eq!(in_addr_arpa([192, 0, 2, 1].into()).to_string(), "1.2.0.192.in-addr.arpa.");
        assert_eq!(in_addr_arpa([255, 100, 10, 99].into()).to_string(), "99.10.100.255.in-addr.arpa.");
        assert_eq!(in_addr_arpa([0, 0, 0, 0].into()).to_string(), "0.0.0.0.in-addr.arpa.");
    }

    proptest! {
        #[test]
        fn names_of_addresses_round_trip(address: u128, ipv4: u32) {
            prop_assert_eq!(ipv6_of(&name(&ip6_arpa(address.into()))), Some(address.into()));
            let ipv4 = Ipv4Addr::from(ipv4);
            let [a, b, c, d] = ipv4.octets();
            prop_assert_eq!(in_addr_arpa(ipv4), name(&format!("{d}.{c}.{b}.{a}.in-addr.arpa")));
        }

        #[test]
        fn any_name_is_read_without_a_panic(octets in prop::collection::vec(any::<u8>(), 1..120)) {
            if let Ok((name, _)) = Name::parse(&octets, 0) {
                let _ = ipv6_of(&name);
            }
        }
    }
}
