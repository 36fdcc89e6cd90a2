// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predicts the gain if a thread no longer sleeps in certain waits, or is no longer stopped.

use super::super::facts::{Facts, Subject};
use super::super::measure::Measure;
use super::super::waits::{self, Wait};
use super::{mapped, returned};
use linerate_record::stats::Estimate;
use linerate_record::why::ThreadState;

/// Fraction of time waiting for input below which a thread is assumed to always have work. Covers
/// the error of kernel accounting.
const HARDLY: f64 = 0.1;

pub(super) fn not_stopped<'a>(facts: &Facts<'a>, subject: Subject<'a>) -> Option<Estimate> {
    let gain = mapped(Measure::AsleepIn(Wait::Stopped).of(facts, subject)?, returned);
    let waits = waits::time_for_work(facts.thread(subject)?)?;
    let low = if waits <= HARDLY { 0.5 * gain.low } else { 0.0 };
    Some(Estimate { low, high: 1.5 * gain.high, ..gain })
}

pub(super) fn wait_removed<'a>(
    facts: &Facts<'a>,
    subject: Subject<'a>,
    wait: Wait,
) -> Option<Estimate> {
    /// Most likely fraction of the thread's kernel time, and of its waits for a CPU, that the calls
    /// in which it sleeps cause.
    const IN_CALLS: f64 = 0.5;
    /// Factor for the high end: a thread that no longer sleeps per request works in larger batches.
    /// Without its disk syncs, redis was 8.8 to 10 times as fast; the time asleep alone explains a
    /// factor of 7.
    const BATCHES: f64 = 2.0;
    let thread = facts.thread(subject)?;
    let asleep = Measure::AsleepIn(wait).of(facts, subject)?;
    let gain = mapped(asleep, returned);
    let is_limit = waits::time_for_work(thread)? <= HARDLY;
    // While one request waits, others may be batched into one write.
    let low = if is_limit { 0.3 * gain.low } else { 0.0 };
    let of_calls = |state| matches!(state, ThreadState::Kernel | ThreadState::Waiting);
    let of_calls = thread.share_of(of_calls);
    let value = returned(asleep.value + IN_CALLS * of_calls);
    let with_calls = returned(asleep.high + of_calls);
    let high = (100.0 * (BATCHES * (1.0 + with_calls / 100.0) - 1.0)).min(returned(1.0));
    Some(Estimate { value, low: low.min(value), high: high.max(value), ..gain })
}
