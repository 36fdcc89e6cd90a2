// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remarks: circumstances that cost a program time whatever limits it. They are data, like the
//! rules for causes ([`mod@super::rules`]).
//!
//! A finding predicts a gain, so the entire intervals of its measures must be on one side of their
//! thresholds. A remark only states what was measured, with its interval. Its conditions therefore
//! compare the most likely values.

mod sign;
mod table;
mod texts;

pub use sign::Sign;
pub use table::remark_rules;

use super::facts::{Facts, Subject};
use super::rules::{Scope, subjects};
use crate::rule::{self, Verdict, filled};
use linerate_record::answers::Evidence;
use linerate_record::stats::Estimate;
use linerate_record::units::three_digits;
use linerate_record::why::{Cause, Circumstance, WhyFinding, WhyRemark};

/// A condition of a remark.
pub type Requirement = rule::Condition<Sign>;

/// When to make a remark, and what it says. Texts may have placeholders in braces.
#[derive(Clone, Copy, Debug)]
pub struct RemarkRule {
    /// Circumstance that the remark is about.
    pub id: Circumstance,
    /// What the rule is evaluated for. Of several subjects that meet the conditions, the remark is
    /// about the one with the largest value in the first condition.
    pub scope: Scope,
    /// Conditions, all of which must be met.
    pub conditions: &'static [Requirement],
    /// Quantities listed as evidence in addition to those of the conditions.
    pub shown: &'static [Sign],
    /// Causes of the first finding to which the remark is limited; any cause if empty.
    pub only_with: &'static [Cause],
    /// Causes of the first finding that say the same; the remark is then left out.
    pub same_as: &'static [Cause],
    /// Words with which the first finding's sentence says the same, whatever its cause. May have
    /// placeholders.
    pub said_by: &'static [&'static str],
    /// What was seen, with figures.
    pub sentence: &'static str,
    /// Command or setting that shows more, or removes the circumstance.
    pub next: &'static str,
    /// Observation that would disprove the remark.
    pub wrong_if: &'static str,
}

impl Requirement {
    fn is_met<'a>(&self, facts: &Facts<'a>, subject: Subject<'a>) -> bool {
        let value = self.measure.of(facts, subject).map(|one| Estimate::exactly(one.value));
        self.bound.verdict(value) == Verdict::Holds
    }

    /// Returns the quantity as evidence, with the threshold in its source.
    fn evidence<'a>(&self, facts: &Facts<'a>, subject: Subject<'a>) -> Option<Evidence> {
        let (bound, at) = self.bound.parts();
        let source = format!("tier sw; {bound} {}: {}", three_digits(at), self.source);
        evidence(self.measure, facts, subject, &source)
    }
}

/// Returns the remarks on an observation with this first finding, in the order of the table.
pub(super) fn remarks(facts: &Facts<'_>, first: Option<&WhyFinding>) -> Vec<WhyRemark> {
    let is_wanted = |rule: &&RemarkRule| {
        let causes = |list: &[Cause]| first.is_some_and(|first| list.contains(&first.cause));
        (rule.only_with.is_empty() || causes(rule.only_with)) && !causes(rule.same_as)
    };
    let wanted = remark_rules().iter().filter(is_wanted);
    wanted.filter_map(|rule| remark(rule, facts, first)).collect()
}

/// Returns a rule's remark; `None` if no subject meets its conditions, or if the first finding says
/// the same.
fn remark<'a>(
    rule: &RemarkRule,
    facts: &Facts<'a>,
    first: Option<&WhyFinding>,
) -> Option<WhyRemark> {
    let is_met =
        |subject: &Subject<'a>| rule.conditions.iter().all(|one| one.is_met(facts, *subject));
    let size = |subject: &Subject<'a>| {
        let first = rule.conditions.first().and_then(|one| one.measure.of(facts, *subject));
        first.map_or(0.0, |one| one.value)
    };
    // The first of several subjects with the same value.
    let found = subjects(rule.scope, facts).into_iter().rev().filter(is_met);
    let subject = found.max_by(|a, b| size(a).total_cmp(&size(b)))?;
    let fill = |text: &str| filled(text, |name| texts::value(name, facts, subject));
    let says = |words: &&str| first.is_some_and(|first| has_words(&first.sentence, &fill(words)));
    if rule.said_by.iter().any(says) {
        return None;
    }
    let required = rule.conditions.iter().filter_map(|one| one.evidence(facts, subject));
    let shown = rule.shown.iter().filter_map(|sign| evidence(*sign, facts, subject, "tier sw"));
    Some(WhyRemark {
        id: rule.id,
        sentence: fill(rule.sentence),
        evidence: required.chain(shown).collect(),
        next: fill(rule.next),
        wrong_if: fill(rule.wrong_if),
    })
}

/// Returns whether `text` contains `words`, not as parts of longer words.
fn has_words(text: &str, words: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(words).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + words.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

fn evidence<'a>(
    sign: Sign,
    facts: &Facts<'a>,
    subject: Subject<'a>,
    source: &str,
) -> Option<Evidence> {
    let estimate = sign.of(facts, subject).filter(|one| one.value.is_finite())?;
    let (name, unit) = sign.title();
    Some(Evidence::of(name, estimate, unit, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::names;

    #[test]
    fn words_are_found_whole() {
        let sentence = "Most samples are in run_loop 45 %.";
        assert!(has_words(sentence, "run_loop") && has_words(sentence, "Most samples"));
        assert!(!has_words(sentence, "run") && !has_words(sentence, "sample"));
    }

    #[test]
    fn every_name_in_a_text_has_a_value() {
        let texts =
            remark_rules().iter().flat_map(|rule| [rule.sentence, rule.next, rule.wrong_if]);
        let unknown = texts.flat_map(names).filter(|name| !texts::NAMES.contains(name));
        assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&str>::new());
    }
}
