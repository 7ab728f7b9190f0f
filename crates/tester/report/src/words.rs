//! The sentences about a record. Text, HTML and LaTeX all take their sentences from this module.

use std::time::Duration;

use record::{
    Attempt, AttemptPart, Cause, CertificateUse, Dut, Results, Run, SelfTest, Sought, State, Summary,
    Transport, Trial,
};

use super::bounds::unseen;
use super::clean::printable;
use super::connections::connections_sentence;
use super::goals::{may_lose, without};
use super::held::held;
use super::interval::{interval, interval_sentence};
use super::select::{Tally, deciding_failure};
use record::limits::VOID_SHARE;
use record::number::{NONE, brief_percent, count, percent, plural, rate_of, seconds, time_of};

/// The server and its version; where it is not ours and states none, its address.
pub(crate) fn dut_name(results: &Results) -> String {
    let dut = &results.dut;
    let known = !dut.name.is_empty() && dut.name != Dut::EXTERNAL;
    match (known, dut.version.as_str()) {
        (true, "") => dut.name.clone(),
        (true, version) if version.contains(&dut.name) => version.to_owned(),
        (true, version) => format!("{} {version}", dut.name),
        (false, "") if dut.address.is_empty() => "the server".to_owned(),
        (false, "") => format!("the server at {}", dut.address),
        (false, version) => version.to_owned(),
    }
}

/// How the queries were carried, and by which connections.
pub(crate) fn transport(transport: &Transport) -> String {
    let Transport { protocol, connections, pipelined, idle_s, certificate, resumption, request, .. } =
        transport;
    let mut parts = vec![protocol.clone()];
    if *connections > 0 {
        parts.push(format!("{} at a time", plural(*connections, "connection", "connections")));
    }
    if !request.is_empty() {
        parts.push(request.clone());
    }
    parts.extend(transport.queries_in_words());
    if !pipelined {
        parts.push("one query at a time".to_owned());
    }
    parts.extend(idle_s.map(|idle_s| format!("closed when idle for {}", seconds(idle_s))));
    if !certificate.is_empty() {
        parts.push(format!("certificate {certificate}"));
    }
    if *resumption {
        parts.push("sessions resumed".to_owned());
    }
    parts.join(", ")
}

/// ` over DoT`; nothing where queries went in datagrams.
fn over(results: &Results) -> String {
    let transport = results.settings.transport.as_ref();
    transport.map(|transport| format!(" over {}", transport.protocol_in_words())).unwrap_or_default()
}

/// What the self-test certifies, and on what grounds.
pub fn certified(test: &SelfTest) -> String {
    let fit = rate_of(test.certified_qps);
    let made = attempts(test);
    if !test.passed {
        let of = if made > 1 { format!(" in {made} attempts") } else { String::new() };
        return format!("not passed{of}; certified up to {fit}");
    }
    let at = if made > 1 { format!(" at the {} of {made} attempts", ordinal(made)) } else { String::new() };
    match &test.certificate {
        Some(CertificateUse { issued_utc, required_qps, trial_s, path, .. }) => {
            let issued = instant(issued_utc);
            let (required, lasting) = (rate_of(*required_qps), seconds(*trial_s));
            let confirmed = match test.trials.as_slice() {
                [] => String::new(),
                _ => format!(", confirmed now at {}{at}", rate_of(test.required_qps)),
            };
            format!(
                "this Tester is certified to {fit} on this machine, this path ({path}), this day: {required} for {lasting} \
                 on {issued}{confirmed}"
            )
        }
        None if test.uncertified.is_empty() => format!("passed{at}; certified up to {fit}"),
        None => format!("passed{at}; certified up to {fit}. No kept certificate held: {}", test.uncertified),
    }
}

/// How many attempts the self-test took, at all rates: each ends with the trial that decides it, or with a
/// first look that failed.
fn attempts(test: &SelfTest) -> usize {
    test.attempts.iter().filter(|attempt| attempt.part != AttemptPart::Look || !attempt.passed()).count()
}

/// Each trial of the self-test with what came of it, in the order in which they were run.
pub(crate) fn attempted(test: &SelfTest) -> impl Iterator<Item = (&Attempt, &Trial)> {
    test.attempts.iter().zip(&test.trials)
}

/// The same in words, a line for each.
pub fn attempt_lines(test: &SelfTest) -> Vec<String> {
    let line = |(attempt, trial): (&Attempt, &Trial)| {
        let (rate, length) = (rate_of(trial.rate_qps), seconds(trial.duration_s));
        let (part, outcome) = (part(attempt.part), attempt_outcome(attempt));
        format!("attempt {}, {part} at {rate} for {length}: {outcome}", attempt.number)
    };
    attempted(test).map(line).collect()
}

/// What a trial of the self-test was for.
pub(crate) fn part(part: AttemptPart) -> &'static str {
    match part {
        AttemptPart::Look => "first look",
        AttemptPart::Decide => "deciding trial",
        AttemptPart::Confirm => "confirmation",
    }
}

/// What came of it.
pub(crate) fn attempt_outcome(attempt: &Attempt) -> String {
    match attempt.failed.as_str() {
        "" => "passed".into(),
        why => format!("failed, {why}"),
    }
}

/// `1st`, `2nd`, `3rd`, `4th`.
fn ordinal(number: usize) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

/// What the lowest load of the runs is called: a rate is safe only if it held in every trial.
pub(crate) fn load_name(results: &Results, summary: &Summary) -> &'static str {
    if results.sought() == Sought::Connections {
        return "Standing connections";
    }
    if held(results, summary.p1).is_everywhere() { "Safe rate" } else { "Rate found" }
}

/// `P1 (= min, n = 3)`: with up to 100 values the first percentile is the smallest (RFC 2330 11.3).
pub(crate) fn p1_name(n: usize) -> String {
    if n <= 100 { format!("P1 (= min, n = {n})") } else { format!("P1 (n = {n})") }
}

/// `P99 (= max, n = 3)`: below 100 values it is the largest.
pub(crate) fn p99_name(n: usize) -> String {
    if n < 100 { format!("P99 (= max, n = {n})") } else { format!("P99 (n = {n})") }
}

/// The result in plain words. It is made from the trials of the record, also where the record has a sentence
/// of its own: an older program may have said what these trials contradict.
pub fn verdict(results: &Results) -> String {
    printable(unchecked_verdict(results))
}

fn unchecked_verdict(results: &Results) -> String {
    let mut text = match (results.found(), interval(results)) {
        (Some(found), _) if results.sought() == Sought::Connections => {
            let spread = spread(found, Sought::Connections);
            connections_sentence(results, found, (&dut_name(results), &over(results), &spread))
        }
        (Some(summary), _) => rate_sentence(results, summary),
        (None, Some(found)) => interval_sentence(&dut_name(results), results, &found),
        (None, None) => return without_summary(results),
    };
    for said in [ended_by_voids(results), mostly_void(results)].into_iter().flatten() {
        text += &format!(" {said}");
    }
    if let Some(trial) = results.latency_trial.as_ref().filter(|trial| trial.valid > 0) {
        text += &format!(
            " At {}, half of the answers came within {} and 99 of 100 within {}.",
            rate_of(trial.rate_qps),
            time_of(trial.latency_ns.p50),
            time_of(trial.latency_ns.p99)
        );
    }
    match &results.bottleneck {
        Some(found) if (results.sought(), &found.cause) == (Sought::Connections, &Cause::Connections) => {
            text + " Beyond this number the server refused connections, ended them or left them unfinished."
        }
        Some(found) if found.cause != Cause::Unattributed => {
            text + &format!(" What limited the {}: {}.", results.sought().noun(), found.cause)
        }
        _ => text + &format!(" The counters do not tell what limited the {}.", results.sought().noun()),
    }
}

fn rate_sentence(results: &Results, summary: &Summary) -> String {
    let (name, over) = (dut_name(results), over(results));
    if summary.p1 == 0 {
        let without = results.runs.iter().filter(|run| run.complete && run.qps == 0).count();
        let runs = plural(summary.n, "run", "runs");
        return format!(
            "No rate passed for {name}{over} in {without} of {runs}{}.",
            spread(summary, Sought::Rate)
        );
    }
    let safe =
        if at_ceiling(results) { format!("at least {}", rate_of(summary.p1)) } else { rate_of(summary.p1) };
    let held = held(results, summary.p1);
    let each = if summary.n <= 100 { "every one of" } else { "99 % of" };
    let runs = match summary.n {
        1 => "one run".to_owned(),
        n => format!("{each} {}", plural(n, "run", "runs")),
    };
    let spread = spread(summary, Sought::Rate);
    let words = held.words();
    if held.is_everywhere() || may_lose(results) {
        let without = without(results);
        return format!("{name} answered {safe}{over} {without} in {runs}{spread}. The rate held {words}.");
    }
    if held.trials == 0 {
        return format!("{name} answered {safe}{over} in {runs}{spread}. The rate held {words}.");
    }
    let found = match summary.n {
        1 => "One run found that rate".to_owned(),
        _ => format!("{} found that rate or a higher one", upper_first(&runs)),
    };
    format!("{name} answered {safe}{over}, but not in every trial: the rate held {words}. {found}{spread}.")
}

/// How the loads of several runs differ, in parentheses.
fn spread(summary: &Summary, sought: Sought) -> String {
    match summary.n {
        0 | 1 => String::new(),
        _ => format!(
            " (median {}; the runs lie {} apart)",
            sought.mean_in_words(summary.median),
            percent(summary.dispersion_pct)
        ),
    }
}

/// Which searches void trials ended, and between which bounds their loads lie. `None` also where the bounds
/// of all together are the result.
pub(crate) fn ended_by_voids(results: &Results) -> Option<String> {
    if interval(results).is_some() {
        return None;
    }
    let ended: Vec<(usize, u64, &Run)> = (results.runs.iter().enumerate())
        .filter_map(|(index, run)| Some((index + 1, run.ended_by_voids()?, run)))
        .collect();
    let sought = results.sought();
    let noun = sought.noun();
    let one = |(number, void_load, run): &(usize, u64, &Run)| {
        let ended = format!("Void trials left {} undecided in run {number}", sought.in_words(*void_load));
        let passed = sought.in_words(run.found());
        match deciding_failure(run) {
            _ if run.found() == 0 => format!("{ended}, and no {noun} passed."),
            Some(failure) => {
                let failed = sought.in_words(sought.of_trial(failure));
                format!("{ended}: its {noun} lies between {passed} and {failed}.")
            }
            None => format!("{ended}: its {noun} is at least {passed}."),
        }
    };
    let named: Vec<String> = ended.iter().take(ENDED_NAMED).map(one).collect();
    let more = ended.len() - named.len();
    let more = (more > 0).then(|| format!("Void trials did so in {} more.", plural(more, "run", "runs")));
    (!ended.is_empty()).then(|| named.into_iter().chain(more).collect::<Vec<_>>().join(" "))
}

/// That a larger share of the searches' trials was void than may end a search: chance may have selected the
/// rate. The sentence of an interval counts them by itself.
fn mostly_void(results: &Results) -> Option<String> {
    let trials = results.runs.iter().flat_map(|run| &run.trials);
    let tally = Tally::of(trials);
    let is_most = tally.void as f64 * 100.0 > tally.total() as f64 * VOID_SHARE.value;
    (is_most && results.found().is_some()).then(|| {
        format!("{} of {} were void.", count(tally.void as u64), plural(tally.total(), "trial", "trials"))
    })
}

/// Searches that void trials ended and that are described one by one.
const ENDED_NAMED: usize = 3;

fn without_summary(results: &Results) -> String {
    let sought = results.sought();
    let noun = sought.noun();
    let found: Vec<String> =
        results.runs.iter().filter(|run| run.found() > 0).map(|run| sought.in_words(run.found())).collect();
    let end = match &results.state {
        State::Running => "The measurement has not ended yet.".to_owned(),
        State::Complete if results.runs.is_empty() => "The measurement had no search.".to_owned(),
        State::Complete if sought == Sought::Connections => {
            let void = ended_by_voids(results).unwrap_or_default();
            return format!("No search for connections came to its end. {void}").trim_end().to_owned();
        }
        State::Complete => "No run found a rate.".to_owned(),
        State::Interrupted => "The measurement was interrupted.".to_owned(),
        State::Failed(reason) if reason.is_empty() => "The measurement failed.".to_owned(),
        State::Failed(reason) => format!("The measurement failed: {}.", reason.trim_end_matches('.')),
    };
    match (&results.selftest, found.as_slice()) {
        (_, [_, ..]) if sought == Sought::Connections => {
            format!("{end} Numbers found so far: {}.", found.join(", "))
        }
        (_, [_, ..]) => format!("{end} Rates found so far: {}.", found.join(", ")),
        (Some(test), []) if test.passed => {
            format!(
                "{end} The self-test passed: this Tester is fit to measure up to {}.",
                rate_of(test.certified_qps)
            )
        }
        (Some(_), []) if matches!(results.state, State::Failed(_)) => end,
        (Some(_), []) => format!("{end} The self-test did not pass."),
        (None, []) => format!("{end} No {noun} was found."),
    }
}

/// Whether every run ended at the highest load it may try, so that the load found is only a lower bound.
pub fn at_ceiling(results: &Results) -> bool {
    !results.runs.is_empty() && results.runs.iter().all(|run| run.at_ceiling)
}

/// How far the load can be trusted, in one or two sentences.
pub fn confidence(results: &Results) -> String {
    let sought = results.sought();
    let Some(summary) = results.found() else {
        return format!("There is no {} to be sure of.", sought.noun());
    };
    let mut text = if summary.n == 1 {
        "One run says nothing about repeatability.".to_owned()
    } else {
        format!("{} lie {} apart.", plural(summary.n, "run", "runs"), percent(summary.dispersion_pct))
    };
    text += &format!(" Each search stopped within {}.", sought.in_words(summary.stop_width()));
    match &summary.median_interval {
        Some(interval) => {
            text += &format!(
                " The median lies between {} and {} with {} confidence.",
                sought.in_words(interval.low),
                sought.in_words(interval.high),
                brief_percent(interval.confidence_pct)
            );
        }
        None => text += " So few runs allow no confidence interval.",
    }
    if let Some(said) = unseen(results, summary.p1) {
        text += &format!(" {said}");
    }
    text
}

/// How many requirements are kept, of those that apply.
pub fn kept(results: &Results) -> (usize, usize) {
    let applies = results.checklist.iter().filter_map(|requirement| requirement.kept);
    applies.fold((0, 0), |(kept, all), is_kept| (kept + usize::from(is_kept), all + 1))
}

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
pub(crate) fn command_line(command: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,+@%[]".contains(c))
    };
    let quoted = command.iter().map(|word| {
        // Brackets are patterns to a shell, but only match files that nobody has; quoting them is safer
        // still.
        if plain(word) && !word.contains('[') {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// With a capital first letter.
pub(crate) fn upper_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attempt_of_a_self_test_is_said() {
        let attempt = |number, part, failed: &str| Attempt { number, part, failed: failed.into() };
        let why = "9 of 10 queries had their answer in time";
        let trial = Trial { rate_qps: 22_000, duration_s: 0.5, ..Trial::default() };
        let mut test = SelfTest {
            passed: true,
            certified_qps: 10_000,
            required_qps: 22_000,
            attempts: vec![
                attempt(1, AttemptPart::Confirm, why),
                attempt(1, AttemptPart::Look, why),
                attempt(2, AttemptPart::Look, ""),
                attempt(2, AttemptPart::Decide, ""),
            ],
            trials: vec![trial; 4],
            ..SelfTest::default()
        };
        assert_eq!(certified(&test), "passed at the 3rd of 3 attempts; certified up to 10,000 q/s");
        let lines = attempt_lines(&test);
        assert_eq!(lines.len(), 4);
        let failed = format!("attempt 1, confirmation at 22,000 q/s for 0.5 s: failed, {why}");
        assert_eq!((lines[0].as_str(), lines[3].ends_with(": passed")), (failed.as_str(), true));
        (test.passed, test.certified_qps) = (false, 0);
        test.attempts.truncate(2);
        assert_eq!(certified(&test), "not passed in 2 attempts; certified up to 0 q/s");
        (test.passed, test.attempts) = (true, Vec::new());
        assert_eq!(certified(&test), "passed; certified up to 0 q/s", "a record of an older program");
    }

    #[test]
    fn places_are_counted_as_people_do() {
        let said = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal);
        let expected = ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"];
        assert_eq!(said, expected);
    }
}
