//! Lookups: questions in flight at upstream servers, each once, however many clients wait for it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;

use dns64::wire::Question;

use super::chain::{Links, List};
use super::crowds::{ALL, Crowds, Network};
use super::{UpstreamQuery, Zone};

/// Each lookup is a member of so many crowds at most: all, those of its zone, and that of its server.
const CROWDS: usize = 4;
const OF_SERVER: usize = 1;
const OF_ZONE: usize = 2;

/// How the current try went out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryTransport {
    /// Not at all yet, or it has ended.
    None,
    /// From a UDP socket of the upstream server.
    Udp {
        /// The number of the socket.
        socket: usize,
    },
    /// Over a stream.
    Stream,
}

/// One question at an upstream server.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    /// What is asked.
    pub query: UpstreamQuery,
    /// What equal lookups have in common; `None` for a probe, which nobody waits for and of whose reply
    /// nothing is kept.
    pub shared: Option<u64>,
    /// The zone of its name; `None` for a probe.
    pub zone: Option<Zone>,
    /// The network of clients that it is counted for.
    pub network: Network,
    /// No try starts that could end later.
    pub deadline_ns: u64,
    /// Tries that may still start.
    pub tries_left: u8,
    /// Answers to the current try with another question.
    pub mismatches: u8,
    /// The server of the current try.
    pub upstream: usize,
    /// Its way.
    pub way: TryTransport,
    /// Its ID.
    pub id: u16,
    /// When it was sent.
    pub sent_ns: u64,
    /// Which letters of the name change their case (0x20): bit n of this is for octet n.
    pub case_bits: [u8; 32],
    /// The jobs that wait for it.
    pub waiters: List,
}

impl Lookup {
    /// The question in the case it is sent in.
    pub fn sent_question(&self) -> Question {
        let question = &self.query.question;
        Question { name: question.name.with_flipped_case(&self.case_bits), ..*question }
    }
}

/// A fixed number of slots. Those whose try runs are in the order in which it ends: all tries wait equally
/// long, so a new one always goes to the end, and adding, removing and finding the next timeout cost O(1).
pub struct Lookups {
    slots: Vec<Option<Lookup>>,
    tries: Vec<Try>,
    links: Links,
    running: List,
    free: Vec<u16>,
    shared: HashMap<u64, u16, BuildHasherDefault<PrehashedHasher>>,
    crowds: Crowds,
    zone_limit: usize,
    /// Whether a server may be full before all slots are taken, or with them. Otherwise nobody asks for its
    /// crowd.
    by_server: bool,
}

/// Apart from the lookups, so that walking the list touches few octets.
#[derive(Clone, Copy)]
struct Try {
    /// Counts the uses of the slot and the tries in it: a token of an earlier one fits no longer.
    generation: u32,
    due_ns: u64,
}

impl Lookups {
    /// Room for `slots` lookups, 1 to 65535, of which `zone_limit` may be for names of one zone, and
    /// `server_limit` at one upstream server.
    pub fn new(slots: usize, zone_limit: usize, server_limit: usize) -> Self {
        let count = u16::try_from(slots).unwrap_or(u16::MAX).max(1);
        let slots = usize::from(count);
        Self {
            slots: vec![None; slots],
            tries: vec![Try { generation: 0, due_ns: 0 }; slots],
            links: Links::new(slots),
            running: List::default(),
            free: (0..count).rev().collect(),
            shared: HashMap::with_capacity_and_hasher(slots, BuildHasherDefault::default()),
            crowds: Crowds::new(CROWDS * slots),
            zone_limit: zone_limit.max(1),
            by_server: server_limit <= slots,
        }
    }

    /// The number of lookups in flight.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many more can start.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// The crowd of lookups for this zone that has no room for one more.
    pub fn full_zone(&self, zone: Zone) -> Option<u64> {
        let is_full = |(crowd, part): &(u64, usize)| {
            self.crowds.len(*crowd) as usize >= self.zone_limit.div_ceil(*part)
        };
        zone.crowds().find(is_full).map(|(crowd, _)| crowd)
    }

    /// The network of a client.
    pub fn network(&self, client: IpAddr) -> Network {
        self.crowds.network(client)
    }

    /// The lookup that has to go when no slot is left: the oldest of those that nobody waits for, or else of
    /// the network with the most.
    pub fn first_to_go(&self) -> Option<u16> {
        self.crowds.first_to_go(ALL).map(|(member, _)| slot_of_member(member))
    }

    /// The lookup of a crowd that has to go for another of this network there, and how many its own network
    /// has: none where no network has more.
    pub fn first_to_go_for(&self, network: Network, crowd: u64) -> Option<(u16, u32)> {
        let (member, count) = self.crowds.first_to_go(crowd)?;
        (count > self.crowds.share(crowd, network)).then_some((slot_of_member(member), count))
    }

    /// A client of this network waits for a lookup, too. Of the networks that wait, the lookup is counted for
    /// the one that has the fewest: what a light network wants is not given up for what a heavy one does.
    pub fn wanted_by(&mut self, slot: u16, network: Network) {
        let Some(counted) = self.get(slot).map(|lookup| lookup.network) else { return };
        if network == Network::NOBODY {
            return;
        }
        if counted == Network::NOBODY
            || counted != network && self.crowds.share(ALL, counted) > self.crowds.share(ALL, network)
        {
            self.count_for(slot, network);
        }
    }

    /// The lookup is counted for this network from now on.
    pub fn count_for(&mut self, slot: u16, network: Network) {
        self.leave_crowds(slot);
        if let Some(lookup) = self.get_mut(slot) {
            lookup.network = network;
        }
        self.join_crowds(slot);
    }

    /// The lookup goes to this server from now on.
    pub fn set_upstream(&mut self, slot: u16, upstream: usize) {
        let Some(lookup) = self.get_mut(slot).filter(|lookup| lookup.upstream != upstream) else { return };
        lookup.upstream = upstream;
        let (network, member) = (lookup.network, CROWDS * usize::from(slot) + OF_SERVER);
        if self.by_server {
            self.crowds.leave(member);
            self.crowds.join(member, crowd_of_server(upstream), network);
        }
    }

    /// Takes a slot; its first try ends at `due_ns`. `None` when all are taken.
    pub fn insert(&mut self, lookup: Lookup, due_ns: u64) -> Option<u16> {
        let slot = self.free.pop()?;
        if let Some(hash) = lookup.shared {
            self.shared.insert(hash, slot);
        }
        self.slots[usize::from(slot)] = Some(lookup);
        self.join_crowds(slot);
        self.append(slot, due_ns);
        Some(slot)
    }

    /// Frees a slot; returns those who waited for it.
    pub fn remove(&mut self, slot: u16) -> Option<List> {
        let place = self.slots.get_mut(usize::from(slot))?;
        let lookup = place.as_ref()?;
        let (shared, waiters) = (lookup.shared, lookup.waiters);
        *place = None;
        self.leave_crowds(slot);
        if let Some(hash) = shared
            && self.shared.get(&hash) == Some(&slot)
        {
            self.shared.remove(&hash);
        }
        self.links.remove(&mut self.running, slot.into());
        self.free.push(slot);
        Some(waiters)
    }

    /// The lookup that asks the same.
    pub fn find(&self, shared: u64, question: &Question) -> Option<u16> {
        let &slot = self.shared.get(&shared)?;
        self.get(slot).filter(|lookup| lookup.query.question == *question).map(|_| slot)
    }

    /// The lookup in a slot.
    pub fn get(&self, slot: u16) -> Option<&Lookup> {
        self.slots.get(usize::from(slot))?.as_ref()
    }

    /// Likewise, to change it.
    pub fn get_mut(&mut self, slot: u16) -> Option<&mut Lookup> {
        self.slots.get_mut(usize::from(slot))?.as_mut()
    }

    /// Starts a new try: the slot goes to the end of the list.
    pub fn restart(&mut self, slot: u16, due_ns: u64) {
        self.links.remove(&mut self.running, slot.into());
        self.append(slot, due_ns);
    }

    /// The slot whose try ends first, and when.
    pub fn first_due(&self) -> Option<(u16, u64)> {
        self.running.first().map(|slot| (slot as u16, self.tries[slot].due_ns))
    }

    /// The slot whose try ends after this one's.
    pub fn next_of(&self, slot: u16) -> Option<u16> {
        self.links.next(slot.into()).map(|next| next as u16)
    }

    /// Names the current try of a slot.
    pub fn token(&self, slot: u16) -> u64 {
        u64::from(self.tries[usize::from(slot)].generation) << 16 | u64::from(slot)
    }

    /// The slot of a token, if that try is still the current one.
    pub fn slot_of(&self, token: u64) -> Option<u16> {
        let slot = token as u16;
        self.get(slot).filter(|_| self.token(slot) == token).map(|_| slot)
    }

    fn join_crowds(&mut self, slot: u16) {
        let Some(lookup) = self.get(slot) else { return };
        let (network, zone, server) = (lookup.network, lookup.zone, crowd_of_server(lookup.upstream));
        let first = CROWDS * usize::from(slot);
        self.crowds.join(first, ALL, network);
        if self.by_server {
            self.crowds.join(first + OF_SERVER, server, network);
        }
        for (at, (crowd, _)) in zone.into_iter().flat_map(Zone::crowds).enumerate() {
            self.crowds.join(first + OF_ZONE + at, crowd, network);
        }
    }

    fn leave_crowds(&mut self, slot: u16) {
        let first = CROWDS * usize::from(slot);
        (first..first + CROWDS).for_each(|member| self.crowds.leave(member));
    }

    fn append(&mut self, slot: u16, due_ns: u64) {
        let generation = self.tries[usize::from(slot)].generation.wrapping_add(1);
        self.tries[usize::from(slot)] = Try { generation, due_ns };
        self.links.append(&mut self.running, slot.into());
    }
}

/// The crowd of the lookups at one upstream server.
pub fn crowd_of_server(upstream: usize) -> u64 {
    // Far from each other and from the crowd of all.
    (upstream as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn slot_of_member(member: usize) -> u16 {
    (member / CROWDS) as u16
}

/// Takes a number that is a keyed hash already.
#[derive(Default)]
pub struct PrehashedHasher(u64);

impl Hasher for PrehashedHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, octets: &[u8]) {
        for &octet in octets {
            self.0 = self.0.rotate_left(8) ^ u64::from(octet);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use dns64::wire::{Name, rtype};
    use proptest::prelude::*;

    use super::*;

    fn lookup(shared: Option<u64>) -> Lookup {
        Lookup {
            query: UpstreamQuery {
                question: Question {
                    name: Name::from_text("www.example").unwrap(),
                    qtype: rtype::AAAA,
                    qclass: 1,
                },
                checking_disabled: false,
                dnssec_ok: false,
                group: 0,
            },
            shared,
            zone: None,
            network: Network::NOBODY,
            deadline_ns: 0,
            tries_left: 0,
            mismatches: 0,
            upstream: 0,
            way: TryTransport::None,
            id: 0,
            sent_ns: 0,
            case_bits: [0; 32],
            waiters: List::default(),
        }
    }

    #[test]
    fn a_token_fits_its_own_try_only() {
        let mut lookups = Lookups::new(2, 2, 1);
        let slot = lookups.insert(lookup(None), 1).unwrap();
        let token = lookups.token(slot);
        assert_eq!(lookups.slot_of(token), Some(slot));
        lookups.restart(slot, 2);
        assert_eq!(lookups.slot_of(token), None);
        let token = lookups.token(slot);
        lookups.remove(slot);
        assert_eq!(lookups.slot_of(token), None);
        assert_eq!(lookups.insert(lookup(None), 3), Some(slot));
        assert_eq!(lookups.slot_of(token), None);
        assert_eq!(lookups.slot_of(u64::MAX), None);
    }

    #[test]
    fn equal_questions_are_found_by_their_hash_and_name() {
        let mut lookups = Lookups::new(2, 2, 1);
        let question = lookup(None).query.question;
        let slot = lookups.insert(lookup(Some(5)), 1).unwrap();
        assert_eq!(lookups.find(5, &question), Some(slot));
        assert_eq!(lookups.find(6, &question), None);
        let other = Question { qtype: rtype::A, ..question };
        assert_eq!(lookups.find(5, &other), None, "the same hash by accident");
        lookups.remove(slot);
        assert_eq!(lookups.find(5, &question), None);
    }

    #[test]
    fn a_zone_is_limited_and_leaves_room_for_its_siblings() {
        let zone = |text: &str| {
            Zone::of(&Name::from_text(text).unwrap(), |ending| {
                ending.iter().fold(5381u64, |hash, octet| hash.wrapping_mul(33) ^ u64::from(*octet))
            })
        };
        let mut lookups = Lookups::new(16, 4, 8);
        let start = |lookups: &mut Lookups, name: &str| {
            assert_eq!(lookups.full_zone(zone(name)), None, "{name}");
            lookups.insert(Lookup { zone: Some(zone(name)), ..lookup(None) }, 1).unwrap()
        };
        for name in ["a.example.co.uk", "b.c.example.co.uk"] {
            start(&mut lookups, name);
        }
        assert!(lookups.full_zone(zone("x.example.co.uk")).is_some(), "half of the limit");
        let names = ["a.example.net", "b.example.net", "example.net", "d.e.f.example.net"];
        let slots = names.map(|name| start(&mut lookups, name));
        for name in ["x.example.net", "example.net"] {
            assert!(lookups.full_zone(zone(name)).is_some(), "{name}");
        }
        for name in ["www.other.co.uk", "www.other.net"] {
            assert_eq!(lookups.full_zone(zone(name)), None, "{name}");
        }
        lookups.remove(slots[1]);
        assert_eq!(lookups.full_zone(zone("x.example.net")), None);
    }

    #[test]
    fn a_lookup_is_counted_for_the_lightest_network_that_waits() {
        let mut lookups = Lookups::new(8, 8, 8);
        let [heavy, light] = ["192.0.2.1", "192.0.3.1"].map(|text| lookups.network(text.parse().unwrap()));
        let of_heavy = Lookup { network: heavy, ..lookup(None) };
        let slots = [(); 3].map(|()| lookups.insert(of_heavy, 1).unwrap());
        lookups.wanted_by(slots[0], light);
        assert_eq!(lookups.get(slots[0]).unwrap().network, light);
        assert_eq!(lookups.first_to_go(), Some(slots[1]));
        lookups.set_upstream(slots[1], 1);
        assert_eq!(lookups.first_to_go_for(light, crowd_of_server(1)), Some((slots[1], 1)));
        assert_eq!(lookups.first_to_go_for(heavy, crowd_of_server(1)), None, "it has as many");
        lookups.count_for(slots[2], Network::NOBODY);
        assert_eq!(lookups.first_to_go(), Some(slots[2]), "nobody waits");
        lookups.wanted_by(slots[2], heavy);
        assert_eq!(lookups.get(slots[2]).unwrap().network, heavy);
    }

    #[test]
    fn random_case_changes_letters_only() {
        let mut lookup = lookup(None);
        lookup.case_bits = [0xff; 32];
        let question = lookup.sent_question();
        assert_eq!(question.name.to_string(), "WWW.EXAMPLE.");
        assert_eq!(question.name, lookup.query.question.name);
        lookup.query.question.name = Name::from_text("1.2.0.192.in-addr.arpa").unwrap();
        assert_eq!(lookup.sent_question().name.to_string(), "1.2.0.192.IN-ADDR.ARPA.");
    }

    proptest! {
        /// Whatever the order of operations, the list holds exactly the used slots, in order of time.
        #[test]
        fn the_list_stays_whole(operations in prop::collection::vec((0u8..3, 0u16..8), 0..200)) {
            let mut lookups = Lookups::new(8, 8, 4);
            for (now_ns, (operation, slot)) in operations.into_iter().enumerate() {
                let now_ns = now_ns as u64;
                match operation {
                    0 => { let _ = lookups.insert(lookup(Some(now_ns)), now_ns); }
                    1 => { let _ = lookups.remove(slot); }
                    _ if lookups.get(slot).is_some() => lookups.restart(slot, now_ns),
                    _ => {}
                }
                let (mut walked, mut due_before) = (0, 0);
                let mut at = lookups.first_due().map(|(slot, _)| slot);
                while let Some(slot) = at {
                    prop_assert!(lookups.get(slot).is_some());
                    let due = lookups.tries[usize::from(slot)].due_ns;
                    prop_assert!(due >= due_before);
                    (walked, due_before) = (walked + 1, due);
                    at = lookups.next_of(slot);
                }
                prop_assert_eq!(walked, lookups.len());
                prop_assert_eq!(lookups.shared.len(), walked);
            }
        }
    }
}
