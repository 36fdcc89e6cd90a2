// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that are always busy, but probably with work that no request waits for.

use super::super::facts::{Facts, Subject};
use super::super::measure::{Measure, PENDING};
use super::super::words::{label, percent};
use super::cannot_tell;
use linerate_record::why::{ThreadActivity, ThreadState, WhyFinding};

/// Returns a finding if hardly any request waits while a thread is busy, or if it is unknown
/// because other threads handle the packets.
pub(super) fn background(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<WhyFinding> {
    let why = match Measure::Pending.of(facts, Subject::Thread(thread)) {
        Some(pending) if pending.value >= PENDING => return None,
        Some(pending) => format!(
            "but a request was pending in only {} % of the readings, and a server that is always \
             busy always has one. It probably works in the background (a snapshot, a compaction, a \
             compiler)",
            percent(pending.value)
        ),
        None => "but it never waits for input, and other threads, which have idle time, handle \
                 most packets. It may work for them, or in the background (a snapshot, a \
                 compaction, a compiler)"
            .to_owned(),
    };
    let sentence = format!(
        "Cannot tell whether anything waits for thread {}: it is on a CPU {} % of the time, {why}.",
        label(thread),
        percent(thread.share_of(ThreadState::is_on_cpu))
    );
    let next = format!(
        "See what it does (linerate profile {}), and compare the rates while it is busy and while \
         it is idle",
        thread.pid
    );
    Some(cannot_tell(facts, sentence, &next))
}
