//! Options of the transport: `--transport` and what connections are asked for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use engine::queries_each::QueriesEach;
use measurer::transport::stream::{Https, Method, Pin, Protocol, StreamConfig, Tls, TlsOptions, Trust};

use super::{Io, TesterArgs, seconds};
use crate::EXIT_USAGE;
use crate::failure::Failure;

/// How queries are carried.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Transport")]
pub(crate) struct TransportArgs {
    /// How queries are carried (see docs/transports.md)
    #[arg(long, value_enum, default_value_t)]
    transport: TransportArg,
    /// Connections at a time, of all threads together, an equal share for each, at least one [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: Option<u32>,
    /// Queries of each connection, after which a new one takes its place: a number, 0: without end, or
    /// lognormal:MEDIAN,SIGMA: drawn for each connection [default: 0]
    #[arg(long, value_name = "N")]
    queries_per_connection: Option<QueriesEach>,
    /// A connection has one query at a time; by default the next one does not wait for an answer
    #[arg(long)]
    one_at_a_time: bool,
    /// Close connections that had no query for so long; the next query opens a new one [default: they stay]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    connection_idle: Option<Duration>,
    /// Check the server's certificate against the authorities of this file (PEM) [default: it is not checked]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Accept only this public key: its SHA-256 digest in base64 (as kdig's +tls-pin)
    #[arg(long, value_name = "BASE64", conflicts_with = "tls_ca")]
    tls_pin: Option<Pin>,
    /// Name of the server in TLS [default: its address]
    #[arg(long, value_name = "NAME")]
    tls_name: Option<String>,
    /// A client's next connection resumes the TLS session of its last one
    #[arg(long)]
    tls_resumption: bool,
    /// Path that is asked for by HTTPS [default: /dns-query]
    #[arg(long, value_name = "PATH")]
    doh_path: Option<String>,
    /// How a query is put into a request of HTTPS [default: post]
    #[arg(long, value_enum, value_name = "METHOD")]
    doh_method: Option<MethodArg>,
}

/// `--transport`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum TransportArg {
    /// Datagrams (RFC 1035).
    #[default]
    Udp,
    /// TCP (RFC 7766).
    Tcp,
    /// DNS over TLS (RFC 7858).
    Dot,
    /// DNS over HTTPS (RFC 8484), by HTTP/2.
    Doh,
    /// DNS over QUIC (RFC 9250).
    Doq,
    /// DNS over HTTPS (RFC 8484), by HTTP/3.
    Doh3,
}

/// `--doh-method`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MethodArg {
    /// In the path, with the ID 0.
    Get,
    /// In the body.
    Post,
}

/// Connections where nothing is said.
const CONNECTIONS: u32 = 16;
/// The path where none is said, that of the examples of RFC 8484.
const DOH_PATH: &str = "/dns-query";

impl TransportArgs {
    /// The connections to ask `server` by; `None` for UDP.
    ///
    /// # Errors
    /// Options that do not go together, authorities or a name that cannot be used.
    pub fn resolve(&self, server: SocketAddr, tester: &TesterArgs) -> Result<Option<StreamConfig>, Failure> {
        let protocol = match self.transport {
            TransportArg::Udp => return self.check_udp().map(|()| None),
            TransportArg::Tcp => Protocol::Tcp,
            TransportArg::Dot => Protocol::Dot,
            TransportArg::Doh => Protocol::Doh,
            TransportArg::Doq => Protocol::Doq,
            TransportArg::Doh3 => Protocol::Doh3,
        };
        check_io(protocol, tester)?;
        let tls = if protocol.has_tls() { Some(self.tls(protocol, server)?) } else { self.check_no_tls()? };
        let https = self.https(protocol, (server, tls.as_ref()))?;
        let threads = usize::from(tester.threads).max(tester.cpus.len()).max(1);
        let connections = self.connections.unwrap_or(CONNECTIONS) as usize;
        Ok(Some(StreamConfig {
            protocol,
            // Every thread has as many.
            connections: (connections / threads).max(1) * threads,
            queries_each: self.queries_per_connection.unwrap_or_default(),
            pipelined: !self.one_at_a_time,
            idle_ns: self.connection_idle.map(|idle| u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX)),
            tls,
            https,
        }))
    }

    fn https(
        &self,
        protocol: Protocol,
        (server, tls): (SocketAddr, Option<&Tls>),
    ) -> Result<Option<Https>, Failure> {
        let wrong = |message: String| Failure::new(EXIT_USAGE, message);
        let Some(tls) = tls.filter(|_| protocol.has_https()) else {
            return self.https_option().map_or(Ok(None), |option| {
                Err(wrong(format!("{option} is for --transport doh or doh3; {protocol} has no HTTPS")))
            });
        };
        let method = match self.doh_method {
            Some(MethodArg::Get) => Method::Get,
            Some(MethodArg::Post) | None => Method::Post,
        };
        let path = self.doh_path.as_deref().unwrap_or(DOH_PATH);
        let https = Https::new(method, path, &tls.server_name(), server.port());
        https.map(Some).map_err(|error| wrong(format!("--doh-path: {error}")))
    }

    /// Refuses options about the certificate of a server that is started here.
    ///
    /// # Errors
    /// One is given.
    pub fn check_own_server(&self) -> Result<(), Failure> {
        let given = [
            (self.tls_ca.is_some(), "--tls-ca"),
            (self.tls_pin.is_some(), "--tls-pin"),
            (self.tls_name.is_some(), "--tls-name"),
        ];
        given.into_iter().find(|(given, _)| *given).map_or(Ok(()), |(_, option)| {
            let message = format!(
                "{option} is for --server; a server that is started here gets its certificate at its start"
            );
            Err(Failure::new(EXIT_USAGE, message))
        })
    }

    /// The same connections to a server that is started here, whose certificate nobody checks.
    ///
    /// # Errors
    /// Those of [`Self::resolve`].
    pub fn of_own_server(
        &self,
        server: SocketAddr,
        tester: &TesterArgs,
    ) -> Result<Option<StreamConfig>, Failure> {
        let own = Self { tls_ca: None, tls_pin: None, tls_name: None, ..self.clone() };
        own.resolve(server, tester)
    }

    /// The option that says how many connections there are, if it was given.
    pub fn number_of_connections(&self) -> Option<&'static str> {
        self.connections.map(|_| "--connections")
    }

    /// Whether the connections can stand, as many as a search chooses.
    ///
    /// # Errors
    /// There are none, their number was given, or they are to end.
    pub fn check_standing(&self) -> Result<(), Failure> {
        let (refused, why) = match () {
            () if self.transport == TransportArg::Udp => ("", "say --transport tcp, dot, doh, doq or doh3"),
            () if self.connections.is_some() => {
                ("--connections: ", "the search chooses their number; say --max-connections")
            }
            () if self.queries_per_connection.is_some_and(|each| each.median > 0) => {
                ("--queries-per-connection: ", "the connections are to stay; leave it out")
            }
            () if self.connection_idle.is_some() => {
                ("--connection-idle: ", "the connections are to stay; leave it out")
            }
            () => return Ok(()),
        };
        Err(Failure::new(EXIT_USAGE, format!("--search-for connections: {refused}{why}")))
    }

    fn tls(&self, protocol: Protocol, server: SocketAddr) -> Result<Tls, Failure> {
        let trust = match (&self.tls_ca, self.tls_pin) {
            (Some(file), _) => Trust::Authorities(file.clone()),
            (None, Some(pin)) => Trust::Pinned(pin),
            (None, None) => Trust::Anyone,
        };
        let options = TlsOptions { trust, name: self.tls_name.clone(), resumption: self.tls_resumption };
        Tls::new(protocol, &options, server.ip()).map_err(|error| Failure::new(EXIT_USAGE, error))
    }

    fn check_no_tls(&self) -> Result<Option<Tls>, Failure> {
        self.tls_option().map_or(Ok(None), |option| {
            let message = format!("{option} is for --transport dot, doh, doq or doh3; tcp has no TLS");
            Err(Failure::new(EXIT_USAGE, message))
        })
    }

    fn check_udp(&self) -> Result<(), Failure> {
        let given = [
            (self.connections.is_some(), "--connections"),
            (self.queries_per_connection.is_some(), "--queries-per-connection"),
            (self.one_at_a_time, "--one-at-a-time"),
            (self.connection_idle.is_some(), "--connection-idle"),
        ];
        let option = given.into_iter().find(|(given, _)| *given).map(|(_, option)| option);
        option.or(self.tls_option()).or(self.https_option()).map_or(Ok(()), |option| {
            let message = format!("{option} is for connections; say --transport tcp, dot, doh, doq or doh3");
            Err(Failure::new(EXIT_USAGE, message))
        })
    }

    /// The first option that needs HTTPS.
    fn https_option(&self) -> Option<&'static str> {
        let given = [(self.doh_path.is_some(), "--doh-path"), (self.doh_method.is_some(), "--doh-method")];
        given.into_iter().find(|(given, _)| *given).map(|(_, option)| option)
    }

    /// The first option that needs TLS.
    fn tls_option(&self) -> Option<&'static str> {
        let given = [
            (self.tls_ca.is_some(), "--tls-ca"),
            (self.tls_pin.is_some(), "--tls-pin"),
            (self.tls_name.is_some(), "--tls-name"),
            (self.tls_resumption, "--tls-resumption"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, option)| option)
    }
}

/// Whether options of datagrams were given.
fn check_io(protocol: Protocol, tester: &TesterArgs) -> Result<(), Failure> {
    let io = &tester.io;
    let refused = match () {
        () if !matches!(io.io, Io::Auto | Io::Udp) => "--io is for UDP; leave it out",
        () if io.ports.is_some() => "--ports is for UDP; say --connections",
        () if io.source_ports.is_some() => "connections take free ports; leave out --source-ports",
        () if io.receive_buffer.is_some() => "--receive-buffer is for UDP; leave it out",
        () => return Ok(()),
    };
    Err(Failure::new(EXIT_USAGE, format!("--transport {protocol}: {refused}")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        transport: TransportArgs,
        #[command(flatten)]
        tester: TesterArgs,
    }

    fn resolved(options: &str) -> Result<Option<StreamConfig>, String> {
        let words = std::iter::once("it").chain(options.split_ascii_whitespace());
        let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
        let server = "192.0.2.1:853".parse().unwrap();
        command.transport.resolve(server, &command.tester).map_err(|failure| failure.to_string())
    }

    #[test]
    fn connections_are_shared_by_the_threads() {
        assert!(resolved("").unwrap().is_none());
        let streams =
            resolved("--transport tcp --connections 10 --threads 3 --one-at-a-time").unwrap().unwrap();
        assert_eq!((streams.connections, streams.queries_each.median, streams.pipelined), (9, 0, false));
        let streams = resolved("--transport dot --queries-per-connection 10").unwrap().unwrap();
        assert_eq!((streams.connections, streams.queries_each.median, streams.pipelined), (16, 10, true));
        assert_eq!(streams.tls.unwrap().certificate(), "not checked");
        let streams = resolved("--transport doh --tls-name dns.test --doh-method get").unwrap().unwrap();
        assert_eq!(streams.https.unwrap().to_string(), "GET https://dns.test:853/dns-query");
        let streams = resolved("--transport doq --connection-idle 2").unwrap().unwrap();
        assert_eq!((streams.protocol, streams.idle_ns), (Protocol::Doq, Some(2_000_000_000)));
        assert!(streams.tls.is_some());
    }

    #[test]
    fn options_that_do_not_go_together_are_named() {
        for (options, reason) in [
            (
                "--connections 3",
                "--connections is for connections; say --transport tcp, dot, doh, doq or doh3",
            ),
            ("--tls-resumption", "--tls-resumption is for connections"),
            ("--transport tcp --tls-name x", "--tls-name is for --transport dot"),
            ("--transport tcp --io xdp", "--transport tcp: --io is for UDP"),
            ("--transport tcp --ports 3", "say --connections"),
            ("--transport dot --source-ports 1-9", "leave out --source-ports"),
            ("--transport dot --tls-ca /nowhere", "/nowhere: "),
            ("--transport dot --tls-pin abc", "no SHA-256 digest"),
            ("--doh-path /x", "--doh-path is for connections"),
            (
                "--transport dot --doh-method get",
                "--doh-method is for --transport doh or doh3; dot has no HTTPS",
            ),
            ("--transport doh --doh-path x", "'x' is no path of DNS over HTTPS"),
            ("--transport doh3 --doh-path x", "'x' is no path of DNS over HTTPS"),
            ("--transport doh2", "invalid value 'doh2'"),
            (
                "--transport tcp --queries-per-connection lognormal:20",
                "write a number, or lognormal:MEDIAN,SIGMA",
            ),
        ] {
            let message = resolved(options).unwrap_err();
            assert!(message.contains(reason), "'{reason}' is missing in: {message}");
        }
    }
}
