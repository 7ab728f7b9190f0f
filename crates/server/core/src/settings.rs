//! The settings of a [`crate::machine::Machine`], made from the configuration file after all checks.

use std::net::IpAddr;
use std::sync::Arc;

use dns64::Range;
use dns64::reverse::Style;
use dns64::rule::Policy;

use crate::client::Client;
use crate::domains::{Domains, Routes};
use crate::own_sockets::OwnSockets;

/// The largest in-flight table, in lookups: slots are numbered with 16 bits and one number means none.
pub const IN_FLIGHT_MAX: usize = u16::MAX as usize;

/// The choices of the operator, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What each client network is given: the first view that takes a client counts. The last takes
    /// everybody.
    pub views: Vec<View>,
    /// Who may ask.
    pub allow: Vec<Range>,
    /// How many queries a client network may send; `None` is no limit.
    pub rate: Option<RateLimit>,
    /// The upstream servers of all groups.
    pub upstreams: Vec<Upstream>,
    /// The servers that share a task, as indexes of `upstreams`; group 0 has every question that no route
    /// names.
    pub groups: Vec<Vec<usize>>,
    /// Which group the questions below a domain go to; the longest domain counts.
    pub routes: Routes,
    /// How and how often is asked.
    pub asking: Asking,
    /// What is kept of the answers.
    pub caching: Caching,
    /// What is answered without asking.
    pub local: Local,
    /// Lookups in flight at most, 1 to [`IN_FLIGHT_MAX`]; and so many clients' queries that wait for them.
    pub in_flight: usize,
    /// How many of these lookups may be for names of one zone, at least 1.
    pub in_flight_per_zone: usize,
    /// The largest UDP answer to a client, and the payload size announced to clients, in octets, at least
    /// 512.
    pub udp_payload_octets: u16,
    /// Say in an extended error why an answer is what it is (RFC 8914).
    pub extended_errors: bool,
    /// Give clients server cookies (RFC 7873, RFC 9018).
    pub cookies: bool,
    /// The idle time told to clients on TCP and TLS (RFC 7828), in units of 100 ms.
    pub keepalive_100ms: u16,
    /// All upstream sockets of the process: a query from one of them is a loop.
    pub own_sockets: Arc<OwnSockets>,
}

/// What one network of clients is given.
#[derive(Clone, Debug)]
pub struct View {
    /// Its name in statistics and logs.
    pub name: String,
    /// The clients; empty takes everybody.
    pub clients: Vec<Range>,
    /// The listeners they ask on, as indexes of the configuration's list; empty takes all.
    pub listeners: Vec<usize>,
    /// The DNS64 rule; `None` passes everything through.
    pub rule: Option<Policy>,
    /// How PTR questions for synthesized addresses are answered; `None` forwards them.
    pub ptr: Option<Style>,
    /// Nothing is synthesized below these domains.
    pub never: Domains,
    /// Below these domains AAAA records count as absent.
    pub always: Domains,
}

/// One upstream server.
#[derive(Clone, Copy, Debug)]
pub struct Upstream {
    /// Asked over streams alone: TCP, TLS, HTTPS or QUIC. Otherwise over UDP, and TCP where an answer is
    /// truncated.
    pub stream_only: bool,
    /// Its AD bit is believed and passed on.
    pub trust_ad: bool,
    /// Lookups in flight at this server at most.
    pub in_flight: usize,
}

/// How upstream servers are asked.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// UDP sockets for each upstream server, at least 1. Each is renewed, with another port, when it was
    /// used.
    pub ports: usize,
    /// How long one try waits for its answer.
    pub timeout_ns: u64,
    /// How often a question is asked, 1 to 3 (RFC 9520 3.1).
    pub tries: u8,
    /// How long a client's query may take; no try starts that could end later.
    pub deadline_ns: u64,
    /// When A is asked for, beside AAAA.
    pub a_query: AQuery,
    /// Spell names in random case and want them back so (0x20), at every server that keeps spellings: the
    /// first answer tells.
    pub case_randomization: bool,
    /// Send client cookies and learn server cookies (RFC 7873).
    pub cookies: bool,
    /// Ask each upstream server at the start for a name of our own, to see whether the question comes back to
    /// us.
    pub loop_probe: bool,
}

impl Asking {
    /// Whether a try that starts now ends before the deadline.
    pub fn in_time(&self, now_ns: u64, deadline_ns: u64) -> bool {
        now_ns + self.timeout_ns <= deadline_ns
    }
}

/// When the A query of a question for AAAA is sent (RFC 6147 5.1.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AQuery {
    /// When the AAAA reply is there and needs it: no query is wasted.
    #[default]
    Afterwards,
    /// Together with the AAAA query: one round trip less, twice the queries.
    Together,
    /// When the AAAA reply is later than 95 of 100 of its server's.
    WhenLate,
}

/// What the cache keeps, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Caching {
    /// TTLs above this are cut to it, in seconds (RFC 8767 4 recommends a week at most).
    pub ttl_max_s: u32,
    /// The same for negative answers, in seconds (RFC 2308 5 recommends one to three hours).
    pub negative_ttl_max_s: u32,
    /// A failure is kept for so long at first, 1 to 300 s; each further one doubles it, up to 300 s (RFC 9520
    /// 3.2).
    pub failure_ttl_s: u32,
    /// Expired answers that are given when no fresh one can be had (RFC 8767).
    pub stale: Option<Stale>,
    /// Ask again for entries that are asked for in the last tenth of their life.
    pub prefetch: bool,
    /// A cached NXDOMAIN is the answer for all names below it, too (RFC 8020).
    pub nxdomain_cut: bool,
}

/// How stale answers are given (RFC 8767 5).
#[derive(Clone, Copy, Debug)]
pub struct Stale {
    /// How long after its end an entry may be given, in seconds.
    pub age_max_s: u32,
    /// The TTL of a stale answer, in seconds.
    pub ttl_s: u32,
    /// A client waits so long for a fresh answer.
    pub client_timer_ns: u64,
}

/// What is answered without asking.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// Answer `ipv4only.arpa` (RFC 8880).
    pub ipv4only: bool,
    /// The TTL of those answers, in seconds.
    pub ipv4only_ttl_s: u32,
    /// Answer `localhost`, `invalid`, `onion` (RFC 6761, RFC 7686) and `resolver.arpa` (RFC 9462 6.4).
    pub special_names: bool,
    /// Answer private names: `local` (RFC 6762), `home.arpa` (RFC 8375), `service.arpa` (RFC 9665) and the
    /// reverse zones of addresses that are not global (RFC 6303, RFC 7793), but for those that a route names.
    pub private_zones: bool,
    /// Answer ANY over UDP with one HINFO record (RFC 8482); otherwise it is forwarded.
    pub minimal_any: bool,
}

/// A token bucket for each client network: /24 of IPv4, /56 of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Queries a second, at least 1.
    pub per_second: u32,
    /// Queries at once, at least 1.
    pub burst: u32,
    /// Every n-th query above the limit is answered with TC, so that clients with true addresses come by TCP;
    /// 0 drops all.
    pub slip: u32,
}

impl Settings {
    /// Whether clients at this address may ask.
    pub fn allows(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.allow.iter().any(|range| range.contains(client))
    }

    /// The first view that takes the client. The last takes everybody.
    pub fn view_of(&self, client: &Client) -> usize {
        if self.views.len() == 1 {
            return 0;
        }
        let address: IpAddr = client.address.ip().to_canonical();
        let takes = |view: &View| {
            (view.listeners.is_empty() || view.listeners.contains(&client.listener))
                && (view.clients.is_empty() || view.clients.iter().any(|range| range.contains(address)))
        };
        self.views.iter().position(takes).unwrap_or(self.views.len() - 1)
    }
}

impl Default for Settings {
    /// One upstream server and the defaults of the configuration file.
    fn default() -> Self {
        Self {
            views: vec![View::default()],
            allow: local_networks(),
            rate: None,
            upstreams: vec![Upstream::default()],
            groups: vec![vec![0]],
            routes: Routes::default(),
            asking: Asking::default(),
            caching: Caching::default(),
            local: Local::default(),
            in_flight: 16_384,
            in_flight_per_zone: 8_192,
            udp_payload_octets: 1232,
            extended_errors: true,
            cookies: true,
            keepalive_100ms: 100,
            own_sockets: Arc::default(),
        }
    }
}

impl Default for View {
    /// The well-known prefix for everybody.
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            clients: Vec::new(),
            listeners: Vec::new(),
            rule: Some(Policy::default()),
            ptr: Some(Style::Cname),
            never: Domains::default(),
            always: Domains::default(),
        }
    }
}

impl Default for Upstream {
    /// UDP, not trusted.
    fn default() -> Self {
        Self { stream_only: false, trust_ad: false, in_flight: IN_FLIGHT_MAX }
    }
}

impl Default for Asking {
    fn default() -> Self {
        Self {
            ports: 64,
            timeout_ns: 800_000_000,
            tries: 3,
            deadline_ns: 5_000_000_000,
            a_query: AQuery::Afterwards,
            case_randomization: true,
            cookies: true,
            loop_probe: true,
        }
    }
}

impl Default for Caching {
    fn default() -> Self {
        Self {
            ttl_max_s: 86_400,
            negative_ttl_max_s: 3_600,
            failure_ttl_s: 1,
            stale: Some(Stale { age_max_s: 86_400, ttl_s: 30, client_timer_ns: 1_800_000_000 }),
            prefetch: true,
            nxdomain_cut: true,
        }
    }
}

impl Default for Local {
    fn default() -> Self {
        Self {
            ipv4only: true,
            ipv4only_ttl_s: 3_600,
            special_names: true,
            private_zones: true,
            minimal_any: true,
        }
    }
}

/// Loopback, private, shared, link-local and unique local addresses (RFC 6890).
pub fn local_networks() -> Vec<Range> {
    let v4 = |octets: [u8; 4], length| Range::v4(octets.into(), length);
    let v6 = |first: u16, last: u16, length| Range::v6([first, 0, 0, 0, 0, 0, 0, last].into(), length);
    vec![
        v4([127, 0, 0, 0], 8),
        v6(0, 1, 128),
        v4([10, 0, 0, 0], 8),
        v4([172, 16, 0, 0], 12),
        v4([192, 168, 0, 0], 16),
        v4([100, 64, 0, 0], 10),
        v4([169, 254, 0, 0], 16),
        v6(0xfc00, 0, 7),
        v6(0xfe80, 0, 10),
    ]
}
