// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measurement overhead: calibrated in each thread before its first region, and subtracted.
//!
//! An empty region shows `inside`: the time between its two reads. Its cost to the enclosing region
//! is `pair`: all of entry and exit. Therefore, with `v` visits to a region and `d` visits to
//! regions nested in it, at any depth:
//!
//! ```text
//! shown = true + v * inside + d * pair
//! ```
//!
//! and for the time not spent in inner regions, with `c` visits directly inside:
//!
//! ```text
//! shown - shown by the inner ones = true + v * inside + c * (pair - inside)
//! ```
//!
//! Both are measured in a tight loop, with warm caches and branch predictors. In a program that
//! evicts them the first visits cost more, which no calibration can capture; hence there is no
//! verdict on regions shorter than ten times the cost.

use crate::tree::{Amount, Cost, Node, Totals};
use linerate_counters::reading::{Counts, EVENTS_MAX};
use linerate_counters::thread_group::ThreadGroup;
use linerate_machine::ticks::ticks;
use linerate_record::stats::{CONFIDENCE, median_interval};

/// Number of series whose median is taken: enough for a 95 % interval, and one preempted series
/// does not matter.
const SERIES: usize = 25;
/// Short, since an edge may be a system call: all series together take 0.05 to 1 ms.
const PAIRS: u64 = 16;
/// Warm-up visits, not counted because caches are cold.
const WARM_UP: u64 = 64;

/// Measures the cost; `node` is the node that `pair` visits.
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
        // If this fails, it failed inside the pairs as well, where it was noted.
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
