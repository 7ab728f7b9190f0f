//! Tables for a paper, in LaTeX with the booktabs package.

use engine::record::{Latency, Results};

use super::caveats::deviations;
use super::clean::printable;
use super::number::{count, percent, real, seconds, time_ns, time_of};
use super::select::{Tally, best_pass};
use super::words::dut_name;

/// A file name and what is in it, for each table that the record can fill.
pub fn latex_tables(results: &Results) -> Vec<(String, String)> {
    let mut tables = Vec::new();
    if results.summary.is_some() {
        tables.push(("summary.tex".to_owned(), printable(summary(results))));
    }
    if !results.runs.is_empty() {
        tables.push(("runs.tex".to_owned(), printable(runs(results))));
    }
    if results.latency_trial.is_some() || results.runs.iter().any(|run| best_pass(run).is_some()) {
        tables.push(("latency.tex".to_owned(), printable(latency(results))));
    }
    tables
}

fn summary(results: &Results) -> String {
    let Some(found) = &results.summary else { return String::new() };
    let cells = [
        escaped(&dut_name(results)),
        real(found.median, 0),
        count(found.p1),
        count(found.p99),
        escaped(&percent(found.dispersion_pct)),
        count(found.stop_width_qps),
    ];
    let head = ["Server", "Median", "P1", "P99", "Dispersion", "Stop width"];
    table(results, "summary", "DNS64 performance in queries per second", "lrrrrr", &head, &[cells.to_vec()])
}

fn runs(results: &Results) -> String {
    let rows: Vec<Vec<String>> = (results.runs.iter().enumerate())
        .map(|(index, run)| {
            let tally = Tally::of(&run.trials);
            let failed = format!("{}/{}/{}", tally.pass, tally.fail, tally.void);
            vec![
                (index + 1).to_string(),
                count(run.qps),
                count(run.stop_width_qps),
                failed,
                run.loss_inversions.to_string(),
            ]
        })
        .collect();
    let head = ["Run", "Rate (q/s)", "Stop width (q/s)", "Pass/fail/void", "Loss inversions"];
    table(results, "runs", "Rate found by each repetition of the search", "rrrrr", &head, &rows)
}

fn latency(results: &Results) -> String {
    let row = |what: String, rate: u64, times: &Latency| {
        let mut cells = vec![what, count(rate)];
        cells.extend(
            [times.p50, times.p90, times.p99, times.p999, times.max].map(|time| escaped(&time_of(time))),
        );
        cells.push(escaped(&time_ns(times.mean)));
        cells
    };
    let half = results
        .latency_trial
        .iter()
        .map(|trial| row("half rate".to_owned(), trial.rate_qps, &trial.latency_ns));
    let best = (results.runs.iter().enumerate()).filter_map(|(index, run)| {
        best_pass(run).map(|trial| row(format!("run {}", index + 1), trial.rate_qps, &trial.latency_ns))
    });
    let rows: Vec<Vec<String>> = half.chain(best).collect();
    let head = ["Trial", "Rate (q/s)", "P50", "P90", "P99", "P99.9", "Max", "Mean"];
    table(results, "latency", "Latency of valid answers from the scheduled instant", "lrrrrrrr", &head, &rows)
}

fn table(
    results: &Results,
    name: &str,
    what: &str,
    columns: &str,
    head: &[&str],
    rows: &[Vec<String>],
) -> String {
    let head = head.iter().map(|cell| escaped(cell)).collect::<Vec<_>>().join(" & ");
    let body: String = rows.iter().map(|row| format!("    {} \\\\\n", row.join(" & "))).collect();
    format!(
        "% Needs \\usepackage{{booktabs}} and, before 2020, \\usepackage{{textcomp}}.\n\
         \\begin{{table}}\n  \\centering\n  \\caption{{{}}}\n  \\label{{tab:sextant-{name}}}\n  \
         \\begin{{tabular}}{{{columns}}}\n    \\toprule\n    {head} \\\\\n    \\midrule\n{body}    \\bottomrule\n  \
         \\end{{tabular}}\n\\end{{table}}\n",
        caption(results, what)
    )
}

fn caption(results: &Results, what: &str) -> String {
    let settings = &results.settings;
    let n = results.summary.as_ref().map_or(results.runs.len(), |found| found.n);
    let asked = deviations(results);
    let asked = if asked.is_empty() { "none".to_owned() } else { asked.join("; ") };
    escaped(&format!(
        "{what}, {}. N = {n}; preset {}, search {}, trials of {}, timeout {}, {} % of names with AAAA, {} % cached. \
         Deviations from RFC 8219: {asked}.",
        dut_name(results),
        settings.preset,
        settings.search,
        seconds(settings.trial_s),
        seconds(settings.timeout_s),
        settings.aaaa_share_pct,
        settings.cached_share_pct,
    ))
}

/// Text with nothing left that LaTeX would act on.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '<' => out += "\\textless{}",
            '>' => out += "\\textgreater{}",
            'µ' => out += "\\textmu{}",
            '–' => out += "--",
            '{' | '}' | '$' | '&' | '#' | '%' | '_' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\t' => out.push(' '),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specials_are_escaped() {
        assert_eq!(escaped("a_b & 3 % of $x^2 \\input{y}"), {
            "a\\_b \\& 3 \\% of \\$x\\textasciicircum{}2 \\textbackslash{}input\\{y\\}"
        });
        assert_eq!(escaped("60.1 µs"), "60.1 \\textmu{}s");
    }
}
