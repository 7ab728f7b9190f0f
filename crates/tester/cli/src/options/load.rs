//! `--load`: load models, and files of recorded rates.

use std::fs::File;
use std::io::Read;

use engine::pacer::{Held, Model, ModelError, Rates, SECOND_NS};

/// In words that the documentation would take for links.
pub(super) const HELP: &str = "Load model: constant, poisson[:SEED], steps:RATE,RATE,... (equal parts), \
    ramp:FROM-TO, sine:LOW-HIGH/SECONDS (a period), rates:FILE (recorded rates, see docs/load.md), \
    burst:QUERIES (back to back, at the average rate); or a closed loop: closed:WINDOW (outstanding queries \
    of each thread), experiments:SLOTS[xCOUNT] (of 256 queries, as dns64perf2 makes them)";

/// The longest file of rates.
const FILE_OCTETS_MAX: u64 = 16 << 20;
/// The longest time that such a file may tell of, in ns: a week.
const LENGTH_MAX_NS: u64 = 7 * 86_400 * SECOND_NS;
/// The highest rate, as for `--rate`, in q/s.
const RATE_MAX_QPS: f64 = 1e8;

/// Reads a load model; of `rates:FILE` also the file.
pub(super) fn model(text: &str) -> Result<Model, String> {
    let Some(path) = text.strip_prefix("rates:") else {
        return text.parse().map_err(|error: ModelError| error.to_string());
    };
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(FILE_OCTETS_MAX + 1).read_to_string(&mut text))
        .map_err(|error| format!("cannot read rates from {path}: {error}"))?;
    if text.len() as u64 > FILE_OCTETS_MAX {
        return Err(format!("{path} has more than {} MiB", FILE_OCTETS_MAX >> 20));
    }
    let held = held(&text).map_err(|why| format!("{path}: {why}"))?;
    Rates::new(path, &held).map(Model::Rates).ok_or_else(|| format!("{path} holds no rate above 0"))
}

/// A rate in thousandths of q/s, and the instant from which it holds, in ns.
type Row = (u64, u64);

/// Reads `RATE` for each second, or `SECONDS RATE`, with blanks, a comma or a semicolon between. Blank lines
/// and comments (`#`) hold nothing, and the first line may have the names of columns. Each rate is held until
/// the next; the last as long as the one before it, or a second.
fn held(text: &str) -> Result<Vec<Held>, String> {
    let mut rows: Vec<Row> = Vec::new();
    let mut is_first = true;
    for (line, number) in text.lines().zip(1..) {
        let words: Vec<&str> = line
            .split(|letter: char| letter.is_whitespace() || letter == ',' || letter == ';')
            .filter(|word| !word.is_empty())
            .collect();
        let Some(first) = words.first().filter(|word| !word.starts_with('#')) else { continue };
        if std::mem::take(&mut is_first) && first.starts_with(|letter: char| letter.is_alphabetic()) {
            continue;
        }
        let row = row(&words, rows.len()).map_err(|why| format!("line {number}: {why}"))?;
        if rows.last().is_some_and(|(_, before_ns)| row.1 <= *before_ns) {
            return Err(format!("line {number}: its time is not after that of the rate before"));
        }
        rows.push(row);
    }
    let lengths: Vec<u64> = rows.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    let lengths = lengths.iter().copied().chain([lengths.last().copied().unwrap_or(SECOND_NS)]);
    let held: Vec<Held> =
        rows.iter().zip(lengths).map(|(row, length_ns)| Held { rate_mqps: row.0, length_ns }).collect();
    let total_ns = held.iter().fold(0u64, |sum, held| sum.saturating_add(held.length_ns));
    if total_ns > LENGTH_MAX_NS {
        return Err(format!("rates of {} days: at most 7 days", total_ns / SECOND_NS / 86_400));
    }
    Ok(held)
}

fn row(words: &[&str], second: usize) -> Result<Row, String> {
    let number = |text: &str, highest: f64, what: &str| {
        let number = text.parse().ok().filter(|number| (0.0..=highest).contains(number));
        number.ok_or_else(|| format!("'{text}' is not {what} from 0 to {highest}"))
    };
    let (seconds, rate) = match words {
        [rate] => (second as f64, rate),
        [seconds, rate] => (number(seconds, 1e10, "a time in seconds")?, rate),
        _ => return Err("write RATE, or SECONDS and RATE, for example '60 1500'".into()),
    };
    let rate_qps = number(rate, RATE_MAX_QPS, "a rate in q/s")?;
    // Seconds since 1970 are exact to a microsecond.
    Ok(((rate_qps * 1000.0).round() as u64, (seconds * 1e6).round() as u64 * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rates(text: &str) -> Vec<(u64, f64)> {
        let held = held(text).unwrap();
        held.iter().map(|held| (held.rate_mqps, held.length_ns as f64 / 1e9)).collect()
    }

    #[test]
    fn files_of_both_forms_are_read() {
        assert_eq!(rates("# q/s\n1000\n\n0\n12.3456\n"), [(1_000_000, 1.0), (0, 1.0), (12_346, 1.0)]);
        let minutes = "start,rate\n1700000000,100\n1700000060.5,200\n1700000120.5,50\n";
        assert_eq!(rates(minutes), [(100_000, 60.5), (200_000, 60.0), (50_000, 60.0)]);
        assert_eq!(rates("5; 7\r\n"), [(7000, 1.0)]);
        assert!(rates("rate\n").is_empty());
    }

    #[test]
    fn wrong_files_say_what_is_wrong() {
        for (text, reason) in [
            ("1000\nfast\n", "line 2: 'fast' is not a rate in q/s from 0 to 100000000"),
            ("-1", "line 1: '-1' is not a rate"),
            ("0 5\n0 6\n", "line 2: its time is not after"),
            ("1 2 3", "line 1: write RATE, or SECONDS and RATE"),
            ("1\nNaN 5", "line 2: 'NaN' is not"),
            ("0 1\nx 1", "line 2: 'x' is not a time in seconds"),
            ("0 1\n700000 2", "rates of 16 days: at most 7 days"),
        ] {
            let error = held(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        assert!(model("rates:/nonexistent").unwrap_err().contains("cannot read rates from /nonexistent"));
        assert!(model("rates:/dev/null").unwrap_err().contains("/dev/null holds no rate above 0"));
        assert!(model("waves").unwrap_err().contains("is no load model"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "([0-9]{1,12}[.,; ]?|-|\n|#|e|é){0,40}") {
            if let Some(rates) = held(&text).ok().and_then(|held| Rates::new("", &held)) {
                let schedule = engine::pacer::Schedule::with_model(0, 1, u64::MAX, Model::Rates(rates));
                prop_assert!(schedule.due_ns(schedule.queries.saturating_sub(1)) <= schedule.end_ns());
            }
        }
    }
}
