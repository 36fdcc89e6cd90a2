// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derives the number of outstanding loads from chases through parallel chains.
//!
//! Each chain has one outstanding load. With `k` chains, a load takes `1/k` of the single-chain
//! time until some resource is exhausted: miss buffers, ports, or memory. From then on, more chains
//! do not help. By Little's law the number of outstanding loads is latency times rate, so the
//! maximum is the single-chain time divided by the least time per load for any number of chains.
//!
//! A point's time is the median of its passes, not the minimum: one lucky single-chain window,
//! whose lines happened to be nearer, would make the quotient too small. A load cannot take longer
//! with several chains than with one. If it does at the smallest number of chains above one, the
//! points were measured under different conditions, and there is no result.
//!
//! This module does not determine which resource is the limit.

use crate::resample::{REPLICATES, is_time, redrawn_median};
use linerate_record::stats::{Estimate, median, quantile};

/// Measurements with a given number of parallel chains.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Number of parallel chains.
    pub chains: u32,
    /// Time per load, counting the loads of all chains, in each pass's fastest window.
    pub passes: Vec<f64>,
}

/// A point is clear of the rounded knee of the curve if it has at least this many times as many
/// chains as loads can be outstanding.
const CLEAR: f64 = 1.25;

/// Maximum ratio of the time per load with several chains to that with one chain that noise
/// explains.
const NOISE: f64 = 1.1;

/// Computes the memory-level parallelism: the number of outstanding loads beyond which more chains
/// do not help. The high end is infinite if loads were still getting faster at the largest number
/// of chains.
///
/// `None` without points for both one chain and more than one, or if loads take longer with the
/// next larger number of chains than with one chain.
///
/// The least time is the median over the points beyond the knee, because the minimum of many is
/// biased low. The interval comes from resampled passes. It is widened to include the results for
/// the quartiles of the passes, because resampling does not show interference that affects all
/// passes at a point.
pub fn outstanding(points: &[Point], confidence: f64, seed: u64) -> Option<Estimate> {
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
    let replicates: Vec<f64> = (0..REPLICATES)
        .filter_map(|_| knee(&curve(&points, |passes| redrawn_median(&mut random, passes))))
        .map(|knee| knee.outstanding)
        .collect();
    let at = |q| knee(&curve(&points, |passes| quantile(passes, q).unwrap_or(f64::NAN)));
    let quartiles = [0.25, 0.75].into_iter().filter_map(at).map(|knee| knee.outstanding);
    let (value, tail) = (found.outstanding, (1.0 - confidence) / 2.0);
    let end = |q| quantile(&replicates, q).unwrap_or(value);
    let low = quartiles.clone().fold(end(tail).min(value), f64::min);
    let high = match found.is_beyond {
        true => quartiles.fold(end(1.0 - tail).max(value), f64::max),
        false => f64::INFINITY,
    };
    // A single chain has one outstanding load, whatever the noise.
    Some(Estimate { value, low: low.max(1.0), high, confidence, n })
}

/// Returns pairs of chain count and time per load.
fn curve(points: &[Point], mut time: impl FnMut(&[f64]) -> f64) -> Vec<(f64, f64)> {
    points.iter().map(|point| (f64::from(point.chains), time(&point.passes))).collect()
}

/// Returns whether a load takes no longer with the next larger number of chains than with one
/// chain.
fn is_possible(curve: &[(f64, f64)]) -> bool {
    let alone = curve.iter().filter(|(chains, _)| *chains == 1.0).map(|(_, time)| *time);
    let next = curve.iter().filter(|(chains, _)| *chains > 1.0).min_by(|a, b| a.0.total_cmp(&b.0));
    let alone = alone.fold(f64::INFINITY, f64::min);
    next.is_some_and(|(_, time)| *time <= NOISE * alone)
}

struct Knee {
    outstanding: f64,
    /// Whether some points were beyond the knee of the curve, where more chains do not help.
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
    // Far beyond the knee, chains slow each other down, which must not affect the result.
    let time = median(&beyond).unwrap_or(fastest).min(alone);
    Some(Knee { outstanding: alone / time, is_beyond: !beyond.is_empty() })
}

#[cfg(test)]
mod tests;
