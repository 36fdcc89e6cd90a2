// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates figures for the report from the measurement windows of a run.

use linerate_record::stats::{self, CONFIDENCE, Estimate};
use linerate_record::{Figure, Tier};

/// Maximum relative change of the core clock between the start and the end of a worker. If it
/// changed more, ticks cannot be converted to cycles.
const CLOCK_DRIFT_MAX: f64 = 0.05;

/// Seed of the bootstrap, fixed so that the same windows always yield the same interval.
pub(super) const SEED: u64 = 0x006C_696E_6572_6174;

/// Minimum number of clean windows needed for an estimate.
pub(super) const WINDOWS_MIN: usize = 3;

pub(super) fn few_windows(count: usize) -> String {
    format!("only {count} windows were free of preemption; run longer, or on idle CPUs")
}

/// Returns the median of a figure over a series of windows, with its confidence interval.
pub(super) fn series(samples: &[f64]) -> Estimate {
    stats::block_bootstrap_median(samples, CONFIDENCE, SEED)
}

/// Returns the mean of a figure that is at least 0 over a series of windows, with its confidence
/// interval.
pub(super) fn mean_of(samples: &[f64]) -> Estimate {
    let each = vec![1.0; samples.len()];
    stats::block_bootstrap_ratio(samples, &each, CONFIDENCE, SEED).at_least_zero()
}

pub(super) fn ticks_figure(samples: &[f64], method: &str) -> Figure {
    if samples.len() < WINDOWS_MIN {
        return Figure::absent("ticks/packet", Tier::Sw, method, &few_windows(samples.len()));
    }
    Figure::number("ticks/packet", series(samples), Tier::Sw, method)
}

/// Converts ticks to core cycles if the core clock is known and was stable.
pub(super) fn cycles_figure(ticks: &Figure, clock: [Option<f64>; 2]) -> Figure {
    const METHOD: &str = "ticks times core cycles per tick (mean of the values before and after \
                          the run)";
    let absent = |reason: &str| Figure::absent("cycles/packet", Tier::Sw, METHOD, reason);
    let [Some(before), Some(after)] = clock else {
        return absent("the core clock could not be measured");
    };
    if (before / after - 1.0).abs() > CLOCK_DRIFT_MAX {
        return absent(&format!(
            "the core clock changed during the run, from {before:.3} to {after:.3} cycles per tick"
        ));
    }
    let factor = (before + after) / 2.0;
    let Some(value) = ticks.as_number() else {
        return absent(ticks.reason.as_deref().unwrap_or("no ticks"));
    };
    let low = ticks.low.map(|low| low * before.min(after));
    let high = ticks.high.map(|high| high * before.max(after));
    let estimate = Estimate::of_ends(value * factor, low, high, ticks.n);
    Figure::number("cycles/packet", estimate, Tier::Sw, METHOD)
}
