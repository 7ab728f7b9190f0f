//! Probabilities of statistics, if chance alone were at work.

/// The natural logarithm of the gamma function, for positive arguments (Lanczos' approximation, g = 7).
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let t = x + 7.5;
    let terms = (1u8..).zip(&COEFFICIENTS[1..]);
    let sum = terms.fold(COEFFICIENTS[0], |sum, (k, term)| sum + term / (x + f64::from(k)));
    0.5 * std::f64::consts::TAU.ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// The upper regularized incomplete gamma function Q(a, x): its series below a + 1, its continued fraction
/// above.
fn upper_gamma(a: f64, x: f64) -> f64 {
    const ROUNDS: u16 = 2000;
    if x <= 0.0 {
        return 1.0;
    }
    let scale = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..ROUNDS {
            term *= x / (a + f64::from(n));
            sum += term;
            if term < sum * 1e-15 {
                break;
            }
        }
        return (1.0 - sum * scale).clamp(0.0, 1.0);
    }
    // Lentz's way of computing a continued fraction.
    let tiny = f64::MIN_POSITIVE;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / tiny, 1.0 / b);
    let mut fraction = d;
    for n in 1..ROUNDS {
        let numerator = -f64::from(n) * (f64::from(n) - a);
        b += 2.0;
        d = 1.0 / (numerator * d + b);
        c = b + numerator / c;
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (fraction * scale).clamp(0.0, 1.0)
}

/// The probability that a standard normal value is at least so far from 0.
pub(crate) fn two_sided(z: f64) -> f64 {
    upper_gamma(0.5, z * z / 2.0)
}

/// The probability that chi-square with so many degrees of freedom is at least so large.
pub(crate) fn chi_square(statistic: f64, degrees: f64) -> f64 {
    upper_gamma(degrees / 2.0, statistic / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_the_tables() {
        for (z, p) in
            [(0.0, 1.0), (1.0, 0.317_310_5), (1.959_964, 0.05), (3.290_527, 0.001), (6.0, 1.973_2e-9)]
        {
            assert!((two_sided(z) / p - 1.0).abs() < 1e-4, "{z}: {}", two_sided(z));
        }
        for (statistic, degrees, p) in [
            (3.841, 1.0, 0.05),
            (35.172, 23.0, 0.05),
            (41.638, 23.0, 0.01),
            (82.529, 63.0, 0.05),
            (10.0, 63.0, 1.0),
        ] {
            assert!((chi_square(statistic, degrees) / p - 1.0).abs() < 2e-3, "{statistic} {degrees}");
        }
        assert!(chi_square(1e6, 23.0) == 0.0 && two_sided(1e3) == 0.0);
    }
}
