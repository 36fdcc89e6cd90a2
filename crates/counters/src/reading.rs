// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types for reading a thread's counters, shared by both methods (perf and PMU registers).

use crate::refusal::Refusal;
use linerate_record::Tier;

/// Maximum number of events per thread; any further events are refused.
pub const EVENTS_MAX: usize = 8;

/// Counts of all events from one read, in the caller's order; 0 for refused events.
pub type Counts = [u64; EVENTS_MAX];

/// Evidence tier of an event, i.e. which modes its counter includes, or the reason why the event is
/// not counted.
pub type Outcome = Result<Tier, Refusal>;

/// Thread state at a counter read. If two reads have equal marks, the counts between them belong to
/// this thread alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// How often the thread has left its CPU, sampled before the counters in the first read of a
    /// pair and after them in the second.
    pub switches: u64,
    /// Number of reads so far that came too long after the previous read to detect a counter wrap.
    pub gaps: u64,
}
