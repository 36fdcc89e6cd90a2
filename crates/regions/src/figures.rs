// SPDX-License-Identifier: MIT OR Apache-2.0
//! From totals to figures: own cost subtracted, with intervals. What can be said: `verdict`.
//!
//! Computes from what it is given; reads neither clock nor counter.

use crate::cost::Cost;
use crate::regions::Region;
use crate::stay::Stay;
use crate::tree::{Log, Node, Totals};
use linerate_counters::event::Event;
use linerate_record::regions::{RegionEvent, RegionReport, RegionsReport};
use linerate_record::stats::Estimate;
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;
use std::sync::Arc;

const METHOD: &str = "between entering and leaving, own cost subtracted";
/// Of figures without an interval: why there is none.
const EXACT_METHOD: &str = "between entering and leaving; measuring adds none, so it is exact";
/// How counts by registers begin to tell how they are had.
const REGISTERS: &str = "registers";
const CLOSED: &str = "the registers were closed meanwhile: the module pmu_user was unloaded, or \
                      perf counted on this CPU; load it again and run it again";
const TAKEN: &str = "somebody else took the counters meanwhile; run it again";
const COST_METHOD: &str = "median of 25 series of 16 empty regions";
const TICKS: &str = "ticks";

/// The real cost of an edge lies between nothing (it overlaps with the program's own work) and this
/// many times the calibrated one. The calibrated edges are warm and follow each other closely;
/// 100,000 empty regions inside another, with a system call per edge, on a guest whose processors
/// were taken away now and then, were seen to cost it 1.8 to 3.1 times as much.
const TIMES_CALIBRATED: f64 = 4.0;

/// The regions of all threads. `stays`: where each thread was, as far as that is known; `asked`:
/// the events by name, `resolved`: what they are here.
pub(crate) fn report(
    logs: &[Arc<Log>],
    stays: &[Option<Stay>],
    ticks_per_ns: f64,
    names: &[String],
    asked: &[String],
    resolved: &[Result<Event, String>],
) -> RegionsReport {
    let tiers = logs.iter().flat_map(|log| log.outcomes.iter().flatten().copied());
    let reading = logs.first().map_or("timestamp counter only", |log| log.reading);
    let cost = logs.iter().find_map(|log| log.cost.get());
    RegionsReport {
        tier: tiers.min().unwrap_or(Tier::Sw),
        reading: reading.to_owned(),
        own_ticks: match cost {
            Some(cost) => Figure::number(TICKS, cost.pair.ticks, Tier::Sw, COST_METHOD),
            None => Figure::absent(TICKS, Tier::Sw, COST_METHOD, "no thread entered a region"),
        },
        regions: logs
            .iter()
            .zip(stays)
            .flat_map(|(log, stay)| {
                let (stay, cost) = (stay.as_ref(), log.cost.get()?);
                let thread = ThreadReport { log, cost, stay, ticks_per_ns, names, asked, resolved };
                Some(thread.regions())
            })
            .flatten()
            .collect(),
    }
}

/// What is needed for the figures of one thread.
pub(crate) struct ThreadReport<'a> {
    pub(crate) log: &'a Log,
    pub(crate) cost: &'a Cost,
    pub(crate) stay: Option<&'a Stay>,
    pub(crate) ticks_per_ns: f64,
    names: &'a [String],
    asked: &'a [String],
    pub(crate) resolved: &'a [Result<Event, String>],
}

/// A node, its numbers, and those of what is in it.
pub(crate) struct Branch {
    pub(crate) node: Arc<Node>,
    pub(crate) name: String,
    pub(crate) totals: Totals,
    /// Of the nodes directly inside, together.
    inner: Totals,
    /// Visits of all nodes inside, at any depth.
    pub(crate) deep_visits: u64,
}

impl Branch {
    /// Whether the program entered it: neither the outside of all regions nor the calibration.
    pub(crate) fn is_region(&self) -> bool {
        self.node.parent.is_some() && self.node.region != Region::CALIBRATION
    }
}

impl ThreadReport<'_> {
    fn regions(&self) -> Vec<RegionReport> {
        let branches = self.branches();
        let of_program = branches.iter().filter(|branch| branch.is_region());
        of_program.map(|branch| self.region(branch, &branches)).collect()
    }

    /// Every node, in the order in which they were made.
    ///
    /// Numbers go up from the last node to the first: a node's parent is older than it is.
    fn branches(&self) -> Vec<Branch> {
        let mut branches: Vec<Branch> = Vec::new();
        for node in self.log.nodes() {
            let own = self.names.get(node.region.0 as usize).map_or("?", String::as_str);
            let outer = node.parent.and_then(|parent| branches.get(parent));
            let name = match outer {
                Some(outer) if outer.node.parent.is_some() => format!("{}/{own}", outer.name),
                _ => own.to_owned(),
            };
            let totals = node.totals();
            branches.push(Branch { node, name, totals, inner: Totals::default(), deep_visits: 0 });
        }
        for index in (0..branches.len()).rev() {
            let (totals, deep) = (branches[index].totals, branches[index].deep_visits);
            let Some(parent) = branches[index].node.parent else { continue };
            let outer = &mut branches[parent];
            outer.deep_visits += totals.visits + deep;
            outer.inner.visits += totals.visits;
            outer.inner.ticks += totals.ticks;
            for (sum, count) in outer.inner.counts.iter_mut().zip(totals.counts) {
                *sum = sum.wrapping_add(count);
            }
        }
        branches
    }

    fn region(&self, branch: &Branch, branches: &[Branch]) -> RegionReport {
        let Totals { visits, units, .. } = branch.totals;
        let all = self.ticks(branch);
        let own = corrected_own(&branch.totals, &branch.inner, self.cost);
        let mut report = RegionReport {
            name: branch.name.clone(),
            tid: self.log.tid,
            visits,
            units,
            ticks: figure(TICKS, all, visits, Tier::Sw),
            own_ticks: figure(TICKS, own, visits, Tier::Sw),
            events: self.events(branch),
            verdict: String::new(),
        };
        report.verdict = self.verdict(&report, branch, branches);
        report
    }

    /// The ticks in a region, without what measuring cost.
    pub(crate) fn ticks(&self, branch: &Branch) -> Estimate {
        let (inside, pair) = (self.cost.inside.ticks, self.cost.pair.ticks);
        let Totals { visits, ticks, .. } = branch.totals;
        corrected(ticks, visits, branch.deep_visits, inside, pair)
    }

    /// The counts in a region, or why there are none.
    fn events(&self, branch: &Branch) -> Vec<RegionEvent> {
        let mut place = 0;
        let mut events = Vec::new();
        for (name, event) in self.asked.iter().zip(self.resolved) {
            let absent = |reason: &str| Figure::absent("events", Tier::Sw, METHOD, reason);
            let (name, count) = match event {
                Err(reason) => (name.clone(), absent(reason)),
                Ok(event) => {
                    place += 1;
                    (event.name.clone(), self.count(branch, event, place - 1))
                }
            };
            events.push(RegionEvent { name, count });
        }
        events
    }

    fn count(&self, branch: &Branch, event: &Event, place: usize) -> Figure {
        let absent = |reason: &str| Figure::absent(event.unit, Tier::Sw, METHOD, reason);
        let tier = match &self.log.outcomes[place] {
            Ok(tier) => *tier,
            Err(refusal) => {
                let fix = refusal.fix.as_ref().map(|fix| format!("; try: {fix}"));
                return absent(&format!("{}{}", refusal.sentence, fix.unwrap_or_default()));
            }
        };
        let is_by_registers = self.log.registers[place];
        if self.log.has_lost_counters() {
            return absent(if is_by_registers { CLOSED } else { TAKEN });
        }
        if let Some(reason) = is_by_registers.then(|| self.not_its_own(&branch.totals)).flatten() {
            return absent(&reason);
        }
        let count = self.corrected_count(branch, place);
        let count = figure(event.unit, count, branch.totals.visits, tier);
        match is_by_registers {
            true => Figure { method: format!("{REGISTERS}, {}", count.method), ..count },
            false => count,
        }
    }

    /// Why registers do not tell what the thread itself did in a region.
    fn not_its_own(&self, totals: &Totals) -> Option<String> {
        let Totals { visits, left, long, .. } = *totals;
        if left > 0 {
            return Some(format!(
                "the thread left its CPU in {left} of {visits} visits, and its registers counted \
                 what others did there; try: sudo chrt --fifo 1 taskset -c CPU COMMAND  # on a CPU \
                 of its own"
            ));
        }
        (long > 0).then(|| {
            format!(
                "in {long} of {visits} visits the registers were not read for longer than their 32 \
                 bits are sure to hold ({} ms); put regions inside this one",
                self.log.apart_ms
            )
        })
    }

    /// The count of the event at a place of the log, without what measuring cost.
    pub(crate) fn corrected_count(&self, branch: &Branch, place: usize) -> Estimate {
        let (visits, deep) = (branch.totals.visits, branch.deep_visits);
        let (inside, pair) = (self.cost.inside.counts[place], self.cost.pair.counts[place]);
        corrected(branch.totals.counts[place], visits, deep, inside, pair)
    }
}

/// `shown` without what `visits` of the region and `deep` visits inside it cost (see `cost`).
///
/// What is subtracted is known only as well as real edges resemble calibrated ones: the interval
/// goes from [`TIMES_CALIBRATED`] the cost to none of it.
fn corrected(shown: u64, visits: u64, deep: u64, inside: Estimate, pair: Estimate) -> Estimate {
    let (shown, visits, deep) = (shown as f64, visits as f64, deep as f64);
    Estimate {
        value: shown - visits * inside.value - deep * pair.value,
        low: shown - TIMES_CALIBRATED * (visits * inside.high + deep * pair.high),
        high: shown,
        confidence: inside.confidence.min(pair.confidence),
        n: visits as u64,
    }
}

/// Likewise, without the ticks that the regions directly inside show.
fn corrected_own(totals: &Totals, inner: &Totals, cost: &Cost) -> Estimate {
    let (inside, pair) = (cost.inside.ticks, cost.pair.ticks);
    // What a pair adds to the region around, beyond what the inner region shows itself.
    let around = Estimate {
        value: pair.value - inside.value,
        low: (pair.low - inside.high).max(0.0),
        high: (pair.high - inside.low).max(0.0),
        ..pair
    };
    let shown = totals.ticks.saturating_sub(inner.ticks);
    corrected(shown, totals.visits, inner.visits, inside, around)
}

/// A number with the interval of what was subtracted; exact where nothing was.
fn figure(unit: &str, estimate: Estimate, visits: u64, tier: Tier) -> Figure {
    if visits == 0 {
        return Figure::absent(unit, tier, METHOD, "entered and not left yet");
    }
    if estimate.value < 0.0 {
        let reason = "less was counted than measuring it costs by calibration: what is left is \
                      noise; put the region around more work";
        return Figure::absent(unit, tier, METHOD, reason);
    }
    if estimate.low == estimate.high {
        let exact = Figure::exact(unit, estimate.value, tier, EXACT_METHOD);
        return Figure { n: visits, ..exact };
    }
    Figure::number(unit, Estimate { low: estimate.low.max(0.0), ..estimate }, tier, METHOD)
}

/// What people quote: per region of all threads together, `NAME.ticks_per_visit` and, where units
/// of work were reported, `NAME.ticks_per_unit` and `NAME.EVENT_per_unit`.
pub(crate) fn quoted(report: &RegionsReport) -> BTreeMap<String, Figure> {
    let mut names: BTreeMap<&str, Vec<&RegionReport>> = BTreeMap::new();
    for region in &report.regions {
        names.entry(&region.name).or_default().push(region);
    }
    let mut figures = BTreeMap::from([("own_ticks".to_owned(), report.own_ticks.clone())]);
    for (name, threads) in names {
        let visits: u64 = threads.iter().map(|region| region.visits).sum();
        let units: u64 = threads.iter().map(|region| region.units).sum();
        let ticks = sum(threads.iter().map(|region| &region.ticks));
        figures.insert(format!("{name}.ticks_per_visit"), per(&ticks, visits, "visit"));
        if units == 0 {
            continue;
        }
        figures.insert(format!("{name}.ticks_per_unit"), per(&ticks, units, "unit"));
        let events = threads.first().map_or(0, |region| region.events.len());
        for event in 0..events {
            let of_event = threads.iter().filter_map(|region| region.events.get(event));
            let count = sum(of_event.map(|event| &event.count));
            let event = &threads[0].events[event].name;
            figures.insert(format!("{name}.{event}_per_unit"), per(&count, units, "unit"));
        }
    }
    figures
}

/// The figures together; absent, with its reason, if one of them is.
fn sum<'a>(figures: impl Iterator<Item = &'a Figure> + Clone) -> Figure {
    let missing = figures.clone().find(|figure| figure.as_number().is_none());
    let mut figures = figures.cloned();
    let first = missing.cloned().or_else(|| figures.next());
    let first = first.expect("a region has at least one thread");
    if first.as_number().is_none() {
        return first;
    }
    let number = |figure: &Figure| figure.as_number().unwrap_or(0.0);
    figures.fold(first, |sum, next| {
        let value = number(&sum) + number(&next);
        let low = sum.low.unwrap_or(number(&sum)) + next.low.unwrap_or(number(&next));
        let high = sum.high.unwrap_or(number(&sum)) + next.high.unwrap_or(number(&next));
        let confidence = sum.confidence.or(next.confidence).unwrap_or(0.95);
        let n = sum.n + next.n;
        Figure::number(&sum.unit, Estimate { value, low, high, confidence, n }, sum.tier, METHOD)
    })
}

fn per(figure: &Figure, units: u64, unit: &str) -> Figure {
    let units = units as f64;
    Figure {
        value: match figure.as_number() {
            Some(value) if units > 0.0 => linerate_record::Scalar::Number(value / units),
            _ => linerate_record::Scalar::Absent,
        },
        unit: format!("{}/{unit}", figure.unit),
        low: figure.low.map(|low| low / units),
        high: figure.high.map(|high| high / units),
        ..figure.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Amount;
    use proptest::prelude::*;

    fn exactly(value: f64) -> Estimate {
        Estimate { value, low: value, high: value, confidence: 0.95, n: 25 }
    }

    fn amount(ticks: f64, count: f64) -> Amount {
        let mut counts = [exactly(0.0); crate::EVENTS_MAX];
        counts[0] = exactly(count);
        Amount { ticks: exactly(ticks), counts }
    }

    /// 30 ticks and 10 counts inside of 100 and 25 in all.
    fn cost() -> Cost {
        Cost { inside: amount(30.0, 10.0), pair: amount(100.0, 25.0) }
    }

    fn log(outcomes: &[linerate_counters::thread_group::Outcome]) -> Log {
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
        })
    }

    fn regions(log: Log, events: &[Result<Event, String>]) -> RegionsReport {
        regions_of(log, events, None)
    }

    /// Two ticks are a nanosecond.
    fn regions_of(log: Log, events: &[Result<Event, String>], stay: Option<Stay>) -> RegionsReport {
        let names = ["a", "b", "c"].map(str::to_owned);
        let asked: Vec<String> = events
            .iter()
            .map(|event| event.as_ref().map_or("unknown".to_owned(), |event| event.name.clone()))
            .collect();
        report(&[Arc::new(log)], &[stay], 2.0, &names, &asked, events)
    }

    /// A visit of a made-up program: its own ticks and counts, and the visits inside it.
    #[derive(Clone, Debug)]
    struct Visit {
        region: u32,
        ticks: u64,
        counts: u64,
        inner: Vec<Visit>,
    }

    fn visits() -> impl Strategy<Value = Visit> {
        let leaf = (0u32..3, 0u64..10_000, 0u64..10_000)
            .prop_map(|(region, ticks, counts)| Visit { region, ticks, counts, inner: Vec::new() });
        leaf.prop_recursive(4, 24, 4, |inner| {
            (0u32..3, 0u64..10_000, 0u64..10_000, prop::collection::vec(inner, 0..4))
                .prop_map(|(region, ticks, counts, inner)| Visit { region, ticks, counts, inner })
        })
    }

    /// True ticks, true own ticks and true counts by path; visits noted in the log as a program
    /// would show them, own cost included. Gives what the region around sees.
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

    /// The true ticks and counts of a visit and all that is in it.
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

        /// Whatever is nested in whatever: without the cost, the truth is left.
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

    /// One region, visited so often and showing so many ticks.
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
        assert!(verdict(1029).starts_with(
            "cannot tell: beyond its own cost a visit takes 999 ticks, less than ten"
        ));
        let noise = verdict(29);
        assert!(noise.starts_with("cannot tell: it shows 116 ticks"), "{noise}");
        assert!(noise.contains("400 by calibration"), "{noise}");
        assert_eq!(one(0, 0).verdict, "cannot tell: entered and not left yet");
    }

    #[test]
    fn what_is_less_than_the_cost_is_absent_with_a_reason() {
        let region = one(4, 29);
        assert_eq!(region.ticks.as_number(), None);
        assert!(region.ticks.reason.unwrap().contains("less was counted than measuring it costs"));
        assert_eq!(one(0, 0).ticks.reason.unwrap(), "entered and not left yet");
    }

    #[test]
    fn an_uncertain_cost_makes_an_interval() {
        let spread = Estimate { low: 20.0, high: 45.0, ..exactly(30.0) };
        let ticks = figure("ticks", corrected(9000, 4, 2, spread, exactly(100.0)), 4, Tier::Sw);
        assert_eq!(ticks.as_number(), Some(8680.0));
        // Four times 180 and 200; nothing.
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
            "50 % of the ticks of a; 2 cycles per instruction; 1 visits of regions inside were not \
             kept: too deep or too many"
        );
        assert_eq!((report.tier, report.reading.as_str()), (Tier::Hw, "read(2)"));
    }

    /// An outer region with one visit, in it some of real work and many that are empty.
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
                "less than ten times the 40100 ticks that measuring it and the 400 visits of \
                 regions inside it costs; measure without the small regions inside"
            ),
            "{}",
            many[0].verdict
        );
        assert_eq!(
            many[1].verdict,
            "200000 ticks a visit; no share of a, of which nothing can be told"
        );
    }

    /// Processor time of 2 and 4 µs, 4000 and 8000 ticks, whatever the wall time.
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
        let away = "the thread was away from its processor for";
        let used = "% of the ticks in it (how often is not known), and processor time is used here";
        assert_eq!(
            verdicts(36_000, 40_000),
            [
                format!("8000 ticks a visit; {away} 80 {used}"),
                format!("50 % of the processor time of a; {away} 88.9 {used}"),
            ]
        );
    }

    #[test]
    fn being_away_does_not_make_a_region_large_enough() {
        let log = log(&[Ok(Tier::Sw)]);
        let (_, node) = log.add(Region(0), Some(0)).unwrap();
        // 10 ns more than the calibration counts inside, and a long time away.
        node.add_visit(100_030, [20].into_iter());
        let verdict = &regions(log, &[event("task_clock_ns")]).regions[0].verdict;
        assert!(verdict.starts_with("cannot tell: beyond its own cost a visit takes 20 ticks"));
        assert!(verdict.contains("away from its processor for 100 % of the ticks"), "{verdict}");
    }

    /// One visit of 10,000 ticks in a thread of which only the whole is known.
    #[test]
    fn a_thread_that_may_have_been_away_gets_no_verdict() {
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
            "(2 involuntary switches of the thread in all), and up to 80 % of the ticks"
        ));
        let unknown = Stay { waited: None, ..slept };
        assert!(verdict(unknown).contains("up to 100 % of the ticks"));
        assert_eq!(verdict(Stay { switches: Some(0), ..unknown }), told);
        let away = verdict(Stay { on_processor: 4012.0, ..slept });
        assert!(away.starts_with("cannot tell: the thread was away"), "{away}");
        assert!(away.contains("for 60 % or more of the ticks in its regions"), "{away}");
    }

    fn no_counters() -> linerate_counters::refusal::Refusal {
        linerate_counters::refusal::Refusal {
            cause: linerate_counters::refusal::Cause::NoVirtualPmu,
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

    /// Two events by registers and one of the kernel, with a visit that `disturb` spoils or not.
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
        assert!(whole[0].1.starts_with("registers, between entering"), "{whole:?}");
        assert!(whole[2].1.starts_with("between entering"), "{whole:?}");
        for (disturb, reason) in [
            ((|_, node| node.add_left()) as fn(&Log, &Node), "left its CPU in 1 of 2 visits"),
            (|_, node| node.add_long(), "in 1 of 2 visits the registers were not read"),
            (|_, node| node.add_long(), "sure to hold (67 ms)"),
        ] {
            let told = by_registers(disturb);
            assert!(told[0].0.is_none() && told[0].1.contains(reason), "{told:?}");
            assert!(told[1].0.is_none() && told[1].1.contains(reason), "{told:?}");
            assert_eq!(told[2].0, Some(18.0), "the kernel counts threads apart: {told:?}");
        }
        let closed = by_registers(|log, _| log.lose_counters());
        assert!(closed[0].1.starts_with("the registers were closed meanwhile"), "{closed:?}");
        assert!(closed[2].1.starts_with("somebody else took the counters"), "{closed:?}");
    }

    #[test]
    fn threads_are_summed_for_scripts() {
        let regions = [one(4, 1030), one(6, 2030)];
        let mut regions = regions.map(|region| RegionReport { units: 10, ..region });
        regions[1].tid = 8;
        let report = RegionsReport {
            tier: Tier::Sw,
            reading: String::new(),
            own_ticks: Figure::exact("ticks", 100.0, Tier::Sw, ""),
            regions: regions.to_vec(),
        };
        let figures = quoted(&report);
        assert_eq!(figures["a.ticks_per_visit"].as_number(), Some(1600.0));
        assert_eq!(figures["a.ticks_per_unit"].as_number(), Some(800.0));
        assert_eq!(figures["a.ticks_per_unit"].unit, "ticks/unit");
        let absent = RegionsReport { regions: vec![one(4, 1030), one(0, 0)], ..report };
        let figures = quoted(&absent);
        assert_eq!(figures["a.ticks_per_visit"].as_number(), None);
        assert!(figures["a.ticks_per_visit"].reason.is_some());
    }
}
