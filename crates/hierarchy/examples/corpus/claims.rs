// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts wrong claims: levels that are presented as facts but do not exist, and levels that exist
//! but are neither found nor declared undetermined. Claims are judged for the curve alone and in
//! combination with an OS report, which lists either the true caches or a wrong one.

use linerate_caches::Truth;
use linerate_hierarchy::os_view;
use linerate_hierarchy::reconcile::{Reconciled, reconcile};
use linerate_hierarchy::steps::FoundLevels;

/// Maximum relative distance of a true size from the interval of its matching level; the same
/// tolerance applies to correct sizes.
const TOLERANCE: f64 = 0.10;
/// Maximum ratio between a true size and the found size or unresolved range that accounts for it.
const NEAR: f64 = 2.0;

/// What the OS reports about the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Nothing,
    True,
    /// One cache is left out, or its size is wrong by a factor of up to 4.
    Wrong,
}

pub(crate) const REPORTS: [Report; 3] = [Report::Nothing, Report::True, Report::Wrong];

/// How many claims are wrong with each of [`REPORTS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    /// Number of levels that are claimed but do not exist.
    pub(crate) invented: [u32; 3],
    /// Number of levels that exist but are neither found nor declared undetermined.
    pub(crate) missing: [u32; 3],
}

/// Counts the wrong claims about a machine whose longest chain was `longest` bytes.
pub(crate) fn claims(truth: &Truth, found: &FoundLevels, longest: u64, seed: u64) -> Claims {
    let sizes: Vec<f64> =
        truth.levels.iter().filter_map(|level| Some(level.size_bytes? as f64)).collect();
    let largest = sizes.iter().copied().fold(0.0, f64::max);
    let mut claims = Claims::default();
    for (place, report) in REPORTS.into_iter().enumerate() {
        let stated = stated(report, &sizes, seed);
        let reconciled = reconcile(found.clone(), &stated, longest, largest as u64);
        claims.invented[place] = invented(&sizes, &reconciled);
        claims.missing[place] = missing(&sizes, &reconciled);
    }
    claims
}

fn stated(report: Report, sizes: &[f64], seed: u64) -> Result<Vec<os_view::Level>, String> {
    let level = |(level, bytes): (u32, f64)| os_view::Level {
        level,
        bytes: Ok(bytes as u64),
        shared_by: 0,
    };
    let mut random = fastrand::Rng::with_seed(seed);
    let mut levels: Vec<os_view::Level> = (1..).zip(sizes.iter().copied()).map(level).collect();
    match report {
        Report::Nothing => return Err("not reported".to_owned()),
        Report::True => {}
        Report::Wrong if levels.is_empty() => {}
        Report::Wrong => {
            let place = random.usize(..levels.len());
            if random.bool() && levels.len() > 1 {
                levels.remove(place);
            } else {
                let factor = (4.0 * random.f64() - 2.0).exp2();
                levels[place].bytes = Ok((sizes[place] * factor) as u64);
            }
        }
    }
    Ok(levels)
}

/// Returns the ranges of sizes in which no level could be determined.
fn doubts(reconciled: &Reconciled) -> Vec<(f64, f64)> {
    let of_curve =
        reconciled.found.unresolved.iter().map(|part| (part.from as f64, part.to as f64));
    let of_report = reconciled.doubts.iter();
    of_curve.chain(of_report.map(|part| (part.from_bytes as f64, part.to_bytes as f64))).collect()
}

fn invented(sizes: &[f64], reconciled: &Reconciled) -> u32 {
    let doubts = doubts(reconciled);
    let is_invented = |low: f64, high: f64| {
        let holds =
            |bytes: &f64| low * (1.0 - TOLERANCE) <= *bytes && *bytes <= high * (1.0 + TOLERANCE);
        let is_doubtful = |(from, to): &(f64, f64)| *from <= high && low <= *to;
        !sizes.iter().any(holds) && !doubts.iter().any(is_doubtful)
    };
    let levels = reconciled.found.levels.iter().filter(|level| level.settled);
    let sizes = levels.filter_map(|level| level.size);
    sizes.filter(|size| is_invented(size.low, size.high)).count() as u32
}

fn missing(sizes: &[f64], reconciled: &Reconciled) -> u32 {
    let doubts = doubts(reconciled);
    let is_missing = |bytes: &&f64| {
        let found = reconciled.found.levels.iter().filter_map(|level| level.size);
        let is_found = |low: f64, high: f64| low / NEAR <= **bytes && **bytes <= high * NEAR;
        !found.clone().any(|size| is_found(size.low, size.high))
            && !doubts.iter().any(|(from, to)| is_found(*from, *to))
    };
    sizes.iter().filter(is_missing).count() as u32
}
