// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results of reading a thread's counters, by either method.

use crate::refusal::Refusal;
use linerate_record::Tier;

/// Most events of one thread: no processor of the tables counts more at once in its general
/// counters.
pub const EVENTS_MAX: usize = 8;

/// One reading of every event in the caller's order, 0 for refused ones.
pub type Counts = [u64; EVENTS_MAX];

/// Evidence tier of an event, or why it is not counted.
pub type Outcome = Result<Tier, Refusal>;

/// Taken with a read. Two reads with the same marks have the thread's own counts between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Number of times the thread had left its CPU: before the first of two reads, after the
    /// second.
    pub switches: u64,
    /// Number of reads too far apart to be sure of counter wraps.
    pub gaps: u64,
}
