// SPDX-License-Identifier: MIT OR Apache-2.0
//! Single loads, timed one by one.

use crate::arena::Arena;
use crate::measure::Bench;
use linerate_record::memory::{Histogram, MemoryTier, Timer};
use linerate_record::{Figure, Tier};
use std::time::Instant;

/// The clock that single loads are timed by.
#[derive(Clone, Debug)]
pub struct Stopwatch {
    /// For the record.
    pub timer: Timer,
}

impl Stopwatch {
    /// Finds out how fine the clock is and what reading it costs. Takes some 10 ms.
    pub fn new(bench: &Bench<'_>) -> Self {
        let _ = bench;
        let absent = |unit| Figure::absent(unit, Tier::Sw, "", "not measured");
        let timer = Timer {
            source: String::new(),
            invariant: None,
            rate_ghz: absent("GHz"),
            step_ns: absent("ns"),
            overhead_ns: absent("ns"),
            core_ghz: absent("GHz"),
        };
        Self { timer }
    }

    /// A histogram per tier, of a page-local chain in `arena` whose size is well within it. Tiers
    /// for which no time is left, or that no chain is within, have none.
    pub fn measure(
        &self,
        bench: &Bench<'_>,
        arena: &mut Arena,
        tiers: &[MemoryTier],
        deadline: Instant,
    ) -> Vec<Histogram> {
        let _ = (bench, arena, tiers, deadline);
        Vec::new()
    }
}
