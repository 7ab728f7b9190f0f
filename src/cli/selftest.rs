//! `sextant selftest`: RFC 8219 9.2.1.

use std::net::{Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use engine::record::SelfTest;

use super::EXIT_UNFIT;
use super::common::{Failure, QueryArgs, TesterArgs, print, print_json, rate, seconds};
use crate::campaign::{Certification, MeasureError, Progress, direct_auth, reach};
use crate::report::number::count as grouped;

/// Options of `sextant selftest`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  sextant selftest --rate 50000
      the Measurer and an AuthDNS in this process: may rates up to 50,000 q/s be measured here?
  sextant selftest --rate 50000 --server '[2001:2::2]:53'
      an AuthDNS elsewhere, started there with: sextant auth --aaaa-share 100 --aaaa-prefix 2001:db8:64::/96")]
pub struct SelftestArgs {
    /// The rate to be measured later, in q/s; the self-test runs at 2.2 times that
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: u64,
    /// The AuthDNS, which must answer every AAAA itself [default: one in this process]
    #[arg(long, value_name = "ADDR:PORT")]
    server: Option<SocketAddr>,
    /// Length of the deciding trial in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    duration: Duration,
    /// Where 2.2 times the rate fails, look for the highest rate that passes
    #[arg(long)]
    lower: bool,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    tester: TesterArgs,
    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the self-test; exit code 0 if the rate asked for is certified, 3 if not.
///
/// # Errors
/// The AuthDNS cannot be started or reached, or the trial cannot be run.
pub fn run(args: &SelftestArgs) -> Result<ExitCode, Failure> {
    args.query.workload.check_selftest()?;
    let mut tester = args.tester.tester(args.query.first_name())?;
    let auth = match args.server {
        Some(_) => None,
        None => {
            let listen = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
            Some(
                direct_auth(&args.query.target(listen, 0), &[listen], true)
                    .map_err(|e| Failure::new(EXIT_UNFIT, e))?,
            )
        }
    };
    tester.alone = auth.is_some();
    let own = auth.as_ref().map(|auth| auth.authority.local_addrs()[0]);
    let server = args.server.or(own).ok_or_else(|| Failure::new(EXIT_UNFIT, "the AuthDNS has no address"))?;
    let mut target = args.query.target(server, 0);
    args.query.workload.apply(&args.query, &mut target)?;
    reach(&target, &tester)?;
    let progress = Progress::new(args.json, &tester.watch);
    let lowest = if args.lower { 0 } else { args.rate };
    let duration_ns = args.duration.as_nanos() as u64;
    let certification = Certification {
        target: &target,
        auth: auth.as_ref(),
        rates_qps: lowest..=args.rate,
        trial_ns: duration_ns,
        progress: &progress,
    };
    let selftest = certification.run(&mut tester, |_| Ok::<(), MeasureError>(()));
    progress.clear();
    let selftest = selftest?;
    show(args, &selftest)?;
    let passed = selftest.passed && selftest.certified_qps >= args.rate;
    Ok(ExitCode::from(if passed { 0 } else { EXIT_UNFIT }))
}

fn show(args: &SelftestArgs, selftest: &SelfTest) -> Result<(), Failure> {
    if args.json {
        return print_json(selftest);
    }
    let (required, limit) = (grouped(selftest.required_qps), selftest.timeout_s);
    if selftest.passed {
        let certified = grouped(selftest.certified_qps);
        return print(&format!(
            "passed: every answer came within {limit} s at {required} q/s\n\
             this Tester may measure rates up to {certified} q/s on this path (RFC 8219 9.2.1)\n"
        ));
    }
    let last = selftest.trials.last().map_or(String::new(), crate::report::trial_text);
    print(&format!(
        "failed: at {required} q/s not every answer came within {limit} s\n{last}\
         use a lower --rate, more --threads, or --lower to look for the highest rate that passes\n"
    ))
}
