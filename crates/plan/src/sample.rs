// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random draws from an estimate.

use linerate_record::stats::{Estimate, normal_quantile};

/// Relative half-width assumed for an interval with an unknown end. Wider than the repeatability of
/// service times in windows without preemption (2-3 %), so that a figure of unknown spread never
/// decides a close comparison.
pub const UNKNOWN_SPREAD: f64 = 0.05;

/// Returns the value that is `z` standard deviations above an estimate's value, or below it for a
/// negative `z`; never below 0.
///
/// Costs cannot be negative, and their errors are mostly upwards. Hence the distribution is
/// log-normal with a separate scale on each side: its median is the value, and both ends of the
/// interval are matched exactly. If the interval extends to 0 or below, where there is no
/// logarithm, a normal distribution truncated at 0 is used instead.
pub(crate) fn draw(e: &Estimate, z: f64) -> f64 {
    let e = bounded(*e);
    let reach = z / half_width(e.confidence);
    if e.low > 0.0 {
        let ratio = if z > 0.0 { e.high / e.value } else { e.value / e.low };
        return e.value * ratio.powf(reach);
    }
    let side = if z > 0.0 { e.high - e.value } else { e.value - e.low };
    (e.value + side * reach).max(0.0)
}

/// Returns `e` with finite ends and the value between them.
pub(crate) fn bounded(e: Estimate) -> Estimate {
    let spread = UNKNOWN_SPREAD * e.value.abs();
    let low = if e.low.is_finite() { e.low.min(e.value) } else { e.value - spread };
    let high = if e.high.is_finite() { e.high.max(e.value) } else { e.value + spread };
    Estimate { low, high, ..e }
}

/// Returns the half-width of the central interval that contains a standard normal variable with
/// probability `confidence`.
///
/// Confidence is clamped to the range from 0.5 to 0.999, so that an odd value in a record neither
/// causes a division by 0 nor collapses the interval to a point.
fn half_width(confidence: f64) -> f64 {
    normal_quantile((1.0 - confidence.clamp(0.5, 0.999)) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::random::Random;
    use linerate_record::stats::quantile;

    #[test]
    fn half_widths_are_those_of_the_tables() {
        for (confidence, expected) in [(0.5, 0.6745), (0.9, 1.6449), (0.95, 1.9600), (0.99, 2.5758)]
        {
            assert!((half_width(confidence) - expected).abs() < 5e-4, "{confidence}");
        }
    }

    #[test]
    fn draws_have_the_median_and_the_interval_of_the_estimate() {
        for (value, low, high) in [(100.0, 90.0, 130.0), (2.0, -1.0, 4.0)] {
            let e = Estimate { value, low, high, confidence: 0.9, n: 9 };
            let mut random = Random::new(7);
            let draws: Vec<f64> = (0..20_000).map(|_| draw(&e, random.normal())).collect();
            let tolerance = 0.02 * (high - low);
            assert!((quantile(&draws, 0.5).unwrap() - value).abs() < tolerance);
            assert!((quantile(&draws, 0.05).unwrap() - low.max(0.0)).abs() < tolerance);
            assert!((quantile(&draws, 0.95).unwrap() - high).abs() < tolerance);
        }
    }

    #[test]
    fn an_unknown_end_is_replaced() {
        let e = Estimate {
            value: 100.0,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            confidence: 0.9,
            n: 3,
        };
        assert_eq!((bounded(e).low, bounded(e).high), (95.0, 105.0));
        assert!(draw(&e, -8.0) > 70.0);
    }

    #[test]
    fn a_point_stays_a_point() {
        let e = Estimate { value: 5.0, low: 5.0, high: 5.0, confidence: 0.9, n: 1 };
        assert_eq!(draw(&e, 3.0), 5.0);
        let zero = Estimate { value: 0.0, low: 0.0, high: 0.0, confidence: 0.9, n: 1 };
        assert_eq!(draw(&zero, -3.0), 0.0);
    }
}
