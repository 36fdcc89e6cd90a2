// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimation errors, and interval coverage.

use crate::simulation::{Base, Load};
use linerate_record::stats::{CONFIDENCE, Estimate, quantile};

/// Tally of errors and interval coverage for one estimated quantity over many runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    errors: Vec<f64>,
    covered: usize,
    bounded: usize,
}

impl Tally {
    fn note(&mut self, truth: f64, estimate: &Estimate) {
        self.errors.push((estimate.value / truth - 1.0).abs());
        let is_bounded = estimate.low.is_finite() && estimate.high.is_finite();
        self.bounded += usize::from(is_bounded);
        let holds = estimate.low <= truth && truth <= estimate.high;
        self.covered += usize::from(is_bounded && holds);
    }

    /// Returns the 95th percentile relative error.
    pub(crate) fn p95_error(&self) -> f64 {
        quantile(&self.errors, 0.95).expect("at least one run was tallied")
    }

    /// Returns the coverage: the fraction of finite intervals that contain the true value.
    pub(crate) fn coverage(&self) -> f64 {
        self.covered as f64 / self.bounded as f64
    }
}

/// Results for one load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Estimated misses, scaled by time.
    pub(crate) by_time: Tally,
    /// Estimated misses, scaled by packets, i.e. per unit of work.
    pub(crate) by_packets: Tally,
    /// Estimated misses per thousand instructions, scaled by time. Misses and instructions are
    /// counted in different sets.
    pub(crate) per_instruction: Tally,
    /// Estimated misses, with sets multiplexed as in the tool rpistat (fixed order, long slices).
    pub(crate) round_robin: Tally,
}

/// Options for repeated runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Multiplexed sets.
    pub(crate) sets: usize,
    /// Nominal slice length in ms.
    pub(crate) slice_ms: f64,
    /// Run duration in ms.
    pub(crate) run_ms: usize,
    /// Number of runs.
    pub(crate) runs: usize,
}

/// Counts a load repeatedly. All sets except the first count the same event, so each run gives
/// several samples of the error.
pub(crate) fn outcome(load: &Load, setting: Setting) -> Outcome {
    let Setting { sets, slice_ms, run_ms, runs } = setting;
    let mut random = fastrand::Rng::with_seed(setting.seed());
    let mut outcome = Outcome::default();
    for _ in 0..runs {
        let trace = load.trace(run_ms, &mut random);
        let [instructions, misses] = [0, 1].map(|event| trace.total(event));
        let by_time = trace.rotate(sets, slice_ms, Base::Time, &mut random);
        let by_packets = trace.rotate(sets, slice_ms, Base::Packets, &mut random);
        for set in 1..sets {
            for (counts, tally) in
                [(&by_time, &mut outcome.by_time), (&by_packets, &mut outcome.by_packets)]
            {
                let event = counts.events[set].expect("every set was counted");
                tally.note(misses, &event.estimate);
            }
        }
        let ratio = by_time.derive(|events| Some(1000.0 * events[1] / events[0]));
        let ratio = ratio.expect("every load executes instructions");
        outcome.per_instruction.note(1000.0 * misses / instructions, &ratio);
        if let Some((value, half)) = trace.round_robin(&mut random) {
            let (low, high) = (value - half, value + half);
            let estimate = Estimate { value, low, high, confidence: CONFIDENCE, n: 1 };
            outcome.round_robin.note(misses, &estimate);
        }
    }
    outcome
}

impl Setting {
    fn seed(&self) -> u64 {
        (self.sets * 1_000_000 + self.run_ms) as u64
    }
}
