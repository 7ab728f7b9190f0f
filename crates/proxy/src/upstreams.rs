//! Which upstream server, and which of its sockets, a query goes to.

use super::ids::Random;

/// So many tries in a row without any answer condemn a server: one name that times out does not.
const FAILURES_MAX: u32 = 16;

/// How long a condemned server is left alone.
const PAUSE_NS: u64 = 2_000_000_000;

#[derive(Clone, Copy, Default)]
struct Upstream {
    failures: u32,
    down_until_ns: u64,
    socket: usize,
}

/// The upstream servers of one machine.
pub struct Upstreams {
    list: Vec<Upstream>,
    ports: usize,
    last: usize,
}

impl Upstreams {
    /// `servers` servers with `ports` sockets each, both at least 1.
    pub fn new(servers: usize, ports: usize) -> Self {
        Self { list: vec![Upstream::default(); servers.max(1)], ports: ports.max(1), last: 0 }
    }

    /// The number of servers.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none: never.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Draws the socket of each server for the queries to come.
    ///
    /// All queries of one batch of work leave from the same socket, so that one sendmmsg takes them all; a socket for
    /// each query would cost a system call each. An attacker off the path still cannot know the port: it is drawn
    /// from the cryptographic generator for every batch, which is a few dozen queries at most.
    pub fn draw_sockets(&mut self, random: &mut Random) {
        if self.ports > 1 {
            for upstream in &mut self.list {
                upstream.socket = random.below(self.ports);
            }
        }
    }

    /// The socket of this batch.
    pub fn socket(&self, upstream: usize) -> usize {
        self.list[upstream].socket
    }

    /// The server for a new query: each in turn, without those that are down.
    pub fn choose(&mut self, now_ns: u64) -> usize {
        self.last = self.after(self.last, now_ns);
        self.last
    }

    /// The server to try after this one. When all others are down, the next one in turn.
    pub fn after(&self, upstream: usize, now_ns: u64) -> usize {
        let count = self.list.len();
        let in_turn = |step: usize| (upstream + step) % count;
        (1..=count).map(in_turn).find(|&next| self.list[next].down_until_ns <= now_ns).unwrap_or(in_turn(1))
    }

    /// The server answered, whatever the answer.
    pub fn answered(&mut self, upstream: usize) {
        self.list[upstream].failures = 0;
        self.list[upstream].down_until_ns = 0;
    }

    /// The server did not answer a try.
    pub fn timed_out(&mut self, upstream: usize, now_ns: u64) {
        let server = &mut self.list[upstream];
        server.failures = server.failures.saturating_add(1);
        if server.failures >= FAILURES_MAX {
            server.down_until_ns = now_ns + PAUSE_NS;
        }
    }

    /// Nothing listens at the server's address.
    pub fn unreachable(&mut self, upstream: usize, now_ns: u64) {
        self.list[upstream].down_until_ns = now_ns + PAUSE_NS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_take_turns_and_the_dead_are_left_out_for_a_while() {
        let mut upstreams = Upstreams::new(3, 1);
        let round =
            |upstreams: &mut Upstreams, now| (0..3).map(|_| upstreams.choose(now)).collect::<Vec<_>>();
        assert_eq!(round(&mut upstreams, 0), [1, 2, 0]);
        upstreams.unreachable(1, 0);
        assert_eq!(round(&mut upstreams, 1), [2, 0, 2]);
        assert_eq!(upstreams.after(0, 1), 2);
        assert_eq!(upstreams.after(0, PAUSE_NS), 1, "given another chance");
        upstreams.answered(1);
        assert_eq!(upstreams.after(0, 1), 1);
    }

    #[test]
    fn a_few_timeouts_do_not_condemn_a_server() {
        let mut upstreams = Upstreams::new(2, 1);
        for _ in 1..FAILURES_MAX {
            upstreams.timed_out(1, 0);
        }
        assert_eq!(upstreams.after(0, 1), 1);
        upstreams.timed_out(1, 0);
        assert_eq!(upstreams.after(0, 1), 0);
        upstreams.timed_out(0, 0);
        let mut alone = Upstreams::new(1, 1);
        alone.unreachable(0, 0);
        assert_eq!(alone.choose(1), 0, "the only one is always asked");
    }
}
