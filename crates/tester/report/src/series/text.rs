//! A campaign in a terminal, and in Markdown.

use record::statistics::median;

use super::rows::{Pair, PublishedFigures, Row, Table};
use crate::clean::{printable, shortened};
use crate::lines::wrapped;
use record::campaign::Series;
use record::number::{NONE, percent, real};

const RATES: [&str; 7] =
    ["runs", "median, q/s", "of the first", "P1", "P99", "dispersion, %", "CPU, us/answer"];

/// Cells with the same remark that are named.
const NAMED_MAX: usize = 4;

/// A cell of the table: as it is written, and the number that it is.
pub(super) type Shown = (String, Option<f64>);

/// The heads of the table: the first is a word, the others are numbers.
pub(super) fn heads(table: &Table) -> Vec<String> {
    let rates = RATES.iter().filter(|_| has_rates(table)).map(ToString::to_string);
    let figures = table.figures.iter().map(|figure| shortened(&figure.name, 60));
    std::iter::once("cell".to_owned()).chain(rates).chain(figures).collect()
}

fn has_rates(table: &Table) -> bool {
    table.figures.is_empty() || table.rows.iter().any(|row| row.summary.is_some())
}

/// A row in the order of [`heads`].
pub(super) fn cells(row: &Row, table: &Table) -> Vec<Shown> {
    let shown = |value: Option<f64>, write: &dyn Fn(f64) -> String| {
        (value.map_or_else(|| NONE.to_owned(), write), value)
    };
    let summary = row.summary.as_ref();
    let ceiling = if row.at_ceiling { ">= " } else { "" };
    let rates = [
        shown(summary.map(|summary| summary.n as f64), &|n| real(n, 0)),
        shown(summary.map(|summary| summary.median), &|median| format!("{ceiling}{}", real(median, 0))),
        shown(row.ratio, &|ratio| format!("{ratio:.2}")),
        shown(summary.map(|summary| summary.p1 as f64), &|p1| real(p1, 0)),
        shown(summary.map(|summary| summary.p99 as f64), &|p99| real(p99, 0)),
        shown(summary.map(|summary| summary.dispersion_pct), &|pct| real(pct, 1)),
        shown(row.cpu_us, &|cpu_us| real(cpu_us, 1)),
    ];
    let figures = table.figures.iter().enumerate().map(|(at, figure)| {
        let median = row.figures.get(at).and_then(|values| median(values));
        shown(median, &|value| real(value, figure.digits))
    });
    let name = (shortened(&row.cell, 40), None);
    let rates = rates.into_iter().filter(|_| has_rates(table));
    std::iter::once(name).chain(rates).chain(figures).collect()
}

/// What else is known of a row: what limited it, and what went wrong.
pub(super) fn remarks(row: &Row) -> String {
    let limited = row.limits.iter().map(|cause| format!("limited by: {}", shortened(cause, 80)));
    let troubles = row.troubles.iter().map(|trouble| shortened(trouble, 300));
    limited.chain(troubles).collect::<Vec<_>>().join("; ")
}

/// Remarks with the cells that have them, those with the same together.
fn remarks_together(rows: &[Row]) -> Vec<(String, String)> {
    let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
    for row in rows {
        let remark = remarks(row);
        match groups.iter_mut().find(|(_, of_group)| *of_group == remark) {
            _ if remark.is_empty() => {}
            Some((cells, _)) => cells.push(&row.cell),
            None => groups.push((vec![&row.cell], remark)),
        }
    }
    let name = |cells: &[&str]| {
        let named: Vec<String> = cells.iter().take(NAMED_MAX).map(|cell| shortened(cell, 40)).collect();
        let more = cells.len() - named.len();
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{rest}", named.join(", "))
    };
    groups.into_iter().map(|(cells, remark)| (name(&cells), remark)).collect()
}

/// How steady the machine was, where the same was measured several times.
pub(super) fn drift(table: &Table) -> Option<String> {
    let rates: Vec<String> = table.sentinel_qps.iter().map(|&rate| real(rate, 0)).collect();
    let drift_pct = table.drift_pct?;
    Some(format!(
        "The same measurement at the start, in the middle and at the end found {} q/s: {} apart. Smaller differences between \
         cells say nothing.",
        rates.join(", "),
        percent(drift_pct)
    ))
}

/// What others published, a sentence each.
pub(super) fn published(table: &Table) -> Vec<String> {
    let line = |beside: &PublishedFigures| {
        let theirs = &beside.published;
        let dispersion =
            theirs.dispersion_pct.map_or(String::new(), |pct| format!(", dispersion {}", percent(pct)));
        let digits = table.figures.iter().find(|figure| Some(&figure.name) == theirs.figure.as_ref());
        let digits = digits.map_or(0, |figure| figure.digits);
        let unit = theirs.figure.as_deref().map_or(" q/s".to_owned(), |name| format!(" ({name})"));
        let pairs: Vec<String> = beside.pairs.iter().map(|pair| in_words(pair, digits)).collect();
        format!(
            "{}: {}{unit}{dispersion}, on {} ({})",
            theirs.what,
            pairs.join(", "),
            theirs.hardware,
            theirs.source
        )
    };
    table.published.iter().map(line).collect()
}

fn in_words(pair: &Pair, digits: usize) -> String {
    let theirs = real(pair.theirs, digits);
    match (&pair.cell, pair.ours.zip(pair.ratio())) {
        (Some(cell), Some((ours, ratio))) => {
            format!("{theirs} [our {cell}: {}, {ratio:.2} x]", real(ours, digits))
        }
        _ => theirs,
    }
}

/// The tables of a campaign as plain text, for a terminal.
pub fn text(series: &Series, table: &Table) -> String {
    let mut out = format!("{}, {} form, on {}\n\n", series.title, series.form.name(), series.machine);
    let heads = heads(table);
    let written = |row: &Row| cells(row, table).into_iter().map(|(text, _)| text).collect();
    // What was not measured is named below.
    let has_values = |row: &&Row| cells(row, table).iter().any(|(_, value)| value.is_some());
    let rows: Vec<Vec<String>> = table.rows.iter().filter(has_values).map(written).collect();
    let width = |column: usize| {
        let longest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        longest.max(heads[column].chars().count())
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut line = |cells: &[String]| {
        for (column, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
            out += &if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
        }
        out.push('\n');
    };
    line(&heads);
    rows.iter().for_each(|row| line(row));
    out.push('\n');
    for (cells, remark) in remarks_together(&table.rows) {
        out += &wrapped(&format!("  {cells}: "), &remark, 6);
    }
    out.push('\n');
    if let Some(drift) = drift(table) {
        out += &wrapped("", &drift, 0);
    }
    for line in published(table) {
        out += &wrapped("  ", &line, 6);
    }
    printable(out)
}

/// For a pull request or a page.
pub fn markdown(series: &Series, table: &Table) -> String {
    let plain = |text: &str| text.replace('|', "\\|");
    let mut out = format!("# {}\n\n{}\n\n", series.title, series.about.trim());
    out += &format!("{} form, on {}, {}.\n\n", series.form.name(), series.machine, series.started_utc);
    let heads: Vec<String> = heads(table).iter().map(|head| plain(head)).collect();
    out += &format!("| {} | remarks |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len() + 1));
    for row in &table.rows {
        let cells: Vec<String> = cells(row, table).iter().map(|(text, _)| plain(text)).collect();
        out += &format!("| {} | {} |\n", cells.join(" | "), plain(&remarks(row)));
    }
    out += &format!("\n{}\n", drift(table).unwrap_or_default());
    for line in published(table) {
        out += &format!("- {line}\n");
    }
    printable(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_cells_have_in_common_is_said_once() {
        let row = |cell: &str, trouble: &str| {
            let mut row = Row::new(cell, &[]);
            row.troubles = vec![trouble.to_owned()];
            row
        };
        let mut rows: Vec<Row> = ["a", "b", "c", "d", "e", "f"].map(|cell| row(cell, "not here")).into();
        rows.insert(2, row("x", "failed"));
        rows.push(Row::new("fine", &[]));
        let together = remarks_together(&rows);
        assert_eq!(together[0], ("a, b, c, d and 2 more".to_owned(), "not here".to_owned()));
        assert_eq!(together[1..], [("x".to_owned(), "failed".to_owned())]);
    }
}
