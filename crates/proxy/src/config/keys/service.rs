//! Keys of what surrounds the server.

use super::Kind::{Choice, Flag, Number, Text, Texts};
use super::{Key, example, key, open};

pub(super) const CLIENTS: &[Key] = &[
    key("cookies", Flag, "true", "Give server cookies to clients that send theirs (RFC 7873, RFC 9018)."),
    key("extended_errors", Flag, "true", "Say in an EDNS option why an answer is what it is (RFC 8914)."),
];

pub(super) const LIMITS: &[Key] = &[
    key(
        "in_flight",
        Number(1, 65_535),
        "16384",
        "Lookups in flight for each thread, and so many queries that wait for them; above, the oldest goes.",
    ),
    key(
        "udp_payload_octets",
        Number(512, 4096),
        "1232",
        "The largest UDP answer, and the size announced to clients (RFC 9715).",
    ),
    key(
        "connections",
        Number(0, 65_535),
        "1024",
        "Connections of clients over TCP, TLS, HTTPS and QUIC together; 0 means none at all.",
    ),
    key(
        "connections_per_network",
        Number(1, 65_535),
        "128",
        "The same for one network of clients, /24 or /56.",
    ),
    key("pipelined", Number(1, 1024), "64", "Queries of one connection in progress."),
    key("idle_ms", Number(100, 3_600_000), "10000", "A connection without a query for so long is closed."),
    open(
        "queries_per_second",
        Number(1, 10_000_000),
        "no limit",
        "1000",
        "Queries of one network of clients (/24 of IPv4, /56 of IPv6).",
    ),
    open(
        "burst",
        Number(1, 20_000_000),
        "twice `queries_per_second`",
        "2000",
        "Queries that such a network may send at once.",
    ),
    open(
        "slip",
        Number(0, 1000),
        "2",
        "2",
        "Every n-th query above the limit is answered with TC, so that clients with true addresses come by TCP; 0 \
         drops all.",
    ),
];

pub(super) const XDP: &[Key] = &[
    example(
        key(
            "devices",
            Texts("devices"),
            "[]",
            "The network devices whose datagrams go past the stack. Each must carry Ethernet and no other XDP program.",
        ),
        r#"["eth0"]"#,
    ),
    key(
        "upstreams",
        Flag,
        "true",
        "Ask upstream servers of UDP that way, too, while the route to them leads over one of the devices.",
    ),
    key(
        "repeat",
        Flag,
        "true",
        "Have the program on the device repeat an answer of the cache, until a TTL in it would be less by a second.",
    ),
];

pub(super) const TLS: &[Key] = &[
    open(
        "certificate",
        Text("a path"),
        "none",
        r#""/etc/dns64d/certificate.pem""#,
        "A PEM file of the certificate, followed by the intermediate authorities.",
    ),
    open("key", Text("a path"), "none", r#""/etc/dns64d/key.pem""#, "A PEM file of its private key."),
    key("https_path", Text("a path of a URI"), r#""/dns-query""#, "The path of DNS over HTTPS (RFC 8484)."),
];

pub(super) const CONTROL: &[Key] = &[open(
    "socket",
    Text("a path"),
    "none",
    r#""/run/dns64d/control""#,
    "The Unix socket; who may write to it may give orders.",
)];

pub(super) const METRICS: &[Key] = &[open(
    "listen",
    Text("an address"),
    "none",
    r#""127.0.0.1:9153""#,
    "ADDRESS:PORT; whoever reaches it may read.",
)];

pub(super) const LOG: &[Key] = &[
    key(
        "level",
        Choice(&["error", "warning", "info", "debug"]),
        r#""info""#,
        "What weighs less is left out.",
    ),
    key("format", Choice(&["text", "json"]), r#""text""#, "Lines of `key=value`, or of JSON."),
    key("queries", Flag, "false", "Log every query: for a search of faults, not for good."),
];

pub(super) const DNSTAP: &[Key] = &[
    open("socket", Text("a path"), "needed", r#""/run/dnstap.sock""#, "The Unix socket of the receiver."),
    open("clients", Flag, "true", "true", "Record what clients ask and are answered."),
    open("upstreams", Flag, "false", "false", "Record what upstream servers are asked and answer."),
    open("identity", Text("a name"), "\"dns64d\"", r#""dns64d""#, "The name of this server in the records."),
];

pub(super) const PROCESS: &[Key] = &[
    open("user", Text("a name"), "as it was started", r#""dns64d""#, "The user to become."),
    key(
        "sandbox",
        Flag,
        "true",
        "Give up files, programs and system calls that are not needed (landlock, seccomp), where the kernel can.",
    ),
];
