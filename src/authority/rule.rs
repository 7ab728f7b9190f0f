//! The general answer: every rule of the zone for every query. [`super::hot`] is a faster way to a part of it.

use std::net::{Ipv4Addr, Ipv6Addr};

use dns64::names;
use dns64::wire::{
    CLASS_IN, Edns, HEADER_LENGTH, Header, Message, Name, Overflow, Question, Section, rcode, rtype,
};

use super::response::{QNAME_POINTER, Response, answer_flags, pointer};
use super::zone::{Answer, QueryKind, Transport, ZoneConfig};

/// The label of the name server below the suffix.
const NS_LABEL: &[u8] = b"ns";
/// The SOA record's times: refresh, retry and expire in seconds. Nobody transfers the zone, so they only look usual.
const SOA_TIMES_S: [u32; 3] = [3600, 600, 86_400];
/// The zone never changes while a process runs.
const SOA_SERIAL: u32 = 1;
/// What every client takes over UDP (RFC 1035 4.2.1, RFC 6891 6.2.3).
const UDP_OCTETS_MIN: usize = 512;

/// The zone's suffix, read, and the rest of its configuration, checked.
#[derive(Clone, Debug)]
pub struct Rule {
    pub suffix: Name,
    pub config: ZoneConfig,
}

/// What a name of the zone is.
enum Node {
    Apex,
    NameServer,
    Host(Ipv4Addr),
    Missing,
}

/// What is said about a question.
#[derive(Clone, Copy)]
enum Reply {
    /// An RCODE without records, from no authority.
    Error(u16),
    /// No such name, or no such type where the flag says that the name exists.
    Negative {
        exists: bool,
    },
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Soa,
    Ns,
}

/// A query that was read.
struct Request<'q> {
    message: Message<'q>,
    edns: Option<Edns>,
}

impl Rule {
    /// Answers any octets; see [`super::Zone::answer`].
    pub fn answer(&self, query: &[u8], transport: Transport, out: &mut [u8]) -> Answer {
        let dropped = Answer { octets: 0, kind: QueryKind::Malformed };
        let Ok(header) = Header::parse(query) else { return dropped };
        // Answering an answer could go on for ever.
        if header.has(Header::QR) {
            return dropped;
        }
        if header.opcode() != 0 {
            return Answer { octets: header_alone(&header, rcode::NOTIMP, out), kind: QueryKind::Other };
        }
        let Some(request) = Request::parse(query) else {
            return Answer { octets: header_alone(&header, rcode::FORMERR, out), kind: QueryKind::Malformed };
        };
        let kind = match request.message.question {
            Question { qtype: rtype::A, qclass: CLASS_IN, .. } => QueryKind::A,
            Question { qtype: rtype::AAAA, qclass: CLASS_IN, .. } => QueryKind::Aaaa,
            _ => QueryKind::Other,
        };
        let limit = out.len().min(request.limit_octets(transport));
        Answer { octets: self.write(&request, self.reply(&request), &mut out[..limit]), kind }
    }

    fn reply(&self, request: &Request<'_>) -> Reply {
        let Question { name, qtype, qclass } = request.message.question;
        if request.edns.is_some_and(|edns| edns.version != 0) {
            return Reply::Error(rcode::BADVERS);
        }
        // Types 128 to 254 are no data (RFC 6895 3.1): transfers and the like are not offered.
        let is_meta = qtype == rtype::OPT || (128..rtype::ANY).contains(&qtype);
        if qclass != CLASS_IN || is_meta || !name.is_under(&self.suffix) {
            return Reply::Error(rcode::REFUSED.into());
        }
        match self.node(&name) {
            Node::Apex => match qtype {
                rtype::SOA | rtype::ANY => Reply::Soa,
                rtype::NS => Reply::Ns,
                _ => Reply::Negative { exists: true },
            },
            Node::NameServer => address_reply(qtype, self.config.ns_ipv4, self.config.ns_ipv6),
            Node::Host(ipv4) => {
                let ipv6 = names::has_aaaa(ipv4, self.config.aaaa_share_percent)
                    .then(|| self.config.aaaa_prefix.embed(ipv4));
                address_reply(qtype, Some(ipv4), ipv6)
            }
            Node::Missing => Reply::Negative { exists: false },
        }
    }

    /// All names stand directly below the suffix, so there are no empty non-terminals.
    fn node(&self, name: &Name) -> Node {
        if *name == self.suffix {
            return Node::Apex;
        }
        if name.parent() != Some(self.suffix) {
            return Node::Missing;
        }
        let label = name.labels().next().unwrap_or_default();
        if label.eq_ignore_ascii_case(NS_LABEL) {
            return Node::NameServer;
        }
        match names::parse_label(label) {
            Some(ipv4) if self.config.names.is_none_or(|names| names.index(ipv4).is_some()) => {
                Node::Host(ipv4)
            }
            _ => Node::Missing,
        }
    }

    /// Writes the whole reply; what is left out when it does not fit is told by TC (RFC 2181 9).
    fn write(&self, request: &Request<'_>, reply: Reply, out: &mut [u8]) -> usize {
        for (whole, edns) in [(true, request.edns), (false, request.edns), (false, None)] {
            if let Ok(length) = self.try_write(request, reply, whole, edns, &mut *out) {
                return length;
            }
        }
        0
    }

    fn try_write(
        &self,
        request: &Request<'_>,
        reply: Reply,
        whole: bool,
        edns: Option<Edns>,
        out: &mut [u8],
    ) -> Result<usize, Overflow> {
        let (rcode, mut set) = match reply {
            Reply::Error(rcode) => (rcode, 0),
            Reply::Negative { exists: false } => (rcode::NXDOMAIN.into(), Header::AA),
            _ => (rcode::NOERROR.into(), Header::AA),
        };
        let mut response = Response::new(out, request.question())?;
        if whole {
            self.write_records(&mut response, request, reply)?;
        } else {
            set |= Header::TC;
        }
        if let Some(edns) = edns {
            response.edns(&edns, rcode)?;
        }
        let header = &request.message.header;
        Ok(response.finish(header.id, answer_flags(header, set, rcode)))
    }

    fn write_records(
        &self,
        response: &mut Response<'_>,
        request: &Request<'_>,
        reply: Reply,
    ) -> Result<(), Overflow> {
        let ttl_s = self.config.ttl_s;
        // The name of a question that gets an error may be shorter than the suffix.
        let suffix = || pointer(request.question_end() - 4 - self.suffix.as_wire().len());
        match reply {
            Reply::Error(_) => Ok(()),
            Reply::A(ipv4) => {
                response.record(Section::Answer, QNAME_POINTER, rtype::A, ttl_s, &ipv4.octets())
            }
            Reply::Aaaa(ipv6) => {
                response.record(Section::Answer, QNAME_POINTER, rtype::AAAA, ttl_s, &ipv6.octets())
            }
            Reply::Soa => self.write_soa(response, Section::Answer, suffix()),
            Reply::Negative { .. } => self.write_soa(response, Section::Authority, suffix()),
            Reply::Ns => self.write_ns(response, suffix()),
        }
    }

    /// The TTL of the SOA record is its MINIMUM, so that negative answers need no other (RFC 2308 3).
    fn write_soa(
        &self,
        response: &mut Response<'_>,
        section: Section,
        suffix: [u8; 2],
    ) -> Result<(), Overflow> {
        let [refresh_s, retry_s, expire_s] = SOA_TIMES_S;
        let minimum_s = self.config.negative_ttl_s;
        let mut rdata = [0; 38];
        rdata[..5].copy_from_slice(&ns_name(suffix));
        rdata[5..16].copy_from_slice(b"\x0ahostmaster");
        rdata[16..18].copy_from_slice(&suffix);
        let words = [SOA_SERIAL, refresh_s, retry_s, expire_s, minimum_s];
        for (place, word) in rdata[18..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        response.record(section, suffix, rtype::SOA, minimum_s, &rdata)
    }

    fn write_ns(&self, response: &mut Response<'_>, suffix: [u8; 2]) -> Result<(), Overflow> {
        let ttl_s = self.config.ttl_s;
        response.record(Section::Answer, QNAME_POINTER, rtype::NS, ttl_s, &ns_name(suffix))?;
        let owner = pointer(response.length() - ns_name(suffix).len());
        if let Some(ipv4) = self.config.ns_ipv4 {
            response.record(Section::Additional, owner, rtype::A, ttl_s, &ipv4.octets())?;
        }
        if let Some(ipv6) = self.config.ns_ipv6 {
            response.record(Section::Additional, owner, rtype::AAAA, ttl_s, &ipv6.octets())?;
        }
        Ok(())
    }
}

impl<'q> Request<'q> {
    /// `None` for what deserves FORMERR.
    fn parse(query: &'q [u8]) -> Option<Self> {
        let message = Message::parse(query).ok()?;
        let edns = message.edns().ok()?;
        Some(Self { message, edns })
    }

    fn question_end(&self) -> usize {
        self.message.question_end()
    }

    fn question(&self) -> &'q [u8] {
        &self.message.octets()[HEADER_LENGTH..self.question_end()]
    }

    fn limit_octets(&self, transport: Transport) -> usize {
        match (transport, self.edns) {
            (Transport::Tcp, _) => usize::from(u16::MAX),
            (Transport::Udp, Some(edns)) => usize::from(edns.payload_octets).max(UDP_OCTETS_MIN),
            (Transport::Udp, None) => UDP_OCTETS_MIN,
        }
    }
}

/// The name `ns` below the suffix.
fn ns_name(suffix: [u8; 2]) -> [u8; 5] {
    [NS_LABEL.len() as u8, NS_LABEL[0], NS_LABEL[1], suffix[0], suffix[1]]
}

/// ANY gets one of the record sets that exist (RFC 8482 4.1).
fn address_reply(qtype: u16, ipv4: Option<Ipv4Addr>, ipv6: Option<Ipv6Addr>) -> Reply {
    let (a, aaaa) = (ipv4.map(Reply::A), ipv6.map(Reply::Aaaa));
    match qtype {
        rtype::A => a,
        rtype::AAAA => aaaa,
        rtype::ANY => a.or(aaaa),
        _ => None,
    }
    .unwrap_or(Reply::Negative { exists: true })
}

fn header_alone(query: &Header, rcode: u8, out: &mut [u8]) -> usize {
    match Response::new(out, &[]) {
        Ok(response) => response.finish(query.id, answer_flags(query, 0, rcode.into())),
        Err(Overflow) => 0,
    }
}
