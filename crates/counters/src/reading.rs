// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readings of a thread's counters, for either read method.

use crate::refusal::Refusal;
use linerate_record::Tier;

/// Maximum number of events per thread: no known processor has more general-purpose counters.
pub const EVENTS_MAX: usize = 8;

/// One reading of every event, in the caller's order; 0 for refused events.
pub type Counts = [u64; EVENTS_MAX];

/// Evidence tier of an event, or the reason why it is not counted.
pub type Outcome = Result<Tier, Refusal>;

/// Taken with each read. If two reads have equal marks, the counts between them belong to the
/// thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Number of times the thread had left its CPU, taken before the first of two reads and after
    /// the second.
    pub switches: u64,
    /// Number of reads too far apart to detect counter wraps.
    pub gaps: u64,
}
