// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calibrates the measurement overhead in each thread before its first region, so that it can be
//! subtracted.
//!
//! Calibration measures two costs. An empty region measures `inside`: the ticks and counts between
//! its two reads. It adds `pair`, the cost of its whole entry and exit, to the enclosing region.
//! Therefore, with `v` visits to a region and `d` visits to regions nested in it, at any depth, the
//! measured total `shown` exceeds the `true` one:
//!
//! ```text
//! shown = true + v * inside + d * pair
//! ```
//!
//! For a region's own time or counts, outside inner regions, with `c` visits to directly nested
//! regions:
//!
//! ```text
//! shown - shown by inner regions = true + v * inside + c * (pair - inside)
//! ```
//!
//! `inside` and `pair` are measured in a tight loop, with warm caches and branch predictors. In a
//! program that evicts this state, some visits cost more, which no calibration can capture. Regions
//! shorter than ten times the overhead therefore get no verdict.

use crate::tree::{Amount, Cost, Node, Totals};
use linerate_counters::reading::{Counts, EVENTS_MAX};
use linerate_counters::thread_group::ThreadGroup;
use linerate_machine::ticks::ticks;
use linerate_record::stats::{CONFIDENCE, median_interval};

/// Number of series over which the median is taken; enough that a preemption during one series does
/// not affect the 95 % interval.
const SERIES: usize = 25;
/// Empty regions per series. Kept low because entering or leaving a region may take a system call:
/// all series together take 0.05 to 1 ms.
const PAIRS: u64 = 16;
/// Visits before the first series that are not measured, because caches are still cold.
const WARM_UP: u64 = 64;

/// Measures the overhead of a region. `pair` enters and leaves an empty region whose node is
/// `node`.
pub(crate) fn measure(counters: &ThreadGroup, node: &Node, mut pair: impl FnMut()) -> Cost {
    (0..WARM_UP).for_each(|_| pair());
    let series: Vec<(Reading, Reading)> = (0..SERIES)
        .map(|_| {
            let inside = Reading::from(node.totals());
            let around = Reading::now(counters);
            (0..PAIRS).for_each(|_| pair());
            let around = Reading::now(counters).since(&around);
            (Reading::from(node.totals()).since(&inside), around)
        })
        .collect();
    let amount = |of: fn(&(Reading, Reading)) -> Reading| {
        let each = |value: &dyn Fn(&Reading) -> u64| {
            let values: Vec<f64> =
                series.iter().map(|s| value(&of(s)) as f64 / PAIRS as f64).collect();
            median_interval(&values, CONFIDENCE)
        };
        Amount {
            ticks: each(&|shown| shown.ticks),
            counts: std::array::from_fn(|event| each(&|shown| shown.counts[event])),
        }
    };
    Cost { inside: amount(|(inside, _)| *inside), pair: amount(|(_, around)| *around) }
}

/// Ticks and counts at one moment, or between two moments.
#[derive(Clone, Copy, Debug)]
struct Reading {
    ticks: u64,
    counts: Counts,
}

impl From<Totals> for Reading {
    fn from(totals: Totals) -> Self {
        Self { ticks: totals.ticks, counts: totals.counts }
    }
}

impl Reading {
    fn now(counters: &ThreadGroup) -> Self {
        let mut counts = [0; EVENTS_MAX];
        // If this read fails, the reads at entry and exit failed as well, and were noted there.
        counters.read(&mut counts);
        Self { ticks: ticks(), counts }
    }

    fn since(&self, then: &Self) -> Self {
        Self {
            ticks: self.ticks.saturating_sub(then.ticks),
            counts: std::array::from_fn(|event| {
                self.counts[event].wrapping_sub(then.counts[event])
            }),
        }
    }
}
