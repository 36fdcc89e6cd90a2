// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests CPI stacks and their verdicts.

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
    let sentence = |pti: &[(&str, &Figure)]| by_cause(&figure(7.9), pti, &t1()).unwrap().sentence;
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
    assert_eq!(bound(1.0, Some(10.0), NOT_COUNTED), Bound::CannotTell, "nor are those of memory");
}

/// The rule's verdict does not hide that the counts explain little.
#[test]
fn a_verdict_by_rule_says_what_the_counts_explain() {
    let (dc, none) = (figure(44.95), figure(0.0));
    let events = |dc| [("dc", dc), ("l2_dmiss", &none), ("l2_imiss", &none), ("ic", &none)];
    let found = by_cause(&figure(7.905), &events(&dc), &t1()).unwrap();
    let says =
        "memory-bound by rule of thumb, but cache misses explain at most 13 % of its cycles; ";
    assert!(found.bound == Bound::Memory && found.sentence.starts_with(says), "{found:?}");
    let most = figure(4.0 / 0.023);
    let found = by_cause(&figure(7.905), &events(&most), &t1()).unwrap();
    assert!(found.sentence.starts_with("memory-bound (well above 5 cycles"), "{found:?}");
}
