//! Anything that happens to dns64d's machine: no panic, every answer is one, every query ends once, the
//! counters add up.
//!
//! An input is an octet that chooses the settings, and [`Operation`]s. All that waits in the end is given an
//! hour.

mod operation;
mod peers;
mod settings;

use std::sync::Arc;

use server_core::machine::Shared;
use server_core::{Machine, Stats};

use super::input::Input;
pub use operation::Operation;
use peers::{Peers, Way};

/// The longest conversation.
const OPERATIONS_MAX: usize = 256;
const HOUR_NS: u64 = 3_600_000_000_000;
/// Far more than the timeouts of all tries of all lookups.
const TIMEOUTS_MAX: usize = 10_000;

/// Plays the conversation.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut talk = Talk::new(input.octet());
    for _ in 0..OPERATIONS_MAX {
        if input.is_empty() {
            break;
        }
        talk.play(Operation::decode(&mut input));
    }
    talk.wait(HOUR_NS);
    talk.end();
}

struct Talk {
    machine: Machine,
    peers: Peers,
    now_ns: u64,
}

impl Talk {
    fn new(choice: u8) -> Self {
        let (settings, cache_octets) = settings::chosen(choice);
        let shared = Shared::new(&settings, cache_octets, [7; 32]);
        let peers = Peers::new(&settings);
        Self { machine: Machine::new(Arc::new(settings), shared, [7; 32]), peers, now_ns: 1 }
    }

    fn play(&mut self, operation: Operation<'_>) {
        match operation {
            Operation::Client { kind, octets } => self.ask(kind, octets),
            Operation::Again { kind, message } => {
                if let Some(octets) = self.peers.earlier_message(message) {
                    self.ask(kind, &octets);
                }
            }
            Operation::Wait { units } => self.wait(operation::duration_ns(units)),
            Operation::Reply { query, .. } | Operation::Told { query, .. } => {
                self.answer_query(query, |asked| operation.reply_to(&asked.octets));
            }
            Operation::Forged { query, .. } => {
                self.answer_query(query, |asked| operation.reply_to(&asked.octets));
            }
            Operation::StreamEnd { query } => self.answer_query(query, |_| None),
            Operation::Unreachable { query } => {
                let asked = self.peers.asked(query).map(|asked| (asked.upstream, asked.way));
                if let Some((upstream, Way::Udp { .. })) = asked {
                    self.machine.handle_upstream_unreachable(self.now_ns, upstream);
                }
            }
        }
        self.check();
    }

    fn ask(&mut self, kind: u8, octets: &[u8]) {
        let client = self.peers.arrive(kind, octets.to_vec());
        self.machine.handle_client(self.now_ns, client, octets, &mut self.peers);
    }

    /// Hands the machine a message where the reply to a query belongs. Without one, the query's stream ends.
    fn answer_query(&mut self, query: u8, message: impl FnOnce(&peers::ClientQuery) -> Option<Vec<u8>>) {
        let Some(asked) = self.peers.asked(query) else { return };
        let (upstream, way, message) = (asked.upstream, asked.way, message(asked));
        match (way, message) {
            (Way::Udp { socket }, Some(message)) => {
                self.machine.handle_upstream(self.now_ns, upstream, socket, &message, &mut self.peers);
            }
            (Way::Udp { .. }, None) => {}
            (Way::Stream { token }, message) => {
                self.machine.handle_upstream_stream(self.now_ns, token, message.as_deref(), &mut self.peers);
            }
        }
    }

    /// Lets time pass; the machine is woken whenever it asked for it.
    fn wait(&mut self, duration_ns: u64) {
        let end_ns = self.now_ns + duration_ns;
        for timeout in 0.. {
            let Some(due_ns) = self.machine.poll_timeout().filter(|&due_ns| due_ns <= end_ns) else { break };
            assert!(timeout < TIMEOUTS_MAX, "the machine goes on without end");
            self.now_ns = self.now_ns.max(due_ns);
            self.machine.handle_timeout(self.now_ns, &mut self.peers);
        }
        self.now_ns = end_ns;
    }

    /// What is true at any time.
    fn check(&self) {
        let Stats { accepted, answered, failed, evicted, .. } = *self.machine.stats();
        assert_eq!(accepted, answered + failed + evicted + self.machine.waiting() as u64);
        let Stats {
            client_messages, dropped, strangers_dropped, refused, rate_slipped, rate_dropped, ..
        } = *self.machine.stats();
        assert_eq!(
            client_messages,
            dropped + strangers_dropped + refused + rate_slipped + rate_dropped + accepted
        );
    }

    /// What is true when nothing is in flight any more.
    fn end(&self) {
        self.check();
        assert_eq!((self.machine.in_flight(), self.machine.waiting()), (0, 0));
        assert_eq!(self.machine.poll_timeout(), None);
        for upstream in self.machine.upstream_counts(self.now_ns) {
            assert_eq!(upstream.in_flight, 0);
        }
        self.peers.end();
    }
}
