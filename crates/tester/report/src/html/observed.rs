//! What the AuthDNS saw of the server's queries.

use maud::{Markup, html};
use record::Results;
use record::identifiers::Analysis;

use super::{facts, figure, missing};
use crate::charts::{Field, identifiers};
use crate::clean::shortened;
use crate::observed::observed_lines;
use crate::words::upper_first;
use record::number::{count, rate_of};

const FINDINGS: usize = 20;

/// Findings, IDs and ports over time, and all figures.
pub fn observed(results: &Results) -> Markup {
    let Some(analysis) = &results.observed else {
        return missing(
            "The server's own queries were not looked at: the AuthDNS was not ours, or no rate was found.",
        );
    };
    let lines = observed_lines(analysis);
    let rows: Vec<(&str, String)> =
        lines.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    html! {
        p { (introduction(analysis)) }
        ul.findings {
            @for finding in analysis.findings.iter().take(FINDINGS) {
                @let text = shortened(&finding.text, 300);
                li { @if finding.weak { strong { "Weak: " } (text) } @else { (upper_first(&text)) } "." }
            }
        }
        (figure(|size| identifiers(analysis, Field::Id, size), &html! {
            "The IDs of its queries over time. Somebody who forges answers must not be able to guess the next one: good IDs fill \
             the area without a pattern."
        }))
        (figure(|size| identifiers(analysis, Field::Port, size), &html! {
            "The ports that they left from. A single line is a single port, which need not be guessed at all."
        }))
        (facts(&rows))
    }
}

fn introduction(analysis: &Analysis) -> String {
    format!(
        "{} queries of the server to the AuthDNS, at {}, in a trial of their own. Whether IDs and ports hide the next query is \
         judged as RFC 5452 does, for a forger who cannot see the queries but can let the server ask one of his own.",
        count(analysis.kept),
        rate_of(analysis.rate_qps.clamp(0.0, 1e15) as u64)
    )
}
