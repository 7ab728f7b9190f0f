//! What the record says, in plain sentences. Text, HTML and LaTeX all speak through here.

use std::time::Duration;

use engine::record::{Outcome, Results, Severity, State, Summary};

use super::number::{NONE, brief_percent, percent, plural, rate, rate_of, seconds, short, time_of};
use super::select::{Tally, every_trial};

/// RFC 8219 9: a trial SHOULD last at least this long, in seconds.
const TRIAL_S: f64 = 60.0;
/// RFC 8219 9: a search SHOULD be repeated at least this often.
const REPETITIONS: usize = 20;
/// RFC 8219 9: no longer timeout SHOULD be used, in seconds.
const TIMEOUT_S: f64 = 1.0;

/// Something the reader must know before believing the numbers.
pub struct Caveat {
    /// How much it matters.
    pub severity: Severity,
    /// In a few words.
    pub title: String,
    /// What it means, in a sentence or two.
    pub text: String,
}

fn caveat(severity: Severity, title: impl Into<String>, text: impl Into<String>) -> Caveat {
    Caveat { severity, title: title.into(), text: text.into() }
}

/// The server and its version.
pub fn dut_name(results: &Results) -> String {
    let name = if results.dut.name.is_empty() { "the server" } else { &results.dut.name };
    if results.dut.version.is_empty() || results.dut.version.contains(name) {
        let longer = if results.dut.version.is_empty() { name } else { &results.dut.version };
        return longer.to_owned();
    }
    format!("{name} {}", results.dut.version)
}

/// `P1 (= min, n = 3)`: with up to 100 values the first percentile is the smallest (RFC 2330 11.3).
pub fn p1_name(n: usize) -> String {
    if n <= 100 { format!("P1 (= min, n = {n})") } else { format!("P1 (n = {n})") }
}

/// `P99 (= max, n = 3)`: below 100 values it is the largest.
pub fn p99_name(n: usize) -> String {
    if n < 100 { format!("P99 (= max, n = {n})") } else { format!("P99 (n = {n})") }
}

/// The result in plain words: the record's own verdict, or one made from its numbers.
pub fn verdict(results: &Results) -> String {
    if let Some(verdict) = results.verdict.as_ref().filter(|text| !text.trim().is_empty()) {
        return verdict.clone();
    }
    let Some(summary) = &results.summary else { return without_summary(results) };
    let mut text = rate_sentence(&dut_name(results), summary);
    if let Some(trial) = results.latency_trial.as_ref().filter(|trial| trial.valid > 0) {
        text += &format!(
            " At {}, half of the answers came within {} and 99 of 100 within {}.",
            rate_of(trial.rate_qps),
            time_of(trial.latency_ns.p50),
            time_of(trial.latency_ns.p99)
        );
    }
    match &results.bottleneck {
        Some(found) if found.cause != "unattributed" => {
            text + &format!(" What limited the rate: {}.", found.cause)
        }
        _ => text + " The counters do not tell what limited the rate.",
    }
}

fn rate_sentence(name: &str, summary: &Summary) -> String {
    if summary.n == 1 {
        return format!("{name} answered {} without losing a query, in one run.", rate_of(summary.p1));
    }
    format!(
        "{name} answered {} without losing a query in {} {} (median {}; the runs lie {} apart).",
        rate_of(summary.p1),
        if summary.n <= 100 { "every one of" } else { "99 % of" },
        plural(summary.n, "run", "runs"),
        rate(summary.median),
        percent(summary.dispersion_pct),
    )
}

fn without_summary(results: &Results) -> String {
    let found: Vec<String> =
        results.runs.iter().filter(|run| run.qps > 0).map(|run| rate_of(run.qps)).collect();
    let end = match &results.state {
        State::Running => "The measurement has not ended yet.".to_owned(),
        State::Complete if results.runs.is_empty() => "The measurement held no search.".to_owned(),
        State::Complete => "No run found a rate without loss.".to_owned(),
        State::Interrupted => "The measurement was interrupted.".to_owned(),
        State::Failed(reason) => format!("The measurement failed: {}.", reason.trim_end_matches('.')),
    };
    match (&results.selftest, found.as_slice()) {
        (_, [_, ..]) => format!("{end} Highest rates that passed so far: {}.", found.join(", ")),
        (Some(test), []) if test.passed => {
            format!(
                "{end} The self-test passed: this Tester is fit to measure up to {}.",
                rate_of(test.certified_qps)
            )
        }
        (Some(_), []) => format!("{end} The self-test did not pass."),
        (None, []) => format!("{end} No rate was found."),
    }
}

/// How far the rate can be trusted, in one or two sentences.
pub fn confidence(results: &Results) -> String {
    let Some(summary) = &results.summary else { return "There is no rate to be sure of.".to_owned() };
    let mut text = if summary.n == 1 {
        "One run says nothing about repeatability.".to_owned()
    } else {
        format!("{} lie {} apart.", plural(summary.n, "run", "runs"), percent(summary.dispersion_pct))
    };
    text += &format!(" Each search stopped within {}.", rate_of(summary.stop_width_qps));
    match &summary.median_interval {
        Some(interval) => {
            text += &format!(
                " The median lies between {} and {} with {} confidence.",
                rate_of(interval.low),
                rate_of(interval.high),
                brief_percent(interval.confidence_pct)
            );
        }
        None => text += " So few runs allow no confidence interval.",
    }
    text
}

/// Everything the reader must know, worst first.
pub fn caveats(results: &Results) -> Vec<Caveat> {
    let mut all = Vec::new();
    all.extend(state_caveat(results));
    all.extend(selftest_caveat(results));
    all.extend(ceiling_caveat(results));
    all.extend(trust_caveats(results));
    let short_of = deviations(results);
    if !short_of.is_empty() {
        let text = format!("{}. Not a full RFC 8219 result: take it as an estimate.", short_of.join("; "));
        all.push(caveat(Severity::Warning, "Shorter than RFC 8219 asks", upper_first(&text)));
    }
    let bad = |finding: &&engine::record::Finding| finding.severity != Severity::Info;
    let bad = results.environment.findings.iter().filter(bad).count();
    if bad > 0 {
        let text = "The machine may limit or disturb a measurement; see the environment.";
        all.push(caveat(Severity::Warning, plural(bad, "finding", "findings"), text));
    }
    all.sort_by_key(|caveat| std::cmp::Reverse(caveat.severity));
    all
}

fn state_caveat(results: &Results) -> Option<Caveat> {
    let done = results.runs.iter().filter(|run| run.complete).count();
    let came = format!(
        "{} of {} were completed",
        done,
        plural(results.settings.repetitions as usize, "run", "runs")
    );
    match &results.state {
        State::Complete => None,
        State::Running => {
            let text =
                format!("It runs, or it ended without a word; {came}. The numbers are what is known so far.");
            Some(caveat(Severity::Warning, "Not finished", text))
        }
        State::Interrupted => {
            let text = format!(
                "Somebody ended the measurement; {came}. The numbers are what was measured until then."
            );
            Some(caveat(Severity::Warning, "Interrupted", text))
        }
        State::Failed(reason) => {
            Some(caveat(Severity::Fatal, "Failed", format!("{}; {came}.", reason.trim_end_matches('.'))))
        }
    }
}

fn selftest_caveat(results: &Results) -> Option<Caveat> {
    match &results.selftest {
        Some(test) if test.passed => None,
        Some(test) if test.certified_qps > 0 => Some(caveat(
            Severity::Fatal,
            "Self-test not passed",
            format!(
                "The Tester did not reach the {} it needs for the highest rate of the search. It is fit to measure \
                 up to {}; do not trust rates above.",
                rate_of(test.required_qps),
                rate_of(test.certified_qps)
            ),
        )),
        Some(test) => Some(caveat(
            Severity::Fatal,
            "Self-test not passed",
            format!(
                "The Tester did not reach the {} it needs: no rate here can be trusted.",
                rate_of(test.required_qps)
            ),
        )),
        None if results.runs.is_empty() => None,
        None => Some(caveat(
            Severity::Warning,
            "No self-test",
            "RFC 8219 9.2.1 asks for one before any rate is measured: the Tester may be the limit.",
        )),
    }
}

fn ceiling_caveat(results: &Results) -> Option<Caveat> {
    let hit = results.runs.iter().filter(|run| run.at_ceiling).count();
    let certified = results.selftest.as_ref().map_or(0, |test| test.certified_qps);
    let beyond = results.runs.iter().filter(|run| certified > 0 && run.qps > certified).count();
    if hit > 0 {
        let text = format!(
            "{} passed at the highest rate that the search may try ({}): the true rate may be higher.",
            plural(hit, "run", "runs"),
            rate_of(results.settings.rate_range_qps[1])
        );
        return Some(caveat(Severity::Warning, "At the ceiling", text));
    }
    (beyond > 0).then(|| {
        let text = format!(
            "{} found a rate above the {} for which this Tester is certified.",
            plural(beyond, "run", "runs"),
            rate_of(certified)
        );
        caveat(Severity::Fatal, "Beyond the certificate", text)
    })
}

fn trust_caveats(results: &Results) -> Vec<Caveat> {
    let mut all = Vec::new();
    let trials = every_trial(results);
    let tally = Tally::of(trials.iter().filter(|entry| entry.phase == "search").map(|entry| entry.trial));
    if tally.void * 4 > tally.total() {
        let text = "The Tester was too often at fault: it needs a quieter machine or a lower ceiling.";
        all.push(caveat(Severity::Warning, format!("{} of {} trials void", tally.void, tally.total()), text));
    }
    if let Some(trial) = results.latency_trial.as_ref().filter(|trial| trial.outcome != Outcome::Pass) {
        let why = trial.void.as_deref().unwrap_or("the server left queries unanswered although it had time");
        let text = format!("At {}: {}.", rate_of(trial.rate_qps), why.trim_end_matches('.'));
        all.push(caveat(Severity::Warning, "The latency trial did not pass", text));
    }
    let inversions: u64 = results.runs.iter().map(|run| u64::from(run.loss_inversions)).sum();
    if inversions > 0 {
        let text =
            "A lower rate failed where a higher one passed: losses came and went, so the rate is uncertain.";
        all.push(caveat(
            Severity::Info,
            plural(inversions as usize, "loss inversion", "loss inversions"),
            text,
        ));
    }
    if results.settings.validity == "compat" {
        let text = "Any NOERROR answer with a record counted as valid, right or wrong, as in dns64perf++.";
        all.push(caveat(Severity::Info, "Compatible validity", text));
    }
    all
}

/// Where the measurement asks less than RFC 8219 does, in short clauses.
pub fn deviations(results: &Results) -> Vec<String> {
    let settings = &results.settings;
    let mut all = Vec::new();
    if settings.trial_s > 0.0 && settings.trial_s < TRIAL_S {
        all.push(format!("trials lasted {} where {} are asked", seconds(settings.trial_s), seconds(TRIAL_S)));
    }
    let n = results.summary.as_ref().map_or(settings.repetitions as usize, |summary| summary.n);
    if n < REPETITIONS && !(n == 0 && results.runs.is_empty()) {
        all.push(format!("{} where {REPETITIONS} are asked", plural(n, "repetition", "repetitions")));
    }
    if settings.timeout_s > TIMEOUT_S {
        all.push(format!("a timeout of {} where at most 1 s is asked", seconds(settings.timeout_s)));
    }
    all
}

/// How many requirements are kept, of those that apply.
pub fn kept(results: &Results) -> (usize, usize) {
    let applies = results.checklist.iter().filter_map(|requirement| requirement.kept);
    applies.fold((0, 0), |(kept, all), is_kept| (kept + usize::from(is_kept), all + 1))
}

/// From start to finish.
pub fn took(results: &Results) -> Option<Duration> {
    let at = |text: &str| humantime::parse_rfc3339(text).ok();
    at(results.finished_utc.as_deref()?)?.duration_since(at(&results.started_utc)?).ok()
}

/// An RFC 3339 instant as a person reads it; anything else unchanged.
pub fn instant(text: &str) -> String {
    if text.is_empty() {
        return NONE.to_owned();
    }
    match humantime::parse_rfc3339(text) {
        Ok(at) => humantime::format_rfc3339_seconds(at).to_string().replace('T', " ").replace('Z', " UTC"),
        Err(_) => text.to_owned(),
    }
}

/// The command line, quoted for a POSIX shell.
pub fn command_line(command: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,+@%[]".contains(c))
    };
    let quoted = command.iter().map(|word| {
        // Brackets are patterns to a shell, but only match files that nobody has; quoting them is safer still.
        if plain(word) && !word.contains('[') {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// How the measurement was made, a paragraph each.
pub fn method(results: &Results) -> Vec<String> {
    let settings = &results.settings;
    let search = match settings.search.as_str() {
        "rfc8219" => {
            "Bisection: a trial that passes raises the lower bound, one that fails lowers the upper bound"
        }
        "verify" => "Bisection with verification: only a rate that failed twice lowers the upper bound",
        "fixed" => "The rate was given, not searched",
        _ => "A search raised the rate after trials that passed and lowered it after trials that failed",
    };
    let rule = if settings.validity == "compat" {
        "a NOERROR response with any answer record"
    } else {
        "the AAAA record that the prefix and the name demand"
    };
    vec![
        format!(
            "Every query asks for the AAAA record of another name of {} under {}, so that no cache can help. The server \
             must ask the AuthDNS for a AAAA record, learn that there is none, ask for the A record, and build the answer.",
            settings.names, settings.suffix
        ),
        format!(
            "A trial sends queries at a constant rate for {}. The schedule never waits for answers, and latency counts \
             from the instant at which a query was due. An answer is valid if it comes within {} and holds {rule}. A \
             trial passes only if every query got a valid answer.",
            seconds(settings.trial_s),
            seconds(settings.timeout_s)
        ),
        "A trial in which the Tester itself was late, could not send, or dropped answers is void: it is \
         never held against the server."
            .to_owned(),
        format!(
            "{search}, until the bounds are closer than {} %. The search is repeated {}; the safe rate is the first \
             percentile of the rates found, the typical one is their median.",
            short(settings.width_pct),
            if settings.repetitions == 1 { "once".to_owned() } else { format!("{} times", settings.repetitions) },
        ),
        "Before that, the self-test of RFC 8219 9.2.1 sent the Tester's queries to its own AuthDNS without the server, \
         at 2.2 times the highest rate and with a quarter of the timeout, to show that the Tester is not the limit."
            .to_owned(),
    ]
}

/// With a capital first letter.
pub fn upper_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
