//! The upstream servers: their health, the choice of the server to ask next, and the choice of the socket.

mod guard;
mod health;
mod sockets;
mod spelling;

use crate::ids::Random;
use crate::settings::Settings;
use guard::Guard;
pub use guard::{GUARD_NS, NEAR_MISSES_MAX};
use health::Health;
pub use health::PAUSE_NS;
use sockets::Sockets;
pub use spelling::Spelled;
use spelling::Spelling;

/// What one upstream server did, for statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamCounts {
    /// Queries sent, over UDP and streams.
    pub queries: u64,
    /// Answers that belong to them.
    pub answers: u64,
    /// Tries without an answer: none in time, or the stream ended.
    pub timeouts: u64,
    /// Queries in flight.
    pub in_flight: usize,
    /// Smoothed round-trip time in nanoseconds; 0 before the first answer.
    pub srtt_ns: u64,
    /// It is left out for a while.
    pub down: bool,
    /// Answers with the right question and a wrong ID.
    pub near_misses: u64,
    /// It is asked over streams alone for a while, because somebody guesses its answers.
    pub guarded: bool,
    /// It has sent cookies, and answers without ours are refused (RFC 7873).
    pub cookie: bool,
    /// The spelling of names is drawn, and answers in another spelling are refused (0x20).
    pub spelled: bool,
}

#[derive(Clone, Debug)]
struct Upstream {
    health: Health,
    spelling: Spelling,
    guard: Guard,
    sockets: Sockets,
    /// When it answered last.
    answered_ns: u64,
    in_flight: usize,
    in_flight_max: usize,
    queries: u64,
    answers: u64,
    timeouts: u64,
}

/// The upstream servers of one machine.
pub struct Upstreams {
    list: Vec<Upstream>,
    groups: Vec<Vec<usize>>,
}

impl Upstreams {
    /// The servers and groups of the settings.
    pub fn new(settings: &Settings) -> Self {
        let ports = settings.asking.ports;
        let upstream = |settings: &crate::settings::Upstream| Upstream {
            health: Health::default(),
            spelling: Spelling::default(),
            guard: Guard::default(),
            sockets: Sockets::new(ports),
            answered_ns: 0,
            in_flight: 0,
            in_flight_max: settings.in_flight,
            queries: 0,
            answers: 0,
            timeouts: 0,
        };
        Self { list: settings.upstreams.iter().map(upstream).collect(), groups: settings.groups.clone() }
    }

    /// Takes over what was learnt of a server that had this number among others: how it does, whether it
    /// keeps spellings, and whether somebody guesses its answers.
    pub fn inherit(&mut self, upstream: usize, before: &Self, its_number: usize) {
        let (Some(server), Some(known)) = (self.list.get_mut(upstream), before.list.get(its_number)) else {
            return;
        };
        server.health = known.health.clone();
        server.guard = known.guard.clone();
        // What changed spellings may have been changed itself: it is asked again.
        if known.spelling.is_demanded() {
            server.spelling = known.spelling;
        }
    }

    /// The number of servers in a group.
    pub fn group_len(&self, group: usize) -> usize {
        self.groups.get(group).map_or(0, Vec::len)
    }

    /// Whether there is a server of this number.
    pub fn contains(&self, upstream: usize) -> bool {
        upstream < self.list.len()
    }

    /// Whether no other server does the task of this one.
    pub fn is_alone(&self, upstream: usize) -> bool {
        !self.groups.iter().any(|group| group.len() > 1 && group.contains(&upstream))
    }

    /// The server is not asked any more.
    pub fn leave_out(&mut self, upstream: usize) {
        self.list[upstream].in_flight_max = 0;
    }

    /// Whether a server of the group may be asked at all.
    pub fn may_ask(&self, group: usize) -> bool {
        self.any_of(group, |upstream| self.list[upstream].in_flight_max > 0)
    }

    /// Whether a server of the group has fewer queries in flight than it may.
    pub fn has_room_in(&self, group: usize) -> bool {
        self.any_of(group, |upstream| self.has_room(upstream))
    }

    fn any_of(&self, group: usize, is_so: impl Fn(usize) -> bool) -> bool {
        self.groups.get(group).is_some_and(|members| members.iter().any(|&member| is_so(member)))
    }

    /// What each server did.
    pub fn counts(&self, now_ns: u64) -> impl Iterator<Item = UpstreamCounts> + '_ {
        self.list.iter().map(move |upstream| UpstreamCounts {
            queries: upstream.queries,
            answers: upstream.answers,
            timeouts: upstream.timeouts,
            in_flight: upstream.in_flight,
            srtt_ns: upstream.health.srtt_ns(),
            down: !upstream.health.is_up(now_ns),
            near_misses: upstream.guard.total(),
            guarded: upstream.guard.is_on(now_ns),
            cookie: false,
            spelled: upstream.spelling.is_demanded(),
        })
    }

    /// The number of the socket for the next query to a server, below the number of ports.
    pub fn socket(&mut self, upstream: usize, now_ns: u64, random: &mut Random) -> usize {
        self.list[upstream].sockets.draw(now_ns, random)
    }

    /// A query leaves for the server from this socket.
    pub fn sent_from(&mut self, upstream: usize, socket: usize) {
        self.list[upstream].sockets.sent(socket);
        self.sent(upstream);
    }

    /// A try from this socket of the server has ended, whatever the end.
    pub fn ended_from(&mut self, upstream: usize, socket: usize) {
        self.list[upstream].sockets.ended(socket);
        self.ended(upstream);
    }

    /// A socket of the server that waits for nothing; it is renewed now, which
    /// [`Upstreams::renewed_socket`] is told.
    pub fn drained_socket(&mut self, upstream: usize, now_ns: u64) -> Option<usize> {
        self.list.get_mut(upstream)?.sockets.take_drained(now_ns)
    }

    /// A new socket has this number.
    pub fn renewed_socket(&mut self, upstream: usize, socket: usize) {
        if let Some(upstream) = self.list.get_mut(upstream) {
            upstream.sockets.renewed(socket);
        }
    }

    /// Whether names in queries to the server are spelled at random.
    pub fn draws_spelling(&self, upstream: usize) -> bool {
        self.list[upstream].spelling.is_drawn()
    }

    /// Whether it is still to be found out whether the server keeps spellings.
    pub fn wants_spelling(&self, upstream: usize) -> bool {
        self.list[upstream].spelling.is_unknown()
    }

    /// Judges an answer of the server by its spelling: `kept` if it is the one that was sent, `tells` if that
    /// had upper-case letters.
    pub fn judge_spelling(&mut self, upstream: usize, kept: bool, tells: bool) -> Spelled {
        self.list[upstream].spelling.judge(kept, tells)
    }

    /// An answer had the right question and a wrong ID. Returns whether the server is asked over streams
    /// alone from now on, for [`GUARD_NS`].
    pub fn near_miss(&mut self, upstream: usize, now_ns: u64) -> bool {
        self.list[upstream].guard.near_miss(now_ns)
    }

    /// Whether the server is asked over streams alone, because somebody guesses its answers.
    pub fn is_guarded(&self, upstream: usize, now_ns: u64) -> bool {
        self.list[upstream].guard.is_on(now_ns)
    }

    /// Whether the server has answered anything since then.
    pub fn answered_since(&self, upstream: usize, since_ns: u64) -> bool {
        self.list[upstream].answered_ns > since_ns
    }

    /// The server of a group for a new lookup: the better one of two drawn at random from those that are up
    /// and below their limit. So fast servers get most of the queries, and slow ones enough to be seen
    /// getting faster. `None` when all have as many queries in flight as they may.
    pub fn choose(&self, group: usize, now_ns: u64, random: &mut Random) -> Option<usize> {
        let group = self.groups.get(group)?.as_slice();
        if let [only] = group {
            return Some(*only).filter(|&only| self.has_room(only));
        }
        let drawn = [(); 2].map(|()| group[random.below(group.len())]);
        let usable = |&upstream: &usize| self.is_usable(upstream, now_ns);
        match drawn.iter().copied().filter(usable).min_by_key(|&upstream| self.cost(upstream)) {
            Some(upstream) => Some(upstream),
            None => group
                .iter()
                .copied()
                .filter(usable)
                .min_by_key(|&upstream| self.cost(upstream))
                .or_else(|| group.iter().copied().find(|&upstream| self.has_room(upstream))),
        }
    }

    /// The server to try after this one: the next of its group that is up and has room, else the next that
    /// has room.
    pub fn after(&self, group: usize, upstream: usize, now_ns: u64) -> Option<usize> {
        let group = self.groups.get(group)?;
        let at = group.iter().position(|&member| member == upstream).unwrap_or(0);
        let in_turn = || (1..=group.len()).map(|step| group[(at + step) % group.len()]);
        in_turn()
            .find(|&next| self.is_usable(next, now_ns))
            .or_else(|| in_turn().find(|&next| self.has_room(next)))
    }

    /// A query leaves for the server.
    pub fn sent(&mut self, upstream: usize) {
        let upstream = &mut self.list[upstream];
        upstream.queries += 1;
        upstream.in_flight += 1;
    }

    /// A try at the server has ended, whatever the end.
    pub fn ended(&mut self, upstream: usize) {
        let upstream = &mut self.list[upstream];
        upstream.in_flight = upstream.in_flight.saturating_sub(1);
    }

    /// The server answered now after so long, whatever the answer. Returns whether it was down before.
    pub fn answered(&mut self, upstream: usize, now_ns: u64, rtt_ns: u64) -> bool {
        let upstream = &mut self.list[upstream];
        upstream.answers += 1;
        upstream.answered_ns = now_ns;
        upstream.health.answered(rtt_ns)
    }

    /// The server did not answer a try. Returns whether it is left out from now on.
    pub fn timed_out(&mut self, upstream: usize, now_ns: u64) -> bool {
        let upstream = &mut self.list[upstream];
        upstream.timeouts += 1;
        upstream.health.timed_out(now_ns)
    }

    /// Nothing listens at the server's address, or it asks us: it is left out for so long.
    pub fn pause(&mut self, upstream: usize, now_ns: u64, pause_ns: u64) -> bool {
        self.list[upstream].health.pause(now_ns, pause_ns)
    }

    /// The time within which 95 of 100 answers of the server come.
    pub fn usual_ns(&self, upstream: usize) -> u64 {
        self.list[upstream].health.p95_ns()
    }

    fn is_usable(&self, upstream: usize, now_ns: u64) -> bool {
        self.list[upstream].health.is_up(now_ns) && self.has_room(upstream)
    }

    fn has_room(&self, upstream: usize) -> bool {
        self.list[upstream].in_flight < self.list[upstream].in_flight_max
    }

    /// What a query at the server costs: its time, and more the more it has to do.
    fn cost(&self, upstream: usize) -> u64 {
        let upstream = &self.list[upstream];
        upstream.health.srtt_ns().saturating_mul(16 + upstream.in_flight as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::health::FAILURES_MAX;
    use super::*;
    use crate::settings;

    const MS: u64 = 1_000_000;

    fn given(count: usize) -> (Upstreams, Random) {
        let settings = Settings {
            upstreams: vec![settings::Upstream::default(); count],
            groups: vec![(0..count).collect()],
            ..Settings::default()
        };
        (Upstreams::new(&settings), Random::new([3; 32]))
    }

    fn shares(upstreams: &Upstreams, random: &mut Random, now_ns: u64) -> Vec<u32> {
        let mut shares = vec![0; upstreams.list.len()];
        for _ in 0..3000 {
            shares[upstreams.choose(0, now_ns, random).unwrap()] += 1;
        }
        shares
    }

    #[test]
    fn the_fast_one_is_asked_most_and_the_slow_one_still() {
        let (mut upstreams, mut random) = given(3);
        for (upstream, rtt_ns) in [(0, 10 * MS), (1, MS), (2, 30 * MS)] {
            for _ in 0..20 {
                upstreams.answered(upstream, 0, rtt_ns);
            }
        }
        let shares = shares(&upstreams, &mut random, 0);
        assert!(shares[1] > 1500 && shares[0] > shares[2] && shares[2] > 200, "{shares:?}");
    }

    #[test]
    fn the_dead_are_left_out_for_a_while() {
        let (mut upstreams, mut random) = given(3);
        assert!(upstreams.pause(1, 0, PAUSE_NS), "news");
        assert!(!upstreams.pause(1, 0, PAUSE_NS), "no news");
        assert_eq!(shares(&upstreams, &mut random, 1)[1], 0);
        assert_eq!(upstreams.after(0, 0, 1), Some(2));
        assert_eq!(upstreams.after(0, 0, PAUSE_NS), Some(1), "given another chance");
        assert!(upstreams.answered(1, 0, MS), "it was down");
        assert!(!upstreams.answered(1, 0, MS));
        assert_eq!(upstreams.after(0, 0, 1), Some(1));
    }

    #[test]
    fn a_few_timeouts_do_not_condemn_a_server() {
        let (mut upstreams, mut random) = given(2);
        for _ in 1..FAILURES_MAX {
            assert!(!upstreams.timed_out(1, 0));
        }
        assert_eq!(upstreams.after(0, 0, 1), Some(1));
        assert!(upstreams.timed_out(1, 0));
        assert_eq!(upstreams.after(0, 0, 1), Some(0), "the only one that is up");
        let (mut alone, _) = given(1);
        alone.pause(0, 0, PAUSE_NS);
        assert_eq!(alone.choose(0, 1, &mut random), Some(0), "the only one is always asked");
    }

    #[test]
    fn a_server_has_no_more_in_flight_than_it_may() {
        let (mut upstreams, mut random) = given(2);
        upstreams.list[0].in_flight_max = 1;
        upstreams.list[1].in_flight_max = 1;
        upstreams.sent(0);
        assert_eq!(shares(&upstreams, &mut random, 0), [0, 3000]);
        upstreams.sent(1);
        assert_eq!(upstreams.choose(0, 0, &mut random), None);
        assert_eq!(upstreams.after(0, 0, 0), None);
        upstreams.ended(0);
        assert_eq!(upstreams.choose(0, 0, &mut random), Some(0));
    }
}
