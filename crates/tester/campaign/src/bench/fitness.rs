//! Whether the Tester is fit for the bench: the self-test, and the certificate that stands for it.

use engine::search::Mode;
use record::{Results, SelfTest};

use super::{Bench, BenchEnd};
use crate::loopback::Loopback;
use crate::selftest::Certification;
use record::number::count as grouped;

impl Bench<'_> {
    /// Tests the Tester, and limits the rates to what it is fit for.
    pub(super) fn self_test(&mut self, results: &mut Results) -> Result<(), BenchEnd> {
        let Some(selftest) = self.certify(results)? else { return Ok(()) };
        let (certified_qps, passed) = (selftest.certified_qps, selftest.passed);
        if self.tester.stopped() {
            return Err(BenchEnd::Interrupted);
        }
        if !passed {
            let why = "the self-test of RFC 8219 9.2.1 failed at every rate: measure at a quieter time, or on a machine \
                       with processors of its own";
            return Err(BenchEnd::Unfit(why.into()));
        }
        let certified = grouped(certified_qps);
        let [lowest_qps, highest_qps] = self.plan.range_qps;
        let needed_qps = if matches!(self.plan.mode, Mode::Fixed { .. }) { highest_qps } else { lowest_qps };
        if certified_qps < needed_qps {
            let needed = grouped(needed_qps);
            return Err(BenchEnd::Unfit(format!(
                "the self-test certifies this Tester for rates up to {certified} q/s, but {needed} q/s was asked for: use a lower rate or more --threads"
            )));
        }
        self.progress.say(&format!("  self-test     {}", report::certified(&selftest)));
        self.plan.range_qps[1] = certified_qps.min(highest_qps);
        results.settings.rate_range_qps = self.plan.range_qps;
        Ok(())
    }

    /// The self-test, confirmed by a certificate where one holds; every trial of it is in the record as it
    /// ends.
    fn certify(&mut self, results: &mut Results) -> Result<Option<SelfTest>, BenchEnd> {
        let Some(Loopback { target, auth, .. }) = &self.selftest else {
            self.rely(results);
            return Ok(None);
        };
        let certification = Certification {
            target,
            auth: Some(auth),
            rates_qps: 0..=self.plan.range_qps[1],
            trial_ns: self.plan.trial_ns,
            progress: &self.progress,
        };
        let store = &self.store;
        let mut earlier = SelfTest::default();
        let mut uncertified = String::new();
        match &self.certificate {
            Some(Ok(certificate)) => {
                let keep = |so_far: &SelfTest| -> Result<(), BenchEnd> {
                    results.selftest = Some(so_far.clone());
                    Ok(store.save(results)?)
                };
                let selftest = certification.confirm(&mut self.tester, certificate, keep)?;
                if selftest.passed {
                    return Ok(Some(selftest));
                }
                earlier = selftest;
                uncertified = format!("{} was not confirmed by a short trial", certificate.name());
            }
            Some(Err(why)) => uncertified.clone_from(why),
            None => {}
        }
        certification.run(&mut self.tester, |so_far| {
            let trials = earlier.trials.iter().chain(&so_far.trials).cloned().collect();
            let attempts = earlier.attempts.iter().chain(&so_far.attempts).cloned().collect();
            let selftest = SelfTest { trials, attempts, uncertified: uncertified.clone(), ..so_far.clone() };
            results.selftest = Some(selftest);
            Ok::<(), BenchEnd>(store.save(results)?)
        })?;
        Ok(results.selftest.clone())
    }

    /// Puts a certificate into the record where there is no AuthDNS to be asked.
    fn rely(&self, results: &mut Results) {
        match &self.certificate {
            Some(Ok(stored)) => {
                let selftest = stored.as_selftest();
                self.progress.say(&format!("  self-test     {}", report::certified(&selftest)));
                results.selftest = Some(selftest);
            }
            Some(Err(why)) => self.progress.say(&format!("  self-test     no certificate holds: {why}")),
            None => {}
        }
    }
}
