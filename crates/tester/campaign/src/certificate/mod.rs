//! The certificate of RFC 8219 9.2.1: a self-test that was passed, kept as a file with the conditions it was
//! passed under.
//!
//! [`Conditions`] are texts. A certificate holds for a measurement that has the same conditions:
//! `Certificate::objection`.

mod conditions;
mod store;

use std::time::{Duration, SystemTime};

use record::number::count as grouped;
use record::{Attempt, SelfTest, Trial};
use serde::{Deserialize, Serialize};

use crate::{Plan, selftest_timeout_ns};
pub use conditions::Conditions;
pub use store::{CertificateStore, Stored};

/// The version of the file format that this program writes and reads.
const SCHEMA: u32 = 2;
/// A certificate is for a day: load, clocks and neighbours of a machine change.
const VALID_FOR: Duration = Duration::from_secs(24 * 3600);
/// The clock may have been set back by this much since the certificate was issued.
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// The rates that this Tester may measure, the conditions, and the evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// The version of the file format.
    pub schema: u32,
    /// RFC 3339, UTC.
    pub issued_utc: String,
    /// The highest rate that may be measured, in q/s.
    pub certified_qps: u64,
    /// The rate of the deciding trial, 2.2 times the certified rate, in q/s.
    pub required_qps: u64,
    /// Replies counted within this time, in seconds.
    pub timeout_s: f64,
    /// Length of the deciding trial in seconds.
    pub trial_s: f64,
    /// What must be the same where the certificate is relied on.
    pub conditions: Conditions,
    /// The names asked, where the self-test asked more than the range of the measurement; empty otherwise.
    pub names: String,
    /// How the Tester kept its schedule in the deciding trial, where more than a server's trial allows was
    /// amiss.
    pub pacing: String,
    /// The command line of the self-test.
    pub command: Vec<String>,
    /// The trials, the deciding one last.
    pub trials: Vec<Trial>,
    /// What came of each of them; empty in certificates of older programs.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
}

/// What a measurement asks of a certificate.
#[derive(Clone, Debug)]
pub struct Needed {
    /// The Tester as it is now.
    pub conditions: Conditions,
    /// The highest rate to be measured, in q/s.
    pub rate_qps: u64,
    /// Replies of the self-test must come within this time, in seconds.
    pub timeout_s: f64,
    /// The length of a trial in seconds.
    pub trial_s: f64,
    /// The time of day.
    pub now: SystemTime,
}

impl Needed {
    /// The needs of a plan that is carried out now.
    pub fn new(conditions: Conditions, plan: &Plan) -> Self {
        Self {
            conditions,
            rate_qps: plan.range_qps[1],
            timeout_s: selftest_timeout_ns(plan.timeout_ns) as f64 / 1e9,
            trial_s: plan.trial_ns as f64 / 1e9,
            now: SystemTime::now(),
        }
    }
}

impl Certificate {
    /// The certificate of a self-test; `None` if it did not pass.
    pub fn of(selftest: &SelfTest, conditions: Conditions) -> Option<Self> {
        let deciding = selftest.trials.last().filter(|_| selftest.passed)?;
        Some(Self {
            schema: SCHEMA,
            issued_utc: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            certified_qps: selftest.certified_qps,
            required_qps: selftest.required_qps,
            timeout_s: selftest.timeout_s,
            trial_s: deciding.duration_s,
            // The back-end that the deciding trial used counts, not the one that was meant to be used.
            conditions: Conditions { io: deciding.io.clone(), ..conditions },
            names: selftest.names.clone(),
            pacing: selftest.pacing.clone(),
            command: std::env::args().collect(),
            trials: selftest.trials.clone(),
            attempts: selftest.attempts.clone(),
        })
    }

    /// Why this certificate does not hold for a measurement: the first reason found. `None` if it holds.
    pub(crate) fn objection(&self, needed: &Needed) -> Option<String> {
        let Self { issued_utc, certified_qps, timeout_s, trial_s, .. } = self;
        let age = humantime::parse_rfc3339(issued_utc).map(|issued| needed.now.duration_since(issued));
        self.conditions.difference(&needed.conditions).or_else(|| match age {
            Ok(Ok(age)) if age > VALID_FOR => {
                let hours = VALID_FOR.as_secs() / 3600;
                Some(format!("it was issued at {issued_utc}, and a certificate is for {hours} hours"))
            }
            Ok(Err(ahead)) if ahead.duration() > CLOCK_SLACK => {
                Some(format!("it was issued at {issued_utc}, which is in the future"))
            }
            Err(_) => Some(format!("'{issued_utc}' is no time of issue")),
            _ if *timeout_s > needed.timeout_s => {
                Some(format!("its replies came within {timeout_s} s, and {} s are needed", needed.timeout_s))
            }
            _ if *trial_s < needed.trial_s => {
                Some(format!("its trial was {trial_s} s long, and {} s are needed", needed.trial_s))
            }
            _ if *certified_qps < needed.rate_qps => {
                let (has, needs) = (grouped(*certified_qps), grouped(needed.rate_qps));
                Some(format!("it is for rates up to {has} q/s, and {needs} q/s is needed"))
            }
            _ => None,
        })
    }
}

/// The certificate that holds for the highest rate, of these the newest.
///
/// # Errors
/// None holds: why the newest does not.
pub fn best<'a>(stored: &'a [Stored], needed: &Needed) -> Result<&'a Stored, String> {
    let holding = stored.iter().filter(|one| one.certificate.objection(needed).is_none());
    // From the oldest to the newest; of equal ones this is the last.
    holding.max_by_key(|one| one.certificate.certified_qps).ok_or_else(|| {
        let newest = stored.last();
        let why =
            newest.and_then(|one| Some(format!("{}: {}", one.name(), one.certificate.objection(needed)?)));
        why.unwrap_or_else(|| "none is kept; 'sextant selftest --rate N' makes one".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn certificate() -> Certificate {
        Certificate {
            issued_utc: "2026-01-02T03:04:05Z".into(),
            certified_qps: 1_000_000,
            timeout_s: 0.25,
            trial_s: 60.0,
            conditions: Conditions { boot: "b".into(), path: "lab".into(), ..Conditions::default() },
            ..Certificate::default()
        }
    }

    fn needed() -> Needed {
        let now = humantime::parse_rfc3339("2026-01-02T03:04:05Z").unwrap() + HOUR;
        let conditions = certificate().conditions;
        Needed { conditions, rate_qps: 500_000, timeout_s: 0.25, trial_s: 2.0, now }
    }

    #[test]
    fn it_holds_for_its_conditions_and_nothing_else() {
        assert_eq!(certificate().objection(&needed()), None);
        let refused = |change: &dyn Fn(&mut Needed), reason: &str| {
            let mut needed = needed();
            change(&mut needed);
            let why = certificate().objection(&needed).unwrap();
            assert!(why.contains(reason), "{why}");
        };
        refused(&|needed| needed.conditions.program = "x".into(), "program was '', and now it is 'x'");
        refused(&|needed| needed.conditions.boot = "x".into(), "before the last boot");
        refused(&|needed| needed.conditions.machine = "x".into(), "machine");
        refused(&|needed| needed.conditions.path = "loopback".into(), "path was 'lab'");
        refused(&|needed| needed.conditions.link = "x".into(), "link");
        refused(&|needed| needed.conditions.io = "udp".into(), "back-end of the Measurer");
        refused(&|needed| needed.conditions.measurer = "x".into(), "Measurer");
        refused(&|needed| needed.conditions.auth = "udp".into(), "AuthDNS");
        refused(&|needed| needed.conditions.queries = "x".into(), "queries");
        refused(&|needed| needed.timeout_s = 0.1, "within 0.25 s, and 0.1 s");
        refused(&|needed| needed.trial_s = 61.0, "60 s long, and 61 s");
        refused(&|needed| needed.rate_qps = 1_000_001, "up to 1,000,000 q/s, and 1,000,001");
        refused(&|needed| needed.now += 24 * HOUR, "for 24 hours");
        refused(&|needed| needed.now -= 2 * HOUR, "in the future");
        let undated = Certificate { issued_utc: "today".into(), ..certificate() };
        assert!(undated.objection(&needed()).unwrap().contains("no time of issue"));
        let unknown = Conditions { boot: String::new(), ..certificate().conditions };
        assert!(unknown.difference(&unknown).is_some(), "a boot without an identity is like no other");
    }

    #[test]
    fn the_highest_that_holds_is_the_best_and_the_newest_says_why_none_does() {
        let stored = |name: &str, certified_qps| Stored {
            path: name.into(),
            certificate: Certificate { certified_qps, ..certificate() },
        };
        let all = [stored("a", 600_000), stored("b", 700_000), stored("c", 400_000)];
        assert_eq!(best(&all, &needed()).unwrap().name(), "b");
        let needed = Needed { rate_qps: 800_000, ..needed() };
        assert!(best(&all, &needed).unwrap_err().starts_with("c: it is for rates up to 400,000"));
        assert!(best(&[], &needed).unwrap_err().starts_with("none is kept"));
    }
}
