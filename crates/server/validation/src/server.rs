//! One upstream server whose answers are judged.

use std::sync::Arc;
use std::time::Duration;

use dns64::rewrite::full_rcode;
use dns64::wire::{CLASS_IN, Edns, Header, Message, Writer, rcode, rtype};
use domain::base::Message as DomainMessage;
use domain::dnssec::validator::context::{Config, ValidationContext, ValidationState};

use crate::Anchors;
use crate::chain::{Chain, bounded};
use crate::counts::Tally;
use crate::evidence::Evidence;
use crate::verdict::{self, PAYLOAD_OCTETS, Verdict, unix_s};
use crate::way::UpstreamClient;

/// Zones whose keys are kept.
const ZONES_MAX: u64 = 10_000;

/// Signatures whose outcome is kept, each with what it signs.
const SIGNATURES_MAX: u64 = 2_000;

/// How long keys and their absence are kept at most. The validator keeps some failures as long, which may be
/// 5 minutes at most (RFC 9520 3.2).
const KEYS_FOR: Duration = Duration::from_secs(300);

/// How long most failures are kept: the least that RFC 9520 3.2 allows.
const FAILURES_FOR: Duration = Duration::from_secs(1);

/// NSEC3 iterations above this make an answer insecure, as other validators have it (RFC 9276 3.2).
const NSEC3_ITERATIONS_MAX: u16 = 50;

/// What the validator says where it could not get DS or DNSKEY records.
const UNDECIDED: &str = "request for DS or DNSKEY failed";

pub(crate) struct Server {
    way: UpstreamClient,
    anchors: Anchors,
    validator: Option<ValidationContext<Chain>>,
    tally: Arc<Tally>,
}

impl Server {
    pub fn new(way: UpstreamClient, anchors: Anchors, tally: Arc<Tally>) -> Self {
        let mut config = Config::new();
        config.set_max_node_cache(ZONES_MAX);
        config.set_max_isig_cache(SIGNATURES_MAX);
        config.set_max_usig_cache(SIGNATURES_MAX);
        config.set_max_validity(KEYS_FOR);
        config.set_max_bogus_validity(FAILURES_FOR);
        config.set_nsec3_iter_insecure(NSEC3_ITERATIONS_MAX);
        let chain = Chain::new(way.clone(), anchors.clone(), tally.clone());
        let validator =
            anchors.for_validator().map(|anchors| ValidationContext::with_config(anchors, chain, config));
        Self { way, anchors, validator, tally }
    }

    /// Asks and judges. `None`: there is no answer, or no verdict.
    pub async fn ask(&self, query: &[u8], timeout: Duration) -> Option<Vec<u8>> {
        let query = Message::parse(query).ok()?;
        if query.header.has(Header::CD) {
            let reply = self.way.ask(query.octets().to_vec(), timeout).await?;
            return self.pass(reply);
        }
        let reply = self.way.ask(with_proofs(&query)?, timeout).await?;
        if !may_be_judged(&Message::parse(&reply).ok()?) {
            return self.pass(reply);
        }
        let evidence = Evidence::of(&Message::parse(&reply).ok()?, &self.anchors, unix_s()).ok()?;
        match self.judge(&evidence, query.qtype).await {
            Verdict::Secure => {
                self.tally.secure.add();
                verdict::write(&query, &evidence, true).ok()
            }
            Verdict::Insecure => {
                self.tally.insecure.add();
                verdict::write(&query, &evidence, false).ok()
            }
            Verdict::Bogus(code, text) => {
                self.tally.bogus.add();
                verdict::write_bogus(&query, code, &text).ok()
            }
            Verdict::Undecided => None,
        }
    }

    /// Passes a reply on without a verdict.
    fn pass(&self, mut reply: Vec<u8>) -> Option<Vec<u8>> {
        self.tally.unjudged.add();
        *reply.get_mut(3)? &= !(Header::AD as u8);
        Some(reply)
    }

    async fn judge(&self, evidence: &Evidence, qtype: u16) -> Verdict {
        let Some(validator) = &self.validator else { return Verdict::Undecided };
        let mut octets = evidence.octets.clone();
        if qtype == rtype::ANY {
            ask_for_what_is_there(&mut octets);
        }
        let Ok(mut message) = DomainMessage::from_octets(octets) else { return Verdict::Undecided };
        // The message may come back changed; what was judged is the evidence, whose TTLs are right.
        let verdict = bounded(validator.validate_msg::<Vec<u8>, Vec<u8>>(&mut message)).await;
        let Ok((state, reason)) = verdict else { return Verdict::Undecided };
        let text = reason.as_ref().and_then(|reason| reason.text()).and_then(Result::ok);
        let text = text.map(ToString::to_string).unwrap_or_default();
        match state {
            // Nothing says that no type is missing.
            ValidationState::Secure if qtype == rtype::ANY => Verdict::Insecure,
            ValidationState::Secure => Verdict::Secure,
            ValidationState::Insecure | ValidationState::Indeterminate => Verdict::Insecure,
            ValidationState::Bogus if text == UNDECIDED => Verdict::Undecided,
            ValidationState::Bogus => Verdict::bogus(evidence, &text),
        }
    }
}

/// The query as the upstream server gets it: with DO, and with CD so that it does not judge (RFC 4035 3.2.2).
fn with_proofs(query: &Message<'_>) -> Option<Vec<u8>> {
    let mut octets = vec![0; 512];
    let flags = query.header.flags & Header::RD | Header::CD;
    let mut writer = Writer::new(&mut octets, query.header.id, flags, &query.question()).ok()?;
    let edns = Edns { payload_octets: PAYLOAD_OCTETS, extended_rcode: 0, version: 0, dnssec_ok: true };
    writer.edns(&edns, &[]).ok()?;
    let length = writer.finish();
    octets.truncate(length);
    Some(octets)
}

/// Whether a reply says something that can be signed.
fn may_be_judged(reply: &Message<'_>) -> bool {
    let code = full_rcode(reply).ok();
    let answered = [rcode::NOERROR, rcode::NXDOMAIN].map(|code| Some(u16::from(code))).contains(&code);
    answered && reply.qclass == CLASS_IN && !reply.header.has(Header::TC)
}

/// Makes a reply to a question for ANY one to a question for the last type that is there: the validator
/// judges all sets, and then looks for the one that was asked for.
fn ask_for_what_is_there(octets: &mut [u8]) {
    let Ok(message) = Message::parse(octets) else { return };
    let last = message.answers().map(|record| record.rtype).filter(|&rtype| rtype != rtype::RRSIG).last();
    let end = message.question_end();
    if let Some(last) = last {
        octets[end - 4..end - 2].copy_from_slice(&last.to_be_bytes());
    }
}
