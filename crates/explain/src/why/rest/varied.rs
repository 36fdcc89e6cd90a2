// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes that fit on average, but whose evidence varied too much within the window.

use super::super::Held;
use super::super::facts::Facts;
use super::super::rules::{Condition, Verdict};
use super::super::words::{self, percent};
use super::cannot_tell;
use linerate_record::units::three_digits;
use linerate_record::why::{Cause, WhyFinding};

const LONGER: &str = "Watch for longer (-t 30s), under a steady load";

/// Returns the finding for the case in which the rule `held` holds, but is probably a consequence
/// of `cause`, whose rule `likely` holds on average.
pub(super) fn inseparable(
    facts: &Facts<'_>,
    held: &Held<'_>,
    cause: Cause,
    likely: Option<&Held<'_>>,
) -> WhyFinding {
    let seen = |held: &Held<'_>| words::fill(held.rule.sentence, facts, held.subject);
    let mut sentence = format!(
        "Cannot tell which of {held} and {cause} applies: both fit, and {cause} would explain \
         {held}, but the evidence for {cause} varied too much within the window. {seen}",
        held = held.rule.cause.name(),
        cause = cause.name(),
        seen = seen(held)
    );
    let Some(likely) = likely else { return cannot_tell(facts, sentence, LONGER) };
    sentence = format!("{sentence} {}", seen(likely));
    let fix = words::fill(likely.rule.fix, facts, likely.subject);
    cannot_tell(facts, sentence, &format!("{LONGER}; or see whether this helps: {fix}"))
}

/// Returns the finding if no cause is established, but `likely` would be if its measures were
/// certain.
pub(super) fn probable(facts: &Facts<'_>, likely: &Held<'_>) -> WhyFinding {
    let Held { rule, subject, .. } = likely;
    let unmet = |one: &&Condition| one.verdict(facts, *subject) == Verdict::Fails;
    let unmet = rule.conditions.iter().find(unmet);
    let interval = unmet.and_then(|one| {
        let measured = one.measure.of(facts, *subject)?;
        let (name, unit) = one.measure.title();
        let shown = |value: f64| match unit {
            "ratio" => format!("{} %", percent(value.max(0.0))),
            _ => format!("{} {unit}", three_digits(value)),
        };
        let (side, at) = one.bound.parts();
        let range = match measured.high.is_finite() {
            true => format!("{} to {}", shown(measured.low), shown(measured.high)),
            false => format!("{} or more", shown(measured.low)),
        };
        Some(format!(
            " But one of its conditions is uncertain: {name} {range} ({side} {} is required).",
            shown(at)
        ))
    });
    let sentence = format!(
        "Cannot tell whether {} limits the rate. The averages are consistent with it: {}{}",
        rule.cause.name(),
        words::fill(rule.sentence, facts, *subject),
        interval.unwrap_or_default()
    );
    let fix = words::fill(rule.fix, facts, *subject);
    let next = format!("{LONGER}; or see whether this helps: {fix}");
    WhyFinding {
        evidence: words::evidence(rule, facts, *subject),
        ..cannot_tell(facts, sentence, &next)
    }
}
