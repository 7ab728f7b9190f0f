//! Options that several commands share.

mod input;
mod io;
mod load;
mod transport;
mod tsig;
mod workload;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, ValueEnum};
use dns64::wire::Name;
use dns64::{NameSpace, Prefix};
use engine::pacer::Model;
use engine::trial::Validity;
use engine::verdict::Limits;
use engine::workload::{PLACES, Variation, WorkloadSpec};
use record::Settings;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;
use crate::{EXIT_UNFIT, EXIT_USAGE};
use authdns::ZoneConfig;
use campaign::{Target, Tester};
use input::InputArgs;
pub(crate) use io::{Io, IoArgs};
use lab::observe::{allowed_cpus, listeners};
pub(crate) use transport::TransportArgs;
pub(crate) use workload::WorkloadArgs;

/// What to ask, and what to expect.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Queries")]
pub(crate) struct QueryArgs {
    /// Names of the queries, as the range of IPv4 addresses that the names encode
    #[arg(long, value_name = "CIDR", default_value = "10.0.0.0/8")]
    pub names: NameSpace,
    /// Index of the first name; by default it depends on the time, so that no cache holds names of an earlier
    /// run
    #[arg(long, value_name = "INDEX")]
    pub first_name: Option<u64>,
    /// Zone of the names
    #[arg(long, value_name = "NAME", default_value = "dns64perf.test", value_parser = domain_name)]
    pub suffix: Name,
    /// DNS64 prefix of the server; synthesized answers must have it
    #[arg(long, value_name = "PREFIX", default_value = "2001:db8:64::/96")]
    pub prefix: Prefix,
    /// Percentage of the names that have a AAAA record of their own
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub aaaa_share: u8,
    /// Prefix of those AAAA records
    #[arg(long, value_name = "PREFIX", default_value_t = ZoneConfig::default().aaaa_prefix, requires = "aaaa_share")]
    pub aaaa_prefix: Prefix,
    /// Payload size of the OPT record in every query, in octets; by default queries have no OPT record, like
    /// those of dns64perf++
    #[arg(long, value_name = "OCTETS")]
    pub edns: Option<u16>,
    /// Which answers are valid
    #[arg(long, value_enum, default_value_t)]
    pub validity: ValidityArg,
    /// Seconds after which an answer is late
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub timeout: Duration,
    /// Other queries and loads.
    #[command(flatten)]
    pub workload: WorkloadArgs,
}

/// `--validity`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ValidityArg {
    /// The AAAA record expected for the name.
    #[default]
    Strict,
    /// dns64perf++'s rule: a NOERROR response with any answer record.
    Compat,
    /// Any response to the question, for reflectors and servers without DNS64.
    Response,
}

impl QueryArgs {
    /// The timeout in ns.
    pub fn timeout_ns(&self) -> u64 {
        u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Which answers count: of queries whose answers nobody knows any response does.
    fn counted(&self) -> Validity {
        match self.validity {
            ValidityArg::Strict if self.workload.expects_any_response() => Validity::Response,
            ValidityArg::Strict => Validity::Strict,
            ValidityArg::Compat => Validity::Compat,
            ValidityArg::Response => Validity::Response,
        }
    }

    /// The target these options describe.
    pub fn target(&self, server: SocketAddr, listen_ns: u64) -> Target {
        let timeout_ns = self.timeout_ns();
        Target {
            server,
            streams: None,
            connections_stand: false,
            workload: WorkloadSpec {
                names: self.names,
                first_name: 0,
                suffix: self.suffix,
                prefix: self.prefix,
                native: (self.aaaa_share > 0).then_some((self.aaaa_share, self.aaaa_prefix)),
                edns_octets: self.edns,
                variation: Variation::default(),
            },
            load: Model::Constant,
            timeout_ns,
            listen_ns: listen_ns.max(timeout_ns),
            limits: Limits::for_timeout(timeout_ns),
            validity: self.counted(),
            pids: Vec::new(),
            log: false,
            replay: None,
        }
    }

    /// The index of the first name.
    pub fn first_name(&self) -> u64 {
        let by_time = (sys::clock::realtime_ns() / 1000).wrapping_mul(0x9e37_79b9);
        self.first_name.unwrap_or(by_time) & (self.places() - 1)
    }

    /// How many indexes there are: those of the range, where its names are asked in turn.
    pub fn places(&self) -> u64 {
        if self.workload.asks_in_turn() { self.names.size() } else { PLACES }
    }

    /// The part of the record's settings that these options fix.
    pub fn settings(&self, tester: &Tester) -> Settings {
        let settings = Settings {
            timeout_s: self.timeout.as_secs_f64(),
            names: self.names.to_string(),
            first_name: tester.next_name,
            suffix: self.suffix.to_string().trim_end_matches('.').to_owned(),
            prefix: self.prefix.to_string(),
            validity: self.counted().into(),
            aaaa_share_pct: self.aaaa_share,
            threads: tester.cpus.len(),
            source_ports: tester.source_ports,
            io: tester.backend.name().into(),
            tester_cpus: tester.cpus.clone(),
            ..Settings::default()
        };
        self.workload.settings(settings)
    }
}

/// How to ask.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Tester")]
pub(crate) struct TesterArgs {
    /// Threads of the Measurer, each on a processor of its own as long as there are enough; --io kernel needs
    /// a processor for each, --io xdp a receive queue
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Processors of these threads, at least one thread on each [default: the last ones that may be used]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cpus: Vec<usize>,
    #[command(flatten)]
    pub io: IoArgs,
}

impl TesterArgs {
    /// The Tester, with its stop wired to Ctrl-C.
    ///
    /// # Errors
    /// A processor that may not be used, or signals that cannot be caught.
    pub fn tester(&self, first_name: u64) -> Result<Tester, Failure> {
        sys::process::raise_file_limit();
        let last_first: Vec<usize> = sys::cpu::available().into_iter().rev().collect();
        let cpus = processors(self.threads, &self.cpus, &last_first)?;
        let ways = self.io.resolve(cpus.len())?;
        Ok(Tester {
            cpus,
            backend: ways.backend,
            source_ports: ways.sockets,
            sources: ways.sources,
            receive_buffer_octets: ways.receive_buffer_octets,
            next_name: first_name,
            alone: false,
            stop: stop_on_signals()?,
            watch: Arc::default(),
            namespace: None,
        })
    }
}

impl TesterArgs {
    /// Finds the processes of a server that somebody else started on this machine, unless `pid` tells one,
    /// and keeps the Tester's threads off the processors that the server is bound to. What was found, in a
    /// line for the user.
    pub fn meet(&self, pid: Option<u32>, target: &mut Target, tester: &mut Tester) -> Option<String> {
        target.pids = pid.map_or_else(|| listeners(target.server), |pid| vec![pid]);
        let servers = allowed_cpus(&target.pids);
        let free: Vec<usize> =
            sys::cpu::available().into_iter().filter(|cpu| !servers.contains(cpu)).collect();
        if self.cpus.is_empty() && !free.is_empty() && !servers.is_empty() {
            let last_first: Vec<usize> = free.into_iter().rev().collect();
            tester.cpus = placed(self.threads, &[], &last_first);
        }
        let shared: Vec<usize> = tester.cpus.iter().copied().filter(|cpu| servers.contains(cpu)).collect();
        tester.alone = !servers.is_empty() && shared.is_empty();
        let found = target.pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match (pid, target.pids.as_slice(), shared.first()) {
            (_, [], _) => None,
            (Some(_), _, None) => None,
            (_, _, None) => Some(format!("process {found}, found by its socket")),
            (_, _, Some(cpu)) => Some(format!(
                "process {found} may run on the Tester's processor {cpu}, and both disturb each other: bind the server to other processors ('taskset -a -p -c LIST PID')"
            )),
        }
    }
}

/// The processor of each thread, by `--threads` and `--cpus`: those chosen in turn, and at least one thread
/// on each; where none is chosen, those of `usual` in turn.
///
/// # Errors
/// A processor that may not be used.
pub fn processors(threads: u16, chosen: &[usize], usual: &[usize]) -> Result<Vec<usize>, Failure> {
    check_usable("--cpus", chosen)?;
    Ok(placed(threads, chosen, usual))
}

/// Whether this process may use all processors of an option.
///
/// # Errors
/// One that it may not use.
pub fn check_usable(option: &str, chosen: &[usize]) -> Result<(), Failure> {
    let usable = sys::cpu::available();
    let other = chosen.iter().find(|cpu| !usable.contains(cpu));
    other.map_or(Ok(()), |cpu| {
        let message = format!("{option}: processor {cpu} may not be used; usable are {usable:?}");
        Err(Failure::new(EXIT_USAGE, message))
    })
}

/// The same without a look at what may be used.
fn placed(threads: u16, chosen: &[usize], usual: &[usize]) -> Vec<usize> {
    let threads = usize::from(threads).max(chosen.len());
    let used = if chosen.is_empty() { usual } else { chosen };
    used.iter().cycle().take(threads).copied().collect()
}

/// Set when the user ends the program; a second signal ends it at once.
///
/// # Errors
/// The signals cannot be caught.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::new(EXIT_UNFIT, format!("cannot catch signals: {error}")))?;
    }
    Ok(stop)
}

/// Reads a positive number of seconds, with or without a fraction.
pub fn seconds(text: &str) -> Result<Duration, String> {
    const LONGEST_S: f64 = 86_400.0;
    let seconds = text.parse::<f64>().map_err(|_| "must be a number of seconds".to_owned())?;
    if !(0.001..=LONGEST_S).contains(&seconds) {
        return Err("must be from 0.001 to 86400 seconds".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Reads the number of a process of this machine.
pub fn process(text: &str) -> Result<u32, String> {
    let pid: u32 = text.parse().map_err(|_| "must be the number of a process".to_owned())?;
    let there = Path::new("/proc").join(pid.to_string()).is_dir();
    if there { Ok(pid) } else { Err("there is no such process on this machine".to_owned()) }
}

/// Reads a rate in q/s.
pub fn rate(text: &str) -> Result<u64, String> {
    const HIGHEST_QPS: u64 = 100_000_000;
    let rate: u64 = text
        .replace('_', "")
        .parse()
        .map_err(|_| "must be a whole number of queries per second".to_owned())?;
    if !(1..=HIGHEST_QPS).contains(&rate) {
        return Err("must be from 1 to 100000000 queries per second".into());
    }
    Ok(rate)
}

/// Reads a domain name.
pub fn domain_name(text: &str) -> Result<Name, String> {
    Name::from_text(text).map_err(|error| error.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_say_the_range() {
        assert_eq!(rate("100_000"), Ok(100_000));
        assert!(rate("0").unwrap_err().contains("from 1"));
        assert!(rate("fast").unwrap_err().contains("whole number"));
        assert!(seconds("0").unwrap_err().contains("from 0.001"));
        assert!(seconds("NaN").unwrap_err().contains("from 0.001"));
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
    }
}
