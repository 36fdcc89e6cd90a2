// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time that was taken away from a thread that did nothing but watch the clock.

use linerate_record::memory::Bin;
use linerate_record::stats::Estimate;

/// A time in which the thread did not run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// When it began, in ns since the watch began.
    pub at_ns: f64,
    /// Time between two reads of the clock less what is usual between two.
    pub ns: f64,
}

/// What was taken away.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// The share of the time, 0 to 1.
    pub share: Estimate,
    /// Gaps per second.
    pub per_second: Estimate,
    /// The longest, in ns; 0 without gaps.
    pub longest_ns: f64,
    /// Gaps by length; empty without gaps.
    pub bins: Vec<Bin>,
}

/// What `gaps` took of `seconds`. `None` where `seconds` is not positive.
pub fn loss(_gaps: &[Gap], _seconds: f64, _confidence: f64, _seed: u64) -> Option<Loss> {
    None
}
