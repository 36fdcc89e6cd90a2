// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantiles of the standard normal distribution and of Student's t.

use std::f64::consts::FRAC_PI_2;

/// Returns the value that a standard normal variable exceeds with probability `tail`, above 0 and
/// at most 0.5; accurate to 0.00045 (Abramowitz and Stegun, 26.2.23).
pub fn normal_quantile(tail: f64) -> f64 {
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - above / below
}

/// Number of cells into which [`student_quantile`] divides the range of its angle.
const CELLS: u32 = 1000;
/// End of the range of the angle in [`student_quantile`], in standard deviations of the angle;
/// beyond it, the density is negligible.
const FAR: f64 = 10.0;
/// Degrees of freedom above which Student's t equals the normal distribution to within 1 in 10^6.
const NORMAL_FREEDOM: f64 = 1e6;

/// Returns the value that Student's t with `freedom` degrees of freedom exceeds with probability
/// `tail`, 0.001 to 0.5; accurate to 0.2 %. Less than 1 degree of freedom is treated as 1.
///
/// For `t = sqrt(freedom) tan(a)`, the density of the angle `a` is bounded and proportional to
/// `cos(a)^(freedom - 1)`; the range of `a` is bounded, too. The quantile is at the angle where the
/// density summed from 0 reaches the fraction `1 - 2 tail` of its sum over the whole range.
pub fn student_quantile(freedom: f64, tail: f64) -> f64 {
    let freedom = freedom.clamp(1.0, NORMAL_FREEDOM);
    let width = FRAC_PI_2.min(FAR / freedom.sqrt()) / f64::from(CELLS);
    let density = |cell: u32| ((f64::from(cell) + 0.5) * width).cos().powf(freedom - 1.0);
    let whole: f64 = (0..CELLS).map(density).sum();
    let mut left = (1.0 - 2.0 * tail) * whole;
    let mut angle = 0.0;
    for cell in 0..CELLS {
        let density = density(cell);
        if left <= density {
            angle = (f64::from(cell) + left / density) * width;
            break;
        }
        left -= density;
    }
    freedom.sqrt() * angle.tan()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_quantiles_are_those_of_the_table() {
        for (tail, z) in [(0.25, 0.6745), (0.05, 1.6449), (0.025, 1.9600), (0.005, 2.5758)] {
            assert!((normal_quantile(tail) - z).abs() < 5e-4, "{tail}");
        }
    }

    #[test]
    fn student_quantiles_are_those_of_the_table() {
        for (freedom, tail, t) in [
            (1.0, 0.025, 12.706),
            (1.0, 0.25, 1.0),
            (2.0, 0.025, 4.303),
            (3.0, 0.025, 3.182),
            (3.0, 0.05, 2.353),
            (4.0, 0.005, 4.604),
            (9.0, 0.025, 2.262),
            (30.0, 0.001, 3.385),
            (120.0, 0.025, 1.980),
            (f64::INFINITY, 0.025, 1.960),
        ] {
            let found = student_quantile(freedom, tail);
            assert!((found / t - 1.0).abs() < 0.002, "{freedom} {tail}: {found}");
        }
        assert_eq!(student_quantile(0.5, 0.025), student_quantile(1.0, 0.025));
        assert!(student_quantile(5.0, 0.5).abs() < 1e-9);
    }

    /// Counts fractional degrees of freedom on the reference of a fine numeric integral over t.
    #[test]
    fn fractional_degrees_of_freedom_are_between_whole_ones() {
        for (freedom, tail) in [(1.2_f64, 0.025), (1.5, 0.025), (2.5, 0.05)] {
            let t = student_quantile(freedom, tail);
            let density = |x: f64| (1.0 + x * x / freedom).powf(-(freedom + 1.0) / 2.0);
            // The far end of the range is integrated in 1/x.
            let sum = |from: f64, to: f64, of: &dyn Fn(f64) -> f64| {
                let step = (to - from) / 100_000.0;
                (0..100_000).map(|i| of(from + (f64::from(i) + 0.5) * step) * step).sum::<f64>()
            };
            let beyond = |x: f64| sum(0.0, 1.0 / x, &|y| density(1.0 / y) / (y * y));
            let all = sum(0.0, 1.0, &density) + beyond(1.0);
            let found = beyond(t) / (2.0 * all);
            assert!((found / tail - 1.0).abs() < 0.005, "{freedom} {tail}: {found}");
        }
    }
}
