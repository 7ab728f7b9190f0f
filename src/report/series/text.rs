//! A campaign in a terminal, and in Markdown.

use super::rows::{Row, Table};
use crate::campaign::series::Series;
use crate::report::clean::{printable, shortened};
use crate::report::number::{NONE, count, percent, real};
use crate::report::text::wrapped;

/// The heads of the table, and which of its columns hold numbers.
pub(super) const HEADS: [&str; 8] =
    ["cell", "runs", "median, q/s", "of the first", "P1", "P99", "dispersion, %", "CPU, us/query"];

/// The figures of a row as they are written, in the order of [`HEADS`].
pub(super) fn figures(row: &Row) -> [String; 8] {
    let none = || NONE.to_owned();
    let summary = row.summary.as_ref();
    let ceiling = if row.at_ceiling { ">= " } else { "" };
    [
        shortened(&row.cell, 40),
        summary.map_or_else(none, |summary| summary.n.to_string()),
        summary.map_or_else(none, |summary| format!("{ceiling}{}", real(summary.median, 0))),
        row.ratio.map_or_else(none, |ratio| format!("{ratio:.2}")),
        summary.map_or_else(none, |summary| count(summary.p1)),
        summary.map_or_else(none, |summary| count(summary.p99)),
        summary.map_or_else(none, |summary| real(summary.dispersion_pct, 1)),
        row.cpu_us.map_or_else(none, |cpu_us| real(cpu_us, 1)),
    ]
}

/// What else is known of a row: what limited it, and what went wrong.
pub(super) fn remarks(row: &Row) -> String {
    let limited = row.limits.iter().map(|cause| format!("limited by: {}", shortened(cause, 80)));
    let troubles = row.troubles.iter().map(|trouble| shortened(trouble, 300));
    limited.chain(troubles).collect::<Vec<_>>().join("; ")
}

/// How steady the machine was.
pub(super) fn drift(table: &Table) -> String {
    let rates: Vec<String> = table.sentinel_qps.iter().map(|&rate| real(rate, 0)).collect();
    match table.drift_pct {
        Some(drift_pct) => format!(
            "The same measurement at the start, in the middle and at the end found {} q/s: {} apart. Smaller differences between \
             cells say nothing.",
            rates.join(", "),
            percent(drift_pct)
        ),
        None => "How much the machine changed meanwhile is not known: it was not measured at both ends."
            .to_owned(),
    }
}

/// What others published, a sentence each.
pub(super) fn published(table: &Table) -> Vec<String> {
    let line = |beside: &super::rows::Beside| {
        let theirs = &beside.published;
        let dispersion =
            theirs.dispersion_pct.map_or(String::new(), |pct| format!(", dispersion {}", percent(pct)));
        let ours = match (beside.ratio, &theirs.beside) {
            (Some(ratio), Some(cell)) => format!("; our {cell} {ratio:.2} x"),
            _ => String::new(),
        };
        format!(
            "{}: {} q/s{dispersion}, on {} ({}){ours}",
            theirs.what,
            real(theirs.median_qps, 0),
            theirs.hardware,
            theirs.source
        )
    };
    table.published.iter().map(line).collect()
}

/// For a terminal.
pub fn text(series: &Series, table: &Table) -> String {
    let mut out = format!("{}, {} form, on {}\n\n", series.title, series.form.name(), series.machine);
    let rows: Vec<[String; 8]> = table.rows.iter().map(figures).collect();
    let width = |column: usize| {
        let longest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        longest.max(HEADS[column].chars().count())
    };
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let mut line = |cells: &[String]| {
        for (column, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
            out += &if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
        }
        out.push('\n');
    };
    line(&HEADS.map(str::to_owned));
    rows.iter().for_each(|row| line(row));
    out.push('\n');
    for row in table.rows.iter().filter(|row| !remarks(row).is_empty()) {
        out += &wrapped(&format!("  {}: ", shortened(&row.cell, 40)), &remarks(row), 6);
    }
    out.push('\n');
    out += &wrapped("", &drift(table), 0);
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
    out += &format!("| {} | remarks |\n|{}\n", HEADS.join(" | "), "---|".repeat(HEADS.len() + 1));
    for row in &table.rows {
        let cells: Vec<String> = figures(row).iter().map(|cell| plain(cell)).collect();
        out += &format!("| {} | {} |\n", cells.join(" | "), plain(&remarks(row)));
    }
    out += &format!("\n{}\n", drift(table));
    for line in published(table) {
        out += &format!("- {line}\n");
    }
    printable(out)
}
