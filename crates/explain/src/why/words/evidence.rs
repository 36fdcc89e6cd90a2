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
        let value = condition.measure.of(facts, subject)?.value;
        if value.is_infinite() {
            return None;
        }
        let (bound, at) = condition.bound.parts();
        let source = format!("tier sw; {bound} {}: {}", three_digits(at), condition.source);
        let (name, unit) = condition.measure.title();
        Some(Evidence { name: name.to_owned(), value, unit: unit.to_owned(), source })
    };
    rule.conditions.iter().filter_map(of).collect()
}
