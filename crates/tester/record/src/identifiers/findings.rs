//! The figures in words.

use super::sequence::TESTED_MIN;
use super::spread::EQUAL_PAIRS;
use super::{Analysis, Finding, Spread};

/// A test that chance fails less often than this has found something. Eight tests of one server, repeated
/// every day, are wrong once in three years.
const ALPHA: f64 = 1e-4;
/// Ports in use below which forging is easier than it need be: 2^10 of the 2^16 (RFC 5452 9.2: "the largest
/// feasible").
const PORTS_FEW: f64 = 1024.0;
/// A step that is so often makes the next value known, in percent.
const STEP_PCT: f64 = 10.0;

pub fn find(analysis: &Analysis) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |weak, text: String| findings.push(Finding { weak, text });
    let (ids, ports) = (&analysis.ids, &analysis.ports);
    if ids.count < TESTED_MIN as u64 {
        add(false, format!("only {} queries over UDP: too few for a judgement of IDs and ports", ids.count));
        return findings;
    }
    judge_ids(ids, &mut add);
    judge_ports(ports, &mut add);
    judge_repetitions(analysis, &mut add);
    findings
}

fn judge_ids(ids: &Spread, add: &mut impl FnMut(bool, String)) {
    let steps = ids.steps;
    if ids.distinct == 1 {
        return add(true, format!("every query has the ID {}", ids.lowest));
    }
    if steps.predictable && steps.common_pct >= STEP_PCT {
        let place = if steps.by_port { " between queries of one port" } else { "" };
        return add(
            true,
            format!(
                "IDs follow each other: the step{place} is {:+} in {:.1} % of the cases",
                steps.common, steps.common_pct
            ),
        );
    }
    if ids.congruence_pct >= STEP_PCT {
        let pct = ids.congruence_pct;
        return add(
            true,
            format!("a linear congruence predicts {pct:.1} % of the IDs from the three before"),
        );
    }
    let failed: Vec<_> = ids.tests.iter().filter(|test| test.p_value < ALPHA).collect();
    let unique = |test: &&super::Test| test.name == EQUAL_PAIRS && test.statistic < 0.0;
    for test in &failed {
        if unique(test) {
            add(
                false,
                "IDs repeat less often than by chance: they are kept unique or come from a permutation"
                    .to_owned(),
            );
        } else {
            add(true, format!("IDs are not drawn at random: {} (p = {:.1e})", test.name, test.p_value));
        }
    }
    if failed.iter().all(unique) {
        add(false, "IDs look as if drawn at random".to_owned());
    }
}

fn judge_ports(ports: &Spread, add: &mut impl FnMut(bool, String)) {
    let steps = ports.steps;
    if ports.distinct == 1 {
        add(true, format!("all queries leave from port {} (RFC 5452 9.2 asks for many)", ports.lowest));
    } else if steps.predictable && steps.common != 0 && steps.common_pct >= STEP_PCT {
        add(
            true,
            format!(
                "ports follow each other: the step is {:+} in {:.1} % of the cases",
                steps.common, steps.common_pct
            ),
        );
    } else if !ports.pool_is_larger && ports.pool < PORTS_FEW {
        add(
            true,
            format!(
                "queries leave from {} ports, used like {:.0}: few (RFC 5452 9.2)",
                ports.distinct, ports.pool
            ),
        );
    } else {
        add(false, "queries leave from many ports".to_owned());
    }
}

fn judge_repetitions(analysis: &Analysis, add: &mut impl FnMut(bool, String)) {
    let outstanding = &analysis.outstanding;
    let chance = outstanding.same_identifiers_by_chance;
    // Three standard deviations more than chance.
    if outstanding.same_identifiers as f64 > chance + 3.0 * chance.sqrt() + 3.0 {
        add(
            true,
            format!(
                "{} different questions shared port and ID within {} ms, {chance:.1} would by chance",
                outstanding.same_identifiers, outstanding.window_ms
            ),
        );
    }
    if outstanding.same_question > 0 {
        add(
            true,
            format!(
                "{} questions were under way more than once within {} ms (the birthday attack of RFC 5452 5)",
                outstanding.same_question, outstanding.window_ms
            ),
        );
    }
    if analysis.upper_case_pct > 90.0 {
        let bits = analysis.letters_per_name;
        add(false, format!("names are spelled in random case (0x20): up to {bits:.0} bits more to guess"));
    }
}
