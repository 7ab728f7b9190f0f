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
    /// Other upstream servers for questions below some domains. The longest domain that matches counts.
    "[[forward]]" Forward {
        /// The domains.
        domains: Option<Texts> => {
            what: "domains", otherwise: NEEDED, example: r#"["corp.example", "10.in-addr.arpa"]"#
        };
        /// The servers that are asked, written as in `upstreams`.
        upstreams: Option<Texts> => { what: "servers", otherwise: NEEDED, example: r#"["10.0.0.53"]"# };
        /// Trust the AD bit of these servers, and pass it on to clients.
        trust_ad: Option<bool> => { otherwise: "as `upstream.trust_ad`", example: "true" };
        /// Validate the answers of these servers (DNSSEC).
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
        /// How long dns64d waits for an answer before it asks again; at most `deadline_ms`.
        timeout_ms: Written<Number<u64, 1, 60_000>> = 800;
        /// How often a question is asked at most (RFC 9520 3.1).
        tries: Number<u8, 1, 3> = 3;
        /// How long a whole query may take, A after AAAA included.
        deadline_ms: Number<u64, 1, 60_000> = 5000;
        /// When A is asked for (RFC 6147 5.1.8): after an AAAA reply that needs it, together with AAAA, or
        /// when the AAAA reply is later than 95 % of the replies of its server.
        a_query: Choice<AQuery> = AQuery::Afterwards;
        /// Send names in random letter case, and accept only answers that repeat the case (0x20), for every
        /// server that repeats the case. A probe at the start finds these servers. If a server no longer
        /// repeats the case, dns64d notices and stops the randomization for this server.
        case_randomization: bool = true;
        /// Send client cookies. From a server that has sent a cookie, accept only answers with the right
        /// cookie (RFC 7873).
        cookies: bool = true;
        /// Trust the AD bit of the servers, and pass it on to clients.
        trust_ad: bool = false;
        /// Lookups in flight at one server, for each thread. Above, the network of clients with the most
        /// gives up one for a network with fewer, or the new query is SERVFAIL. A server that is asked over
        /// streams alone has 16384 at most, of all threads together.
        in_flight: Option<Number<usize, 1, 65_535>> => {
            otherwise: "half of `limits.in_flight` with a `[[forward]]`, else no limit", example: "4096"
        };
        /// The source addresses of upstream queries, one of each family at most; by default the kernel
        /// chooses. With a prefix, every UDP socket has a random address of the prefix. The machine then
        /// needs a local route for the prefix (`ip -6 route add local 2001:db8:53::/64 dev lo`), and the
        /// network a route to the machine.
        source: Texts = &[] => {
            what: "addresses or prefixes", example: r#"["192.0.2.53", "2001:db8:53::/64"]"#
        };
        /// At the start, ask each server for a name of dns64d's own. The probe shows whether the server
        /// forwards to dns64d (a loop), and whether the server repeats the letter case of names.
        loop_probe: bool = true;
        /// A PEM file of the authorities that certificates of servers are checked against.
        roots: Option<Text> => { what: "a path", otherwise: "the system's", example: r#""/etc/dns64d/roots.pem""# };
        /// Validate answers (DNSSEC, RFC 4035), whatever the servers say about them: secure answers get AD,
        /// bogus answers become SERVFAIL. Servers given for UDP are then asked over TCP. Zones signed by
        /// P-384 or Ed25519 alone count as unsigned. Validation needs a program built with the cargo feature
        /// `validation`.
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
    /// The cache of the replies of upstream servers. All views share the cache.
    "[cache]" Cache {
        /// The memory of the cache in MiB. 0 means no cache.
        size_mib: Number<usize, 0, 1_048_576> = 64;
        /// Longer TTLs are reduced to this value (RFC 8767 4).
        ttl_max_s: Number<u32, 1, WEEK_S> = 86_400;
        /// The same for negative answers (RFC 2308 5).
        negative_ttl_max_s: Number<u32, 1, 86_400> = 3600;
        /// How long a failure is kept at first. Each further failure doubles the time, up to 300 s (RFC 9520
        /// 3.2).
        failure_ttl_s: Number<u32, 1, 300> = 1;
        /// Give an expired answer when no fresh answer is available (RFC 8767).
        stale: Written<bool> = true;
        /// How long after its expiry an answer may be given.
        stale_age_max_s: Written<Number<u32, 1, WEEK_S>> = 86_400;
        /// The TTL of a stale answer (RFC 8767 5).
        stale_ttl_s: Written<Number<u32, 1, 3600>> = 30;
        /// How long a client waits for a fresh answer before dns64d gives a stale answer (RFC 8767 5).
        stale_client_timer_ms: Written<Number<u64, 0, 60_000>> = 1800;
        /// Ask the upstream server again when a client asks for an entry in the last tenth of its TTL.
        prefetch: Written<bool> = true;
        /// Answer from the denial of a name for all names below it, if the denial is secure (RFC 8020).
        nxdomain_cut: bool = true;
    }
}

keys! {
    /// Names that dns64d answers without an upstream server.
    "[local]" Local {
        /// Answer `ipv4only.arpa`, by which clients find the prefixes (RFC 7050, RFC 8880).
        ipv4only: bool = true;
        /// The TTL of those answers.
        ipv4only_ttl_s: Number<u32, 1, WEEK_S> = 3600;
        /// Answer `localhost`, `invalid`, `onion` (RFC 6761, RFC 7686) and `resolver.arpa` (RFC 9462).
        special_names: bool = true;
        /// Answer private names: `local` (RFC 6762), `home.arpa` (RFC 8375), `service.arpa` (RFC 9665) and
        /// the reverse zones of addresses that are not global (RFC 6303, RFC 7793). Names below a domain of
        /// a `[[forward]]` are asked of its servers all the same.
        private_zones: bool = true;
        /// Answer ANY over UDP with one HINFO record (RFC 8482); otherwise forward it.
        minimal_any: bool = true;
    }
}
