//! The rows about the queries, their instants, and which answers count.

use record::limits::{LATENESS_MAX, LATENESS_P999, Limit, UNEVEN_WINDOWS, WINDOW_DEVIATION};
use record::number::count as grouped;
use record::{LoadModel, NameChoice, Outcome, Questions, Results, Trial, Validity};

use super::{
    Judgement, asked, counted, judged, kept, no_trial, not_kept, open, overlap, questions, repeats,
    templates, trials,
};

/// In the worst case a server asks the AuthDNS twice for each query: for AAAA and for A (RFC 8219 9). A
/// server that asked less often had some of it cached. The tenth allows for counters that are read a moment
/// early.
const QUESTIONS_PER_MISS_MIN: f64 = 1.9;

pub(super) fn constant_rate(results: &Results) -> Judgement {
    if counted(results).next().is_none() {
        return no_trial();
    }
    let loads = || counted(results).map(|trial| &trial.load).chain([&results.settings.load]);
    if let Some(load) = loads().find(|load| matches!(load, LoadModel::Other(_))) {
        return open(format!("the load '{load}' is not known"));
    }
    if let Some(load) = loads().find(|load| !load.is_constant()) {
        return not_kept(format!("the load was {load}"));
    }
    if counted(results).any(|trial| trial.closed_loop) {
        return not_kept("answers set the pace: the load was a closed loop");
    }
    let off_pct = counted(results).map(|trial| trial.windows.ms10.off_pct).fold(0.0, f64::max);
    let late = |of: fn(&Trial) -> u64| counted(results).map(of).max().unwrap_or(0);
    let (p999_ns, max_ns) =
        (late(|trial| trial.schedule_error_ns.p999), late(|trial| trial.schedule_error_ns.max));
    let timeout_ns = results.settings.timeout_s * 1e9;
    let within = |ns: u64, limit: &Limit| ns as f64 <= timeout_ns * limit.value / 100.0;
    let even =
        off_pct <= UNEVEN_WINDOWS.value && within(p999_ns, &LATENESS_P999) && within(max_ns, &LATENESS_MAX);
    let void = trials(results).filter(|trial| trial.outcome == Outcome::Void).count();
    let note = format!(
        "of the trials that count, the latest query was {:.1} ms late ({:.1} ms at p99.9), and at most {off_pct:.1} % of the 10 ms windows were more than {} % off; {void} trials were void",
        max_ns as f64 / 1e6,
        p999_ns as f64 / 1e6,
        WINDOW_DEVIATION.value
    );
    judged(even, note)
}

pub(super) fn trial_length(results: &Results) -> Judgement {
    let lengths_s = || counted(results).map(|trial| trial.duration_s);
    let (shortest_s, longest_s) =
        (lengths_s().fold(f64::INFINITY, f64::min), lengths_s().fold(0.0, f64::max));
    if shortest_s.is_infinite() {
        return no_trial();
    }
    let range =
        if shortest_s < longest_s { format!("{shortest_s} to {longest_s}") } else { shortest_s.to_string() };
    judged(shortest_s >= 60.0, format!("trials of {range} s"))
}

pub(super) fn timeout(results: &Results) -> Judgement {
    let seconds = results.settings.timeout_s;
    if seconds <= 0.0 {
        return open("the record does not say the timeout");
    }
    let slowest_s = counted(results).map(|trial| trial.latency_ns.max).max().unwrap_or(0) as f64 / 1e9;
    // Histograms of latencies have two significant digits or more.
    if slowest_s > seconds * 1.01 {
        return not_kept(format!("{seconds} s; but an answer after {slowest_s:.2} s was counted as valid"));
    }
    judged(seconds <= 1.0, format!("{seconds} s"))
}

pub(super) fn valid_reply(results: &Results) -> Judgement {
    let stated = &results.settings.validity;
    let rule = |trial: &Trial| match &trial.validity {
        Validity::Unstated => stated.clone(),
        stated => stated.clone(),
    };
    let mut rules: Vec<Validity> = counted(results).map(rule).collect();
    rules.dedup();
    match rules.iter().find(|rule| **rule != Validity::Strict) {
        None if rules.is_empty() => no_trial(),
        Some(Validity::Unstated | Validity::Other(_)) => {
            open("the record does not say which answers counted")
        }
        Some(Validity::Compat) => not_kept("any answer record was taken, as dns64perf++ does"),
        Some(_) => not_kept("any response to the question was taken"),
        None => match questions(results) {
            None => open("the record does not say which types were asked"),
            Some(asked) if !asks_aaaa_alone(&asked) => not_kept(format!("{} was asked", types(&asked))),
            Some(_) => kept("the AAAA that the name asks for, in time, was required"),
        },
    }
}

fn asks_aaaa_alone(asked: &Questions) -> bool {
    asked.types.iter().all(|name| name == "AAAA") && !asked.types.is_empty()
}

fn types(asked: &Questions) -> String {
    if asked.types.is_empty() { "what a file has".into() } else { asked.types.join(", ") }
}

pub(super) fn distinct_names(results: &Results) -> Judgement {
    let asked = asked(results).map(|trial| trial.scheduled).sum();
    if asked == 0 {
        return open("nothing was asked");
    }
    let Some(questions) = questions(results) else {
        return open("the record does not say how the names were chosen");
    };
    if let Some(why) = repeats(&questions.choice) {
        return not_kept(why);
    }
    match &questions.choice {
        NameChoice::Each => in_turn(results, &questions, asked),
        NameChoice::RandomLabels => kept(format!("{} random labels were asked, each once", grouped(asked))),
        NameChoice::Generated => templates::distinct(results, &questions),
        NameChoice::File => of_file(results, &questions),
        other => open(format!("the choice of names '{other}' is not known")),
    }
}

/// Names of the range in turn: they come again after the whole range, when the records must have expired.
fn in_turn(results: &Results, questions: &Questions, asked_names: u64) -> Judgement {
    let Ok(names) = results.settings.names.parse::<dns64::NameSpace>() else {
        return open("the name space is unknown");
    };
    let each = u64::from(questions.agents.max(1));
    let gone_through = asked_names.saturating_mul(each);
    if gone_through <= names.size() {
        if overlap(results, each, names.size()) {
            return not_kept("two trials asked the same names");
        }
        return kept(format!(
            "{} of {} names were asked, each once",
            grouped(asked_names),
            grouped(names.size())
        ));
    }
    let fastest = asked(results).map(|trial| trial.rate_qps).max().unwrap_or(1).max(1);
    let again_s = names.size() / fastest.saturating_mul(each);
    let ttl_s = results.settings.ttl_s;
    let is_kept = ttl_s.map(|ttl_s| again_s > u64::from(ttl_s));
    let ttl = ttl_s.map_or("unknown".into(), |ttl_s| format!("{ttl_s} s"));
    (is_kept, format!("names came again after {again_s} s at the earliest; the TTL is {ttl}"))
}

/// Queries of a file: each trial begins with the first of them.
fn of_file(results: &Results, questions: &Questions) -> Judgement {
    let sent: Vec<u64> =
        asked(results).map(|trial| trial.scheduled).filter(|scheduled| *scheduled > 0).collect();
    let Some(file) = &questions.file else { return open("the names came from a file or a pipe") };
    let longest = sent.iter().max().copied().unwrap_or(0);
    if sent.len() > 1 {
        return not_kept(format!("each of {} trials asked the file's names from the start", sent.len()));
    }
    if longest > file.queries {
        return not_kept(format!("the {} queries of the file were asked again", grouped(file.queries)));
    }
    if file.names == file.queries {
        return kept(format!("{} of the file's names were asked, each once", grouped(longest)));
    }
    let repeated =
        format!("the file has {} queries for {} names", grouped(file.queries), grouped(file.names));
    // A trial that did not go through the whole file may have met no name twice.
    if longest == file.queries { not_kept(repeated) } else { open(repeated) }
}

pub(super) fn worst_case(results: &Results) -> Judgement {
    let settings = &results.settings;
    if results.dut.zone_names.is_some() {
        return open("an authoritative server was measured: it has a AAAA record for every name");
    }
    let shares = format!("{} % cached, {} % with AAAA", settings.cached_share_pct, settings.aaaa_share_pct);
    if settings.cached_share_pct > 0 || settings.aaaa_share_pct > 0 {
        return not_kept(shares);
    }
    let Some(questions) = questions(results) else {
        return open("the record does not say what was asked");
    };
    if let Some(why) = repeats(&questions.choice) {
        return not_kept(why);
    }
    if questions.choice != NameChoice::Each {
        return open("the names came from elsewhere: which records they have is not known");
    }
    if !asks_aaaa_alone(&questions) {
        return not_kept(format!(
            "{} was asked: a DNS64 server synthesizes for AAAA alone",
            types(&questions)
        ));
    }
    if settings.ttl_s.is_none() {
        return open("the AuthDNS was not Sextant's: which records the names have is not known");
    }
    if counted(results).next().is_none() {
        return no_trial();
    }
    let passed = counted(results).filter(|trial| trial.outcome == Outcome::Pass);
    let questions_each = passed.filter_map(|trial| trial.observation.as_ref()?.auth_queries_per_query);
    match questions_each.min_by(f64::total_cmp) {
        None => open(format!("{shares}; how often the server asked the AuthDNS was not counted")),
        Some(fewest) => judged(
            fewest >= QUESTIONS_PER_MISS_MIN,
            format!("{shares}; the server asked the AuthDNS at least {fewest:.2} times for each query"),
        ),
    }
}
