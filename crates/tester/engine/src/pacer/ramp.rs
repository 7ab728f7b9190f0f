//! A rate that changes evenly: after t of T, r0*t + (r1 - r0)*t*t/(2*T) queries are due.

use super::SECOND_NS;

/// The curve times 2 * T * 1e9, without rounding. Rates are at most 1e8 q/s and times at most a day: below
/// 1e37.
fn curve(from_qps: u64, to_qps: u64, duration_ns: u64, at_ns: u64) -> u128 {
    let (from, to) = (u128::from(from_qps), u128::from(to_qps));
    let (duration, at) = (u128::from(duration_ns), u128::from(at_ns.min(duration_ns)));
    // from * at * 2T + (to - from) * at^2, written without a negative term.
    from * at * (2 * duration - at) + to * at * at
}

/// The denominator of [`curve`].
fn scale(duration_ns: u64) -> u128 {
    2 * u128::from(duration_ns.max(1)) * u128::from(SECOND_NS)
}

/// How many queries the curve has passed after `at_ns` of `duration_ns`.
pub(super) fn count(from_qps: u64, to_qps: u64, duration_ns: u64, at_ns: u64) -> u64 {
    u64::try_from(curve(from_qps, to_qps, duration_ns, at_ns) / scale(duration_ns)).unwrap_or(u64::MAX)
}

/// When the curve reaches `n`, in ns after the start, rounded up; the duration for all that it never reaches.
pub(super) fn due_ns(from_qps: u64, to_qps: u64, duration_ns: u64, n: u64) -> u64 {
    let reached = |at_ns: u64| {
        let needed = u128::from(n).saturating_mul(scale(duration_ns));
        curve(from_qps, to_qps, duration_ns, at_ns) >= needed
    };
    if !reached(duration_ns) {
        return duration_ns;
    }
    // The root in floating point, in the form that does not cancel, is a good guess; then whole numbers
    // decide.
    let (from, duration_s) = (from_qps as f64, duration_ns as f64 / 1e9);
    let slope = (to_qps as f64 - from) / duration_s;
    let root = (from * from + 2.0 * slope * n as f64).max(0.0).sqrt();
    let guess = (2.0 * n as f64 / (from + root) * 1e9) as u64;
    let (mut low, mut high) = bracket(guess.min(duration_ns), duration_ns, reached);
    while low < high {
        let middle = low + (high - low) / 2;
        if reached(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Bounds around the guess between which the curve is reached; at `duration_ns` it is.
fn bracket(guess: u64, duration_ns: u64, reached: impl Fn(u64) -> bool) -> (u64, u64) {
    let (mut low, mut high, mut step) = (guess, guess, 1u64);
    while !reached(high) {
        low = high + 1;
        high = high.saturating_add(step).min(duration_ns);
        step *= 2;
    }
    while low > 0 && reached(low - 1) {
        high = low - 1;
        low = low.saturating_sub(step);
        step *= 2;
    }
    (low, high)
}
