//! Messages to clients: answers, errors and refusals, each in the form that the query asks for.

use std::sync::Arc;

use dns64::steps;
use dns64::wire::{HEADER_LENGTH, Header, Malformed, Message, Name, rcode, rtype};

use super::{MESSAGE_OCTETS_MAX, Output, Shared};
use crate::answer::{self, ExtendedErrors, Form, Outcome, Source};
use crate::buckets::{self, Buckets};
use crate::client::{Client, Query};
use crate::cookies::{CookieStatus, ServerCookies};
use crate::inflight::{Job, State};
use crate::local::{self, LocalAnswer};
use crate::screen::Refusal;
use crate::settings::Settings;
use crate::stats::Stats;

/// The side of a machine that faces the clients.
pub(super) struct ClientSide {
    settings: Arc<Settings>,
    cookies: Arc<ServerCookies>,
    buckets: Option<Arc<Buckets>>,
    /// Those of clients that get what is sent to their address: over streams, and with a server cookie.
    proven_buckets: Option<Arc<Buckets>>,
    /// Seconds since 1970 at the monotonic clock's zero.
    pub unix_zero_s: u64,
    /// Space for a reply in the client's spelling.
    respelled: Vec<u8>,
    /// Space for an answer of our own.
    local: Vec<u8>,
}

/// What a job is answered from.
#[derive(Clone, Copy)]
pub(super) struct Origin<'m> {
    /// The state whose question the reply answers.
    pub state: State,
    pub reply: &'m Message<'m>,
    /// Excluded AAAA records are taken out.
    pub strip: bool,
    /// The extended errors that belong to the answer.
    pub notes: ExtendedErrors<'m>,
}

impl ClientSide {
    pub fn new(settings: Arc<Settings>, shared: &Shared) -> Self {
        Self {
            settings,
            cookies: shared.cookies.clone(),
            buckets: shared.buckets.clone(),
            proven_buckets: shared.proven_buckets.clone(),
            unix_zero_s: 0,
            respelled: Vec::with_capacity(MESSAGE_OCTETS_MAX),
            local: vec![0; MESSAGE_OCTETS_MAX],
        }
    }

    /// What the COOKIE option of a query is worth; none where there is no such option, or cookies are off.
    pub fn cookie_status(&self, now_ns: u64, client: &Client, option: Option<&[u8]>) -> Option<CookieStatus> {
        let option = option.filter(|_| self.settings.cookies)?;
        Some(self.cookies.judge(client.address.ip(), option, self.unix_s(now_ns)))
    }

    /// Whether the client's network is within its rate; if not, the query has ended. Proven addresses have a
    /// bucket of their own, which forged datagrams cannot empty. A client above the rate of that bucket is
    /// not sent to another transport, which has the same bucket.
    pub fn within_rate(
        &self,
        now_ns: u64,
        client: &Client,
        query: &Query,
        is_proven: bool,
        stats: &mut Stats,
        out: &mut impl Output,
    ) -> bool {
        let Some(buckets) = self.buckets_of(is_proven) else { return true };
        match buckets.take(client.address.ip(), now_ns) {
            buckets::Verdict::Pass => true,
            buckets::Verdict::Slip if !is_proven => {
                stats.rate_slipped += 1;
                self.say_truncated(now_ns, client, query, out);
                false
            }
            buckets::Verdict::Slip | buckets::Verdict::Drop => {
                stats.rate_dropped += 1;
                out.no_answer(client);
                false
            }
        }
    }

    /// Whether the client's network is within its rate with a message that is refused. If not, there is no
    /// answer: over TCP the message would be refused, too.
    pub fn may_refuse(&self, now_ns: u64, client: &Client) -> bool {
        let buckets = self.buckets_of(!client.channel.is_udp());
        buckets.is_none_or(|buckets| buckets.take(client.address.ip(), now_ns) == buckets::Verdict::Pass)
    }

    fn buckets_of(&self, is_proven: bool) -> Option<&Buckets> {
        let buckets = if is_proven { &self.proven_buckets } else { &self.buckets };
        buckets.as_deref()
    }

    /// Refuses a message that does not become a query.
    pub fn refuse(&self, client: &Client, refusal: &Refusal, stats: &mut Stats, out: &mut impl Output) {
        stats.refused += 1;
        out.to_client(client, |buffer| answer::write_refusal(&self.settings, refusal, buffer));
    }

    /// Answers a question that is answered without asking; false where it is none.
    pub fn answer_locally(
        &mut self,
        now_ns: u64,
        client: &Client,
        query: &Query,
        view: usize,
        stats: &mut Stats,
        out: &mut impl Output,
    ) -> bool {
        let (form, settings) = (self.form(now_ns, client, query), &*self.settings);
        let room = form.room(&mut self.local);
        let view = &settings.views[view];
        let (asked, over_udp) = (&query.asked, client.channel.is_udp());
        let written = local::answer(&settings.local, view, &settings.routes, asked, over_udp, room);
        let LocalAnswer::Written { octets, ede } = written else { return false };
        let mut notes = ExtendedErrors::none();
        ede.into_iter().for_each(|code| notes.say(code));
        let answer = &self.local[..octets];
        out.to_client(client, |buffer| {
            let Some(place) = buffer.get_mut(..octets) else { return 0 };
            place.copy_from_slice(answer);
            form.finish(buffer, octets, &notes)
        });
        stats.local += 1;
        stats.answered += 1;
        true
    }

    /// Answers a job from a reply.
    pub fn answer(
        &mut self,
        now_ns: u64,
        job: &Job,
        origin: Origin<'_>,
        stats: &mut Stats,
        out: &mut impl Output,
    ) {
        let Origin { state, reply, strip, mut notes } = origin;
        let form = self.form(now_ns, &job.client, &job.query);
        let reply = match state {
            // The question is not the client's.
            State::NeedsPtr { .. } => Some(*reply),
            _ => respelled(reply, &job.query.asked.question.name, &mut self.respelled),
        };
        let settings = &*self.settings;
        let mut outcome = Err(Malformed("question of another length"));
        out.to_client(&job.client, |buffer| {
            let written = match &reply {
                Some(reply) => {
                    let (view, turn) = (&settings.views[job.view], job.number as usize);
                    let source = Source { view, query: &job.query, state, turn, reply, strip };
                    source.write(&form, &mut notes, buffer)
                }
                None => Err(Malformed("question of another length")),
            };
            match written {
                Ok((octets, written)) => {
                    outcome = Ok(written);
                    octets
                }
                Err(malformed) => {
                    outcome = Err(malformed);
                    let flags = job.query.asked.answer_flags(rcode::SERVFAIL);
                    answer::write_empty(&form, &job.query.asked, flags, &ExtendedErrors::none(), buffer)
                }
            }
        });
        match outcome {
            Ok(Outcome { synthesized, truncated }) => {
                stats.answered += 1;
                stats.synthesized += u64::from(synthesized);
                stats.truncated += u64::from(truncated);
            }
            Err(Malformed(_)) => stats.failed += 1,
        }
    }

    /// Answers with TC alone: what is asked for is far too long for the client's datagrams.
    pub fn truncate(
        &self,
        now_ns: u64,
        client: &Client,
        query: &Query,
        stats: &mut Stats,
        out: &mut impl Output,
    ) {
        stats.answered += 1;
        stats.truncated += 1;
        self.say_truncated(now_ns, client, query, out);
    }

    fn say_truncated(&self, now_ns: u64, client: &Client, query: &Query, out: &mut impl Output) {
        let form = self.form(now_ns, client, query);
        let (asked, flags) = (&query.asked, query.asked.answer_flags(rcode::NOERROR) | Header::TC);
        out.to_client(client, |buffer| {
            answer::write_empty(&form, asked, flags, &ExtendedErrors::none(), buffer)
        });
    }

    /// Answers SERVFAIL, for the reasons of these extended errors.
    pub fn fail(
        &self,
        now_ns: u64,
        client: &Client,
        query: &Query,
        causes: [Option<u16>; 2],
        stats: &mut Stats,
        out: &mut impl Output,
    ) {
        stats.failed += 1;
        let form = self.form(now_ns, client, query);
        let mut notes = ExtendedErrors::none();
        causes.into_iter().flatten().for_each(|cause| notes.say(cause));
        let flags = query.asked.answer_flags(rcode::SERVFAIL);
        out.to_client(client, |buffer| answer::write_empty(&form, &query.asked, flags, &notes, buffer));
    }

    /// The form of the answers to a query.
    fn form(&self, now_ns: u64, client: &Client, query: &Query) -> Form {
        let cookie = query.edns.and_then(|edns| edns.cookie);
        let unix_s = self.unix_s(now_ns);
        let cookie = cookie.map(|cookie| self.cookies.write(cookie, client.address.ip(), unix_s));
        Form::of(&self.settings, client, query, cookie)
    }

    fn unix_s(&self, now_ns: u64) -> u32 {
        (self.unix_zero_s + now_ns / 1_000_000_000) as u32
    }
}

/// Counts why a reply is passed on.
pub(super) fn count_passed(job: &Job, reply: &Message<'_>, stats: &mut Stats) {
    let counter = match (job.state, reply.header.rcode()) {
        (State::NeedsAaaa, rcode::NOERROR) => &mut stats.passed_aaaa,
        (State::NeedsAaaa, rcode::NXDOMAIN) => &mut stats.passed_nxdomain,
        (State::NeedsAaaa, _) => &mut stats.passed_error,
        (State::NeedsReply, _) if job.query.asked.question.qtype != rtype::AAAA => &mut stats.passed_other,
        _ => return,
    };
    *counter += 1;
}

/// A message with the question spelled as the client spelled it: names in the message point there. Uses
/// `buffer` where the spelling differs; `None` where the names do.
fn respelled<'b>(message: &Message<'b>, name: &Name, buffer: &'b mut Vec<u8>) -> Option<Message<'b>> {
    let spelled = message.qname_octets();
    if spelled == name.as_wire() {
        return Some(*message);
    }
    if spelled.len() != name.as_wire().len() {
        return None;
    }
    steps::add_octets(message.octets().len());
    buffer.clear();
    buffer.extend_from_slice(message.octets());
    buffer[HEADER_LENGTH..HEADER_LENGTH + spelled.len()].copy_from_slice(name.as_wire());
    Message::parse(buffer).ok()
}
