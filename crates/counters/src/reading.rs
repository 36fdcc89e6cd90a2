// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types for reading a thread's counters, shared by both read methods (perf and PMU registers).

use crate::refusal::Refusal;
use linerate_record::Tier;

/// Maximum number of events per thread: no known processor has more general-purpose counters.
pub const EVENTS_MAX: usize = 8;

/// Counts of all events from one read, in the caller's order; refused events have the count 0.
pub type Counts = [u64; EVENTS_MAX];

/// Evidence tier of an event (which modes its counter includes), or the reason why it is not
/// counted.
pub type Outcome = Result<Tier, Refusal>;

/// State of the thread, taken with each read of its counters. If two reads have equal marks, the
/// counts between them belong to the thread alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Number of times that the thread had left its CPU. It is taken before the first read of a
    /// pair and after the second one.
    pub switches: u64,
    /// Number of reads so far that came too late after the previous read to detect a counter wrap.
    pub gaps: u64,
}
