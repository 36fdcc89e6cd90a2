// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judges whether a chase's event counts are plausible, given its number of loads.
//!
//! A chase of `n` loads executes at least `n` instructions, reads memory at least `n` times and,
//! beyond the size of a cache, misses it with nearly every load. A count that contradicts this does
//! not describe the chase: it covers only part of the time, or other code, or a different event of
//! the same name. The bounds are wide enough for prefetching, replays and interrupts; counts
//! outside them are grossly wrong.
//!
//! The table as a whole is checked as well. If an event has an implausible count, and its counts
//! per second are the same at all sizes although the loads per second differ, the event is
//! unrelated to the loads, and all of its counts are rejected.
//!
//! This module does not determine what was counted instead.

use crate::reconcile::MEMORY;
use linerate_record::memory::{MemoryLevel, Order};

/// A chase through a chain of one size, with its event counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Size of the chain in bytes.
    pub bytes: u64,
    /// Number of loads.
    pub loads: u64,
    /// Duration of the chase in seconds.
    pub seconds: f64,
    /// Event names as in `linerate-counters`, with their counts.
    pub counts: Vec<(String, f64)>,
}

/// What is known about the machine and the chase.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Order in which the chase visits the lines.
    pub order: Order,
    /// Cache line size in bytes.
    pub line_bytes: u64,
    /// Page size in bytes.
    pub page_bytes: u64,
    /// Known cache sizes.
    pub caches: Caches,
    /// Number of entries in the first and in the last TLB level.
    pub tlb: Option<(u64, u64)>,
    /// Core clock in GHz.
    pub core_ghz: Option<f64>,
}

/// Cache sizes in bytes; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// Size of L1.
    pub l1: Option<u64>,
    /// Size of L2.
    pub l2: Option<u64>,
    /// Size of the last-level cache; `None` if there may be another cache beyond the last one whose
    /// end was seen.
    pub last: Option<u64>,
}

impl Caches {
    /// Returns the sizes of those of `levels`, nearest first, whose names say which cache they are.
    pub fn named(levels: &[MemoryLevel]) -> Self {
        let size = |level: &MemoryLevel| level.size_bytes.as_number().map(|size| size as u64);
        let of = |name: &str| levels.iter().find(|level| level.name == name).and_then(size);
        let last = match levels {
            [.., last, memory] if memory.name == MEMORY => size(last),
            _ => None,
        };
        Self { l1: of("L1"), l2: of("L2"), last }
    }
}

/// Whether a count is plausible and, if not, why.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Whether the count is within its bounds; `None` if the event has no known bounds.
    pub plausible: Option<bool>,
    /// Reason why the count is doubtful; `None` if it is not.
    pub doubt: Option<String>,
}

/// Judges every count in every row. The result has the same shape as the counts.
pub fn judge(rows: &[Row], known: &Known) -> Vec<Vec<Judgement>> {
    let judged = |row: &Row| {
        row.counts.iter().map(|(event, count)| one(event, *count, row, known)).collect()
    };
    let mut judgements: Vec<Vec<Judgement>> = rows.iter().map(judged).collect();
    let mut events: Vec<&str> =
        rows.iter().flat_map(|row| &row.counts).map(|(event, _)| event.as_str()).collect();
    events.sort_unstable();
    events.dedup();
    for event in events {
        let places: Vec<(usize, usize)> = places(rows, event);
        let is_doubted = places.iter().any(|&(r, c)| judgements[r][c].plausible == Some(false));
        let Some((low, high)) = rates(rows, &places).filter(|_| is_doubted) else { continue };
        for (r, c) in places {
            let doubt =
                judgements[r][c].doubt.take().map_or_else(String::new, |doubt| doubt + "; ");
            let follows = format!(
                "{doubt}the count is proportional to time ({} to {} per second at all sizes), not \
                 to loads",
                rounded(low),
                rounded(high)
            );
            judgements[r][c] = Judgement { plausible: Some(false), doubt: Some(follows) };
        }
    }
    judgements
}

/// Returns where `event` occurs in `rows`, as (row, column).
fn places(rows: &[Row], event: &str) -> Vec<(usize, usize)> {
    let of_row = |(r, row): (usize, &Row)| {
        let named = row.counts.iter().enumerate().filter(|(_, (name, _))| name == event);
        named.map(|(c, _)| (r, c)).collect::<Vec<_>>()
    };
    rows.iter().enumerate().flat_map(of_row).collect()
}

/// Minimum number of chain sizes. With fewer, equal rates may be a coincidence.
const LEAST_ROWS: usize = 4;
/// Maximum ratio between two rates that are considered equal.
const SAME_RATE: f64 = 1.6;
/// Minimum ratio between two counts per load that are considered clearly different.
const OTHER_SHARE: f64 = 3.0;

/// Returns the lowest and the highest count per second if the rate is the same at all sizes
/// although the loads per second differ.
fn rates(rows: &[Row], places: &[(usize, usize)]) -> Option<(f64, f64)> {
    let range = |value: &dyn Fn(&Row) -> f64| {
        let values = places.iter().map(|&(r, c)| rows[r].counts[c].1 / value(&rows[r]));
        values.fold((f64::INFINITY, 0.0), |(low, high), x| (f64::min(low, x), f64::max(high, x)))
    };
    let (low, high) = range(&|row| row.seconds);
    let (least, most) = range(&|row| row.loads as f64);
    let follows =
        low > 0.0 && high.is_finite() && high <= SAME_RATE * low && most >= OTHER_SHARE * least;
    (follows && places.len() >= LEAST_ROWS).then_some((low, high))
}

/// The plausible range of a count, per load.
struct Bounds {
    least: f64,
    most: f64,
    /// Why the range is what it is, worded to complete a sentence.
    reason: String,
}

fn one(event: &str, count: f64, row: &Row, known: &Known) -> Judgement {
    let bounds = if row.loads == 0 { None } else { bounds(event, row, known) };
    let Some(Bounds { least, most, reason }) = bounds else {
        return Judgement { plausible: None, doubt: None };
    };
    let per_load = count / row.loads as f64;
    // NaN fails both conditions.
    let plausible = per_load >= least && per_load <= most;
    let doubt = || {
        let (limit, side) = if per_load > most { (most, "more") } else { (least, "less") };
        let (per_load, limit) = (rounded(per_load), rounded(limit));
        format!(
            "the count is {per_load} per load, but cannot be {side} than {limit}, because {reason}"
        )
    };
    Judgement { plausible: Some(plausible), doubt: (!plausible).then(doubt) }
}

/// Minimum ratio of a multiplexed count to the true one: scaling may be off by a few percent.
const SCALED: f64 = 0.95;
/// Maximum overhead of the loop and counter reads, in instructions per load.
const MOST_INSTRUCTIONS: f64 = 8.0;
/// Maximum overhead of the loop and counter reads, in additional loads per load.
const MOST_LOADS: f64 = 3.0;

fn bounds(event: &str, row: &Row, known: &Known) -> Option<Bounds> {
    let bounds =
        |least, most, reason: &str| Some(Bounds { least, most, reason: reason.to_owned() });
    let cache = |size: Option<u64>| size.map(|size| cache(row, size));
    match event {
        "loads" | "l1d_accesses" => bounds(SCALED, MOST_LOADS, "each load is one memory access"),
        "instructions" => bounds(
            SCALED,
            MOST_INSTRUCTIONS,
            "each load is one instruction, and the loop has few \
                 other instructions",
        ),
        "cycles" => cycles(row, known),
        "l1d_misses" => cache(known.caches.l1),
        "l2_misses" => cache(known.caches.l2),
        "ll_misses" => cache(known.caches.last),
        "micro_tlb_misses" => known.tlb.map(|(first, _)| tlb(row, known, first, first)),
        "main_tlb_misses" => known.tlb.map(|(_, last)| tlb(row, known, last, last)),
        // Which TLB level's misses this event counts depends on the processor.
        "dtlb_misses" => known.tlb.map(|(first, last)| tlb(row, known, first, last)),
        _ => None,
    }
}

/// Maximum ratio of the core clock during the chase to the measured clock, which may have been
/// lower.
const MOST_SPEEDUP: f64 = 1.5;

/// Bounds cycles: dependent loads take at least one cycle each. A thread that waited for the CPU
/// has fewer cycles than the elapsed time suggests.
fn cycles(row: &Row, known: &Known) -> Option<Bounds> {
    let ghz = known.core_ghz?;
    let most = MOST_SPEEDUP * row.seconds * ghz * 1e9 / row.loads as f64;
    let reason =
        format!("each load waits for the previous one, and the clock runs at {ghz:.2} GHz");
    (most >= 1.0).then_some(Bounds { least: SCALED, most, reason })
}

/// Chains shorter than this fraction of a cache or TLB stay within it; chains longer than its size
/// divided by this fraction do not, whatever the replacement policy.
const INSIDE: f64 = 0.5;
/// Maximum number of misses per load for a chain that fits the level; nearly all come from
/// interrupts.
const MOST_INSIDE: f64 = 0.1;
/// Range of misses per load for a chain that exceeds the level, where most loads miss: below one if
/// adjacent lines are prefetched, above one if prefetches or page walks are also counted.
const BEYOND: (f64, f64) = (0.3, 3.0);

fn cache(row: &Row, size: u64) -> Bounds {
    let (bytes, size) = (row.bytes as f64, size as f64);
    let (kib, chain) = (size / 1024.0, bytes / 1024.0);
    let reason = format!("the chain covers {chain:.0} KiB and the cache holds {kib:.0} KiB");
    let (least, most) = match bytes / size {
        ratio if ratio <= INSIDE => (0.0, MOST_INSIDE),
        ratio if ratio >= 1.0 / INSIDE => BEYOND,
        _ => (0.0, BEYOND.1),
    };
    Bounds { least, most, reason }
}

/// Returns bounds on the count of a TLB event, which may count misses of any TLB level, from the
/// level with `first` entries to the level with `last` entries.
fn tlb(row: &Row, known: &Known, first: u64, last: u64) -> Bounds {
    let pages = row.bytes as f64 / known.page_bytes.max(1) as f64;
    // Page-local and sequential chases finish all lines of a page before the next page.
    let least = match known.order {
        Order::Random => BEYOND.0,
        Order::PageLocal | Order::Sequential => {
            BEYOND.0 * known.line_bytes as f64 / known.page_bytes.max(1) as f64
        }
    };
    let reason =
        format!("the chain covers {pages:.0} pages and the TLB has {first} to {last} entries");
    if pages <= INSIDE * first as f64 {
        Bounds { least: 0.0, most: MOST_INSIDE, reason }
    } else if pages >= last as f64 / INSIDE {
        Bounds { least, most: BEYOND.1, reason }
    } else {
        Bounds { least: 0.0, most: BEYOND.1, reason }
    }
}

/// Formats a number with at least two significant digits, for use in a sentence.
fn rounded(x: f64) -> String {
    match x.abs() {
        size if size >= 1e5 => format!("{:.2} million", x / 1e6),
        size if size >= 10.0 => format!("{x:.0}"),
        size if size >= 0.1 || size == 0.0 => format!("{x:.2}"),
        _ => format!("{x:.1e}"),
    }
}

#[cfg(test)]
mod tests;
