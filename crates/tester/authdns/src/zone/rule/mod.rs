//! The general answer: every rule of the zone for every query. [`super::hot`] is a faster way to a part of
//! it.

use std::sync::Arc;

use dns64::wire::{CLASS_IN, Edns, Header, Message, Name, Question, rcode, rtype};

use super::response::{self, Parts};
use super::{Answer, EDNS_PAYLOAD_OCTETS, QueryKind, Transport, ZoneConfig, ZoneError};
use cut::Cut;
use fixed::Fixed;
pub use follow::Reply;
use node::CHAIN_LINKS_MAX;
use signing::Signer;
use view::View;

mod cut;
mod denial;
mod fixed;
mod follow;
mod node;
mod reverse;
mod sets;
mod signing;
mod view;

pub use fixed::{RecordsError, RecordsFile};
pub use node::TEXT_OCTETS_MAX;
pub use sets::{RecordSet, SetPart};
pub use signing::{Signing, SigningKey, TrustAnchor};

/// What every client takes over UDP (RFC 1035 4.2.1, RFC 6891 6.2.3).
const UDP_OCTETS_MIN: u16 = 512;
/// How many links of a chain are put into an answer over TCP, the next number where one does not fit.
const TCP_CHAIN_LINKS: [u16; 3] = [CHAIN_LINKS_MAX, 4, 1];

/// The zone's suffix, read, and the rest of its configuration, checked.
#[derive(Clone, Debug)]
pub struct Rule {
    pub suffix: Name,
    pub config: ZoneConfig,
    cuts: Arc<[Cut]>,
    fixed: Arc<Fixed>,
    signer: Option<Arc<Signer>>,
}

impl Rule {
    /// The rule of a configuration whose suffix was read.
    ///
    /// # Errors
    /// The file of records.
    pub fn new(suffix: Name, config: ZoneConfig) -> Result<Self, ZoneError> {
        let fixed = match &config.records {
            Some(file) => Fixed::read(file, &suffix, config.ttl_s).map_err(ZoneError::Records)?,
            None => Fixed::default(),
        };
        Ok(Self {
            suffix,
            cuts: Cut::all(suffix, &config).into(),
            fixed: fixed.into(),
            signer: config.signing.as_ref().and_then(Signer::new).map(Arc::new),
            config,
        })
    }

    /// Whether A and AAAA of the full names have the answers of [`super::hot`]: one address, and no other
    /// records.
    pub(crate) fn has_hot_answers(&self) -> bool {
        self.config.addresses_per_name == 1 && !self.fixed.covers_hosts
    }

    /// The same rule where all names exist, this share of them with AAAA records, with nothing added to them.
    pub(crate) fn of_all_hosts(&self, aaaa_share_percent: u8) -> Self {
        let config = ZoneConfig {
            aaaa_share_percent,
            names: None,
            addresses_per_name: 1,
            records: None,
            ..self.config.clone()
        };
        Self { config, fixed: Arc::default(), ..self.clone() }
    }

    /// What validating resolvers must be told, for each zone; nothing of unsigned ones.
    pub fn trust_anchors(&self) -> Vec<TrustAnchor> {
        let anchors =
            |signer: &Arc<Signer>| self.cuts.iter().map(|cut| signer.trust_anchor(&cut.apex)).collect();
        self.signer.as_ref().map(anchors).unwrap_or_default()
    }

    /// Answers any octets; see [`super::Zone::answer`].
    pub fn answer(&self, query: &[u8], transport: Transport, out: &mut [u8]) -> Answer {
        let dropped = Answer { octets: 0, kind: QueryKind::Malformed };
        let Ok(header) = Header::parse(query) else { return dropped };
        // Answering an answer could go on for ever.
        if header.has(Header::QR) {
            return dropped;
        }
        if header.opcode() != 0 {
            let octets = response::header_alone(&header, rcode::NOTIMP, out);
            return Answer { octets, kind: QueryKind::Other };
        }
        let Some(request) = Request::parse(query) else {
            let octets = response::header_alone(&header, rcode::FORMERR, out);
            return Answer { octets, kind: QueryKind::Malformed };
        };
        let kind = match request.message.question() {
            Question { qtype: rtype::A, qclass: CLASS_IN, .. } => QueryKind::A,
            Question { qtype: rtype::AAAA, qclass: CLASS_IN, .. } => QueryKind::Aaaa,
            _ => QueryKind::Other,
        };
        let limit = out.len().min(request.limit_octets(transport));
        Answer { octets: self.respond(&request, transport, &mut out[..limit]), kind }
    }

    fn respond(&self, request: &Request<'_>, transport: Transport, out: &mut [u8]) -> usize {
        let Question { name, qtype, .. } = request.message.question();
        let view = match request.refusal() {
            Some(rcode) => Err(rcode),
            None => View::new(self, &name).ok_or(rcode::REFUSED.into()),
        };
        let view = match view {
            Ok(view) => view,
            Err(rcode) => return request.write(&Reply::error(rcode), out),
        };
        let dnssec = self.signer.is_some() && request.edns.is_some_and(|edns| edns.dnssec_ok);
        let mut reply = view.reply(&name, qtype, CHAIN_LINKS_MAX, dnssec);
        if transport != Transport::Udp {
            for links in TCP_CHAIN_LINKS {
                if request.fits(&reply, out) {
                    break;
                }
                reply = view.reply(&name, qtype, links, dnssec);
            }
        }
        request.write(&reply, out)
    }
}

struct Request<'q> {
    message: Message<'q>,
    edns: Option<Edns>,
}

impl<'q> Request<'q> {
    /// `None` for what deserves FORMERR.
    fn parse(query: &'q [u8]) -> Option<Self> {
        let message = Message::parse(query).ok()?;
        let edns = message.edns().ok()?;
        Some(Self { message, edns })
    }

    /// The RCODE of a question that no zone is asked about.
    fn refusal(&self) -> Option<u16> {
        let Question { qtype, qclass, .. } = self.message.question();
        if self.edns.is_some_and(|edns| edns.version != 0) {
            return Some(rcode::BADVERS);
        }
        // Types 128 to 254 are no data (RFC 6895 3.1): transfers and the like are not offered.
        let is_meta = qtype == rtype::OPT || (128..rtype::ANY).contains(&qtype);
        (qclass != CLASS_IN || is_meta).then_some(rcode::REFUSED.into())
    }

    fn limit_octets(&self, transport: Transport) -> usize {
        match (transport, self.edns) {
            // No more than is offered, so that no answer is fragmented or much larger than its question.
            (Transport::Udp, Some(edns)) => {
                edns.payload_octets.clamp(UDP_OCTETS_MIN, EDNS_PAYLOAD_OCTETS).into()
            }
            (Transport::Udp, None) => UDP_OCTETS_MIN.into(),
            _ => usize::from(u16::MAX),
        }
    }

    fn fits(&self, reply: &Reply, out: &mut [u8]) -> bool {
        response::write(&self.message, self.edns, reply, Parts::WithoutAdditional, out).is_ok()
    }

    /// Writes the whole reply; what is left out when it does not fit is told by TC (RFC 2181 9), but for the
    /// additional section, which nobody needs.
    fn write(&self, reply: &Reply, out: &mut [u8]) -> usize {
        let tries = [
            (Parts::All, self.edns),
            (Parts::WithoutAdditional, self.edns),
            (Parts::Truncated, self.edns),
            (Parts::Truncated, None),
        ];
        let mut written = tries
            .into_iter()
            .filter_map(|(parts, edns)| response::write(&self.message, edns, reply, parts, out).ok());
        written.next().unwrap_or(0)
    }
}
