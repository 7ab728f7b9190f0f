//! Messages of clients, and which of these become jobs.

use dns64::rewrite::ClientQuery;
use dns64::wire::{CLASS_IN, Header, Message, rcode, rtype};

use super::{Machine, Output};
use crate::client::{Client, Query};
use crate::cookies::CookieStatus;
use crate::ede::code;
use crate::inflight::{Event, Job, State};
use crate::screen::{Refusal, Verdict, refuse_stranger, screen};
use crate::settings::View;
use crate::stats::Stats;

impl Machine {
    /// Takes a message from a client.
    pub fn handle_client(&mut self, now_ns: u64, client: Client, message: &[u8], out: &mut impl Output) {
        self.stats.client_messages += 1;
        self.recall.until_ns = u64::MAX;
        match screen(&self.settings, &client, message) {
            Verdict::Drop => {
                self.stats.dropped += 1;
                out.no_answer(&client);
            }
            Verdict::Stranger(header) if self.strangers.may_refuse(now_ns) => {
                let refusal = refuse_stranger(header, message);
                self.client_side.refuse(&client, &refusal, &mut self.stats, out);
            }
            Verdict::Stranger(_) => {
                self.stats.strangers_dropped += 1;
                out.no_answer(&client);
            }
            Verdict::Refuse(refusal) => self.refuse(now_ns, &client, &refusal, out),
            Verdict::Take { mut query, cookie } => {
                let status = self.client_side.cookie_status(now_ns, &client, cookie);
                if status == Some(CookieStatus::Malformed) {
                    return self.refuse(now_ns, &client, &malformed(message), out);
                }
                if let Some(edns) = &mut query.edns {
                    edns.cookie = status.and_then(CookieStatus::client_cookie);
                }
                let is_proven = !client.channel.is_udp() || matches!(status, Some(CookieStatus::Good(_)));
                self.begin(now_ns, &client, query, is_proven, out);
            }
        }
    }

    /// Refuses a message within the rate of its network: a refusal takes a token like an answer, so that
    /// nobody can have refusals sent to others without a limit.
    fn refuse(&mut self, now_ns: u64, client: &Client, refusal: &Refusal, out: &mut impl Output) {
        if self.client_side.may_refuse(now_ns, client) {
            self.client_side.refuse(client, refusal, &mut self.stats, out);
        } else {
            self.stats.rate_dropped += 1;
            out.no_answer(client);
        }
    }

    /// Answers a query, or begins a job for it. `is_proven`: the client gets what is sent to its address.
    fn begin(&mut self, now_ns: u64, client: &Client, query: Query, is_proven: bool, out: &mut impl Output) {
        let (client_side, stats) = (&mut self.client_side, &mut self.stats);
        if !client_side.within_rate(now_ns, client, &query, is_proven, stats, out) {
            return;
        }
        stats.accepted += 1;
        if self.upstream_side.came_back(&query.asked.question, out) {
            let causes = [Some(code::NETWORK_ERROR), None];
            return client_side.fail(now_ns, client, &query, causes, stats, out);
        }
        let number = self.settings.view_of(client);
        if client_side.answer_locally(now_ns, client, &query, number, stats, out) {
            return;
        }
        let view = &self.settings.views[number];
        let state = State::first(view, &query.asked);
        count_policy(view, &query.asked, state, stats);
        let deadline_ns = now_ns + self.settings.asking.deadline_ns;
        let stale_at_ns = self.recall.stale_at_ns(now_ns);
        let job = Job::new(*client, query, number, state, deadline_ns, stale_at_ns);
        match self.jobs.begin(job) {
            Some(slot) => self.advance(now_ns, slot, Event::Query, out),
            // One slot more than jobs may wait is there for the job that begins.
            None => debug_assert!(false, "no slot for a job"),
        }
    }
}

/// Counts why the DNS64 rule has no part in a AAAA question.
fn count_policy(view: &View, asked: &ClientQuery, state: State, stats: &mut Stats) {
    let question = &asked.question;
    if question.qtype != rtype::AAAA || question.qclass != CLASS_IN || state == State::NeedsAaaa {
        return;
    }
    let by_policy = view.rule.is_none() || view.never.covers(&question.name);
    let counter = if by_policy { &mut stats.passed_policy } else { &mut stats.passed_validating };
    *counter += 1;
}

fn malformed(message: &[u8]) -> Refusal {
    let parsed = Message::parse(message);
    Refusal {
        header: Header::parse(message).unwrap_or_default(),
        question: parsed.ok().map(|message| message.question()),
        rcode: rcode::FORMERR.into(),
        edns: true,
        extended_error: None,
    }
}
