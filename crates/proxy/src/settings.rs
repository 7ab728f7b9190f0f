//! What a [`super::Machine`] is told at its start. The configuration file becomes this after every check.

use std::net::SocketAddr;
use std::sync::Arc;

use dns64::Range;
use dns64::reverse::Style;
use dns64::rule::Policy;

/// The largest in-flight table, in queries: slots are numbered with 16 bits and one number means none.
pub const IN_FLIGHT_MAX: usize = u16::MAX as usize;

/// The choices of the operator, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The DNS64 rule's part.
    pub rule: Policy,
    /// How PTR questions for synthesized addresses are answered; `None` forwards them.
    pub ptr: Option<Style>,
    /// Who may ask.
    pub allow: Vec<Range>,
    /// The number of upstream servers, at least 1.
    pub upstreams: usize,
    /// UDP sockets, and so source ports, for each upstream server, at least 1.
    pub ports: usize,
    /// Ask upstream servers over TCP alone.
    pub tcp_only: bool,
    /// How long one try waits for its answer.
    pub timeout_ns: u64,
    /// How often a question is asked upstream, 1 to 3.
    pub tries: u8,
    /// How long a client's query may take; no try starts that could end later.
    pub deadline_ns: u64,
    /// Spell the name of every upstream query in random case and want it back so (0x20).
    pub case_randomization: bool,
    /// Ask upstream servers for the AD bit and pass it on.
    pub trust_ad: bool,
    /// Queries in flight at most, 1 to [`IN_FLIGHT_MAX`].
    pub in_flight: usize,
    /// The largest UDP answer to a client, and the payload size announced to clients, in octets, at least 512.
    pub udp_payload_octets: u16,
    /// The addresses of all upstream sockets of the process, sorted: a query from one of them is a loop.
    pub own_sockets: Arc<[SocketAddr]>,
}

impl Default for Settings {
    /// One upstream server and the defaults of the configuration file.
    fn default() -> Self {
        Self {
            rule: Policy::default(),
            ptr: Some(Style::Cname),
            allow: local_networks(),
            upstreams: 1,
            ports: 16,
            tcp_only: false,
            timeout_ns: 800_000_000,
            tries: 3,
            deadline_ns: 5_000_000_000,
            case_randomization: false,
            trust_ad: false,
            in_flight: 16_384,
            udp_payload_octets: 1232,
            own_sockets: Arc::new([]),
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
