//! From a description to the visits that are made, in their order.

use record::campaign::{Form, SENTINEL, Visit, VisitState};

use super::description::{Description, Part};

/// The visits of a form: every cell in every round, forwards and backwards in turns (ABBA), so that a machine
/// that slowly changes does not favour what comes first; the sentinel at the start, in the middle and at the
/// end.
pub fn visits(description: &Description, form: Form) -> Vec<Visit> {
    let extent = description.extent(form);
    let cells: Vec<Visit> =
        description.part.iter().flat_map(|part| cells(part, form, &extent.options)).collect();
    let mut all = Vec::new();
    for round in 1..=extent.rounds {
        let of_round = cells.iter().cloned().map(|cell| Visit { round, ..cell });
        if round % 2 == 1 {
            all.extend(of_round);
        } else {
            all.extend(of_round.rev());
        }
    }
    if let Some(part) = &description.sentinel {
        let sentinel = |round| Visit { round, ..visit(part, &[], &[], SENTINEL) };
        let middle = all.len() / 2;
        all.insert(middle, sentinel(2));
        all.insert(0, sentinel(1));
        all.push(sentinel(3));
    }
    all
}

fn cells(part: &Part, form: Form, options: &[String]) -> Vec<Visit> {
    let cells = part.cells(form);
    cells.iter().map(|settings| visit(part, options, settings, &part.cell_name(settings))).collect()
}

fn visit(part: &Part, options: &[String], settings: &[(String, String)], cell: &str) -> Visit {
    let of_axes = settings.iter().flat_map(|(option, value)| [option, value]);
    let mut arguments = vec![part.command.clone()];
    arguments.extend(merged(options.iter().chain(&part.options).chain(of_axes)));
    Visit {
        cell: cell.to_owned(),
        settings: settings.to_vec(),
        round: 1,
        arguments,
        forecast_s: 0.0,
        state: VisitState::Pending,
        directory: None,
        took_s: None,
    }
}

/// Options with their values, each once: the last of a name counts, as what is said of one cell is said
/// later.
fn merged<'w>(words: impl Iterator<Item = &'w String>) -> Vec<String> {
    let mut options: Vec<Vec<&String>> = Vec::new();
    for word in words {
        match options.last_mut() {
            Some(option) if !word.starts_with("--") => option.push(word),
            _ => {
                options.retain(|known| known.first() != Some(&word));
                options.push(vec![word]);
            }
        }
    }
    options.into_iter().flatten().cloned().collect()
}

/// The value of an option of a visit, if it is given.
pub fn value_of<'a>(arguments: &'a [String], option: &str) -> Option<&'a str> {
    let at = arguments.iter().rposition(|word| word == option)?;
    arguments.get(at + 1).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(form: Form) -> Vec<String> {
        let text = "name = 'a'\ntitle = 'A'\n[quick]\nrounds = 1\n[full]\nrounds = 2\noptions = ['--width', '1', '--ttl', '5']\n\
            [sentinel]\ncommand = 'bench'\n\
            [[part]]\ncommand = 'bench'\noptions = ['--ttl', '9']\n\
            [[part.axis]]\noption = '--peer'\nvalues = ['x', 'y']\n\
            [[part.axis]]\noption = '--aaaa-share'\nvalues = ['0', '100']\nquick = ['0']\n\
            [[part]]\ncommand = 'search'\n";
        let description = Description::parse(text, "test").unwrap();
        let visits = visits(&description, form);
        let full = visits.iter().find(|visit| visit.cell.starts_with('y')).unwrap();
        let words = full.arguments.join(" ");
        let tail = "--ttl 9 --peer y --aaaa-share 0";
        assert!(words.starts_with("bench ") && words.ends_with(tail), "{words}");
        assert_eq!(words.contains("--width 1"), form == Form::Full);
        assert_eq!(value_of(&full.arguments, "--peer"), Some("y"));
        assert_eq!(value_of(&full.arguments, "--authoritative"), None);
        visits.iter().map(|visit| format!("{}/{}", visit.cell, visit.round)).collect()
    }

    #[test]
    fn every_cell_is_visited_in_every_round_there_and_back() {
        assert_eq!(
            order(Form::Quick),
            ["sentinel/1", "x_0/1", "sentinel/2", "y_0/1", "search/1", "sentinel/3"]
        );
        let full = [
            "sentinel/1",
            "x_0/1",
            "x_100/1",
            "y_0/1",
            "y_100/1",
            "search/1",
            "sentinel/2",
            "search/2",
            "y_100/2",
            "y_0/2",
            "x_100/2",
            "x_0/2",
            "sentinel/3",
        ];
        assert_eq!(order(Form::Full), full);
    }
}
