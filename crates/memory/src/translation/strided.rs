// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chains with one line per stride, compared with the same number of packed lines.

use super::{FIRST_PASSES, Scale, arena, is_over};
use crate::arena::Arena;
use crate::bench::Bench;
use crate::chase::{Chain, Cursor, Layout};
use crate::window::Plan;
use fastrand::Rng;
use linerate_hierarchy::tlb::{self, Sample};
use linerate_record::memory::{Order, PageKind};
use linerate_record::stats::CONFIDENCE;
use std::time::Instant;

/// Window length in ns: time for about 50,000 loads that hit, or a few thousand that miss.
const WINDOW_NS: f64 = 5e4;

/// Measuring ends after this many consecutive windows slower than the fastest.
const WINDOWS: u32 = 2;

/// Window length around an edge, in ns. It is short so that more windows are undisturbed: other
/// threads sometimes evict entries for less time than this. About 200 rounds of 100 pages fit in a
/// window, which makes the cost of a system call negligible.
const EDGE_WINDOW_NS: f64 = 2e4;
const EDGE_WINDOWS: u32 = 4;

/// Number of passes over the page counts around an edge before the edge is evaluated again; enough
/// on a quiet machine.
const EDGE_PASSES: usize = 6;

/// Memory in pages of one size, with the samples measured in it.
pub(super) struct Strided {
    spread: Arena,
    packed: Arena,
    /// Distance in bytes between successive lines of a spread chain.
    stride: usize,
    /// Samples, in ascending order of page count.
    samples: Vec<Sample>,
    /// Whether the next pass goes from few pages to many.
    is_upwards: bool,
}

impl Strided {
    /// Allocates room for up to `most` lines, `stride` bytes apart; `None` if there is not enough
    /// memory.
    pub(super) fn new(
        bench: &Bench<'_>,
        kind: PageKind,
        stride: usize,
        most: usize,
    ) -> Option<Self> {
        let spread = arena(bench, most.checked_mul(stride)?, kind)?;
        // The packed arena consists of whole pages, so that chains that wrap around its end use all
        // cache sets equally.
        let lines = (most * bench.line).next_multiple_of(bench.page);
        let packed = arena(bench, lines, PageKind::Huge)?;
        Some(Self { spread, packed, stride, samples: Vec::new(), is_upwards: true })
    }

    /// Returns the fraction of the memory backed by huge pages.
    pub(super) fn granted(&self) -> Option<f64> {
        self.spread.granted()
    }

    pub(super) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    pub(super) fn into_samples(self) -> Vec<Sample> {
        self.samples
    }

    /// Like [`new`](Self::new), but also takes samples that were measured earlier in memory of this
    /// kind.
    pub(super) fn again(
        bench: &Bench<'_>,
        kind: PageKind,
        stride: usize,
        most: usize,
        samples: Vec<Sample>,
    ) -> Result<Self, Vec<Sample>> {
        match Self::new(bench, kind, stride, most) {
            Some(new) => Ok(Self { samples, ..new }),
            None => Err(samples),
        }
    }

    /// Returns the measured page counts and `others`, ascending.
    pub(super) fn sizes_and(&self, others: &[u64]) -> Vec<u64> {
        let measured = self.samples.iter().map(|sample| sample.pages);
        let mut sizes: Vec<u64> = measured.chain(others.iter().copied()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Measures additional page counts, to locate the levels more precisely, until none are left,
    /// then measures the edge of the first level.
    pub(super) fn refine(
        &mut self,
        bench: &Bench<'_>,
        scale: &Scale,
        deadline: Instant,
        random: &mut Rng,
    ) {
        let most = (self.spread.bytes() / self.stride) as u64;
        for _ in 0..scale.refinements {
            let levels = tlb::levels(&self.samples, CONFIDENCE, bench.seed);
            let mut more = tlb::refine(&self.samples, &levels);
            more.retain(|&pages| pages <= most);
            if more.is_empty() || is_over(bench, deadline) {
                break;
            }
            (0..FIRST_PASSES).for_each(|_| self.pass(bench, &more, deadline, random));
        }
        self.look_at_edge(bench, scale, deadline, random);
    }

    /// Measures the page counts around the first step, one by one, until the step is determined.
    pub(super) fn look_at_edge(
        &mut self,
        bench: &Bench<'_>,
        scale: &Scale,
        deadline: Instant,
        random: &mut Rng,
    ) {
        let most = (self.spread.bytes() / self.stride) as u64;
        for _ in 0..scale.at_edge {
            let levels = tlb::levels(&self.samples, CONFIDENCE, bench.seed);
            let first = levels.first().filter(|first| first.entries.is_none());
            let Some(first) = first.filter(|_| !is_over(bench, deadline)) else { return };
            let mut pages = tlb::around_edge(first);
            pages.retain(|&pages| pages <= most);
            let is_new = |pages: &u64| !self.samples.iter().any(|known| known.pages == *pages);
            let new: Vec<u64> = pages.iter().copied().filter(is_new).collect();
            self.pass(bench, &new, deadline, random);
            (0..EDGE_PASSES).for_each(|_| self.edge_pass(bench, &pages, deadline, random));
        }
    }

    /// Measures only the spread chains; the times of the packed chains do not change.
    fn edge_pass(&mut self, bench: &Bench<'_>, sizes: &[u64], deadline: Instant, random: &mut Rng) {
        let (seed, order) = (random.u64(..), self.turn(sizes));
        let Self { spread, stride, samples, .. } = self;
        let mut spread = Chain::new(spread, anywhere(spread, *stride, bench, random), seed);
        let plan = Plan { window_ns: EDGE_WINDOW_NS, wanted: EDGE_WINDOWS, deadline };
        for pages in order {
            if let Some(time) = load_ns(bench, &mut spread, pages as usize, &plan) {
                sample_of(samples, pages).spread.push(time);
            }
        }
    }

    /// Measures each of `sizes` (ascending) again, on different pages. The sizes are measured
    /// upwards or downwards, so that the chain changes little from one to the next.
    pub(super) fn pass(
        &mut self,
        bench: &Bench<'_>,
        sizes: &[u64],
        deadline: Instant,
        random: &mut Rng,
    ) {
        let (seed, order) = (random.u64(..), self.turn(sizes));
        let Self { spread, packed, stride, samples, .. } = self;
        let mut spread = Chain::new(spread, anywhere(spread, *stride, bench, random), seed);
        // The packed chain goes page by page to need as few translations as possible.
        let layout = Layout::dense(Order::PageLocal, bench.line);
        let mut packed = Chain::new(packed, layout, seed);
        let plan = Plan { window_ns: WINDOW_NS, wanted: WINDOWS, deadline };
        for pages in order {
            let times = (
                load_ns(bench, &mut spread, pages as usize, &plan),
                load_ns(bench, &mut packed, pages as usize, &plan),
            );
            if let (Some(spread), Some(packed)) = times {
                let sample = sample_of(samples, pages);
                sample.spread.push(spread);
                sample.packed.push(packed);
            }
        }
    }

    /// Returns `sizes` in ascending order on one call and in descending order on the next.
    fn turn(&mut self, sizes: &[u64]) -> Vec<u64> {
        let mut order = sizes.to_vec();
        if !self.is_upwards {
            order.reverse();
        }
        self.is_upwards = !self.is_upwards;
        order
    }
}

/// Returns a layout with one line per stride. Its first line is in a random stride of the arena.
fn anywhere(arena: &Arena, stride: usize, bench: &Bench<'_>, random: &mut Rng) -> Layout {
    let start = random.usize(..arena.bytes() / stride) * stride;
    Layout { start, ..Layout::one_per_page(stride, bench.line) }
}

/// Returns ns per load for a chain of `items` items, from the fastest window.
fn load_ns(bench: &Bench<'_>, chain: &mut Chain<'_>, items: usize, plan: &Plan) -> Option<f64> {
    if is_over(bench, plan.deadline) {
        return None;
    }
    chain.resize(items);
    let mut cursor = Cursor::default();
    chain.run(&mut cursor, items as u64);
    Some(bench.windows.best_of(plan, |loads| chain.run(&mut cursor, loads))?.ns)
}

/// Returns the sample for this page count, creating it if missing.
fn sample_of(samples: &mut Vec<Sample>, pages: u64) -> &mut Sample {
    let place = samples.partition_point(|sample| sample.pages < pages);
    if samples.get(place).is_none_or(|sample| sample.pages != pages) {
        samples.insert(place, Sample { pages, spread: Vec::new(), packed: Vec::new() });
    }
    &mut samples[place]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_gather_at_their_number_of_pages() {
        let mut samples = Vec::new();
        for (pages, time) in [(8, 1.0), (64, 2.0), (16, 3.0), (64, 4.0), (8, 5.0)] {
            let sample = sample_of(&mut samples, pages);
            sample.spread.push(time);
            sample.packed.push(time / 2.0);
        }
        let sample = |pages, times: &[f64]| Sample {
            pages,
            spread: times.to_vec(),
            packed: times.iter().map(|time| time / 2.0).collect(),
        };
        assert_eq!(samples, [sample(8, &[1.0, 5.0]), sample(16, &[3.0]), sample(64, &[2.0, 4.0])]);
    }
}
