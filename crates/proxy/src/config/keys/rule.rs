//! Keys of the top of the file, of the DNS64 rule and of views.

use super::Kind::{Choice, Flag, Map, Number, Numbers, Text, Texts};
use super::{Key, example, key, open};

pub(super) const TOP: &[Key] = &[
    key(
        "listen",
        Texts("listeners"),
        r#"["[::]:53", "0.0.0.0:53"]"#,
        "Where clients ask: ADDRESS:PORT over UDP and TCP, `tls://`, `https://` and `quic://` before it for DNS over \
         TLS, HTTPS and QUIC. An IPv6 address takes IPv6 only. Without a port it is 53, 853, 443, 853; port 0 takes a \
         free one.",
    ),
    open(
        "upstreams",
        Texts("servers"),
        "needed",
        r#"["192.0.2.1", "[2001:db8::53]:53"]"#,
        "The resolvers that are asked: ADDRESS over UDP (TCP where an answer is truncated), `tcp://ADDRESS`, \
         `tls://ADDRESS#NAME`, `https://ADDRESS/PATH#NAME`, `quic://ADDRESS#NAME`. NAME is what the certificate must \
         be for, the address where it is left out; PATH is `/dns-query` where it is left out.",
    ),
    key(
        "prefixes",
        Texts("prefixes"),
        r#"["64:ff9b::/96"]"#,
        "The NAT64's prefixes (RFC 6052); `dns64.spread` says what several mean.",
    ),
    key(
        "allow",
        Texts("ranges"),
        r#"["127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "fc00::/7", "fe80::/10"]"#,
        "Who may ask; all others are REFUSED. Global addresses of your own network must be named here.",
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

pub(super) const DNS64: &[Key] = &[
    key(
        "exclude",
        Texts("IPv6 ranges"),
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
    key(
        "spread",
        Choice(&["all", "rotate"]),
        r#""all""#,
        "Where there are several prefixes: all of them in every answer (RFC 6147 5.2), or one, another at each turn.",
    ),
    example(
        key(
            "never",
            Texts("domains"),
            "[]",
            "Nothing is synthesized for these domains and below them; it counts before `always`.",
        ),
        r#"["native.example"]"#,
    ),
    example(
        key(
            "always",
            Texts("domains"),
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

pub(super) const VIEW: &[Key] = &[
    open("name", Text("a name"), "needed", r#""guests""#, "Its name in statistics and logs."),
    open("clients", Texts("ranges"), "everybody", r#"["fd00:1::/48"]"#, "The clients that it takes."),
    open(
        "listeners",
        Texts("listeners"),
        "all",
        r#"["[::]:53"]"#,
        "The listeners that they ask on, each as it stands in `listen`.",
    ),
    key("dns64", Flag, "true", "Whether anything is synthesized at all."),
    open(
        "prefixes",
        Texts("prefixes"),
        "as outside",
        r#"["2001:db8:64::/96"]"#,
        "The NAT64's prefixes for these clients.",
    ),
];
