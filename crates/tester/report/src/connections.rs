//! The sentence about a search for connections.

use record::number::{octets, plural, rate_of};
use record::{Outcome, Results, Summary};

use super::held::held;

/// How many connections the server of this name held over the transport, at which rate, and in how many
/// trials; `spread` says how the runs differ.
pub(super) fn connections_sentence(
    results: &Results,
    found: &Summary,
    (name, over, spread): (&str, &str, &str),
) -> String {
    let rate = rate_of(results.settings.rate_range_qps[1]);
    let runs = plural(found.n, "run", "runs");
    if found.p1 == 0 {
        let without = results.runs.iter().filter(|run| run.complete && run.found() == 0).count();
        return format!(
            "No number of connections stood with {name}{over} at {rate} in {without} of {runs}{spread}."
        );
    }
    let each = if found.n == 1 { "one run".to_owned() } else { format!("each of {runs}") };
    let at_least = if results.runs.iter().all(|run| run.at_ceiling) { "at least " } else { "" };
    let number = results.sought().in_words(found.p1);
    let memory = memory_of_each(results).map_or_else(String::new, |each| {
        format!(" Each connection took {} of the server's memory.", octets(each))
    });
    format!(
        "{name} held {at_least}{number}{over} in {each}{spread}: all stood from before the first query to the last \
         answer, queries went over all of them at {rate} together, and every query was answered. The number held {}.{memory}",
        held(results, found.p1).words()
    )
}

/// The server's memory for each connection, in octets: the most of the trials that passed, as a server keeps
/// the memory of connections that were. `None` where it is not known, and where the search looked for the
/// rate.
pub(super) fn memory_of_each(results: &Results) -> Option<u64> {
    let trials = results.runs.iter().filter(|run| run.connections.is_some()).flat_map(|run| &run.trials);
    let passed = trials.filter(|trial| trial.outcome == Outcome::Pass);
    passed.filter_map(|trial| trial.connections.as_ref()?.server_memory_octets).max().filter(|&each| each > 0)
}
