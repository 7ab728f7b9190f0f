//! `sextant selftest`: RFC 8219 9.2.1.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use measurer::transport::Backend;
use record::SelfTest;

use super::EXIT_UNFIT;
use super::certificates::{self, CertificateArgs};
use super::site::{LoopbackSetup, SiteArgs};
use crate::failure::{Failure, print, print_json};
use crate::options::{QueryArgs, TesterArgs, TransportArgs, rate, seconds};
use campaign::certificate::{Certificate, Conditions};
use campaign::{Auth, Certification, MeasureError, Progress, Target, Tester, reach};
use record::number::count as grouped;

/// Options of `sextant selftest`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sextant selftest --rate 1000000
      as root: through a lab of its own, Measurer and AuthDNS in the kernel; otherwise over the loopback device.
      May rates up to 1,000,000 q/s be measured here? The certificate is kept for later benches
  sextant selftest --list
      the certificates that are kept; --show shows the newest with its evidence
  sextant selftest --rate 50000 --server '[2001:2::2]:53'
      an AuthDNS elsewhere, started there with: sextant auth --aaaa-share 100 --aaaa-prefix 2001:db8:64::/96
  sextant selftest --rate 5000 --transport dot --connections 100
      by connections over TLS, for searches that ask so")]
pub struct SelftestArgs {
    /// The rate to be measured later, in q/s; the self-test runs at 2.2 times that
    #[arg(long, value_name = "N", value_parser = rate, required_unless_present_any = ["list", "show"])]
    rate: Option<u64>,
    /// The AuthDNS, which must answer every AAAA itself [default: one in this process]
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["path", "auth_io", "auth_threads", "auth_cpus"])]
    server: Option<SocketAddr>,
    /// Length of the deciding trial in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    duration: Duration,
    /// Where 2.2 times the rate fails, look for the highest rate that passes
    #[arg(long)]
    lower: bool,
    /// Show the certificates that are kept
    #[arg(long, conflicts_with = "rate")]
    list: bool,
    /// Show a certificate: the name of its file [without: the newest]
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "newest", conflicts_with_all = ["rate", "list"])]
    show: Option<String>,
    #[command(flatten)]
    certificates: CertificateArgs,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    tester: TesterArgs,
    #[command(flatten)]
    site: SiteArgs,
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the self-test, or shows what others have certified; exit code 0 if the rate asked for is certified, 3
/// if not.
///
/// # Errors
/// The AuthDNS cannot be started or reached, the trial cannot be run, or the certificate cannot be kept.
pub fn run(args: &SelftestArgs) -> Result<ExitCode, Failure> {
    match (&args.show, args.rate) {
        (Some(name), _) => certificates::show(&args.certificates, name, args.json)?,
        (None, Some(rate_qps)) => return certify(args, rate_qps),
        (None, None) => certificates::list(&args.certificates, args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn certify(args: &SelftestArgs, rate_qps: u64) -> Result<ExitCode, Failure> {
    args.query.workload.check_selftest()?;
    let mut tester = args.tester.tester(args.query.first_name())?;
    let progress = Progress::new(args.json, &tester.watch);
    let mut target = args.query.target(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)), 0);
    args.query.workload.apply(&args.query, &mut target, u64::MAX)?;
    target.streams = args.transport.resolve(args.server.unwrap_or(target.server), &args.tester)?;
    if args.server.is_none() {
        args.transport.check_own_server()?;
    }
    let test = match args.server {
        Some(server) => Test::elsewhere(Target { server, ..target }, &tester)?,
        None => Test::here(args, &mut tester, &target)?,
    };
    tester.alone = test.auth().is_some();
    let conditions = test.conditions(args, &tester);
    let lowest = if args.lower { 0 } else { rate_qps };
    let certification = Certification {
        target: &test.target,
        auth: test.auth(),
        rates_qps: lowest..=rate_qps,
        trial_ns: args.duration.as_nanos() as u64,
        progress: &progress,
    };
    let selftest = certification.run(&mut tester, |_| Ok::<(), MeasureError>(()));
    progress.clear();
    let selftest = selftest?;
    if tester.stopped() {
        return Err(Failure::new(EXIT_UNFIT, "interrupted; nothing is certified"));
    }
    let kept = Certificate::of(&selftest, conditions).map(|certificate| keep(args, &certificate)).transpose();
    show(args, &selftest, &test, kept.as_ref().ok().and_then(Option::as_deref))?;
    kept?;
    let passed = selftest.passed && selftest.certified_qps >= rate_qps;
    Ok(ExitCode::from(if passed { 0 } else { EXIT_UNFIT }))
}

/// Keeps the certificate; returns its file.
fn keep(args: &SelftestArgs, certificate: &Certificate) -> Result<PathBuf, Failure> {
    args.certificates.store()?.keep(certificate).map_err(|error| Failure::new(EXIT_UNFIT, error))
}

struct Test {
    target: Target,
    backend: Backend,
    stage: Option<LoopbackSetup>,
}

impl Test {
    fn elsewhere(target: Target, tester: &Tester) -> Result<Self, Failure> {
        reach(&target, tester)?;
        Ok(Self { target, backend: tester.backend, stage: None })
    }

    fn here(args: &SelftestArgs, tester: &mut Tester, target: &Target) -> Result<Self, Failure> {
        let stage = args.site.stage(&args.tester, tester, target)?;
        Ok(Self { target: stage.looped.target.clone(), backend: tester.backend, stage: Some(stage) })
    }

    /// The path and the back-ends, and why they are no faster ones.
    fn in_words(&self) -> String {
        let Some(LoopbackSetup { looped, site, notes }) = &self.stage else { return String::new() };
        if let Some(streams) = &self.target.streams {
            let number = grouped(streams.connections as u64);
            return format!("over {site}, by {number} connections over {}\n", streams.protocol);
        }
        let (measurer, auth) = (self.backend.name(), looped.auth.authority.io_in_words());
        let notes = notes.iter().map(|note| format!("  not used: {note}\n"));
        format!("over {site}, Measurer by {measurer}, AuthDNS by {auth}\n{}", notes.collect::<String>())
    }

    fn conditions(&self, args: &SelftestArgs, tester: &Tester) -> Conditions {
        let auth = self.auth().map(|auth| (auth, args.site.auth_threads()));
        Conditions::now(
            self.stage.as_ref().map(|stage| &stage.site),
            tester,
            &self.target,
            auth,
            &args.query.settings(tester),
        )
    }

    fn auth(&self) -> Option<&Auth> {
        self.stage.as_ref().map(|stage| &stage.looped.auth)
    }
}

fn show(args: &SelftestArgs, selftest: &SelfTest, test: &Test, kept: Option<&Path>) -> Result<(), Failure> {
    if args.json {
        return print_json(selftest);
    }
    let (required, limit) = (grouped(selftest.required_qps), selftest.timeout_s);
    let way = test.in_words();
    let tried: String = report::attempt_lines(selftest).iter().map(|line| format!("  {line}\n")).collect();
    let outcome = report::certified(selftest);
    if selftest.passed {
        let certified = grouped(selftest.certified_qps);
        let pacing = match &selftest.pacing {
            how if how.is_empty() => String::new(),
            how => format!("the schedule in this trial: {how}\n"),
        };
        let kept = kept.map_or_else(String::new, |path| format!("certificate: {}\n", path.display()));
        return print(&format!(
            "passed: every answer came within {limit} s at {required} q/s\n\
             this Tester may measure rates up to {certified} q/s on this path (RFC 8219 9.2.1)\n\
             {outcome}\n{tried}{pacing}{way}{kept}"
        ));
    }
    let last = selftest.trials.last().map_or(String::new(), report::trial_text);
    print(&format!(
        "failed: at {required} q/s not every answer came within {limit} s\n{outcome}\n{tried}{last}{way}\
         use a lower --rate, more --threads, or --lower to look for the highest rate that passes\n"
    ))
}
