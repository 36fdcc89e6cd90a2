// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a rule consists of.

use super::measure::{Facts, Measure as M};
use crate::why::rules::Bound;
use linerate_record::why::Cause;

/// A condition in a rule.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// The quantity.
    pub measure: M,
    /// Its threshold.
    pub bound: Bound,
    /// Source of the threshold.
    pub source: &'static str,
}

impl Condition {
    /// Returns whether the whole interval of the measure is on the required side of the threshold.
    pub(super) fn holds(&self, facts: &Facts<'_>) -> bool {
        let Some(value) = self.measure.of(facts) else { return false };
        match self.bound {
            Bound::AtLeast(least) => value.low >= least,
            Bound::AtMost(most) => value.high <= most,
        }
    }
}

pub(super) const fn at_least(measure: M, least: f64, source: &'static str) -> Condition {
    Condition { measure, bound: Bound::AtLeast(least), source }
}

pub(super) const fn at_most(measure: M, most: f64, source: &'static str) -> Condition {
    Condition { measure, bound: Bound::AtMost(most), source }
}

/// A rule. Its texts contain placeholders in braces, which `words` replaces.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The cause that the rule finds, as in `why`.
    pub cause: Cause,
    /// Keyword of what limits the stream, such as `send_buffer`.
    pub limited_by: &'static str,
    /// Conditions, all of which must hold.
    pub conditions: &'static [Condition],
    /// Causes that explain the evidence of this rule: if one of them is found, this rule is not
    /// reported.
    pub explained_by: &'static [Cause],
    /// Whether the default sweep varies what limits the stream, and thus shows the gain.
    pub is_swept: bool,
    /// The claim, with its evidence.
    pub sentence: &'static str,
    /// Change that removes the cause.
    pub fix: &'static str,
    /// Observation that would disprove the finding.
    pub wrong_if: &'static str,
}
