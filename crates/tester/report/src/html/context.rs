//! The context of the measurement: self-test, settings, server, machine.

use maud::{Markup, html};
use record::{Attempt, Fact, Finding, Results, SelfTest, Severity, Sought, Trial};

use super::facts;
use super::verdict::class;
use super::{missing, trials};
use crate::clean::{shortened, unbroken};
use crate::select::{Entry, Phase, every_trial};
use crate::table::{Cell, Column, Table, table};
use crate::words::{attempt_outcome, attempted, certified, part, transport, upper_first};
use record::number::{count, octets, plural, rate_of, seconds, short};

/// The certificate of RFC 8219 9.2.1.
pub fn selftest(results: &Results) -> Markup {
    let Some(test) = &results.selftest else {
        if results.sought() == Sought::Connections {
            return missing("No self-test tells how many connections the Tester can hold.");
        }
        return missing("No self-test was run: nothing shows that the Tester is not the limit.");
    };
    let entries = selftest_trials(results);
    html! {
        p.certificate.(if test.passed { "kept" } else { "broken" }) { (certificate(test)) }
        (facts(&[
            (required_name(test), rate_of(test.required_qps)),
            ("Answers counted within", seconds(test.timeout_s)),
            ("Certified up to", rate_of(test.certified_qps)),
            ("Certificate of an earlier self-test", earlier(test)),
            ("Schedule in the deciding trial", if test.pacing.is_empty() { "kept".into() } else { test.pacing.clone() }),
        ]))
        @if !test.attempts.is_empty() { (attempts(test)) }
        @if !entries.is_empty() {
            details open[entries.len() <= 8] {
                summary { (plural(entries.len(), "trial", "trials")) " of the self-test" }
                (trials_of_selftest(&entries))
            }
        }
    }
}

/// Those of the self-test and of the machine.
pub fn tables(results: &Results) -> Vec<Table> {
    let entries: Vec<_> = selftest_trials(results);
    let changed = changed(results);
    let tests = (!entries.is_empty()).then(|| trials_of_selftest(&entries));
    let attempts = results.selftest.iter().filter(|test| !test.attempts.is_empty()).map(attempts);
    let changes = (!changed.is_empty()).then(|| changes(&changed));
    attempts.chain(tests).chain(changes).collect()
}

fn selftest_trials(results: &Results) -> Vec<Entry<'_>> {
    every_trial(results).into_iter().filter(|entry| entry.phase == Phase::SelfTest).collect()
}

/// What came of each trial by the rule of the self-test.
fn attempts(test: &SelfTest) -> Table {
    let columns = [
        Column("Trial", true),
        Column("Attempt at the rate", true),
        Column("Part", false),
        Column("Rate, q/s", true),
        Column("Length", true),
        Column("Outcome", false),
    ];
    let row = |(index, (attempt, trial)): (usize, (&Attempt, &Trial))| {
        vec![
            Cell::count(index as u64 + 1),
            Cell::count(attempt.number.into()),
            Cell::text(part(attempt.part)),
            Cell::count(trial.rate_qps),
            Cell::number(&seconds(trial.duration_s), trial.duration_s).in_unit("s"),
            Cell::text(&shortened(&attempt_outcome(attempt), 240)),
        ]
    };
    table("Attempts of the self-test", &columns, attempted(test).enumerate().map(row).collect())
        .named("attempts")
}

fn trials_of_selftest(entries: &[Entry<'_>]) -> Table {
    trials::table_of("Trials of the self-test, the deciding one last", entries, Sought::Rate)
        .named("selftest")
}

/// What differs after the measurement.
fn changed(results: &Results) -> Vec<&Fact> {
    results.environment.facts.iter().filter(|fact| fact.after.is_some()).collect()
}

/// The certificate that was relied on, or why none was.
fn earlier(test: &SelfTest) -> String {
    match &test.certificate {
        Some(used) => format!("{} ({})", certified(test), used.file),
        None if test.uncertified.is_empty() => "none".into(),
        None => format!("none held: {}", test.uncertified),
    }
}

fn required_name(test: &SelfTest) -> &'static str {
    match (&test.certificate, test.trials.as_slice()) {
        (Some(_), []) => "Rate of the earlier self-test",
        _ => "Rate it must reach, 2.2 times the highest rate of the search",
    }
}

fn certificate(test: &SelfTest) -> Markup {
    let required = rate_of(test.required_qps);
    let (word, text) = match (test.passed, test.certified_qps) {
        // What confirms it may have been slower than what it certifies.
        (true, _) if test.certificate.is_some() => ("✓ Passed before. ", upper_first(&certified(test)) + "."),
        (true, certified) => {
            let fit = rate_of(certified);
            let text = "Without a server between, this Tester answered itself at";
            ("✓ Passed. ", format!("{text} {required}: it is fit to measure servers up to {fit}."))
        }
        (false, 0) => ("✕ Not passed. ", "This Tester is not fit to measure any rate.".to_owned()),
        (false, certified) => {
            let fit = rate_of(certified);
            (
                "✕ Not passed. ",
                format!("This Tester did not reach {required}. It is fit to measure up to {fit}."),
            )
        }
    };
    html! { strong { (word) } (unbroken(&text)) }
}

pub fn settings(results: &Results) -> Markup {
    let asked = &results.settings;
    let (rates, standing) = (asked.rate_range_qps, asked.connections_range);
    let width = match asked.width_pct {
        pct if pct > 0.0 => format!("{} % of the lower bound", short(pct)),
        _ => "as narrow as whole numbers allow".to_owned(),
    };
    let processors = numbers(&asked.tester_cpus);
    facts(&[
        ("Preset", asked.preset.clone()),
        ("Search", asked.search.to_string()),
        ("Repetitions", count(u64::from(asked.repetitions))),
        ("Length of a trial", seconds(asked.trial_s)),
        ("Timeout", seconds(asked.timeout_s)),
        ("Pause between trials", seconds(asked.settle_s)),
        ("Stop width", width),
        (
            "Connections of the search",
            standing.map(|range| Sought::Connections.range_in_words(range)).unwrap_or_default(),
        ),
        ("Rate of its trials", standing.map(|_| rate_of(rates[1])).unwrap_or_default()),
        (
            "Rates of the search",
            if standing.is_none() { Sought::Rate.range_in_words(rates) } else { String::new() },
        ),
        ("Names", format!("{} under {}, from number {}", asked.names, asked.suffix, count(asked.first_name))),
        ("DNS64 prefix", asked.prefix.clone()),
        ("Validity", asked.validity.to_string()),
        ("Names with AAAA", format!("{} %", asked.aaaa_share_pct)),
        ("Names cached", format!("{} %", asked.cached_share_pct)),
        ("TTL", asked.ttl_s.map(|ttl| seconds(f64::from(ttl))).unwrap_or_default()),
        ("Threads of the Measurer", count(asked.threads as u64)),
        ("Source ports", count(asked.source_ports as u64)),
        ("I/O", asked.io.clone()),
        ("Transport", asked.transport.as_ref().map(transport).unwrap_or_default()),
        ("Processors of the Tester", processors),
        ("AuthDNS", asked.auth.clone()),
        ("Path", asked.path.clone()),
    ])
}

fn numbers(processors: &[usize]) -> String {
    processors.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// The device under test and its configuration.
pub fn server(results: &Results) -> Markup {
    let dut = &results.dut;
    html! {
        (facts(&[
            ("Name", dut.name.clone()),
            ("Version", dut.version.clone()),
            ("Asked at", dut.address.clone()),
            ("Processors", numbers(&dut.cpus)),
            ("Names in its zone", dut.zone_names.map_or_else(String::new, count)),
            ("Start to first answer", dut.start_s.map_or_else(String::new, seconds)),
            ("Memory then", dut.start_memory_octets.map_or_else(String::new, octets)),
        ]))
        @match &dut.configuration {
            Some(text) => details { summary { "Its configuration" } pre tabindex="0" { code { (text) } } },
            None => (missing("Its configuration is not ours and is not known.")),
        }
    }
}

/// Findings, what changed during the measurement, then all facts.
pub fn environment(results: &Results) -> Markup {
    let machine = &results.environment;
    let changed = changed(results);
    if machine.facts.is_empty() && machine.findings.is_empty() {
        return missing("Nothing of the machine was recorded.");
    }
    html! {
        (findings(&machine.findings))
        @if changed.is_empty() {
            p { "Nothing recorded here changed between the start and the end." }
        } @else {
            (changes(&changed))
        }
        details open[machine.facts.len() <= 40] {
            summary { "All facts of the machine" }
            (all_facts(&machine.facts))
        }
    }
}

/// What may disturb stands out; the rest was looked at and is listed.
fn findings(all: &[Finding]) -> Markup {
    let (good, bad): (Vec<&Finding>, Vec<&Finding>) =
        all.iter().partition(|found| found.severity == Severity::Info);
    let good: Vec<(&str, String)> = good.iter().map(|found| (found.what.as_str(), seen(found))).collect();
    html! {
        @if bad.is_empty() {
            p { "Nothing was found that may limit or disturb a measurement." }
        } @else {
            ul.findings { @for found in bad { (finding(found)) } }
        }
        @if !good.is_empty() {
            h3 { "Good to know" }
            (facts(&good))
        }
    }
}

fn seen(found: &Finding) -> String {
    let remedy = if found.remedy.is_empty() { String::new() } else { format!(" ({})", found.remedy) };
    format!("{}{remedy}", found.evidence)
}

fn finding(finding: &Finding) -> Markup {
    let word =
        if finding.severity == Severity::Fatal { "Nothing can be measured so" } else { "Results may suffer" };
    html! {
        li.(class(finding.severity)) {
            strong { (word) ": " (finding.what.trim_end_matches('.')) ". " }
            @if !finding.evidence.is_empty() { span.evidence { (finding.evidence) } }
            @if !finding.remedy.is_empty() { span.remedy { "Remedy: " (finding.remedy) } }
        }
    }
}

fn changes(changed: &[&Fact]) -> Table {
    let row = |fact: &&Fact| {
        let after = fact.after.as_deref().unwrap_or("");
        vec![Cell::text(&fact.name), Cell::text(&fact.group), Cell::text(&fact.before), Cell::text(after)]
    };
    let columns =
        [Column("Fact", false), Column("Of", false), Column("Before", false), Column("After", false)];
    table("What differs after the measurement", &columns, changed.iter().map(row).collect())
        .named("environment-changes")
}

fn all_facts(all: &[Fact]) -> Markup {
    let groups = all.chunk_by(|a, b| a.group == b.group);
    html! {
        @for group in groups {
            h3 { (group[0].group) }
            dl.facts {
                @for fact in group {
                    div {
                        dt { (fact.name) }
                        dd { (fact.before) @if let Some(after) = &fact.after { em.changed { " → " (after) } } }
                    }
                }
            }
        }
    }
}
