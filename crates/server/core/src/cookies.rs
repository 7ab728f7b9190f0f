//! DNS cookies (RFC 7873): those that clients are given, and those exchanged with upstream servers.

use std::net::IpAddr;

use dns64::wire::{Message, Options, option_code};
use siphasher::sip::SipHasher24;

use crate::ids::Random;

const CLIENT_COOKIE_OCTETS: usize = 8;

/// A server cookie of RFC 9018 4: version, three reserved octets, a time, a hash.
const SERVER_COOKIE_OCTETS: usize = 16;

/// The lengths that a server cookie may have, whoever made it (RFC 7873 4.2).
const ANY_SERVER_COOKIE_OCTETS: std::ops::RangeInclusive<usize> = 8..=32;

/// The longest value of a COOKIE option.
pub const OPTION_OCTETS_MAX: usize = 40;

/// A cookie of ours is taken for an hour, and five minutes before its time, for clocks differ (RFC 9018 4.3).
const AGE_MAX_S: i32 = 3600;
const AHEAD_MAX_S: i32 = 300;

/// What a client's COOKIE option is worth. The octets are the client cookie, which the answer repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieStatus {
    /// A length that no cookie has: FORMERR (RFC 7873 5.2.2).
    Malformed,
    /// It has no server cookie yet.
    ClientOnly([u8; 8]),
    /// Its server cookie is not ours, is not this client's, or is out of time.
    Bad([u8; 8]),
    /// Its server cookie proves that the client gets what is sent to its address.
    Good([u8; 8]),
}

impl CookieStatus {
    /// The client cookie.
    pub fn client_cookie(self) -> Option<[u8; CLIENT_COOKIE_OCTETS]> {
        match self {
            Self::Malformed => None,
            Self::ClientOnly(cookie) | Self::Bad(cookie) | Self::Good(cookie) => Some(cookie),
        }
    }
}

/// Makes and judges server cookies (RFC 9018 4). Nothing is remembered of the clients.
#[derive(Clone)]
pub struct ServerCookies {
    hash: SipHasher24,
}

impl ServerCookies {
    /// Servers behind one address must share the secret (RFC 9018 5).
    pub fn new(secret: [u8; 16]) -> Self {
        Self { hash: SipHasher24::new_with_key(&secret) }
    }

    /// Judges the value of the COOKIE option in a query from `client` at the time `unix_s`.
    pub fn judge(&self, client: IpAddr, option: &[u8], unix_s: u32) -> CookieStatus {
        let Some((client_cookie, server_cookie)) = option.split_first_chunk() else {
            return CookieStatus::Malformed;
        };
        match server_cookie.len() {
            0 => CookieStatus::ClientOnly(*client_cookie),
            length if !ANY_SERVER_COOKIE_OCTETS.contains(&length) => CookieStatus::Malformed,
            _ if self.is_ours(client_cookie, server_cookie, client, unix_s) => {
                CookieStatus::Good(*client_cookie)
            }
            _ => CookieStatus::Bad(*client_cookie),
        }
    }

    /// The value of the COOKIE option in an answer: the client cookie and a fresh server cookie.
    pub fn write(&self, client_cookie: [u8; 8], client: IpAddr, unix_s: u32) -> [u8; 24] {
        let [a, b, c, d] = unix_s.to_be_bytes();
        let head = [1, 0, 0, 0, a, b, c, d];
        let mut option = [0; CLIENT_COOKIE_OCTETS + SERVER_COOKIE_OCTETS];
        option[..8].copy_from_slice(&client_cookie);
        option[8..16].copy_from_slice(&head);
        option[16..].copy_from_slice(&self.hash_of(&client_cookie, &head, client));
        option
    }

    fn is_ours(&self, client_cookie: &[u8; 8], server_cookie: &[u8], client: IpAddr, unix_s: u32) -> bool {
        let Ok(server_cookie) = <&[u8; SERVER_COOKIE_OCTETS]>::try_from(server_cookie) else {
            return false;
        };
        let [version, r0, r1, r2, t0, t1, t2, t3, hash @ ..] = *server_cookie;
        // Serial numbers: the time may wrap around (RFC 1982).
        let age_s = unix_s.wrapping_sub(u32::from_be_bytes([t0, t1, t2, t3])) as i32;
        // The reserved octets are not looked at, but they are hashed as they came (RFC 9018 4.2).
        let head = [version, r0, r1, r2, t0, t1, t2, t3];
        // The hashes are compared as whole words: how long that takes tells nothing of a good guess.
        let expected = u64::from_ne_bytes(self.hash_of(client_cookie, &head, client));
        version == 1 && (-AHEAD_MAX_S..=AGE_MAX_S).contains(&age_s) && u64::from_ne_bytes(hash) == expected
    }

    /// SipHash-2-4 of client cookie, version, reserved octets, time and address (RFC 9018 4.4).
    fn hash_of(&self, client_cookie: &[u8; 8], head: &[u8; 8], client: IpAddr) -> [u8; 8] {
        let mut input = [0; 32];
        input[..8].copy_from_slice(client_cookie);
        input[8..16].copy_from_slice(head);
        let length = match client.to_canonical() {
            IpAddr::V4(v4) => {
                input[16..20].copy_from_slice(&v4.octets());
                20
            }
            IpAddr::V6(v6) => {
                input[16..].copy_from_slice(&v6.octets());
                32
            }
        };
        self.hash.hash(&input[..length]).to_le_bytes()
    }
}

/// The cookies for and of the upstream servers: a reply without our cookie was not sent by the server that we
/// asked (RFC 7873 5.3).
#[derive(Clone)]
pub struct UpstreamCookies {
    servers: Vec<ServerState>,
}

/// What goes into the queries to one server: our client cookie, which no other server sees, and its last
/// server cookie.
#[derive(Clone)]
struct ServerState {
    option: [u8; OPTION_OCTETS_MAX],
    /// Only the client cookie as long as the server has sent none.
    octets: usize,
}

impl UpstreamCookies {
    /// Draws a client cookie for each of so many servers.
    pub fn new(upstreams: usize, seed: [u8; 32]) -> Self {
        let mut random = Random::new(seed);
        let draw = |_| {
            let mut option = [0; OPTION_OCTETS_MAX];
            option[..CLIENT_COOKIE_OCTETS].copy_from_slice(&random.bits()[..CLIENT_COOKIE_OCTETS]);
            ServerState { option, octets: CLIENT_COOKIE_OCTETS }
        };
        Self { servers: (0..upstreams).map(draw).collect() }
    }

    /// Takes over the cookies exchanged with a server that had this number among others.
    pub fn inherit(&mut self, upstream: usize, before: &Self, its_number: usize) {
        if let (Some(server), Some(known)) = (self.servers.get_mut(upstream), before.servers.get(its_number))
        {
            server.clone_from(known);
        }
    }

    /// Whether the server has sent a cookie, so that all its answers must have ours.
    pub fn is_known(&self, upstream: usize) -> bool {
        self.servers.get(upstream).is_some_and(|known| known.octets > CLIENT_COOKIE_OCTETS)
    }

    /// Writes the value of the COOKIE option of a query; returns its length, 8 or 16 to 40 octets.
    pub fn write(&self, upstream: usize, out: &mut [u8; OPTION_OCTETS_MAX]) -> usize {
        let known = &self.servers[upstream];
        *out = known.option;
        known.octets
    }

    /// Whether a reply that came by UDP may be the server's; the server cookie in it goes into the next
    /// query, also that of a BADCOOKIE reply.
    ///
    /// It may not: with a COOKIE option that does not begin with our client cookie or has a length that none
    /// may have, and without one from a server that has sent server cookies before. A server that gave
    /// cookies up is asked in vain until one reply came by another way ([`UpstreamCookies::learn`]).
    pub fn accepts(&mut self, upstream: usize, reply: &Message<'_>) -> bool {
        let known = &mut self.servers[upstream];
        match Options::of(reply).find(option_code::COOKIE) {
            Some(option) => known.learn(option),
            None => known.octets == CLIENT_COOKIE_OCTETS,
        }
    }

    /// Takes the server cookie out of a reply that came by a stream, which nobody can forge without being on
    /// the path. Without one the server is no longer expected to send any; so the query must have had our
    /// cookie.
    pub fn learn(&mut self, upstream: usize, reply: &Message<'_>) {
        let known = &mut self.servers[upstream];
        match Options::of(reply).find(option_code::COOKIE) {
            Some(option) => _ = known.learn(option),
            None => known.octets = CLIENT_COOKIE_OCTETS,
        }
    }
}

impl ServerState {
    /// Whether the option answers ours; its server cookie is kept then.
    fn learn(&mut self, option: &[u8]) -> bool {
        let Some((client_cookie, server_cookie)) = option.split_at_checked(CLIENT_COOKIE_OCTETS) else {
            return false;
        };
        if client_cookie != &self.option[..CLIENT_COOKIE_OCTETS] {
            return false;
        }
        // Some servers send options back that they do not know: harmless, and no proof of a server that has
        // cookies.
        if server_cookie.is_empty() {
            return self.octets == CLIENT_COOKIE_OCTETS;
        }
        if !ANY_SERVER_COOKIE_OCTETS.contains(&server_cookie.len()) {
            return false;
        }
        self.octets = option.len();
        self.option[..option.len()].copy_from_slice(option);
        true
    }
}

#[cfg(test)]
mod tests;
