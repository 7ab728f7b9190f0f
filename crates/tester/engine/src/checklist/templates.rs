//! Whether names from templates differ.

use record::number::count as grouped;
use record::{Questions, Results};

use super::{Judgement, asked, kept, not_kept, open, overlap};
use crate::workload::{Generator, PLACES, Template};

/// Trials go on where the one before ended, so that names come again only if their template has no more, or
/// by chance.
pub(super) fn distinct(results: &Results, questions: &Questions) -> Judgement {
    let templates: Result<Vec<Template>, _> = questions.templates.iter().map(|text| text.parse()).collect();
    let Some(generator) = templates.ok().and_then(|templates| Generator::new(templates, 0).ok()) else {
        return open("the templates of the names are not known");
    };
    let each = u64::from(questions.agents.max(1));
    if overlap(results, each, PLACES) {
        return not_kept("two trials asked the same names");
    }
    let trials = || asked(results).filter(|trial| trial.scheduled > 0);
    let parts: Vec<(u64, u64)> = trials()
        .map(|trial| {
            (trial.first_name, trial.first_name.saturating_add(trial.scheduled.saturating_mul(each)))
        })
        .collect();
    let whole = (parts.iter().map(|part| part.0).min(), parts.iter().map(|part| part.1).max());
    let (first, end) = (whole.0.unwrap_or(0), whole.1.unwrap_or(0));
    let count = |template, (from, to): (u64, u64)| {
        generator.asked_before(template, to).saturating_sub(generator.asked_before(template, from))
    };
    let all = generator.templates();
    for (index, template) in all.iter().enumerate() {
        let asked: u64 = parts.iter().map(|part| count(index, *part)).sum();
        if asked > template.names() {
            let (text, names) = (template.text(), grouped(template.names()));
            return not_kept(format!("'{text}' makes {names} names and was asked {} times", grouped(asked)));
        }
    }
    let doubtful = |(index, template): &(usize, &Template)| count(*index, (first, end)) > template.distinct();
    if let Some((_, template)) = all.iter().enumerate().find(doubtful) {
        return open(format!("names of '{}' may have come again", template.text()));
    }
    let pairs =
        all.iter().enumerate().flat_map(|(index, one)| all[..index].iter().map(move |other| (other, one)));
    if let Some((one, other)) = pairs.into_iter().find(|(one, other)| !one.is_apart_from(other)) {
        return open(format!("'{}' and '{}' may make the same name", one.text(), other.text()));
    }
    let names: u64 = trials().map(|trial| trial.scheduled).sum();
    kept(format!("{} names from templates were asked, each once", grouped(names)))
}
