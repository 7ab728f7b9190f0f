//! `sextant auth`: the AuthDNS as a server of its own.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use record::identifiers::Analysis;

use authdns::{
    Authority, AuthorityConfig, Counters, EncryptedCounters, IoRefusal, Observer, StartError, Traffic,
    Transport, Zone,
};

use crate::failure::Failure;

mod encrypted;
mod faults;
mod observe;
mod service;
mod signing;
mod zone;

pub use encrypted::EncryptedArgs;
pub use faults::FaultArgs;
pub use observe::ObserveArgs;
pub use service::ServiceArgs;
pub use zone::ZoneArgs;

/// Bad usage or configuration.
const EXIT_USAGE: u8 = 2;
/// The environment is not fit.
const EXIT_ENVIRONMENT: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  sextant auth
      all IPv4-only names of dns64perf.test on port 5300 of the loopback addresses; ask for example
      kdig @::1 -p 5300 010-000-000-007.dns64perf.test A
  sextant auth --listen '[2001:2::2]:53' --listen 198.18.0.2:53 --cpus 0,1,2,3
      the AuthDNS side of an RFC 8219 test, one thread on each of four processors
  sextant auth --listen '[2001:2::2]:53' --io kernel
      an XDP program answers the usual queries on the device that has the address, sockets the others
  sextant auth --aaaa-share 100 --aaaa-prefix 2001:db8:64::/96
      every name has a AAAA record: the loopback self-test of RFC 8219 9.2.1
  sextant auth --names 10.0.0.0/16 --ttl 0 --duration 60 --json
      65,536 names that nobody may cache, for a minute; then the counters as JSON
  sextant auth --rules all --addresses-per-name 4
      also short, reverse and wildcard names, TXT, MX and HTTPS records, chains of aliases; ask for example
      kdig @::1 -p 5300 10-0-0-7.c3.dns64perf.test A
  sextant auth --records www.zone
      also fixed records, for example lines such as: www 60 A 192.0.2.1
  sextant auth --dot 127.0.0.1:8853 --doh 127.0.0.1:8443 --doq 127.0.0.1:8853 --doh3 127.0.0.1:8443
      also over TLS, HTTPS, QUIC and HTTP/3, with a certificate made at the start, whose pin is
      printed; ask for example
      kdig @127.0.0.1 -p 8853 +tls 010-000-000-007.dns64perf.test A
  sextant auth --signed --trust-anchor dns64perf.key
      signed with Ed25519; the file tells a validating resolver whom to trust";

/// The AuthDNS of RFC 8219: answers nnn-nnn-nnn-nnn.SUFFIX, and the SOA and NS of SUFFIX, from a rule
#[derive(Args, Clone, Debug)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", faults::FAULTS_HELP))]
pub struct AuthArgs {
    /// How it answers.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// How it answers over encrypted transports.
    #[command(flatten)]
    pub encrypted: EncryptedArgs,
    /// Stop after so many seconds [default: at Ctrl-C or SIGTERM]
    #[arg(long, help_heading = "Run", value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// Print the counters as one JSON object
    #[arg(long, help_heading = "Run")]
    pub json: bool,
    /// What it tells of its clients.
    #[command(flatten)]
    pub observe: ObserveArgs,
    /// What it answers.
    #[command(flatten)]
    pub zone: ZoneArgs,
    /// What goes wrong with it.
    #[command(flatten)]
    pub faults: FaultArgs,
}

/// Reads a positive number of seconds, with or without a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "must be a number of seconds greater than 0".to_owned())
}

/// Serves until a signal or the end of the duration, then prints the counters to stdout. Errors go to stderr.
pub fn run(args: &AuthArgs) -> ExitCode {
    let zone = match Zone::new(args.zone.config(&args.service.listen)) {
        Ok(zone) => Arc::new(zone),
        Err(error) => return fail(EXIT_USAGE, &error),
    };
    let anchors = zone.trust_anchors();
    if let Err(error) = args.zone.signing.write_trust_anchors(&anchors) {
        return fail(EXIT_ENVIRONMENT, &error);
    }
    // Before the start, so that no signal is missed.
    let end = match EndSignal::register() {
        Ok(end) => end,
        Err(error) => return fail(EXIT_ENVIRONMENT, &format_args!("cannot wait for signals: {error}")),
    };
    let observer = args.observe.observer();
    let config = match config(args, observer.clone()) {
        Ok(config) => config,
        Err(error) => return fail(error.code, &error),
    };
    let authority = match Authority::start(zone, &config) {
        Ok(authority) => authority,
        Err(error @ StartError::Io(_, IoRefusal::Usage(_))) => return fail(EXIT_USAGE, &error),
        Err(error) => return fail(EXIT_ENVIRONMENT, &error),
    };
    // Without a stderr to write to there is nobody to tell.
    let _ = writeln!(io::stderr(), "{}", ready_line(args, &authority));
    if let Some(line) = config.encrypted.as_ref().and_then(encrypted::pin_line) {
        let _ = writeln!(io::stderr(), "{line}");
    }
    for anchor in anchors {
        let _ = writeln!(io::stderr(), "sextant auth: trust anchor: {} DS {}", anchor.zone, anchor.ds);
    }
    end.wait(args.duration);
    let counters = authority.stop();
    let observed = observer.map(|observer| observer.take().analyse(None));
    let report =
        if args.json { json(&counters, observed.as_ref()) } else { text(&counters, observed.as_ref()) };
    match io::stdout().write_all(report.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(EXIT_ENVIRONMENT, &format_args!("cannot print the counters: {error}")),
    }
}

/// What the options come to.
fn config(args: &AuthArgs, observer: Option<Arc<Observer>>) -> Result<AuthorityConfig, Failure> {
    let encrypted = args.encrypted.config(&args.zone.suffix)?;
    let service = args.service.config()?;
    Ok(AuthorityConfig { faults: args.faults.faults(), observer, encrypted, ..service })
}

fn fail(code: u8, error: &dyn std::fmt::Display) -> ExitCode {
    let _ = writeln!(io::stderr(), "sextant auth: {error}");
    code.into()
}

fn ready_line(args: &AuthArgs, authority: &Authority) -> String {
    let addresses: Vec<String> = authority.local_addrs().iter().map(ToString::to_string).collect();
    let encrypted = authority.encrypted_addrs().iter();
    let encrypted: String = encrypted.map(|(transport, at)| format!(", {at} ({transport})")).collect();
    let names = args.zone.names.map_or("all names".to_owned(), |names| format!("names {names}"));
    let faults = match args.faults.faults.len() {
        0 => String::new(),
        count => format!(", --fault {count} times with seed {}", args.faults.fault_seed),
    };
    format!(
        "sextant auth: ready: {names} of {}, {} % with AAAA, on {} (UDP, TCP){encrypted}, io {}{faults}",
        args.zone.suffix,
        args.zone.aaaa_share,
        addresses.join(", "),
        authority.io_in_words()
    )
}

/// The end of the run: SIGINT or SIGTERM.
struct EndSignal {
    signalled: UnixStream,
}

impl EndSignal {
    fn register() -> io::Result<Self> {
        let (signalled, sender) = UnixStream::pair()?;
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        Ok(Self { signalled })
    }

    /// Waits for a signal, at most so long.
    fn wait(mut self, limit: Option<Duration>) {
        // A signal that interrupts the wait has written to the other end: the next read finds it.
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) || self.signalled.set_read_timeout(left).is_err() {
                return;
            }
            match self.signalled.read(&mut [0]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => return,
            }
        }
    }
}

/// What the faults did, where they did anything.
fn faults(traffic: &Traffic) -> String {
    if traffic.faults.is_empty() {
        return String::new();
    }
    let kinds: Vec<String> = traffic.faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    format!("; faults: {}; delayed and never sent: {}", kinds.join(", "), traffic.undelivered)
}

/// The counters and, as `observed`, what their queries show.
fn json(counters: &Counters, observed: Option<&Analysis>) -> String {
    let mut object = serde_json::json!(counters);
    if let Some(observed) = observed {
        object["observed"] = serde_json::json!(observed);
    }
    format!("{object}\n")
}

/// The counts of one transport.
fn line(transport: Transport, traffic: &Traffic) -> String {
    let Traffic {
        queries_a, queries_aaaa, queries_other, malformed, answers, dropped, send_failures, ..
    } = traffic;
    format!(
        "{transport}: {} queries (A {queries_a}, AAAA {queries_aaaa}, other {queries_other}, malformed {malformed}), \
         {answers} answers, {dropped} dropped, {send_failures} not sent{}\n",
        traffic.queries(),
        faults(traffic),
    )
}

/// The counts of one encrypted transport, where it is served.
fn encrypted_lines(transport: Transport, counters: Option<&EncryptedCounters>) -> String {
    let Some(counters) = counters else { return String::new() };
    let EncryptedCounters {
        traffic,
        connections,
        handshake_failures,
        connections_refused,
        connections_evicted,
        too_slow,
    } = counters;
    format!(
        "{}{transport} connections: {connections}, failed handshakes: {handshake_failures}, refused: \
         {connections_refused}, closed for others: {connections_evicted}, too slow: {too_slow}\n",
        line(transport, traffic)
    )
}

fn text(counters: &Counters, observed: Option<&Analysis>) -> String {
    format!(
        "{}{}{}{}{}{}left to the sockets by XDP programs: {}, for want of room: {}\n\
         dropped by the kernel at our sockets: {}; receive failures: {}; TCP connections: {}, refused: {}\n{}",
        line(Transport::Udp, &counters.udp),
        line(Transport::Tcp, &counters.tcp),
        encrypted_lines(Transport::Dot, counters.dot.as_ref()),
        encrypted_lines(Transport::Doh, counters.doh.as_ref()),
        encrypted_lines(Transport::Doq, counters.doq.as_ref()),
        encrypted_lines(Transport::Doh3, counters.doh3.as_ref()),
        counters.kernel_passed,
        counters.kernel_no_room,
        counters.udp_socket_drops,
        counters.udp_receive_failures,
        counters.tcp_connections,
        counters.tcp_connections_refused,
        observed.map(observe::text).unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn parse(arguments: &[&str]) -> Result<AuthArgs, clap::Error> {
        let command = AuthArgs::augment_args(Command::new("auth"));
        AuthArgs::from_arg_matches(&command.try_get_matches_from([&["auth"], arguments].concat())?)
    }

    #[test]
    fn options_are_read_and_bad_ones_told_with_the_reason() {
        assert_eq!(parse(&["--duration", "0.5"]).unwrap().duration, Some(Duration::from_millis(500)));
        let error = |arguments: &[&str]| parse(arguments).unwrap_err().to_string();
        assert!(error(&["--duration", "0"]).contains("greater than 0"));
        assert!(error(&["--listen", "::1"]).contains("invalid socket address"));
    }
}
