// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a load costs, as a record has it.

use super::Bench;
use super::levels::{Levels, cycles, samples};
use crate::parallel::Measured;
use crate::translation::Translation;
use linerate_hierarchy::cost::{self, Basis, Inputs};
use linerate_record::memory::{Cost, Curve};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};

const CONFIDENCE: f64 = 0.95;

/// The table, from the page-local and the random curve, the first two of `curves`, and from what
/// was found beside them.
pub(super) fn costs(
    bench: &Bench<'_>,
    levels: &Levels,
    curves: &[Curve],
    translation: &Translation,
    parallel: &[Measured],
) -> Vec<Cost> {
    let outstanding: Vec<Option<Estimate>> = parallel.iter().map(|tier| tier.outstanding).collect();
    let [local, random, ..] = curves else {
        return Vec::new();
    };
    let (local, random) = (samples(local), samples(random));
    let inputs = Inputs {
        tiers: &levels.found.tiers,
        outstanding: &outstanding,
        tlb: &translation.levels,
        local: &local,
        random: &random,
        page_bytes: translation.page_bytes,
        line_bytes: bench.line as u64,
        confidence: CONFIDENCE,
        seed: bench.seed,
    };
    cost::table(&inputs).iter().map(|cost| record(cost, levels)).collect()
}

fn record(cost: &cost::Cost, levels: &Levels) -> Cost {
    let method = match cost.basis {
        Basis::Measured => "chases that do just that",
        Basis::Added => "latency of the tier, and the cost of the miss added",
    };
    let overlapped = match cost.overlapped {
        Some(time) => {
            Figure::number("ns", time, Tier::Sw, "its time over the loads under way at once")
        }
        None => {
            let reason = "how many loads are under way is not known, or not well enough";
            Figure::absent("ns", Tier::Sw, "loads side by side", reason)
        }
    };
    let ghz = levels.ghz.get(cost.tier).copied().flatten();
    let unknown = "the interval would be wider than the value, or contradict another cost";
    let absent = |unit| Figure::absent(unit, Tier::Sw, method, unknown);
    Cost {
        tier: levels.tiers.get(cost.tier).map_or_else(String::new, |tier| tier.name.clone()),
        tlb: cost.state,
        ns: cost
            .time
            .map_or_else(|| absent("ns"), |time| Figure::number("ns", time, Tier::Sw, method)),
        cycles: cost.time.map_or_else(|| absent("cycles"), |time| cycles(time, ghz, method)),
        overlapped_ns: overlapped,
    }
}
