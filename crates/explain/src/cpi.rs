// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPI stacks, and whether strands are compute-bound or memory-bound.
//!
//! ```text
//! cycles of a cause  = events per 1000 instructions / 1000 * maximum cycles per event
//! share of a cause   = cycles of the cause / cycles per instruction
//! unexplained        = cycles per instruction - sum over causes
//! ```
//!
//! This is the method of tables 10-6 and 10-7 in "Netra Data Plane Software Suite 2.0". Each cause
//! is an upper bound that assumes no overlap between misses, so the remainder is a lower bound. If
//! the bounds add up to more than the total, there must be overlap, and the remainder is unknown.
//!
//! Whether a strand is compute-bound or memory-bound is decided by a rule for the processor, if
//! there is one, and otherwise by bounds on the cycles taken by misses:
//!
//! ```text
//! lower bound (all misses overlap) is at least half of the cycles             -> memory
//! upper bound (no overlap) is less than half, and all misses were counted     -> compute
//! otherwise                                                                   -> cannot tell
//! ```
//!
//! Stalls for which there is no event, such as those on device reads, are part of the remainder.

use linerate_cmt::processor::{Processor, WaitsFor};
use linerate_record::memory::{Cost, MemoryReport, TlbState};
use linerate_record::strands::{Bound, CpiByCause, CpiCause, StrandCounts};
use linerate_record::units::three_digits;
use linerate_record::{Figure, Tier};

/// Costs of a processor's events.
#[derive(Clone, Debug, PartialEq)]
pub struct EventCosts {
    /// Source of the costs.
    pub source: String,
    /// Cycles per instruction above which a strand is considered memory-bound; `None` if there is
    /// no rule for this processor.
    pub compute_bound_cpi_max: Option<f64>,
    /// Costs by event name.
    pub events: Vec<EventCost>,
}

/// Cost of one event, in core cycles.
#[derive(Clone, Debug, PartialEq)]
pub struct EventCost {
    /// Name of the event.
    pub event: String,
    /// Upper bound on the cost; `None` if unknown.
    pub most: Option<f64>,
    /// Lower bound on the cost; `None` if unknown.
    pub least: Option<f64>,
    /// Whether this is a cache miss rather than another cause of stalls.
    pub is_miss: bool,
}

/// The rule of thumb is inconclusive for CPI values between its limit and this factor times the
/// limit. The Netra document considers CPI values that are "considerably higher" than the limit
/// memory-bound, without giving a number; 20 % is this project's choice.
const NEAR_LIMIT: f64 = 1.2;

/// If misses account for at least this fraction of the cycles, they are the cause even without a
/// rule for the processor, because they cost as much as all other causes combined.
const HALF: f64 = 0.5;

/// Derives a processor's event costs from its latencies; `None` if it has no events.
pub fn costs_of(processor: &Processor) -> Option<EventCosts> {
    let cycles = |waits_for: WaitsFor| match waits_for {
        WaitsFor::L2 => Some(processor.latency?.l2_cycles),
        WaitsFor::Memory => Some(processor.latency?.memory_ns * processor.clock_ghz),
        WaitsFor::Cycle => Some(1.0),
    };
    let counted = processor.events.iter().filter(|event| event.name != "instructions");
    let events = counted.map(|event| EventCost {
        event: event.name.clone(),
        most: event.waits_for.and_then(cycles),
        least: None,
        is_miss: matches!(event.waits_for, Some(WaitsFor::L2 | WaitsFor::Memory)),
    });
    let events: Vec<EventCost> = events.collect();
    (!events.is_empty()).then(|| EventCosts {
        source: format!("latencies of {}: {}", processor.name, processor.source),
        compute_bound_cpi_max: processor.compute_bound_cpi_max,
        events,
    })
}

/// Derives the cost of cache misses from a machine's memory profile.
///
/// ```text
/// L1 miss, upper bound           last-level latency - L1 latency    wherever the data was found
///          lower bound           L2 latency - L1 latency            with maximum overlap
/// last-level miss, upper bound   memory - last-level latency        in addition to the L1 miss
///                  lower bound   the same difference                with maximum overlap
/// ```
///
/// The upper bound uses the upper end of the farther level's latency and the lower end of the
/// nearer level's latency. It is unknown if one of these ends is unknown.
///
/// If the end of the last cache was not seen, the last level may be this cache or memory. Hits in
/// its unseen part are not last-level misses but may take as long, so there are no upper bounds. If
/// the second level is not L2, an L1 miss served by L2 takes an unknown time, so there is no lower
/// bound.
pub fn costs_from(memory: &MemoryReport, source: &str) -> EventCosts {
    let ghz = memory.timer.core_ghz.as_number();
    let level = |at: usize| {
        let level = &memory.levels.get(at)?.name;
        memory.costs.iter().find(|cost| cost.level == *level && cost.tlb == TlbState::Hit)
    };
    let count = memory.levels.len();
    let behind = |from_end: usize| level(count.checked_sub(from_end)?);
    let (first, second, last, beyond) = (level(0), level(1), behind(2), behind(1));
    let overlapped = |cost: &Cost| Some(cost.overlapped_ns.as_number()? * ghz?);
    let is_named = |at: Option<usize>, name: &str| {
        at.and_then(|at| memory.levels.get(at)).is_some_and(|level| level.name == name)
    };
    let is_complete = is_named(count.checked_sub(1), "memory");
    let second = second.filter(|_| is_named(Some(1), "L2"));
    let most = |near: Option<&Cost>, far: Option<&Cost>| {
        let most = (far?.cycles.high? - near?.cycles.low?).max(0.0);
        is_complete.then_some(most)
    };
    let least = |near: Option<&Cost>, far: Option<&Cost>| {
        Some((overlapped(far?)? - overlapped(near?)?).max(0.0))
    };
    let cost = |event: &str, most, least| EventCost {
        event: event.to_owned(),
        most,
        least,
        is_miss: true,
    };
    let limits = match is_complete {
        true => "",
        false => {
            "; no upper bounds on costs, because the measurement did not show where the last-level \
             cache ends"
        }
    };
    EventCosts {
        source: format!("{source}{limits}"),
        compute_bound_cpi_max: None,
        events: vec![
            cost("l1d_misses", most(first, last), least(first, second)),
            cost("ll_misses", most(last, beyond), least(last, beyond)),
        ],
    }
}

/// Computes a CPI stack from events per thousand instructions; `None` if the cycles per instruction
/// are unknown.
pub fn by_cause(cpi: &Figure, pti: &[(&str, &Figure)], costs: &EventCosts) -> Option<CpiByCause> {
    let whole = cpi.as_number().filter(|cpi| *cpi > 0.0)?;
    let causes: Vec<CpiCause> = costs
        .events
        .iter()
        .filter_map(|cost| {
            let (_, pti) = pti.iter().find(|(event, _)| *event == cost.event)?;
            Some(cause(cost, pti, whole))
        })
        .collect();
    let explained: f64 = causes.iter().filter_map(|cause| cause.cycles.as_number()).sum();
    let rest = whole - explained;
    let unexplained = if rest >= 0.0 {
        Figure::exact(CPI, rest, Tier::Model, METHOD)
    } else {
        let why = format!(
            "the upper bounds add up to {} cycles per instruction, more than the {} measured, \
             because misses overlap",
            three_digits(explained),
            three_digits(whole)
        );
        Figure::absent(CPI, Tier::Model, METHOD, &why)
    };
    let (bound, sentence) = judge(whole, &causes, costs);
    Some(CpiByCause { source: costs.source.clone(), causes, unexplained, bound, sentence })
}

/// Computes the CPI stack of an imported strand; `None` if its cycles per instruction are unknown.
pub fn of_strand(strand: &StrandCounts, costs: &EventCosts) -> Option<CpiByCause> {
    let pti: Vec<(&str, &Figure)> =
        strand.events.iter().map(|event| (event.name.as_str(), &event.pti)).collect();
    by_cause(&strand.cpi, &pti, costs)
}

const METHOD: &str = "events times the maximum cost per event";
const CPI: &str = "cycles/instruction";

fn cause(cost: &EventCost, pti: &Figure, whole: f64) -> CpiCause {
    let scaled = |unit: &str, by: f64| {
        let mut figure = Figure { unit: unit.to_owned(), tier: Tier::Model, ..pti.clone() };
        METHOD.clone_into(&mut figure.method);
        if let Some(pti) = pti.as_number() {
            figure.value = linerate_record::Scalar::Number(pti * by);
        }
        (figure.low, figure.high) = (pti.low.map(|x| x * by), pti.high.map(|x| x * by));
        figure
    };
    let unknown = |unit: &str| {
        let why = "the cost per event is unknown";
        Figure::absent(unit, Tier::Model, METHOD, why)
    };
    // An event that never occurred has no cost.
    let each = cost.most.or_else(|| (pti.as_number() == Some(0.0)).then_some(0.0));
    CpiCause {
        event: cost.event.clone(),
        cycles_each: cost.most,
        pti: pti.clone(),
        cycles: each.map_or_else(|| unknown(CPI), |each| scaled(CPI, each / 1e3)),
        share: each.map_or_else(|| unknown("ratio"), |each| scaled("ratio", each / 1e3 / whole)),
    }
}

fn judge(whole: f64, causes: &[CpiCause], costs: &EventCosts) -> (Bound, String) {
    let total = |pick: fn(&EventCost) -> Option<f64>| -> Option<f64> {
        let of = |cost: &EventCost| {
            let cause = causes.iter().find(|cause| cause.event == cost.event)?;
            Some(cause.pti.as_number()? / 1e3 * pick(cost)?)
        };
        let known: Vec<f64> =
            costs.events.iter().filter(|cost| cost.is_miss).filter_map(of).collect();
        (!known.is_empty()).then(|| known.iter().sum())
    };
    let (most, least) = (total(|cost| cost.most), total(|cost| cost.least));
    let uncounted = uncounted(causes, costs);
    let without = match uncounted.as_slice() {
        [] => String::new(),
        events => format!(", excluding uncounted misses: {}", events.join(", ")),
    };
    let shown = three_digits(whole);
    let explained = most.map_or_else(
        || "no misses with a known cost were counted".to_owned(),
        |most| {
            format!(
                "cache misses take at most {} of {shown} cycles per instruction{without}",
                three_digits(most)
            )
        },
    );
    if let Some(limit) = costs.compute_bound_cpi_max {
        return by_rule(whole, limit, most, uncounted.is_empty(), &explained);
    }
    match (most, least) {
        (_, Some(least)) if least >= HALF * whole => (
            Bound::Memory,
            format!(
                "memory-bound: misses take {} of {shown} cycles per instruction even with maximum \
                 overlap",
                three_digits(least)
            ),
        ),
        (Some(most), _) if most < HALF * whole && uncounted.is_empty() => {
            (Bound::Compute, format!("compute-bound: {explained}, which is less than half"))
        }
        _ => (
            Bound::CannotTell,
            format!("cannot tell whether it is compute-bound or memory-bound: {explained}"),
        ),
    }
}

/// Judges by the processor's rule of thumb, which calls a CPI above `limit` memory-bound. `most` is
/// an upper bound on the cycles of cache misses, of which `is_complete` says that all were counted,
/// and `explained` describes it.
fn by_rule(
    whole: f64,
    limit: f64,
    most: Option<f64>,
    is_complete: bool,
    explained: &str,
) -> (Bound, String) {
    let is_above = whole > limit * NEAR_LIMIT;
    let (shown, rule) = (three_digits(whole), three_digits(limit));
    if let Some(most) = most.filter(|most| is_above && *most < HALF * whole) {
        let counted = if is_complete { "" } else { "counted " };
        let sentence = format!(
            "memory-bound by rule of thumb, but {counted}cache misses explain at most {:.0} % of \
             its cycles; {shown} cycles per instruction are well above the rule's limit of {rule} \
             for this processor; {explained}",
            100.0 * most / whole
        );
        return (Bound::Memory, sentence);
    }
    let (bound, verdict) = match whole {
        cpi if cpi < limit => (Bound::Compute, "compute-bound (below"),
        _ if is_above => (Bound::Memory, "memory-bound (well above"),
        _ => (Bound::CannotTell, "too close to call (near"),
    };
    let sentence = format!(
        "{verdict} {rule} cycles per instruction, the rule-of-thumb limit for this processor); \
         {explained}"
    );
    (bound, sentence)
}

/// Returns the cache miss events that were not counted, and whose cycles are therefore missing from
/// the upper bound.
fn uncounted<'a>(causes: &[CpiCause], costs: &'a EventCosts) -> Vec<&'a str> {
    let is_counted = |cost: &&EventCost| {
        let counted = causes.iter().find(|cause| cause.event == cost.event);
        counted.is_some_and(|cause| cause.cycles.as_number().is_some())
    };
    let misses = costs.events.iter().filter(|cost| cost.is_miss);
    misses.filter(|cost| !is_counted(cost)).map(|cost| cost.event.as_str()).collect()
}

#[cfg(test)]
mod tests;
