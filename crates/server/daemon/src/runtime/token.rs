//! What an event of the poller is about.

/// What an event of the poller is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Inbox,
    Listener(usize),
    Ring(usize),
    Upstream { generation: u8, upstream: usize, socket: usize },
}

impl Token {
    const KIND_SHIFT: u32 = 56;
    const GENERATION_SHIFT: u32 = 48;
    const UPSTREAM_SHIFT: u32 = 16;

    /// The kind in the top octet, its value below.
    pub fn encode(self) -> u64 {
        let (kind, value) = match self {
            Self::Inbox => (0, 0),
            Self::Listener(index) => (1, index as u64),
            Self::Ring(index) => (2, index as u64),
            Self::Upstream { generation, upstream, socket } => {
                let upstream = (upstream as u64) << Self::UPSTREAM_SHIFT | socket as u64;
                (3, u64::from(generation) << Self::GENERATION_SHIFT | upstream)
            }
        };
        kind << Self::KIND_SHIFT | value
    }

    pub fn decode(token: u64) -> Self {
        let value = token & ((1 << Self::KIND_SHIFT) - 1);
        match token >> Self::KIND_SHIFT {
            0 => Self::Inbox,
            1 => Self::Listener(value as usize),
            2 => Self::Ring(value as usize),
            _ => Self::Upstream {
                generation: (value >> Self::GENERATION_SHIFT) as u8,
                upstream: (value >> Self::UPSTREAM_SHIFT) as u32 as usize,
                socket: (value & 0xffff) as usize,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back() {
        for token in [
            Token::Inbox,
            Token::Listener(3),
            Token::Ring(1023),
            Token::Upstream { generation: 0, upstream: 5, socket: 1023 },
            Token::Upstream { generation: 255, upstream: 70_000, socket: 65_535 },
        ] {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
