//! Comparisons as text for a terminal and as Markdown for a pull request.

use record::statistics::{RUNS_MIN, Side as Turn, Verdict, abba};

use super::{History, Pair, Side};
use crate::clean::{printable, shortened};
use crate::lines::{line, wrapped};
use record::number::{count, percent, rate, rate_of};

fn verdict(pair: &Pair) -> String {
    let change = pair.ratio.map_or(String::new(), |ratio| format!(" ({})", signed_pct(ratio)));
    let threshold = percent(pair.threshold_pct);
    match pair.verdict {
        Verdict::Same => format!("Same: B answers as many queries as A{change}, within {threshold}."),
        Verdict::Inconclusive => format!("Inconclusive: {}.", pair.inconclusive),
        Verdict::Better => {
            format!("Better: B answers more queries than A{change}, by more than {threshold}.")
        }
        Verdict::Worse => format!("Worse: B answers fewer queries than A{change}, by more than {threshold}."),
    }
}

/// A ratio as a change: `+1.25 %`.
fn signed_pct(ratio: f64) -> String {
    format!("{:+.2} %", (ratio - 1.0) * 100.0)
}

/// Labels and values of what the verdict stands on.
fn evidence(pair: &Pair) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some([low, high]) = pair.ratio_interval {
        let interval = format!("{} to {} (95 %, BCa bootstrap)", signed_pct(low), signed_pct(high));
        lines.push(("Change of the median", interval));
    }
    let noise = match pair.noise_floor_pct {
        Some(floor) => format!("A/A noise {}", percent(floor)),
        None => format!("A/A noise unknown (give --aa, or {} runs each)", 2 * RUNS_MIN),
    };
    let threshold = format!(
        "{} (asked {}, stop width {}, {noise})",
        percent(pair.threshold_pct),
        percent(pair.threshold_asked_pct),
        percent(pair.resolution_pct)
    );
    lines.push(("Threshold", threshold));
    if pair.verdict == Verdict::Inconclusive {
        let turns: Vec<&str> = abba(RUNS_MIN).map(|turn| if turn == Turn::A { "A" } else { "B" }).collect();
        let advice = format!("measure more runs, best in turns: {}", turns.join(" "));
        lines.push(("To decide", advice));
    }
    lines
}

fn dut(side: &Side) -> String {
    printable(shortened(&side.dut, 60))
}

/// The comparison as plain text, for a terminal.
pub fn pair_text(pair: &Pair) -> String {
    let mut out = wrapped("", &verdict(pair), 0);
    out.push('\n');
    for (label, side) in [("A", &pair.a), ("B", &pair.b)] {
        let summary = &side.summary;
        let rates = format!(
            "median {}, {} to {}, {} runs, {} apart; {} in {}",
            rate(summary.median),
            count(summary.min),
            rate_of(summary.max),
            summary.n,
            percent(summary.dispersion_pct),
            dut(side),
            side.directory
        );
        out += &line(label, &rates);
    }
    for (label, value) in evidence(pair) {
        out += &line(label, &value);
    }
    with_warnings(out, &pair.warnings)
}

fn with_warnings(mut out: String, warnings: &[String]) -> String {
    for (index, warning) in warnings.iter().enumerate() {
        out += if index == 0 { "\n" } else { "" };
        out += &wrapped("  mind  ", warning, 8);
    }
    printable(out)
}

/// The history as plain text, for a terminal.
pub fn history_text(history: &History) -> String {
    let mut out = wrapped("", &history_verdict(history), 0);
    out.push('\n');
    for (index, side) in history.results.iter().enumerate() {
        let median = rate(side.summary.median);
        let what = format!("{median:>16}  {}  {}", dut(side), side.directory);
        let jump = history.changes.iter().find(|jump| jump.index == index);
        let jump = jump.map_or(String::new(), |jump| {
            format!("  <- {:+.2} % (p = {:.3})", jump.change_pct, jump.p_value)
        });
        // Not broken: a line is a result.
        out += &format!("  {:<24}{what}{jump}\n", shortened(&side.started_utc, 24));
    }
    with_warnings(out, &history.warnings)
}

fn history_verdict(history: &History) -> String {
    let count = history.results.len();
    let threshold = percent(history.threshold_pct);
    match history.changes.as_slice() {
        [] if count < history.results_needed => {
            let needed = history.results_needed;
            format!(
                "Inconclusive: {count} results are too few to tell a change from chance, {needed} are needed."
            )
        }
        [] => format!("No change of at least {threshold} in {count} results."),
        [.., last] => format!(
            "{} of at least {threshold} in {count} results; the last by {:+.2} %, with {}.",
            if history.changes.len() == 1 {
                "1 change".to_owned()
            } else {
                format!("{} changes", history.changes.len())
            },
            last.change_pct,
            last.directory
        ),
    }
}

/// The comparison as Markdown, for a pull request.
pub fn pair_markdown(pair: &Pair) -> String {
    let mut out = format!("**{}**\n\n", plain(&verdict(pair)));
    out += "| | Server | Median | Lowest to highest | Runs | Dispersion | Result |\n|---|---|---:|---:|---:|---:|---|\n";
    for (label, side) in [("A", &pair.a), ("B", &pair.b)] {
        let summary = &side.summary;
        out += &format!(
            "| {label} | {} | {} | {} to {} | {} | {} | {} |\n",
            code(&side.dut),
            rate(summary.median),
            count(summary.min),
            rate_of(summary.max),
            summary.n,
            percent(summary.dispersion_pct),
            code(&side.directory)
        );
    }
    out.push('\n');
    for (label, value) in evidence(pair) {
        out += &format!("- {label}: {}\n", plain(&value));
    }
    markdown_warnings(out, &pair.warnings)
}

/// The history as Markdown, for a pull request.
pub fn history_markdown(history: &History) -> String {
    let mut out = format!("**{}**\n\n", plain(&history_verdict(history)));
    out += "| Started | Server | Median | Change | Result |\n|---|---|---:|---:|---|\n";
    for (index, side) in history.results.iter().enumerate() {
        let jump = history.changes.iter().find(|jump| jump.index == index);
        let jump =
            jump.map_or(String::new(), |jump| format!("{:+.2} % (p = {:.3})", jump.change_pct, jump.p_value));
        out += &format!(
            "| {} | {} | {} | {jump} | {} |\n",
            code(&side.started_utc),
            code(&side.dut),
            rate(side.summary.median),
            code(&side.directory)
        );
    }
    markdown_warnings(out, &history.warnings)
}

fn markdown_warnings(mut out: String, warnings: &[String]) -> String {
    for warning in warnings {
        out += &format!("- ⚠ {}\n", plain(warning));
    }
    printable(out)
}

/// What a record says, so that it is neither markup nor calls anybody by name.
fn code(text: &str) -> String {
    let text = shortened(text, 80).replace('`', "'").replace('|', "\\|");
    if text.trim().is_empty() { String::new() } else { format!("`{text}`") }
}

/// A sentence of ours that quotes records: what could be markup is escaped.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push(' '),
            // A name after this sign would call somebody.
            '@' => out.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_no_markup() {
        assert_eq!(plain("a*b_<img>@me"), "a\\*b\\_\\<img\\>&#64;me");
        assert_eq!(code("a|b`c"), "`a\\|b'c`");
        assert_eq!(code(""), "");
    }
}
