//! The side of the upstream servers: lookups, the attempts of each lookup, and the replies.

mod matching;
mod refusals;
mod tries;

use std::sync::Arc;

use dns64::wire::Question;
use siphasher::sip::SipHasher13;

use super::{Loops, Notice, Output, Shared};
use crate::cookies::UpstreamCookies;
use crate::ede::code;
use crate::ids::{Ids, Random};
use crate::inflight::chain::List;
use crate::inflight::lookups::crowd_of_server;
use crate::inflight::{Lookup, Lookups, Network, TryTransport, UpstreamQuery, Zone};
use crate::settings::Settings;
use crate::upstreams::{UpstreamCounts, Upstreams};
use refusals::Doubt;

/// The side of a machine that faces the upstream servers.
pub(super) struct UpstreamSide {
    settings: Arc<Settings>,
    pub lookups: Lookups,
    pub upstreams: Upstreams,
    ids: Ids,
    cookies: UpstreamCookies,
    random: Random,
    hash: Hash,
    doubts: Vec<Doubt>,
    pub loops: Arc<Loops>,
    loops_seen: u32,
}

/// Why a lookup cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotAsked {
    /// No upstream server may be asked, or no try is left.
    NoServer,
    /// The upstream servers have as many lookups in flight as they may.
    ServersFull,
    /// No ID is free.
    NoId,
    /// The zone of the name has as many lookups in flight as it may.
    ZoneFull,
}

impl NotAsked {
    /// The extended error that says so.
    pub fn cause(self) -> u16 {
        match self {
            Self::NoServer => code::NO_REACHABLE_AUTHORITY,
            Self::NoId => code::OTHER,
            Self::ServersFull | Self::ZoneFull => code::NOT_READY,
        }
    }
}

/// What a lookup is started with.
#[derive(Clone, Copy)]
pub(super) struct NewLookup {
    /// What equal lookups have in common; `None` for a probe.
    pub shared: Option<u64>,
    /// The network of the client that waits for it.
    pub network: Network,
    /// No try starts that could end later.
    pub deadline_ns: u64,
    /// The server that is asked, whatever it has in flight.
    pub upstream: Option<usize>,
}

/// What equal lookups have in common, as a keyed hash: nobody outside can make two names collide.
struct Hash(SipHasher13);

impl Hash {
    fn new(random: &mut Random) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(&random.seed()[..16]);
        Self(SipHasher13::new_with_key(&key))
    }

    fn of(&self, query: &UpstreamQuery) -> u64 {
        self.0.hash(query.key().as_octets())
    }
}

impl UpstreamSide {
    /// `seed` is the secret that IDs, ports and spellings are drawn from.
    pub fn new(settings: Arc<Settings>, shared: &Shared, seed: [u8; 32]) -> Self {
        let mut random = Random::new(seed);
        let least = settings.upstreams.iter().map(|upstream| upstream.in_flight).min();
        let server_limit = least.unwrap_or(usize::MAX);
        Self {
            lookups: Lookups::new(settings.in_flight, settings.in_flight_per_zone, server_limit),
            upstreams: Upstreams::new(&settings),
            ids: Ids::new(settings.in_flight),
            cookies: UpstreamCookies::new(settings.upstreams.len(), random.seed()),
            hash: Hash::new(&mut random),
            random,
            doubts: Vec::new(),
            loops: shared.loops.clone(),
            loops_seen: 0,
            settings,
        }
    }

    /// Whether a question is one that we sent ourselves to see whether it comes back.
    pub fn came_back(&self, question: &Question, out: &mut impl Output) -> bool {
        let Some(upstream) = self.loops.upstream_of(&question.name) else { return false };
        if self.loops.report(upstream) {
            out.notice(Notice::Loop(upstream));
        }
        true
    }

    /// What a query has in common with equal ones.
    pub fn shared_hash(&self, query: &UpstreamQuery) -> u64 {
        self.hash.of(query)
    }

    /// The zone of a query's name.
    pub fn zone_of(&self, query: &UpstreamQuery) -> Zone {
        Zone::of(&query.question.name.to_lowercase(), |ending| self.hash.0.hash(ending))
    }

    /// The server of a group for a new lookup.
    pub fn choose(&mut self, now_ns: u64, group: usize) -> Result<usize, NotAsked> {
        self.leave_loops_out();
        self.upstreams.choose(group, now_ns, &mut self.random).ok_or(match self.upstreams.may_ask(group) {
            true => NotAsked::ServersFull,
            false => NotAsked::NoServer,
        })
    }

    /// The lookups at the server of a group at which a network has the most, if that is more than this
    /// network has there: as a crowd.
    pub fn heaviest_server(&self, group: usize, network: Network) -> Option<u64> {
        let crowds = self.settings.groups.get(group)?.iter().map(|&upstream| crowd_of_server(upstream));
        let held = |crowd| Some((crowd, self.lookups.first_to_go_for(network, crowd)?.1));
        crowds.filter_map(held).max_by_key(|&(_, count)| count).map(|(crowd, _)| crowd)
    }

    /// Whether a lookup may start without another being given up for it.
    pub fn has_room_for(&self, query: &UpstreamQuery) -> bool {
        self.lookups.room() > 0
            && self.lookups.full_zone(self.zone_of(query)).is_none()
            && self.upstreams.has_room_in(query.group)
    }

    fn leave_loops_out(&mut self) {
        let epoch = self.loops.epoch();
        if epoch != self.loops_seen {
            self.loops_seen = epoch;
            self.loops.found().for_each(|upstream| self.upstreams.leave_out(upstream));
        }
    }

    /// A new lookup without a try at this server, where there is room for one.
    pub fn insert(
        &mut self,
        now_ns: u64,
        query: &UpstreamQuery,
        new: NewLookup,
        upstream: usize,
    ) -> Option<u16> {
        let lookup = Lookup {
            query: *query,
            shared: new.shared,
            zone: new.shared.map(|_| self.zone_of(query)),
            network: new.network,
            deadline_ns: new.deadline_ns,
            tries_left: self.settings.asking.tries,
            mismatches: 0,
            upstream,
            way: TryTransport::None,
            id: 0,
            sent_ns: now_ns,
            case_bits: [0; 32],
            waiters: List::default(),
        };
        self.lookups.insert(lookup, now_ns + self.settings.asking.timeout_ns)
    }

    /// Whether another server of the group may be asked instead of the one that was.
    pub fn may_ask_another(&self, now_ns: u64, slot: u16) -> bool {
        let several = |lookup: &Lookup| self.upstreams.group_len(lookup.query.group) > 1;
        self.lookups.get(slot).is_some_and(several) && self.may_try_again(now_ns, slot)
    }

    /// The time within which 95 of 100 answers of a lookup's server come.
    pub fn usual_ns(&self, slot: u16) -> Option<u64> {
        self.lookups.get(slot).map(|lookup| self.upstreams.usual_ns(lookup.upstream))
    }

    /// Whether a lookup waits for this server over UDP, and another one may be asked instead.
    pub fn is_replaceable(&self, now_ns: u64, slot: u16, upstream: usize) -> bool {
        let waits =
            |lookup: &Lookup| lookup.upstream == upstream && matches!(lookup.way, TryTransport::Udp { .. });
        self.lookups.get(slot).is_some_and(waits) && self.may_ask_another(now_ns, slot)
    }

    /// Takes over what another machine learnt of its servers; `same` has the number that each server had
    /// there.
    pub fn inherit(&mut self, before: &Self, same: &[Option<usize>]) {
        for (upstream, its_number) in same.iter().enumerate() {
            let Some(its_number) = *its_number else { continue };
            self.upstreams.inherit(upstream, &before.upstreams, its_number);
            self.cookies.inherit(upstream, &before.cookies, its_number);
        }
    }

    /// Draws from another secret as well from now on.
    pub fn renew_secret(&mut self, secret: [u8; 32]) {
        self.random.renew(secret);
    }

    /// Whether it is to be found out whether a server keeps the spelling of names.
    pub fn wants_spelling(&self, upstream: usize) -> bool {
        self.settings.asking.case_randomization
            && !self.settings.upstreams[upstream].stream_only
            && self.upstreams.wants_spelling(upstream)
    }

    /// What each server did, and what its answers must have.
    pub fn counts(&self, now_ns: u64) -> impl Iterator<Item = UpstreamCounts> + '_ {
        self.upstreams.counts(now_ns).enumerate().map(|(upstream, counts)| UpstreamCounts {
            cookie: self.sends_cookies(upstream) && self.cookies.is_known(upstream),
            spelled: self.settings.asking.case_randomization && counts.spelled,
            ..counts
        })
    }
}
