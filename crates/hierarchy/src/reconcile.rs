// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the detected levels with the caches that the OS reports, and withdraws levels for which
//! the curve and the OS report together are not sufficient evidence.
//!
//! While other programs use a shared cache, what is left of it varies between passes, so its end is
//! smeared over a range of sizes and looks like several steps. The curve alone does not distinguish
//! these steps from several caches, but the number of caches that the OS reports does.
//!
//! ```text
//! pair detected with reported caches (`os_view`)
//! group of a reported cache = its detected cache, and those between the previous pair and it;
//!                             for the last of three or more reported caches, also those beyond it
//! for each group
//!     reported size within a factor NEAR of the interval: the interval is extended to it
//!     of several:     one level with the latency of the nearest; its size is undetermined between
//!                     those of the nearest and the farthest
//!     smaller than half of the reported size and less than RESOLUTION times the previous level:
//!                     no level: a step that close may belong to the previous cache
//!     elsewhere:      its size is undetermined between the two. Exception: the last cache is
//!                     shared, so it may be smaller than reported if only part of it is available
//! reported cache without a detected one, within reach of the chains: undetermined
//! last level          `memory` if the chains are longer than twice every reported cache and the
//!                     last of these was found; otherwise `L3 or memory`, `L2 to memory`
//! ```
//!
//! The interval describes how passes vary, but page placement shifts all passes alike: in the
//! corpus of synthetic machines, by up to half of a cache's size if it has few page colours. A
//! reported size within that distance is as likely as the measured one.
//!
//! If only one or two caches are reported, a hypervisor has often left out the last-level cache, so
//! a detected cache beyond them is kept. If the OS reports none, the curve is the only evidence.

use crate::os_view::{self, paired};
use crate::steps::{FoundLevels, Level, RESOLUTION};
use linerate_record::memory::Unresolved;
use linerate_record::stats::Estimate;
use linerate_record::units::memory_size;
use std::cmp::Ordering;

/// Name of the last level, if it is known to be memory.
pub(crate) const MEMORY: &str = "memory";
/// Minimum number of reported caches for which the OS's list is assumed to be complete.
const ALL_CACHES: usize = 3;
/// Maximum ratio between a measured and a reported size that page placement may explain.
const NEAR: f64 = 1.5;
/// A measured size that exceeds the reported size of a cache by this factor does not belong to it.
const TWICE: f64 = 2.0;
/// A measured size below this fraction of the reported size is doubtful if the previous level is
/// close.
const SMALL: f64 = 0.5;

/// The levels that remain after comparing the detected ones with the OS's report.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconciled {
    /// The levels that remain, nearest first.
    pub found: FoundLevels,
    /// Name of each level: `L1`, `memory`, `L3 or memory`.
    pub names: Vec<String>,
    /// Ranges of sizes in which no level could be determined, in addition to `found.unresolved`.
    pub doubts: Vec<Unresolved>,
}

/// A reported cache: level number and size in bytes.
type Stated = (u32, f64);

/// Compares `found` with the caches reported by the OS, and withdraws doubtful levels. `longest` is
/// the size of the longest chain, and `last_level` the size of the largest reported cache or,
/// without a report, a guess; both are in bytes.
pub fn reconcile(
    found: FoundLevels,
    stated: &Result<Vec<os_view::Level>, String>,
    longest: u64,
    last_level: u64,
) -> Reconciled {
    let stated = stated.as_ref().map_or(&[][..], Vec::as_slice);
    let stated: Vec<Stated> = stated
        .iter()
        .filter_map(|level| Some((level.level, *level.bytes.as_ref().ok()? as f64)))
        .filter(|(_, bytes)| *bytes > 0.0)
        .collect();
    let mut levels = found.levels.into_iter();
    let mut caches: Vec<(Level, Estimate)> = Vec::new();
    let mut last = None;
    for level in levels.by_ref() {
        match level.size {
            Some(size) => caches.push((level, size)),
            None => last = Some(level),
        }
    }
    let mut doubts = Vec::new();
    // A single latency may be that of any level.
    if caches.is_empty() {
        doubts.extend(last.is_some().then(|| no_step(longest)));
        let found = FoundLevels { levels: Vec::new(), unresolved: found.unresolved };
        return Reconciled { found, names: Vec::new(), doubts };
    }
    let named = match stated[..] {
        [] => caches.into_iter().zip(1..).map(|((level, _), number)| (number, level)).collect(),
        _ => grouped(&caches, &stated, &mut doubts),
    };
    doubts.extend(unseen(&named, &stated, longest));
    let mut names: Vec<String> = named.iter().map(|(number, _)| format!("L{number}")).collect();
    if last.is_some() {
        let leaves_all = longest >= last_level.saturating_mul(2);
        names.push(name_of_last(&named, &stated, leaves_all));
    }
    let levels = named.into_iter().map(|(_, level)| level).chain(last).collect();
    Reconciled { found: FoundLevels { levels, unresolved: found.unresolved }, names, doubts }
}

/// Combines each group of detected caches into one level and returns the levels with their numbers.
fn grouped(
    caches: &[(Level, Estimate)],
    stated: &[Stated],
    doubts: &mut Vec<Unresolved>,
) -> Vec<(u32, Level)> {
    let sizes: Vec<f64> = caches.iter().map(|(_, size)| size.value).collect();
    let known: Vec<Option<u64>> = stated.iter().map(|(_, bytes)| Some(*bytes as u64)).collect();
    let mut levels: Vec<(u32, Level)> = Vec::new();
    let mut next = 0;
    for (reported, detected) in paired(&known, &sizes) {
        let (number, bytes) = stated[reported];
        let is_last = reported + 1 == stated.len() && stated.len() >= ALL_CACHES;
        let end = if is_last { caches.len() } else { detected + 1 };
        let (mut group, size) = merged(&caches[next..end], number, doubts);
        next = end;
        group.size = Some(extended(size, bytes));
        let is_shared = reported + 1 == stated.len();
        let most = if is_shared { TWICE } else { NEAR };
        if size.low > most * bytes || (!is_shared && size.high * NEAR < bytes) {
            doubts.push(disagrees(number, bytes, size));
            let size = Estimate { low: size.low.min(bytes), high: size.high.max(bytes), ..size };
            group = Level { size: Some(size), settled: false, ..group };
        }
        let before = levels.last().and_then(|(_, level)| level.size).map_or(0.0, |s| s.value);
        if size.value < SMALL * bytes && size.low < RESOLUTION * before {
            doubts.push(too_close(number, size, levels.last().map_or(0, |(number, _)| *number)));
        } else {
            levels.push((number, group));
        }
    }
    // Levels beyond the caches that the OS reports get the next numbers.
    let first = levels.last().map_or(1, |(number, _)| number + 1);
    levels.extend((first..).zip(caches[next..].iter().map(|(level, _)| level.clone())));
    levels
}

/// Merges a group of at least one cache into a level and returns the level with its size.
fn merged(
    group: &[(Level, Estimate)],
    number: u32,
    doubts: &mut Vec<Unresolved>,
) -> (Level, Estimate) {
    let [(nearest, size), .., (_, farthest)] = group else {
        return group[0].clone();
    };
    let size = Estimate { high: farthest.high, ..*size };
    let (from, to) = (memory_size(size.value), memory_size(farthest.value));
    doubts.push(Unresolved {
        from_bytes: size.value as u64,
        to_bytes: farthest.value as u64,
        cause: "moved".to_owned(),
        sentence: format!(
            "the available part of L{number} varied between {from} and {to}: other programs use \
             this cache too; measure again on an idle machine"
        ),
    });
    (Level { size: Some(size), settled: false, ..nearest.clone() }, size)
}

/// Extends the interval of a size to the reported size, if that is close.
fn extended(size: Estimate, bytes: f64) -> Estimate {
    match size.low / NEAR <= bytes && bytes <= size.high * NEAR {
        true => Estimate { low: size.low.min(bytes), high: size.high.max(bytes), ..size },
        false => size,
    }
}

/// Reports the whole curve as undetermined.
fn no_step(longest: u64) -> Unresolved {
    Unresolved {
        from_bytes: 0,
        to_bytes: longest,
        cause: "too_noisy".to_owned(),
        sentence: "the latency shows no step that stands out from its variation, so it is not \
                   known which level it belongs to; if other programs run, measure again on an \
                   idle machine"
            .to_owned(),
    }
}

fn disagrees(number: u32, bytes: f64, size: Estimate) -> Unresolved {
    let (reported, found) = (memory_size(bytes), memory_size(size.value));
    Unresolved {
        from_bytes: bytes.min(size.value) as u64,
        to_bytes: bytes.max(size.value) as u64,
        cause: "too_noisy".to_owned(),
        sentence: format!(
            "the OS reports {reported} for L{number}, but the step is at {found}: other programs \
             hid the end of this level, or the reported size is fictitious; measure again on an \
             idle machine"
        ),
    }
}

fn too_close(number: u32, size: Estimate, before: u32) -> Unresolved {
    Unresolved {
        from_bytes: size.low as u64,
        to_bytes: size.high.min(u64::MAX as f64) as u64,
        cause: "too_close".to_owned(),
        sentence: format!(
            "a step at {}, less than {RESOLUTION} times the size of L{before}, may be the end of \
             L{before} or of the available part of L{number}; measure again on an idle machine",
            memory_size(size.value)
        ),
    }
}

/// Returns the reported caches for which no level was detected although the chains are long enough.
fn unseen(levels: &[(u32, Level)], stated: &[Stated], longest: u64) -> Vec<Unresolved> {
    let is_seen = |number: u32| levels.iter().any(|(seen, _)| *seen == number);
    let missing = stated.iter().filter(|(number, bytes)| {
        !is_seen(*number) && bytes * 2.0 <= longest as f64 && !levels.is_empty()
    });
    let doubt = |&(number, bytes): &Stated| Unresolved {
        from_bytes: (bytes / 2.0) as u64,
        to_bytes: (bytes * 2.0) as u64,
        cause: "unseen".to_owned(),
        sentence: format!(
            "the OS reports {} for L{number}, but latency shows no step there: other programs \
             occupy it, or the hypervisor reports a cache that does not exist; measure again on an \
             idle machine",
            memory_size(bytes)
        ),
    };
    missing.map(doubt).collect()
}

/// Returns the name of the level whose end was not observed. `leaves_all` is set if the longest
/// chain is at least twice as large as the last cache.
fn name_of_last(levels: &[(u32, Level)], stated: &[Stated], leaves_all: bool) -> String {
    let next = levels.last().map_or(1, |(number, _)| number + 1);
    let last = match stated.last() {
        Some((number, _)) => *number,
        None if leaves_all => return MEMORY.to_owned(),
        None => next,
    };
    match next.cmp(&last) {
        Ordering::Greater if leaves_all => MEMORY.to_owned(),
        // A hypervisor may report a cache of which it grants little: chains that do not leave the
        // reported size may still be in memory.
        Ordering::Greater | Ordering::Equal => format!("L{last} or {MEMORY}"),
        Ordering::Less => format!("L{next} to {MEMORY}"),
    }
}

#[cfg(test)]
mod tests;
