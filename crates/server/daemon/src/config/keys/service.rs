//! Keys of clients, limits, AF_XDP, TLS, control, metrics, log, dnstap and the process.

use toml::Spanned;

use super::{Choice, Key, NEEDED, Number, Table, Takes, Text, Texts, keys, words};
use crate::config::{Format, Level, Sandbox};

words!(Level {
    "error" => Self::Error,
    "warning" => Self::Warning,
    "info" => Self::Info,
    "debug" => Self::Debug,
});
words!(Format { "text" => Self::Text, "json" => Self::Json });

keys! {
    /// EDNS options in answers to clients.
    "[clients]" Clients {
        /// Give server cookies to clients that send theirs (RFC 7873, RFC 9018).
        cookies: bool = true;
        /// Give the reason of failures, stale answers and synthesized addresses (Extended DNS Errors, RFC
        /// 8914).
        extended_errors: bool = true;
    }
}

keys! {
    /// Limits of the resources that clients can use.
    "[limits]" Limits {
        /// Lookups in flight for each thread, and as many queries that wait for lookups. Above the limit, the
        /// network of clients with the most of them gives up its oldest.
        in_flight: Number<usize, 1, 65_535> = 16_384;
        /// How many of them may be for names with the same last two labels, and half as many for names with
        /// the same last three; four and five labels below `arpa`. Above, the network with the most lookups
        /// there gives up one for a network with fewer, or the new query is SERVFAIL.
        in_flight_per_zone: Option<Number<usize, 1, 65_535>> => {
            otherwise: "half of `in_flight`", example: "4096"
        };
        /// The largest UDP answer, and the size announced to clients (RFC 9715).
        udp_payload_octets: Number<u16, 512, 4096> = 1232;
        /// Connections of clients over TCP, and as many again over TLS, HTTPS, QUIC and HTTP/3 together; 0
        /// means none at all. When a limit is reached, a new connection ends the one that has been idle for
        /// the longest time, of the client that holds the most.
        connections: Number<usize, 0, 65_535> = 1024;
        /// Connections of one network of clients (/24 of IPv4, /56 of IPv6) over TCP, and as many again over
        /// TLS, HTTPS, QUIC and HTTP/3 together.
        connections_per_network: Number<usize, 1, 65_535> = 512;
        /// Connections of one address of IPv4 or one /64 of IPv6 over TCP, and as many again over TLS, HTTPS,
        /// QUIC and HTTP/3 together.
        connections_per_address: Number<usize, 1, 65_535> = 128;
        /// Handshakes of TLS and QUIC that one network of clients may begin in a second. A burst may have
        /// twice as many.
        handshakes_per_second: Number<u32, 1, 1_000_000> = 100;
        /// Queries of one connection in progress.
        pipelined: Number<usize, 1, 1024> = 64;
        /// A connection without a query for this time is closed. When more than half of `connections` are in
        /// use, the time shrinks, down to a tenth when all are in use.
        idle_ms: Number<u64, 100, 3_600_000> = 10_000;
        /// Queries of one network of clients (/24 of IPv4, /56 of IPv6) over UDP, and as many again from
        /// proven addresses: over TCP, TLS, HTTPS, QUIC and HTTP/3, and over UDP with a server cookie. Above
        /// the limit, the latter are not answered.
        queries_per_second: Option<Number<u32, 1, 10_000_000>> => { otherwise: "no limit", example: "1000" };
        /// Queries that such a network may send at once.
        burst: Option<Spanned<Number<u32, 1, 20_000_000>>> => {
            otherwise: "twice `queries_per_second`", example: "2000"
        };
        /// Every n-th query above the limit over UDP is answered with TC, so that clients with true addresses
        /// can use TCP. 0 drops all of them.
        slip: Option<Spanned<Number<u32, 0, 1000>>> => { otherwise: "2", example: "2" };
    }
}

keys! {
    /// UDP without the kernel's network stack (AF_XDP). AF_XDP needs capabilities at the start, and the
    /// firewall rules of the host do not see these datagrams.
    "[xdp]" Xdp {
        /// The network devices whose UDP datagrams bypass the stack. Each must carry Ethernet and no other
        /// XDP program.
        devices: Texts = &[] => { what: "devices", example: r#"["eth0"]"#, at_start: true };
        /// Use AF_XDP for upstream servers over UDP, too, while the route to them leads over one of the
        /// devices.
        upstreams: bool = true;
        /// Let the XDP program on the device repeat an answer from the cache, until a TTL in the answer would
        /// be less by a second.
        repeat: bool = true;
    }
}

keys! {
    /// The certificate of the listeners tls://, https://, quic:// and h3://. A reload reads the files again.
    "[tls]" Tls {
        /// A PEM file of the certificate, followed by the intermediate authorities.
        certificate: Option<Text> => {
            what: "a path", otherwise: "none", example: r#""/etc/dns64d/certificate.pem""#
        };
        /// A PEM file of its private key.
        key: Option<Text> => { what: "a path", otherwise: "none", example: r#""/etc/dns64d/key.pem""# };
        /// The path of DNS over HTTPS (RFC 8484).
        https_path: Text = "/dns-query" => { what: "a path of a URI" };
    }
}

keys! {
    /// The socket for `dns64d control`.
    "[control]" Control {
        /// The Unix socket. Everybody who may write to the socket may give commands.
        socket: Option<Text> => {
            what: "a path", otherwise: "none", example: r#""/run/dns64d/control""#, at_start: true
        };
    }
}

keys! {
    /// Metrics for Prometheus, by HTTP at /metrics.
    "[metrics]" Metrics {
        /// ADDRESS:PORT. Everybody who can reach the address can read the metrics.
        listen: Option<Text> => {
            what: "an address", otherwise: "none", example: r#""127.0.0.1:9153""#, at_start: true
        };
    }
}

keys! {
    /// What is written to stderr.
    "[log]" Log {
        /// Messages below this level are left out.
        level: Choice<Level> = Level::Info;
        /// Lines of `key=value`, or of JSON.
        format: Choice<Format> = Format::Text => { at_start: true };
        /// Log every query. Use this to search for a fault, not permanently.
        queries: bool = false;
    }
}

keys! {
    /// Messages as dnstap, over a Frame Streams socket. Messages that the receiver does not take in time are
    /// lost and counted.
    "[dnstap]" Dnstap {
        /// The Unix socket of the receiver.
        socket: Option<Text> => {
            what: "a path", otherwise: NEEDED, example: r#""/run/dnstap.sock""#, at_start: true
        };
        /// Record the queries of clients, and the answers to them.
        clients: bool = true => { at_start: true };
        /// Record the queries to upstream servers, and their answers.
        upstreams: bool = false => { at_start: true };
        /// The name of this server in the records.
        identity: Text = "dns64d" => { what: "a name", at_start: true };
    }
}

keys! {
    /// Privileges that the process gives up after the start.
    "[process]" Process {
        /// The user to which the process changes.
        user: Option<Text> => { what: "a name", otherwise: "as it was started", example: r#""dns64d""#, at_start: true };
        /// Give up access to files, programs, signals and system calls that are not needed (landlock,
        /// seccomp), if the kernel supports it. With `"required"` the process also gives up TCP ports other
        /// than those of the configuration, and does not start if it cannot give up all of this (before Linux
        /// 6.12).
        sandbox: Sandbox = Sandbox::On => { at_start: true };
    }
}
