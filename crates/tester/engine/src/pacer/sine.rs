//! A rate that rises and falls as a sine.

use std::f64::consts::PI;

use super::SECOND_NS;
use super::curve::{Corner, Curve};

/// Parts of a period. In each the rate is the sine's mean over the part, so that every corner lies on the
/// sine's own curve.
const PARTS: u64 = 1024;
/// The longest period, in seconds: a day.
pub const PERIOD_MAX_S: u64 = 86_400;

/// The rate is lowest at the start of each period and highest in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sine {
    low_qps: u64,
    high_qps: u64,
    period_s: u64,
}

impl Sine {
    /// `None` if the lowest rate is 0 or above the highest, or the period is not 1 to [`PERIOD_MAX_S`].
    pub fn new(low_qps: u64, high_qps: u64, period_s: u64) -> Option<Self> {
        let fits = (1..=high_qps).contains(&low_qps) && (1..=PERIOD_MAX_S).contains(&period_s);
        fits.then_some(Self { low_qps, high_qps, period_s })
    }

    /// The lowest rate in q/s.
    pub fn low_qps(self) -> u64 {
        self.low_qps
    }

    /// The highest rate in q/s.
    pub fn high_qps(self) -> u64 {
        self.high_qps
    }

    /// The period in seconds.
    pub fn period_s(self) -> u64 {
        self.period_s
    }
}

impl Curve for Sine {
    fn parts(&self) -> u64 {
        PARTS
    }

    /// The integral of the rate m - a * cos(2 pi t / P): m * t - a * P / (2 pi) * sin(2 pi t / P). Floating
    /// point is used within a period alone, where it is exact to a thousandth of a query; at its ends the
    /// sine is 0, and whole numbers decide.
    fn corner(&self, index: u64) -> Corner {
        let period_ns = self.period_s * SECOND_NS;
        let at_ns = (u128::from(period_ns) * u128::from(index) / u128::from(PARTS)) as u64;
        let mean = u128::from(self.low_qps + self.high_qps) * u128::from(at_ns) / 2;
        if index.is_multiple_of(PARTS / 2) {
            return Corner { at_ns, due: mean };
        }
        let amplitude = (self.high_qps - self.low_qps) as f64 / 2.0;
        let angle = 2.0 * PI * (at_ns as f64 / period_ns as f64);
        let swing = amplitude * period_ns as f64 / (2.0 * PI) * angle.sin();
        let size = swing.abs() as u128;
        Corner { at_ns, due: if swing > 0.0 { mean.saturating_sub(size) } else { mean + size } }
    }

    fn repeats(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn corners_never_fall_and_lie_on_the_sine(
            low_qps in 1u64..1_000_000, more_qps in 0u64..99_000_000, period_s in 1..=PERIOD_MAX_S,
        ) {
            let sine = Sine::new(low_qps, low_qps + more_qps, period_s).expect("rates and period that fit");
            let corners: Vec<Corner> = (0..=PARTS).map(|index| sine.corner(index)).collect();
            prop_assert!(corners.is_sorted_by(|one, next| one.at_ns < next.at_ns && one.due < next.due));
            prop_assert_eq!(corners[0], Corner::default());
            // Exactly the mean rate over each period.
            let mean = u128::from(2 * low_qps + more_qps) * u128::from(period_s * SECOND_NS) / 2;
            prop_assert_eq!(corners[PARTS as usize].due, mean);
            prop_assert_eq!(sine.part_of(0), sine.part_before(0, 1));
            prop_assert!(sine.peak_qps() <= low_qps + more_qps + 1);
            // The rate of each part is that of the sine in its middle.
            for pair in corners.windows(2).step_by(97) {
                let share = (pair[0].at_ns + pair[1].at_ns) as f64 / 2.0 / (period_s * SECOND_NS) as f64;
                let swing = (2.0 * PI * share).cos() * more_qps as f64 / 2.0;
                let expected = low_qps as f64 + more_qps as f64 / 2.0 - swing;
                let rate = (pair[1].due - pair[0].due) as f64 / (pair[1].at_ns - pair[0].at_ns) as f64;
                let tolerance = expected * 1e-4 + more_qps as f64 * 2e-6 + 0.01;
                prop_assert!((rate - expected).abs() <= tolerance, "{rate} {expected}");
            }
        }
    }
}
