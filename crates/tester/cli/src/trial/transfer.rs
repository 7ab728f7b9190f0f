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
use lab::environment::Manifest;
use measurer::transfer::{TransferPlan, transfer};
use measurer::transport::stream::Protocol;
use record::{TransferEnd, Transfers, random};
use sys::clock;

/// Which zone, and how often.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Zone transfers")]
pub(crate) struct TransferArgs {
    /// Time transfers of this zone (AXFR, RFC 5936) instead of queries, over TCP or --transport dot;
    /// --timeout bounds the connection and the wait for each message
    #[arg(
        long = "transfer",
        value_name = "ZONE",
        value_parser = domain_name,
        requires = "server",
        conflicts_with_all = OF_QUERIES
    )]
    pub zone: Option<Name>,
    /// Number of transfers, one after another, all of them within --duration [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    transfers: Option<u32>,
}

/// Options of a trial that mean nothing for a transfer; a test finds what is missing.
const OF_QUERIES: [&str; 70] = [
    "pid",
    "rate",
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
    "tsig",
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
    /// Refuses a number of transfers of no zone. clap would not: an option that conflicts with what is given
    /// is never missing.
    ///
    /// # Errors
    /// A number is given, and no zone.
    pub fn check(&self) -> Result<(), Failure> {
        let is_wrong = self.transfers.is_some() && self.zone.is_none();
        let message = "--transfers is for --transfer ZONE";
        if is_wrong { Err(Failure::new(EXIT_USAGE, message)) } else { Ok(()) }
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
/// Options that do not go together, a directory that cannot be written, an end by the user.
pub(super) fn run(args: &TrialArgs, zone: Name) -> Result<ExitCode, Failure> {
    let (Some(server), duration) = (args.server, args.duration) else {
        return Err(Failure::new(EXIT_USAGE, "--transfer needs a --server"));
    };
    let mut plan = TransferPlan::new(server, zone, args.query.timeout_ns());
    let mut told = Transfers {
        started_utc: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        server: server.to_string(),
        zone: without_dot(&zone.to_string()).to_owned(),
        protocol: Protocol::Tcp.to_string(),
        timeout_s: args.query.timeout.as_secs_f64(),
        duration_s: duration.as_secs_f64(),
        wanted: args.transfer.transfers.unwrap_or(1),
        ..Transfers::default()
    };
    if let Some(streams) = args.transport.resolve(server, &args.tester)? {
        if !matches!(streams.protocol, Protocol::Tcp | Protocol::Dot) {
            let message = format!("--transport {}: transfers go over tcp or dot", streams.protocol);
            return Err(Failure::new(EXIT_USAGE, message));
        }
        told.protocol = streams.protocol.to_string();
        told.certificate = streams.tls.as_ref().map(|tls| tls.certificate().to_owned()).unwrap_or_default();
        plan.tls = streams.tls;
    }
    let stop = stop_on_signals()?;
    let store = args.out.as_deref().map(|out| Store::create(out, Some(out), "trial", SystemTime::now()));
    let store = store.transpose().map_err(cannot_write)?;
    let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    transfer_all(&plan, duration_ns, &stop, &mut told);
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

/// A name without the dot at its end; the root has only that.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').filter(|name| !name.is_empty()).unwrap_or(name)
}

/// One transfer after another, until the time is over or the user ends it.
fn transfer_all(plan: &TransferPlan, duration_ns: u64, stop: &AtomicBool, told: &mut Transfers) {
    let began_ns = clock::monotonic_ns();
    let until_ns = began_ns.saturating_add(duration_ns);
    for number in 0..told.wanted {
        if clock::monotonic_ns() >= until_ns || stop.load(Ordering::Relaxed) {
            return;
        }
        let id = random::at(began_ns, 0, number.into()) as u16;
        told.transfers.push(transfer(plan, id, until_ns, stop));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a transfer takes from the options of a trial.
    const OF_TRANSFERS: [&str; 11] = [
        "server",
        "duration",
        "out",
        "json",
        "zone",
        "transfers",
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
