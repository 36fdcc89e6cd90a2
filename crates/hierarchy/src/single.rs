// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives the latency of individual loads from a clock whose tick may be longer than a load.
//!
//! A clock with 10 ns steps shows a 1 ns load as 0 or 10, but the mean over many loads that start
//! at random between two ticks is right: a time `t` spans `t / step` ticks on average. [`slope`]
//! therefore uses the means for chains of several lengths: the timing overhead is the same for all,
//! and the rest is proportional to the length. [`histogram`] bins individual loads at the clock's
//! resolution, and [`modes`] finds the peaks.
//!
//! Reading the clock and attributing modes to levels is up to the caller.

use crate::resample::{REPLICATES, interval, normal, weighted_median};
use linerate_record::memory::Bin;
use linerate_record::stats::{Estimate, median, quantile};
use std::collections::BTreeMap;

/// A peak in the distribution of load times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// Position in the unit of the bins: the mean of the samples in the peak, accurate to half a
    /// bin, which is at least half a clock step.
    pub at: f64,
    /// Fraction of all samples that belong to the peak, 0 to 1.
    pub share: f64,
}

/// When finding the clock's step, differences are ignored as interruptions if at most this fraction
/// of all differences has the same value. Differences that occur only once are ignored too.
const RARE: f64 = 0.001;
/// Shortest step, in units of the clock, that can be distinguished from rounding.
const LEAST_ROUNDED: u64 = 5;

/// Returns a clock's step in its own unit, from the differences between consecutive reads; `None`
/// if all are 0.
///
/// The step is the largest number that divides all frequent differences. A clock scaled to its unit
/// shows a step of 41.67 ns as 41 or 42. Such rounding is considered only for steps of 5 units or
/// more, and only if differences of several multiples agree on one step; 0 counts as a multiple.
pub fn step(differences: &[u64]) -> Option<f64> {
    let mut counts = BTreeMap::new();
    for &difference in differences.iter().filter(|&&difference| difference > 0) {
        *counts.entry(difference).or_insert(0_usize) += 1;
    }
    let total: usize = counts.values().sum();
    let frequent = |count: usize| count > 1 && count as f64 > RARE * total as f64;
    let seen: Vec<u64> = counts.iter().filter(|(_, n)| frequent(**n)).map(|(d, _)| *d).collect();
    let seen = if seen.is_empty() { counts.into_keys().collect() } else { seen };
    let shortest = *seen.first()?;
    // If 0 is among the differences, a step is longer than the time between two reads, so the
    // shortest difference is one step.
    let has_zeros = frequent(differences.len() - total);
    let most = if has_zeros { 1 } else { MOST_PARTS }.min(shortest / LEAST_ROUNDED);
    let rounded = (1..=most).find_map(|parts| {
        rounded_step(&seen, parts as f64).filter(|step| has_zeros || !is_one_multiple(&seen, *step))
    });
    Some(rounded.unwrap_or_else(|| seen.iter().fold(0, |a, &b| greatest_divisor(a, b)) as f64))
}

/// Maximum number of clock steps between two reads that the search considers.
const MOST_PARTS: u64 = 1000;

/// Returns the step for which the first of `seen`, the shortest difference, spans `parts` steps,
/// and all others are multiples.
///
/// Both reads are rounded down, so a difference `d` of `m` steps satisfies `|d - m step| < 1`, that
/// is `(d - 1) / m < step < (d + 1) / m`. The step is in the intersection of these ranges, if not
/// empty.
fn rounded_step(seen: &[u64], parts: f64) -> Option<f64> {
    let (mut low, mut high) = (0.0_f64, f64::INFINITY);
    let (mut sum, mut multiples) = (0.0, 0.0);
    for &difference in seen {
        let difference = difference as f64;
        let guess = if high.is_finite() { low.midpoint(high) } else { difference / parts };
        let multiple = (difference / guess).round();
        low = low.max((difference - 1.0) / multiple);
        high = high.min((difference + 1.0) / multiple);
        if low >= high {
            return None;
        }
        sum += difference;
        multiples += multiple;
    }
    Some(sum / multiples)
}

/// Returns whether the increasing values `seen` are all the same multiple of `step`, which leaves
/// `step` undetermined.
fn is_one_multiple(seen: &[u64], step: f64) -> bool {
    let multiple = |difference: &u64| (*difference as f64 / step).round();
    seen.first().map(multiple) == seen.last().map(multiple)
}

fn greatest_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
}

/// Fraction trimmed from the samples of each length at either end. On a machine with 1,000
/// interruptions per second, one 1 us sample in 1,000 is interrupted. Trimming more would also
/// remove the signal, the few loads that miss a cache.
const TRIMMED: f64 = 0.01;

/// Returns the time per load from `samples` of (loads in a chain, time of the chain), with many
/// samples per length, in the unit of the samples; `None` with fewer than two lengths.
///
/// The slope is the weighted median of the slopes between any two lengths (Theil, 1950; Sen, 1968).
/// It is robust against the first load after a pause, which is slower on some processors. Lengths
/// should be interleaved while measuring: interference with all samples of the longest chain cannot
/// be distinguished from slow loads.
///
/// The interval follows from the errors of the means, widened if they deviate from a straight line.
pub fn slope(samples: &[(u32, f64)], confidence: f64, seed: u64) -> Option<Estimate> {
    let mut lengths = BTreeMap::<u32, Vec<f64>>::new();
    for &(loads, time) in samples.iter().filter(|(_, time)| time.is_finite()) {
        lengths.entry(loads).or_default().push(time);
    }
    let n = lengths.values().map(|times| times.len() as u64).sum();
    let means: Vec<Mean> =
        lengths.into_iter().map(|(loads, times)| Mean::from_times(loads, times)).collect();
    let (slope, intercept) = line(&means)?;
    let bend = bend(&means, slope, intercept);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut redraw = |mean: &Mean| {
        let time = mean.time + bend * mean.error * normal(&mut random);
        Mean { time, ..*mean }
    };
    let replicates = (0..REPLICATES).filter_map(|_| {
        let drawn: Vec<Mean> = means.iter().map(&mut redraw).collect();
        line(&drawn).map(|(slope, _)| slope)
    });
    Some(interval(slope, &replicates.collect::<Vec<f64>>(), confidence, n))
}

/// Mean time for one chain length.
#[derive(Clone, Copy)]
struct Mean {
    loads: f64,
    time: f64,
    /// Standard error; positive.
    error: f64,
}

impl Mean {
    /// Computes the trimmed mean, with its error from the winsorized variance (Tukey and
    /// McLaughlin, 1963).
    fn from_times(loads: u32, mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        let n = times.len();
        let cut = (n as f64 * TRIMMED) as usize;
        let kept = &times[cut..n - cut];
        let time = kept.iter().sum::<f64>() / kept.len() as f64;
        let (first, last) = (kept[0], kept[kept.len() - 1]);
        let squares = times.iter().map(|&t| (t.clamp(first, last) - time).powi(2)).sum::<f64>();
        let variance = squares / (n.max(2) - 1) as f64;
        let error = (variance / n as f64).sqrt() / (1.0 - 2.0 * TRIMMED);
        // If all times are equal, the numeric resolution is the error, which keeps the weights
        // finite.
        let least = (time.abs() * f64::EPSILON).max(f64::MIN_POSITIVE);
        Self { loads: f64::from(loads), time, error: error.max(least) }
    }
}

/// Fits a line to `means` and returns its slope and intercept.
fn line(means: &[Mean]) -> Option<(f64, f64)> {
    let pairs = means.iter().enumerate().flat_map(|(i, a)| means[..i].iter().map(move |b| (a, b)));
    let slopes = pairs.map(|(a, b)| {
        let loads = a.loads - b.loads;
        ((a.time - b.time) / loads, loads / a.error.hypot(b.error))
    });
    let slope = weighted_median(slopes.collect())?;
    let rests = means.iter().map(|mean| (mean.time - slope * mean.loads, 1.0 / mean.error));
    Some((slope, weighted_median(rests.collect())?))
}

/// Returns by how much the means deviate from the line, as a multiple of their errors; at least 1.
fn bend(means: &[Mean], slope: f64, intercept: f64) -> f64 {
    let away = |mean: &Mean| ((mean.time - intercept - slope * mean.loads) / mean.error).abs();
    let away: Vec<f64> = means.iter().map(away).collect();
    let freedom = away.len().saturating_sub(2).max(1) as f64;
    // The median of the absolute value of a standard normal variable is 0.6745.
    median(&away).map_or(1.0, |m| m / 0.6745 * (away.len() as f64 / freedom).sqrt()).max(1.0)
}

/// Quantile of the times above which they may share the last, open-ended bin.
const SHOWN: f64 = 0.99;

/// Returns bins for `times` minus `bias`, in ns, for a clock with this `step`. There are at least
/// two bins and at most `most`; the last is open-ended. Their counts add up to the number of finite
/// times; without finite times there are no bins.
///
/// Edges are half a step away from possible clock values, and bins are whole steps wide, so all
/// bins hold the same number of clock values.
pub fn histogram(times: &[f64], bias: f64, step: f64, most: usize) -> Vec<Bin> {
    let net = times.iter().map(|time| time - bias).filter(|time| time.is_finite());
    let mut net: Vec<f64> = net.collect();
    net.sort_unstable_by(f64::total_cmp);
    let (Some(&least), Some(shown)) = (net.first(), quantile(&net, SHOWN)) else {
        return Vec::new();
    };
    let closed = most.max(2) - 1;
    let step = if step.is_finite() && step > 0.0 { step } else { 0.0 };
    let first = least - step / 2.0;
    let width = bin_width((shown + step / 2.0 - first) / closed as f64, step, least);
    let edge = |i: usize| first + i as f64 * width;
    let needed = (1..=closed).find(|&i| edge(i) > shown).unwrap_or(closed);
    let mut below = 0;
    let mut bins: Vec<Bin> = Vec::with_capacity(needed + 1);
    for i in 0..=needed {
        let to = (i < needed).then(|| edge(i + 1));
        let end = to.map_or(net.len(), |to| net.partition_point(|&time| time < to));
        bins.push(Bin { from_ns: edge(i), to_ns: to, count: (end - below) as u64 });
        below = end;
    }
    bins
}

/// Returns the smallest whole number of steps that is at least `wanted`; `wanted` itself if the
/// clock has no steps.
fn bin_width(wanted: f64, step: f64, least: f64) -> f64 {
    let width = if step > 0.0 { (wanted / step - 1e-9).ceil().max(1.0) * step } else { wanted };
    // If all times are equal and the clock has no steps, any width that moves an edge is suitable.
    let apart = (least.abs() * 4.0 * f64::EPSILON).max(f64::MIN_POSITIVE);
    if width.is_finite() { width.max(apart) } else { f64::MAX }
}

/// Minimum size of a mode, as a fraction of all samples.
const LEAST_SHARE: f64 = 0.02;
/// A mode's tail consists of bins below this fraction of its highest bin; they do not affect its
/// position.
const TAIL: f64 = 0.05;
/// Minimum height of a peak above the adjacent valley, in standard errors.
const ERRORS: f64 = 4.0;
/// Maximum ratio of a valley's count to the count of the lower of the two peaks.
const VALLEY: f64 = 0.7;

/// Returns the peaks of `bins`, in ascending order. An open-ended last bin is not part of any peak.
///
/// Adds the bins to heaps in descending order of their counts, like terrain that emerges from
/// falling water:
///
/// ```text
/// for each bin, the highest first:
///     it joins the heaps on its left and right; if there are none, it begins one
///     if it joins two, it is the valley between them:
///         if the lower heap is clearly higher than the valley, both remain and end here
///         otherwise the lower heap becomes part of the higher one
/// ```
pub fn modes(bins: &[Bin]) -> Vec<Mode> {
    let closed: Vec<(f64, f64)> = bins
        .iter()
        .filter_map(|bin| Some((bin.from_ns.midpoint(bin.to_ns?), bin.count as f64)))
        .collect();
    let total: f64 = bins.iter().map(|bin| bin.count as f64).sum();
    let mode = |heap: std::ops::Range<usize>| {
        let heap = &closed[heap];
        let highest = heap.iter().map(|(_, count)| *count).fold(0.0, f64::max);
        let core = heap.iter().filter(|(_, count)| *count >= TAIL * highest);
        let (sum, moment) =
            core.fold((0.0, 0.0), |(s, m), (at, count)| (s + count, m + at * count));
        let share = heap.iter().map(|(_, count)| count).sum::<f64>() / total;
        Mode { at: moment / sum, share }
    };
    let counts: Vec<f64> = closed.iter().map(|(_, count)| *count).collect();
    let modes = heaps(&counts).into_iter().map(mode);
    modes.filter(|mode| mode.at.is_finite() && mode.share >= LEAST_SHARE).collect()
}

/// Returns the ranges of the modes in `counts`, in increasing order.
fn heaps(counts: &[f64]) -> Vec<std::ops::Range<usize>> {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by(|&a, &b| counts[b].total_cmp(&counts[a]).then(a.cmp(&b)));
    // The peak that each bin belongs to, identified by the peak's highest bin. Peaks that have been
    // separated are not joined later.
    let mut heap: Vec<Option<usize>> = vec![None; counts.len()];
    for i in order {
        let left = i.checked_sub(1).and_then(|left| heap[left]);
        let right = heap.get(i + 1).copied().flatten();
        heap[i] = match (left, right) {
            (Some(left), Some(right)) => {
                let (lower, higher) =
                    if counts[left] < counts[right] { (left, right) } else { (right, left) };
                if !stands_out(counts[lower], counts[i]) {
                    heap.iter_mut().filter(|h| **h == Some(lower)).for_each(|h| *h = Some(higher));
                }
                Some(higher)
            }
            (one, other) => one.or(other).or(Some(i)),
        };
    }
    let mut ranges: Vec<(usize, std::ops::Range<usize>)> = Vec::new();
    for (i, top) in heap.into_iter().flatten().enumerate() {
        match ranges.last_mut() {
            Some((last, range)) if *last == top => range.end = i + 1,
            _ => ranges.push((top, i..i + 1)),
        }
    }
    ranges.into_iter().map(|(_, range)| range).collect()
}

/// Returns whether a peak of height `top` is significant next to a valley of height `valley`. The
/// standard deviation of an independent count is its square root.
fn stands_out(top: f64, valley: f64) -> bool {
    valley <= VALLEY * top && top - valley >= ERRORS * (top + valley).sqrt()
}

#[cfg(test)]
mod tests;
