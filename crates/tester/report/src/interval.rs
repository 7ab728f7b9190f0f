//! The interval in place of a rate, where void trials kept every search from its end, in words.

use record::number::{NONE, count, plural, rate_of, short};
use record::{RateInterval, Results};

use super::held::held;

/// The interval, if it is the result and says something.
pub(crate) fn interval(results: &Results) -> Option<RateInterval> {
    let found = RateInterval::of(results).filter(|found| !found.is_empty());
    found.filter(|_| results.summary.is_none())
}

/// `between 5,100 q/s and 7,400 q/s`, `at least 5,100 q/s`, `below 7,400 q/s`.
pub(crate) fn bounds(found: &RateInterval) -> String {
    match (found.at_least_qps, found.below_qps) {
        (0, below_qps) => format!("below {}", below_qps.map_or_else(|| NONE.to_owned(), rate_of)),
        (least_qps, Some(below_qps)) => format!("between {} and {}", rate_of(least_qps), rate_of(below_qps)),
        (least_qps, None) => format!("at least {}", rate_of(least_qps)),
    }
}

/// The result for the server of this name, in plain words.
pub(crate) fn interval_sentence(name: &str, results: &Results, found: &RateInterval) -> String {
    let bounds = bounds(found);
    let verb = if bounds.starts_with("between") { "lies" } else { "is" };
    let evidence: Vec<String> = [lower(results, found), upper(found)].into_iter().flatten().collect();
    format!("The rate of {name} {verb} {bounds}: {}. {}", evidence.join(", and "), disturbed(found))
}

/// What shows the lower end.
fn lower(results: &Results, found: &RateInterval) -> Option<String> {
    let at_least = rate_of(found.at_least_qps);
    match found.at_least_qps {
        0 => None,
        least_qps if least_qps == found.shown_at_qps => {
            Some(format!("{at_least} held {}", held(results, least_qps).words()))
        }
        _ => Some(format!(
            "a void trial at {} had every answer in time although the Tester was late, which over the longer time is {at_least}",
            rate_of(found.shown_at_qps)
        )),
    }
}

/// What shows the upper end, or how far the trials went.
fn upper(found: &RateInterval) -> Option<String> {
    match found.below_qps {
        Some(below_qps) if found.failed_at_qps == Some(below_qps) => {
            Some(format!("{} failed", rate_of(below_qps)))
        }
        Some(below_qps) => Some(format!(
            "{} failed while others took the server's processor, which is {} without them",
            rate_of(found.failed_at_qps.unwrap_or(below_qps)),
            rate_of(below_qps)
        )),
        None if found.tried_qps > found.shown_at_qps => {
            Some(format!("no trial above it shows more, up to {}", rate_of(found.tried_qps)))
        }
        None => None,
    }
}

/// How much was void, and who took the processors.
fn disturbed(found: &RateInterval) -> String {
    let taken = [
        found.steal_pct.map(|pct| format!("the hypervisor took {} % of a processor", short(pct.round()))),
        found.other_programs_pct.map(|pct| format!("other programs used {} %", short(pct.round()))),
    ];
    let taken = taken.into_iter().flatten().collect::<Vec<_>>().join(" and ");
    let trials = plural(found.trials as usize, "trial", "trials");
    let meanwhile = if taken.is_empty() { String::new() } else { format!("; during the trials {taken}") };
    format!("{} of {trials} void{meanwhile}.", count(found.void))
}

/// What the reader must know before using it.
pub(crate) fn advice(results: &Results) -> String {
    let trials = results.runs.iter().flat_map(|run| &run.trials).chain(&results.latency_trial);
    let waited_s: f64 = trials.map(|trial| trial.waited_s).sum();
    let waited = match waited_s {
        s if s >= 1.0 => format!(" The Tester waited {s:.0} s for a quiet machine."),
        _ => String::new(),
    };
    format!(
        "Void trials kept every search from its end.{waited} For a rate, measure at a quieter time, or on a machine with \
         processors of its own."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_interval_has_its_words() {
        let of = |at_least_qps, below_qps| RateInterval {
            at_least_qps,
            below_qps,
            failed_at_qps: Some(6000),
            ..RateInterval::default()
        };
        let under_load = upper(&of(0, Some(7400))).unwrap().replace('\u{a0}', " ");
        assert!(under_load.starts_with("6,000 q/s failed while others took"), "{under_load}");
        let said = |found: &RateInterval| bounds(found).replace('\u{a0}', " ");
        assert_eq!(said(&of(5100, Some(7400))), "between 5,100 q/s and 7,400 q/s");
        assert_eq!(
            (said(&of(5100, None)), said(&of(0, Some(7400)))),
            ("at least 5,100 q/s".into(), "below 7,400 q/s".into())
        );
        let found = RateInterval { steal_pct: Some(22.4), void: 22, trials: 44, ..of(5100, Some(7400)) };
        let expected = "22 of 44 trials void; during the trials the hypervisor took 22 % of a processor.";
        assert_eq!(disturbed(&found).replace('\u{a0}', " "), expected);
        let late = RateInterval { shown_at_qps: 5400, tried_qps: 5400, ..of(5100, None) };
        let text =
            interval_sentence("the server", &Results::new(record::Kind::Bench), &late).replace('\u{a0}', " ");
        assert!(
            text.starts_with(
                "The rate of the server is at least 5,100 q/s: a void trial at 5,400 q/s had every answer"
            ),
            "{text}"
        );
    }
}
