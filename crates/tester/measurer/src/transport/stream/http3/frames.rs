//! Frames of HTTP/3 (RFC 9114 7), and the integers that QUIC writes (RFC 9000 16).

use super::codes::Code;

/// The types of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(pub u64);

impl Kind {
    pub const DATA: Self = Self(0);
    pub const HEADERS: Self = Self(1);
    pub const CANCEL_PUSH: Self = Self(3);
    pub const SETTINGS: Self = Self(4);
    pub const PUSH_PROMISE: Self = Self(5);
    pub const GOAWAY: Self = Self(7);
    pub const MAX_PUSH_ID: Self = Self(0xd);

    /// Whether the type is one of HTTP/2 that may not be used (RFC 9114 7.2.8).
    fn is_of_http2(self) -> bool {
        [2, 6, 8, 9].contains(&self.0)
    }

    /// Whether the Tester reads such frames as a whole; all others but DATA are ignored (RFC 9114 9).
    fn is_known(self) -> bool {
        matches!(
            self,
            Self::HEADERS
                | Self::CANCEL_PUSH
                | Self::SETTINGS
                | Self::PUSH_PROMISE
                | Self::GOAWAY
                | Self::MAX_PUSH_ID
        )
    }
}

/// What arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// A part of the payload of a DATA frame.
    Data(&'a [u8]),
    /// A frame of another type that the Tester knows, with its payload.
    Whole(Kind, &'a [u8]),
}

/// The longest payload that is kept until it is whole.
const PAYLOAD_OCTETS_MAX: u64 = 1 << 16;
/// The longest header of a frame: two integers.
const HEADER_OCTETS_MAX: usize = 16;

/// The receiving side of one stream.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The beginning of a header, or of a payload that is kept.
    partial: Vec<u8>,
    /// The frame whose header is there, and how many octets of its payload are to come.
    begun: Option<(Kind, u64)>,
}

impl Frames {
    /// Whether the stream may end here: no frame is cut off.
    pub fn are_whole(&self) -> bool {
        self.begun.is_none() && self.partial.is_empty()
    }

    /// Takes octets that have arrived, and hands over what they are.
    ///
    /// # Errors
    /// A frame may not be sent, is too long, or `take` has an error.
    pub fn take(
        &mut self,
        mut octets: &[u8],
        take: &mut impl FnMut(Frame<'_>) -> Result<(), Code>,
    ) -> Result<(), Code> {
        loop {
            let Some((kind, left)) = self.begun else {
                match self.begin(&mut octets)? {
                    true => continue,
                    false => return Ok(()),
                }
            };
            let there = usize::try_from(left).unwrap_or(usize::MAX).min(octets.len());
            let (payload, rest) = octets.split_at(there);
            let whole = there as u64 == left;
            if kind == Kind::DATA {
                if !payload.is_empty() {
                    take(Frame::Data(payload))?;
                }
            } else if kind.is_known() && whole && self.partial.is_empty() {
                take(Frame::Whole(kind, payload))?;
            } else if kind.is_known() {
                self.partial.extend_from_slice(payload);
                if whole {
                    take(Frame::Whole(kind, &self.partial))?;
                    self.partial.clear();
                }
            }
            self.begun = if whole { None } else { Some((kind, left - there as u64)) };
            octets = rest;
            if !whole {
                return Ok(());
            }
        }
    }

    /// Takes the header of a frame; `false`: it is not whole yet.
    fn begin(&mut self, octets: &mut &[u8]) -> Result<bool, Code> {
        let before = self.partial.len();
        let more = octets.len().min(HEADER_OCTETS_MAX - before);
        let header = if before == 0 {
            split_header(octets)
        } else {
            self.partial.extend_from_slice(&octets[..more]);
            split_header(&self.partial)
        };
        let Some((kind, length, used)) = header else {
            if before == 0 {
                self.partial.extend_from_slice(octets);
            }
            *octets = &[];
            return Ok(false);
        };
        self.partial.clear();
        *octets = &octets[used - before..];
        if kind.is_of_http2() {
            return Err(Code::FRAME_UNEXPECTED);
        }
        if kind.is_known() && length > PAYLOAD_OCTETS_MAX {
            return Err(Code::EXCESSIVE_LOAD);
        }
        self.begun = Some((kind, length));
        Ok(true)
    }
}

/// The type and the length at the beginning, and how many octets they have.
fn split_header(octets: &[u8]) -> Option<(Kind, u64, usize)> {
    let (kind, rest) = split_integer(octets)?;
    let (length, rest) = split_integer(rest)?;
    Some((Kind(kind), length, octets.len() - rest.len()))
}

/// The integer at the beginning, and what follows; `None` if it is not whole.
pub(super) fn split_integer(octets: &[u8]) -> Option<(u64, &[u8])> {
    let &first = octets.first()?;
    let (number, rest) = octets.split_at_checked(1 << (first >> 6))?;
    let number =
        number[1..].iter().fold(u64::from(first & 0x3f), |so_far, &octet| so_far << 8 | u64::from(octet));
    Some((number, rest))
}

/// Appends an integer of at most 62 bits.
pub(super) fn push_integer(number: u64, output: &mut Vec<u8>) {
    let octets = number.to_be_bytes();
    match number {
        0..0x40 => output.push(octets[7]),
        0x40..0x4000 => output.extend([octets[6] | 0x40, octets[7]]),
        0x4000..0x4000_0000 => output.extend([octets[4] | 0x80, octets[5], octets[6], octets[7]]),
        _ => {
            output.push(octets[0] | 0xc0);
            output.extend_from_slice(&octets[1..]);
        }
    }
}

/// Appends a frame.
pub(super) fn push(kind: Kind, payload: &[u8], output: &mut Vec<u8>) {
    push_integer(kind.0, output);
    push_integer(payload.len() as u64, output);
    output.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn integer(number: u64) -> Vec<u8> {
        let mut octets = Vec::new();
        push_integer(number, &mut octets);
        octets
    }

    #[test]
    fn integers_of_the_rfc_are_read_and_written() {
        // RFC 9000 A.1.
        for (octets, number) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            assert_eq!(split_integer(octets), Some((number, &[][..])));
            assert_eq!(integer(number), octets);
            assert_eq!(split_integer(&octets[..octets.len() - 1]), None);
        }
        assert_eq!(split_integer(&[0x40, 0x25, 9]), Some((37, &[9][..])));
    }

    /// What came, with the parts of DATA joined.
    type Seen = Vec<(u64, Vec<u8>)>;

    fn taken(frames: &mut Frames, octets: &[u8], seen: &mut Seen) -> Result<(), Code> {
        frames.take(octets, &mut |frame| {
            match frame {
                Frame::Whole(kind, payload) => seen.push((kind.0, payload.to_vec())),
                Frame::Data(payload) => match seen.last_mut() {
                    Some((0, data)) => data.extend_from_slice(payload),
                    _ => seen.push((0, payload.to_vec())),
                },
            }
            Ok(())
        })
    }

    proptest! {
        #[test]
        fn frames_come_whole_however_the_octets_are_cut(
            sent in prop::collection::vec(
                (prop::sample::select(vec![0u64, 1, 3, 4, 5, 7, 13, 0x21, 0xf0700]), prop::collection::vec(any::<u8>(), 0..300)),
                0..8,
            ),
            cuts in prop::collection::vec(1usize..400, 1..20),
        ) {
            let (mut octets, mut expected) = (Vec::new(), Seen::new());
            for (kind, payload) in &sent {
                push(Kind(*kind), payload, &mut octets);
                match (kind, expected.last_mut()) {
                    (0, _) if payload.is_empty() => {}
                    (0, Some((0, data))) => data.extend_from_slice(payload),
                    (0x21 | 0xf0700, _) => {}
                    _ => expected.push((*kind, payload.clone())),
                }
            }
            let (mut frames, mut seen, mut rest) = (Frames::default(), Seen::new(), &octets[..]);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                taken(&mut frames, now, &mut seen).unwrap();
                rest = later;
            }
            prop_assert_eq!(seen, expected);
            prop_assert!(frames.are_whole());
        }

        #[test]
        fn whatever_comes_is_kept_within_bounds(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..20),
        ) {
            let (mut frames, mut seen) = (Frames::default(), Seen::new());
            for octets in pieces {
                if taken(&mut frames, &octets, &mut seen).is_err() {
                    break;
                }
                prop_assert!(frames.partial.len() as u64 <= PAYLOAD_OCTETS_MAX);
            }
        }
    }

    #[test]
    fn frames_that_may_not_be_are_refused_by_their_header() {
        let refused = |octets: &[u8]| taken(&mut Frames::default(), octets, &mut Seen::new()).unwrap_err();
        assert_eq!(refused(&[6, 8]), Code::FRAME_UNEXPECTED);
        assert_eq!(refused(&[1, 0x80, 1, 0, 1]), Code::EXCESSIVE_LOAD);
        // What is not kept may be as long as it likes.
        let (mut frames, mut seen) = (Frames::default(), Seen::new());
        for octets in [&[0x21, 0xff, 255, 255, 255, 255, 255, 255, 255][..], &[7; 1000]] {
            assert_eq!(taken(&mut frames, octets, &mut seen), Ok(()));
        }
        assert!(seen.is_empty() && frames.partial.is_empty() && !frames.are_whole());
    }
}
