//! The queries in flight: a fixed slab, and all of them in the order in which their tries time out.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use dns64::reverse::in_addr_arpa;
use dns64::rewrite::Asked;
use dns64::wire::{Name, Question, rtype};

/// Who asked, and the way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The client's address and port.
    pub address: SocketAddr,
    /// How its query came.
    pub channel: Channel,
}

/// The way of a client's query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// To a UDP socket, by its number, and to this address of it where the socket has several.
    Udp {
        /// The number of the listening socket.
        socket: usize,
        /// The address the query was sent to, from which the answer must leave.
        local: Option<IpAddr>,
    },
    /// On a TCP connection. Numbers are never used again.
    Tcp {
        /// The number of the connection.
        connection: u64,
    },
}

/// What the upstream server is being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The client's question, which the DNS64 rule has no part in.
    Plain,
    /// AAAA, for the DNS64 rule.
    Aaaa,
    /// A, to synthesize from.
    A {
        /// The limit of the synthesized TTL in seconds.
        ttl_cap_s: u32,
    },
    /// The `in-addr.arpa` name of a synthesized address.
    Reverse {
        /// The address.
        ipv4: Ipv4Addr,
    },
}

/// How the current try went out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From a UDP socket of the upstream server.
    Udp {
        /// The number of the socket.
        socket: usize,
    },
    /// Over TCP.
    Tcp,
}

/// One client's query.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Who asked.
    pub client: Client,
    /// What was asked.
    pub asked: Asked,
    /// The UDP payload size the client announced, if it sent an OPT record.
    pub client_payload_octets: Option<u16>,
    /// What the upstream server is being asked.
    pub stage: Stage,
    /// No try starts that could end later.
    pub deadline_ns: u64,
    /// Tries that may still start in this stage.
    pub tries_left: u8,
    /// Answers to the current try with another question.
    pub mismatches: u8,
    /// The server of the current try.
    pub upstream: usize,
    /// Its way.
    pub way: Way,
    /// Its ID.
    pub id: u16,
    /// Which letters of the name change their case (0x20): bit n of this is for octet n.
    pub case_bits: [u8; 32],
}

impl Query {
    /// The question for the upstream server, in the case it is sent in.
    pub fn upstream_question(&self) -> Question {
        let asked = &self.asked.question;
        let (name, qtype) = match self.stage {
            Stage::Plain | Stage::Aaaa => (asked.name, asked.qtype),
            Stage::A { .. } => (asked.name, rtype::A),
            Stage::Reverse { ipv4 } => (in_addr_arpa(ipv4), rtype::PTR),
        };
        Question { name: self.recased(name), qtype, qclass: asked.qclass }
    }

    fn recased(&self, name: Name) -> Name {
        if self.case_bits == [0; 32] {
            return name;
        }
        let mut wire = [0; dns64::wire::NAME_LENGTH_MAX];
        let length = name.as_wire().len();
        wire[..length].copy_from_slice(name.as_wire());
        for (at, octet) in wire[..length].iter_mut().enumerate() {
            // Length octets are below 64 and never letters.
            if octet.is_ascii_alphabetic() && self.case_bits[at / 8] & 1 << (at % 8) != 0 {
                *octet ^= 0x20;
            }
        }
        Name::parse(&wire, 0).map_or(name, |(recased, _)| recased)
    }
}

/// The slot number that means none.
const NONE: u16 = u16::MAX;

/// A place in the list of timeouts. These are apart from the queries, so that walking the list touches few octets.
#[derive(Clone, Copy)]
struct Link {
    previous: u16,
    next: u16,
    /// Counts the uses of the slot and the tries in it: a token of an earlier one fits no longer.
    generation: u32,
    due_ns: u64,
}

/// A fixed number of slots. Every used slot is in a list ordered by the time its try ends. All tries wait equally
/// long, so a new try always goes to the end, and adding, removing and finding the next timeout cost O(1).
pub struct InFlight {
    queries: Vec<Option<Query>>,
    links: Vec<Link>,
    free: Vec<u16>,
    first: u16,
    last: u16,
}

impl InFlight {
    /// Room for `slots` queries, 1 to 65535.
    pub fn new(slots: usize) -> Self {
        let count = u16::try_from(slots).unwrap_or(NONE).max(1);
        let unlinked = Link { previous: NONE, next: NONE, generation: 0, due_ns: 0 };
        Self {
            queries: vec![None; usize::from(count)],
            links: vec![unlinked; usize::from(count)],
            free: (0..count).rev().collect(),
            first: NONE,
            last: NONE,
        }
    }

    /// The number of queries in flight.
    pub fn len(&self) -> usize {
        self.queries.len() - self.free.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes a slot and puts it at the end of the list; `None` when all are taken.
    pub fn insert(&mut self, query: Query, due_ns: u64) -> Option<u16> {
        let slot = self.free.pop()?;
        self.queries[usize::from(slot)] = Some(query);
        self.append(slot, due_ns);
        Some(slot)
    }

    /// Frees a slot; returns its query.
    pub fn remove(&mut self, slot: u16) -> Option<Query> {
        let query = self.queries.get_mut(usize::from(slot))?.take()?;
        self.unlink(slot);
        self.free.push(slot);
        Some(query)
    }

    /// The query in a slot.
    pub fn get(&self, slot: u16) -> Option<&Query> {
        self.queries.get(usize::from(slot))?.as_ref()
    }

    /// Likewise, to change it.
    pub fn get_mut(&mut self, slot: u16) -> Option<&mut Query> {
        self.queries.get_mut(usize::from(slot))?.as_mut()
    }

    /// Starts a new try: the slot goes to the end of the list.
    pub fn restart(&mut self, slot: u16, due_ns: u64) {
        self.unlink(slot);
        self.append(slot, due_ns);
    }

    /// The slot whose try ends first, and when.
    pub fn first_due(&self) -> Option<(u16, u64)> {
        (self.first != NONE).then(|| (self.first, self.links[usize::from(self.first)].due_ns))
    }

    /// The slot after this one in the list.
    pub fn next_of(&self, slot: u16) -> Option<u16> {
        Some(self.links[usize::from(slot)].next).filter(|&next| next != NONE)
    }

    /// Names the current try of a slot.
    pub fn token(&self, slot: u16) -> u64 {
        u64::from(self.links[usize::from(slot)].generation) << 16 | u64::from(slot)
    }

    /// The slot of a token, if that try is still the current one.
    pub fn slot_of(&self, token: u64) -> Option<u16> {
        let slot = token as u16;
        self.get(slot).filter(|_| self.token(slot) == token).map(|_| slot)
    }

    fn append(&mut self, slot: u16, due_ns: u64) {
        let generation = self.links[usize::from(slot)].generation.wrapping_add(1);
        self.links[usize::from(slot)] = Link { previous: self.last, next: NONE, generation, due_ns };
        match self.last {
            NONE => self.first = slot,
            last => self.links[usize::from(last)].next = slot,
        }
        self.last = slot;
    }

    fn unlink(&mut self, slot: u16) {
        let Link { previous, next, .. } = self.links[usize::from(slot)];
        match previous {
            NONE => self.first = next,
            previous => self.links[usize::from(previous)].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => self.links[usize::from(next)].previous = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query() -> Query {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let question =
            Question { name: Name::from_text("www.example").unwrap(), qtype: rtype::AAAA, qclass: 1 };
        Query {
            client: Client { address, channel: Channel::Tcp { connection: 1 } },
            asked: Asked {
                id: 1,
                question,
                recursion_desired: true,
                checking_disabled: false,
                dnssec_ok: false,
            },
            client_payload_octets: None,
            stage: Stage::Aaaa,
            deadline_ns: 0,
            tries_left: 0,
            mismatches: 0,
            upstream: 0,
            way: Way::Tcp,
            id: 0,
            case_bits: [0; 32],
        }
    }

    #[test]
    fn a_token_fits_its_own_try_only() {
        let mut inflight = InFlight::new(2);
        let slot = inflight.insert(query(), 1).unwrap();
        let token = inflight.token(slot);
        assert_eq!(inflight.slot_of(token), Some(slot));
        inflight.restart(slot, 2);
        assert_eq!(inflight.slot_of(token), None);
        let token = inflight.token(slot);
        inflight.remove(slot);
        assert_eq!(inflight.slot_of(token), None);
        assert_eq!(inflight.insert(query(), 3), Some(slot));
        assert_eq!(inflight.slot_of(token), None);
        assert_eq!(inflight.slot_of(u64::MAX), None);
    }

    #[test]
    fn random_case_changes_letters_only() {
        let mut query = query();
        query.case_bits = [0xff; 32];
        let question = query.upstream_question();
        assert_eq!(question.name.to_string(), "WWW.EXAMPLE.");
        assert_eq!(question.name, query.asked.question.name);
        query.stage = Stage::Reverse { ipv4: [192, 0, 2, 1].into() };
        assert_eq!(query.upstream_question().name.to_string(), "1.2.0.192.IN-ADDR.ARPA.");
    }

    proptest! {
        /// Whatever the order of operations, the list holds exactly the used slots, in order of time.
        #[test]
        fn the_list_stays_whole(operations in prop::collection::vec((0u8..3, 0u16..8), 0..200)) {
            let mut inflight = InFlight::new(8);
            for (now_ns, (operation, slot)) in operations.into_iter().enumerate() {
                let now_ns = now_ns as u64;
                match operation {
                    0 => { let _ = inflight.insert(query(), now_ns); }
                    1 => { let _ = inflight.remove(slot); }
                    _ if inflight.get(slot).is_some() => inflight.restart(slot, now_ns),
                    _ => {}
                }
                let (mut walked, mut due_before) = (0, 0);
                let mut at = inflight.first_due().map(|(slot, _)| slot);
                while let Some(slot) = at {
                    prop_assert!(inflight.get(slot).is_some());
                    let due = inflight.links[usize::from(slot)].due_ns;
                    prop_assert!(due >= due_before);
                    (walked, due_before) = (walked + 1, due);
                    at = inflight.next_of(slot);
                }
                prop_assert_eq!(walked, inflight.len());
            }
        }
    }
}
