//! The frame that answers another one: back to the sender, with the same VLAN tags.

use std::net::{IpAddr, SocketAddr};

use super::{
    Datagram, ETHERNET_OCTETS, IPV4_OCTETS, IPV6_OCTETS, PROTOCOL_UDP, UDP_OCTETS, fold, parse_packet, sum,
    word, write_v4, write_v6,
};

const VLAN_TAG_OCTETS: usize = 4;
/// 802.1Q, or 802.1ad and 802.1Q.
const VLAN_TAGS_MAX: usize = 2;
const TYPES_VLAN: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];

/// The longest headers of an answer, in octets.
pub const ANSWER_HEADERS_OCTETS_MAX: usize =
    ETHERNET_OCTETS + VLAN_TAGS_MAX * VLAN_TAG_OCTETS + IPV6_OCTETS + UDP_OCTETS;

/// A frame with a datagram, behind at most two VLAN tags, that is to be answered.
#[derive(Clone, Copy, Debug)]
pub struct QueryFrame<'f> {
    frame: &'f [u8],
    ip_at: usize,
    /// What it carries.
    pub datagram: Datagram<'f>,
}

impl<'f> QueryFrame<'f> {
    /// `None` for what [`super::parse`] does not take either, but for the tags.
    pub fn parse(frame: &'f [u8]) -> Option<Self> {
        let mut ip_at = ETHERNET_OCTETS;
        for _ in 0..VLAN_TAGS_MAX {
            let ether_type: [u8; 2] = frame.get(ip_at - 2..ip_at)?.try_into().ok()?;
            if !TYPES_VLAN.contains(&ether_type) {
                break;
            }
            ip_at += VLAN_TAG_OCTETS;
        }
        let ether_type = frame.get(ip_at - 2..ip_at)?.try_into().ok()?;
        let datagram = parse_packet(ether_type, &frame[ip_at..])?;
        Some(Self { frame, ip_at, datagram })
    }

    /// Where the payload of the answer starts in its frame; at most [`ANSWER_HEADERS_OCTETS_MAX`].
    pub fn payload_offset(&self) -> usize {
        let ip_octets = if self.datagram.source.is_ipv4() { IPV4_OCTETS } else { IPV6_OCTETS };
        self.ip_at + ip_octets + UDP_OCTETS
    }

    /// Writes the headers of the answer before a payload that stands in `frame` already. Returns the length
    /// of the frame, in octets.
    ///
    /// # Panics
    /// The frame does not hold the headers and the payload, or the payload is longer than a datagram can be.
    pub fn complete(&self, frame: &mut [u8], payload_octets: usize) -> usize {
        let payload_at = self.payload_offset();
        let frame = &mut frame[..payload_at + payload_octets];
        frame[..6].copy_from_slice(&self.frame[6..12]);
        frame[6..12].copy_from_slice(&self.frame[..6]);
        frame[12..self.ip_at].copy_from_slice(&self.frame[12..self.ip_at]);
        let (to, from) = (self.datagram.source, self.datagram.destination);
        let udp_octets = UDP_OCTETS + payload_octets;
        let (ip, udp) = frame[self.ip_at..].split_at_mut(payload_at - UDP_OCTETS - self.ip_at);
        let addresses = write_ip(ip, from, to, udp_octets);
        let length = u16::try_from(udp_octets).expect("a datagram is no longer");
        udp[..2].copy_from_slice(&from.port().to_be_bytes());
        udp[2..4].copy_from_slice(&to.port().to_be_bytes());
        udp[4..6].copy_from_slice(&length.to_be_bytes());
        udp[6..8].fill(0);
        let checksum = fold(addresses + word(PROTOCOL_UDP.into()) + word(length.into()) + sum(udp));
        // Zero would say that there is no checksum (RFC 768).
        udp[6..8].copy_from_slice(if checksum == [0; 2] { &[0xff; 2] } else { &checksum });
        payload_at + payload_octets
    }
}

/// Writes an IP header before so many octets and returns the sum over its addresses.
fn write_ip(ip: &mut [u8], from: SocketAddr, to: SocketAddr, octets: usize) -> u64 {
    ip.fill(0);
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            write_v4(ip, from, to);
            ip[2..4].copy_from_slice(&((IPV4_OCTETS + octets) as u16).to_be_bytes());
            let checksum = fold(sum(ip));
            ip[10..12].copy_from_slice(&checksum);
            sum(&ip[12..20])
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            write_v6(ip, from, to);
            ip[4..6].copy_from_slice(&(octets as u16).to_be_bytes());
            sum(&ip[8..40])
        }
        _ => unreachable!("both addresses of a packet are of one family"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Template, has_valid_checksums};
    use super::*;

    #[test]
    fn an_answer_goes_back_the_way_the_question_came() {
        const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 0xa], [2, 0, 0, 0, 0, 0xb]];
        let tags: [&[u8]; 3] = [&[], &[0x81, 0, 0x20, 1], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9]];
        for (one, other) in [("198.18.0.1:4096", "198.18.0.2:53"), ("[2001:2::1]:4096", "[2001:2::2]:53")] {
            let (one, other) = (one.parse().unwrap(), other.parse().unwrap());
            let template = |macs: [_; 2], from, to| Template::new(macs[0], macs[1], from, to).unwrap();
            for (tag, octets) in tags.into_iter().zip([0, 5, 12]) {
                let question = template(MACS, one, other);
                let mut frame = vec![0; question.payload_offset()];
                frame.extend(b"query");
                question.complete(&mut frame, 5);
                frame.splice(12..12, tag.iter().copied());
                let asked = QueryFrame::parse(&frame).unwrap();
                assert_eq!(asked.datagram.payload, b"query");
                let mut answer = vec![0xee; 200];
                let payload_at = asked.payload_offset();
                answer[payload_at..payload_at + octets].fill(7);
                let length = asked.complete(&mut answer, octets);
                answer.truncate(length);

                answer.drain(12..12 + tag.len());
                let back = template([MACS[1], MACS[0]], other, one);
                let mut expected = vec![0; back.payload_offset()];
                expected.extend(vec![7; octets]);
                back.complete(&mut expected, octets);
                assert_eq!(answer, expected);
                assert!(has_valid_checksums(&answer));
                for end in 0..frame.len() {
                    assert!(QueryFrame::parse(&frame[..end]).is_none());
                }
            }
        }
    }
}
