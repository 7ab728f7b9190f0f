//! What the AuthDNS saw of a server, in lines of text.

use record::identifiers::{Analysis, Outstanding, Spread};

use super::clean::{printable, shortened};
use super::lines::{line, wrapped};
use record::number::{NONE, brief_percent, count, percent, real, seconds, significant, time_ns};

/// The figures and what they mean, in about twenty lines.
pub fn observed_text(analysis: &Analysis) -> String {
    let mut out = String::new();
    for (label, value) in observed_lines(analysis) {
        out += &line(&label, &value);
    }
    for finding in &analysis.findings {
        let mark = if finding.weak { "weak" } else { "note" };
        out += &wrapped(&format!("  {mark}  "), &shortened(&finding.text, 300), 8);
    }
    printable(out)
}

pub fn summary(analysis: &Analysis) -> String {
    let each = analysis.queries_per_client_query.unwrap_or(analysis.queries_per_name);
    let weak: Vec<&str> = analysis
        .findings
        .iter()
        .filter(|finding| finding.weak)
        .take(3)
        .map(|finding| &*finding.text)
        .collect();
    let judgement =
        if weak.is_empty() { "no weakness found".to_owned() } else { shortened(&weak.join("; "), 300) };
    let (ids, ports) = (real(analysis.spoofing.ids, 0), real(analysis.spoofing.ports, 0));
    format!(
        "{} for each query; a forger must guess 1 ID of {ids} and 1 port of {ports}: {judgement}",
        real(each, 2)
    )
}

/// The figures, with their names.
pub(crate) fn observed_lines(analysis: &Analysis) -> Vec<(String, String)> {
    let mut lines = vec![("Queries seen".to_owned(), seen(analysis))];
    if analysis.kept > 0 {
        lines.extend(numbers(analysis));
        lines.extend(outstanding(&analysis.outstanding));
        lines.extend(identifiers(analysis));
        lines.extend(forging(analysis));
    }
    lines
}

fn numbers(analysis: &Analysis) -> [(String, String); 3] {
    let Analysis { a, aaaa, other, kept, tcp, names, .. } = analysis;
    let each = match (analysis.queries_per_client_query, analysis.client_queries) {
        (Some(each), Some(asked)) => {
            ("Queries per client query", format!("{} ({} were asked)", real(each, 3), count(asked)))
        }
        _ => {
            ("Queries per name", format!("{} of {} names", real(analysis.queries_per_name, 3), count(*names)))
        }
    };
    let types = format!("A {}, AAAA {}, other {}", count(*a), count(*aaaa), count(*other));
    let transports = format!("UDP {}, TCP {}", count(kept.saturating_sub(*tcp)), count(*tcp));
    [("By type", types), ("By transport", transports), each].map(|(label, value)| (label.to_owned(), value))
}

fn outstanding(found: &Outstanding) -> [(String, String); 2] {
    let again = format!(
        "{} with the same port and ID, {} with another",
        count(found.retransmissions),
        count(found.retries)
    );
    let together = format!(
        "up to {}; {} with the port and ID of another question ({} expected by chance), {} with the same question",
        count(found.most),
        count(found.same_identifiers),
        by_chance(found.same_identifiers_by_chance),
        count(found.same_question)
    );
    [
        ("Asked again within 10 s".to_owned(), again),
        (format!("In flight within {} ms", found.window_ms), together),
    ]
}

fn identifiers(analysis: &Analysis) -> Vec<(String, String)> {
    let Analysis { ids, ports, .. } = analysis;
    let mut lines = vec![
        ("IDs".to_owned(), spread(ids)),
        ("ID from ID".to_owned(), steps(ids)),
        ("Source ports".to_owned(), spread(ports)),
        ("Port from port".to_owned(), steps(ports)),
    ];
    for test in &ids.tests {
        let value = format!("{}, p = {}", significant(test.statistic), probability(test.p_value));
        lines.push((format!("IDs: {}", test.name), value));
    }
    lines
}

fn by_chance(number: f64) -> String {
    if number > 0.0 && number < 0.005 { "< 0.01".to_owned() } else { significant(number) }
}

fn seen(analysis: &Analysis) -> String {
    let all = if analysis.kept < analysis.seen {
        format!("; the first {} of them are analysed here", count(analysis.kept))
    } else {
        String::new()
    };
    format!(
        "{} in {} ({} q/s){all}",
        count(analysis.seen),
        seconds(analysis.duration_s),
        real(analysis.rate_qps, 0)
    )
}

fn spread(spread: &Spread) -> String {
    let more = if spread.pool_is_larger { "more than " } else { "" };
    format!(
        "{} different of {}, from {} to {}; used like a pool of {more}{}; entropy {} bits, min-entropy at least {} bits",
        count(spread.distinct),
        count(spread.count),
        spread.lowest,
        spread.highest,
        real(spread.pool, 0),
        real(spread.shannon_bits, 2),
        real(spread.min_entropy_bits, 2)
    )
}

fn steps(spread: &Spread) -> String {
    let place = if spread.steps.by_port { ", between queries of one port" } else { "" };
    let congruence = if spread.congruence_pct > 0.0 {
        format!("; a linear congruence predicts {}", brief_percent(spread.congruence_pct))
    } else {
        String::new()
    };
    format!(
        "+1 in {}; most often {:+}, in {}{place}{congruence}",
        percent(spread.steps.one_pct),
        spread.steps.common,
        percent(spread.steps.common_pct)
    )
}

/// A probability: `0.42`, `3.1e-7`.
pub(crate) fn probability(p: f64) -> String {
    match p {
        small if (0.0..1e-99).contains(&small) => "0".to_owned(),
        small if (0.0..0.001).contains(&small) => format!("{small:.1e}"),
        _ => real(p, 3),
    }
}

fn forging(analysis: &Analysis) -> Vec<(String, String)> {
    let spoofing = &analysis.spoofing;
    let after = |number: f64, what: &str, time_s: f64| {
        let number = if number < 100.0 { significant(number) } else { real(number, 0) };
        format!("after {number} {what}, {} at the rate seen", time(time_s))
    };
    let line = |label: &str, value: String| (label.to_owned(), value);
    vec![
        line(
            "A forger must guess",
            format!("1 ID of {}, 1 port of {}", real(spoofing.ids, 0), real(spoofing.ports, 0)),
        ),
        line(
            "Even chance of a forgery",
            after(spoofing.answers_for_even_chance, "forged answers", spoofing.even_chance_s),
        ),
        line(
            "Same port and ID again",
            after(spoofing.collision_queries, "queries (birthday)", spoofing.collision_s),
        ),
    ]
}

/// A time from milliseconds to years; [`NONE`] if it is unknown.
fn time(time_s: f64) -> String {
    const DAY_S: f64 = 86_400.0;
    match time_s {
        unknown if !unknown.is_finite() || unknown <= 0.0 => NONE.to_owned(),
        short if short < 100.0 => time_ns(short * 1e9),
        long if long < 3.0 * DAY_S => seconds(long.round()),
        long if long < 1000.0 * DAY_S => format!("{} days", real(long / DAY_S, 0)),
        long => format!("{} years", real(long / (365.25 * DAY_S), 1)),
    }
}
