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
        let (bound, verdict) = match whole {
            cpi if cpi < limit => (Bound::Compute, "compute-bound (below"),
            cpi if cpi > limit * NEAR_LIMIT => (Bound::Memory, "memory-bound (well above"),
            _ => (Bound::CannotTell, "too close to call (near"),
        };
        let limit = three_digits(limit);
        return (
            bound,
            format!(
                "{verdict} {limit} cycles per instruction, the rule-of-thumb limit for this \
                 processor); {explained}"
            ),
        );
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
mod tests {
    use super::*;
    use linerate_record::memory::MemoryLevel;

    fn t1() -> EventCosts {
        costs_of(&Processor::named("t1").unwrap()).unwrap()
    }

    const NOT_COUNTED: f64 = -1.0;

    fn figure(value: f64) -> Figure {
        Figure::exact("", value, Tier::Hw, "synthetic")
    }

    /// Returns the percentage of cycles that `by_cause` computes for an event that takes `cycles`
    /// cycles per instruction.
    fn percent(event: &str, cpi: f64, cycles: f64) -> f64 {
        let costs = t1();
        let each = costs.events.iter().find(|cost| cost.event == event).unwrap().most.unwrap();
        let pti = figure(cycles / each * 1e3);
        let found = by_cause(&figure(cpi), &[(event, &pti)], &costs).unwrap();
        assert!((found.causes[0].cycles.as_number().unwrap() - cycles).abs() < 1e-9);
        100.0 * found.causes[0].share.as_number().unwrap()
    }

    /// Tables 10-6 (first two rows) and 10-7: each printed percentage is within the range implied
    /// by its printed inputs, which are rounded to two digits.
    #[test]
    fn the_ten_good_cells_of_the_document() {
        for (cpi, dc, dc_percent, l2, l2_percent) in [
            (9.07, 1.76, 19.45, 1.73, 19.05),
            (12.51, 1.89, 15.11, 0.93, 7.46),
            (8.53, 1.43, 16.71, 1.8, 21.1),
            (3.91, 0.33, 8.43, 0.7, 17.86),
            (2.82, 0.13, 4.63, 0.1, 3.39),
        ] {
            for (event, cycles, printed) in [("dc", dc, dc_percent), ("l2_dmiss", l2, l2_percent)] {
                let low = percent(event, cpi + 0.005, cycles - 0.005);
                let high = percent(event, cpi - 0.005, cycles + 0.005);
                // The last digit of the percentage is rounded too.
                let range = low - 0.005..=high + 0.005;
                assert!(range.contains(&printed), "{event} {cpi}: {printed} outside {range:?}");
            }
        }
    }

    #[test]
    fn misses_per_thousand_are_those_of_the_text() {
        let costs = t1();
        let each = |event: &str| costs.events.iter().find(|cost| cost.event == event);
        assert_eq!(each("dc").unwrap().most, Some(23.0));
        assert!((each("l2_dmiss").unwrap().most.unwrap() - 108.0).abs() < 1e-9);
        // According to the text, there are 82 and 6 L1 misses per thousand instructions.
        assert_eq!((1.89 / 23.0 * 1e3_f64).round(), 82.0);
        assert_eq!((0.13 / 23.0 * 1e3_f64).round(), 6.0);
        assert_eq!(each("dtlb").unwrap().most, None, "what one costs is not said");
    }

    #[test]
    fn the_rule_of_the_document() {
        let bound = |cpi: f64| by_cause(&figure(cpi), &[], &t1()).unwrap().bound;
        assert_eq!(bound(2.82), Bound::Compute);
        assert_eq!(bound(4.99), Bound::Compute);
        assert_eq!(bound(5.5), Bound::CannotTell);
        assert_eq!(bound(12.51), Bound::Memory);
        assert!(by_cause(&figure(0.0), &[], &t1()).is_none());
        let absent = Figure::absent("", Tier::Hw, "", "none");
        assert!(by_cause(&absent, &[], &t1()).is_none());
    }

    /// An upper bound that excludes some misses lists them, so that it is not mistaken for a bound
    /// on all misses.
    #[test]
    fn misses_that_were_not_counted_are_named() {
        let (some, none) = (figure(9.44), figure(0.0));
        let mut pti = vec![("l2_dmiss", &some), ("l2_imiss", &none), ("ic", &none)];
        let sentence =
            |pti: &[(&str, &Figure)]| by_cause(&figure(7.9), pti, &t1()).unwrap().sentence;
        assert!(sentence(&pti).ends_with("cycles per instruction, excluding uncounted misses: dc"));
        pti.push(("dc", &some));
        assert!(sentence(&pti).ends_with("cycles per instruction"), "{}", sentence(&pti));
    }

    #[test]
    fn what_no_cause_explains_is_shown_and_too_much_is_not_negative() {
        let (dc, l2) = (figure(44.95), figure(9.44));
        let found = by_cause(&figure(7.905), &[("dc", &dc), ("l2_dmiss", &l2)], &t1()).unwrap();
        let rest = found.unexplained.as_number().unwrap();
        assert!((rest - (7.905 - 44.95 * 0.023 - 9.44 * 0.108)).abs() < 1e-9);
        let found = by_cause(&figure(1.5), &[("dc", &dc), ("l2_dmiss", &l2)], &t1()).unwrap();
        assert_eq!(found.unexplained.as_number(), None);
        assert!(found.unexplained.reason.unwrap().contains("overlap"));
        let dtlb = figure(1.0);
        let found = by_cause(&figure(1.5), &[("dtlb", &dtlb)], &t1()).unwrap();
        assert_eq!(found.causes[0].cycles.as_number(), None, "not 0");
        assert_eq!(found.unexplained.as_number(), Some(1.5));
        let found = by_cause(&figure(1.5), &[("dtlb", &figure(0.0))], &t1()).unwrap();
        assert_eq!(found.causes[0].cycles.as_number(), Some(0.0), "none happened");
    }

    /// Levels have latencies of 4, 16, 48 and 400 cycles, or a tenth of that for overlapping loads,
    /// at 4 GHz.
    fn profile(levels: &[&str], ns: &[f64]) -> MemoryReport {
        let mut memory = crate::memory_report::report();
        memory.timer.core_ghz = figure(4.0);
        let template = memory.levels[0].clone();
        let named = |level: &&str| MemoryLevel { name: (*level).to_owned(), ..template.clone() };
        memory.levels = levels.iter().map(named).collect();
        let cost = |(level, &ns): (&&str, &f64)| Cost {
            level: (*level).to_owned(),
            tlb: TlbState::Hit,
            ns: figure(ns),
            cycles: Figure { low: Some(4.0 * ns), high: Some(4.0 * ns), ..figure(4.0 * ns) },
            overlapped_ns: figure(ns / 10.0),
        };
        memory.costs = levels.iter().zip(ns).map(cost).collect();
        memory
    }

    fn complete() -> MemoryReport {
        profile(&["L1", "L2", "L3", "memory"], &[1.0, 4.0, 12.0, 100.0])
    }

    #[test]
    fn the_profile_of_a_machine_bounds_what_misses_cost() {
        let mut memory = complete();
        let costs = costs_from(&memory, "synthetic");
        assert_eq!(costs.source, "synthetic");
        let near = |event: usize, most: f64, least: f64| {
            let cost = &costs.events[event];
            let off = |found: Option<f64>, wanted: f64| (found.unwrap() - wanted).abs();
            assert!(off(cost.most, most) < 1e-9 && off(cost.least, least) < 1e-9, "{cost:?}");
        };
        near(0, 48.0 - 4.0, 1.6 - 0.4);
        near(1, 400.0 - 48.0, 40.0 - 4.8);
        // A wider latency interval raises this bound.
        memory.costs[3].cycles.high = Some(440.0);
        memory.costs[2].cycles.low = Some(40.0);
        assert_eq!(costs_from(&memory, "").events[1].most, Some(400.0));
        // Without an upper end of the latency, there is no upper bound. The lower bound comes from
        // overlapping loads.
        memory.costs[3].cycles.high = None;
        let open = costs_from(&memory, "").events[1].clone();
        assert_eq!((open.most, open.least.is_some()), (None, true));
        memory.costs.clear();
        let unknown = costs_from(&memory, "");
        assert!(unknown.events.iter().all(|cost| cost.most.is_none() && cost.least.is_none()));
    }

    /// 100 L1 misses per 1000 instructions, all of them L3 hits, take up to 4.4 of the 4 cycles.
    /// Where L3 cannot be distinguished from memory, the cost of a hit in L3 is unknown.
    #[test]
    fn levels_that_do_not_end_in_memory_give_no_upper_bound() {
        let (l1, ll) = (figure(100.0), figure(0.0));
        let pti = [("l1d_misses", &l1), ("ll_misses", &ll)];
        let of = |memory: &MemoryReport| {
            let found = by_cause(&figure(4.0), &pti, &costs_from(memory, "p")).unwrap();
            (found.bound, found.source)
        };
        assert_eq!(of(&complete()).0, Bound::CannotTell);
        let three = profile(&["L1", "L2", "L3 or memory"], &[1.0, 4.0, 12.0]);
        let four = profile(&["L1", "L2", "L3", "L3 or memory"], &[1.0, 4.0, 4.5, 12.0]);
        for incomplete in [three, four] {
            let costs = costs_from(&incomplete, "p");
            assert!(costs.events.iter().all(|cost| cost.most.is_none()), "{costs:?}");
            assert!(costs.events.iter().all(|cost| cost.least.is_some()), "{costs:?}");
            let (bound, source) = of(&incomplete);
            assert_eq!(bound, Bound::CannotTell);
            assert!(source.contains("did not show where the last-level cache ends"), "{source}");
        }
    }

    /// An L1 miss may cost no more than an L2 hit, whose latency is unknown without an L2.
    #[test]
    fn without_an_l2_an_l1_miss_has_no_lower_bound() {
        for levels in [&["L1", "L3", "memory"][..], &["L1", "L2 to memory"]] {
            let costs = costs_from(&profile(levels, &[1.0, 12.0, 100.0]), "p");
            assert_eq!(costs.events[0].least, None, "{levels:?}");
            assert!(costs.events[1].least.is_some(), "{levels:?}");
        }
    }

    /// Without a processor rule, on a synthetic machine. Its misses cost 10 and 200 cycles, or 2
    /// and 50 cycles if they overlap.
    #[test]
    fn evidence_decides_without_a_rule() {
        let cost = |event: &str, most, least| EventCost {
            event: event.to_owned(),
            most: Some(most),
            least: Some(least),
            is_miss: true,
        };
        let costs = EventCosts {
            source: "synthetic".to_owned(),
            compute_bound_cpi_max: None,
            events: vec![cost("l1d_misses", 10.0, 2.0), cost("ll_misses", 200.0, 50.0)],
        };
        let bound = |cpi: f64, l1: Option<f64>, ll: f64| {
            let (l1, ll) = (l1.map(figure), figure(ll));
            let mut pti = vec![("ll_misses", &ll)];
            pti.extend(l1.as_ref().map(|l1| ("l1d_misses", l1)));
            pti.retain(|(_, pti)| pti.as_number() != Some(NOT_COUNTED));
            by_cause(&figure(cpi), &pti, &costs).unwrap().bound
        };
        assert_eq!(bound(1.0, Some(10.0), 0.5), Bound::Compute, "0.1 + 0.1 of 1");
        assert_eq!(bound(1.0, Some(10.0), 10.0), Bound::Memory, "0.5 at least");
        assert_eq!(bound(1.0, Some(10.0), 4.0), Bound::CannotTell, "0.22 to 0.9");
        assert_eq!(bound(1.0, None, 0.5), Bound::CannotTell, "waits for L2 are not known");
        assert_eq!(bound(1.0, None, 12.0), Bound::Memory);
        assert_eq!(
            bound(1.0, Some(10.0), NOT_COUNTED),
            Bound::CannotTell,
            "nor are those of memory"
        );
    }
}
