// SPDX-License-Identifier: MIT OR Apache-2.0
//! Running statistics over the slices of one event set: sums, and sums of products of differences.

use super::Slice;

/// Number of groups into which the differences between slices are divided. The spread between
/// groups shows how accurate the variance is. More groups make this more precise, but take more
/// memory (5 KiB for three events).
const GROUPS: usize = 64;

/// Sums over the slices of one event set.
///
/// Each slice is treated as the vector of its counts and its base. `products` holds the products of
/// the differences between the set's two slices in a round, as one upper triangle per group. The
/// variance of any linear combination of counts and base can be computed from them later.
#[derive(Clone, Debug)]
pub(super) struct SetSums {
    /// Slices per round, over all sets.
    round: u64,
    /// Summed counts per event.
    pub(super) counts: Vec<u64>,
    /// Summed scaling base (time, or an event count).
    pub(super) base: f64,
    /// Total CPU time of the target during this set's slices, in ns.
    enabled_ns: u64,
    /// Total time on the counters, in ns.
    pub(super) running_ns: u64,
    /// Number of slices of this set.
    pub(super) periods: u64,
    /// Number of rounds in which both slices of this set were counted.
    pairs: u64,
    /// Sums of products of the differences between the two slices of a round: the upper triangles
    /// of `GROUPS` matrices, one after the other.
    products: Vec<f64>,
    /// Round number and vector of a round's first slice, kept until the second one arrives.
    first: Option<(u64, Vec<f64>)>,
}

/// A variance with its degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Variance {
    pub(super) value: f64,
    /// Degrees of freedom of the chi-squared distribution that matches the variance's uncertainty.
    pub(super) freedom: f64,
}

impl SetSums {
    pub(super) fn new(events: usize, sets: usize) -> Self {
        Self {
            round: 2 * sets as u64,
            counts: vec![0; events],
            base: 0.0,
            enabled_ns: 0,
            running_ns: 0,
            periods: 0,
            pairs: 0,
            products: vec![0.0; GROUPS * triangle(events + 1)],
            first: None,
        }
    }

    /// Adds a slice; `at` is its index among the slices of all sets.
    pub(super) fn add(&mut self, at: u64, slice: &Slice<'_>) {
        assert_eq!(slice.counts.len(), self.counts.len(), "one count per event of the set");
        for (sum, count) in self.counts.iter_mut().zip(slice.counts) {
            *sum += count;
        }
        self.base += slice.base;
        self.enabled_ns += slice.enabled_ns;
        self.running_ns += slice.running_ns;
        self.periods += 1;
        let vector: Vec<f64> =
            slice.counts.iter().map(|&count| count as f64).chain([slice.base]).collect();
        let round = at / self.round;
        match self.first.take() {
            Some((same, first)) if same == round => self.add_products(&first, &vector),
            _ => self.first = Some((round, vector)),
        }
    }

    fn add_products(&mut self, first: &[f64], second: &[f64]) {
        let size = triangle(first.len());
        let group = (self.pairs % GROUPS as u64) as usize;
        let mut place = self.products[group * size..(group + 1) * size].iter_mut();
        for i in 0..first.len() {
            let difference = second[i] - first[i];
            for (j, sum) in (i..first.len()).zip(&mut place) {
                *sum += difference * (second[j] - first[j]);
            }
        }
        self.pairs += 1;
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        let mut left = self.clone();
        left.base -= earlier.base;
        left.enabled_ns -= earlier.enabled_ns;
        left.running_ns -= earlier.running_ns;
        left.periods -= earlier.periods;
        left.pairs -= earlier.pairs;
        left.counts.iter_mut().zip(&earlier.counts).for_each(|(now, then)| *now -= then);
        left.products.iter_mut().zip(&earlier.products).for_each(|(now, then)| *now -= then);
        left
    }

    /// Returns the share (0 to 1) of the slices' time during which the set was off the counters.
    pub(super) fn lost(&self) -> f64 {
        let lost_ns = self.enabled_ns.saturating_sub(self.running_ns);
        lost_ns as f64 / self.enabled_ns.max(1) as f64
    }

    /// Returns the variance of the sum of a linear combination of counts and base over all slices,
    /// if a fraction `duty` of them was counted; see [`super`]. Slices in incomplete rounds are
    /// assumed to vary like the others. `None` before the first complete round.
    ///
    /// The degrees of freedom come from the spread between groups according to Satterthwaite
    /// (1946). They are high only if all groups agree; a count that comes from a few slices has
    /// correspondingly few degrees of freedom.
    pub(super) fn variance(&self, combination: &[f64], duty: f64) -> Option<Variance> {
        if self.pairs == 0 {
            return None;
        }
        let squares = self.products.chunks(triangle(combination.len()));
        let squares = squares.map(|triangle| quadratic(triangle, combination).max(0.0));
        let (sum, sum_of_squares) =
            squares.fold((0.0, 0.0), |(sum, squares), s| (sum + s, squares + s * s));
        let groups = self.pairs.min(GROUPS as u64) as f64;
        let spread =
            (sum_of_squares - sum * sum / groups).max(0.0) * groups / (groups - 1.0).max(1.0);
        let freedom = if spread > 0.0 { 2.0 * sum * sum / spread } else { groups };
        let value = (1.0 - duty) * sum * self.periods as f64 / (2 * self.pairs) as f64;
        Some(Variance { value, freedom: freedom.clamp(1.0, self.pairs as f64) })
    }
}

/// Returns the size of an upper triangle with this many rows.
fn triangle(rows: usize) -> usize {
    rows * (rows + 1) / 2
}

/// Returns `c' A c`, with `A` given by its upper triangle.
fn quadratic(triangle: &[f64], c: &[f64]) -> f64 {
    let mut cells = triangle.iter();
    let mut sum = 0.0;
    for i in 0..c.len() {
        for (j, cell) in (i..c.len()).zip(&mut cells) {
            let times = if i == j { 1.0 } else { 2.0 };
            sum += times * c[i] * c[j] * cell;
        }
    }
    sum
}
