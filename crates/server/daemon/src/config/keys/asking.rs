//! Keys of upstream servers, of the cache and of local answers.

use server_core::settings::AQuery;
use toml::Spanned;

use super::{Choice, Key, NEEDED, Number, Table, Takes, Text, Texts, Written, keys, words};

const WEEK_S: u64 = 604_800;

words!(AQuery {
    "afterwards" => Self::Afterwards,
    "together" => Self::Together,
    "when-late" => Self::WhenLate,
});

keys! {
    /// Questions below some domains go to servers of their own; the longest domain counts.
    "[[forward]]" Forward {
        /// The domains.
        domains: Option<Texts> => {
            what: "domains", otherwise: NEEDED, example: r#"["corp.example", "10.in-addr.arpa"]"#
        };
        /// The servers that are asked, written as in `upstreams`.
        upstreams: Option<Texts> => { what: "servers", otherwise: NEEDED, example: r#"["10.0.0.53"]"# };
        /// The AD bit of these servers is believed and passed on.
        trust_ad: Option<bool> => { otherwise: "as `upstream.trust_ad`", example: "true" };
        /// The answers of these servers are judged here by DNSSEC.
        validate: Option<Spanned<bool>> => { otherwise: "as `upstream.validate`", example: "false" };
    }
}

keys! {
    /// How upstream servers are asked.
    "[upstream]" Upstream {
        /// UDP sockets for each upstream server and thread, each at a port drawn from 1024 to 65535 without
        /// those of `ip_local_reserved_ports`. A socket that was used for a burst of queries is replaced.
        /// Each is an open file.
        ports: Number<usize, 1, 1024> = 64;
        /// How long one try waits; at most `deadline_ms`.
        timeout_ms: Written<Number<u64, 1, 60_000>> = 800;
        /// How often a question is asked (RFC 9520 3.1).
        tries: Number<u8, 1, 3> = 3;
        /// How long a whole query may take, A after AAAA included.
        deadline_ms: Number<u64, 1, 60_000> = 5000;
        /// When A is asked for (RFC 6147 5.1.8): after an AAAA reply that needs it, together with AAAA, or
        /// when the AAAA reply is later than 95 of 100 of its server's.
        a_query: Choice<AQuery> = AQuery::Afterwards;
        /// Spell names in random case and want them back so (0x20), at every server that repeats the
        /// spelling: a probe at the start finds out, and a server that ceases to is understood.
        case_randomization: bool = true;
        /// Send client cookies and hold servers to theirs (RFC 7873).
        cookies: bool = true;
        /// The AD bit of the servers is believed and passed on.
        trust_ad: bool = false;
        /// Lookups in flight at one server, for each thread.
        in_flight: Number<usize, 1, 65_535> = 65_535;
        /// The addresses to ask from, one of each family at most; otherwise the kernel chooses. Of a prefix
        /// every socket of UDP has a random address; the machine needs a local route for it (`ip -6 route add
        /// local 2001:db8:53::/64 dev lo`), and the network one to the machine.
        source: Texts = &[] => {
            what: "addresses or prefixes", example: r#"["192.0.2.53", "2001:db8:53::/64"]"#
        };
        /// Ask each server at the start for a name of our own, to see whether the question comes back, and
        /// how it is spelled then.
        loop_probe: bool = true;
        /// A PEM file of the authorities that certificates of servers are checked against.
        roots: Option<Text> => { what: "a path", otherwise: "the system's", example: r#""/etc/dns64d/roots.pem""# };
        /// Judge answers here by DNSSEC (RFC 4035), whatever the servers say: secure ones get AD, bogus ones
        /// become SERVFAIL. Servers of UDP are asked over TCP then. Zones signed by P-384 or Ed25519 alone
        /// count as unsigned. Only programs built with the cargo feature `validation` can do it.
        validate: Spanned<bool> = false;
        /// A file of DS or DNSKEY records that are trusted, one on each line, for `validate`.
        anchors: Option<Text> => {
            what: "a path",
            otherwise: "the keys of the root of 2017 and 2024",
            example: r#""/etc/dns64d/root.key""#
        };
    }
}

keys! {
    /// What is kept of the answers: what the upstream servers said, once for all views.
    "[cache]" Cache {
        /// Its memory in MiB; 0 keeps nothing.
        size_mib: Number<usize, 0, 1_048_576> = 64;
        /// Longer TTLs are cut to this (RFC 8767 4).
        ttl_max_s: Number<u32, 1, WEEK_S> = 86_400;
        /// The same for negative answers (RFC 2308 5).
        negative_ttl_max_s: Number<u32, 1, 86_400> = 3600;
        /// How long a failure is kept at first; each further one doubles it, up to 300 s (RFC 9520 3.2).
        failure_ttl_s: Number<u32, 1, 300> = 1;
        /// Give expired answers when no fresh one can be had (RFC 8767).
        stale: Written<bool> = true;
        /// How long after its end an answer may be given.
        stale_age_max_s: Written<Number<u32, 1, WEEK_S>> = 86_400;
        /// The TTL of a stale answer (RFC 8767 5).
        stale_ttl_s: Written<Number<u32, 1, 3600>> = 30;
        /// How long a client waits for a fresh answer before it is given a stale one (RFC 8767 5).
        stale_client_timer_ms: Written<Number<u64, 0, 60_000>> = 1800;
        /// Ask again for what is asked for in the last tenth of its life.
        prefetch: Written<bool> = true;
        /// Below a name that does not exist, nothing exists (RFC 8020), where the denial is secure.
        nxdomain_cut: bool = true;
    }
}

keys! {
    /// What is answered without asking.
    "[local]" Local {
        /// Answer `ipv4only.arpa`, by which clients find the prefixes (RFC 7050, RFC 8880).
        ipv4only: bool = true;
        /// The TTL of those answers.
        ipv4only_ttl_s: Number<u32, 1, WEEK_S> = 3600;
        /// Answer `localhost`, `invalid`, `onion` (RFC 6761, RFC 7686) and `resolver.arpa` (RFC 9462).
        special_names: bool = true;
        /// Answer ANY over UDP with one HINFO record (RFC 8482); otherwise forward it.
        minimal_any: bool = true;
    }
}
