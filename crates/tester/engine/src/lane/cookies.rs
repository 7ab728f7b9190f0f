//! The server's cookies that a lane's sources keep (RFC 7873 5).

use dns64::wire::option_code::COOKIE;
use dns64::wire::{Message, Options};

use super::LaneSpec;
use crate::workload::{CLIENT_COOKIE_OCTETS, client_cookie};

/// The longest cookie of a server, in octets (RFC 7873 4).
const SERVER_COOKIE_OCTETS_MAX: usize = 32;
/// The shortest.
const SERVER_COOKIE_OCTETS_MIN: usize = 8;

/// For each socket of a lane the server's cookie that came with the last answer.
pub(super) struct Cookies {
    seed: u64,
    spec: LaneSpec,
    kept: Box<[ServerCookie]>,
}

#[derive(Clone, Copy, Default)]
struct ServerCookie {
    octets: [u8; SERVER_COOKIE_OCTETS_MAX],
    length: u8,
}

impl Cookies {
    pub fn new(seed: u64, spec: LaneSpec) -> Self {
        Self { seed, spec, kept: vec![ServerCookie::default(); spec.sockets as usize].into_boxed_slice() }
    }

    /// The server's cookie for a socket; empty if there is none yet.
    pub fn of(&self, socket: usize) -> &[u8] {
        let kept = self.kept.get(socket);
        kept.and_then(|kept| kept.octets.get(..usize::from(kept.length))).unwrap_or_default()
    }

    /// Keeps the cookie of an answer to a socket, if it has one; `false` if the answer has the client cookie
    /// of another: it must be discarded (RFC 7873 5.3).
    pub fn take(&mut self, socket: usize, answer: &[u8]) -> bool {
        let Ok(message) = Message::parse(answer) else { return true };
        let Some(cookie) = Options::of(&message).find(COOKIE) else { return true };
        let source = self.spec.source(socket);
        let Some((client, server)) = cookie.split_at_checked(CLIENT_COOKIE_OCTETS) else { return false };
        if client != client_cookie(self.seed, source) {
            return false;
        }
        let fits = (SERVER_COOKIE_OCTETS_MIN..=SERVER_COOKIE_OCTETS_MAX).contains(&server.len());
        if let Some(kept) = self.kept.get_mut(socket).filter(|_| fits) {
            kept.octets[..server.len()].copy_from_slice(server);
            kept.length = server.len() as u8;
        }
        true
    }
}
