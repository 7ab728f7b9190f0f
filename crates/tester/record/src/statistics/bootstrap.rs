//! Bootstrap confidence intervals, bias-corrected and accelerated (Efron and Tibshirani, *An Introduction to
//! the Bootstrap*, 1993, chapter 14).

use crate::identifiers::two_sided;
use crate::random::Sequence;

/// A value with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The statistic of the samples themselves.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Samples that are drawn anew.
const RESAMPLES: usize = 4000;

/// The BCa interval of a statistic of independent samples, of which each is drawn from separately. The same
/// seed gives the same interval. `confidence` lies between 0 and 1. `None` if a sample is empty or the
/// statistic of any drawing is not a number.
pub fn bca(
    samples: &[&[f64]],
    statistic: impl Fn(&[Vec<f64>]) -> f64,
    confidence: f64,
    seed: u64,
) -> Option<Interval> {
    if samples.iter().any(|sample| sample.is_empty()) {
        return None;
    }
    let whole: Vec<Vec<f64>> = samples.iter().map(|sample| sample.to_vec()).collect();
    let value = statistic(&whole);
    let mut random = Sequence::new(seed, 0);
    let mut draw = |sample: &&[f64]| -> Vec<f64> {
        let index = |bits| crate::random::below(bits, sample.len() as u64) as usize;
        sample.iter().map(|_| sample[index(random.bits())]).collect()
    };
    let mut drawn: Vec<f64> =
        (0..RESAMPLES).map(|_| statistic(&samples.iter().map(&mut draw).collect::<Vec<_>>())).collect();
    if !value.is_finite() || drawn.iter().any(|value| !value.is_finite()) {
        return None;
    }
    drawn.sort_by(f64::total_cmp);
    let below = drawn.partition_point(|&other| other < value);
    let up_to = drawn.partition_point(|&other| other <= value);
    // Statistics of few values repeat: those equal to the value count half, or the bias would be theirs.
    let bias = quantile((below + up_to) as f64 / 2.0 / RESAMPLES as f64);
    let acceleration = acceleration(&whole, &statistic);
    let end = |tail: f64| {
        let z = bias + quantile(tail);
        let level = cumulative(bias + z / (1.0 - acceleration * z));
        let rank = (level * (RESAMPLES + 1) as f64).round() as usize;
        drawn[rank.clamp(1, RESAMPLES) - 1]
    };
    let tail = (1.0 - confidence) / 2.0;
    Some(Interval { value, low: end(tail), high: end(1.0 - tail) })
}

/// The acceleration by the jackknife over all samples; 0 where leaving out a value changes nothing.
fn acceleration(samples: &[Vec<f64>], statistic: &impl Fn(&[Vec<f64>]) -> f64) -> f64 {
    let (mut squares, mut cubes) = (0.0, 0.0);
    for (which, sample) in samples.iter().enumerate().filter(|(_, sample)| sample.len() > 1) {
        let without = |index: usize| {
            let mut samples = samples.to_vec();
            samples[which].remove(index);
            statistic(&samples)
        };
        let left_out: Vec<f64> = (0..sample.len()).map(without).collect();
        let mean = left_out.iter().sum::<f64>() / sample.len() as f64;
        // Influence is measured by sample, as samples may differ in size.
        let scale = (sample.len() - 1) as f64 / sample.len() as f64;
        for value in left_out {
            let influence = (mean - value) * scale;
            squares += influence * influence;
            cubes += influence * influence * influence;
        }
    }
    let acceleration = cubes / (6.0 * squares.powf(1.5));
    if acceleration.is_finite() { acceleration } else { 0.0 }
}

/// The share of a standard normal distribution below z.
fn cumulative(z: f64) -> f64 {
    let tail = two_sided(z) / 2.0;
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// Its inverse, between -8 and 8, by halving.
fn quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if cumulative(middle) < share { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::median;

    /// The spatial test data of Efron and Tibshirani, table 14.1, first column.
    const SPATIAL: [f64; 26] = [
        48.0, 36.0, 20.0, 29.0, 42.0, 42.0, 20.0, 42.0, 22.0, 41.0, 45.0, 14.0, 6.0, 0.0, 33.0, 28.0, 34.0,
        4.0, 32.0, 24.0, 47.0, 41.0, 24.0, 26.0, 30.0, 41.0,
    ];

    fn variance(samples: &[Vec<f64>]) -> f64 {
        let values = &samples[0];
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
    }

    #[test]
    fn the_published_example_is_met() {
        assert!((variance(&[SPATIAL.to_vec()]) - 171.5).abs() < 0.05);
        assert!((acceleration(&[SPATIAL.to_vec()], &variance) - 0.061).abs() < 0.001);
        // The book has (115.8, 259.6) from 2000 drawings.
        let interval = bca(&[&SPATIAL], variance, 0.9, 1).unwrap();
        assert!((interval.low - 115.8).abs() < 3.0 && (interval.high - 259.6).abs() < 6.0, "{interval:?}");
    }

    #[test]
    fn the_normal_distribution_is_known() {
        for (z, share) in [(0.0, 0.5), (1.959_964, 0.975), (-1.644_854, 0.05)] {
            assert!((cumulative(z) - share).abs() < 1e-6);
            assert!((quantile(share) - z).abs() < 1e-5);
        }
    }

    #[test]
    fn equal_values_leave_no_doubt_and_missing_ones_no_interval() {
        let middle = |samples: &[Vec<f64>]| median(&samples[0]).unwrap_or(f64::NAN);
        assert_eq!(bca(&[&[5.0; 6]], middle, 0.95, 1), Some(Interval { value: 5.0, low: 5.0, high: 5.0 }));
        assert_eq!(bca(&[&[]], middle, 0.95, 1), None);
        assert_eq!(bca(&[&[0.0]], |_| f64::NAN, 0.95, 1), None);
    }

    /// Of 200 samples of 12 values of a known distribution about 190 intervals must hold its median.
    #[test]
    fn intervals_hold_the_true_value_as_often_as_they_say() {
        let mut random = Sequence::new(7, 1);
        let middle = |samples: &[Vec<f64>]| median(&samples[0]).unwrap_or(f64::NAN);
        let hits = (0..200).filter(|&seed| {
            let sample: Vec<f64> = (0..12).map(|_| -random.unit().ln()).collect();
            let interval = bca(&[&sample], middle, 0.95, seed).unwrap();
            (interval.low..=interval.high).contains(&std::f64::consts::LN_2)
        });
        let hits = hits.count();
        assert!((180..=198).contains(&hits), "{hits} of 200");
    }
}
