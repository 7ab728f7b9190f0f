//! The self-test of RFC 8219 9.2.1: the Measurer asks the AuthDNS directly, which answers every AAAA itself.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use engine::pacer::Model;
use engine::record::{Outcome, SelfTest, Trial};
use engine::workload::{Choice, Variation, WorkloadSpec};

use super::progress::{Doing, Progress, trial_line};
use super::tester::{Auth, MeasureError, Target, Tester};
use crate::authority::{Authority, AuthorityConfig, Zone, ZoneConfig};

/// 2 * (1 + delta) with delta = 0.1: the Tester must be that much faster than the rate it is used at.
pub const SELFTEST_FACTOR: f64 = 2.2;
/// Replies must come within this share of the timeout.
const TIMEOUT_SHARE: u64 = 4;
/// Length of the trials that look for the rate, in ns.
const EXPLORING_NS: u64 = 500_000_000;
/// After a failure the next rate is this much lower: small steps near the rate wanted, larger ones below its half.
const STEPS: [f64; 2] = [0.9, 0.7];
/// Below this rate, in q/s, a Tester is of no use.
const LOWEST_QPS: u64 = 1000;
/// Attempts at one rate: a pause of the machine is no property of the Tester.
const ATTEMPTS: u32 = 3;

/// The AuthDNS of the self-test: every name of the target has a AAAA record, the one that the target expects.
///
/// # Errors
/// An address is in use, or the suffix is no zone's name: one line.
pub fn direct_auth(target: &Target, listen: &[SocketAddr], hosted: bool) -> Result<Auth, String> {
    let config = ZoneConfig {
        suffix: target.workload.suffix.to_string(),
        aaaa_share_percent: 100,
        aaaa_prefix: target.workload.prefix,
        ..ZoneConfig::default()
    };
    let zone = Zone::new(config).map_err(|error| error.to_string())?;
    let config = AuthorityConfig { listen: listen.to_vec(), tcp: None, ..AuthorityConfig::default() };
    let authority = Authority::start(Arc::new(zone), &config).map_err(|error| error.to_string())?;
    Ok(Auth { authority, hosted })
}

/// Certifies the Tester for the upper of `rates_qps`, or for the highest rate down to the lower one that it is fit
/// for. A rate is looked at with a short trial first; the deciding trial lasts `trial_ns`.
///
/// # Errors
/// Those of a trial.
pub fn certify(
    tester: &mut Tester,
    target: &Target,
    auth: Option<&Auth>,
    rates_qps: RangeInclusive<u64>,
    trial_ns: u64,
    progress: &Progress,
) -> Result<SelfTest, MeasureError> {
    let timeout_ns = target.timeout_ns / TIMEOUT_SHARE;
    // This AuthDNS answers every name alike; only at the server's some have a AAAA record of their own.
    // An AuthDNS has no cache to be warmed, and every query must have a name that it knows.
    let variation = Variation { choice: Choice::Each, ..target.workload.variation.clone() };
    let workload = WorkloadSpec { native: None, variation, ..target.workload.clone() };
    let target =
        Target { timeout_ns, listen_ns: timeout_ns, workload, load: Model::Constant, ..target.clone() };
    let mut selftest = SelfTest { timeout_s: timeout_ns as f64 / 1e9, ..SelfTest::default() };
    let lowest_qps = (*rates_qps.start()).max(LOWEST_QPS.min(*rates_qps.end()));
    let mut r = *rates_qps.end();
    selftest.required_qps = required_qps(r);
    let mut attempt = |tester: &mut Tester, rate_qps: u64, length_ns: u64| -> Result<Trial, MeasureError> {
        let doing = Doing {
            phase: "self-test".into(),
            rate_qps,
            length: Duration::from_nanos(length_ns + timeout_ns),
            ..Doing::default()
        };
        // The names go to the AuthDNS alone, so they stay fresh for the server.
        let next_name = tester.next_name;
        let tried = progress.during(&doing, || tester.trial(&target, auth, rate_qps, length_ns));
        tester.next_name = next_name;
        let trial = tried?.trial;
        progress.say(&trial_line("self-test", &trial));
        selftest.trials.push(trial.clone());
        Ok(trial)
    };
    while r >= lowest_qps && !tester.stopped() {
        let rate_qps = required_qps(r);
        selftest.required_qps = rate_qps;
        let mut certified = false;
        for _ in 0..ATTEMPTS {
            let explored = attempt(tester, rate_qps, EXPLORING_NS.min(trial_ns))?.outcome == Outcome::Pass;
            certified = explored && attempt(tester, rate_qps, trial_ns)?.outcome == Outcome::Pass;
            if certified || tester.stopped() {
                break;
            }
        }
        if certified {
            selftest.certified_qps = r;
            selftest.passed = true;
            break;
        }
        r = lower(r, *rates_qps.end());
    }
    Ok(selftest)
}

/// The rate to look at when `r` has failed.
fn lower(r: u64, wanted_qps: u64) -> u64 {
    let step = STEPS[usize::from(r <= wanted_qps / 2)];
    (r as f64 * step) as u64
}

/// The rate at which the self-test for `r` runs, in q/s.
fn required_qps(r: u64) -> u64 {
    (r as f64 * SELFTEST_FACTOR).ceil() as u64
}
