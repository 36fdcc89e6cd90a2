// SPDX-License-Identifier: MIT OR Apache-2.0
//! What reads of a thread's counters give, however they are done.

use crate::refusal::Refusal;
use linerate_record::Tier;

/// Most events of one thread: no processor of the tables counts more at once in its general
/// counters.
pub const EVENTS_MAX: usize = 8;

/// One reading of every event in the caller's order, 0 for refused ones.
pub type Counts = [u64; EVENTS_MAX];

/// What an event rests on, or why it is not counted.
pub type Outcome = Result<Tier, Refusal>;

/// Taken with a read. Two reads with the same marks have the thread's own counts between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// How often the thread had left its CPU: before the first read of two, after the second.
    pub switches: u64,
    /// How often reads had been too far apart to be sure of the registers' wraps.
    pub gaps: u64,
}
