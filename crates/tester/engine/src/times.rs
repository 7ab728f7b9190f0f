//! Histograms of times, and what the record keeps of them.

use hdrhistogram::Histogram;
use record::Latency;

/// The longest time that a histogram tells from longer ones, in ns: 100 s.
pub(crate) const MAX_NS: u64 = 100_000_000_000;

/// An empty histogram of times in ns, of 1 ns to [`MAX_NS`], with three digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_NS, 3).expect("the crate takes these constant bounds")
}

/// The mean, the maximum and the quantiles of a histogram, in ns; nothing of an empty one.
pub(crate) fn summarize_any(histogram: &Histogram<u64>) -> Option<Latency> {
    (!histogram.is_empty()).then(|| summarize(histogram))
}

/// The mean, the maximum and the quantiles of a histogram, in ns; zeros of an empty one.
pub(crate) fn summarize(histogram: &Histogram<u64>) -> Latency {
    if histogram.is_empty() {
        return Latency::default();
    }
    let at = |quantile| histogram.value_at_quantile(quantile);
    Latency {
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: histogram.max(),
        mean: histogram.mean(),
    }
}
