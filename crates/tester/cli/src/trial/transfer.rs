//! `sextant trial --transfer`: transfers of a zone instead of queries.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use clap::Args;
use dns64::wire::Name;

use super::{TrialArgs, cannot_write};
use crate::failure::{Failure, print, print_json};
use crate::options::{domain_name, stop_on_signals};
use crate::{EXIT_FAILED, EXIT_UNFIT, EXIT_USAGE};
use campaign::Store;
use engine::pacer::Schedule;
use engine::transfer::Ask;
use lab::environment::Manifest;
use measurer::transfer::{TransferPlan, at_rate, check_rate, transfer};
use measurer::transport::stream::Protocol;
use record::{Transfer, TransferEnd, Transfers, random};
use sys::clock;

/// The most transfers: each one is in the record.
const TRANSFERS_MAX: u32 = 100_000;

/// Which zone, and how often.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Zone transfers")]
pub(crate) struct TransferArgs {
    /// Time transfers of this zone (AXFR, RFC 5936) instead of queries, over TCP or --transport dot;
    /// --timeout bounds the connection and the wait for each message; with --rate, N transfers begin in each
    /// second, and --timeout bounds each one as a whole
    #[arg(
        long = "transfer",
        value_name = "ZONE",
        value_parser = domain_name,
        requires = "server",
        conflicts_with_all = OF_QUERIES
    )]
    pub zone: Option<Name>,
    /// Ask for the changes of the zone since this serial (IXFR, RFC 1995)
    #[arg(long, value_name = "SERIAL")]
    since: Option<u32>,
    /// Number of transfers, one after another, all of them within --duration [default: 1]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(TRANSFERS_MAX)),
        conflicts_with = "rate"
    )]
    transfers: Option<u32>,
}

/// Options of a trial that mean nothing for a transfer; a test finds what is missing.
const OF_QUERIES: [&str; 68] = [
    "pid",
    "attack",
    "peer",
    "looped",
    "dut_cpus",
    "ttl",
    "path",
    "auth_io",
    "auth_threads",
    "auth_cpus",
    "names",
    "first_name",
    "suffix",
    "prefix",
    "aaaa_share",
    "aaaa_prefix",
    "edns",
    "validity",
    "cached_share",
    "hot_names",
    "qtype",
    "qclass",
    "zipf",
    "repeat",
    "random_labels",
    "templates",
    "agent",
    "client_activity",
    "seed",
    "load",
    "dnssec_ok",
    "cd",
    "ad",
    "nsid",
    "padding",
    "ecs",
    "cookie",
    "edns_options",
    "input",
    "input_format",
    "speed",
    "clients",
    "shuffle",
    "strict_input",
    "connections",
    "queries_per_connection",
    "one_at_a_time",
    "connection_idle",
    "tls_resumption",
    "doh_path",
    "doh_method",
    "threads",
    "cpus",
    "io",
    "allow_unsegmented",
    "ports",
    "source_ports",
    "source",
    "receive_buffer",
    "compat_csv",
    "queries",
    "dns_metrics",
    "hlog",
    "series",
    "interval",
    "openmetrics",
    "openmetrics_file",
    "seconds",
];

impl TransferArgs {
    /// Refuses options of transfers without a zone. clap would not: an option that conflicts with what is
    /// given is never missing.
    ///
    /// # Errors
    /// Such an option is given, and no zone.
    pub fn check(&self) -> Result<(), Failure> {
        let given = [(self.transfers.is_some(), "--transfers"), (self.since.is_some(), "--since")];
        let wrong = given.iter().find(|(is_given, _)| *is_given && self.zone.is_none());
        let Some((_, option)) = wrong else { return Ok(()) };
        Err(Failure::new(EXIT_USAGE, format!("{option} is for --transfer ZONE")))
    }

    /// Refuses to be a part of a campaign, which compares rates.
    ///
    /// # Errors
    /// A zone is given.
    pub fn check_campaign(&self) -> Result<(), Failure> {
        let message = "--transfer: a campaign has no transfers; run 'sextant trial --transfer' by itself";
        self.zone.map_or(Ok(()), |_| Err(Failure::new(EXIT_USAGE, message)))
    }
}

/// Transfers the zone and prints the times; the exit code says whether all transfers were complete (0), or
/// not (1).
///
/// # Errors
/// Options that do not go together, a rate that cannot be, a directory that cannot be written.
pub(super) fn run(args: &TrialArgs, zone: Name) -> Result<ExitCode, Failure> {
    let (plan, mut told) = plan(args, zone)?;
    let duration_ns = u64::try_from(args.duration.as_nanos()).unwrap_or(u64::MAX);
    let rate = args.rate.map(|rate| schedule(&plan, rate, duration_ns)).transpose()?;
    let stop = stop_on_signals()?;
    let store = args.out.as_deref().map(|out| Store::create(out, Some(out), "trial", SystemTime::now()));
    let store = store.transpose().map_err(cannot_write)?;
    if let Some(mut schedule) = rate {
        told.wanted = schedule.queries as u32;
        schedule.start_ns = clock::monotonic_ns();
        told.transfers = at_rate(&plan, &schedule, schedule.start_ns, &stop);
    } else {
        told.transfers = one_after_another(&plan, told.wanted, duration_ns, &stop);
    }
    let told = told.summed_up();
    if let Some(store) = store {
        store
            .save_json("transfers.json", &told)
            .and_then(|()| store.save_json("manifest.json", &Manifest::take()))
            .map_err(cannot_write)?;
    }
    if args.json {
        print_json(&told)?;
    } else {
        print(&report::transfer_text(&told))?;
    }
    Ok(ExitCode::from(match () {
        () if told.is_complete() => 0,
        () if told.failures.contains_key(&TransferEnd::Interrupted) || stop.load(Ordering::Relaxed) => {
            EXIT_UNFIT
        }
        () => EXIT_FAILED,
    }))
}

/// What to transfer, and what the result says of it.
fn plan(args: &TrialArgs, zone: Name) -> Result<(TransferPlan, Transfers), Failure> {
    let Some(server) = args.server else {
        return Err(Failure::new(EXIT_USAGE, "--transfer needs a --server"));
    };
    let (since, key) = (args.transfer.since, args.query.workload.tsig.clone());
    let mut told = Transfers {
        started_utc: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        server: server.to_string(),
        zone: without_dot(&zone.to_string()).to_owned(),
        protocol: Protocol::Tcp.to_string(),
        since,
        tsig: key.as_ref().map(ToString::to_string).unwrap_or_default(),
        rate: args.rate,
        timeout_s: args.query.timeout.as_secs_f64(),
        duration_s: args.duration.as_secs_f64(),
        wanted: args.transfer.transfers.unwrap_or(1),
        ..Transfers::default()
    };
    let mut plan = TransferPlan::new(server, Ask { zone, since, key }, args.query.timeout_ns());
    if let Some(streams) = args.transport.resolve(server, &args.tester)? {
        if !matches!(streams.protocol, Protocol::Tcp | Protocol::Dot) {
            let message = format!("--transport {}: transfers go over tcp or dot", streams.protocol);
            return Err(Failure::new(EXIT_USAGE, message));
        }
        told.protocol = streams.protocol.to_string();
        told.certificate = streams.tls.as_ref().map(|tls| tls.certificate().to_owned()).unwrap_or_default();
        plan.tls = streams.tls;
    }
    Ok((plan, told))
}

/// The instants of transfers at a rate.
///
/// # Errors
/// There are too many of them, in all or at a time.
fn schedule(plan: &TransferPlan, rate: u64, duration_ns: u64) -> Result<Schedule, Failure> {
    let schedule = Schedule::new(0, rate, duration_ns);
    if !(1..=TRANSFERS_MAX.into()).contains(&schedule.queries) {
        let message = format!(
            "--rate {rate} and --duration make {} transfers: 1 to {TRANSFERS_MAX} can be made",
            schedule.queries
        );
        return Err(Failure::new(EXIT_USAGE, message));
    }
    check_rate(plan, &schedule).map_err(|error| Failure::new(EXIT_USAGE, error))?;
    Ok(schedule)
}

/// A name without the dot at its end; the root has only that.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').filter(|name| !name.is_empty()).unwrap_or(name)
}

/// One transfer after another, until the time is over or the user ends it.
fn one_after_another(plan: &TransferPlan, wanted: u32, duration_ns: u64, stop: &AtomicBool) -> Vec<Transfer> {
    let began_ns = clock::monotonic_ns();
    let until_ns = began_ns.saturating_add(duration_ns);
    let mut made = Vec::new();
    for number in 0..wanted {
        let now_ns = clock::monotonic_ns();
        if now_ns >= until_ns || stop.load(Ordering::Relaxed) {
            break;
        }
        let id = random::at(began_ns, 0, number.into()) as u16;
        let one = transfer(plan, id, now_ns..until_ns, stop);
        made.push(Transfer { instant_ns: now_ns - began_ns, ..one });
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a transfer takes from the options of a trial.
    const OF_TRANSFERS: [&str; 14] = [
        "server",
        "duration",
        "out",
        "json",
        "rate",
        "zone",
        "since",
        "transfers",
        "tsig",
        "timeout",
        "transport",
        "tls_ca",
        "tls_pin",
        "tls_name",
    ];

    #[test]
    fn every_other_option_of_a_trial_is_refused() {
        let trial = TrialArgs::augment_args(clap::Command::new("trial"));
        for option in trial.get_arguments().map(|option| option.get_id().as_str()) {
            assert!(OF_QUERIES.contains(&option) != OF_TRANSFERS.contains(&option), "{option}");
        }
    }

    #[test]
    fn the_root_keeps_its_dot() {
        assert_eq!((without_dot("."), without_dot("a.test.")), (".", "a.test"));
    }
}
