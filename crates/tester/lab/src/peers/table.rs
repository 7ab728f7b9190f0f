//! The DNS64 servers that can be measured.
//!
//! The configurations are written from scratch for the bench: everything is forwarded to the AuthDNS, nothing
//! is validated, caches and buffers are sized for load. To add a server, add its row and its template.

use super::Transport::{Doh, Doh3, Doq, Dot, Tcp};
use super::server::{Server, Statistics, UNSET};

/// All peers, the embedded one first.
pub fn all() -> &'static [Server] {
    &PEERS
}

/// What Unbound is told of TLS, without the port.
macro_rules! unbound_tls {
    () => {
        concat!(
            "    interface: {address}@{stream_port}\n    incoming-num-tcp: {connections}\n",
            "    tls-service-pem: \"{certificate}\"\n    tls-service-key: \"{key}\"\n"
        )
    };
}

/// What Knot Resolver is told of a kind of listener with TLS.
macro_rules! kresd_listen {
    ($kind:literal) => {
        concat!(
            "net.listen('{address}', {stream_port}, { kind = '",
            $kind,
            "' })\nnet.tls('{certificate}', '{key}')\n"
        )
    };
}

/// What dns64d is told of connections: all come from one network, and may begin at once.
macro_rules! dns64d_limits {
    () => {
        concat!(
            "[limits]\nconnections = 65535\nconnections_per_network = 65535\n",
            "connections_per_address = 65535\nhandshakes_per_second = 1000000\n"
        )
    };
}

/// The same with a certificate.
const DNS64D_TLS: &str =
    concat!(dns64d_limits!(), "[tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n");

/// The forwarder that comes with the instrument, over sockets.
const DNS64D: Server = Server {
    name: "dns64d",
    program: "dns64d",
    version: (&["--version"], "dns64d "),
    files: &[("dns64d.toml", concat!(include_str!("../../templates/dns64d.toml"), "{streams}{xdp}"))],
    arguments: &["--config", "{configuration}"],
    streams: &[
        (Tcp, dns64d_limits!()),
        (Dot, DNS64D_TLS),
        (Doh, DNS64D_TLS),
        (Doq, DNS64D_TLS),
        (Doh3, DNS64D_TLS),
    ],
    statistics: Statistics::Program("dns64d", &["control", "--socket", "{directory}/control", "stats"]),
    ..UNSET
};

static PEERS: [Server; 11] = [
    DNS64D,
    // Past the kernel's stack, at all devices it is given.
    Server { name: "dns64d-xdp", xdp: Some("[xdp]\ndevices = {devices}\n"), ..DNS64D },
    // NLnet Labs: a recursive resolver whose dns64 module runs before its iterator. "Howto optimise" of its
    // documentation has a thread and slabs for each core, large buffers and caches. infra-keep-probing: the
    // only upstream must be tried again after an overload, not shunned for a quarter of an hour. Without
    // do-not-query-localhost and local-zone the AuthDNS on this machine is SERVFAIL and .test is NXDOMAIN.
    // There is no validator among its modules.
    Server {
        name: "unbound",
        package: Some("unbound"),
        program: "unbound",
        version: (&["-V"], "Version "),
        confined_to: Some("/var/lib/unbound"),
        files: &[("unbound.conf", include_str!("../../templates/unbound.conf"))],
        arguments: &["-d", "-c", "{configuration}"],
        // Its default takes 10 connections for each thread, and shares them out before any comes.
        streams: &[
            (Tcp, "    incoming-num-tcp: {connections}\n"),
            (Dot, concat!(unbound_tls!(), "    tls-port: {stream_port}\n")),
            (Doh, concat!(unbound_tls!(), "    https-port: {stream_port}\n")),
        ],
        // What unbound-control would write to the socket, which only its user can reach.
        statistics: Statistics::Socket { path: "control.sock", line: "UBCT1 stats_noreset\n", prompt: None },
        ..UNSET
    },
    // ISC: a recursive resolver with a dns64 option. It opens a socket for each upstream query, on a random
    // port that another query in flight may have: then one of the two loses its reply and is asked again
    // after 1.2 s. About 1 in 10,000 at 6,000 q/s; a smaller port range makes it more. That is later than RFC
    // 8219's timeout, and it is left as it is: the options against it are deprecated.
    // In the foreground by -f: with -g it would log to stderr, but ignore the logging statement and write a
    // line for each failed resolution.
    Server {
        name: "bind",
        files: &[("named.conf", include_str!("../../templates/named.conf"))],
        arguments: &["-f", "-L", "{log}", "-n", "{workers}", "-c", "{configuration}"],
        // Its default takes 150 connections.
        streams: &[(Tcp, "    tcp-clients {connections};\n")],
        ..BIND
    },
    // A recursive resolver with DNS64 of its own since 4.4, without a Lua script.
    Server {
        name: "pdns-recursor",
        package: Some("pdns-recursor"),
        program: "pdns_recursor",
        version: (&["--version"], "PowerDNS Recursor "),
        files: &[("recursor.conf", include_str!("../../templates/recursor.conf"))],
        arguments: &["--config-dir={directory}"],
        // Its default takes 128 connections.
        streams: &[(Tcp, "max-tcp-clients={connections}\n")],
        only_96: true,
        statistics: Statistics::Program("rec_control", &["--socket-dir={directory}", "get-all"]),
        ..UNSET
    },
    // CZ.NIC, version 5, configured by a Lua program. One process has one thread. Its documentation runs an
    // instance for each core, started by systemd; here it is one process, whatever processors it may use, and
    // tables for several cores say so. -n: without its read-eval-print loop on the standard input. The name
    // of its socket is the process's number.
    Server {
        name: "knot-resolver",
        package: Some("knot-resolver"),
        program: "kresd",
        version: (&["--version"], "Knot Resolver, version "),
        files: &[("kresd.conf", include_str!("../../templates/kresd.conf"))],
        arguments: &["-n", "-c", "{configuration}", "{directory}"],
        streams: &[(Tcp, ""), (Dot, kresd_listen!("tls")), (Doh, kresd_listen!("doh2"))],
        only_96: true,
        statistics: Statistics::Socket { path: "control", line: "worker.stats()\n", prompt: Some("> ") },
        ..UNSET
    },
    // A server of plugins in Go. Go's runtime takes as many processors as the process may use, so nothing is
    // said of threads.
    Server {
        name: "coredns",
        built_by: Some(
            "build it with Go: GOBIN=/usr/local/bin go install github.com/coredns/coredns@v1.15.0",
        ),
        program: "coredns",
        version: (&["-version"], "CoreDNS-"),
        files: &[("Corefile", include_str!("../../templates/Corefile"))],
        arguments: &["-quiet", "-conf", "{configuration}"],
        streams: &[(Tcp, "")],
        ..UNSET
    },
    // PowerDNS: a proxy for servers, which forwards and does not synthesize. It shows what each transport
    // costs without a resolver behind it. --supervised: without a console.
    Server {
        name: "dnsdist",
        package: Some("dnsdist"),
        program: "dnsdist",
        version: (&["--version"], "dnsdist "),
        files: &[("dnsdist.conf", include_str!("../../templates/dnsdist.conf"))],
        arguments: &["--supervised", "--disable-syslog", "-C", "{configuration}"],
        streams: &[
            (Tcp, ""),
            (Dot, "addTLSLocal('{stream_listen}', '{certificate}', '{key}')\n"),
            (Doh, "addDOHLocal('{stream_listen}', '{certificate}', '{key}', '/dns-query')\n"),
        ],
        only_forwards: true,
        ..UNSET
    },
    // The first DNS64 of them all (2001). -d keeps it in the foreground. It listens on every address of a
    // family. Its usage text names the version, if it names one.
    Server {
        name: "totd",
        built_by: Some("build it from github.com/fwdillema/totd and put it on the PATH"),
        program: "totd",
        version: (&["-h"], ""),
        files: &[("totd.conf", include_str!("../../templates/totd.conf"))],
        arguments: &["-d0", "{family}", "-q", "-c", "{configuration}"],
        only_96: true,
        ..UNSET
    },
    // Budapest University of Technology and Economics: forwarders with a thread for each query, or a pool of
    // 30 of them, of which each waits for one reply. Neither prints its version: both would start to serve.
    Server {
        name: "mtd64",
        built_by: Some("build it from github.com/Yoso89/MTD64 and put it on the PATH"),
        program: "mtd64",
        files: &[("settings.conf", include_str!("../../templates/mtd64.conf"))],
        by_hand: Some(
            "mtd64 answers at port 53 of all addresses and reads settings.conf where it is started, so it is yours to start: \
             write there what 'sextant peers config mtd64' prints, with an AuthDNS at port 53, and measure it with \
             'sextant bench --dut ADDR:PORT --auth-listen ADDR:53'",
        ),
        ..UNSET
    },
    // Its timeout-time of 1.0 is one second; 2.5 would be two seconds and 5 us.
    Server {
        name: "mtd64-ng",
        built_by: Some("build it from github.com/bakaid/mtd64-ng and put it on the PATH"),
        program: "mtd64-ng",
        files: &[("mtd64-ng.conf", include_str!("../../templates/mtd64-ng.conf"))],
        by_hand: Some(
            "mtd64-ng goes to the background and reads /etc/mtd64-ng.conf, so it is yours to start: \
             write there what 'sextant peers config mtd64-ng' prints, with an AuthDNS at port 53, and measure it with \
             'sextant bench --dut ADDR:PORT --auth-listen ADDR:53'",
        ),
        ..UNSET
    },
];

/// BIND as a program: a resolver in this table, a server of zones in the other one.
pub(super) const BIND: Server = Server {
    name: "bind",
    package: Some("bind9"),
    program: "named",
    version: (&["-V"], "BIND "),
    confined_to: Some("/var/cache/bind"),
    ..UNSET
};
