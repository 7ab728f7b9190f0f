//! The self-test of RFC 8219 9.2.1: the Measurer asks the AuthDNS directly, which answers every AAAA itself.

use std::ops::RangeInclusive;
use std::time::Duration;

use engine::pacer::{Model, Schedule};
use engine::verdict::{Limits, fell_behind};
use engine::workload::{Choice, QueryClass, Variation, Workload, WorkloadSpec};
use record::limits::SELFTEST_RATE;
use record::number::count as grouped;
use record::{Attempt, AttemptPart, SelfTest, Sought, Trial};

use super::certificate::Stored;
use super::progress::{Progress, Status};
use super::target::{Auth, Target, selftest_timeout_ns};
use super::tester::{MeasureError, Tester};

/// Length of the trials that look for the rate, in ns.
const EXPLORING_NS: u64 = 500_000_000;
/// After a failure the next rate is this much lower: small steps near the rate wanted, larger ones below its
/// half.
const STEPS: [f64; 2] = [0.9, 0.7];
/// Below this rate, in q/s, a Tester is of no use.
const LOWEST_QPS: u64 = 1000;
/// Attempts at one rate: a pause of the machine is no property of the Tester.
const ATTEMPTS: u32 = 3;

/// The self-test: whom to ask, for which rates, how long.
pub struct Certification<'a> {
    /// The AuthDNS, with what the server under test will be asked.
    pub target: &'a Target,
    /// It, if it is ours.
    pub auth: Option<&'a Auth>,
    /// The highest rate wanted, and the lowest that is of use, in q/s.
    pub rates_qps: RangeInclusive<u64>,
    /// Length of the deciding trial in ns.
    pub trial_ns: u64,
    /// What the person sees.
    pub progress: &'a Progress,
}

impl Certification<'_> {
    /// Certifies the Tester for the upper of the rates, or for the highest one down to the lower that it is
    /// fit for. A rate is looked at with a short trial first. `keep` is given what there is after every
    /// trial.
    ///
    /// # Errors
    /// Those of a trial and of `keep`.
    pub fn run<E: From<MeasureError>>(
        &self,
        tester: &mut Tester,
        mut keep: impl FnMut(&SelfTest) -> Result<(), E>,
    ) -> Result<SelfTest, E> {
        let (wanted_qps, lowest_qps) = (*self.rates_qps.end(), *self.rates_qps.start());
        let lowest_qps = lowest_qps.max(LOWEST_QPS.min(wanted_qps));
        let target = self.looped(wanted_qps)?;
        let mut selftest = self.begin(&target, wanted_qps);
        let mut r = wanted_qps;
        while r >= lowest_qps && !tester.stopped() {
            selftest.required_qps = required_qps(r);
            let mut certified = false;
            for number in 1..=ATTEMPTS {
                let explored = self.trial_ns <= EXPLORING_NS
                    || self.attempt(tester, &target, (number, AttemptPart::Look), &mut selftest)?;
                keep(&selftest)?;
                if explored {
                    let deciding = (number, AttemptPart::Decide);
                    certified = self.attempt(tester, &target, deciding, &mut selftest)?;
                    keep(&selftest)?;
                }
                if certified || tester.stopped() {
                    break;
                }
            }
            if certified {
                (selftest.certified_qps, selftest.passed) = (r, true);
                break;
            }
            r = lower(r, wanted_qps);
        }
        keep(&selftest)?;
        Ok(selftest)
    }

    /// Confirms a certificate by short trials at the rate that the highest one wanted requires; not passed if
    /// none of them has every answer. `keep` likewise.
    ///
    /// # Errors
    /// Those of a trial and of `keep`.
    pub(crate) fn confirm<E: From<MeasureError>>(
        &self,
        tester: &mut Tester,
        certificate: &Stored,
        mut keep: impl FnMut(&SelfTest) -> Result<(), E>,
    ) -> Result<SelfTest, E> {
        let wanted_qps = *self.rates_qps.end();
        let target = self.looped(wanted_qps)?;
        let mut selftest = self.begin(&target, wanted_qps);
        for number in 1..=ATTEMPTS {
            let confirming = (number, AttemptPart::Confirm);
            let confirmed = self.attempt(tester, &target, confirming, &mut selftest)?;
            if confirmed {
                selftest.passed = true;
                selftest.certified_qps = certificate.certificate.certified_qps;
                selftest.certificate = Some(certificate.in_record());
            }
            keep(&selftest)?;
            if confirmed || tester.stopped() {
                break;
            }
        }
        Ok(selftest)
    }

    /// A trial without a record: whether every answer was valid and in time.
    ///
    /// # Errors
    /// Those of a trial.
    pub fn look(&self, tester: &mut Tester, rate_qps: u64) -> Result<bool, MeasureError> {
        let target = self.looped(rate_qps)?;
        let trial = self.trial(tester, &target, rate_qps, self.trial_ns)?;
        Ok(not_all_in_time(&trial, &target).is_none())
    }

    fn begin(&self, target: &Target, wanted_qps: u64) -> SelfTest {
        let names = target.workload.names;
        SelfTest {
            required_qps: required_qps(wanted_qps),
            timeout_s: target.timeout_ns as f64 / 1e9,
            names: if names == self.target.workload.names { String::new() } else { names.to_string() },
            ..SelfTest::default()
        }
    }

    /// The target of the self-test for a rate.
    fn looped(&self, wanted_qps: u64) -> Result<Target, MeasureError> {
        let timeout_ns = selftest_timeout_ns(self.target.timeout_ns);
        // This AuthDNS answers every name alike; only at the server's some have a AAAA record of their own.
        // An AuthDNS has no cache to be warmed, and every query must have a name that it knows.
        // The AuthDNS knows no key, and answers for one class.
        let variation = Variation {
            choice: Choice::Each,
            class: QueryClass::default(),
            tsig: None,
            ..self.target.workload.variation.clone()
        };
        let mut workload = WorkloadSpec { native: None, variation, ..self.target.workload.clone() };
        if self.auth.is_some() {
            // Ours knows every name there is.
            let asked = Workload::new(workload.clone()).map_err(MeasureError::Queries)?;
            let queries = Schedule::new(0, required_qps(wanted_qps), self.trial_ns).queries;
            let needed = asked.names_needed(queries);
            workload.names = workload.names.widened_to(needed).unwrap_or(workload.names);
        }
        Ok(Target {
            timeout_ns,
            listen_ns: timeout_ns,
            workload,
            load: Model::Constant,
            log: false,
            ..self.target.clone()
        })
    }

    /// A trial at the rate that the self-test requires; whether every answer was valid and in time, and, but
    /// for a first look, the rate kept.
    fn attempt(
        &self,
        tester: &mut Tester,
        target: &Target,
        (number, part): (u32, AttemptPart),
        selftest: &mut SelfTest,
    ) -> Result<bool, MeasureError> {
        let length_ns = if part == AttemptPart::Decide { self.trial_ns } else { EXPLORING_NS };
        let trial = self.trial(tester, target, selftest.required_qps, length_ns)?;
        let behind = || fell_behind(&trial, &target.limits).then(|| how_far_behind(&trial, &target.limits));
        let failed = not_all_in_time(&trial, target)
            .or_else(|| if part == AttemptPart::Look { None } else { behind() });
        let passed = failed.is_none();
        selftest.pacing = trial.void.clone().filter(|_| passed).unwrap_or_default();
        selftest.attempts.push(Attempt { number, part, failed: failed.unwrap_or_default() });
        selftest.trials.push(trial);
        Ok(passed)
    }

    /// A trial of the AuthDNS; the names go to the AuthDNS alone, so they stay fresh for the server.
    fn trial(
        &self,
        tester: &mut Tester,
        target: &Target,
        rate_qps: u64,
        length_ns: u64,
    ) -> Result<Trial, MeasureError> {
        let length_ns = length_ns.min(self.trial_ns);
        let doing = Status {
            phase: "self-test".into(),
            rate_qps,
            length: Duration::from_nanos(length_ns + target.timeout_ns),
            ..Status::default()
        };
        let next_name = tester.next_name;
        let tried = self.progress.during(&doing, || tester.trial(target, self.auth, rate_qps, length_ns));
        tester.next_name = next_name;
        let trial = tried?.trial;
        self.progress.say_trial("self-test", &trial, Sought::Rate);
        Ok(trial)
    }
}

/// Why the AuthDNS did not answer all; `None` if every answer was valid and in time.
///
/// Unlike the verdict on a server's trial this does not ask for even windows: latency counts from the
/// scheduled instants, so what was sent late has to be answered the sooner, and a burst is harder to answer.
/// But pauses must be made good soon ([`fell_behind`]), or a Tester that is a little too slow would pass
/// short trials.
fn not_all_in_time(trial: &Trial, target: &Target) -> Option<String> {
    let (answers, queries) = (target.validity.counted(trial), trial.scheduled);
    (queries == 0 || answers < queries).then(|| {
        let (answers, queries) = (grouped(answers), grouped(queries));
        format!("{answers} of {queries} queries had their answer in time")
    })
}

/// How far the Tester fell behind its schedule.
fn how_far_behind(trial: &Trial, limits: &Limits) -> String {
    let late_ms = trial.schedule_error_ns.max as f64 / 1e6;
    let (off_pct, allowed_pct) = (trial.windows.ms100.off_pct, limits.uneven_windows_pct);
    format!(
        "the Tester fell behind: it was up to {late_ms:.1} ms late, and {off_pct:.1} % of the windows of 100 ms were uneven, {allowed_pct} % are allowed"
    )
}

/// The rate to look at when `r` has failed.
fn lower(r: u64, wanted_qps: u64) -> u64 {
    let step = STEPS[usize::from(r <= wanted_qps / 2)];
    (r as f64 * step) as u64
}

/// The rate at which the self-test for `r` runs, in q/s.
fn required_qps(r: u64) -> u64 {
    let tenths = (SELFTEST_RATE.value * 10.0).round() as u64;
    r.saturating_mul(tenths).div_ceil(10)
}
