// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the cache hierarchy reported by the OS with the measured one.
//!
//! The OS repeats what the processor, or a hypervisor in its place, reports. Neither knows how much
//! of a shared cache is available to this program.
//!
//! Reported and measured levels are paired in order, nearest first. If one side has more levels,
//! those whose sizes fit worst remain unpaired: of all order-preserving pairings, the one with the
//! smallest sum of |ln(found / stated)| is chosen.
//!
//! ```text
//! [low, high]   interval of the measured size, `found`; `stated` is the size reported by the OS
//! agrees        0.9 low <= stated <= 1.1 high, or the same with the previous level's stated size
//!               added (victim cache)
//! smaller       found < stated, and they do not agree
//! larger        stated < found <= 2 stated, and they do not agree
//! cannot tell   2 stated < found: a cache cannot provide twice its size, so a step was missed or
//!               the stated size is fictitious; or [low, high] overlaps an unresolved range
//! ```
//!
//! `linerate-memory` reads what the OS reports and passes it in. Associativity and line length are
//! not compared, because a chase over whole lines does not show them.

use linerate_record::memory::{MemoryLevel, OsVerdict, OsView, Unresolved};
use linerate_record::stats::Estimate;
use linerate_record::units::memory_size;
use linerate_record::{Figure, Tier};

/// Maximum deviation of a reported size from the measured interval, as a fraction of the interval's
/// nearer end. The interval describes only the variation between passes; replacement policy and
/// page placement shift all passes alike, by a few percent.
const TOLERANCE: f64 = 0.10;

/// Ratio of measured to reported size above which the two cannot belong to the same level.
const CONTRADICTION: f64 = 2.0;

/// A data cache as reported by the OS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Level number; 1 is nearest to the core.
    pub level: u32,
    /// Size in bytes, or the reason why the OS does not report it.
    pub bytes: Result<u64, String>,
    /// Number of logical CPUs that share the cache; 0 if not reported.
    pub shared_by: usize,
}

/// The measurements that are compared with the OS's report.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Measured levels, nearest first.
    pub levels: &'a [MemoryLevel],
    /// Ranges of sizes in which no level could be determined.
    pub unresolved: &'a [Unresolved],
    /// Size of the longest chain, in bytes.
    pub max_bytes: u64,
}

/// Returns a verdict on each reported or measured level, nearest first.
pub fn compare(stated: &Result<Vec<Level>, String>, found: &Found<'_>) -> Vec<OsView> {
    let caches: Vec<&MemoryLevel> =
        found.levels.iter().filter(|found_level| is_cache(found_level)).collect();
    let levels = match stated {
        Ok(levels) => levels.as_slice(),
        Err(_) => &[],
    };
    let sizes = caches.iter().map(|level| level.size_bytes.as_number().unwrap_or(f64::NAN));
    let known: Vec<Option<u64>> =
        levels.iter().map(|level| level.bytes.as_ref().ok().copied()).collect();
    let pairs = paired(&known, &sizes.collect::<Vec<f64>>());
    let silence = stated.as_ref().err().map_or("the OS reports no such level", String::as_str);
    let extra = |found_levels: &[&MemoryLevel]| -> Vec<OsView> {
        found_levels.iter().map(|found_level| not_stated(found_level, levels, silence)).collect()
    };
    let mut views = Vec::new();
    let mut next = 0;
    for (index, level) in levels.iter().enumerate() {
        let pair = pairs.iter().find(|pair| pair.0 == index);
        if let Some(&(_, found_level)) = pair {
            views.extend(extra(&caches[next..found_level]));
            views.push(judged(level, below(levels, index), caches[found_level], found.unresolved));
            next = found_level + 1;
        } else {
            views.push(unseen(level, found));
        }
    }
    views.extend(extra(&caches[next..]));
    views
}

/// Returns whether a level is a cache: false for the last level, which is memory and has no size.
fn is_cache(found_level: &MemoryLevel) -> bool {
    found_level.size_bytes.as_number().is_some()
}

/// Returns the previous level's reported size in bytes.
fn below(levels: &[Level], index: usize) -> u64 {
    let before = index.checked_sub(1).map(|before| &levels[before].bytes);
    before.and_then(|bytes| bytes.as_ref().ok().copied()).unwrap_or(0)
}

/// Pairs reported levels with measured ones, in order, so that their sizes in bytes match best
/// overall. A reported size is `None` if it is unknown. Each level of the shorter list is paired.
/// Returns the indices (reported, measured).
pub(crate) fn paired(reported: &[Option<u64>], measured: &[f64]) -> Vec<(usize, usize)> {
    let misfit = |level: usize, found_level: usize| match reported[level] {
        Some(bytes) if bytes > 0 => (measured[found_level] / bytes as f64).ln().abs(),
        _ => 0.0,
    };
    let swap = reported.len() > measured.len();
    let (few, many) =
        if swap { (measured.len(), reported.len()) } else { (reported.len(), measured.len()) };
    let cost = |a: usize, b: usize| if swap { misfit(b, a) } else { misfit(a, b) };
    let chosen = choose(few, many, &cost);
    let pair = |(a, b)| if swap { (b, a) } else { (a, b) };
    chosen.into_iter().enumerate().map(pair).collect()
}

/// Returns an index into `many` for each of `few`, such that the indices increase and the total
/// cost is minimal. Computed by dynamic programming:
///
/// ```text
/// best[a][b] = cheapest assignment of the first a to some of the first b
///            = min(best[a][b - 1], best[a - 1][b - 1] + cost(a - 1, b - 1))
/// ```
fn choose(few: usize, many: usize, cost: &dyn Fn(usize, usize) -> f64) -> Vec<usize> {
    let mut best = vec![vec![f64::INFINITY; many + 1]; few + 1];
    best[0] = vec![0.0; many + 1];
    for a in 1..=few {
        for b in a..=many {
            best[a][b] = best[a][b - 1].min(best[a - 1][b - 1] + cost(a - 1, b - 1));
        }
    }
    let mut places = Vec::new();
    let (mut a, mut b) = (few, many);
    while a > 0 {
        b -= 1;
        if b < a || best[a][b] > best[a][b + 1] {
            places.push(b);
            a -= 1;
        }
    }
    places.reverse();
    places
}

/// Judges a reported level against its measured counterpart.
fn judged(
    level: &Level,
    below: u64,
    found_level: &MemoryLevel,
    unresolved: &[Unresolved],
) -> OsView {
    let name = format!("L{}", level.level);
    let figure = found_level.size_bytes.clone();
    let bytes = match &level.bytes {
        Ok(bytes) => *bytes,
        Err(reason) => {
            let sentence = format!("the OS does not report its size: {reason}");
            return view(&name, None, figure, OsVerdict::NotStated, sentence);
        }
    };
    let found = Interval::from_figure(&figure);
    let is = memory_size(found.value);
    let doubt = unresolved
        .iter()
        .filter(|part| found.shared(part) > 0.0)
        .max_by(|a, b| found.shared(a).total_cmp(&found.shared(b)));
    let (verdict, sentence) = match doubt {
        Some(part) => {
            let bytes = |bytes: u64| memory_size(bytes as f64);
            let (from, to) = (bytes(part.from_bytes), bytes(part.to_bytes));
            let sentence = format!(
                "a step was found at {is}; sizes from {from} to {to} are undetermined: {}",
                cause(part)
            );
            (OsVerdict::CannotTell, sentence)
        }
        None => sized(level, bytes, below, &found),
    };
    view(&name, Some(bytes), figure, verdict, sentence)
}

/// Returns a short reason why sizes are undetermined. It omits the advice, which is printed with
/// the sizes themselves.
fn cause(part: &Unresolved) -> &str {
    match &part.cause[..] {
        "moved" => "latency at these sizes varied between passes",
        "too_close" => "two steps are too close together",
        "too_noisy" => "latency varies more between passes than at a step",
        "unseen" => "latency shows no step there",
        _ => &part.sentence,
    }
}

/// Measured size of a level, with its interval; an unknown bound is infinite.
struct Interval {
    value: f64,
    low: f64,
    high: f64,
}

impl Interval {
    /// Returns a figure's interval; it is unbounded if the figure has no value.
    fn from_figure(figure: &Figure) -> Self {
        let unknown = Self { value: f64::NAN, low: f64::NEG_INFINITY, high: f64::INFINITY };
        figure.estimate().map_or(unknown, |Estimate { value, low, high, .. }| Self {
            value,
            low,
            high,
        })
    }

    fn is_open(&self) -> bool {
        self.low.is_infinite() || self.high.is_infinite()
    }

    fn holds(&self, bytes: u64, tolerance: f64) -> bool {
        let bytes = bytes as f64;
        self.low * (1.0 - tolerance) <= bytes && bytes <= self.high * (1.0 + tolerance)
    }

    /// Returns by how many bytes the interval overlaps an unresolved range; 0 or less if they are
    /// disjoint or only share an endpoint.
    fn shared(&self, part: &Unresolved) -> f64 {
        self.high.min(part.to_bytes as f64) - self.low.max(part.from_bytes as f64)
    }
}

/// Judges a size whose interval overlaps no unresolved range. `below` is the previous level's
/// reported size.
fn sized(level: &Level, bytes: u64, below: u64, found: &Interval) -> (OsVerdict, String) {
    let (is, of) = (memory_size(found.value), memory_size(bytes as f64));
    if found.is_open() && found.holds(bytes, 0.0) {
        let sentence = format!("the measured size is {is}, but its uncertainty is unknown");
        (OsVerdict::CannotTell, sentence)
    } else if found.holds(bytes, 0.0) {
        let sentence =
            format!("the measured size is {is}; the OS-reported {of} is within its interval");
        (OsVerdict::Agrees, sentence)
    } else if found.holds(bytes, TOLERANCE) {
        let sentence = format!(
            "the measured size is {is}; the OS-reported {of} is less than {} % outside its \
             interval, a difference that the replacement policy and page placement can explain",
            100.0 * TOLERANCE
        );
        (OsVerdict::Agrees, sentence)
    } else if below > 0 && found.holds(bytes + below, TOLERANCE) {
        let sentence = format!(
            "the measured size is {is}, and the OS reports {of}: both are right if this level is a \
             victim cache, whose capacity adds to that of the previous level"
        );
        (OsVerdict::Agrees, sentence)
    } else if found.value < bytes as f64 {
        (
            OsVerdict::Smaller,
            format!("only {is} of the OS-reported {of} is available now{}", why(level)),
        )
    } else if found.value <= CONTRADICTION * bytes as f64 {
        let sentence = format!(
            "the measured size, {is}, exceeds the OS-reported {of}: either other programs hid the \
             step (measure again), or the hypervisor reports a fictitious size"
        );
        (OsVerdict::Larger, sentence)
    } else {
        let sentence = format!(
            "a step was found at {is}, more than {CONTRADICTION} times the OS-reported {of}: it \
             may belong to another level, or the reported size is fictitious; measure again"
        );
        (OsVerdict::CannotTell, sentence)
    }
}

/// Suggests why the measured size is smaller than the reported one.
fn why(level: &Level) -> &'static str {
    match level.shared_by {
        // A virtual machine sees only its own CPUs, not the other tenants of the cache.
        0 | 1 => {
            ": other programs evict lines, the hypervisor partitions the cache, or the reported \
             size is wrong"
        }
        _ => ": shared with other tenants, or partitioned by the hypervisor",
    }
}

/// Judges a reported level that has no measured counterpart.
fn unseen(level: &Level, found: &Found<'_>) -> OsView {
    let name = format!("L{}", level.level);
    let absent =
        |reason: &str| Figure::absent("B", Tier::Sw, "steps in the page-local curve", reason);
    let bytes = level.bytes.as_ref().ok().copied();
    let within = |bytes: u64| {
        let near = |part: &&Unresolved| {
            part.from_bytes / 2 <= bytes && bytes <= part.to_bytes.saturating_mul(2)
        };
        found.unresolved.iter().find(near)
    };
    let too_large = bytes.is_some_and(|bytes| bytes.saturating_mul(2) > found.max_bytes);
    let (verdict, sentence) = if found.levels.is_empty() {
        (OsVerdict::CannotTell, "no level was found".to_owned())
    } else if too_large {
        let longest = memory_size(found.max_bytes as f64);
        let sentence =
            format!("the longest chain, {longest}, was too short to exceed this level's capacity");
        (OsVerdict::CannotTell, sentence)
    } else if let Some(part) = bytes.and_then(within) {
        let sentence = format!("no level could be determined at this size: {}", part.sentence);
        (OsVerdict::CannotTell, sentence)
    } else {
        let sentence = "the OS reports this level, but latency shows no separate step at its size";
        (OsVerdict::Unseen, sentence.to_owned())
    };
    view(&name, bytes, absent(&sentence), verdict, sentence)
}

/// Judges a measured level that the OS does not report. It is named after its measured size, which
/// cannot be confused with the names of reported levels.
fn not_stated(found_level: &MemoryLevel, levels: &[Level], silence: &str) -> OsView {
    let sentence = format!("found by measurement only: {silence}");
    let name = match (levels, found_level.size_bytes.as_number()) {
        ([_, ..], Some(bytes)) => format!("level of {}", memory_size(bytes)),
        _ => found_level.name.clone(),
    };
    view(&name, None, found_level.size_bytes.clone(), OsVerdict::NotStated, sentence)
}

fn view(
    name: &str,
    stated_bytes: Option<u64>,
    found_bytes: Figure,
    verdict: OsVerdict,
    sentence: String,
) -> OsView {
    OsView { name: name.to_owned(), stated_bytes, found_bytes, verdict, sentence }
}

#[cfg(test)]
mod tests;
