// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data TLBs: one line per page, compared with the same number of packed lines.
//!
//! Both chains have the same number of lines, spread over the cache sets in the same way. Both hit
//! the caches equally, so the extra time per load in the first chain is address translation. This
//! holds for any page kind and stride; these three combinations are informative:
//!
//! | memory | stride | result |
//! |---|---|---|
//! | small pages | a small page | number of small pages that the TLB holds |
//! | huge pages | a small page | no rise if one entry translates a whole huge page |
//! | huge pages | a huge page | number of huge pages that the TLB holds, if they work |
//!
//! ```text
//! in passes, measure a few sizes per octave on small and huge pages; each pass uses different
//!     pages, and alternate passes go upwards and downwards
//! after two passes, locate the levels and add sizes around them
//! around the first step, measure every page count until the number of entries held by other
//!     users is bounded
//! ```
//!
//! Other threads occupy TLB entries for tenths of a second, or for seconds. An undetermined step is
//! therefore briefly re-measured between later parts of the measurement.
//!
//! `hierarchy::tlb` finds the levels. Instruction TLBs are not measured.

mod pages;
mod strided;

use crate::arena::Arena;
use crate::bench::Bench;
use fastrand::Rng;
use linerate_hierarchy::tlb;
use linerate_record::memory::{Effort, PageKind, Pages, PagesVerdict, TlbLevel};
use linerate_record::stats::{CONFIDENCE, Estimate};
use linerate_record::{Figure, Tier};
use pages::Offer;
use std::time::{Duration, Instant};
use strided::Strided;

/// Results of the TLB measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Translation {
    /// TLB levels for small pages, and for huge pages if these work and the other parts of the
    /// measurement use them.
    pub tlb: Vec<TlbLevel>,
    /// Small pages compared with huge pages.
    pub pages: Pages,
    /// TLB levels for the kind of page that the other parts of the measurement use, with costs in
    /// ns.
    pub levels: Vec<tlb::Level>,
    /// Bytes that one TLB entry translates.
    pub page_bytes: u64,
    /// Samples for small pages.
    small: Vec<tlb::Sample>,
}

/// Settings for the TLB measurement.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Maximum number of small pages: twice the second-level TLB of any known processor, or more
    /// with a larger time budget.
    most_pages: usize,
    /// Maximum total size of all arenas in bytes.
    most_bytes: u64,
    passes: usize,
    /// Maximum number of refinements, each of which adds sizes.
    refinements: usize,
    /// Maximum number of attempts to determine the first step by measuring the page counts around
    /// it. Other threads on the core and in the system evict entries for a while.
    at_edge: usize,
}

impl Scale {
    fn for_effort(effort: Effort) -> Self {
        match effort {
            Effort::Quick => Self {
                most_pages: 4096,
                most_bytes: 48 << 20,
                passes: 3,
                refinements: 3,
                at_edge: 10,
            },
            Effort::Default => Self {
                most_pages: 8192,
                most_bytes: 256 << 20,
                passes: 6,
                refinements: 6,
                at_edge: 20,
            },
            Effort::Full => Self {
                most_pages: 32_768,
                most_bytes: 2 << 30,
                passes: 20,
                refinements: 10,
                at_edge: 40,
            },
        }
    }
}

/// Fraction of the time for measuring lines one small page apart, if lines one huge page apart are
/// measured afterwards.
const BY_SMALL: f64 = 0.5;
/// Fraction of the time spent on measuring all lines; the rest is for finding the levels.
const BY_ALL: f64 = 0.85;

/// Returns whether [`measure`] stays within the bench's memory limit while `arena` exists.
pub fn has_room_in_addition(bench: &Bench<'_>, arena: &Arena) -> bool {
    let room = bench.limit.bytes.saturating_sub(arena.bytes() as u64);
    Scale::for_effort(bench.effort).most_bytes <= room
}

/// Measures both page sizes in separate arenas that together stay within the bench's memory limit.
/// `used` is the page kind used by the other parts. Unavailable or undetermined values are absent
/// with a reason.
pub fn measure(bench: &Bench<'_>, used: PageKind, deadline: Instant) -> Translation {
    let scale = Scale::for_effort(bench.effort);
    let room = scale.most_bytes.min(bench.limit.bytes);
    let mut random = Rng::with_seed(bench.seed);
    let now = Instant::now();
    let until = |share| now + deadline.saturating_duration_since(now).mul_f64(share);
    let ends = Ends { usual: until(BY_ALL), early: until(BY_SMALL) };
    let (small, huge, granted) = measure_by_small_pages(bench, &scale, room, &ends, &mut random);
    let seed = bench.seed;
    let effect = tlb::huge_pages(&small, &huge, CONFIDENCE, seed);
    let pages = pages::judge(&Offer::read(bench, used, granted), &effect);
    let small_levels = tlb::levels(&small, CONFIDENCE, seed);
    let mut tlb = records(bench, PageKind::Base, &small_levels);
    let (levels, page_bytes) = match (used, pages.verdict, bench.huge) {
        (PageKind::Huge, PagesVerdict::Work, Some(bytes)) => {
            let wide =
                measure_by_huge_pages(bench, &scale, room, bytes, until(BY_ALL), &mut random);
            let levels = tlb::levels(&wide, CONFIDENCE, seed);
            tlb.extend(records(bench, PageKind::Huge, &levels));
            (levels, bytes)
        }
        (PageKind::Huge, ..) if !huge.is_empty() => {
            (in_pieces(tlb::levels(&huge, CONFIDENCE, seed), &small_levels), bench.page)
        }
        _ => (small_levels, bench.page),
    };
    Translation { tlb, pages, levels, page_bytes: page_bytes as u64, small }
}

/// Returns the levels of a TLB that splits huge pages into several entries. The first level's
/// number of entries is the one found with small pages, where the edge was measured for longer.
fn in_pieces(mut levels: Vec<tlb::Level>, small: &[tlb::Level]) -> Vec<tlb::Level> {
    if let (Some(first), Some(small)) = (levels.first_mut(), small.first()) {
        first.entries = small.entries;
    }
    levels
}

/// Time budget for re-measuring the first level if it is undetermined.
const AGAIN: Duration = Duration::from_millis(40);

/// Maximum page count at which an edge is re-measured.
const MOST_AGAIN: f64 = 2048.0;

impl Translation {
    /// Re-measures the edge of the first level if it is undetermined, in `room` bytes of memory.
    /// Other threads' TLB entries may be gone by now. Takes about 40 ms.
    pub fn look_again(&mut self, bench: &Bench<'_>, room: u64) {
        let known = tlb::levels(&self.small, CONFIDENCE, bench.seed);
        let first = known.first().filter(|first| first.entries.is_none() && first.is_step);
        let Some(most) = first.map(|first| 2.0 * first.onset.high).filter(|m| *m <= MOST_AGAIN)
        else {
            return;
        };
        let most = (most as usize).min(fitting(room, bench.page, bench.line));
        let (kind, small) = (PageKind::Base, std::mem::take(&mut self.small));
        self.small = match Strided::again(bench, kind, bench.page, most, small) {
            Ok(mut again) => {
                let deadline = Instant::now() + AGAIN;
                let mut random = Rng::with_seed(bench.seed);
                again.look_at_edge(bench, &Scale::for_effort(bench.effort), deadline, &mut random);
                again.into_samples()
            }
            Err(samples) => samples,
        };
        self.update_results(bench);
    }

    /// Updates the results for small pages.
    fn update_results(&mut self, bench: &Bench<'_>) {
        let small = tlb::levels(&self.small, CONFIDENCE, bench.seed);
        let others = self.tlb.iter().filter(|level| level.pages != PageKind::Base).cloned();
        let others: Vec<TlbLevel> = others.collect();
        self.tlb = records(bench, PageKind::Base, &small);
        self.tlb.extend(others);
        if self.page_bytes == bench.page as u64 {
            self.levels = match self.pages.used {
                PageKind::Base => small,
                PageKind::Huge => in_pieces(std::mem::take(&mut self.levels), &small),
            };
        }
    }
}

/// Deadlines for measuring lines one small page apart.
struct Ends {
    usual: Instant,
    /// Earlier deadline, used if huge pages work: it leaves time to measure lines one huge page
    /// apart.
    early: Instant,
}

/// Measures latencies with small pages, and with huge pages at the same stride. Also returns the
/// fraction of the requested huge pages that were granted.
fn measure_by_small_pages(
    bench: &Bench<'_>,
    scale: &Scale,
    room: u64,
    ends: &Ends,
    random: &mut Rng,
) -> (Vec<tlb::Sample>, Vec<tlb::Sample>, Option<f64>) {
    // Two page arenas and two small arenas of packed lines must fit.
    let most = scale.most_pages.min(fitting(room / 2, bench.page, bench.line));
    let Some(mut small) = Strided::new(bench, PageKind::Base, bench.page, most) else {
        return (Vec::new(), Vec::new(), None);
    };
    let offered = bench.huge.filter(|bytes| *bytes as u64 <= room / 2).map(|_| PageKind::Huge);
    let mut huge = offered.and_then(|kind| Strided::new(bench, kind, bench.page, most));
    let sizes = tlb::start(most as u64);
    let mut deadline = ends.usual;
    for pass in 0..scale.passes {
        if pass == FIRST_PASSES {
            let seen = huge.as_ref().map(|huge| {
                tlb::huge_pages(small.samples(), huge.samples(), CONFIDENCE, bench.seed).verdict
            });
            deadline = if seen == Some(PagesVerdict::Work) { ends.early } else { ends.usual };
            small.refine(bench, scale, deadline, random);
        }
        let all = small.sizes_and(&sizes);
        small.pass(bench, &all, deadline, random);
        // Huge-page edges are not refined, so half of the passes suffice.
        if let Some(huge) = huge.as_mut().filter(|_| pass < FIRST_PASSES || pass % 2 == 0) {
            huge.pass(bench, &sizes, deadline, random);
        }
    }
    let granted = huge.as_ref().and_then(Strided::granted);
    (small.into_samples(), huge.map(Strided::into_samples).unwrap_or_default(), granted)
}

/// Passes over the initial sizes before more are added, and over the sizes that each refinement
/// adds.
const FIRST_PASSES: usize = 2;

/// Minimum number of huge pages that can reveal a level.
const LEAST_HUGE: usize = 16;

/// Measures latencies with one line per huge page.
fn measure_by_huge_pages(
    bench: &Bench<'_>,
    scale: &Scale,
    room: u64,
    bytes: usize,
    deadline: Instant,
    random: &mut Rng,
) -> Vec<tlb::Sample> {
    let most = fitting(room, bytes, bench.line);
    if most < LEAST_HUGE {
        return Vec::new();
    }
    let Some(mut wide) = Strided::new(bench, PageKind::Huge, bytes, most) else {
        return Vec::new();
    };
    for pass in 0..scale.passes {
        if pass == FIRST_PASSES {
            wide.refine(bench, scale, deadline, random);
        }
        let all = wide.sizes_and(&tlb::start(most as u64));
        wide.pass(bench, &all, deadline, random);
    }
    wide.into_samples()
}

/// Returns how many pages fit in `room`, with a packed line for each.
fn fitting(room: u64, page: usize, line: usize) -> usize {
    usize::try_from(room / (page + line) as u64).unwrap_or(usize::MAX)
}

fn is_over(bench: &Bench<'_>, deadline: Instant) -> bool {
    bench.windows.is_stopped() || Instant::now() >= deadline
}

fn records(bench: &Bench<'_>, pages: PageKind, levels: &[tlb::Level]) -> Vec<TlbLevel> {
    let record = |(place, level): (usize, &tlb::Level)| record(bench, pages, place + 1, level);
    levels.iter().enumerate().map(record).collect()
}

fn record(bench: &Bench<'_>, pages: PageKind, number: usize, level: &tlb::Level) -> TlbLevel {
    let method = "latency with one line per page minus latency with the same number of packed \
        lines";
    let figure = |unit, estimate| Figure::number(unit, estimate, Tier::Sw, method);
    let absent = |unit, reason| Figure::absent(unit, Tier::Sw, method, reason);
    let contradict = "other programs may have held TLB entries throughout: the lower bound of \
                      `onset` is also a lower bound on the number of entries";
    let (is_noise, noisy) = (level.cost.value.is_nan(), "the interval is wider than the value");
    let climbs = "latency rises gradually, without a step: see `onset` and `half`";
    let in_cycles = |ghz: f64| {
        let Estimate { value, low, high, .. } = level.cost;
        Estimate { value: value * ghz, low: low * ghz, high: high * ghz, ..level.cost }
    };
    TlbLevel {
        name: format!("L{number} dTLB"),
        pages,
        entries: match level.entries {
            Some(entries) => figure("pages", entries),
            None if level.is_step => absent("pages", contradict),
            None if level.cost.high == f64::INFINITY => {
                absent("pages", "latency was still rising at the largest size: see `onset`")
            }
            None => absent("pages", climbs),
        },
        onset: figure("pages", level.onset),
        half: figure("pages", level.half),
        cost_ns: if is_noise { absent("ns", noisy) } else { figure("ns", level.cost) },
        cost_cycles: match bench.core_ghz {
            _ if is_noise => absent("cycles", noisy),
            Some(ghz) => figure("cycles", in_cycles(ghz)),
            None => absent("cycles", "the core clock is unknown"),
        },
        note: note(level),
    }
}

fn note(level: &tlb::Level) -> Option<String> {
    let is_open = !level.cost.high.is_finite();
    match (level.is_step, is_open) {
        (true, false) => None,
        (true, true) => {
            Some("the end of the rise was not seen: the cost is a lower bound".to_owned())
        }
        (false, true) => Some(format!(
            "latency starts to rise at {:.0} pages; the end of the rise was not seen",
            level.onset.value
        )),
        (false, false) => {
            let (onset, half) = (level.onset.value, level.half.value);
            Some(format!(
                "latency rises gradually: the rise starts at {onset:.0} pages and is half complete \
                 at {half:.0} pages"
            ))
        }
    }
}

/// Allocates an arena of `bytes` bytes, if there is enough memory.
fn arena(bench: &Bench<'_>, bytes: usize, kind: PageKind) -> Option<Arena> {
    Arena::new(bytes, kind, bench.windows.watch.stop()).ok()
}

#[cfg(test)]
mod tests;
