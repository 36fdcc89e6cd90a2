// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of rules: complete, and consistent with itself.

use linerate_explain::why::rules::{Bound, rules};
use linerate_explain::why::unknown_names;
use linerate_record::why::Cause;

#[test]
fn every_name_in_a_text_has_a_value() {
    assert_eq!(unknown_names(), Vec::<String>::new());
}

#[test]
fn every_removable_cause_has_a_rule_or_is_named_by_cannot_tell() {
    // Their evidence takes hardware counters, or the addresses of loads and stores.
    let beyond = [Cause::CacheMisses, Cause::FalseSharing];
    for cause in Cause::ALL.into_iter().filter(|cause| cause.is_removable()) {
        let has_rule = rules().any(|rule| rule.cause == cause);
        assert_ne!(has_rule, beyond.contains(&cause), "{}", cause.name());
    }
}

#[test]
fn rules_can_hold_and_say_when_they_are_wrong() {
    for rule in rules() {
        let name = rule.cause.name();
        assert!(!rule.conditions.is_empty() && !rule.wrong_if.is_empty(), "{name}");
        assert!(!rule.fix.is_empty() && !rule.measure.is_empty(), "{name}");
        assert!(rule.symptoms <= rule.conditions.len(), "{name}");
        assert!(!rule.explained_by.contains(&rule.cause), "{name}");
        for condition in rule.conditions {
            assert!(!condition.measure.title().0.is_empty(), "{name}: {condition:?}");
            let (Bound::AtLeast(at) | Bound::AtMost(at)) = condition.bound;
            assert!(at.is_finite() && !condition.source.is_empty(), "{name}");
        }
    }
}

#[test]
fn no_two_causes_explain_each_other() {
    for one in rules() {
        for other in rules() {
            let both =
                one.explained_by.contains(&other.cause) && other.explained_by.contains(&one.cause);
            assert!(!both, "{} and {}", one.cause.name(), other.cause.name());
        }
    }
}
