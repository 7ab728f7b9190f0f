//! Keys of upstream servers, of the cache and of local answers.

use super::Kind::{Choice, Flag, Number, Text, Texts};
use super::{Key, example, key, open};

const WEEK_S: u64 = 604_800;

pub(super) const FORWARD: &[Key] = &[
    open("domains", Texts("domains"), "needed", r#"["corp.example", "10.in-addr.arpa"]"#, "The domains."),
    open(
        "upstreams",
        Texts("servers"),
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
    open(
        "validate",
        Flag,
        "as `upstream.validate`",
        "false",
        "The answers of these servers are judged here by DNSSEC.",
    ),
];

pub(super) const UPSTREAM: &[Key] = &[
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
            Texts("addresses"),
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
        Text("a path"),
        "the system's",
        r#""/etc/dns64d/roots.pem""#,
        "A PEM file of the authorities that certificates of servers are checked against.",
    ),
    key(
        "validate",
        Flag,
        "false",
        "Judge answers here by DNSSEC (RFC 4035), whatever the servers say: secure ones get AD, bogus ones become \
         SERVFAIL. Servers of UDP are asked over TCP then. Zones signed by P-384 or Ed25519 alone count as unsigned. \
         Only programs built with the cargo feature `validation` can do it.",
    ),
    open(
        "anchors",
        Text("a path"),
        "the keys of the root of 2017 and 2024",
        r#""/etc/dns64d/root.key""#,
        "A file of DS or DNSKEY records that are trusted, one on each line, for `validate`.",
    ),
];

pub(super) const CACHE: &[Key] = &[
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

pub(super) const LOCAL: &[Key] = &[
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
