//! The goals, and whether the numbers of this run reach them.

use std::io;
use std::path::Path;

use serde_json::Value;

use crate::place::Subject;
use crate::rates;
use crate::sizes;
use crate::table::table;

/// A quotient that is to be at least so large.
struct Quotient {
    goal: &'static str,
    ours: Subject,
    theirs: Subject,
    least: f64,
}

const QUOTIENTS: [Quotient; 4] = [
    Quotient {
        goal: "sockets: >= 1.3 x NSD per core",
        ours: Subject::Ours("udp"),
        theirs: Subject::Peer("nsd"),
        least: 1.3,
    },
    Quotient {
        goal: "sockets: >= 1.4 x Knot per core",
        ours: Subject::Ours("udp"),
        theirs: Subject::Peer("knot"),
        least: 1.4,
    },
    Quotient {
        goal: "AF_XDP: >= 2 x Knot with AF_XDP",
        ours: Subject::Ours("xdp"),
        theirs: Subject::Peer("knot-xdp"),
        least: 2.0,
    },
    Quotient {
        goal: "kernel: >= 5 x Knot with AF_XDP",
        ours: Subject::Ours("kernel"),
        theirs: Subject::Peer("knot-xdp"),
        least: 5.0,
    },
];
/// What the certificate for 1,000,000 q/s needs: 2.2 times its rate in q/s (RFC 8219 9.2.1, with a margin of
/// 10 %), for so many seconds, with every answer within so many.
const TESTED_QPS: f64 = 2_200_000.0;
const TRIAL_S: f64 = 60.0;
const TIMEOUT_S: f64 = 0.25;
const START_S_MAX: f64 = 0.1;
const MEMORY_MIB_MAX: f64 = 64.0;

/// The table of all goals.
///
/// # Errors
/// The certificate cannot be read.
pub fn rendered(
    rates: &[rates::Row],
    sizes: &[sizes::Row],
    certificate: Option<&Path>,
) -> io::Result<String> {
    let mut lines = Vec::new();
    for Quotient { goal, ours, theirs, least } in &QUOTIENTS {
        let Some(ratio) = rates::ratio(rates, *ours, *theirs) else {
            lines.push(line(goal, "not measured in this run", None));
            continue;
        };
        let (ours, theirs) = (ratio.ours_qps / 1e3, ratio.theirs_qps / 1e3);
        let text = format!(
            "{:.2}: {ours:.0} against {theirs:.0} thousand q/s (asked by {})",
            ratio.times(),
            ratio.generator
        );
        lines.push(line(goal, &text, Some(ratio.times() >= *least)));
    }
    lines.push(certificate_line(certificate)?);
    let goal = "start < 0.1 s and memory < 64 MiB, whatever the name space";
    lines.push(match sizes::ours_worst(sizes) {
        Some((start_s, memory_mib)) => {
            let text = format!("at most {start_s:.3} s and {memory_mib:.1} MiB");
            line(goal, &text, Some(start_s < START_S_MAX && memory_mib < MEMORY_MIB_MAX))
        }
        None => line(goal, "not measured in this run", None),
    });
    Ok(table(&["goal", "here", ""], &lines))
}

fn line(goal: &str, here: &str, reached: Option<bool>) -> Vec<String> {
    let verdict = match reached {
        Some(true) => "reached",
        Some(false) => "missed",
        None => "-",
    };
    vec![goal.into(), here.into(), verdict.into()]
}

/// What a certificate of `sextant selftest` says.
fn certificate_line(path: Option<&Path>) -> io::Result<Vec<String>> {
    let goal = "kernel: 2.2 million q/s, every answer valid within 0.25 s, for 60 s: the certificate for 1,000,000 q/s";
    let Some(path) = path else { return Ok(line(goal, "no certificate given (--certificate FILE)", None)) };
    let bad = |what: &dyn std::fmt::Display| io::Error::other(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
    let json: Value = serde_json::from_str(&text).map_err(|error| bad(&error))?;
    let number = |name: &str| json.get(name).and_then(Value::as_f64);
    let field = |name: &str| number(name).ok_or_else(|| bad(&format!("has no {name}: is it a certificate?")));
    let (tested_qps, timeout_s) = (field("required_qps")?, field("timeout_s")?);
    let (trial_s, certified_qps) = (field("trial_s")?, field("certified_qps")?);
    let text = format!(
        "{tested_qps:.0} q/s for {trial_s:.0} s, answers within {timeout_s} s: certified to {certified_qps:.0} q/s"
    );
    let reached = tested_qps >= TESTED_QPS && trial_s >= TRIAL_S && timeout_s <= TIMEOUT_S;
    Ok(line(goal, &text, Some(reached)))
}
