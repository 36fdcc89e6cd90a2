// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests whether one TLB entry translates a whole huge page.
//!
//! A chase with a stride of one small page, inside huge pages, needs one translation per huge page,
//! so it is as fast as the packed chase even far beyond the number of small pages that the first
//! level holds. The exception is a TLB that caches small pieces of a huge page, because the
//! hypervisor backs the guest's huge page with small ones (*page splintering*: Pham et al., 2015).
//! With huge pages, such a TLB misses at the same number of small pages as without them.

use super::{Curve, Point, Sample, levels};
use crate::resample::{REPLICATES, interval, redrawn_least};
use fastrand::Rng;
use linerate_record::memory::PagesVerdict;
use linerate_record::stats::{Estimate, median};
use std::ops::RangeInclusive;

/// Whether huge pages work, with the evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct HugePages {
    /// `Work`, `Splintered` or `Unknown`; the caller checks whether huge pages were granted.
    pub verdict: PagesVerdict,
    /// Fraction of the first-level miss cost that remains with huge pages: 0 if they work, 1 if
    /// they are splintered. `None` without a first level.
    pub share: Option<Estimate>,
    /// Latency with huge pages divided by latency with small pages, at the largest number of pages
    /// measured with both. `None` if that number is not clearly beyond the first level.
    pub time_ratio: Option<Estimate>,
}

/// Multiple of the first level's midpoint above which small pages clearly miss that level, and
/// multiple of the second level's onset below which they clearly hit the second.
const CLEAR: (f64, f64) = (1.5, 0.9);

/// Tests whether one entry translates a whole huge page. `small` is measured on small pages, `huge`
/// with the same stride inside granted huge pages.
///
/// The verdict is positive or negative only if the interval of the remaining fraction is entirely
/// below or above one half; otherwise it is unknown.
pub fn huge_pages(small: &[Sample], huge: &[Sample], confidence: f64, seed: u64) -> HugePages {
    let levels = levels(small, confidence, seed);
    let (small, huge) = (Curve::from_samples(small), Curve::from_samples(huge));
    let unknown = HugePages { verdict: PagesVerdict::Unknown, share: None, time_ratio: None };
    let Some(first) = levels.first() else { return unknown };
    let from = CLEAR.0 * first.half.value;
    let to = levels.get(1).map_or(f64::INFINITY, |second| CLEAR.1 * second.onset.value);
    let mut random = Rng::with_seed(seed);
    let mut ratio = |ratio: &dyn Fn(&mut Rng) -> Option<f64>| {
        let replicates: Vec<f64> = (0..REPLICATES).filter_map(|_| ratio(&mut random)).collect();
        let n = huge.points.iter().map(|point| point.spread.len() as u64).sum();
        Some(interval(median(&replicates)?, &replicates, confidence, n))
    };
    let share = ratio(&|random| {
        let paid = |curve: &Curve, random: &mut Rng| {
            let hit = level(curve, 0.0..=first.onset.value, random)?;
            Some(level(curve, from..=to, random)? - hit)
        };
        Some(paid(&huge, random)? / paid(&small, random)?)
    });
    let verdict = match share {
        Some(share) if share.high < 0.5 => PagesVerdict::Work,
        Some(share) if share.low > 0.5 => PagesVerdict::Splintered,
        _ => PagesVerdict::Unknown,
    };
    let common = |huge: &&Point| huge.pages >= from;
    let time_ratio = huge.points.iter().rev().filter(common).find_map(|huge| {
        let small = small.points.iter().find(|small| small.pages == huge.pages)?;
        ratio(&|random| {
            let huge = redrawn_least(random, &huge.spread);
            Some(huge / redrawn_least(random, &small.spread))
        })
    });
    HugePages { verdict, share, time_ratio }
}

/// Returns the median difference over the points of `curve` within `pages`, with passes and points
/// resampled with replacement; `None` if there is no such point.
fn level(curve: &Curve, pages: RangeInclusive<f64>, random: &mut Rng) -> Option<f64> {
    let within = |point: &&Point| pages.contains(&point.pages);
    let points: Vec<&Point> = curve.points.iter().filter(within).collect();
    let differences = points.iter().map(|_| {
        let point = points[random.usize(..points.len())];
        redrawn_least(random, &point.spread) - redrawn_least(random, &point.packed)
    });
    median(&differences.collect::<Vec<f64>>())
}
