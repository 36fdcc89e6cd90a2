// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many loads are under way at once, from chains side by side.
//!
//! Each chain has one load under way. With `k` chains a load takes `1/k` of the time of one chain,
//! until something is full: the buffers of misses, the ports, the memory. Then more chains make it
//! no faster. By Little's law the loads under way are the time of a load times their rate, so the
//! most is the time with one chain over the least time per load with any number.
//!
//! Left out: what is full.

use crate::resample::{REPLICATES, interval, is_time, least, redrawn_least};
use linerate_record::stats::{Estimate, median};

/// So many chains side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Chains.
    pub chains: u32,
    /// Time per load, all chains counted: of each pass its fastest window.
    pub passes: Vec<f64>,
}

/// What points show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlap {
    /// Loads under way at once when more chains make it no faster. The high end is infinite where
    /// the most chains were still faster than fewer.
    pub outstanding: Estimate,
    /// Time per load then, in the unit of the points. The low end is 0 where more chains might be
    /// faster.
    pub time: Estimate,
}

/// From this many times the outstanding loads on, chains are clear of the knee, which is round.
const CLEAR: f64 = 1.25;

/// How loads overlap. `None` without a point of one chain and one of more.
///
/// The least time is the median over the points beyond the knee: the minimum of many would be that
/// of the luckiest. The interval resamples passes.
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
    let found = knee(&curve(&points, |passes| least(passes).unwrap_or(f64::NAN)))?;
    let mut random = fastrand::Rng::with_seed(seed);
    let replicates: Vec<Knee> = (0..REPLICATES)
        .filter_map(|_| knee(&curve(&points, |passes| redrawn_least(&mut random, passes))))
        .collect();
    let of = |value, part: fn(&Knee) -> f64| {
        interval(value, &replicates.iter().map(part).collect::<Vec<f64>>(), confidence, n)
    };
    let mut outstanding = of(found.outstanding, |knee| knee.outstanding);
    let mut time = of(found.time, |knee| knee.time);
    // One chain has one load under way, whatever the noise.
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

struct Knee {
    outstanding: f64,
    time: f64,
    /// Whether there were chains enough to see it.
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
    // Far beyond the knee, chains get in each other's way; that is not what is asked for.
    let time = median(&beyond).unwrap_or(fastest).min(alone);
    Some(Knee { outstanding: alone / time, time, is_beyond: !beyond.is_empty() })
}

#[cfg(test)]
mod tests;
