// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time per packet spent in some of a thread's functions, excluding the time spent polling.
//!
//! Let `u` be the share of the thread's time spent in these functions when there are no packets,
//! `s` the share over the window, and `b` the thread's busy share. Of `s`, polling then accounts
//! for `u (1 - b)`, and the rest is work. Over all functions, `u` and `s` each sum to 1, so the
//! costs add up to the cost of a packet.

use super::fit::Line;
use super::places::{MIN_OF_PLACE, counts_of};
use super::{Load, Place, Separated, Slice, is_useful, load};
use linerate_record::stats::{CONFIDENCE, Estimate, block_bootstrap};

impl Separated {
    /// Returns the CPU time per packet in the functions selected by `is_it`, in nanoseconds; `None`
    /// if they have too few samples. `slices` and `places` must be those passed to
    /// [`separate`](super::separate).
    pub fn work_ns(
        &self,
        slices: &[Slice],
        places: &[Place],
        is_it: impl Fn(u32) -> bool,
        seed: u64,
    ) -> Option<Estimate> {
        let is_below = |slice: &&Slice| is_useful(slice) && load(slice).rate < self.saturated_from;
        let below: Vec<&Slice> = slices.iter().filter(is_below).collect();
        let counts: Vec<f64> = below.iter().map(|slice| counts_of(slice, places, &is_it)).collect();
        if counts.iter().sum::<f64>() < MIN_OF_PLACE as f64 {
            return None;
        }
        let loads: Vec<Load> = below.iter().map(|slice| load(slice)).collect();
        Some(self.work(&loads, &counts, seed).scale(1e9))
    }

    /// Returns the seconds per packet spent in a set of functions. `counts` holds the number of
    /// samples in these functions, per slice.
    fn work(&self, loads: &[Load], counts: &[f64], seed: u64) -> Estimate {
        let cost = self.cost_ns.scale(1e-9);
        let all: Vec<usize> = (0..loads.len()).collect();
        let without = |chosen: &[usize]| {
            let is_fitted = |&slice: &usize| loads[slice].rate <= self.fitted_to;
            let fitted: Vec<usize> = chosen.iter().copied().filter(is_fitted).collect();
            Line::fit(loads, counts, &fitted)
        };
        let seconds = |chosen: &[usize]| {
            let weight: f64 = chosen.iter().map(|&slice| loads[slice].weight).sum();
            let rates = chosen.iter().map(|&slice| loads[slice].weight * loads[slice].rate);
            let mean = rates.sum::<f64>() / weight;
            let share = chosen.iter().map(|&slice| counts[slice]).sum::<f64>() / weight;
            let busy = (cost.value * mean).min(1.0);
            (share - without(chosen).intercept * (1.0 - busy)) / mean
        };
        let line = without(&all);
        let residual = |(load, count): (&Load, &f64)| count - load.weight * line.at(load.rate);
        let residuals: Vec<f64> = loads.iter().zip(counts).map(residual).collect();
        let of_slices = block_bootstrap(&residuals, CONFIDENCE, seed, seconds);
        // The more packets cost, the less of these functions' time belongs to the loop, in
        // proportion to their share.
        let share = line.intercept.clamp(0.0, 1.0);
        let about = |end: f64| share * (end - cost.value);
        let of_cost = Estimate { value: 0.0, low: about(cost.low), high: about(cost.high), ..cost };
        of_slices.plus_independent(of_cost).at_least_zero()
    }
}
