//! Keys of what surrounds the server.

use toml::Spanned;

use super::{Choice, Key, NEEDED, Number, Table, Takes, Text, Texts, keys, words};
use crate::config::{Format, Level};

words!(Level {
    "error" => Self::Error,
    "warning" => Self::Warning,
    "info" => Self::Info,
    "debug" => Self::Debug,
});
words!(Format { "text" => Self::Text, "json" => Self::Json });

keys! {
    /// What clients are told beside the answer.
    "[clients]" Clients {
        /// Give server cookies to clients that send theirs (RFC 7873, RFC 9018).
        cookies: bool = true;
        /// Say in an EDNS option why an answer is what it is (RFC 8914).
        extended_errors: bool = true;
    }
}

keys! {
    /// Bounds on what clients can make the server do.
    "[limits]" Limits {
        /// Lookups in flight for each thread, and so many queries that wait for them; above, the oldest goes.
        in_flight: Number<usize, 1, 65_535> = 16_384;
        /// The largest UDP answer, and the size announced to clients (RFC 9715).
        udp_payload_octets: Number<u16, 512, 4096> = 1232;
        /// Connections of clients over TCP, and as many again over TLS, HTTPS and QUIC together; 0 means none
        /// at all. When a limit is reached, a new connection ends the one that has been idle for the longest
        /// time, of the client that holds the most.
        connections: Number<usize, 0, 65_535> = 1024;
        /// The same for one network of clients, /24 of IPv4 or /56 of IPv6.
        connections_per_network: Number<usize, 1, 65_535> = 512;
        /// The same for one address of IPv4 or one /64 of IPv6.
        connections_per_address: Number<usize, 1, 65_535> = 128;
        /// Handshakes of TLS and QUIC that one network of clients may begin in a second; twice as many at
        /// once.
        handshakes_per_second: Number<u32, 1, 1_000_000> = 100;
        /// Queries of one connection in progress.
        pipelined: Number<usize, 1, 1024> = 64;
        /// A connection without a query for so long is closed; earlier when more than half of `connections`
        /// are taken, after a tenth of this time when all are.
        idle_ms: Number<u64, 100, 3_600_000> = 10_000;
        /// Queries of one network of clients (/24 of IPv4, /56 of IPv6) over UDP, and as many again over TCP,
        /// TLS, HTTPS and QUIC together. Above the limit, the latter are not answered.
        queries_per_second: Option<Number<u32, 1, 10_000_000>> => { otherwise: "no limit", example: "1000" };
        /// Queries that such a network may send at once.
        burst: Option<Spanned<Number<u32, 1, 20_000_000>>> => {
            otherwise: "twice `queries_per_second`", example: "2000"
        };
        /// Every n-th query above the limit over UDP is answered with TC, so that clients with true addresses
        /// come by TCP; 0 drops all.
        slip: Option<Spanned<Number<u32, 0, 1000>>> => { otherwise: "2", example: "2" };
    }
}

keys! {
    /// UDP past the kernel's stack (AF_XDP). It needs capabilities at the start, and the stack's firewall
    /// rules do not see these datagrams.
    "[xdp]" Xdp {
        /// The network devices whose datagrams go past the stack. Each must carry Ethernet and no other XDP
        /// program.
        devices: Texts = &[] => { what: "devices", example: r#"["eth0"]"#, at_start: true };
        /// Ask upstream servers of UDP that way, too, while the route to them leads over one of the devices.
        upstreams: bool = true;
        /// Have the program on the device repeat an answer of the cache, until a TTL in it would be less by a
        /// second.
        repeat: bool = true;
    }
}

keys! {
    /// What listeners of tls://, https:// and quic:// show. Files are read again at a reload.
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
    /// Orders from `dns64d control`.
    "[control]" Control {
        /// The Unix socket; who may write to it may give orders.
        socket: Option<Text> => {
            what: "a path", otherwise: "none", example: r#""/run/dns64d/control""#, at_start: true
        };
    }
}

keys! {
    /// Metrics for Prometheus, by HTTP at /metrics.
    "[metrics]" Metrics {
        /// ADDRESS:PORT; whoever reaches it may read.
        listen: Option<Text> => {
            what: "an address", otherwise: "none", example: r#""127.0.0.1:9153""#, at_start: true
        };
    }
}

keys! {
    /// What is written to stderr.
    "[log]" Log {
        /// What weighs less is left out.
        level: Choice<Level> = Level::Info;
        /// Lines of `key=value`, or of JSON.
        format: Choice<Format> = Format::Text => { at_start: true };
        /// Log every query: for a search of faults, not for good.
        queries: bool = false;
    }
}

keys! {
    /// Messages as dnstap, over a Frame Streams socket. What the receiver does not take in time is lost and
    /// counted.
    "[dnstap]" Dnstap {
        /// The Unix socket of the receiver.
        socket: Option<Text> => {
            what: "a path", otherwise: NEEDED, example: r#""/run/dnstap.sock""#, at_start: true
        };
        /// Record what clients ask and are answered.
        clients: bool = true => { at_start: true };
        /// Record what upstream servers are asked and answer.
        upstreams: bool = false => { at_start: true };
        /// The name of this server in the records.
        identity: Text = "dns64d" => { what: "a name", at_start: true };
    }
}

keys! {
    /// What the process gives up when its sockets are open.
    "[process]" Process {
        /// The user to become.
        user: Option<Text> => { what: "a name", otherwise: "as it was started", example: r#""dns64d""#, at_start: true };
        /// Give up files, programs and system calls that are not needed (landlock, seccomp), where the kernel
        /// can.
        sandbox: bool = true => { at_start: true };
    }
}
