// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests figures and verdicts on synthetic logs with known true values.

use super::*;
use crate::tree::{Amount, Outcome};
use linerate_doctor::refusal::{Cause, Explanation};
use linerate_record::Derive;
use linerate_record::fixtures;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn exactly(value: f64) -> Estimate {
    Estimate { value, low: value, high: value, confidence: 0.95, n: 25 }
}

fn amount(ticks: f64, count: f64) -> Amount {
    let mut counts = [exactly(0.0); crate::EVENTS_MAX];
    counts[0] = exactly(count);
    Amount { ticks: exactly(ticks), counts }
}

/// Returns the overhead used in the tests: an empty region measures 30 ticks and 10 counts, and its
/// entry and exit together cost 100 ticks and 25 counts.
fn cost() -> Cost {
    Cost { inside: amount(30.0, 10.0), pair: amount(100.0, 25.0) }
}

fn log(outcomes: &[Outcome]) -> Log {
    let log = Log::new(7, outcomes, "read(2)");
    log.cost.get_or_init(cost);
    log.add(Region::OUTSIDE, None).unwrap();
    log
}

fn event(name: &str) -> Result<Event, String> {
    Ok(Event {
        name: name.to_owned(),
        native: None,
        unit: "events",
        class: linerate_counters::event::Class::Hardware,
        selector: linerate_linux::perf::Selector::new(0, 0),
        is_user_only: false,
        unit_cpus: Vec::new(),
    })
}

fn regions(log: Log, events: &[Result<Event, String>]) -> RegionsReport {
    regions_of(log, events, None)
}

/// Reports a log's regions, at two ticks per nanosecond.
fn regions_of(log: Log, events: &[Result<Event, String>], stay: Option<Stay>) -> RegionsReport {
    let names = ["a", "b", "c"].map(str::to_owned);
    let asked: Vec<String> = events
        .iter()
        .map(|event| event.as_ref().map_or("unknown".to_owned(), |event| event.name.clone()))
        .collect();
    report(&[Arc::new(log)], &[stay], 2.0, &names, &asked, events)
}

/// A visit to a region in a synthetic program: its own ticks and counts, and the visits nested in
/// it.
#[derive(Clone, Debug)]
struct Visit {
    region: u32,
    ticks: u64,
    counts: u64,
    inner: Vec<Visit>,
}

fn visits() -> impl Strategy<Value = Visit> {
    let leaf = (0u32..3, 0u64..10_000, 0u64..10_000).prop_map(|(region, ticks, counts)| Visit {
        region,
        ticks,
        counts,
        inner: Vec::new(),
    });
    leaf.prop_recursive(4, 24, 4, |inner| {
        (0u32..3, 0u64..10_000, 0u64..10_000, prop::collection::vec(inner, 0..4))
            .prop_map(|(region, ticks, counts, inner)| Visit { region, ticks, counts, inner })
    })
}

/// Adds a visit's true ticks, own ticks and counts to `truth`, by path, and adds the visit to the
/// log as a real program would, overhead included. Returns the ticks and counts that the visit adds
/// to the enclosing region.
fn play(
    visit: &Visit,
    outer: (&str, usize),
    log: &Log,
    places: &mut BTreeMap<String, usize>,
    truth: &mut BTreeMap<String, [u64; 3]>,
) -> [u64; 2] {
    let name = ["a", "b", "c"][visit.region as usize];
    let path = if outer.0.is_empty() { name.to_owned() } else { format!("{}/{name}", outer.0) };
    let place = *places
        .entry(path.clone())
        .or_insert_with(|| log.add(Region(visit.region), Some(outer.1)).unwrap().0);
    let before = subtree(visit);
    let mut shown = [visit.ticks + 30, visit.counts + 10];
    for inner in &visit.inner {
        let around = play(inner, (&path, place), log, places, truth);
        shown = [shown[0] + around[0], shown[1] + around[1]];
    }
    log.nodes()[place].add_visit(shown[0], [shown[1]].into_iter());
    let sums = truth.entry(path).or_default();
    *sums = [sums[0] + before[0], sums[1] + visit.ticks, sums[2] + before[1]];
    [shown[0] + 70, shown[1] + 15]
}

/// Returns the true ticks and counts of a visit and everything nested in it.
fn subtree(visit: &Visit) -> [u64; 2] {
    let inner = visit.inner.iter().map(subtree);
    inner.fold([visit.ticks, visit.counts], |sum, next| [sum[0] + next[0], sum[1] + next[1]])
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// However regions are nested, subtracting the overhead gives exactly the true values.
    #[test]
    fn the_cost_is_subtracted_exactly(program in prop::collection::vec(visits(), 1..4)) {
        let log = log(&[Ok(Tier::Hw)]);
        let (mut places, mut truth) = (BTreeMap::new(), BTreeMap::new());
        for visit in &program {
            play(visit, ("", 0), &log, &mut places, &mut truth);
        }
        let report = regions(log, &[event("instructions")]);
        prop_assert_eq!(report.regions.len(), truth.len());
        for region in &report.regions {
            let [ticks, own, counts] = truth[&region.name];
            prop_assert_eq!(region.ticks.as_number(), Some(ticks as f64), "{:?}", region);
            prop_assert_eq!(region.own_ticks.as_number(), Some(own as f64), "{:?}", region);
            let count = region.events[0].count.as_number();
            prop_assert_eq!(count, Some(counts as f64), "{:?}", region);
        }
    }
}

/// Returns the report for one region with this many visits, each of `ticks` ticks.
fn one(visits: u64, ticks: u64) -> RegionReport {
    let log = log(&[]);
    let (place, node) = log.add(Region(0), Some(0)).unwrap();
    assert_eq!(place, 1);
    (0..visits).for_each(|_| node.add_visit(ticks, std::iter::empty()));
    regions(log, &[]).regions.remove(0)
}

#[test]
fn a_region_is_judged_from_ten_times_the_cost_on() {
    let verdict = |ticks| one(4, ticks).verdict;
    assert_eq!(verdict(1030), "1000 ticks a visit");
    assert!(verdict(1029).starts_with("cannot tell: a visit takes 999 ticks, less than ten"));
    let noise = verdict(29);
    assert!(noise.starts_with("cannot tell: the region's 116 ticks are no more than"), "{noise}");
    assert!(noise.contains("400 ticks of calibrated overhead for measuring it"), "{noise}");
    assert_eq!(one(0, 0).verdict, "cannot tell: entered but not yet left");
}

#[test]
fn what_is_less_than_the_cost_is_absent_with_a_reason() {
    let region = one(4, 29);
    assert_eq!(region.ticks.as_number(), None);
    assert!(
        region
            .ticks
            .reason
            .unwrap()
            .contains("the count is below the calibrated measurement overhead")
    );
    assert_eq!(one(0, 0).ticks.reason.unwrap(), "entered but not yet left");
}

#[test]
fn an_uncertain_cost_makes_an_interval() {
    let spread = Estimate { low: 20.0, high: 45.0, ..exactly(30.0) };
    let ticks = figure("ticks", corrected(9000, 4, 2, spread, exactly(100.0)), 4, Tier::Sw);
    assert_eq!(ticks.as_number(), Some(8680.0));
    // The low end subtracts four times the highest overhead (180 + 200 ticks); the high end
    // subtracts nothing.
    assert_eq!((ticks.low, ticks.high), (Some(7480.0), Some(9000.0)));
    let ticks = figure("ticks", corrected(9, 4, 2, exactly(0.0), exactly(0.0)), 4, Tier::Sw);
    assert_eq!((ticks.low, ticks.high), (None, None));
    assert!(ticks.method.contains("exact"));
}

#[test]
fn a_verdict_has_the_share_and_cycles_per_instruction() {
    let log = log(&[Ok(Tier::Hw), Ok(Tier::Hw)]);
    let (outer, outer_node) = log.add(Region(0), Some(0)).unwrap();
    let (_, inner_node) = log.add(Region(1), Some(outer)).unwrap();
    inner_node.add_visit(3030, [2010, 4000].into_iter());
    inner_node.add_lost();
    outer_node.add_visit(6000 + 30 + 100, [1_000_025 + 10, 0].into_iter());
    let report = regions(log, &[event("instructions"), event("cycles")]);
    assert_eq!(
        report.regions[1].verdict,
        "50 % of the ticks of a; 2 cycles per instruction; 1 visit to nested regions not \
         recorded, because regions are nested too deeply or there are too many"
    );
    assert_eq!((report.tier, report.reading.as_str()), (Tier::Hw, "read(2)"));
}

/// An outer region has one visit, which contains one nested region with real work and many empty
/// ones. With one empty region too many, the outer region gets no verdict.
#[test]
fn the_cost_of_inner_regions_keeps_an_outer_one_from_a_verdict() {
    let verdicts = |empty: u64| {
        let log = log(&[]);
        let (outer, outer_node) = log.add(Region(0), Some(0)).unwrap();
        let (_, work) = log.add(Region(1), Some(outer)).unwrap();
        let (_, tiny) = log.add(Region(2), Some(outer)).unwrap();
        work.add_visit(200_030, std::iter::empty());
        (0..empty).for_each(|_| tiny.add_visit(30, std::iter::empty()));
        outer_node.add_visit(400_030 + (1 + empty) * 100, std::iter::empty());
        regions(log, &[]).regions
    };
    let few = verdicts(398);
    assert_eq!(few[0].verdict, "400000 ticks a visit");
    assert_eq!(few[1].verdict, "50 % of the ticks of a");
    assert_eq!((few[0].ticks.low, few[0].ticks.high), (Some(280_210.0), Some(439_930.0)));
    let many = verdicts(399);
    assert!(
        many[0].verdict.ends_with(
            "less than ten times the 40100 ticks of overhead for measuring it and the 400 visits \
             to nested regions; measure without the small nested regions"
        ),
        "{}",
        many[0].verdict
    );
    assert_eq!(
        many[1].verdict,
        "200000 ticks a visit; the share of a is unknown, because that region has no verdict"
    );
}

/// The inner and the outer region have CPU times of 2 and 4 µs (4000 and 8000 ticks), whatever
/// their wall time.
#[test]
fn processor_time_is_used_where_the_thread_was_away() {
    let verdicts = |inner: u64, outer: u64| {
        let log = log(&[Err(no_counters()), Ok(Tier::Sw)]);
        let (place, outer_node) = log.add(Region(0), Some(0)).unwrap();
        let (_, inner_node) = log.add(Region(1), Some(place)).unwrap();
        inner_node.add_visit(inner + 30, [0, 2000].into_iter());
        outer_node.add_visit(outer + 130, [0, 4000].into_iter());
        let events = [event("cycles"), Err("unknown".to_owned()), event("task_clock_ns")];
        let regions = regions(log, &events).regions;
        [regions[0].verdict.clone(), regions[1].verdict.clone()]
    };
    assert_eq!(verdicts(4000, 8000), ["8000 ticks a visit", "50 % of the ticks of a"]);
    let away = "the thread was off-CPU for";
    let used =
        "% of the region's ticks (unknown number of context switches); CPU time is used instead";
    assert_eq!(
        verdicts(36_000, 40_000),
        [
            format!("8000 ticks a visit; {away} 80 {used}"),
            format!("50 % of the CPU time of a; {away} 88.9 {used}"),
        ]
    );
}

#[test]
fn being_away_does_not_make_a_region_large_enough() {
    let log = log(&[Ok(Tier::Sw)]);
    let (_, node) = log.add(Region(0), Some(0)).unwrap();
    // The visit has only 10 ns more CPU time than an empty region, but is off-CPU for a long time.
    node.add_visit(100_030, [20].into_iter());
    let verdict = &regions(log, &[event("task_clock_ns")]).regions[0].verdict;
    assert!(verdict.starts_with("cannot tell: a visit takes 20 ticks"));
    assert!(verdict.contains("off-CPU for 100 % of the region's ticks"), "{verdict}");
}

/// A visit takes 10,000 ticks in a thread for which only the kernel's accounting of the whole
/// thread is known.
#[test]
fn no_verdict_for_a_thread_that_may_have_been_off_cpu() {
    let verdict = |stay: Stay| {
        let log = log(&[]);
        let (_, node) = log.add(Region(0), Some(0)).unwrap();
        node.add_visit(10_030, std::iter::empty());
        regions_of(log, &[], Some(stay)).regions[0].verdict.clone()
    };
    let told = "10000 ticks a visit";
    let busy =
        Stay { wall: 50_000.0, on_processor: 49_600.0, waited: Some(400.0), switches: Some(2) };
    assert_eq!(verdict(busy), told);
    let slept = Stay { on_processor: 20_000.0, ..busy };
    assert_eq!(verdict(slept), told);
    let preempted = Stay { waited: Some(8000.0), ..slept };
    assert!(verdict(preempted).contains(
        "(2 involuntary context switches of the thread in total), up to 80 % of the ticks"
    ));
    let unknown = Stay { waited: None, ..slept };
    assert!(verdict(unknown).contains("up to 100 % of the ticks"));
    assert_eq!(verdict(Stay { switches: Some(0), ..unknown }), told);
    let away = verdict(Stay { on_processor: 4012.0, ..slept });
    assert!(away.starts_with("cannot tell: the thread was off-CPU"), "{away}");
    assert!(away.contains("for at least 60 % of the ticks in its regions"), "{away}");
}

fn no_counters() -> Explanation {
    Explanation {
        cause: Cause::NoVirtualPmu,
        sentence: "no counters".to_owned(),
        fix: Some("a command".to_owned()),
    }
}

#[test]
fn an_event_that_is_not_counted_says_why_in_its_place() {
    let log = log(&[Err(no_counters()), Ok(Tier::Sw)]);
    let (_, node) = log.add(Region(0), Some(0)).unwrap();
    node.add_visit(50_000, [0, 9].into_iter());
    let events = [event("cycles"), Err("unknown event `x`".to_owned()), event("page_faults")];
    let report = regions(log, &events);
    let counts: Vec<_> = report.regions[0]
        .events
        .iter()
        .map(|e| (e.name.as_str(), e.count.as_number(), e.count.reason.as_deref()))
        .collect();
    assert_eq!(
        counts,
        [
            ("cycles", None, Some("no counters; try: a command")),
            ("unknown", None, Some("unknown event `x`")),
            ("page_faults", Some(9.0), None),
        ]
    );
    assert_eq!(report.tier, Tier::Sw);
}

/// Returns each event's count, with its method or the reason why it has no count. Two events of the
/// report are read from registers and one through the kernel; `disturb` may spoil a visit.
fn by_registers(disturb: fn(&Log, &Node)) -> Vec<(Option<f64>, String)> {
    let outcomes = [Ok(Tier::User), Ok(Tier::User), Ok(Tier::Sw)];
    let mut log = log(&outcomes);
    (log.registers, log.apart_ms) = (vec![true, true, false], 67);
    let (_, node) = log.add(Region(0), Some(0)).unwrap();
    node.add_visit(50_000, [40, 50, 9].into_iter());
    node.add_visit(50_000, [40, 50, 9].into_iter());
    disturb(&log, &node);
    let events = [event("instructions"), event("cycles"), event("page_faults")];
    let report = regions(log, &events);
    let text = |count: &Figure| count.reason.clone().unwrap_or(count.method.clone());
    let counts = report.regions[0].events.iter();
    counts.map(|e| (e.count.as_number(), text(&e.count))).collect()
}

#[test]
fn counts_by_registers_say_so_and_are_the_threads_own_or_absent() {
    let whole = by_registers(|_, _| {});
    assert_eq!(whole[0].0, Some(60.0));
    assert!(whole[0].1.starts_with("registers, from entry to exit"), "{whole:?}");
    assert!(whole[2].1.starts_with("from entry"), "{whole:?}");
    for (disturb, reason) in [
        ((|_, node| node.add_left()) as fn(&Log, &Node), "left its CPU in 1 of 2 visits"),
        (|_, node| node.add_long(), "in 1 of 2 visits the registers went unread"),
        (|_, node| node.add_long(), "went unread for so long (67 ms)"),
    ] {
        let told = by_registers(disturb);
        assert!(told[0].0.is_none() && told[0].1.contains(reason), "{told:?}");
        assert!(told[1].0.is_none() && told[1].1.contains(reason), "{told:?}");
        assert_eq!(told[2].0, Some(18.0), "the kernel counts threads separately: {told:?}");
    }
    let closed = by_registers(|log, _| log.lose_counters());
    assert!(closed[0].1.starts_with("register access was revoked during the run"), "{closed:?}");
    assert!(closed[2].1.contains("something else claimed them"), "{closed:?}");
}

#[test]
fn threads_are_summed_for_scripts() {
    let regions = [one(4, 1030), one(6, 2030)];
    let mut regions = regions.map(|region| RegionReport { units: 10, ..region });
    regions[1].tid = 8;
    let report = RegionsReport { regions: regions.to_vec(), ..fixtures::regions() };
    let figures = report.figures();
    assert_eq!(figures["a.ticks_per_visit"].as_number(), Some(1600.0));
    assert_eq!(figures["a.ticks_per_unit"].as_number(), Some(800.0));
    assert_eq!(figures["a.ticks_per_unit"].unit, "ticks/unit");
    let absent = RegionsReport { regions: vec![one(4, 1030), one(0, 0)], ..report };
    let figures = absent.figures();
    assert_eq!(figures["a.ticks_per_visit"].as_number(), None);
    assert!(figures["a.ticks_per_visit"].reason.is_some());
}
