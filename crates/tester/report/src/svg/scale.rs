//! From values to coordinates.

/// Maps a range of values to a range of pixels; values beyond are drawn at the edge.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    kind: Kind,
    from: (f64, f64),
    to: (f64, f64),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Linear,
    Log,
}

/// Nothing in a record is larger; keeps differences finite.
const HUGE: f64 = 1e30;
/// The smallest value of a logarithmic scale.
const TINY: f64 = 1e-6;

impl Scale {
    /// Equal steps for equal differences. The first value may be the larger one.
    pub fn linear(from: (f64, f64), to: (f64, f64)) -> Self {
        let (a, b) = (tamed(from.0), tamed(from.1));
        let gap = a.abs().max(1.0) * 1e-9;
        let from = if (b - a).abs() < gap { (a, a + a.abs().max(1.0)) } else { (a, b) };
        Self { kind: Kind::Linear, from, to }
    }

    /// Equal steps for equal ratios.
    pub fn log(from: (f64, f64), to: (f64, f64)) -> Self {
        let (a, b) = (tamed(from.0).max(TINY), tamed(from.1).max(TINY));
        let from = if (b / a - 1.0).abs() < 1e-9 { (a, a * 10.0) } else { (a, b) };
        Self { kind: Kind::Log, from, to }
    }

    /// The coordinate of a value.
    pub fn at(&self, value: f64) -> f64 {
        let (a, b) = self.from;
        let value = tamed(value).clamp(a.min(b), a.max(b));
        let share = match self.kind {
            Kind::Linear => (value - a) / (b - a),
            Kind::Log => (value / a).ln() / (b / a).ln(),
        };
        self.to.0 + share * (self.to.1 - self.to.0)
    }

    /// About `wanted` round values within the scale, rising; on a logarithmic one powers of ten, and 2 and 5
    /// times them where there is room.
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        let (low, high) = (self.from.0.min(self.from.1), self.from.0.max(self.from.1));
        match self.kind {
            Kind::Linear => linear_ticks(low, high, wanted),
            Kind::Log => log_ticks(low, high, wanted),
        }
    }
}

fn tamed(value: f64) -> f64 {
    if value.is_finite() { value.clamp(-HUGE, HUGE) } else { 0.0 }
}

fn linear_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let rough = (high - low) / wanted.max(1) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= rough * 0.7);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil();
    let last = (high / step + 1e-9).floor();
    (0..=(2 * wanted).max(2)).map(|n| first + n as f64).take_while(|n| *n <= last).map(|n| n * step).collect()
}

fn log_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let decades = (high / low).log10();
    let steps: &[f64] = if decades * 3.0 <= wanted as f64 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = (decades / wanted.max(1) as f64).ceil().max(1.0) as usize;
    let powers = (first..=last).step_by(every);
    let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
    all.filter(|value| *value >= low * 0.999 && *value <= high * 1.001).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_meet_ends() {
        let rates = Scale::linear((0.0, 200.0), (300.0, 10.0));
        assert_eq!((rates.at(0.0), rates.at(200.0), rates.at(900.0)), (300.0, 10.0, 10.0));
        let shares = Scale::log((100.0, 0.01), (0.0, 400.0));
        assert!((shares.at(1.0) - 200.0).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(Scale::linear((0.0, 92.0), (0.0, 1.0)).ticks(5), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(Scale::log((100.0, 0.01), (0.0, 1.0)).ticks(5), [0.01, 0.1, 1.0, 10.0, 100.0]);
        assert_eq!(Scale::log((40.0, 600.0), (0.0, 1.0)).ticks(5), [50.0, 100.0, 200.0, 500.0]);
    }

    #[test]
    fn any_number_has_a_place() {
        let wild = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, f64::MAX, f64::MIN_POSITIVE];
        for a in wild {
            for b in wild {
                for scale in [Scale::linear((a, b), (0.0, 100.0)), Scale::log((a, b), (0.0, 100.0))] {
                    assert!(
                        wild.iter().all(|value| (-1e-9..=100.000_001).contains(&scale.at(*value))),
                        "{scale:?}"
                    );
                    assert!(scale.ticks(5).len() < 40 && scale.ticks(5).iter().all(|tick| tick.is_finite()));
                }
            }
        }
    }
}
