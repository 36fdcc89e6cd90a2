// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arithmetic on estimates.
//!
//! A missing interval end is represented as infinity and stays infinite, so an unbounded input
//! never yields a bounded result.

use super::{CONFIDENCE, Estimate};

impl Estimate {
    /// Returns the estimate of an exactly known number, whose interval ends equal its value.
    pub fn exactly(value: f64) -> Self {
        Self { value, low: value, high: value, confidence: CONFIDENCE, n: 1 }
    }

    /// Creates an estimate whose interval may lack one or both ends. Missing ends become infinite,
    /// so that a value of unknown spread never bounds a result.
    pub fn of_ends(value: f64, low: Option<f64>, high: Option<f64>, n: u64) -> Self {
        Self {
            value,
            low: low.unwrap_or(f64::NEG_INFINITY),
            high: high.unwrap_or(f64::INFINITY),
            confidence: CONFIDENCE,
            n,
        }
    }

    /// Multiplies the estimate by `factor`, which must not be negative, as in a unit conversion. A
    /// factor of 0 gives 0 even for unknown ends.
    #[must_use]
    pub fn scale(self, factor: f64) -> Self {
        let end = |end: f64| if factor == 0.0 { 0.0 } else { end * factor };
        let [value, low, high] = [self.value, self.low, self.high].map(end);
        Self { value, low, high, ..self }
    }

    /// Adds two estimates that may be correlated, such as those from one run. The interval ends are
    /// added.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            value: self.value + other.value,
            low: self.low + other.low,
            high: self.high + other.high,
            confidence: self.confidence.min(other.confidence),
            n: self.n + other.n,
        }
    }

    /// Subtracts two estimates that may be correlated. The low end is this estimate's low end minus
    /// the high end of `other`, and vice versa.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let negated = Self { value: -other.value, low: -other.high, high: -other.low, ..other };
        self.plus(negated)
    }

    /// Adds two independent estimates. Their errors add in quadrature, separately on each side.
    #[must_use]
    pub fn plus_independent(self, other: Self) -> Self {
        let value = self.value + other.value;
        let below = (self.value - self.low).hypot(other.value - other.low);
        let above = (self.high - self.value).hypot(other.high - other.value);
        Self { low: value - below, high: value + above, ..self.with(value, other) }
    }

    /// Multiplies two independent estimates. Relative errors add in quadrature. `other` must be
    /// positive.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        let value = self.value * other.value;
        if self.value == 0.0 {
            return self.scale(other.value).with(value, other);
        }
        let off = |end: f64, other_end: f64| {
            (end / self.value - 1.0).hypot(other_end / other.value - 1.0)
        };
        let (below, above) = (off(self.low, other.low), off(self.high, other.high));
        let (low, high) = (value * (1.0 - below), value * (1.0 + above));
        Self { low, high, ..self.with(value, other) }
    }

    /// Divides two independent, nonnegative estimates. Relative errors of the dividend and of the
    /// divisor's reciprocal add in quadrature, and the low end is at least 0. The high end is
    /// infinite if the divisor's interval contains 0. `other` must have a positive value.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        let high = if other.low > 0.0 { 1.0 / other.low } else { f64::INFINITY };
        let reciprocal = Self { value: 1.0 / other.value, low: 1.0 / other.high, high, ..other };
        let quotient = self.times(reciprocal);
        Self { low: quotient.low.max(0.0), ..quotient }
    }

    /// Clamps the value and both ends to at least 0, for nonnegative quantities. An unknown value
    /// (NaN) stays unknown.
    #[must_use]
    pub fn at_least_zero(self) -> Self {
        let clamp = |end: f64| if end < 0.0 { 0.0 } else { end };
        let [value, low, high] = [self.value, self.low, self.high].map(clamp);
        Self { value, low, high, ..self }
    }

    /// Returns `self` with `value` and with the lower confidence and sample count of the two
    /// estimates. The ends are left for the caller to replace.
    fn with(self, value: f64, other: Self) -> Self {
        let confidence = self.confidence.min(other.confidence);
        Self { value, confidence, n: self.n.min(other.n), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{NORMAL_QUANTILE, median_interval};
    use crate::{Figure, Tier};

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low, high, confidence: CONFIDENCE, n: 7 }
    }

    fn ends(e: Estimate) -> (f64, f64, f64) {
        (e.value, e.low, e.high)
    }

    #[test]
    fn the_default_confidence_takes_six_samples() {
        assert_eq!(CONFIDENCE, 0.95);
        let tail = (1.0 - CONFIDENCE) / 2.0;
        assert!((super::super::normal_quantile(tail) - NORMAL_QUANTILE).abs() < 0.003);
        let six = median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], CONFIDENCE);
        assert_eq!(ends(six), (3.5, 1.0, 6.0));
        let five = median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], CONFIDENCE);
        assert_eq!(five.high, f64::INFINITY);
    }

    #[test]
    fn ends_add_up_or_add_up_as_squares() {
        let (a, b) = (estimate(10.0, 7.0, 13.0), estimate(20.0, 16.0, 24.0));
        assert_eq!(ends(a.plus(b)), (30.0, 23.0, 37.0));
        assert_eq!(ends(b.minus(a)), (10.0, 3.0, 17.0));
        assert_eq!(ends(a.plus_independent(b)), (30.0, 25.0, 35.0));
        assert_eq!(ends(a.scale(2.0)), (20.0, 14.0, 26.0));
        let (value, low, high) = ends(a.times(b));
        assert!((value - 200.0).abs() < 1e-9 && (low + high - 400.0).abs() < 1e-9);
        assert!((high - 200.0 * (1.0 + 0.3_f64.hypot(0.2))).abs() < 1e-9, "{high}");
        let (value, low, high) = ends(a.over(b));
        assert_eq!(value, 0.5);
        // 1/16 and 1/24 are 25 % above and 17 % below 1/20.
        assert!((high - 0.5 * (1.0 + 0.3_f64.hypot(0.25))).abs() < 1e-9, "{high}");
        assert!((low - 0.5 * (1.0 - 0.3_f64.hypot(1.0 / 6.0))).abs() < 1e-9, "{low}");
    }

    #[test]
    fn quotients_by_wide_divisors_reach_as_far_as_the_reciprocal() {
        let dividend = Estimate::exactly(12.0);
        let (value, low, high) = ends(dividend.over(estimate(3.0, 1.0, 6.0)));
        assert_eq!(value, 4.0);
        assert!((low - 2.0).abs() < 1e-9 && (high - 12.0).abs() < 1e-9, "{low} {high}");
        let open = dividend.over(estimate(3.0, 0.0, f64::INFINITY));
        assert_eq!(ends(open), (4.0, 0.0, f64::INFINITY));
    }

    #[test]
    fn a_product_with_zero_has_the_unit_of_the_product() {
        let zero = estimate(0.0, -1.0, 2.0);
        assert_eq!(ends(zero.times(estimate(10.0, 9.0, 11.0))), (0.0, -10.0, 20.0));
        let nothing = estimate(0.0, 0.0, 2.0);
        assert_eq!(ends(nothing.over(estimate(4.0, 3.0, 5.0))), (0.0, 0.0, 0.5));
    }

    #[test]
    fn an_end_that_is_not_known_stays_unknown() {
        let open = Figure::exact("ticks", 5.0, Tier::Sw, "few windows").estimate().unwrap();
        let closed = estimate(10.0, 9.0, 11.0);
        let all = [
            open,
            open.scale(3.0),
            open.plus(closed),
            closed.minus(open),
            open.plus_independent(closed),
            closed.times(open),
        ];
        for sum in all {
            assert_eq!((sum.low, sum.high), (f64::NEG_INFINITY, f64::INFINITY), "{sum:?}");
        }
        let ratio = closed.over(open);
        assert_eq!((ratio.low, ratio.high), (0.0, f64::INFINITY));
        assert_eq!(ends(open.scale(0.0)), (0.0, 0.0, 0.0));
        assert!(median_interval(&[], CONFIDENCE).at_least_zero().value.is_nan());
    }
}
