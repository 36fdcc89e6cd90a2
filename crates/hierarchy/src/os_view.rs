// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the hierarchy stated by the OS with the measured one.
//!
//! The system repeats what the processor, or a hypervisor in its place, reports. Neither knows
//! which part of a shared cache this program gets.
//!
//! Stated and found levels are paired in order, nearest first. If there are more levels on one
//! side, those whose sizes fit worst stay unpaired: of all pairings that keep the order, the one
//! with the smallest sum of |ln(found / stated)| is chosen.
//!
//! ```text
//! [low, high]   interval of what was found
//! agrees        0.9 low <= stated <= 1.1 high, or the same of stated + level before (a victim)
//! smaller       found < stated, and they do not agree
//! larger        stated < found <= 2 stated, and they do not agree
//! cannot tell   2 stated < found: nothing gives out twice what there is, so that a step was
//!               missed or the statement is made up; or [low, high] reaches into sizes of which
//!               nothing could be told
//! ```
//!
//! Not covered: reading what the OS states (`linerate-memory` passes it in); associativity and line
//! length, which a chase over whole lines does not show.

use linerate_record::memory::{MemoryLevel, OsVerdict, OsView, Unresolved};
use linerate_record::stats::Estimate;
use linerate_record::units::memory_size;
use linerate_record::{Figure, Tier};

/// Maximum deviation of a stated size from the measured interval, relative to the interval's
/// bounds. The interval describes the variation between passes; the replacement policy and page
/// placement shift all passes alike, by a few percent.
const TOLERANCE: f64 = 0.10;

/// Ratio of measured to stated size above which the two cannot belong to the same level.
const CONTRADICTION: f64 = 2.0;

/// A data cache stated by the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Level 1 is nearest to the core.
    pub level: u32,
    /// Its size in bytes, or the reason why the system does not state it.
    pub bytes: Result<u64, String>,
    /// Number of logical CPUs that share it; 0 if not stated.
    pub shared_by: usize,
}

/// The measured values that the comparison needs.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The levels, nearest first.
    pub levels: &'a [MemoryLevel],
    /// The undetermined ranges.
    pub unresolved: &'a [Unresolved],
    /// Length of the longest chain in bytes.
    pub max_bytes: u64,
}

/// Judges every stated or measured level, nearest first.
pub fn compare(stated: &Result<Vec<Level>, String>, found: &Found<'_>) -> Vec<OsView> {
    let caches: Vec<&MemoryLevel> =
        found.levels.iter().filter(|found_level| is_cache(found_level)).collect();
    let levels = match stated {
        Ok(levels) => levels.as_slice(),
        Err(_) => &[],
    };
    let pairs = paired(levels, &caches);
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

/// The last level is memory itself, which has no size.
fn is_cache(found_level: &MemoryLevel) -> bool {
    found_level.size_bytes.as_number().is_some()
}

/// Stated size of the previous level in bytes.
fn below(levels: &[Level], index: usize) -> u64 {
    let before = index.checked_sub(1).map(|before| &levels[before].bytes);
    before.and_then(|bytes| bytes.as_ref().ok().copied()).unwrap_or(0)
}

/// Pairs of a stated and a measured level, in increasing order. There are as many pairs as there
/// are levels on the side with fewer.
fn paired(levels: &[Level], found_levels: &[&MemoryLevel]) -> Vec<(usize, usize)> {
    let misfit = |level: usize, found_level: usize| {
        let found = found_levels[found_level].size_bytes.as_number().unwrap_or(f64::NAN);
        match levels[level].bytes {
            Ok(bytes) if bytes > 0 => (found / bytes as f64).ln().abs(),
            _ => 0.0,
        }
    };
    let swap = levels.len() > found_levels.len();
    let (few, many) =
        if swap { (found_levels.len(), levels.len()) } else { (levels.len(), found_levels.len()) };
    let cost = |a: usize, b: usize| if swap { misfit(b, a) } else { misfit(a, b) };
    let chosen = choose(few, many, &cost);
    let pair = |(a, b)| if swap { (b, a) } else { (a, b) };
    chosen.into_iter().enumerate().map(pair).collect()
}

/// For each of `few`, an index into `many`, such that the indices increase and the total cost is
/// minimal.
///
/// ```text
/// best[a][b] = cheapest way to place the first a among the first b
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

/// A stated level with its measured counterpart.
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

/// Short reason why sizes are undetermined, without advice: that is given where the sizes
/// themselves are reported.
fn cause(part: &Unresolved) -> &str {
    match &part.cause[..] {
        "moved" => "latency at these sizes varied between passes",
        "too_close" => "two steps are too close to each other",
        "too_noisy" => "variation between passes exceeds a step",
        _ => &part.sentence,
    }
}

/// Measured size of a level; an unknown bound is infinite.
struct Interval {
    value: f64,
    low: f64,
    high: f64,
}

impl Interval {
    /// Bounds of a figure; unknown if the figure is not a number.
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

    /// Overlap in bytes with a range of undetermined sizes; 0 or less if the two do not overlap, or
    /// only share an endpoint.
    fn shared(&self, part: &Unresolved) -> f64 {
        self.high.min(part.to_bytes as f64) - self.low.max(part.from_bytes as f64)
    }
}

/// Verdict on a size that overlaps no undetermined sizes. `below` is the stated size of the
/// previous level.
fn sized(level: &Level, bytes: u64, below: u64, found: &Interval) -> (OsVerdict, String) {
    let (is, of) = (memory_size(found.value), memory_size(bytes as f64));
    if found.is_open() && found.holds(bytes, 0.0) {
        let sentence = format!("{is} found, with unknown uncertainty");
        (OsVerdict::CannotTell, sentence)
    } else if found.holds(bytes, 0.0) {
        (OsVerdict::Agrees, format!("{is} found; the OS-reported {of} is within the interval"))
    } else if found.holds(bytes, TOLERANCE) {
        let sentence = format!(
            "{is} found; the OS-reported {of} is less than {} % outside the interval, which \
             replacement policy and page placement explain",
            100.0 * TOLERANCE
        );
        (OsVerdict::Agrees, sentence)
    } else if below > 0 && found.holds(bytes + below, TOLERANCE) {
        let sentence = format!(
            "{is} found, {of} reported by the OS: consistent if this is a victim cache of the \
             previous level, so that the capacities add up"
        );
        (OsVerdict::Agrees, sentence)
    } else if found.value < bytes as f64 {
        (
            OsVerdict::Smaller,
            format!("only {is} of the OS-reported {of} is available now{}", why(level)),
        )
    } else if found.value <= CONTRADICTION * bytes as f64 {
        let sentence = format!(
            "{is} found, more than the OS-reported {of}: either other programs hid the step \
             (measure again), or the hypervisor reports a fictitious size"
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

/// Reason why the measured size is smaller than the stated one.
fn why(level: &Level) -> &'static str {
    match level.shared_by {
        // A virtual machine sees only its own processors: other tenants of the cache stay hidden.
        0 | 1 => {
            ": other programs evict lines, the hypervisor partitions it, or the reported size is \
             wrong"
        }
        _ => ": shared with other tenants, or partitioned by the hypervisor",
    }
}

/// A stated level without a measured counterpart.
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
        let sentence = format!(
            "the longest chain, {longest}, was too short to reach the end of \
                                this level"
        );
        (OsVerdict::CannotTell, sentence)
    } else if let Some(part) = bytes.and_then(within) {
        (OsVerdict::CannotTell, format!("no level could be determined there: {}", part.sentence))
    } else {
        let sentence = "reported by the OS, but latency shows no separate step there".to_owned();
        (OsVerdict::Unseen, sentence)
    };
    view(&name, bytes, absent(&sentence), verdict, sentence)
}

/// A measured level that the system does not state. It is named after its measured size, whereas
/// stated levels keep their stated names, so the two cannot be confused.
fn not_stated(found_level: &MemoryLevel, levels: &[Level], silence: &str) -> OsView {
    let sentence = format!("found, but not reported: {silence}");
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
