//! The upstream servers, the groups they form, and how they are asked.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::PathBuf;

use dns64::Range;
use dns64::wire::Name;
use server_core::domains::Routes;
use server_core::settings::{Asking, IN_FLIGHT_MAX, Upstream};

use super::keys::{self, Forward, Texts, Top};
use super::place::{Result, SourceText};
use super::{Listen, ListenProtocol, UpstreamProtocol, UpstreamServer};
use super::{address, check, listeners, validation};

pub(super) const NS_PER_MS: u64 = 1_000_000;

/// All servers, the groups of them and what is asked of which group.
#[derive(Default)]
pub(super) struct Upstreams {
    pub servers: Vec<UpstreamServer>,
    pub upstreams: Vec<Upstream>,
    pub groups: Vec<Vec<usize>>,
    pub routes: Routes,
}

/// Reads the servers of `upstreams` and of each `[[forward]]`.
pub(super) fn upstreams(place: &SourceText<'_>, raw: &Top, listen: &[Listen]) -> Result<Upstreams> {
    let Some(texts) = &raw.upstreams else {
        return Err(place.key_error("upstreams", 0, "is missing: write upstreams = [\"ADDRESS\"]"));
    };
    let mut reader = Reader {
        place,
        listen,
        sources: sources(place, &raw.upstream.source)?,
        in_flight: match &raw.upstream.in_flight {
            // One task cannot crowd out another.
            None if raw.forward.is_empty() => IN_FLIGHT_MAX,
            limit => check::share(limit.as_ref(), &raw.limits),
        },
        trust_ad: raw.upstream.trust_ad,
        validate: validation::validate(place, &raw.upstream.validate)?,
        domains: HashSet::new(),
        read: Upstreams::default(),
    };
    reader.group(texts, reader.trust_ad, reader.validate)?;
    for (index, forward) in raw.forward.iter().enumerate() {
        reader.forward(&format!("forward[{index}]"), forward.get_ref(), forward.span().start)?;
    }
    Ok(reader.read)
}

impl UpstreamProtocol {
    /// Whether the server shows a certificate.
    pub fn is_encrypted(self) -> bool {
        !matches!(self, Self::Udp | Self::Tcp)
    }
}

impl UpstreamServer {
    /// Whether it is never asked over UDP.
    pub fn is_stream_only(&self) -> bool {
        self.protocol != UpstreamProtocol::Udp || self.validate
    }

    /// How many bits of the address that it is asked from are drawn at random.
    pub fn source_bits(&self) -> u8 {
        self.source.map_or(0, |source| {
            let bits = if source.first().is_ipv4() { 32 } else { 128 };
            bits - source.length_bits()
        })
    }

    /// The one address that it is asked from, if it is one and not the kernel's choice.
    pub fn source_address(&self) -> Option<IpAddr> {
        self.source.filter(|_| self.source_bits() == 0).map(|source| source.first())
    }
}

struct Reader<'p> {
    place: &'p SourceText<'p>,
    listen: &'p [Listen],
    sources: Vec<Range>,
    in_flight: usize,
    trust_ad: bool,
    validate: bool,
    /// Those that have a group already.
    domains: HashSet<Vec<u8>>,
    read: Upstreams,
}

impl Reader<'_> {
    fn forward(&mut self, table: &str, forward: &Forward, at: usize) -> Result<()> {
        let missing = |key| self.place.key_error(&format!("{table}.{key}"), at, "is missing: write it");
        let domains = forward.domains.as_ref().ok_or_else(|| missing("domains"))?;
        let servers = forward.upstreams.as_ref().ok_or_else(|| missing("upstreams"))?;
        let group = self.read.groups.len();
        let names = self.place.some(domains, |text| {
            let domain = domain(text)?;
            if !self.domains.insert(lower_case(&domain)) {
                return Err("is forwarded already: write it once".to_owned());
            }
            Ok(domain)
        })?;
        for name in &names {
            self.read.routes.insert(name, group);
        }
        let trust_ad = forward.trust_ad.unwrap_or(self.trust_ad);
        let validate = forward.validate.as_ref().map(|value| validation::validate(self.place, value));
        self.group(servers, trust_ad, validate.transpose()?.unwrap_or(self.validate))
    }

    /// Adds a group. A server of an earlier group that is asked in the same way is that server.
    fn group(&mut self, texts: &Texts, trust_ad: bool, validate: bool) -> Result<()> {
        let mut members = Vec::new();
        self.place.some(texts, |text| {
            let server = UpstreamServer { validate, ..self.server(text)? };
            let index = self.index_of(server, trust_ad);
            if members.contains(&index) {
                return Err("twice in the list".to_owned());
            }
            members.push(index);
            Ok(())
        })?;
        self.read.groups.push(members);
        Ok(())
    }

    fn index_of(&mut self, server: UpstreamServer, trust_ad: bool) -> usize {
        // AD of an answer that was judged here is ours.
        let (stream_only, trust_ad) = (server.is_stream_only(), trust_ad || server.validate);
        let read = &mut self.read;
        let same = |(known, upstream): (&UpstreamServer, &Upstream)| {
            *known == server && upstream.trust_ad == trust_ad
        };
        if let Some(index) = read.servers.iter().zip(&read.upstreams).position(same) {
            return index;
        }
        read.servers.push(server);
        read.upstreams.push(Upstream { stream_only, trust_ad, in_flight: self.in_flight });
        read.servers.len() - 1
    }

    /// Reads one server, which must not be this server itself: that would ask itself for ever.
    fn server(&self, text: &str) -> std::result::Result<UpstreamServer, String> {
        let server = address::upstream(text)?;
        if self.listen.iter().any(|listen| is_served_by(&server, listen)) {
            return Err("is also a listen address: it would ask itself for ever".to_owned());
        }
        let source = self.sources.iter().find(|source| source.first().is_ipv4() == server.address.is_ipv4());
        Ok(UpstreamServer { source: source.copied(), ..server })
    }
}

fn is_served_by(server: &UpstreamServer, listen: &Listen) -> bool {
    let (ours, theirs) = (listen.address, server.address);
    let any_of_ours =
        ours.ip().is_unspecified() && theirs.ip().is_loopback() && ours.is_ipv4() == theirs.is_ipv4();
    let same_protocol = match listen.protocol {
        ListenProtocol::Plain => matches!(server.protocol, UpstreamProtocol::Udp | UpstreamProtocol::Tcp),
        ListenProtocol::Tls => server.protocol == UpstreamProtocol::Tls,
        ListenProtocol::Https => server.protocol == UpstreamProtocol::Https,
        ListenProtocol::Quic => server.protocol == UpstreamProtocol::Quic,
        // No server is asked by it.
        ListenProtocol::Http3 => false,
    };
    same_protocol && ours.port() == theirs.port() && (ours.ip() == theirs.ip() || any_of_ours)
}

/// The addresses or prefixes to ask from, at most one of each family.
fn sources(place: &SourceText<'_>, texts: &Texts) -> Result<Vec<Range>> {
    let mut seen: Vec<Range> = Vec::new();
    place.list(texts, |text| {
        let source = source(text)?;
        let first = source.first();
        if first.is_unspecified() || first.is_multicast() {
            return Err("no address to ask from: write one of this machine's".to_owned());
        }
        if seen.iter().any(|other| other.first().is_ipv4() == first.is_ipv4()) {
            return Err("the second of its family: write one for IPv4 and one for IPv6".to_owned());
        }
        seen.push(source);
        Ok(source)
    })
}

/// An address alone, or a prefix.
fn source(text: &str) -> std::result::Result<Range, String> {
    match text.parse() {
        Ok(IpAddr::V4(address)) => Ok(Range::v4(address, 32)),
        Ok(IpAddr::V6(address)) => Ok(Range::v6(address, 128)),
        Err(_) if text.contains('/') => text.parse::<Range>().map_err(|error| error.to_string()),
        Err(_) => Err("not an address: write 192.0.2.1 or 2001:db8::1, or a prefix".to_owned()),
    }
}

pub(super) fn asking(place: &SourceText<'_>, raw: &keys::Upstream) -> Result<Asking> {
    let (timeout_ms, deadline_ms) = (raw.timeout_ms.value.0, raw.deadline_ms.0);
    // The default may be longer than a short deadline of the operator.
    if let Some(at) = raw.timeout_ms.at.filter(|_| timeout_ms > deadline_ms) {
        return Err(place.out_of_bounds("upstream.timeout_ms", at, timeout_ms, 1, deadline_ms));
    }
    Ok(Asking {
        ports: raw.ports.0,
        timeout_ns: timeout_ms.min(deadline_ms) * NS_PER_MS,
        tries: raw.tries.0,
        deadline_ns: deadline_ms * NS_PER_MS,
        a_query: raw.a_query.0,
        case_randomization: raw.case_randomization,
        cookies: raw.cookies,
        loop_probe: raw.loop_probe,
    })
}

/// The authorities that upstream certificates are checked against.
pub(super) fn roots(place: &SourceText<'_>, raw: &keys::Upstream) -> Result<Option<PathBuf>> {
    let Some(text) = &raw.roots else { return Ok(None) };
    let path = place.path(text)?;
    listeners::certificates(&path).map_err(|reason| place.text_error(text, reason))?;
    Ok(Some(path))
}

/// Reads a domain as it stands in questions: ASCII, without wildcards and escapes.
pub(super) fn domain(text: &str) -> std::result::Result<Name, String> {
    if !text.is_ascii() {
        return Err("not in ASCII: write the name as it is in the DNS (xn--...)".to_owned());
    }
    if text.is_empty()
        || text.contains(|character: char| character.is_ascii_control() || " \\*/:".contains(character))
    {
        return Err(
            "no domain: write a name like example.net, which stands for all names below it, too".to_owned()
        );
    }
    Name::from_text(text).map_err(|error| error.0.to_owned())
}

/// The same octets for all spellings of a domain.
pub(super) fn lower_case(name: &Name) -> Vec<u8> {
    name.to_lowercase().as_wire().to_vec()
}
