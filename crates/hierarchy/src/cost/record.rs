// SPDX-License-Identifier: MIT OR Apache-2.0
//! Load costs in record format.

use super::{Basis, Inputs};
use crate::levels::{Levels, cycles, samples};
use crate::{cost, tlb};
use linerate_record::memory::{Cost, Curve};
use linerate_record::stats::{CONFIDENCE, Estimate};
use linerate_record::{Figure, Tier};

/// What the cost table is computed from, apart from the levels and the curves.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// Number of outstanding loads at each level; `None` if unknown.
    pub outstanding: &'a [Option<Estimate>],
    /// TLB levels, nearest first.
    pub tlb: &'a [tlb::Level],
    /// Number of bytes that one TLB entry translates.
    pub page_bytes: u64,
    /// Cache line size in bytes.
    pub line_bytes: u64,
    /// Random seed for resampling.
    pub seed: u64,
}

/// Computes the cost table from the first two `curves`, which are page-local and random. The table
/// is empty if either is missing.
pub fn records(levels: &Levels, curves: &[Curve], measured: &Measured<'_>) -> Vec<Cost> {
    let [local, random, ..] = curves else {
        return Vec::new();
    };
    let (local, random) = (samples(local), samples(random));
    let inputs = Inputs {
        levels: &levels.found.levels,
        outstanding: measured.outstanding,
        tlb: measured.tlb,
        local: &local,
        random: &random,
        page_bytes: measured.page_bytes,
        line_bytes: measured.line_bytes,
        confidence: CONFIDENCE,
        seed: measured.seed,
    };
    cost::table(&inputs).iter().map(|cost| record(cost, levels)).collect()
}

fn record(cost: &cost::Cost, levels: &Levels) -> Cost {
    let method = match cost.basis {
        Basis::Measured => "pointer chases that hit this level with this TLB state",
        Basis::Added => "level latency plus the cost of the TLB miss",
    };
    let overlapped = match cost.overlapped {
        Some(time) => Figure::number(
            "ns",
            time,
            Tier::Sw,
            "latency divided by the number of outstanding loads",
        ),
        None => {
            let reason = "the number of outstanding loads is unknown or too uncertain";
            Figure::absent("ns", Tier::Sw, "parallel loads", reason)
        }
    };
    let ghz = levels.ghz.get(cost.level).copied().flatten();
    let unknown = "the interval would be wider than the value, or would contradict another cost";
    let absent = |unit| Figure::absent(unit, Tier::Sw, method, unknown);
    Cost {
        level: levels.levels.get(cost.level).map_or_else(String::new, |level| level.name.clone()),
        tlb: cost.state,
        ns: cost
            .time
            .map_or_else(|| absent("ns"), |time| Figure::number("ns", time, Tier::Sw, method)),
        cycles: cost.time.map_or_else(|| absent("cycles"), |time| cycles(time, ghz, method)),
        overlapped_ns: overlapped,
    }
}

#[cfg(test)]
mod tests;
