//! The DS and DNSKEY records between a trust anchor and an answer, asked for when the validator wants them.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dns64::wire::{Message, Section, rcode, rtype};
use domain::base::Message as DomainMessage;
use domain::net::client::request::{ComposeRequest, Error, GetResponse, RequestMessage, SendRequest};
use moka::future::Cache;

use crate::Anchors;
use crate::counts::Tally;
use crate::evidence::Evidence;
use crate::verdict::unix_s;
use crate::way::UpstreamClient;

/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A reply is given again for so long, so that questions at the same time share it. The validator keeps what
/// it made of it for longer.
const SHARED_FOR: Duration = Duration::from_secs(2);

/// Replies that are shared, in octets.
const SHARED_OCTETS_MAX: u64 = 4 << 20;

/// Questions for one answer at most: DS and DNSKEY of 32 zones.
const QUESTIONS_MAX: u32 = 64;

/// DS or DNSKEY records of one reply at most (CVE-2023-50387).
const KEYS_MAX: usize = 32;

tokio::task_local! {
    /// What is left of the questions for one answer.
    static QUESTIONS_LEFT: Cell<u32>;
}

/// Lets a verdict be found with a bounded number of questions.
pub(crate) async fn bounded<T>(verdict: impl Future<Output = T>) -> T {
    QUESTIONS_LEFT.scope(Cell::new(QUESTIONS_MAX), verdict).await
}

/// Takes one of the questions that are left.
fn take_question() -> bool {
    let take = |left: &Cell<u32>| left.replace(left.get().saturating_sub(1)) > 0;
    QUESTIONS_LEFT.try_with(take).unwrap_or(false)
}

/// The way to these records at one upstream server.
#[derive(Clone)]
pub(crate) struct Chain {
    way: UpstreamClient,
    anchors: Anchors,
    shared: Cache<(Vec<u8>, u16), Bytes>,
    tally: Arc<Tally>,
}

/// There is no reply that could be used.
#[derive(Clone, Copy, Debug)]
struct Failed;

impl Chain {
    pub fn new(way: UpstreamClient, anchors: Anchors, tally: Arc<Tally>) -> Self {
        let shared = Cache::builder()
            .weigher(|_, reply: &Bytes| u32::try_from(reply.len()).unwrap_or(u32::MAX))
            .max_capacity(SHARED_OCTETS_MAX)
            .time_to_live(SHARED_FOR)
            .build();
        Self { way, anchors, shared, tally }
    }

    /// Asks, once for all who ask the same at this time.
    async fn ask(self, query: Vec<u8>) -> Result<Bytes, Failed> {
        let question = Message::parse(&query).map_err(|_| Failed)?.question();
        let key = (question.name.to_lowercase().as_wire().to_vec(), question.qtype);
        let shared = self.shared.clone();
        let reply = shared.try_get_with(key, self.fetch(query)).await;
        reply.map_err(|failed: Arc<Failed>| *failed)
    }

    async fn fetch(self, query: Vec<u8>) -> Result<Bytes, Failed> {
        self.tally.chain_queries.add();
        let reply = self.way.ask(query, TIMEOUT).await.ok_or(Failed)?;
        let reply = Message::parse(&reply).map_err(|_| Failed)?;
        let evidence = Evidence::of(&reply, &self.anchors, unix_s()).map_err(|_| Failed)?;
        let evidence = Message::parse(&evidence.octets).map_err(|_| Failed)?;
        if is_usable(&reply, &evidence) { Ok(Bytes::copy_from_slice(evidence.octets())) } else { Err(Failed) }
    }
}

/// Whether a reply says anything. The validator would take one that does not, such as a server's failure, for
/// a proof of forgery and remember it.
fn is_usable(reply: &Message<'_>, evidence: &Message<'_>) -> bool {
    let qtype = evidence.qtype;
    let (mut keys, mut says_something) = (0, false);
    for record in evidence.records().map_while(Result::ok) {
        keys += usize::from(record.rtype == qtype);
        says_something |= match record.section {
            Section::Answer => record.rtype == qtype || record.rtype == rtype::CNAME,
            _ => record.rtype != rtype::SOA && record.rtype != rtype::RRSIG,
        };
    }
    let answered = matches!(dns64::rewrite::full_rcode(reply), Ok(code)
        if code == u16::from(rcode::NOERROR) || code == u16::from(rcode::NXDOMAIN));
    answered && says_something && keys <= KEYS_MAX
}

impl SendRequest<RequestMessage<Vec<u8>>> for Chain {
    fn send_request(&self, request: RequestMessage<Vec<u8>>) -> Box<dyn GetResponse + Send + Sync> {
        Box::new(Lookup { chain: self.clone(), query: request.to_vec().ok().filter(|_| take_question()) })
    }
}

/// A question for DS or DNSKEY records.
struct Lookup {
    chain: Chain,
    query: Option<Vec<u8>>,
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").field("query", &self.query).finish_non_exhaustive()
    }
}

/// What the validator waits for.
type Response<'a> = Pin<Box<dyn Future<Output = Result<DomainMessage<Bytes>, Error>> + Send + Sync + 'a>>;

impl GetResponse for Lookup {
    /// The lookup goes on when the validator has no time any more: the next one finds it done.
    fn get_response(&mut self) -> Response<'_> {
        let lookup = self.query.take().map(|query| tokio::spawn(self.chain.clone().ask(query)));
        Box::pin(async move {
            let reply = lookup.ok_or(Error::NoTransportAvailable)?.await;
            let octets = reply.ok().and_then(Result::ok).ok_or(Error::NoTransportAvailable)?;
            Ok(DomainMessage::from_octets(octets)?)
        })
    }
}
