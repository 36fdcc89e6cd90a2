// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the edge of a rise: the largest number of pages without misses.
//!
//! Consider `s` sets of `w` ways, `E = s w` entries in all, and a chase through `n` contiguous
//! pages, which fill the sets evenly. Beyond `E`, one set after another gets one more page: `n - E`
//! of the sets have `w + 1` pages. With LRU, all pages in these sets miss, so the miss ratio is
//!
//! ```text
//! f(n) = (n - E) (w + 1) / n = (n - E) (E + s) / (s n)        E <= n <= E + s
//! ```
//!
//! where `s = 1` is full associativity. With other replacement policies, only a fraction of these
//! pages misses. This fraction is the same in all overfull sets, so the miss ratio is still `k (n -
//! E) / n`, as long as no set has `w + 2` pages. If misses become more expensive along the climb
//! because the page table leaves the caches, the shape of the climb is closer to a straight line,
//! `k (n - E) / E`. So `E` and `k` are fitted together, with either shape, to the beginning of the
//! rise: heights above [`BEGINNING`] are clamped to that value, so that the rest of the rise has no
//! influence.
//!
//! The fit minimizes absolute deviations, so a single outlier does not move it. If several page
//! counts fit equally well because no count between them was measured, all of them are kept.

/// How far the time per load has risen at a given number of pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Risen {
    pub(super) pages: f64,
    /// Relative height: 0 before the rise, 1 after it.
    pub(super) share: f64,
    /// Standard deviation of the height.
    pub(super) error: f64,
}

/// The range of candidates that fit equally well. A candidate is a number of pages that may be the
/// largest without a miss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Edge {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Fraction of the rise that is fitted. In a 16-set TLB, each page beyond the last entry overfills
/// one more set and adds about 1/16 of the rise, so this fraction spans several page counts.
pub(super) const BEGINNING: f64 = 0.25;
/// Maximum number of candidates to try one by one; longer ranges are reduced to a geometric series.
const MOST_CANDIDATES: usize = 300;
/// Maximum difference from the best fit's deviation, in standard errors, at which a fit counts as
/// equally good.
const AS_GOOD: f64 = 0.1;
/// Returns candidate edges from `from` to `to`, in pages: all of them or, if there are too many, a
/// selection that includes those at which the measured points could reveal an edge.
pub(super) fn candidates(from: f64, to: f64, curve: &[Risen]) -> Vec<f64> {
    let (from, to) = (from.max(1.0).floor(), to.floor());
    if !(from <= to && to.is_finite()) {
        return Vec::new();
    }
    if to - from < MOST_CANDIDATES as f64 {
        return (0..=(to - from) as u32).map(|i| from + f64::from(i)).collect();
    }
    let ratio = (to / from).powf(1.0 / MOST_CANDIDATES as f64);
    let series = (0..=MOST_CANDIDATES).map(|i| (from * ratio.powi(i as i32)).floor());
    let seen = curve.iter().flat_map(|risen| [risen.pages - 1.0, risen.pages]);
    let within = seen.filter(|pages| (from..=to).contains(pages));
    let mut all: Vec<f64> = series.chain(within).collect();
    all.sort_unstable_by(f64::total_cmp);
    all.dedup();
    all
}

/// Finds the edge of `curve` among `candidates`, both sorted by increasing number of pages; `None`
/// without candidates.
pub(super) fn fit(curve: &[Risen], candidates: &[f64]) -> Option<Edge> {
    let fits: Vec<f64> = candidates.iter().map(|&edge| deviation_at(curve, edge)).collect();
    let best = fits.iter().copied().min_by(f64::total_cmp)?;
    let good = |i: &usize| fits[*i] <= best + AS_GOOD;
    let low = (0..fits.len()).find(good)?;
    let high = (0..fits.len()).rev().find(good)?;
    Some(Edge { low: candidates[low], high: candidates[high] })
}

/// Returns the smallest deviation with an edge at `edge`, over both shapes and all factors.
///
/// As a function of the factor, the deviation is piecewise linear, with breakpoints where the shape
/// meets a point or reaches `BEGINNING`. The minimum is therefore at one of these breakpoints.
fn deviation_at(curve: &[Risen], edge: f64) -> f64 {
    let beyond = |risen: &Risen| (risen.pages - edge).max(0.0);
    let concave: Vec<f64> = curve.iter().map(|risen| beyond(risen) / risen.pages).collect();
    let straight: Vec<f64> = curve.iter().map(|risen| beyond(risen) / edge).collect();
    let least = |shape: &[f64]| {
        let rising = curve.iter().zip(shape).filter(|(_, shape)| **shape > 0.0);
        let meets = |(risen, shape): (&Risen, &f64)| {
            [risen.share.clamp(0.0, BEGINNING) / shape, BEGINNING / shape]
        };
        let factors = rising.flat_map(meets);
        factors.map(|factor| deviation(curve, shape, factor)).fold(f64::INFINITY, f64::min)
    };
    least(&concave).min(least(&straight))
}

/// Sums the deviations of `curve` from the scaled shape, in standard errors.
fn deviation(curve: &[Risen], shape: &[f64], factor: f64) -> f64 {
    let off = |(risen, shape): (&Risen, &f64)| {
        (risen.share.min(BEGINNING) - (factor * shape).min(BEGINNING)).abs() / risen.error
    };
    curve.iter().zip(shape).map(off).sum()
}
