// SPDX-License-Identifier: MIT OR Apache-2.0
//! Robust statistics: medians, quantiles, bootstrap intervals.

/// An estimate and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The point estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// The share of repetitions in which the interval is meant to hold the truth, 0 to 1.
    pub confidence: f64,
    /// Samples behind the estimate.
    pub n: u64,
}
