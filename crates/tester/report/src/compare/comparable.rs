//! Whether two results may stand beside each other.

use std::fmt;

use record::{LoadModel, Results, Settings, State};

use super::Named;
use crate::clean::{printable, shortened};
use crate::held::lost_at_or_below;
use crate::words::{ended_by_voids, transport};

/// Why two results cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incomparable {
    /// No search of it came to its end.
    NothingFound {
        /// Its directory.
        directory: String,
    },
    /// It is a search for connections.
    OfConnections {
        /// Its directory.
        directory: String,
    },
    /// Void trials kept every search of it from its end.
    IntervalAlone {
        /// Its directory.
        directory: String,
        /// The interval in words.
        bounds: String,
    },
    /// They answer different questions.
    OtherQuestion {
        /// Their directories.
        directories: [String; 2],
        /// What was asked differently.
        what: &'static str,
        /// The two values, the first record's first.
        values: [String; 2],
    },
}

impl fmt::Display for Incomparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingFound { directory } => {
                write!(f, "{directory}: holds no search that came to its end: nothing to compare")
            }
            Self::OfConnections { directory } => {
                write!(f, "{directory}: holds a search for connections; searches for rates can be compared")
            }
            Self::IntervalAlone { directory, bounds } => write!(
                f,
                "{directory}: void trials kept every search from its end, and the rate is known to be {bounds} alone: measure again at a quieter time"
            ),
            Self::OtherQuestion { directories: [a, b], what, values: [of_a, of_b] } => write!(
                f,
                "{b}: measured with {what} {of_b}, but {a} with {of_a}: not comparable; measure one again with the other's"
            ),
        }
    }
}

impl std::error::Error for Incomparable {}

/// What a record says, as a text that acts on nothing.
fn shown(value: &str) -> String {
    if value.is_empty() { "none".to_owned() } else { printable(shortened(value, 60)) }
}

/// The settings that make two rates answers to different questions.
fn questions(settings: &Settings) -> [(&'static str, String); 7] {
    // A goal that forgives nothing is what a bisection looks for.
    let goal = settings.goals.first().filter(|goal| (goal.loss_pct, goal.exceed_pct) != (0.0, 0.0));
    let goal = goal.map_or("no loss".to_owned(), |goal| {
        format!("{} % loss in {} % of the time", goal.loss_pct, goal.exceed_pct)
    });
    let load = if settings.load.is_constant() { LoadModel::Constant } else { settings.load.clone() };
    let load = shown(&load.to_string());
    [
        ("the validity", shown(settings.validity.as_str())),
        ("the goal", goal),
        ("a timeout in s of", settings.timeout_s.to_string()),
        ("a cached share in % of", settings.cached_share_pct.to_string()),
        ("a AAAA share in % of", settings.aaaa_share_pct.to_string()),
        ("the load", load),
        ("the workload", shown(&settings.workload)),
    ]
}

/// # Errors
/// They answer different questions.
pub fn check(a: Named<'_>, b: Named<'_>) -> Result<(), Incomparable> {
    let role = |of: Named<'_>| {
        let is_authoritative = of.results.dut.zone_names.is_some();
        ("a server that", if is_authoritative { "has the zone" } else { "asks others" }.to_owned())
    };
    let all = |of: Named<'_>| questions(&of.results.settings).into_iter().chain([role(of)]);
    let differs = all(a).zip(all(b)).find(|((_, a), (_, b))| a != b);
    differs.map_or(Ok(()), |((what, of_a), (_, of_b))| {
        let directories = [a.name.to_owned(), b.name.to_owned()];
        Err(Incomparable::OtherQuestion { directories, what, values: [of_a, of_b] })
    })
}

/// Facts that say which machine it was and what it runs.
const MACHINE: [(&str, &str); 6] = [
    ("Processor", "model"),
    ("Processor", "processors online"),
    ("Processor", "governor"),
    ("Processor", "mitigations"),
    ("Kernel", "release"),
    ("Memory", "total"),
];

/// Settings that move a rate without changing the question.
fn conditions(settings: &Settings) -> [(&'static str, String); 9] {
    [
        ("search", shown(settings.search.as_str())),
        ("trial length in s", settings.trial_s.to_string()),
        ("width in %", settings.width_pct.to_string()),
        ("I/O back-end", shown(&settings.io)),
        ("transport", shown(&settings.transport.as_ref().map(transport).unwrap_or_default())),
        ("Measurer threads", settings.threads.to_string()),
        ("source ports", settings.source_ports.to_string()),
        ("path", shown(&settings.path)),
        ("AuthDNS", shown(settings.auth.split(" at ").next().unwrap_or_default())),
    ]
}

/// What differs beside the servers, or is doubtful in either.
pub fn warnings(a: Named<'_>, b: Named<'_>) -> Vec<String> {
    let fact = |results: &Results, (group, name): (&str, &str)| {
        let facts = &results.environment.facts;
        facts.iter().find(|fact| fact.group == group && fact.name == name).map(|fact| shown(&fact.before))
    };
    let machine = MACHINE.into_iter().filter_map(|which| {
        let (of_a, of_b) = (fact(a.results, which)?, fact(b.results, which)?);
        (of_a != of_b).then(|| format!("other machine: {} {} {of_a} in A, {of_b} in B", which.0, which.1))
    });
    let settings = conditions(&a.results.settings).into_iter().zip(conditions(&b.results.settings));
    let settings = settings.filter(|((_, a), (_, b))| a != b);
    let settings = settings.map(|((what, a), (_, b))| format!("other conditions: {what} {a} in A, {b} in B"));
    let doubts = [a, b].into_iter().flat_map(doubts);
    machine.chain(settings).chain(doubts).collect()
}

/// What is doubtful in one result.
fn doubts(of: Named<'_>) -> Vec<String> {
    let mut doubts = Vec::new();
    let mut doubt = |what: &str| doubts.push(format!("{}: {what}", of.name));
    match &of.results.state {
        State::Complete => {}
        State::Running => doubt("still runs, or crashed; only its complete runs count"),
        State::Interrupted => doubt("was interrupted; only its complete runs count"),
        State::Failed(_) => doubt("failed; only its complete runs count"),
    }
    if of.results.selftest.as_ref().is_none_or(|test| !test.passed) {
        doubt("no self-test of RFC 8219 9.2.1 was passed: the Tester may be the limit");
    }
    if let Some(held) = lost_at_or_below(of.results) {
        doubt(&format!("{} held {}", held.load_in_words(), held.words()));
    }
    if let Some(ended) = ended_by_voids(of.results) {
        doubt(&ended);
    }
    doubts
}
