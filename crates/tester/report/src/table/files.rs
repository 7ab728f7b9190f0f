//! Tables as files: comma-separated values for programs, Markdown for texts, LaTeX for papers.

use record::{Results, Sought};

use super::super::caveats::deviations;
use super::super::clean::printable;
use super::super::csv::row as csv_row;
use super::super::held::lost_at_or_below;
use super::super::words::dut_name;
use super::{Cell, ROWS, Table, latex};
use record::number::{NONE, exact, seconds};

/// The files of all tables that have a name, with their names; `caption` makes a caption stand for itself.
pub fn table_files(tables: &[Table], caption: impl Fn(&str) -> String) -> Vec<(String, String)> {
    let named = tables.iter().filter(|table| !table.name.is_empty() && !table.rows.is_empty());
    let files = named.flat_map(|table| {
        let caption = caption(&table.caption);
        let mut files = vec![(format!("{}.csv", table.name), csv(table))];
        // Nobody reads more in a text or a paper.
        if table.rows.len() <= ROWS {
            files.push((format!("{}.md", table.name), markdown(table, &caption)));
            files.push((format!("{}.tex", table.name), latex::latex(table, &caption)));
        }
        files
    });
    files.map(|(name, text)| (name, printable(text))).collect()
}

/// What it shows, of what, how often and under which conditions: a table must stand for itself.
pub fn caption(results: &Results, what: &str) -> String {
    let settings = &results.settings;
    let n = results.found().map_or(results.runs.len(), |found| found.n);
    let asked = deviations(results);
    let asked = match results.sought() {
        Sought::Connections => String::new(),
        Sought::Rate if asked.is_empty() => " Deviations from RFC 8219: none.".to_owned(),
        Sought::Rate => format!(" Deviations from RFC 8219: {}.", asked.join("; ")),
    };
    let held = lost_at_or_below(results)
        .map_or(String::new(), |held| format!(" {} held {}.", held.load_in_words(), held.words()));
    format!(
        "{what}, {}. N = {n}; preset {}, search {}, trials of {}, timeout {}, {} % of names with AAAA, {} % cached.{asked}{held}",
        dut_name(results),
        settings.preset,
        settings.search,
        seconds(settings.trial_s),
        seconds(settings.timeout_s),
        settings.aaaa_share_pct,
        settings.cached_share_pct,
    )
}

/// Numbers as they are, in the unit that the head names.
fn csv(table: &Table) -> String {
    let unit = |column: usize| {
        let units = table.rows.iter().filter_map(|row| row.get(column)?.number);
        units.map(|(_, unit)| unit).find(|unit| !unit.is_empty())
    };
    let head = table.columns.iter().enumerate().map(|(at, (title, _))| match unit(at) {
        Some(unit) => format!("{title}, {unit}"),
        None => title.clone(),
    });
    let value = |cell: &Cell| match cell.number {
        Some((value, _)) if !value.is_finite() => String::new(),
        Some((value, _)) => exact(value),
        None => cell.text.clone(),
    };
    let mut out = csv_row(&head.collect::<Vec<_>>());
    for row in &table.rows {
        out += &csv_row(&row.iter().map(value).collect::<Vec<_>>());
    }
    out
}

fn markdown(table: &Table, caption: &str) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let heads: Vec<String> = table.columns.iter().map(|(title, _)| plain(title)).collect();
    let rules: Vec<String> =
        table.columns.iter().map(|(_, number)| if *number { "---:" } else { "---" }.to_owned()).collect();
    let mut out = format!("**{}**\n\n{}{}", plain(caption), line(&heads), line(&rules));
    for row in &table.rows {
        out += &line(&row.iter().map(|cell| plain(shown(cell))).collect::<Vec<_>>());
    }
    out
}

/// What a reader sees in a cell.
pub(super) fn shown(cell: &Cell) -> &str {
    if cell.text.is_empty() { NONE } else { &cell.text }
}

/// Text that Markdown shows as it is.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' | '#' => out.extend(['\\', c]),
            '<' => out += "&lt;",
            '&' => out += "&amp;",
            '\n' | '\r' | '\t' => out.push(' '),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Column, table};
    use super::*;

    #[test]
    fn numbers_have_units_in_files_for_programs_and_words_in_those_for_people() {
        let rows = vec![
            vec![Cell::text("a|b, \"c\""), Cell::time(1500), Cell::maybe(None, exact)],
            vec![Cell::text(""), Cell::time(2_000_000), Cell::count(1234)],
        ];
        let table = table("x", &[Column("Name", false), Column("p50", true), Column("Lost", true)], rows);
        assert_eq!(csv(&table), "Name,\"p50, ns\",Lost\n\"a|b, \"\"c\"\"\",1500,\n,2000000,1234\n");
        let text = markdown(&table, "A_b.");
        assert!(text.starts_with("**A\\_b.**\n\n| Name | p50 | Lost |\n| --- | ---: | ---: |\n"), "{text}");
        assert!(text.ends_with("| – | 2.00 ms | 1,234 |\n") || text.contains("| 2 ms | 1,234 |"), "{text}");
    }
}
