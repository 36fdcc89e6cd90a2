// SPDX-License-Identifier: MIT OR Apache-2.0
//! The edge of a rise: the largest number of pages without misses.
//!
//! Consider `s` sets of `w` ways, `E = s w` entries in all, and a chase through `n` contiguous
//! pages, so that sets fill up evenly. Beyond `E`, one set after another gets one more page: `n -
//! E` of the sets have `w + 1` pages. With LRU, all pages in these sets miss, so the miss ratio is
//!
//! ```text
//! f(n) = (n - E) (w + 1) / n = (n - E) (E + s) / (s n)        E <= n <= E + s
//! ```
//!
//! where `s = 1` is full associativity. With other replacement policies, only a share of these
//! pages misses. It is the same in all overfull sets, so the miss ratio is still `k (n - E) / n`,
//! as long as no set has `w + 2` pages. A climb whose misses become more expensive, because the
//! page table leaves the caches, is closer to a straight line, `k (n - E) / E`. So `E` and `k` are
//! fitted together, with either shape, to the beginning of the rise: shares above [`BEGINNING`]
//! count as that value, whatever happens there.
//!
//! The fit minimises absolute deviations, so a disturbed point does not move it. If several numbers
//! of pages fit equally well because no number between them was measured, all of them are kept.

/// Relative rise at a number of pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Risen {
    pub(super) pages: f64,
    /// 0 before the rise, 1 after it.
    pub(super) share: f64,
    /// The standard deviation of the share.
    pub(super) error: f64,
}

/// Range of the candidates that fit. A candidate is a possible value for the largest number of
/// pages without a miss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Edge {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// The part of the rise that is fitted. One page too many for a set of four ways is 1 / 16 of a
/// rise, so several numbers of pages are within this part.
pub(super) const BEGINNING: f64 = 0.25;
/// Maximum number of candidates; beyond it, they form a geometric series.
const MOST_CANDIDATES: usize = 300;
/// Maximum deviation in excess of the best fit's, in standard errors, at which a fit counts as
/// equally good.
const AS_GOOD: f64 = 0.1;
/// Candidate numbers of pages from `from` to `to` for an edge: all of them or, if there are too
/// many, a selection that includes those where the edge would be visible.
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

/// Returns the edge of `curve` among `candidates`, both in order of increasing pages; `None`
/// without candidates.
pub(super) fn fit(curve: &[Risen], candidates: &[f64]) -> Option<Edge> {
    let fits: Vec<f64> = candidates.iter().map(|&edge| deviation_at(curve, edge)).collect();
    let best = fits.iter().copied().min_by(f64::total_cmp)?;
    let good = |i: &usize| fits[*i] <= best + AS_GOOD;
    let low = (0..fits.len()).find(good)?;
    let high = (0..fits.len()).rev().find(good)?;
    Some(Edge { low: candidates[low], high: candidates[high] })
}

/// The least deviation with an edge at `edge`, over both shapes and all factors.
///
/// As a function of the factor, the deviation is piecewise linear, with breakpoints where the shape
/// meets a point or reaches `BEGINNING`. So its least value is at one of these breakpoints.
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

/// Sum of the deviations of `curve` from the scaled shape, in standard errors.
fn deviation(curve: &[Risen], shape: &[f64], factor: f64) -> f64 {
    let off = |(risen, shape): (&Risen, &f64)| {
        (risen.share.min(BEGINNING) - (factor * shape).min(BEGINNING)).abs() / risen.error
    };
    curve.iter().zip(shape).map(off).sum()
}
