//! Numbers as a person reads them: separators, units, and never `NaN`.

/// What is printed where there is no number.
pub const NONE: &str = "–";

/// A count with thousands separators: `60,000`.
pub fn count(value: u64) -> String {
    separate(&value.to_string())
}

/// A number with separators and this many decimals; [`NONE`] if it is not finite, powers of ten beyond 10^15.
pub fn real(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value.abs() >= 1e15 {
        return format!("{value:.2e}");
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let zero = text.bytes().all(|b| b == b'0' || b == b'.');
    let sign = if value < 0.0 && !zero { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", separate(whole))
}

/// Three significant digits, more where the whole part has more.
pub fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    real(value, decimals)
}

/// As many decimals as needed, at most three: `60`, `0.25`.
pub fn short(value: f64) -> String {
    let text = real(value, 3);
    if !text.contains('.') || text.contains('e') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A rate: `60,000 q/s`.
pub fn rate(value: f64) -> String {
    format!("{} q/s", real(value, 0))
}

/// A rate of whole queries per second.
pub fn rate_of(value: u64) -> String {
    format!("{} q/s", count(value))
}

/// A time in the unit that fits it: `61.2 µs`.
pub fn time_ns(value: f64) -> String {
    match unit_of_time(value) {
        (1.0, unit) => format!("{} {unit}", real(value, 0)),
        (scale, unit) => format!("{} {unit}", significant(value / scale)),
    }
}

/// A round time without needless decimals: `100 µs`.
pub fn brief_time_ns(value: f64) -> String {
    let (scale, unit) = unit_of_time(value);
    format!("{} {unit}", short(value / scale))
}

/// Nanoseconds in a unit in which the number has at most three digits, if it is not hours.
fn unit_of_time(value: f64) -> (f64, &'static str) {
    match value.abs() {
        size if size < 999.5 => (1.0, "ns"),
        size if size < 999.5e3 => (1e3, "µs"),
        size if size < 999.5e6 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

/// A time of whole nanoseconds.
pub fn time_of(value: u64) -> String {
    time_ns(value as f64)
}

/// A share with two decimals, `3.42 %`, none if it is nothing or all, and `< 0.01 %` rather than a zero that
/// is none.
pub fn percent(value: f64) -> String {
    if value > 0.0 && value < 0.005 {
        return "< 0.01 %".to_owned();
    }
    let decimals = if value == 0.0 || value == 100.0 { 0 } else { 2 };
    format!("{} %", real(value, decimals))
}

/// A given share without needless decimals: `95.9 %`.
pub fn brief_percent(value: f64) -> String {
    format!("{} %", short(value))
}

/// `part` of `whole` in percent; [`NONE`] of nothing. A share that is not everything is never printed as 100
/// %.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return NONE.to_owned();
    }
    let value = part as f64 / whole as f64 * 100.0;
    if part < whole && value > 99.995 { "> 99.99 %".to_owned() } else { percent(value) }
}

/// Seconds: `60 s`, and minutes and hours where they read better: `3 min 5 s`.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() || value.abs() < 120.0 || value.abs() >= 1e15 {
        return format!("{} s", short(value));
    }
    let whole = value.round() as i64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes, rest) {
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, rest) => format!("{minutes} min {rest} s"),
        (hours, minutes, _) => format!("{} h {minutes} min", real(hours as f64, 0)),
    }
}

/// Memory: `12.4 MiB`.
pub fn octets(value: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if value < 1024 {
        return format!("{value} B");
    }
    let power = (value.ilog2() / 10).min(6);
    let unit = UNITS[power as usize - 1];
    format!("{} {unit}", significant(value as f64 / 1024f64.powi(power as i32)))
}

/// For machines: as many digits as it takes, nothing if it is not finite.
pub fn exact(value: f64) -> String {
    let usual = value == 0.0 || (1e-6..1e18).contains(&value.abs());
    match value.is_finite() {
        true if usual => value.to_string(),
        true => format!("{value:e}"),
        false => String::new(),
    }
}

/// `1 run`, `3 runs`.
pub fn plural(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", count(number as u64), if number == 1 { one } else { many })
}

fn separate(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_and_units() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(rate(58_299.6), "58,300 q/s");
        assert_eq!(time_ns(61_234.0), "61.2 µs");
        assert_eq!(time_ns(999_960.0), "1.00 ms");
        assert_eq!(time_of(2_000_000_000), "2.00 s");
        assert_eq!(percent(0.000_1), "< 0.01 %");
        assert_eq!(percent(3.417), "3.42 %");
        assert_eq!(percent(100.0), "100 %");
        assert_eq!(share(999_999, 1_000_000), "> 99.99 %");
        assert_eq!(seconds(185.0), "3 min 5 s");
        assert_eq!(seconds(7_260.0), "2 h 1 min");
        assert_eq!(octets(13_000_000), "12.4 MiB");
        assert_eq!(octets(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn nothing_absurd_is_printed() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for text in [real(value, 2), rate(value), time_ns(value), percent(value), seconds(value)] {
                assert!(text.starts_with(NONE), "{text}");
            }
        }
        assert_eq!(real(-0.0, 1), "0.0");
        assert_eq!(real(1e300, 0), "1.00e300");
        assert_eq!(share(0, 0), NONE);
    }
}
