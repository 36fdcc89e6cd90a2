// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs that are only a small part of a thread's CPU time, so that most of the time is spent on
//! something else.

use super::Held;
use super::facts::Facts;
use super::gain::GainModel;
use linerate_record::why::Cause;

/// Fraction of the CPU time below which costs are minor: most of the time is spent on something
/// else.
const MINOR: f64 = 1.0 / 3.0;

/// Returns whether the cause is a cost that takes a minor part of the CPU time even at the high end
/// of its interval.
pub(super) fn is_minor<'a>(facts: &Facts<'a>, held: &Held<'a>) -> bool {
    part(facts, held).is_some_and(|part| part < MINOR)
}

/// Returns whether all causes in `held` are costs that take a minor part of the CPU time even
/// together.
pub(super) fn are_minor_together<'a, 'b>(
    facts: &Facts<'a>,
    held: impl IntoIterator<Item = &'b Held<'a>>,
) -> bool
where
    'a: 'b,
{
    let parts = held.into_iter().map(|one| part(facts, one));
    parts.sum::<Option<f64>>().is_some_and(|sum| sum < MINOR)
}

/// Returns the fraction of the CPU time that removing a cost saves, at the high end: a gain of `g`
/// from CPU time alone means that `g / (1 + g)` is saved. `None` if the cause is not a cost, if its
/// gain is unknown, and for the program's own functions.
fn part<'a>(facts: &Facts<'a>, held: &Held<'a>) -> Option<f64> {
    if !matches!(held.rule.gain, GainModel::CostRemoved(..))
        || held.rule.cause == Cause::ProcessingCost
    {
        return None;
    }
    // Caps by the offered load or the line rate say nothing about the CPU time.
    let gain = held.rule.gain.uncapped(facts, held.subject)?.high / 100.0;
    Some(if gain.is_finite() { gain / (1.0 + gain) } else { 1.0 })
}
