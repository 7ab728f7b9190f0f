//! The result on a terminal.

use record::{Results, Severity, Sought, Trial};

use super::caveats::{Caveat, caveats, remarks};
use super::clean::{printable, shortened};
use super::connections::memory_of_each;
use super::goals::{goal_lines, steadiness};
use super::interval::{bounds, interval};
use super::lines::{line, wrapped};
use super::observed::summary;
use super::select::{Tally, every_trial};
use super::words::{
    at_ceiling, attempt_lines, certified, confidence, kept, load_name, p1_name, p99_name, upper_first,
    verdict,
};
use record::number::{count, octets, percent, plural, rate_of, time_of};

/// The end of a measurement: the verdict, what limited the rate, and at most three remarks that bear on the
/// rate.
pub fn brief(results: &Results) -> String {
    let mut out = wrapped("", &verdict(results), 0);
    for (label, value) in goal_lines(results) {
        out += &line(&label, &value);
    }
    if let Some(found) = results.bottleneck.as_ref().filter(|found| !found.evidence.is_empty()) {
        out += "\n";
        let evidence = shortened(found.evidence.trim_end_matches('.'), 300);
        out += &wrapped("  why   ", &format!("{}.", upper_first(&evidence)), 8);
    }
    printable(out + &marked(&remarks(results)))
}

/// The verdict, its evidence in about twenty lines, and all caveats.
pub fn text(results: &Results) -> String {
    let mut out = wrapped("", &verdict(results), 0);
    for (index, (label, value)) in summary_lines(results).iter().enumerate() {
        out += if index == 0 { "\n" } else { "" };
        out += &line(label, value);
    }
    printable(out + &marked(&caveats(results)))
}

/// A paragraph for each, after an empty line.
fn marked(caveats: &[Caveat]) -> String {
    let mut out = String::new();
    for (index, caveat) in caveats.iter().enumerate() {
        out += if index == 0 { "\n" } else { "" };
        let mark = if caveat.severity == Severity::Info { "note" } else { "mind" };
        out +=
            &wrapped(&format!("  {mark}  "), &format!("{}: {}", upper_first(&caveat.title), caveat.text), 8);
    }
    out
}

fn summary_lines(results: &Results) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    let mut add = |label: &str, value: String| lines.push((label.to_owned(), value));
    let sought = results.sought();
    if let Some(summary) = results.found() {
        let bound = if at_ceiling(results) { "at least " } else { "" };
        let label = format!("{}, {}", load_name(results, summary), p1_name(summary.n));
        add(&label, format!("{bound}{}", sought.in_words(summary.p1)));
        add("Median", sought.mean_in_words(summary.median));
        add(&p99_name(summary.n), sought.in_words(summary.p99));
        add("Dispersion", format!("{} of the median", percent(summary.dispersion_pct)));
        add("How sure", confidence(results));
    }
    if let Some(found) = interval(results) {
        add("Rate", bounds(&found));
    }
    if !results.runs.is_empty() {
        let label = if sought == Sought::Rate { "Rates found" } else { "Connections found" };
        add(label, loads(results));
    }
    for (label, value) in goal_lines(results) {
        add(&label, value);
    }
    if let Some(steady) = results.steadiness.as_ref().and_then(steadiness) {
        add("Steadiness", steady);
    }
    if let Some(each) = memory_of_each(results) {
        add("Server's memory for each", octets(each));
    }
    if let Some(trial) = &results.latency_trial {
        add(&format!("Latency at {}", rate_of(trial.rate_qps)), latency(trial));
    }
    if let Some(found) = &results.bottleneck {
        add("Limited by", joined(found.cause.as_str(), &found.evidence));
    }
    if let Some(analysis) = &results.observed {
        add("Its own queries", summary(analysis));
    }
    if let Some(test) = &results.selftest {
        add("Self-test (9.2.1)", shortened(&certified(test), 300));
        for line in attempt_lines(test) {
            add("", shortened(&line, 300));
        }
    }
    let tally = Tally::of(every_trial(results).iter().map(|entry| entry.trial));
    if tally.total() > 0 {
        let trials = plural(tally.total(), "trial", "trials");
        add("Trials", format!("{trials}: {} passed, {} failed, {} void", tally.pass, tally.fail, tally.void));
    }
    let (kept, of) = kept(results);
    if of > 0 {
        add("RFC 8219", format!("{kept} of {of} requirements kept"));
    }
    lines
}

fn loads(results: &Results) -> String {
    const SHOWN: usize = 20;
    let mut found: Vec<String> = results.runs.iter().take(SHOWN).map(|run| count(run.found())).collect();
    if results.runs.len() > SHOWN {
        found.push(format!("and {} more", results.runs.len() - SHOWN));
    }
    format!("{} {}", found.join(" · "), results.sought().unit())
}

fn latency(trial: &Trial) -> String {
    let times = &trial.latency_ns;
    format!(
        "p50 {}, p99 {}, p99.9 {}, max {}",
        time_of(times.p50),
        time_of(times.p99),
        time_of(times.p999),
        time_of(times.max)
    )
}

fn joined(first: &str, second: &str) -> String {
    if second.is_empty() { first.to_owned() } else { format!("{first}: {}", shortened(second, 300)) }
}
