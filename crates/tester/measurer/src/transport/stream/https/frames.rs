//! Frames of HTTP/2 (RFC 9113 4, 6).

/// The types of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(pub u8);

impl Kind {
    pub const DATA: Self = Self(0);
    pub const HEADERS: Self = Self(1);
    pub const RST_STREAM: Self = Self(3);
    pub const SETTINGS: Self = Self(4);
    pub const PUSH_PROMISE: Self = Self(5);
    pub const PING: Self = Self(6);
    pub const GOAWAY: Self = Self(7);
    pub const WINDOW_UPDATE: Self = Self(8);
    pub const CONTINUATION: Self = Self(9);
}

/// Flags of frames.
pub(super) mod flag {
    pub(in super::super) const ACK: u8 = 0x1;
    pub(in super::super) const END_STREAM: u8 = 0x1;
    pub(in super::super) const END_HEADERS: u8 = 0x4;
    pub(in super::super) const PADDED: u8 = 0x8;
    pub(in super::super) const PRIORITY: u8 = 0x20;
}

/// Parameters of SETTINGS (RFC 9113 6.5.2).
pub(super) mod setting {
    pub(in super::super) const HEADER_TABLE_SIZE: u16 = 1;
    pub(in super::super) const ENABLE_PUSH: u16 = 2;
    pub(in super::super) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(in super::super) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(in super::super) const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// The code of a stream that is not wanted any more (RFC 9113 7).
pub(super) const CANCEL: u32 = 8;
/// No frame from the server is longer, as the Tester allows none (RFC 9113 6.5.2).
const PAYLOAD_OCTETS_MAX: usize = 16_384;
const HEADER_OCTETS: usize = 9;
/// The highest bit of stream identifiers, windows and increments is reserved.
const RESERVED: u32 = 1 << 31;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub kind: Kind,
    pub flags: u8,
    pub stream: u32,
    pub payload: &'a [u8],
}

/// A frame longer than the Tester allows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl<'a> Frame<'a> {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload without padding, and without the priority in front of fields; `None` if they do not fit.
    pub fn content(&self) -> Option<&'a [u8]> {
        let mut content = self.payload;
        if self.has(flag::PADDED) {
            let (&padding, rest) = content.split_first()?;
            content = rest.get(..rest.len().checked_sub(padding.into())?)?;
        }
        if self.kind == Kind::HEADERS && self.has(flag::PRIORITY) {
            content = content.get(5..)?;
        }
        Some(content)
    }

    /// The first number of the payload of 31 bits.
    pub fn number(&self) -> Option<u32> {
        self.payload.first_chunk().map(|octets| u32::from_be_bytes(*octets) & !RESERVED)
    }

    /// Splits the first frame from the rest; `None` if it is not whole yet.
    fn split(octets: &'a [u8]) -> Result<Option<(Self, &'a [u8])>, TooLong> {
        let Some((header, rest)) = octets.split_first_chunk::<HEADER_OCTETS>() else { return Ok(None) };
        let &[high, middle, low, kind, flags, ref stream @ ..] = header;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        if length > PAYLOAD_OCTETS_MAX {
            return Err(TooLong);
        }
        let Some((payload, rest)) = rest.split_at_checked(length) else { return Ok(None) };
        let stream = u32::from_be_bytes(*stream) & !RESERVED;
        Ok(Some((Self { kind: Kind(kind), flags, stream, payload }, rest)))
    }
}

/// The receiving side of a connection.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The beginning of a frame that is not whole yet.
    partial: Vec<u8>,
}

impl Frames {
    /// Takes octets that have arrived, and hands over every frame that is whole now.
    ///
    /// # Errors
    /// A frame is too long, or `take` has one.
    pub fn take<E: From<TooLong>>(
        &mut self,
        mut octets: &[u8],
        take: &mut impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !self.partial.is_empty() && !octets.is_empty() {
            let missing = self.missing().min(octets.len());
            self.partial.extend_from_slice(&octets[..missing]);
            octets = &octets[missing..];
            if let Some((frame, _)) = Frame::split(&self.partial)? {
                take(frame)?;
                self.partial.clear();
            }
        }
        while let Some((frame, rest)) = Frame::split(octets)? {
            take(frame)?;
            octets = rest;
        }
        self.partial.extend_from_slice(octets);
        Ok(())
    }

    /// How many octets the frame lacks, or its header.
    fn missing(&self) -> usize {
        let length = match self.partial.first_chunk::<HEADER_OCTETS>() {
            Some([high, middle, low, ..]) => u32::from_be_bytes([0, *high, *middle, *low]) as usize,
            None => 0,
        };
        HEADER_OCTETS + length - self.partial.len()
    }
}

/// Begins a frame whose payload is appended by the caller; returns what [`finish`] needs.
pub(super) fn begin(kind: Kind, flags: u8, stream: u32, output: &mut Vec<u8>) -> usize {
    let at = output.len();
    output.extend_from_slice(&[0, 0, 0, kind.0, flags]);
    output.extend_from_slice(&stream.to_be_bytes());
    at
}

/// Writes the length of a frame.
pub(super) fn finish(at: usize, output: &mut [u8]) {
    let length = (output.len() - at - HEADER_OCTETS) as u32;
    output[at..at + 3].copy_from_slice(&length.to_be_bytes()[1..]);
}

/// Appends a frame.
pub(super) fn push((kind, flags, stream): (Kind, u8, u32), payload: &[u8], output: &mut Vec<u8>) {
    let at = begin(kind, flags, stream, output);
    output.extend_from_slice(payload);
    finish(at, output);
}

/// The name of an error code (RFC 9113 7).
pub(super) fn code_name(code: u32) -> String {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(code as usize).map_or_else(|| format!("{code:#x}"), |&name| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Seen = Vec<(u8, u8, u32, Vec<u8>)>;

    fn taken(frames: &mut Frames, octets: &[u8], seen: &mut Seen) -> Result<(), TooLong> {
        frames.take(octets, &mut |frame| {
            seen.push((frame.kind.0, frame.flags, frame.stream, frame.payload.to_vec()));
            Ok(())
        })
    }

    proptest! {
        #[test]
        fn frames_come_whole_however_the_octets_are_cut(
            sent in prop::collection::vec((0u8..12, any::<u8>(), 0u32..1 << 31, prop::collection::vec(any::<u8>(), 0..300)), 0..8),
            cuts in prop::collection::vec(1usize..400, 1..20),
        ) {
            let mut octets = Vec::new();
            for (kind, flags, stream, payload) in &sent {
                push((Kind(*kind), *flags, *stream), payload, &mut octets);
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
            prop_assert_eq!(seen, sent);
            prop_assert!(frames.partial.is_empty());
        }
    }

    #[test]
    fn a_frame_is_too_long_as_soon_as_its_header_is_there() {
        let (mut frames, mut seen) = (Frames::default(), Seen::new());
        assert_eq!(taken(&mut frames, &[0, 0x40, 1, 0, 0, 0, 0, 0], &mut seen), Ok(()));
        assert_eq!(taken(&mut frames, &[1], &mut seen), Err(TooLong));
    }

    #[test]
    fn padding_and_priority_are_no_content() {
        let content = |kind, flags, payload| Frame { kind, flags, stream: 1, payload }.content();
        assert_eq!(content(Kind::DATA, flag::PADDED, &[2, 7, 8, 0, 0]), Some(&[7, 8][..]));
        assert_eq!(content(Kind::DATA, flag::PADDED, &[3, 7, 8]), None);
        assert_eq!(content(Kind::DATA, flag::PADDED, &[]), None);
        let priority = flag::PADDED | flag::PRIORITY;
        assert_eq!(content(Kind::HEADERS, priority, &[1, 0, 0, 0, 0, 9, 7, 0]), Some(&[7][..]));
        assert_eq!(content(Kind::HEADERS, flag::PRIORITY, &[1, 2]), None);
    }
}
