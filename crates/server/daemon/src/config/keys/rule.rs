//! Keys of the top of the file, of the DNS64 rule and of views.

use std::collections::BTreeMap;

use dns64::reverse::Style;
use dns64::rule::{OnAaaaError, PrefixChoice};
use toml::Spanned;

use super::{
    Cache, Choice, Clients, Control, Dnstap, Forward, Key, Limits, Local, Log, Metrics, NEEDED, Number,
    Process, Table, Takes, Text, Texts, Tls, Upstream, Xdp, keys, words,
};

words!(OnAaaaError { "synthesize" => Self::Synthesize, "fail" => Self::Fail });
words!(Option<Style> { "cname" => Some(Style::Cname), "answer" => Some(Style::Answer), "off" => None });
words!(PrefixChoice { "all" => Self::All, "rotate" => Self::Rotated });

keys! {
    /// Only `upstreams` must be written.
    "" Top {
        /// The addresses at which dns64d listens. ADDRESS:PORT is UDP and TCP. `tls://`, `https://`,
        /// `quic://` and `h3://` before the address mean DNS over TLS, HTTPS (HTTP/2), QUIC and HTTP/3. A
        /// listener with an IPv6 address accepts IPv6 only. Without a port, the port is 53, 853, 443, 853 or
        /// 443, in this order. Port 0 takes a free port.
        listen: Texts = &["[::]:53", "0.0.0.0:53"] => { what: "listeners" };
        /// The resolvers that dns64d asks: ADDRESS over UDP (TCP where an answer is truncated),
        /// `tcp://ADDRESS`, `tls://ADDRESS#NAME`, `https://ADDRESS/PATH#NAME`, `quic://ADDRESS#NAME`. The
        /// certificate must be for NAME, by default the address. PATH is `/dns-query` by default.
        upstreams: Option<Texts> => {
            what: "servers", otherwise: NEEDED, example: r#"["192.0.2.1", "[2001:db8::53]:53"]"#
        };
        /// The NAT64's prefixes (RFC 6052); with several prefixes, `dns64.spread` selects those of an answer.
        prefixes: Texts = &["64:ff9b::/96"] => { what: "prefixes" };
        /// Who may ask; all others are REFUSED over UDP, a few each second, and may not connect. Global
        /// addresses of your own network must be named here.
        allow: Texts = &[
            "127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",
            "169.254.0.0/16", "fc00::/7", "fe80::/10",
        ] => { what: "ranges" };
        /// Threads, each with sockets, lookups in flight and upstream ports of its own; 0 means one for each
        /// processor.
        threads: Number<usize, 0, 1024> = 0 => { at_start: true };
        /// Threads that serve clients over TCP, TLS, HTTPS, QUIC and HTTP/3; 0 means one for each
        /// processor.
        stream_threads: Number<usize, 0, 64> = 0 => { at_start: true };
        /// The processors to which the threads are bound in turn. An empty list binds no thread.
        cpus: Vec<Number<usize, 0, 1023>> = [] => { at_start: true };
    }
    with {
        dns64: Rule,
        view: Vec<Spanned<View>>,
        forward: Vec<Spanned<Forward>>,
        upstream: Upstream,
        cache: Cache,
        local: Local,
        clients: Clients,
        limits: Limits,
        xdp: Xdp,
        tls: Tls,
        control: Control,
        metrics: Metrics,
        log: Log,
        dnstap: Option<Spanned<Dnstap>>,
        process: Process,
    }
}

keys! {
    /// The DNS64 rule (RFC 6147), for all clients. A view may override each key.
    "[dns64]" Rule {
        /// AAAA records in these ranges count as absent (RFC 6147 5.1.4).
        exclude: Option<Texts> => { what: "IPv6 ranges", value: r#"["::ffff:0:0/96"]"# };
        /// What dns64d does after a AAAA query has failed: synthesize from A (RFC 6147 5.1.2, 5.1.3), or
        /// fail, so that clients of dual-stack sites do not use the NAT64.
        on_aaaa_error: Option<Choice<OnAaaaError>> => { value: r#""synthesize""# };
        /// Synthesize for clients that set CD without DO, which say that they validate (RFC 6147 5.5).
        synthesize_with_cd: Option<bool> => { value: "false" };
        /// 64:ff9b::/96 carries global IPv4 addresses only (RFC 6052 3.1).
        strict_well_known: Option<bool> => { value: "true" };
        /// PTR questions for addresses under a prefix (RFC 6147 5.3.1): a CNAME to the in-addr.arpa name, an
        /// answer in its place, or off.
        ptr: Option<Choice<Option<Style>>> => { value: r#""cname""# };
        /// With several prefixes: "all" of them in every answer (RFC 6147 5.2), or one in each answer, in
        /// turn ("rotate").
        spread: Option<Choice<PrefixChoice>> => { value: r#""all""# };
        /// Nothing is synthesized for these domains and below them. A name in both `never` and `always`
        /// counts as in `never`.
        never: Option<Texts> => { what: "domains", value: "[]", example: r#"["native.example"]"# };
        /// For these domains and below them AAAA records count as absent, so that all clients go through the
        /// NAT64.
        always: Option<Texts> => { what: "domains", value: "[]", example: r#"["broken-ipv6.example"]"# };
        /// IPv4 ranges with a prefix of their own, or "none" for no synthesis; the longest match counts (RFC
        /// 6147 5.2).
        map: Option<BTreeMap<String, Text>> => {
            value: "{}", example: r#"{ "10.0.0.0/8" = "2001:db8:64::/96", "192.168.0.0/16" = "none" }"#
        };
    }
}

keys! {
    /// Settings for one network of clients. A client belongs to the first view that matches both its address
    /// and the listener. A client that no view matches has the settings outside the views, under the name
    /// `default`. A view may also have every key of `[dns64]`: for its clients, this value replaces the one
    /// of `[dns64]`.
    "[[view]]" View: Rule {
        /// The name of the view in statistics and logs.
        name: Option<Text> => { what: "a name", otherwise: NEEDED, example: r#""guests""# };
        /// The addresses of the clients.
        clients: Option<Texts> => { what: "ranges", otherwise: "everybody", example: r#"["fd00:1::/48"]"# };
        /// The listeners at which the clients ask, each written as in `listen`.
        listeners: Option<Texts> => { what: "listeners", otherwise: "all", example: r#"["[::]:53"]"# };
        /// Whether addresses are synthesized for these clients.
        dns64: bool = true;
        /// The NAT64's prefixes for these clients.
        prefixes: Option<Texts> => { what: "prefixes", otherwise: "as outside", example: r#"["2001:db8:64::/96"]"# };
    }
    with {
        // `flatten` would lose where its values stand.
        #[serde(skip)]
        rule: Rule,
    }
}
