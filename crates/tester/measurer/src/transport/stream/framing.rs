//! Messages in a stream of octets, each behind its length of two octets (RFC 1035 4.2.2, RFC 7766 8).

/// The octets of a length.
pub(super) const LENGTH: usize = 2;

/// Appends a message with its length.
pub(super) fn push(message: &[u8], output: &mut Vec<u8>) {
    // Queries are far shorter than a length can say.
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    output.extend_from_slice(&length.to_be_bytes());
    output.extend_from_slice(&message[..usize::from(length)]);
}

/// The receiving side of a stream.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The beginning of a message that is not whole yet; never longer than a message and its length.
    partial: Vec<u8>,
}

impl Frames {
    /// Takes octets that have arrived, and hands over every message that is whole now.
    pub fn take(&mut self, mut octets: &[u8], message: &mut dyn FnMut(&[u8])) {
        while !self.partial.is_empty() && !octets.is_empty() {
            let wanted = match self.partial.first_chunk::<LENGTH>() {
                Some(length) => LENGTH + usize::from(u16::from_be_bytes(*length)),
                None => LENGTH,
            };
            let missing = (wanted - self.partial.len()).min(octets.len());
            self.partial.extend_from_slice(&octets[..missing]);
            octets = &octets[missing..];
            if let Some((length, rest)) = self.partial.split_first_chunk::<LENGTH>()
                && rest.len() == usize::from(u16::from_be_bytes(*length))
            {
                message(rest);
                self.partial.clear();
            }
        }
        while let Some((length, rest)) = octets.split_first_chunk::<LENGTH>() {
            let Some((whole, after)) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length))) else {
                break;
            };
            message(whole);
            octets = after;
        }
        self.partial.extend_from_slice(octets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_come_whole_however_the_stream_is_cut(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..8),
            cuts in prop::collection::vec(1usize..700, 1..20),
        ) {
            let mut stream = Vec::new();
            messages.iter().for_each(|message| push(message, &mut stream));
            let (mut frames, mut found, mut rest) = (Frames::default(), Vec::new(), &stream[..]);
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                frames.take(now, &mut |message| found.push(message.to_vec()));
                rest = later;
            }
            prop_assert_eq!(found, messages);
            prop_assert!(frames.partial.is_empty());
        }
    }
}
