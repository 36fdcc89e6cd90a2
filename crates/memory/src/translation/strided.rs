// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chains of one line per stretch of memory, beside chains of as many lines packed.

use super::{CONFIDENCE, FIRST_PASSES, Scale, arena, is_over};
use crate::arena::Arena;
use crate::chase::{Chain, Cursor, Layout};
use crate::measure::Bench;
use crate::window::Plan;
use fastrand::Rng;
use linerate_hierarchy::tlb::{self, Sample};
use linerate_record::memory::{Order, PageKind};
use std::time::Instant;

/// Some 50,000 loads where they are fast, and a few times around where they are not.
const WINDOW_NS: f64 = 5e4;

/// Windows that must be no faster than the fastest.
const WINDOWS: u32 = 2;

/// Pages on either side of a step that tell where it is.
const BESIDE: u64 = 3;

/// About so many numbers of pages are measured between the ends of its interval.
const MOST_BESIDE: usize = 24;

/// Memory of one kind of page, and what was measured there.
pub(super) struct Strided {
    spread: Arena,
    packed: Arena,
    /// Octets from one line of a spread chain to the next.
    stride: usize,
    /// By pages, rising.
    samples: Vec<Sample>,
    /// Whether the next pass goes from few pages to many.
    is_upwards: bool,
}

impl Strided {
    /// Room for `most` lines, `stride` octets apart. `None` where the memory is not to be had.
    pub(super) fn new(
        bench: &Bench<'_>,
        kind: PageKind,
        stride: usize,
        most: usize,
    ) -> Option<Self> {
        let spread = arena(bench, most.checked_mul(stride)?, kind)?;
        // Whole pages of lines, so that chains that go around its end leave no set out.
        let lines = (most * bench.line).next_multiple_of(bench.page);
        let packed = arena(bench, lines, PageKind::Huge)?;
        Some(Self { spread, packed, stride, samples: Vec::new(), is_upwards: true })
    }

    /// The share of the memory that huge pages stand behind.
    pub(super) fn granted(&self) -> Option<f64> {
        self.spread.granted()
    }

    pub(super) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    pub(super) fn into_samples(self) -> Vec<Sample> {
        self.samples
    }

    /// Numbers of pages that were measured, and `others`, rising.
    pub(super) fn sizes_and(&self, others: &[u64]) -> Vec<u64> {
        let measured = self.samples.iter().map(|sample| sample.pages);
        let mut sizes: Vec<u64> = measured.chain(others.iter().copied()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Measures what sharpens the levels, until nothing does, and the edge of the first.
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

    /// Measures the pages beside the first step, each number of them, again and again.
    fn look_at_edge(
        &mut self,
        bench: &Bench<'_>,
        scale: &Scale,
        deadline: Instant,
        random: &mut Rng,
    ) {
        for _ in 0..scale.at_edge {
            let levels = tlb::levels(&self.samples, CONFIDENCE, bench.seed);
            let Some(first) = levels.first().filter(|_| !is_over(bench, deadline)) else { return };
            let (low, high) = (first.onset.low as u64, first.onset.high as u64);
            let most = (self.spread.bytes() / self.stride) as u64;
            let pages = low.saturating_sub(BESIDE).max(1)..=(high + BESIDE).min(most);
            let every = (high - low) as usize / MOST_BESIDE + 1;
            let pages: Vec<u64> = pages.step_by(every).collect();
            (0..FIRST_PASSES).for_each(|_| self.pass(bench, &pages, deadline, random));
        }
    }

    /// Measures each of `sizes`, which rise, once more, on other pages than before: upwards or
    /// downwards, so that the chain changes little from one to the next.
    pub(super) fn pass(
        &mut self,
        bench: &Bench<'_>,
        sizes: &[u64],
        deadline: Instant,
        random: &mut Rng,
    ) {
        let Self { spread, packed, stride, samples, is_upwards } = self;
        let start = random.usize(..spread.bytes() / *stride) * *stride;
        let layout = Layout { start, ..Layout::one_per_page(*stride, bench.line) };
        let seed = random.u64(..);
        let mut spread = Chain::new(spread, layout, seed);
        // Page by page: packed lines need no more translation than they have to.
        let layout = Layout::dense(Order::PageLocal, bench.line);
        let mut packed = Chain::new(packed, layout, seed);
        let mut order = sizes.to_vec();
        if !*is_upwards {
            order.reverse();
        }
        *is_upwards = !*is_upwards;
        for pages in order {
            let times = (
                load_ns(bench, &mut spread, pages as usize, deadline),
                load_ns(bench, &mut packed, pages as usize, deadline),
            );
            if let (Some(spread), Some(packed)) = times {
                add(samples, pages, spread, packed);
            }
        }
    }
}

/// ns per load of a chain of so many items, by its fastest window.
fn load_ns(
    bench: &Bench<'_>,
    chain: &mut Chain<'_>,
    items: usize,
    deadline: Instant,
) -> Option<f64> {
    if is_over(bench, deadline) {
        return None;
    }
    chain.resize(items);
    let mut cursor = Cursor::default();
    chain.run(&mut cursor, items as u64);
    let plan = Plan { window_ns: WINDOW_NS, wanted: WINDOWS, deadline };
    Some(bench.windows.best_of(&plan, |loads| chain.run(&mut cursor, loads))?.ns)
}

/// Adds a pass to the sample of so many pages, which is made if there is none.
fn add(samples: &mut Vec<Sample>, pages: u64, spread: f64, packed: f64) {
    let place = samples.partition_point(|sample| sample.pages < pages);
    if samples.get(place).is_none_or(|sample| sample.pages != pages) {
        samples.insert(place, Sample { pages, spread: Vec::new(), packed: Vec::new() });
    }
    samples[place].spread.push(spread);
    samples[place].packed.push(packed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_gather_at_their_number_of_pages() {
        let mut samples = Vec::new();
        for (pages, time) in [(8, 1.0), (64, 2.0), (16, 3.0), (64, 4.0), (8, 5.0)] {
            add(&mut samples, pages, time, time / 2.0);
        }
        let sample = |pages, times: &[f64]| Sample {
            pages,
            spread: times.to_vec(),
            packed: times.iter().map(|time| time / 2.0).collect(),
        };
        assert_eq!(samples, [sample(8, &[1.0, 5.0]), sample(16, &[3.0]), sample(64, &[2.0, 4.0])]);
    }
}
