//! The standard, the method, and the command that repeats the measurement.

use maud::{Markup, html};
use record::{Results, Sought};

use super::missing;
use crate::method::method as paragraphs;
use crate::table::{Cell, Column, Table, table as sortable};
use crate::words::{command_line, kept};

/// Every requirement with kept, not kept or not applicable.
pub fn checklist(results: &Results) -> Markup {
    let Some(table) = table(results) else {
        if results.sought() == Sought::Connections {
            return missing("RFC 8219 has no search for connections.");
        }
        return missing("The checklist is filled when the measurement ends.");
    };
    let (kept, of) = kept(results);
    html! {
        p { strong { (kept) " of " (of) } " requirements that apply here were kept." }
        div.prose { (table) }
    }
}

pub fn table(results: &Results) -> Option<Table> {
    let rows: Vec<Vec<Cell>> = (results.checklist.iter())
        .map(|asked| {
            vec![
                Cell::markup(html! { b.section { (asked.section) } }, &asked.section, &asked.section),
                Cell::text(asked.level.as_str()),
                Cell::markup(verdict(asked.kept), verdict_word(asked.kept), verdict_key(asked.kept)),
                Cell::text(&asked.text),
                Cell::text(&asked.note),
            ]
        })
        .collect();
    let columns = [
        Column("Section", false),
        Column("Level", false),
        Column("Kept", false),
        Column("What it asks", false),
        Column("How, or why not", false),
    ];
    let asked = !results.checklist.is_empty();
    asked.then(|| sortable("Requirements of RFC 8219", &columns, rows).named("rfc8219"))
}

fn verdict_word(kept: Option<bool>) -> &'static str {
    match kept {
        Some(true) => "kept",
        Some(false) => "not kept",
        None => "n.a.",
    }
}

fn verdict(kept: Option<bool>) -> Markup {
    match kept {
        Some(true) => html! { span.kept { "✓ kept" } },
        Some(false) => html! { span.broken { "✕ not kept" } },
        None => html! { span.na { "– n.a." } },
    }
}

fn verdict_key(kept: Option<bool>) -> &'static str {
    match kept {
        Some(false) => "0",
        Some(true) => "1",
        None => "2",
    }
}

/// In plain words, and the command that repeats the run.
pub fn method(results: &Results) -> Markup {
    html! {
        @for text in paragraphs(results) { p { (text) } }
        h3 { "To repeat it" }
        @if results.command.is_empty() {
            (missing("The command was not recorded."))
        } @else {
            pre.command tabindex="0" { code { (command_line(&results.command)) } }
        }
    }
}
