//! UDP datagrams as they are on Ethernet: IPv4 (RFC 791) or IPv6 (RFC 8200) with UDP (RFC 768), without VLAN
//! tags, options or extension headers.
//!
//! Nothing here allocates. Checksums are always computed in full: those of frames from a local socket are not
//! complete when a program sees them, so that there is nothing to update.

mod answer;
mod intact;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub use answer::{ANSWER_HEADERS_OCTETS_MAX, QueryFrame};
pub use intact::may_be_intact;

/// The Ethernet header: destination, source, type.
pub const ETHERNET_OCTETS: usize = 14;
/// The headers of a frame with IPv4.
pub const HEADERS_V4_OCTETS: usize = ETHERNET_OCTETS + IPV4_OCTETS + UDP_OCTETS;
/// The headers of a frame with IPv6.
pub const HEADERS_V6_OCTETS: usize = ETHERNET_OCTETS + IPV6_OCTETS + UDP_OCTETS;

const IPV4_OCTETS: usize = 20;
const IPV6_OCTETS: usize = 40;
const UDP_OCTETS: usize = 8;
const TYPE_IPV4: [u8; 2] = [0x08, 0x00];
const TYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const PROTOCOL_UDP: u8 = 17;
const HOPS: u8 = 64;

/// The headers of all frames from one socket to another; what depends on the payload is filled in for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    headers: [u8; HEADERS_V6_OCTETS],
    octets: usize,
    /// Sum over the IPv4 header without its length.
    ip_sum: u64,
    /// Sum over the pseudo-header and the UDP header without the length, which stands in both.
    udp_sum: u64,
}

impl Template {
    /// Headers from `source` to `destination`. `None` if one is an IPv4 and the other an IPv6 address.
    ///
    /// IPv4 packets must not be fragmented and carry no identification (RFC 6864); IPv6 flow labels are 0.
    pub fn new(
        source_mac: [u8; 6],
        destination_mac: [u8; 6],
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Option<Self> {
        let mut headers = [0; HEADERS_V6_OCTETS];
        headers[0..6].copy_from_slice(&destination_mac);
        headers[6..12].copy_from_slice(&source_mac);
        let (ethernet, ip) = headers.split_at_mut(ETHERNET_OCTETS);
        let (ether_type, octets) = match (source.ip(), destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                write_v4(ip, source, destination);
                (TYPE_IPV4, HEADERS_V4_OCTETS)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                write_v6(ip, source, destination);
                (TYPE_IPV6, HEADERS_V6_OCTETS)
            }
            _ => return None,
        };
        ethernet[12..].copy_from_slice(&ether_type);
        let udp = octets - UDP_OCTETS;
        headers[udp..udp + 2].copy_from_slice(&source.port().to_be_bytes());
        headers[udp + 2..udp + 4].copy_from_slice(&destination.port().to_be_bytes());
        let mut template = Self { headers, octets, ip_sum: 0, udp_sum: 0 };
        template.ip_sum = sum(&template.headers[ETHERNET_OCTETS..udp]);
        let addresses = if source.is_ipv4() { 8 } else { 32 };
        template.udp_sum = sum(&template.headers[udp - addresses..octets]) + word(PROTOCOL_UDP.into());
        Some(template)
    }

    /// Where the payload starts: [`HEADERS_V4_OCTETS`] or [`HEADERS_V6_OCTETS`].
    pub fn payload_offset(&self) -> usize {
        self.octets
    }

    /// Writes the headers before a payload that stands in `frame` already, from [`Template::payload_offset`]
    /// on. Returns the length of the frame, in octets. Frames below Ethernet's 60 octets are left to the
    /// device to pad.
    ///
    /// # Panics
    /// The frame does not hold the headers and the payload, or the payload is longer than a datagram can be.
    pub fn complete(&self, frame: &mut [u8], payload_octets: usize) -> usize {
        let end = self.octets + payload_octets;
        let frame = &mut frame[..end];
        frame[..self.octets].copy_from_slice(&self.headers[..self.octets]);
        let udp = self.octets - UDP_OCTETS;
        let udp_length = (UDP_OCTETS + payload_octets) as u64;
        if self.octets == HEADERS_V4_OCTETS {
            let total = udp_length + IPV4_OCTETS as u64;
            assert!(total <= u64::from(u16::MAX), "a datagram of {payload_octets} octets");
            frame[16..18].copy_from_slice(&(total as u16).to_be_bytes());
            frame[24..26].copy_from_slice(&fold(self.ip_sum + word(total)));
        } else {
            assert!(udp_length <= u64::from(u16::MAX), "a datagram of {payload_octets} octets");
            frame[18..20].copy_from_slice(&(udp_length as u16).to_be_bytes());
        }
        frame[udp + 4..udp + 6].copy_from_slice(&(udp_length as u16).to_be_bytes());
        let checksum = fold(self.udp_sum + 2 * word(udp_length) + sum(&frame[self.octets..]));
        // Zero would say that there is no checksum (RFC 768).
        frame[udp + 6..udp + 8].copy_from_slice(if checksum == [0; 2] { &[0xff; 2] } else { &checksum });
        end
    }
}

/// Writes an IPv4 header, but for its length and checksum, into zeros.
fn write_v4(ip: &mut [u8], source: Ipv4Addr, destination: Ipv4Addr) {
    ip[0] = 0x45;
    ip[6] = 0x40; // do not fragment
    ip[8] = HOPS;
    ip[9] = PROTOCOL_UDP;
    ip[12..16].copy_from_slice(&source.octets());
    ip[16..20].copy_from_slice(&destination.octets());
}

/// Writes an IPv6 header, but for its length, into zeros.
fn write_v6(ip: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) {
    ip[0] = 0x60;
    ip[6] = PROTOCOL_UDP;
    ip[7] = HOPS;
    ip[8..24].copy_from_slice(&source.octets());
    ip[24..40].copy_from_slice(&destination.octets());
}

/// The sum of RFC 1071 in the host's order, not yet folded.
pub fn sum(octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let whole: u64 = words.iter().map(|&word| u64::from(u32::from_ne_bytes(word))).sum();
    whole + u64::from(u32::from_ne_bytes(last))
}

/// What a number of 16 bits in network order adds to a sum.
pub fn word(value: u64) -> u64 {
    u64::from((value as u16).to_be())
}

/// The checksum of a sum, as it stands in a header.
pub fn fold(sum: u64) -> [u8; 2] {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    (!(sum as u16)).to_ne_bytes()
}

/// A datagram in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'f> {
    /// Who sent it.
    pub source: SocketAddr,
    /// Whom it is for.
    pub destination: SocketAddr,
    /// What it carries.
    pub payload: &'f [u8],
}

/// The datagram that a frame carries. `None` for anything else: other protocols, VLAN tags, fragments, IPv6
/// extension headers, and lengths that do not fit. Checksums are not looked at; see [`has_valid_checksums`].
pub fn parse(frame: &[u8]) -> Option<Datagram<'_>> {
    parse_packet(frame.get(12..14)?.try_into().ok()?, &frame[ETHERNET_OCTETS..])
}

fn parse_packet(ether_type: [u8; 2], packet: &[u8]) -> Option<Datagram<'_>> {
    let (source, destination, udp) = match ether_type {
        TYPE_IPV4 => parse_v4(packet)?,
        TYPE_IPV6 => parse_v6(packet)?,
        _ => return None,
    };
    let length = usize::from(u16_at(udp, 4)?);
    Some(Datagram {
        source: SocketAddr::new(source, u16_at(udp, 0)?),
        destination: SocketAddr::new(destination, u16_at(udp, 2)?),
        payload: udp.get(UDP_OCTETS..length)?,
    })
}

fn parse_v4(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let header: &[u8; IPV4_OCTETS] = packet.first_chunk()?;
    let header_octets = usize::from(header[0] & 0xf) * 4;
    let is_fragment = u16_at(header, 6)? & 0x3fff != 0;
    if header[0] >> 4 != 4 || header_octets < IPV4_OCTETS || header[9] != PROTOCOL_UDP || is_fragment {
        return None;
    }
    let address = |at: usize| header[at..].first_chunk::<4>().copied().map(IpAddr::from);
    let udp = packet.get(header_octets..usize::from(u16_at(header, 2)?))?;
    Some((address(12)?, address(16)?, udp))
}

fn parse_v6(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let header: &[u8; IPV6_OCTETS] = packet.first_chunk()?;
    if header[0] >> 4 != 6 || header[6] != PROTOCOL_UDP {
        return None;
    }
    let address = |at: usize| header[at..].first_chunk::<16>().copied().map(IpAddr::from);
    let udp = packet[IPV6_OCTETS..].get(..usize::from(u16_at(header, 4)?))?;
    Some((address(8)?, address(24)?, udp))
}

fn u16_at(octets: &[u8], offset: usize) -> Option<u16> {
    octets.get(offset..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// Whether the checksums of a frame with a datagram are right. They are not, and need not be, in frames that
/// come from a socket of this machine over veth: their checksums would be computed by the device.
pub fn has_valid_checksums(frame: &[u8]) -> bool {
    let Some(datagram) = parse(frame) else { return false };
    let ip = &frame[ETHERNET_OCTETS..];
    let (header_octets, addresses) = match datagram.source {
        SocketAddr::V4(_) => (usize::from(ip[0] & 0xf) * 4, &ip[12..20]),
        SocketAddr::V6(_) => (IPV6_OCTETS, &ip[8..40]),
    };
    if datagram.source.is_ipv4() && fold(sum(&ip[..header_octets])) != [0; 2] {
        return false;
    }
    let length = UDP_OCTETS + datagram.payload.len();
    let udp = &ip[header_octets..][..length];
    // Without a checksum there is nothing to be wrong, but only IPv4 allows that (RFC 8200, section 8.1).
    if udp[6..8] == [0; 2] {
        return datagram.source.is_ipv4();
    }
    fold(sum(addresses) + word(PROTOCOL_UDP.into()) + word(length as u64) + sum(udp)) == [0; 2]
}

/// How many words of 8 octets stand in a range before a last one up to its end.
pub fn whole_words(from: usize, end: usize) -> usize {
    (end - from - 1) / 8
}

/// The 8 octets from `at` on as a word in the order of this machine; 0 beyond the end.
pub fn word_at(octets: &[u8], at: usize) -> u64 {
    octets[at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
    const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

    fn build(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
        let template = Template::new(A, B, source.parse().unwrap(), destination.parse().unwrap()).unwrap();
        let mut frame = vec![0xee; 2048];
        frame[template.payload_offset()..][..payload.len()].copy_from_slice(payload);
        let octets = template.complete(&mut frame, payload.len());
        frame.truncate(octets);
        frame
    }

    fn octets(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    /// Computed octet by octet elsewhere.
    const QUERY_V4: &str = "02000000000b 02000000000a 0800
        45000021 00004000 4011aea4 c6120001 c6120002 10000035 000d138f 7175657279";
    const QUERY_V6: &str = "02000000000b 02000000000a 86dd
        60000000 000e1140 20010002000000000000000000000001 20010002000000000000000000000002
        10000035 000e5f8b 717565727921";

    #[test]
    fn frames_are_those_known_from_elsewhere() {
        let v4 = build("198.18.0.1:4096", "198.18.0.2:53", b"query");
        assert_eq!(v4, octets(QUERY_V4));
        let v6 = build("[2001:2::1]:4096", "[2001:2::2]:53", b"query!");
        assert_eq!(v6, octets(QUERY_V6));
        for (frame, payload) in [(&v4, &b"query"[..]), (&v6, &b"query!"[..])] {
            let datagram = parse(frame).unwrap();
            assert_eq!((datagram.source.port(), datagram.destination.port()), (4096, 53));
            assert_eq!(datagram.payload, payload);
            assert!(has_valid_checksums(frame));
        }
        let mixed = Template::new(A, B, "198.18.0.1:1".parse().unwrap(), "[::1]:2".parse().unwrap());
        assert_eq!(mixed, None);
    }

    /// Ethernet pads short frames: the padding is not payload.
    #[test]
    fn padding_does_not_become_payload() {
        let mut frame = octets(QUERY_V4);
        frame.resize(60, 0xaa);
        assert_eq!(parse(&frame).unwrap().payload, b"query");
        assert!(has_valid_checksums(&frame));
    }

    /// Among 65536 payloads one has the checksum 0, which is sent as its other form.
    #[test]
    fn a_checksum_is_never_absent() {
        let template =
            Template::new(A, B, "[2001:2::1]:4096".parse().unwrap(), "[2001:2::2]:53".parse().unwrap())
                .unwrap();
        let mut seen_ones = false;
        let mut frame = [0; 128];
        for value in 0..=u16::MAX {
            frame[HEADERS_V6_OCTETS..][..2].copy_from_slice(&value.to_be_bytes());
            let octets = template.complete(&mut frame, 2);
            assert_ne!(frame[60..62], [0; 2]);
            seen_ones |= frame[60..62] == [0xff; 2];
            assert!(has_valid_checksums(&frame[..octets]));
        }
        assert!(seen_ones);
    }

    #[test]
    fn any_changed_octet_of_the_packet_breaks_the_checksum_or_the_form() {
        for (text, start) in [(QUERY_V4, ETHERNET_OCTETS), (QUERY_V6, ETHERNET_OCTETS)] {
            let frame = octets(text);
            for at in start..frame.len() {
                let mut changed = frame.clone();
                changed[at] ^= 0x10;
                // IPv6 has no checksum over the class, the flow label and the hop limit.
                let is_covered = text == QUERY_V4 || !(15..18).contains(&at) && at != 21 && at != 14;
                assert!(!(is_covered && has_valid_checksums(&changed)), "octet {at}");
            }
        }
    }

    #[test]
    fn what_is_not_a_datagram_is_none_however_it_is_cut() {
        for text in [QUERY_V4, QUERY_V6] {
            let frame = octets(text);
            for end in 0..frame.len() {
                assert_eq!(parse(&frame[..end]), None, "{end} octets");
            }
            for at in 0..frame.len() {
                for value in [0, 0x0f, 0x7f, 0xff] {
                    let mut changed = frame.clone();
                    changed[at] = value;
                    let _ = (parse(&changed), has_valid_checksums(&changed));
                }
            }
        }
        let mut fragment = octets(QUERY_V4);
        fragment[20] = 0x20;
        assert_eq!(parse(&fragment), None);
    }
}
