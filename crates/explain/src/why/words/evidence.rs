// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measures behind a finding.

use super::super::facts::{Facts, Subject};
use super::super::rules::{Condition, Rule};
use linerate_record::answers::Evidence;
use linerate_record::units::three_digits;

/// Returns a rule's evidence in the form stored in a finding.
pub(in super::super) fn evidence<'a>(
    rule: &Rule,
    facts: &Facts<'a>,
    subject: Subject<'a>,
) -> Vec<Evidence> {
    let of = |condition: &Condition| {
        let estimate = condition.measure.of(facts, subject)?;
        if estimate.value.is_infinite() {
            return None;
        }
        let (bound, at) = condition.bound.parts();
        let source = format!("tier sw; {bound} {}: {}", three_digits(at), condition.source);
        let (name, unit) = condition.measure.title();
        Some(Evidence::of(name, estimate, unit, &source))
    };
    rule.conditions.iter().filter_map(of).collect()
}
