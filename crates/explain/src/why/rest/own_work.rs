// SPDX-License-Identifier: MIT OR Apache-2.0
//! What takes most of a busy thread's time if known costs take only a small part of it.

use super::super::facts::{Facts, Subject};
use super::super::measure::Measure;
use super::{Room, full, full_link, limit_reached, room};
use linerate_record::why::WhyFinding;

/// Returns the finding for a thread that is always busy, mostly with work of the program itself;
/// `None` without such a thread, or if the program reaches the requested line rate or fills a link.
pub(in super::super) fn own_work(facts: &Facts<'_>) -> Option<WhyFinding> {
    /// Maximum fraction of the CPU time in the kernel; above that, the kernel's work dominates.
    const KERNEL: f64 = 0.4;
    let thread = facts.busiest().filter(|_| room(facts) == Room::Full)?;
    let kernel = Measure::KernelShare.of(facts, Subject::Thread(thread))?;
    let is_own = kernel.value <= KERNEL && limit_reached(facts).is_none();
    (is_own && full_link(facts).is_none()).then(|| full(facts))
}
