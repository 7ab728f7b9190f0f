//! The keys themselves, in the order of the documents.

use super::Fallback::{Value, Words};
use super::Kind::{Choice, Flag, Map, Number, Numbers, Text, Texts};
use super::{Header, Key, Kind, Table};

/// A key whose example is its default.
const fn key(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
    Key { name, kind, default: Value(default), example: default, meaning }
}

/// A key whose example is another value.
const fn example(mut key: Key, example: &'static str) -> Key {
    key.example = example;
    key
}

/// A key without a value of its own.
const fn open(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key {
    Key { name, kind, default: Words(default), example, meaning }
}

const WEEK_S: u64 = 604_800;

/// All tables, in the order of the documents.
pub(in super::super) const TABLES: &[Table] = &[
    Table {
        name: "",
        header: Header::None,
        meaning: "The least that must be written is `upstreams`.",
        keys: TOP,
    },
    Table {
        name: "dns64",
        header: Header::Once,
        meaning: "The DNS64 rule (RFC 6147), for everybody whose view does not say otherwise.",
        keys: DNS64,
    },
    Table {
        name: "view",
        header: Header::Repeated,
        meaning: "What one network of clients is given. The first view that takes a client counts; the view `default` \
                  of the keys outside takes the rest. Beside these keys, a view takes every key of `[dns64]`, which \
                  then counts in its place.",
        keys: VIEW,
    },
    Table {
        name: "forward",
        header: Header::Repeated,
        meaning: "Questions below some domains go to servers of their own; the longest domain counts.",
        keys: FORWARD,
    },
    Table {
        name: "upstream",
        header: Header::Once,
        meaning: "How upstream servers are asked.",
        keys: UPSTREAM,
    },
    Table {
        name: "cache",
        header: Header::Once,
        meaning: "What is kept of the answers: what the upstream servers said, once for all views.",
        keys: CACHE,
    },
    Table { name: "local", header: Header::Once, meaning: "What is answered without asking.", keys: LOCAL },
    Table {
        name: "clients",
        header: Header::Once,
        meaning: "What clients are told beside the answer.",
        keys: CLIENTS,
    },
    Table {
        name: "limits",
        header: Header::Once,
        meaning: "Bounds on what clients can make the server do.",
        keys: LIMITS,
    },
    Table {
        name: "tls",
        header: Header::Once,
        meaning: "What listeners of tls://, https:// and quic:// show. Files are read again at a reload.",
        keys: TLS,
    },
    Table { name: "control", header: Header::Once, meaning: "Orders from `dns64d control`.", keys: CONTROL },
    Table {
        name: "metrics",
        header: Header::Once,
        meaning: "Metrics for Prometheus, by HTTP at /metrics.",
        keys: METRICS,
    },
    Table { name: "log", header: Header::Once, meaning: "What is written to stderr.", keys: LOG },
    Table {
        name: "dnstap",
        header: Header::Optional,
        meaning: "Messages as dnstap, over a Frame Streams socket. What the receiver does not take in time is lost \
                  and counted.",
        keys: DNSTAP,
    },
    Table {
        name: "process",
        header: Header::Once,
        meaning: "What the process gives up when its sockets are open.",
        keys: PROCESS,
    },
];

const TOP: &[Key] = &[
    key(
        "listen",
        Texts,
        r#"["[::]:53", "0.0.0.0:53"]"#,
        "Where clients ask: ADDRESS:PORT over UDP and TCP, `tls://`, `https://` and `quic://` before it for DNS over \
         TLS, HTTPS and QUIC. An IPv6 address takes IPv6 only. Without a port it is 53, 853, 443, 853; port 0 takes a \
         free one.",
    ),
    open(
        "upstreams",
        Texts,
        "needed",
        r#"["192.0.2.1", "[2001:db8::53]:53"]"#,
        "The resolvers that are asked: ADDRESS over UDP (TCP where an answer is truncated), `tcp://ADDRESS`, \
         `tls://ADDRESS#NAME`, `https://ADDRESS/PATH#NAME`, `quic://ADDRESS#NAME`. NAME is what the certificate must \
         be for, the address where it is left out; PATH is `/dns-query` where it is left out.",
    ),
    key(
        "prefixes",
        Texts,
        r#"["64:ff9b::/96"]"#,
        "The NAT64's prefixes (RFC 6052); every IPv4 address is answered under each.",
    ),
    open(
        "allow",
        Texts,
        "loopback, private, shared, link-local and unique local addresses",
        r#"["127.0.0.0/8", "::1/128", "10.0.0.0/8", "2001:db8::/32"]"#,
        "Who may ask; all others are REFUSED.",
    ),
    key(
        "threads",
        Number(0, 1024),
        "0",
        "Threads, each with sockets, lookups in flight and upstream ports of its own; 0 means one for each processor.",
    ),
    key(
        "cpus",
        Numbers(0, 1023),
        "[]",
        "The processors that threads are pinned to in turn; none leaves them free.",
    ),
];

const DNS64: &[Key] = &[
    key(
        "exclude",
        Texts,
        r#"["::ffff:0:0/96"]"#,
        "AAAA records in these ranges count as absent (RFC 6147 5.1.4).",
    ),
    key(
        "on_aaaa_error",
        Choice(&["synthesize", "fail"]),
        r#""synthesize""#,
        "What follows an AAAA query that failed: synthesize from A (RFC 6147 5.1.2, 5.1.3), or fail, so that \
         dual-stack sites stay native.",
    ),
    key(
        "synthesize_with_cd",
        Flag,
        "false",
        "Synthesize for clients that set CD without DO, which say that they validate (RFC 6147 5.5).",
    ),
    key("strict_well_known", Flag, "true", "64:ff9b::/96 carries global IPv4 addresses only (RFC 6052 3.1)."),
    key(
        "ptr",
        Choice(&["cname", "answer", "off"]),
        r#""cname""#,
        "PTR questions for addresses under a prefix (RFC 6147 5.3.1): a CNAME to the in-addr.arpa name, an answer in \
         its place, or off.",
    ),
    example(
        key(
            "never",
            Texts,
            "[]",
            "Nothing is synthesized for these domains and below them; it counts before `always`.",
        ),
        r#"["native.example"]"#,
    ),
    example(
        key(
            "always",
            Texts,
            "[]",
            "For these domains and below them AAAA records count as absent, so that all clients go through the NAT64.",
        ),
        r#"["broken-ipv6.example"]"#,
    ),
    example(
        key(
            "map",
            Map,
            "{}",
            "IPv4 ranges with a prefix of their own, or \"none\"; the longest match counts (RFC 6147 5.2).",
        ),
        r#"{ "10.0.0.0/8" = "2001:db8:64::/96", "192.168.0.0/16" = "none" }"#,
    ),
];

const VIEW: &[Key] = &[
    open("name", Text, "needed", r#""guests""#, "Its name in statistics and logs."),
    open("clients", Texts, "everybody", r#"["2001:db8:1::/48"]"#, "The clients that it takes."),
    open(
        "listeners",
        Texts,
        "all",
        r#"["[::]:53"]"#,
        "The listeners that they ask on, each as it stands in `listen`.",
    ),
    key("dns64", Flag, "true", "Whether anything is synthesized at all."),
    open(
        "prefixes",
        Texts,
        "as outside",
        r#"["2001:db8:64::/96"]"#,
        "The NAT64's prefixes for these clients.",
    ),
];

const FORWARD: &[Key] = &[
    open("domains", Texts, "needed", r#"["corp.example", "10.in-addr.arpa"]"#, "The domains."),
    open(
        "upstreams",
        Texts,
        "needed",
        r#"["10.0.0.53"]"#,
        "The servers that are asked, written as in `upstreams`.",
    ),
    open(
        "trust_ad",
        Flag,
        "as `upstream.trust_ad`",
        "true",
        "The AD bit of these servers is believed and passed on.",
    ),
];

const UPSTREAM: &[Key] = &[
    key(
        "ports",
        Number(1, 1024),
        "64",
        "UDP source ports for each upstream server and thread; each takes 128 KiB for its IDs.",
    ),
    key("timeout_ms", Number(1, 60_000), "800", "How long one try waits; at most `deadline_ms`."),
    key("tries", Number(1, 3), "3", "How often a question is asked (RFC 9520 3.1)."),
    key("deadline_ms", Number(1, 60_000), "5000", "How long a whole query may take, A after AAAA included."),
    key(
        "a_query",
        Choice(&["afterwards", "together", "when-late"]),
        r#""afterwards""#,
        "When A is asked for (RFC 6147 5.1.8): after an AAAA reply that needs it, together with AAAA, or when the \
         AAAA reply is later than 95 of 100 of its server's.",
    ),
    key(
        "case_randomization",
        Flag,
        "false",
        "Spell names in random case and want them back so (0x20). Some servers do not repeat the spelling.",
    ),
    key("cookies", Flag, "true", "Send client cookies and hold servers to theirs (RFC 7873)."),
    key("trust_ad", Flag, "false", "The AD bit of the servers is believed and passed on."),
    key("in_flight", Number(1, 65_535), "65535", "Lookups in flight at one server, for each thread."),
    example(
        key(
            "source",
            Texts,
            "[]",
            "The addresses to ask from, one of each family at most; otherwise the kernel chooses.",
        ),
        r#"["192.0.2.53", "2001:db8::53"]"#,
    ),
    key(
        "loop_probe",
        Flag,
        "true",
        "Ask each server at the start for a name of our own, to see whether the question comes back.",
    ),
    open(
        "roots",
        Text,
        "the system's",
        r#""/etc/dns64d/roots.pem""#,
        "A PEM file of the authorities that certificates of servers are checked against.",
    ),
];

const CACHE: &[Key] = &[
    key("size_mib", Number(0, 1 << 20), "64", "Its memory in MiB; 0 keeps nothing."),
    key("ttl_max_s", Number(1, WEEK_S), "86400", "Longer TTLs are cut to this (RFC 8767 4)."),
    key("negative_ttl_max_s", Number(1, 86_400), "3600", "The same for negative answers (RFC 2308 5)."),
    key(
        "failure_ttl_s",
        Number(1, 300),
        "1",
        "How long a failure is kept at first; each further one doubles it, up to 300 s (RFC 9520 3.2).",
    ),
    key("stale", Flag, "true", "Give expired answers when no fresh one can be had (RFC 8767)."),
    key("stale_age_max_s", Number(1, WEEK_S), "86400", "How long after its end an answer may be given."),
    key("stale_ttl_s", Number(1, 3600), "30", "The TTL of a stale answer (RFC 8767 5)."),
    key(
        "stale_client_timer_ms",
        Number(0, 60_000),
        "1800",
        "How long a client waits for a fresh answer before it is given a stale one (RFC 8767 5).",
    ),
    key("prefetch", Flag, "true", "Ask again for what is asked for in the last tenth of its life."),
    key("nxdomain_cut", Flag, "true", "Below a name that does not exist, nothing exists (RFC 8020)."),
];

const LOCAL: &[Key] = &[
    key(
        "ipv4only",
        Flag,
        "true",
        "Answer `ipv4only.arpa`, by which clients find the prefixes (RFC 7050, RFC 8880).",
    ),
    key("ipv4only_ttl_s", Number(1, WEEK_S), "3600", "The TTL of those answers."),
    key(
        "special_names",
        Flag,
        "true",
        "Answer `localhost`, `invalid`, `onion` (RFC 6761, RFC 7686) and `resolver.arpa` (RFC 9462).",
    ),
    key(
        "minimal_any",
        Flag,
        "true",
        "Answer ANY over UDP with one HINFO record (RFC 8482); otherwise forward it.",
    ),
];

const CLIENTS: &[Key] = &[
    key("cookies", Flag, "true", "Give server cookies to clients that send theirs (RFC 7873, RFC 9018)."),
    key("extended_errors", Flag, "true", "Say in an EDNS option why an answer is what it is (RFC 8914)."),
];

const LIMITS: &[Key] = &[
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

const TLS: &[Key] = &[
    open(
        "certificate",
        Text,
        "none",
        r#""/etc/dns64d/certificate.pem""#,
        "A PEM file of the certificate, followed by the intermediate authorities.",
    ),
    open("key", Text, "none", r#""/etc/dns64d/key.pem""#, "A PEM file of its private key."),
    key("https_path", Text, r#""/dns-query""#, "The path of DNS over HTTPS (RFC 8484)."),
];

const CONTROL: &[Key] = &[open(
    "socket",
    Text,
    "none",
    r#""/run/dns64d/control""#,
    "The Unix socket; who may write to it may give orders.",
)];

const METRICS: &[Key] =
    &[open("listen", Text, "none", r#""127.0.0.1:9153""#, "ADDRESS:PORT; whoever reaches it may read.")];

const LOG: &[Key] = &[
    key(
        "level",
        Choice(&["error", "warning", "info", "debug"]),
        r#""info""#,
        "What weighs less is left out.",
    ),
    key("format", Choice(&["text", "json"]), r#""text""#, "Lines of `key=value`, or of JSON."),
    key("queries", Flag, "false", "Log every query: for a search of faults, not for good."),
];

const DNSTAP: &[Key] = &[
    open("socket", Text, "needed", r#""/run/dnstap.sock""#, "The Unix socket of the receiver."),
    open("clients", Flag, "true", "true", "Record what clients ask and are answered."),
    open("upstreams", Flag, "false", "false", "Record what upstream servers are asked and answer."),
    open("identity", Text, "\"dns64d\"", r#""dns64d""#, "The name of this server in the records."),
];

const PROCESS: &[Key] = &[
    open("user", Text, "as it was started", r#""dns64d""#, "The user to become."),
    key(
        "sandbox",
        Flag,
        "true",
        "Give up files, programs and system calls that are not needed (landlock, seccomp), where the kernel can.",
    ),
];
