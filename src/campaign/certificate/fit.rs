//! Whether a certificate holds for a measurement that is to come.

use std::time::{Duration, SystemTime};

use super::store::Stored;
use super::{Certificate, Conditions, TOOL};
use crate::campaign::{Plan, selftest_timeout_ns};
use crate::report::number::count as grouped;

/// A certificate is for a day: load, clocks and neighbours of a machine change.
pub const VALID_FOR: Duration = Duration::from_secs(24 * 3600);
/// A certificate may be this much younger than the clock says, which may have been set back a little.
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// What a measurement needs.
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
    /// What a plan needs, now.
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

/// The best of the certificates that hold: the highest rate, of these the newest. If none does, why: the newest one's reason.
///
/// # Errors
/// None holds.
pub fn best<'a>(stored: &'a [Stored], needed: &Needed) -> Result<&'a Stored, String> {
    let mut reason = "none is kept; 'sextant selftest --rate N' makes one".to_owned();
    let mut best: Option<&Stored> = None;
    // From the oldest to the newest.
    for one in stored {
        match holds(&one.certificate, needed) {
            Ok(())
                if best
                    .is_none_or(|best| best.certificate.certified_qps <= one.certificate.certified_qps) =>
            {
                best = Some(one);
            }
            Ok(()) => {}
            Err(why) => reason = format!("{}: {why}", one.name()),
        }
    }
    best.ok_or(reason)
}

/// Whether a certificate holds: same build of the program, machine, kernel and boot, path, back-ends and queries, not older than
/// [`VALID_FOR`], from trials as long, for rates as high.
///
/// # Errors
/// The first condition that is not met.
pub fn holds(certificate: &Certificate, needed: &Needed) -> Result<(), String> {
    let differs = |what: &str, then: &dyn std::fmt::Display, now: &dyn std::fmt::Display| {
        Err(format!("it is for {what} '{then}', and now it is '{now}'"))
    };
    if certificate.tool != TOOL {
        return differs("the program", &certificate.tool, &TOOL);
    }
    if certificate.conditions.program != needed.conditions.program {
        return Err(format!("another build of {TOOL} made it"));
    }
    same_machine(&certificate.conditions, &needed.conditions)?;
    age(certificate, needed.now)?;
    let (then, now) = (&certificate.conditions, &needed.conditions);
    if !then.path.is_same_way(&now.path) {
        return differs("the path", &then.path, &now.path);
    }
    if then.measurer != now.measurer {
        return differs("the Measurer", &then.measurer, &now.measurer);
    }
    if then.auth != now.auth {
        return differs("the AuthDNS", &then.auth, &now.auth);
    }
    // Which names and addresses they are makes no difference.
    let load =
        |asked: &super::Asked| super::Asked { names: String::new(), prefix: String::new(), ..asked.clone() };
    if load(&then.workload) != load(&now.workload) {
        return differs("the queries", &then.workload, &now.workload);
    }
    if certificate.timeout_s > needed.timeout_s {
        return differs("replies within seconds of", &certificate.timeout_s, &needed.timeout_s);
    }
    if certificate.trial_s < needed.trial_s {
        return Err(format!(
            "its trial was {} s long, and {} s are needed",
            certificate.trial_s, needed.trial_s
        ));
    }
    if certificate.certified_qps < needed.rate_qps {
        let (has, needs) = (grouped(certificate.certified_qps), grouped(needed.rate_qps));
        return Err(format!("it is for rates up to {has} q/s, and {needs} q/s is needed"));
    }
    Ok(())
}

fn same_machine(then: &Conditions, now: &Conditions) -> Result<(), String> {
    let (then, now) = (&then.machine, &now.machine);
    if then.id != now.id {
        return Err("it is for another machine".into());
    }
    for (what, then, now) in
        [("kernel", &then.kernel, &now.kernel), ("processor", &then.processor, &now.processor)]
    {
        if then != now {
            return Err(format!("it is for the {what} {then:?}, and now it is {now:?}"));
        }
    }
    if (then.processors, &then.usable) != (now.processors, &now.usable) {
        return Err(format!(
            "it is for the processors {:?}, and now there are {:?}",
            then.usable, now.usable
        ));
    }
    if then.boot != now.boot || now.boot.is_empty() {
        return Err("the machine was started anew since".into());
    }
    Ok(())
}

fn age(certificate: &Certificate, now: SystemTime) -> Result<(), String> {
    let issued = &certificate.issued_utc;
    let then = humantime::parse_rfc3339(issued).map_err(|_| format!("'{issued}' is no time of issue"))?;
    match now.duration_since(then) {
        Ok(age) if age > VALID_FOR => {
            Err(format!("it is of {issued}, and a certificate is for {} hours", VALID_FOR.as_secs() / 3600))
        }
        Err(ahead) if ahead.duration() > CLOCK_SLACK => {
            Err(format!("it is of {issued}, which is yet to come"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DeviceFacts, PathTaken};
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn certificate() -> Certificate {
        let mut conditions = Conditions::default();
        conditions.machine.boot = "b".into();
        conditions.path.kind = "lab".into();
        Certificate {
            tool: TOOL.into(),
            issued_utc: "2026-01-02T03:04:05Z".into(),
            certified_qps: 1_000_000,
            timeout_s: 0.25,
            trial_s: 60.0,
            conditions,
            ..Certificate::default()
        }
    }

    fn needed() -> Needed {
        let now = humantime::parse_rfc3339("2026-01-02T03:04:05Z").unwrap() + HOUR;
        let conditions = certificate().conditions;
        Needed { conditions, rate_qps: 500_000, timeout_s: 0.25, trial_s: 2.0, now }
    }

    #[test]
    fn it_holds_for_what_it_is_about_and_nothing_else() {
        assert_eq!(holds(&certificate(), &needed()), Ok(()));
        let refused = |change: &dyn Fn(&mut Needed), reason: &str| {
            let mut needed = needed();
            change(&mut needed);
            let why = holds(&certificate(), &needed).unwrap_err();
            assert!(why.contains(reason), "{why}");
        };
        refused(&|needed| needed.conditions.program = "x".into(), "another build");
        refused(&|needed| needed.conditions.machine.id = "x".into(), "another machine");
        refused(&|needed| needed.conditions.machine.boot = "x".into(), "started anew");
        refused(
            &|needed| needed.conditions.machine.kernel = "7.0".into(),
            "kernel \"\", and now it is \"7.0\"",
        );
        refused(&|needed| needed.conditions.machine.usable = vec![1], "processors []");
        refused(&|needed| needed.conditions.path.kind = "loopback".into(), "path");
        refused(&|needed| needed.conditions.measurer.ports = 7, "Measurer");
        refused(&|needed| needed.conditions.auth.io = "udp".into(), "AuthDNS");
        refused(&|needed| needed.conditions.workload.edns_octets = Some(1232), "queries");
        refused(&|needed| needed.timeout_s = 0.1, "replies within");
        refused(&|needed| needed.trial_s = 61.0, "60 s long, and 61 s");
        refused(&|needed| needed.rate_qps = 1_000_001, "up to 1,000,000 q/s, and 1,000,001");
        refused(&|needed| needed.now += 24 * HOUR, "for 24 hours");
        refused(&|needed| needed.now -= 2 * HOUR, "yet to come");
        let mut of_others = certificate();
        of_others.tool = "sextant 9.0.0".into();
        assert!(holds(&of_others, &needed()).unwrap_err().contains("9.0.0"));
    }

    #[test]
    fn of_servers_elsewhere_the_device_on_the_way_counts() {
        let mut path = PathTaken { kind: "server".into(), server: "a".into(), ..Default::default() };
        let other = PathTaken { server: "b".into(), ..path.clone() };
        assert!(!path.is_same_way(&other), "nothing is known of the way");
        path.device = Some(DeviceFacts { name: "eth0".into(), ..Default::default() });
        assert!(!path.is_same_way(&other));
        assert!(path.is_same_way(&PathTaken { device: path.device.clone(), ..other }));
    }

    #[test]
    fn names_and_prefix_make_no_difference() {
        let mut needed = needed();
        needed.conditions.workload.names = "10.0.0.0/8".into();
        needed.conditions.workload.prefix = "64:ff9b::/96".into();
        assert_eq!(holds(&certificate(), &needed), Ok(()));
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
