//! Checks whether a frame arrived undamaged (checksums).

use super::{UDP_OCTETS, fold, has_valid_checksums, parse, sum, word};

/// Whether the checksums of a frame with a datagram are right, as far as they have been computed. A frame
/// from a socket of this machine, over veth or from a virtual machine's host, has only the sum over its
/// pseudo-header, which the device was to complete; it has been through no wire.
pub fn may_be_intact(frame: &[u8]) -> bool {
    has_valid_checksums(frame) || is_left_to_device(frame)
}

fn is_left_to_device(frame: &[u8]) -> bool {
    let Some(datagram) = parse(frame) else { return false };
    let octets = UDP_OCTETS + datagram.payload.len();
    let (header_octets, addresses) = if datagram.source.is_ipv4() {
        (usize::from(frame[super::ETHERNET_OCTETS] & 0xf) * 4, 12..20)
    } else {
        (super::IPV6_OCTETS, 8..40)
    };
    let ip = &frame[super::ETHERNET_OCTETS..];
    let pseudo_header = sum(&ip[addresses]) + word(super::PROTOCOL_UDP.into()) + word(octets as u64);
    let [high, low] = fold(pseudo_header);
    ip[header_octets + 6..header_octets + 8] == [!high, !low]
}

#[cfg(test)]
mod tests {
    use super::super::Template;
    use super::*;

    #[test]
    fn sums_that_are_right_or_left_to_the_device_are_intact_and_others_not() {
        for (source, destination, sum_at, addresses) in [
            ("198.18.0.1:4096", "198.18.0.2:53", 40, 26..34),
            ("[2001:2::1]:4096", "[2001:2::2]:53", 60, 22..54),
        ] {
            let ends = [source, destination].map(|end| end.parse().unwrap());
            let template = Template::new([2; 6], [4; 6], ends[0], ends[1]).unwrap();
            let mut frame = vec![0; template.payload_offset()];
            frame.extend(b"query");
            template.complete(&mut frame, 5);
            assert!(may_be_intact(&frame));
            *frame.last_mut().unwrap() ^= 1;
            assert!(!may_be_intact(&frame));
            // The sum over addresses, protocol and length in 16-bit words, by hand.
            let words = frame[addresses].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
            let partial = words.sum::<u32>() + 17 + 13;
            let partial = ((partial & 0xffff) + (partial >> 16)) as u16;
            frame[sum_at..sum_at + 2].copy_from_slice(&partial.to_be_bytes());
            assert!(may_be_intact(&frame));
            frame[sum_at] ^= 1;
            assert!(!may_be_intact(&frame));
        }
        assert!(!may_be_intact(&[0; 20]));
    }
}
