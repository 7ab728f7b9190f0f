//! The report as one page that works without a network.
//!
//! The verdict comes first, then the evidence in the order in which a doubtful reader asks for it.

mod connections;
mod context;
mod evidence;
mod facts;
mod latency;
mod losses;
mod observed;
mod rfc;
mod trials;
mod verdict;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use record::{Results, Sought};

use super::clean::{printable, shortened};
use super::svg::{Chart, STYLE, Size};
use super::table::Table;
use super::words::{dut_name, instant, took};
pub(crate) use facts::facts;
use record::number::seconds;

/// Nothing may be fetched, whatever the record holds.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'";

/// The tables of the page, and those for papers alone.
pub fn tables(results: &Results) -> Vec<Table> {
    let of: [fn(&Results) -> Vec<Table>; 5] =
        [evidence::tables, latency::tables, losses::tables, context::tables, trials::tables];
    of.iter().flat_map(|of| of(results)).chain(rfc::table(results)).collect()
}

type Content = fn(&Results) -> Markup;

/// The sections: anchor, title, content.
const SECTIONS: [(&str, &str, Content); 15] = [
    ("rates", "What each run found", evidence::rates),
    ("searches", "Path of each search", evidence::searches),
    ("latency", "Latency", latency::latency),
    ("seconds", "Second by second", latency::seconds),
    ("pacing", "Pacing", latency::pacing),
    ("losses", "Where queries were lost", losses::losses),
    ("processors", "Who was busy", losses::processors),
    ("queries", "What the AuthDNS saw", observed::observed),
    ("selftest", "Self-test", context::selftest),
    ("rfc8219", "RFC 8219 checklist", rfc::checklist),
    ("settings", "Settings", context::settings),
    ("server", "The server", context::server),
    ("environment", "Environment", context::environment),
    ("method", "Method", rfc::method),
    ("trials", "Every trial", trials::trials),
];

/// The report as one HTML file that needs no other file.
pub fn html(results: &Results) -> String {
    let title =
        format!("{}: {} of Sextant", shortened(&dut_name(results), 80), shortened(results.kind.as_str(), 20));
    let body = html! {
        a.skip href="#verdict" { "To the verdict" }
        (head(results))
        div.columns {
            (contents())
            main {
                (verdict::verdict(results))
                @for (anchor, title, content) in SECTIONS { (section(anchor, title, &content(results))) }
            }
        }
        (foot(results))
    };
    printable(document(&title, &body, ""))
}

/// A page of its own with our styles and scripts, and one script more; it asks nothing of the network.
pub(crate) fn document(title: &str, body: &Markup, script: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(include_str!("page.css"))) }
            }
            body {
                (body)
                div #tip role="presentation" hidden {}
                script { (PreEscaped(include_str!("page.js"))) (PreEscaped(script)) }
            }
        }
    };
    page.into_string()
}

fn head(results: &Results) -> Markup {
    let preset = if results.settings.preset.is_empty() {
        String::new()
    } else {
        format!(", preset {}", results.settings.preset)
    };
    let what = match results.dut.zone_names {
        _ if results.sought() == Sought::Connections => "Standing connections: ",
        Some(_) => "An authoritative server, as RFC 8219 9.2.1 tests an AuthDNS: ",
        None => "DNS64 performance by RFC 8219: ",
    };
    html! {
        header {
            p.kind { (what) (results.kind) (preset) }
            h1 { (dut_name(results)) }
            p.when {
                (instant(&results.started_utc))
                @if let Some(time) = took(results) { ", took " (seconds(time.as_secs_f64().round())) }
                @if !results.tool.is_empty() { ", measured by " (results.tool) }
            }
        }
    }
}

fn contents() -> Markup {
    html! {
        nav aria-label="Contents" {
            ol {
                li { a href="#verdict" { "Verdict" } }
                @for (anchor, title, _) in SECTIONS { li { a href={ "#" (anchor) } { (title) } } }
            }
        }
    }
}

fn section(anchor: &str, title: &str, content: &Markup) -> Markup {
    html! {
        section id=(anchor) {
            h2 { a href={ "#" (anchor) } { (title) } }
            (content)
        }
    }
}

fn foot(results: &Results) -> Markup {
    html! {
        footer {
            p {
                "In the same directory: " a href="results.json" { "results.json" } " (schema " (results.schema) "), "
                a href="trials.csv" { "trials.csv" } ", and the charts and tables of this page in "
                a href="figures/" { "figures" } " (SVG) and " a href="tables/" { "tables" } " (CSV, Markdown, LaTeX)."
            }
        }
    }
}

/// A chart in two drawings, of which the page shows the one that fits, with its caption.
pub(crate) fn figure(chart: impl Fn(Size) -> Option<Chart>, caption: &Markup) -> Markup {
    html! {
        @if let (Some(wide), Some(narrow)) = (chart(Size::Wide), chart(Size::Narrow)) {
            figure {
                (wide.inline("wide"))
                (narrow.inline("narrow"))
                figcaption { (caption) }
            }
        }
    }
}

/// What stands where a part of the record is missing.
fn missing(text: &str) -> Markup {
    html! { p.missing { (text) } }
}
