//! The state machine: one for each thread, told the time and handed the octets.

mod tries;

use dns64::reverse;
use dns64::rewrite::Asked;
use dns64::rule::{self, Step};
use dns64::wire::{HEADER_LENGTH, Header, Malformed, Message, rcode, rtype};

use super::answer::{self, Outcome};
use super::ids::{Ids, Random};
use super::inflight::{Client, InFlight, Query, Stage, Way};
use super::screen::{Refusal, Verdict, screen};
use super::settings::Settings;
use super::stats::Stats;
use super::upstreams::Upstreams;

/// Where a machine's messages go. A message is written straight into the buffer it leaves from; a writer that returns
/// 0 has nothing to send.
pub trait Output {
    /// Sends an answer to a client. The buffer holds at least [`Settings::udp_payload_octets`], 65,535 for TCP.
    fn to_client(&mut self, client: &Client, write: impl FnOnce(&mut [u8]) -> usize);
    /// Sends a query from a UDP socket of an upstream server. The buffer holds [`answer::QUERY_OCTETS_MAX`].
    fn to_upstream(&mut self, upstream: usize, socket: usize, write: impl FnOnce(&mut [u8]) -> usize);
    /// Asks an upstream server over TCP; the answer comes with `token` to [`Machine::handle_upstream_tcp`].
    fn to_upstream_tcp(&mut self, token: u64, upstream: usize, query: &[u8]);
}

/// So many answers with the right ID and the wrong question look like a forgery in progress: the query goes on over
/// TCP, where guessing does not help (RFC 5452 9.2).
const MISMATCHES_MAX: u8 = 3;

/// Space for one message in its client's spelling.
const SCRATCH_OCTETS: usize = 65_535;

/// dns64d without sockets and clock.
pub struct Machine {
    settings: Settings,
    inflight: InFlight,
    /// For each upstream server, one for each of its sockets.
    ids: Vec<Ids>,
    upstreams: Upstreams,
    random: Random,
    scratch: Vec<u8>,
    stats: Stats,
}

impl Machine {
    /// A machine at rest. `seed` is the secret that IDs, ports and spellings are drawn from.
    pub fn new(settings: Settings, seed: [u8; 32]) -> Self {
        let sockets = settings.upstreams.max(1) * settings.ports.max(1);
        Self {
            inflight: InFlight::new(settings.in_flight),
            ids: (0..sockets).map(|_| Ids::new()).collect(),
            upstreams: Upstreams::new(settings.upstreams, settings.ports),
            random: Random::new(seed),
            scratch: vec![0; SCRATCH_OCTETS],
            stats: Stats::default(),
            settings,
        }
    }

    /// What was counted so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The number of queries in flight.
    pub fn in_flight(&self) -> usize {
        self.inflight.len()
    }

    /// Begins a batch of work: draws the sockets that its upstream queries leave from.
    pub fn begin_batch(&mut self) {
        self.upstreams.draw_sockets(&mut self.random);
    }

    /// Takes a message from a client.
    pub fn handle_client(&mut self, now_ns: u64, client: Client, message: &[u8], out: &mut impl Output) {
        self.stats.client_messages += 1;
        match screen(&self.settings, client.address, message) {
            Verdict::Drop => self.stats.dropped += 1,
            Verdict::Refuse(refusal) => self.refuse(&client, &refusal, out),
            Verdict::Take { asked, payload_octets } => {
                self.stats.accepted += 1;
                // A cache belongs here: it answers, or the query goes on to an upstream server.
                self.start(now_ns, client, asked, payload_octets, out);
            }
        }
    }

    /// Takes a datagram that came to a socket of an upstream server from that server's address.
    pub fn handle_upstream(
        &mut self,
        now_ns: u64,
        upstream: usize,
        socket: usize,
        message: &[u8],
        out: &mut impl Output,
    ) {
        let Ok(header) = Header::parse(message) else { return self.stats.upstream_unexpected += 1 };
        let slot = self.ids.get(self.ids_index(upstream, socket)).and_then(|ids| ids.slot(header.id));
        let Some((slot, query)) = slot.and_then(|slot| Some((slot, self.inflight.get(slot)?))) else {
            return self.stats.upstream_unexpected += 1;
        };
        let Some(reply) = self.matching(query, message) else { return self.mismatch(now_ns, slot, out) };
        self.end_try(slot);
        self.upstreams.answered(upstream);
        self.stats.upstream_answers += 1;
        if reply.header.has(Header::TC) {
            self.send_tcp(now_ns, slot, out);
        } else {
            self.take_reply(now_ns, slot, &reply, out);
        }
    }

    /// Takes the answer to a query over TCP, or `None` when there will be none.
    pub fn handle_upstream_tcp(
        &mut self,
        now_ns: u64,
        token: u64,
        message: Option<&[u8]>,
        out: &mut impl Output,
    ) {
        let Some(slot) = self.inflight.slot_of(token) else { return };
        let Some(query) = self.inflight.get(slot) else { return };
        let upstream = query.upstream;
        let reply = message
            .filter(|message| Header::parse(message).is_ok_and(|header| header.id == query.id))
            .and_then(|message| self.matching(query, message))
            // There is no way left to get the rest.
            .filter(|reply| !reply.header.has(Header::TC));
        match reply {
            Some(reply) => {
                self.upstreams.answered(upstream);
                self.stats.upstream_answers += 1;
                self.take_reply(now_ns, slot, &reply, out);
            }
            None => self.retry(now_ns, slot, out),
        }
    }

    /// Learns that nothing listens at an upstream server's address (ICMP port unreachable at this socket).
    ///
    /// With several servers, the socket's queries go to the next one at once. With one, they wait for their timeout:
    /// a server that restarts is back by then.
    pub fn handle_upstream_unreachable(
        &mut self,
        now_ns: u64,
        upstream: usize,
        socket: usize,
        out: &mut impl Output,
    ) {
        if upstream >= self.upstreams.len() || self.upstreams.len() == 1 {
            return;
        }
        self.upstreams.unreachable(upstream, now_ns);
        // Queries that are sent again go to the end of the list, so it is walked only as far as it is long now.
        let mut at = self.inflight.first_due().map(|(slot, _)| slot);
        for _ in 0..self.inflight.len() {
            let Some(slot) = at else { break };
            at = self.inflight.next_of(slot);
            let affected = |query: &Query| query.upstream == upstream && query.way == Way::Udp { socket };
            if self.inflight.get(slot).is_some_and(affected) {
                self.end_try(slot);
                self.retry(now_ns, slot, out);
            }
        }
    }

    /// When [`Machine::handle_timeout`] must be called, if nothing else happens before.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.inflight.first_due().map(|(_, due_ns)| due_ns)
    }

    /// Ends the tries whose time is over.
    pub fn handle_timeout(&mut self, now_ns: u64, out: &mut impl Output) {
        while let Some((slot, _)) = self.inflight.first_due().filter(|&(_, due_ns)| due_ns <= now_ns) {
            self.stats.timeouts += 1;
            if let Some(query) = self.inflight.get(slot) {
                self.upstreams.timed_out(query.upstream, now_ns);
            }
            self.end_try(slot);
            self.retry(now_ns, slot, out);
        }
    }

    fn refuse(&mut self, client: &Client, refusal: &Refusal, out: &mut impl Output) {
        self.stats.refused += 1;
        out.to_client(client, |buffer| answer::write_refusal(&self.settings, refusal, buffer));
    }

    fn start(
        &mut self,
        now_ns: u64,
        client: Client,
        asked: Asked,
        client_payload_octets: Option<u16>,
        out: &mut impl Output,
    ) {
        if self.inflight.len() == self.settings.in_flight {
            self.evict_oldest();
        }
        let query = Query {
            client,
            stage: self.first_stage(&asked),
            asked,
            client_payload_octets,
            deadline_ns: now_ns + self.settings.deadline_ns,
            tries_left: self.settings.tries,
            mismatches: 0,
            upstream: self.upstreams.choose(now_ns),
            // Until the first try; no ID is taken yet.
            way: Way::Tcp,
            id: 0,
            case_bits: [0; 32],
        };
        if let Some(slot) = self.inflight.insert(query, now_ns + self.settings.timeout_ns) {
            self.send(now_ns, slot, out);
        }
    }

    fn first_stage(&self, asked: &Asked) -> Stage {
        if self.settings.rule.applies_to(asked) {
            return Stage::Aaaa;
        }
        if asked.question.qtype == rtype::PTR
            && self.settings.ptr.is_some()
            && let Some(ipv6) = reverse::ipv6_of(&asked.question.name)
            && let Some(ipv4) = self.settings.rule.ipv4_of(ipv6)
        {
            return Stage::Reverse { ipv4 };
        }
        Stage::Plain
    }

    /// Makes room: the query whose try began first is the least likely to be answered still.
    fn evict_oldest(&mut self) {
        if let Some((slot, _)) = self.inflight.first_due() {
            self.end_try(slot);
            self.inflight.remove(slot);
            self.stats.evicted += 1;
        }
    }

    /// The reply in a message, if its question is the one that was sent: name, type and class, and the spelling where
    /// that was drawn (RFC 5452 9.1).
    fn matching<'m>(&self, query: &Query, message: &'m [u8]) -> Option<Message<'m>> {
        let reply = Message::parse(message).ok().filter(|reply| reply.header.has(Header::QR))?;
        let sent = query.upstream_question();
        let spelled =
            !self.settings.case_randomization || reply.question.name.as_wire() == sent.name.as_wire();
        (reply.header.opcode() == 0 && reply.question == sent && spelled).then_some(reply)
    }

    fn mismatch(&mut self, now_ns: u64, slot: u16, out: &mut impl Output) {
        self.stats.upstream_mismatched += 1;
        let Some(query) = self.inflight.get_mut(slot) else { return };
        query.mismatches += 1;
        if query.mismatches >= MISMATCHES_MAX {
            self.end_try(slot);
            self.send_tcp(now_ns, slot, out);
        }
    }

    /// Takes the reply to the current try, which has ended.
    fn take_reply(&mut self, now_ns: u64, slot: u16, reply: &Message<'_>, out: &mut impl Output) {
        // A server that cannot or will not answer says nothing about what the next one knows. One that found forged
        // data does.
        let unwilling = matches!(reply.header.rcode(), rcode::SERVFAIL | rcode::REFUSED)
            && !rule::failed_validation(reply);
        if unwilling && self.upstreams.len() > 1 && self.may_try_again(now_ns, slot) {
            return self.try_next_server(now_ns, slot, out);
        }
        if self.settings.case_randomization {
            self.take_respelled(now_ns, slot, reply, out);
        } else {
            self.apply_rule(now_ns, slot, reply, out);
        }
    }

    /// Names in the reply point to its question: give that the spelling of the client before anything is copied.
    fn take_respelled(&mut self, now_ns: u64, slot: u16, reply: &Message<'_>, out: &mut impl Output) {
        let Some(query) = self.inflight.get(slot) else { return };
        let spelling = Query { case_bits: [0; 32], ..*query }.upstream_question().name;
        let mut scratch = std::mem::take(&mut self.scratch);
        let copy = &mut scratch[..reply.octets().len().min(SCRATCH_OCTETS)];
        copy.copy_from_slice(&reply.octets()[..copy.len()]);
        copy[HEADER_LENGTH..HEADER_LENGTH + spelling.as_wire().len()].copy_from_slice(spelling.as_wire());
        match Message::parse(copy) {
            Ok(reply) => self.apply_rule(now_ns, slot, &reply, out),
            Err(Malformed(_)) => self.fail(slot, out),
        }
        self.scratch = scratch;
    }

    fn apply_rule(&mut self, now_ns: u64, slot: u16, reply: &Message<'_>, out: &mut impl Output) {
        let Some(query) = self.inflight.get(slot) else { return };
        let step = match query.stage {
            Stage::Aaaa => rule::next_step(&self.settings.rule, &query.asked, Some(reply)),
            _ => Step::PassThrough,
        };
        match step {
            Step::AskA { ttl_cap_s } if self.in_time(now_ns, query) => {
                self.ask_a(now_ns, slot, ttl_cap_s, out);
            }
            Step::AskA { .. } | Step::Fail => self.fail(slot, out),
            Step::StripExcluded => self.finish(slot, reply, true, out),
            Step::PassThrough => self.finish(slot, reply, false, out),
        }
    }

    /// Answers the client from the reply, and frees the slot.
    fn finish(&mut self, slot: u16, reply: &Message<'_>, strip: bool, out: &mut impl Output) {
        let Some(query) = self.inflight.get(slot) else { return };
        let settings = &self.settings;
        let mut outcome = Ok(Outcome::default());
        out.to_client(&query.client, |buffer| {
            match answer::write_answer(settings, query, reply, strip, buffer) {
                Ok((octets, written)) => {
                    outcome = Ok(written);
                    octets
                }
                Err(malformed) => {
                    outcome = Err(malformed);
                    answer::write_failure(settings, query, buffer)
                }
            }
        });
        match outcome {
            Ok(outcome) => {
                self.stats.answered += 1;
                self.stats.synthesized += u64::from(outcome.synthesized);
                self.stats.truncated += u64::from(outcome.truncated);
            }
            Err(Malformed(_)) => self.stats.failed += 1,
        }
        self.inflight.remove(slot);
    }

    /// Answers SERVFAIL and frees the slot.
    fn fail(&mut self, slot: u16, out: &mut impl Output) {
        self.end_try(slot);
        let Some(query) = self.inflight.remove(slot) else { return };
        self.stats.failed += 1;
        out.to_client(&query.client, |buffer| answer::write_failure(&self.settings, &query, buffer));
    }
}
