//! The verdict: the numbers that decide, and the warnings about them.

use maud::{Markup, html};
use record::{RateInterval, Results, Severity, Summary, Trial};

use crate::caveats::{Caveat, caveats};
use crate::clean::unbroken;
use crate::connections::memory_of_each;
use crate::held::held;
use crate::interval::interval;
use crate::words::{
    at_ceiling, confidence, kept, load_name, p1_name, p99_name, upper_first, verdict as sentence,
};
use record::number::{count, octets, percent, plural, rate_of, real, time_of};

/// The first section.
pub fn verdict(results: &Results) -> Markup {
    html! {
        section #verdict {
            h2 { a href="#verdict" { "Verdict" } }
            @if let Some(found) = results.found() { (safe_load(results, found)) }
            @if let Some(found) = interval(results) { (interval_of(&found)) }
            p.lede { (unbroken(&sentence(results))) }
            (answers(results))
            (warnings(&caveats(results)))
        }
    }
}

fn safe_load(results: &Results, summary: &Summary) -> Markup {
    let ceiling = at_ceiling(results);
    let held = held(results, summary.p1).words();
    html! {
        p.rate {
            span { (load_name(results, summary)) ": held " (unbroken(&held)) ". " (p1_name(summary.n)) }
            strong { @if ceiling { "≥ " } (count(summary.p1)) } " " (results.sought().unit())
        }
    }
}

fn interval_of(found: &RateInterval) -> Markup {
    html! {
        p.rate {
            span { "The rate lies within this interval" }
            @match (found.at_least_qps, found.below_qps) {
                (0, below_qps) => { strong { "< " (count(below_qps.unwrap_or(0))) } }
                (least_qps, Some(below_qps)) => { strong { (count(least_qps)) " to " (count(below_qps)) } }
                (least_qps, None) => { strong { "≥ " (count(least_qps)) } }
            }
            " q/s"
        }
    }
}

fn answers(results: &Results) -> Markup {
    html! {
        dl.answers {
            @if let Some(found) = results.found() { (median(results, found)) }
            @if let Some(trial) = &results.latency_trial { (latency(trial)) }
            @if let Some(found) = &results.bottleneck { (answer("What limited it", &upper_first(found.cause.as_str()), &upper_first(&found.evidence))) }
            @if let Some(each) = memory_of_each(results) { (answer("Server's memory for each", &octets(each), "the most of the trials that passed")) }
            @if results.found().is_some() { (answer("How sure we are", &sureness(results), &confidence(results))) }
        }
    }
}

fn median(results: &Results, summary: &Summary) -> Markup {
    let sought = results.sought();
    let highest = sought.in_words(summary.p99);
    let spread = format!("{} {highest}; dispersion {}", p99_name(summary.n), percent(summary.dispersion_pct));
    answer("Median of the runs", &sought.mean_in_words(summary.median), &spread)
}

fn latency(trial: &Trial) -> Markup {
    let times = &trial.latency_ns;
    let name = format!("Latency at half the rate, {}", rate_of(trial.rate_qps));
    if trial.valid == 0 {
        return answer(&name, "no valid answer", "");
    }
    let tail = format!(
        "99 % within {}, 99.9 % within {}, slowest {}",
        time_of(times.p99),
        time_of(times.p999),
        time_of(times.max)
    );
    answer(&name, &format!("{} median", time_of(times.p50)), &tail)
}

fn sureness(results: &Results) -> String {
    let (kept, of) = kept(results);
    match (results.found(), of) {
        (Some(summary), 0) => plural(summary.n, "run", "runs"),
        (Some(summary), _) => {
            format!("{}; RFC 8219: {} of {} kept", plural(summary.n, "run", "runs"), real(kept as f64, 0), of)
        }
        (None, _) => String::new(),
    }
}

fn answer(name: &str, value: &str, detail: &str) -> Markup {
    html! { div { dt { (unbroken(name)) } dd { strong { (unbroken(value)) } span { (unbroken(detail)) } } } }
}

fn warnings(caveats: &[Caveat]) -> Markup {
    html! {
        @if !caveats.is_empty() {
            ul.caveats aria-label="What to mind" {
                @for caveat in caveats {
                    li.(class(caveat.severity)) { strong { (upper_first(&caveat.title)) ". " } (unbroken(&caveat.text)) }
                }
            }
        }
    }
}

/// The class of a severity, also of findings.
pub fn class(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Fatal => "fatal",
    }
}
