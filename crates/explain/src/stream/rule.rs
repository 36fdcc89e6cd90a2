// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a rule consists of.

use super::measure::Measure;
use crate::rule;
use linerate_record::why::Cause;

/// A condition in a rule.
pub type Condition = rule::Condition<Measure>;

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
