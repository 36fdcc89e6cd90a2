// SPDX-License-Identifier: MIT OR Apache-2.0
//! The number of outstanding loads, from parallel chains.
//!
//! Each chain has one outstanding load. With `k` chains, a load takes `1/k` of the time with one
//! chain, until a resource is full: the miss buffers, the ports, the memory. From then on, more
//! chains do not help. By Little's law the number of outstanding loads is the latency times the
//! rate, so the maximum is the time with one chain over the least time per load with any number of
//! chains.
//!
//! The time of a point is the median of its passes, not the minimum: one lucky window of a single
//! chain, whose lines happened to be nearer, would make the quotient too small. A load cannot take
//! longer with two chains than with one; points that violate this were not measured under the same
//! conditions and are ignored.
//!
//! Not determined: which resource is full.

use crate::resample::{REPLICATES, is_time, redrawn_median};
use linerate_record::stats::{Estimate, median, quantile};

/// Measurements with one number of parallel chains.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Chains.
    pub chains: u32,
    /// Time per load over all chains: the fastest window of each pass.
    pub passes: Vec<f64>,
}

/// Memory-level parallelism.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlap {
    /// Number of outstanding loads beyond which more chains do not help. The high end is infinite
    /// if loads were still getting faster at the largest number of chains.
    pub outstanding: Estimate,
    /// Time per load with that many loads outstanding, in the unit of the points. The low end is 0
    /// if more chains might be faster.
    pub time: Estimate,
}

/// From this multiple of the number of outstanding loads on, the number of chains is clear of the
/// rounded knee.
const CLEAR: f64 = 1.25;

/// Maximum ratio, due to noise, of the time of a load with several chains to that with one chain.
const NOISE: f64 = 1.1;

/// Memory-level parallelism: how far independent loads overlap. `None` unless there are points both
/// for one chain and for more than one, and also if a load takes longer at the next larger number
/// of chains than with one chain.
///
/// The least time is the median over the points beyond the knee, since the minimum of many is
/// biased low. The interval comes from resampled passes and also includes the results for the
/// quartiles of the passes, since the passes at a point share disturbances that resampling does not
/// see.
pub fn overlap(points: &[Point], confidence: f64, seed: u64) -> Option<Overlap> {
    let points: Vec<Point> = points
        .iter()
        .map(|point| {
            let passes = point.passes.iter().copied().filter(|&time| is_time(time)).collect();
            Point { chains: point.chains, passes }
        })
        .filter(|point| !point.passes.is_empty() && point.chains > 0)
        .collect();
    let n = points.iter().map(|point| point.passes.len() as u64).sum();
    let usual = curve(&points, |passes| median(passes).unwrap_or(f64::NAN));
    let found = knee(&usual).filter(|_| is_possible(&usual))?;
    let mut random = fastrand::Rng::with_seed(seed);
    let replicates: Vec<Knee> = (0..REPLICATES)
        .filter_map(|_| knee(&curve(&points, |passes| redrawn_median(&mut random, passes))))
        .collect();
    let at = |q| knee(&curve(&points, |passes| quantile(passes, q).unwrap_or(f64::NAN)));
    let quartiles: Vec<Knee> = [0.25, 0.75].into_iter().filter_map(at).collect();
    let of = |value, part: fn(&Knee) -> f64| {
        let parts: Vec<f64> = replicates.iter().map(part).collect();
        let tail = (1.0 - confidence) / 2.0;
        let end = |q| quantile(&parts, q).unwrap_or(value);
        let quartiles = quartiles.iter().map(part);
        let low = quartiles.clone().fold(end(tail).min(value), f64::min);
        let high = quartiles.fold(end(1.0 - tail).max(value), f64::max);
        Estimate { value, low, high, confidence, n }
    };
    let mut outstanding = of(found.outstanding, |knee| knee.outstanding);
    let mut time = of(found.time, |knee| knee.time);
    // One chain has one outstanding load, whatever the noise.
    outstanding.low = outstanding.low.max(1.0);
    time.low = time.low.max(0.0);
    if !found.is_beyond {
        outstanding.high = f64::INFINITY;
        time.low = 0.0;
    }
    Some(Overlap { outstanding, time })
}

/// (chains, time per load).
fn curve(points: &[Point], mut time: impl FnMut(&[f64]) -> f64) -> Vec<(f64, f64)> {
    points.iter().map(|point| (f64::from(point.chains), time(&point.passes))).collect()
}

/// Whether a load takes no longer at the next larger number of chains than with one.
fn is_possible(curve: &[(f64, f64)]) -> bool {
    let alone = curve.iter().filter(|(chains, _)| *chains == 1.0).map(|(_, time)| *time);
    let next = curve.iter().filter(|(chains, _)| *chains > 1.0).min_by(|a, b| a.0.total_cmp(&b.0));
    let alone = alone.fold(f64::INFINITY, f64::min);
    next.is_some_and(|(_, time)| *time <= NOISE * alone)
}

struct Knee {
    outstanding: f64,
    time: f64,
    /// Whether there were enough chains to see the knee.
    is_beyond: bool,
}

fn knee(curve: &[(f64, f64)]) -> Option<Knee> {
    let of_one = curve.iter().filter(|(chains, _)| *chains == 1.0).map(|(_, time)| *time);
    let alone = of_one.min_by(f64::total_cmp)?;
    let several = curve.iter().filter(|(chains, _)| *chains > 1.0);
    let fastest = several.map(|(_, time)| *time).min_by(f64::total_cmp)?.min(alone);
    let clear = CLEAR * alone / fastest;
    let beyond = curve.iter().filter(|(chains, _)| *chains > 1.0 && *chains >= clear);
    let beyond: Vec<f64> = beyond.map(|(_, time)| *time).collect();
    // Far beyond the knee, chains interfere with each other; that interference is not what is
    // measured here.
    let time = median(&beyond).unwrap_or(fastest).min(alone);
    Some(Knee { outstanding: alone / time, time, is_beyond: !beyond.is_empty() })
}

#[cfg(test)]
mod tests;
