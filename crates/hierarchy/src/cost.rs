// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of a load by the cache level that holds its data and the TLB level that holds its
//! translation.
//!
//! A chase through all lines of `P` pages in random order hits a TLB level with `E` entries with
//! probability `E / P`. A page-local chase through the same lines misses once per page, that is,
//! once every `L` loads with `L` lines per page. For the caches, the two chases are equivalent.
//! With entries `E1` and `E2` of the first and second TLB level, costs `first` of a first-level
//! miss and `walk` of a page walk, the times per load differ by
//!
//! ```text
//! random - local = (1 - E1/P) first - first / L                        up to E2 pages
//!                = (E2 - E1)/P first + (1 - E2/P) walk - walk / L      beyond
//! ```
//!
//! Solved at sizes within a cache level, this yields the cost of a first-level miss or of a walk.
//! Because this cost is measured, it includes the eviction of page tables along with the data. If
//! no size qualifies, the cost of a miss in a small set of pages is added to the level's latency.
//!
//! A miss takes time, a walk takes at least as long as a miss, and a farther level takes at least
//! as long as a nearer one. Values that violate this within their intervals are raised to the lower
//! bound. Where intervals contradict each other, a measured value wins over a derived one; if both
//! are of the same kind, both are discarded.
//!
//! Resources shared by overlapping loads are not modelled: `overlapped` divides by the number of
//! outstanding loads, although walks may overlap less.

mod record;

use crate::resample::{REPLICATES, interval, is_known, is_time, least, redrawn_least};
use crate::{steps, tlb};
use fastrand::Rng;
use linerate_record::memory::TlbState;
use linerate_record::stats::{Estimate, median};
pub use record::{Measured, records};

/// What the costs are computed from. All times are in the same unit.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// Cache levels and memory, nearest first.
    pub levels: &'a [steps::Level],
    /// Number of outstanding loads at each level. May be shorter than `levels`.
    pub outstanding: &'a [Option<Estimate>],
    /// TLB levels, nearest first.
    pub tlb: &'a [tlb::Level],
    /// Times of the page-local chase by chain size.
    pub local: &'a [steps::Sample],
    /// Times of the random chase by chain size.
    pub random: &'a [steps::Sample],
    /// Number of bytes that one TLB entry translates.
    pub page_bytes: u64,
    /// Cache line size in bytes.
    pub line_bytes: u64,
    /// Confidence level of the intervals.
    pub confidence: f64,
    /// Random seed for resampling.
    pub seed: u64,
}

/// How a cost was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Measured by pointer chases whose loads hit this level with this TLB state.
    Measured,
    /// Computed as the latency of the level plus the cost of the TLB miss.
    Added,
}

/// Cost of a load for one level and TLB state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Index of the memory level in [`Inputs::levels`].
    pub level: usize,
    /// TLB level that supplies the translation.
    pub state: TlbState,
    /// Latency until a dependent load can start: at least 0, and at least the latency with a nearer
    /// level or translation. `None` if the interval would be wider than the value, or would
    /// contradict another value.
    pub time: Option<Estimate>,
    /// Time per load with maximum overlap, a lower bound; `None` if unknown or too imprecise.
    pub overlapped: Option<Estimate>,
    /// How `time` was obtained.
    pub basis: Basis,
}

/// Computes the costs by level and TLB state. States that need an unknown TLB level are omitted: a
/// first-level TLB miss needs one known level, a page walk two.
pub fn table(inputs: &Inputs) -> Vec<Cost> {
    let mut random = Rng::with_seed(inputs.seed);
    let levels = 0..inputs.levels.len();
    let costs = levels.flat_map(|level| inputs.costs_of(level, &mut random));
    let mut costs: Vec<Cost> = costs.collect();
    for later in 0..costs.len() {
        for earlier in 0..later {
            let (before, rest) = costs.split_at_mut(later);
            reconcile(&mut before[earlier], &mut rest[0]);
        }
    }
    for cost in &mut costs {
        let overlapped = cost.time.zip(inputs.outstanding.get(cost.level).copied().flatten());
        cost.overlapped = overlapped.map(|(time, loads)| time.over(loads));
        cost.overlapped = cost.overlapped.filter(|time| is_known(*time));
    }
    costs
}

/// Enforces that `more` costs at least as much as `less`, which has the same level and a nearer
/// translation, or a nearer level and the same translation.
fn reconcile(less: &mut Cost, more: &mut Cost) {
    let is_comparable = if less.level == more.level {
        less.state < more.state
    } else {
        less.level < more.level && less.state == more.state
    };
    let (Some(low), Some(high)) = (less.time, more.time) else { return };
    if !is_comparable || low.value <= high.value {
        return;
    }
    if low.low <= high.high {
        let raised = Estimate { value: low.value, high: high.high.max(low.value), ..high };
        more.time = Some(raised).filter(|time| is_known(*time));
        return;
    }
    if less.basis == Basis::Added || more.basis == Basis::Measured {
        less.time = None;
    }
    if less.basis == more.basis || more.basis == Basis::Added {
        more.time = None;
    }
}

/// Range of chain sizes used for a level: from this multiple of the previous level's size to this
/// fraction of the level's own.
const WITHIN: (f64, f64) = (1.6, 0.7);
/// Minimum fraction of loads that must incur a cost for the cost to be computed from their times.
const LEAST_SHARE: f64 = 0.3;

/// A chain size within a level, with the times of both chases.
struct Size {
    pages: f64,
    random: Vec<f64>,
    local: Vec<f64>,
}

impl Inputs<'_> {
    fn costs_of(&self, level: usize, random: &mut Rng) -> Vec<Cost> {
        let (from, sizes) = (self.begin_of(level), self.sizes(level));
        let mut misses = [TlbState::MissL1, TlbState::Walk].map(|state| (state, None));
        for (tlb_level, (_, miss)) in misses.iter_mut().enumerate() {
            *miss = self.miss(tlb_level, &sizes, random);
        }
        // The page-local chase also misses the TLB if the whole level is beyond TLB reach.
        let first = self.tlb.first().filter(|first| from >= self.bytes(first.reach()));
        let missed = misses[1].1.or(misses[0].1);
        let missed = missed.or(first.map(|first| first.cost).filter(|cost| is_known(*cost)));
        let share = 1.0 / self.lines_per_page();
        let latency = self.levels[level].latency;
        let hit = less(latency, missed.map_or(0.0, |missed| missed.value * share));
        let cost = |state, time: Estimate, basis| Cost {
            level,
            state,
            time: Some(time).filter(|time| is_known(*time)),
            overlapped: None,
            basis,
        };
        let mut costs = vec![cost(TlbState::Hit, hit, Basis::Measured)];
        let mut added = hit;
        for (tlb_level, (state, miss)) in self.tlb.iter().zip(misses) {
            added = added.plus_independent(tlb_level.cost);
            costs.push(match miss {
                Some(miss) => cost(state, hit.plus_independent(miss), Basis::Measured),
                None => cost(state, added, Basis::Added),
            });
        }
        costs
    }

    fn bytes(&self, pages: f64) -> f64 {
        pages * self.page_bytes as f64
    }

    /// Returns the number of lines per page, at least 1.
    fn lines_per_page(&self) -> f64 {
        (self.page_bytes as f64 / self.line_bytes.max(1) as f64).max(1.0)
    }

    /// Returns the chain size, in bytes, above which a level serves loads: the size of the previous
    /// level.
    fn begin_of(&self, level: usize) -> f64 {
        let before = level.checked_sub(1).and_then(|before| self.levels[before].size);
        before.map_or(0.0, |size| size.value)
    }

    /// Returns the sizes within `level` that were measured in both curves.
    fn sizes(&self, level: usize) -> Vec<Size> {
        let from = WITHIN.0 * self.begin_of(level);
        let to = self.levels[level].size.map_or(f64::INFINITY, |size| WITHIN.1 * size.value);
        let within = |sample: &&steps::Sample| (from..to).contains(&(sample.bytes as f64));
        let times = |passes: &[f64]| passes.iter().copied().filter(|&time| is_time(time)).collect();
        let size = |sample: &steps::Sample| {
            let local = self.local.iter().find(|local| local.bytes == sample.bytes)?;
            let pages = sample.bytes as f64 / self.page_bytes as f64;
            Some(Size { pages, random: times(&sample.passes), local: times(&local.passes) })
        };
        let sizes = self.random.iter().filter(within).filter_map(size);
        sizes.filter(|size| !size.random.is_empty() && !size.local.is_empty()).collect()
    }

    /// Returns the time that a `tlb_level` miss adds, as the median over `sizes`; `None` if no size
    /// shows it.
    fn miss(&self, tlb_level: usize, sizes: &[Size], random: &mut Rng) -> Option<Estimate> {
        let measured = |size: &Size| {
            let difference = least(&size.random)? - least(&size.local)?;
            self.solved(tlb_level, size.pages, difference)
        };
        let value = median(&sizes.iter().filter_map(measured).collect::<Vec<f64>>())?;
        let mut redrawn = || {
            let solved = sizes.iter().filter_map(|_| {
                let size = &sizes[random.usize(..sizes.len())];
                let slow = redrawn_least(random, &size.random);
                self.solved(tlb_level, size.pages, slow - redrawn_least(random, &size.local))
            });
            median(&solved.collect::<Vec<f64>>())
        };
        let replicates: Vec<f64> = (0..REPLICATES).filter_map(|_| redrawn()).collect();
        let n = sizes.iter().map(|size| size.random.len() as u64).sum();
        let miss = interval(value, &replicates, self.confidence, n);
        // Noise can make a miss appear cheaper than a hit; such values carry no information.
        Some(Estimate { low: miss.low.max(0.0), ..miss }).filter(|miss| is_known(*miss))
    }

    /// Solves the equation in the module documentation for the cost of a `tlb_level` miss, given
    /// the `difference` between the curves at this number of pages. `None` if too few of the loads
    /// miss.
    fn solved(&self, tlb_level: usize, pages: f64, difference: f64) -> Option<f64> {
        let missed = |entries: f64| (1.0 - entries / pages).max(0.0);
        let first = self.tlb.first()?;
        let beyond_first = missed(first.reach());
        let beyond_second = self.tlb.get(1).map_or(0.0, |second| missed(second.reach()));
        let (rest, share) = match tlb_level {
            0 if beyond_second == 0.0 => (difference, beyond_first),
            1 => (difference - (beyond_first - beyond_second) * first.cost.value, beyond_second),
            _ => return None,
        };
        let share = share - 1.0 / self.lines_per_page();
        (share >= LEAST_SHARE).then(|| rest / share)
    }
}

/// Subtracts a known part from `estimate`, but not below 0.
fn less(estimate: Estimate, known: f64) -> Estimate {
    let less = |time: f64| (time - known).max(0.0);
    let (value, low, high) = (less(estimate.value), less(estimate.low), less(estimate.high));
    Estimate { value, low, high, ..estimate }
}

#[cfg(test)]
mod tests;
