//! Clients' messages: which of them become jobs.

use std::net::IpAddr;

use dns64::reverse;
use dns64::rewrite::Asked;
use dns64::wire::{CLASS_IN, Header, Question, rcode, rtype};

use super::{Machine, Notice, Output};
use crate::answer::{self, Form, Notes};
use crate::buckets;
use crate::client::{Client, Query};
use crate::cookies::Judged;
use crate::ede::code;
use crate::inflight::{Job, Stage};
use crate::local::{self, LocalAnswer};
use crate::screen::{Refusal, Verdict, screen};
use crate::settings::View;

impl Machine {
    /// Takes a message from a client.
    pub fn handle_client(&mut self, now_ns: u64, client: Client, message: &[u8], out: &mut impl Output) {
        self.stats.client_messages += 1;
        self.recalled_until_ns = u64::MAX;
        match screen(&self.settings, client.address, message) {
            Verdict::Drop => {
                self.stats.dropped += 1;
                out.no_answer(&client);
            }
            Verdict::Refuse(refusal) => self.refuse(&client, &refusal, out),
            Verdict::Take { query, cookie } => self.admit(now_ns, &client, query, cookie, message, out),
        }
    }

    fn admit(
        &mut self,
        now_ns: u64,
        client: &Client,
        mut query: Query,
        cookie: Option<&[u8]>,
        message: &[u8],
        out: &mut impl Output,
    ) {
        match self.judge_cookie(now_ns, client, cookie) {
            Ok(client_cookie) => {
                if let Some(edns) = &mut query.edns {
                    edns.cookie = client_cookie;
                }
            }
            Err(()) => return self.refuse(client, &malformed(message), out),
        }
        if client.channel.is_udp() && !self.within_rate(now_ns, client, &query, out) {
            return;
        }
        self.stats.accepted += 1;
        if self.came_back(&query.asked.question, out) {
            return self.fail(now_ns, client, &query, [Some(code::NETWORK_ERROR), None], out);
        }
        let view = self.view_of(client);
        if self.answer_locally(now_ns, client, &query, view, out) {
            return;
        }
        let stage = first_stage(&self.settings.views[view], &query.asked);
        self.count_policy(view, &query.asked, stage);
        let deadline_ns = now_ns + self.settings.asking.deadline_ns;
        self.jobs_begun += 1;
        let mut job = Job::new(*client, query, view, stage, deadline_ns, self.jobs_begun);
        job.stale_at_ns = self.stale_at_ns(now_ns);
        self.go_on(now_ns, job, out);
    }

    /// The client cookie of a query, or `Err` where its COOKIE option is malformed (RFC 7873 5.2.2).
    fn judge_cookie(
        &self,
        now_ns: u64,
        client: &Client,
        option: Option<&[u8]>,
    ) -> Result<Option<[u8; 8]>, ()> {
        let Some(option) = option.filter(|_| self.settings.cookies) else { return Ok(None) };
        match self.shared.cookies.judge(client.address.ip(), option, self.unix_s(now_ns)) {
            Judged::Malformed => Err(()),
            Judged::ClientOnly(cookie) | Judged::Bad(cookie) | Judged::Good(cookie) => Ok(Some(cookie)),
        }
    }

    /// Whether the client's network is within its rate; if not, the query has ended.
    fn within_rate(&mut self, now_ns: u64, client: &Client, query: &Query, out: &mut impl Output) -> bool {
        let Some(buckets) = &self.shared.buckets else { return true };
        match buckets.take(client.address.ip(), now_ns) {
            buckets::Verdict::Pass => true,
            buckets::Verdict::Drop => {
                self.stats.rate_dropped += 1;
                false
            }
            buckets::Verdict::Slip => {
                self.stats.rate_slipped += 1;
                let form = self.form(now_ns, client, query);
                let flags = query.asked.answer_flags(rcode::NOERROR) | Header::TC;
                out.to_client(client, |buffer| {
                    answer::write_empty(&form, &query.asked, flags, &Notes::none(), buffer)
                });
                false
            }
        }
    }

    /// Whether a question is one that we sent ourselves to see whether it comes back.
    fn came_back(&mut self, question: &Question, out: &mut impl Output) -> bool {
        let Some(upstream) = self.shared.loops.upstream_of(&question.name) else { return false };
        if self.shared.loops.report(upstream) {
            out.notice(Notice::Loop(upstream));
        }
        true
    }

    /// The first view that takes the client. The last takes everybody.
    fn view_of(&self, client: &Client) -> usize {
        let views = &self.settings.views;
        if views.len() == 1 {
            return 0;
        }
        let address: IpAddr = client.address.ip().to_canonical();
        let takes = |view: &View| {
            (view.listeners.is_empty() || view.listeners.contains(&client.listener))
                && (view.clients.is_empty() || view.clients.iter().any(|range| range.contains(address)))
        };
        views.iter().position(takes).unwrap_or(views.len() - 1)
    }

    fn answer_locally(
        &mut self,
        now_ns: u64,
        client: &Client,
        query: &Query,
        view: usize,
        out: &mut impl Output,
    ) -> bool {
        let (form, settings) = (self.form(now_ns, client, query), &*self.settings);
        let room = form.room(&mut self.buffers.scrubbed);
        let view = &settings.views[view];
        let written = local::answer(&settings.local, view, &query.asked, client.channel.is_udp(), room);
        let LocalAnswer::Written { octets, ede } = written else { return false };
        let mut notes = Notes::none();
        ede.into_iter().for_each(|code| notes.say(code));
        let answer = &self.buffers.scrubbed[..octets];
        out.to_client(client, |buffer| {
            let Some(place) = buffer.get_mut(..octets) else { return 0 };
            place.copy_from_slice(answer);
            form.finish(buffer, octets, &notes)
        });
        self.stats.local += 1;
        self.stats.answered += 1;
        true
    }

    fn refuse(&mut self, client: &Client, refusal: &Refusal, out: &mut impl Output) {
        self.stats.refused += 1;
        out.to_client(client, |buffer| answer::write_refusal(&self.settings, refusal, buffer));
    }

    /// Why the DNS64 rule has no part in a AAAA question.
    fn count_policy(&mut self, view: usize, asked: &Asked, stage: Stage) {
        if asked.question.qtype != rtype::AAAA || asked.question.qclass != CLASS_IN || stage == Stage::Aaaa {
            return;
        }
        let view = &self.settings.views[view];
        let by_policy = view.rule.is_none() || view.never.covers(&asked.question.name);
        let counter =
            if by_policy { &mut self.stats.passed_policy } else { &mut self.stats.passed_validating };
        *counter += 1;
    }

    /// The form of the answers to a query.
    pub(super) fn form(&self, now_ns: u64, client: &Client, query: &Query) -> Form {
        let cookie = query.edns.and_then(|edns| edns.cookie);
        let unix_s = self.unix_s(now_ns);
        let cookie = cookie.map(|cookie| self.shared.cookies.write(cookie, client.address.ip(), unix_s));
        Form::of(&self.settings, client, query, cookie)
    }

    fn unix_s(&self, now_ns: u64) -> u32 {
        (self.unix_zero_s + now_ns / 1_000_000_000) as u32
    }
}

/// What a job begins with.
fn first_stage(view: &View, asked: &Asked) -> Stage {
    let Some(policy) = &view.rule else { return Stage::Plain };
    let question = &asked.question;
    if policy.applies_to(asked) && !view.never.covers(&question.name) {
        return Stage::Aaaa;
    }
    if question.qtype == rtype::PTR
        && question.qclass == CLASS_IN
        && view.ptr.is_some()
        && let Some(ipv6) = reverse::ipv6_of(&question.name)
        && let Some(ipv4) = policy.ipv4_of(ipv6)
    {
        return Stage::Reverse { ipv4 };
    }
    Stage::Plain
}

fn malformed(message: &[u8]) -> Refusal {
    let parsed = dns64::wire::Message::parse(message);
    Refusal {
        header: Header::parse(message).unwrap_or_default(),
        question: parsed.ok().map(|message| message.question()),
        rcode: rcode::FORMERR.into(),
        edns: true,
        extended_error: None,
    }
}
