// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with synthetic machines whose costs are known.

use super::*;
use crate::resample::normal;
use fastrand::Rng;
use proptest::prelude::*;

const KIB: u64 = 1 << 10;
const PAGE: u64 = 4 * KIB;

/// A machine with 32 KiB of L1, 1 MiB of L2, 32 MiB of L3, and TLB levels of 72 and 2048 entries. A
/// walk adds 2 + 6 ns, or 49 ns if the page tables are in memory as well.
struct Machine {
    noise: f64,
    passes: usize,
}

const SIZES: [Option<u64>; 4] = [Some(32 * KIB), Some(1024 * KIB), Some(32 * 1024 * KIB), None];
const LATENCIES: [f64; 4] = [1.1, 3.8, 11.4, 98.0];
const ENTRIES: [f64; 2] = [72.0, 2048.0];
const FIRST: f64 = 1.9;
const WALKS: [f64; 4] = [8.0, 8.0, 8.0, 49.0];

impl Machine {
    fn level(bytes: u64) -> usize {
        SIZES.iter().position(|size| size.is_none_or(|size| bytes <= size)).unwrap()
    }

    /// Simulates address translation by drawing each load's page.
    fn translation(bytes: u64, random: &mut Rng) -> f64 {
        let (pages, loads) = (bytes / PAGE, 10_000);
        let load = |page: f64| match ENTRIES.iter().position(|&entries| page < entries) {
            Some(0) => 0.0,
            Some(_) => FIRST,
            None => WALKS[Self::level(bytes)],
        };
        (0..loads).map(|_| load(random.u64(..pages.max(1)) as f64)).sum::<f64>() / f64::from(loads)
    }

    /// Returns the time of each pass's fastest window.
    fn passes(&self, time: f64, random: &mut Rng) -> Vec<f64> {
        (0..self.passes).map(|_| time * (1.0 + self.noise * normal(random).abs())).collect()
    }

    /// Returns the page-local and the random curve.
    fn curves(&self, random: &mut Rng) -> (Vec<steps::Sample>, Vec<steps::Sample>) {
        let sizes = (0..56)
            .map(|i| ((8 * KIB) as f64 * 2_f64.powf(f64::from(i) / 4.0)) as u64 / PAGE * PAGE);
        let sizes = sizes.map(|bytes| {
            let time = LATENCIES[Self::level(bytes)];
            let pages = bytes as f64 / PAGE as f64;
            let missed = match ENTRIES.iter().rposition(|&entries| pages > entries) {
                Some(0) => FIRST,
                Some(_) => WALKS[Self::level(bytes)],
                None => 0.0,
            };
            let local = self.passes(time + missed / 64.0, random);
            let slow = self.passes(time + Self::translation(bytes, random), random);
            (steps::Sample { bytes, passes: local }, steps::Sample { bytes, passes: slow })
        });
        sizes.unzip()
    }
}

fn exactly(value: f64) -> Estimate {
    Estimate { value, low: 0.99 * value, high: 1.01 * value, confidence: 0.95, n: 5 }
}

fn tlb_level(entries: f64, cost: f64) -> tlb::Level {
    let (onset, cost) = (exactly(entries), exactly(cost));
    tlb::Level { entries: Some(onset), onset, half: onset, cost, is_step: true }
}

fn found_levels() -> Vec<steps::Level> {
    let level = |(size, latency): (Option<u64>, f64)| steps::Level {
        size: size.map(|bytes| exactly(bytes as f64)),
        latency: exactly(latency),
        settled: true,
    };
    SIZES.into_iter().zip(LATENCIES).map(level).collect()
}

fn table_of(machine: &Machine, seed: u64) -> Vec<Cost> {
    let (local, random) = machine.curves(&mut Rng::with_seed(seed));
    table(&Inputs {
        levels: &found_levels(),
        outstanding: &[None, None, Some(exactly(10.0))],
        tlb: &[tlb_level(ENTRIES[0], FIRST), tlb_level(ENTRIES[1], 6.1)],
        local: &local,
        random: &random,
        page_bytes: PAGE,
        line_bytes: 64,
        confidence: 0.95,
        seed,
    })
}

fn cost_at(costs: &[Cost], level: usize, state: TlbState) -> Cost {
    *costs.iter().find(|cost| cost.level == level && cost.state == state).unwrap()
}

#[test]
fn each_level_has_a_cost_for_each_place_of_its_translation() {
    let costs = table_of(&Machine { noise: 0.002, passes: 4 }, 1);
    assert_eq!(costs.len(), 12);
    let expected = [
        (0, TlbState::Hit, 1.1, Basis::Measured),
        (0, TlbState::MissL1, 3.0, Basis::Added),
        (0, TlbState::Walk, 9.1, Basis::Added),
        (1, TlbState::Hit, 3.8, Basis::Measured),
        (1, TlbState::MissL1, 5.7, Basis::Measured),
        (1, TlbState::Walk, 11.8, Basis::Added),
        (2, TlbState::MissL1, 13.3, Basis::Measured),
        (2, TlbState::Walk, 19.4, Basis::Measured),
        (3, TlbState::Walk, 147.0, Basis::Measured),
    ];
    for (level, state, truth, basis) in expected {
        let cost = cost_at(&costs, level, state);
        let time = cost.time.unwrap();
        assert!((time.value / truth - 1.0).abs() < 0.03, "{truth}: {cost:?}");
        assert_eq!(cost.basis, basis, "{cost:?}");
        assert!(time.low < time.value && time.value < time.high);
    }
}

#[test]
fn the_misses_of_a_page_local_chase_are_taken_off() {
    let costs = table_of(&Machine { noise: 0.0001, passes: 4 }, 2);
    // One load in 64 takes 49 ns more, which is included in the measured latency.
    let hit = cost_at(&costs, 3, TlbState::Hit).time.unwrap().value;
    assert!((hit - (98.0 - 49.0 / 64.0)).abs() < 0.05, "{hit}");
    assert_eq!(cost_at(&costs, 0, TlbState::Hit).time, Some(exactly(1.1)));
}

#[test]
fn overlapped_loads_share_their_time() {
    let costs = table_of(&Machine { noise: 0.002, passes: 4 }, 3);
    let cost = cost_at(&costs, 2, TlbState::Hit);
    let overlapped = cost.overlapped.unwrap();
    assert!((overlapped.value - cost.time.unwrap().value / 10.0).abs() < 1e-9, "{cost:?}");
    assert!(overlapped.low < overlapped.value && overlapped.value < overlapped.high);
    assert!(costs.iter().filter(|cost| cost.level != 2).all(|cost| cost.overlapped.is_none()));
}

#[test]
fn without_an_upper_end_of_the_overlap_there_is_no_lower_one_of_the_time() {
    let unbounded = Estimate { high: f64::INFINITY, ..exactly(30.0) };
    let time = exactly(90.0).over(unbounded);
    assert_eq!((time.value, time.low), (3.0, 0.0));
    assert!(time.high > 3.0 && time.high < 3.1, "{time:?}");
}

#[test]
fn intervals_hold_the_truth() {
    let machine = Machine { noise: 0.01, passes: 4 };
    let experiments = 40;
    let holds = |seed| {
        let walk = cost_at(&table_of(&machine, seed), 3, TlbState::Walk).time.unwrap();
        walk.low <= 147.0 && 147.0 <= walk.high
    };
    let hits = (0..experiments).filter(|&seed| holds(seed)).count();
    assert!(hits as f64 >= 0.9 * experiments as f64, "{hits} of {experiments}");
}

#[test]
fn without_levels_of_the_buffer_there_are_only_hits() {
    let levels = found_levels();
    let inputs = Inputs {
        levels: &levels,
        outstanding: &[],
        tlb: &[],
        local: &[],
        random: &[],
        page_bytes: PAGE,
        line_bytes: 64,
        confidence: 0.95,
        seed: 4,
    };
    let costs = table(&inputs);
    assert!(costs.iter().all(|cost| cost.state == TlbState::Hit), "{costs:?}");
    let times: Vec<f64> = costs.iter().map(|cost| cost.time.unwrap().value).collect();
    assert_eq!(times, LATENCIES);
    assert_eq!(table(&Inputs { levels: &[], ..inputs }), []);
}

/// Asserts that costs rise with state and level, are not negative, and have useful intervals.
fn assert_possible(costs: &[Cost]) {
    for cost in costs {
        for time in [cost.time, cost.overlapped].into_iter().flatten() {
            assert!(time.low >= 0.0 && time.low <= time.value, "{cost:?}");
            assert!(time.high == f64::INFINITY || time.high - time.low <= time.value, "{cost:?}");
        }
        let nearer = |other: &&Cost| {
            (other.level == cost.level && other.state < cost.state)
                || (other.level < cost.level && other.state == cost.state)
        };
        for other in costs.iter().filter(nearer) {
            let Some((less, more)) = other.time.zip(cost.time) else { continue };
            assert!(less.value <= more.value, "{other:?} {cost:?}");
        }
    }
}

#[test]
fn noise_makes_no_cost_impossible() {
    for (seed, noise) in [(1, 0.01), (2, 0.1), (3, 0.5), (4, 2.0)] {
        for seed in [seed, seed + 10] {
            assert_possible(&table_of(&Machine { noise, passes: 3 }, seed));
        }
    }
}

#[test]
fn costs_of_little_worth_are_unknown() {
    let levels = found_levels();
    let wide = Estimate { low: -50.6, high: 63.9, ..exactly(6.64) };
    let open = Estimate { high: f64::INFINITY, ..exactly(12.0) };
    let mut second = tlb_level(ENTRIES[1], 6.1);
    second.cost = wide;
    let inputs = Inputs {
        levels: &levels,
        outstanding: &[Some(open)],
        tlb: &[tlb_level(ENTRIES[0], FIRST), second],
        local: &[],
        random: &[],
        page_bytes: PAGE,
        line_bytes: 64,
        confidence: 0.95,
        seed: 4,
    };
    let costs = table(&inputs);
    assert_possible(&costs);
    assert_eq!(cost_at(&costs, 0, TlbState::Walk).time, None);
    assert!(cost_at(&costs, 0, TlbState::Hit).overlapped.is_none(), "{costs:?}");
}

#[test]
fn a_contradiction_leaves_what_was_measured() {
    let cost = |state, time, basis| Cost {
        level: 3,
        state,
        time: Some(exactly(time)),
        overlapped: None,
        basis,
    };
    let walk = cost(TlbState::Walk, 128.0, Basis::Measured);
    let after = |mut miss: Cost| {
        let mut walk = walk;
        reconcile(&mut miss, &mut walk);
        (miss.time.map(|time| time.value), walk.time.map(|time| time.value))
    };
    assert_eq!(after(cost(TlbState::MissL1, 141.0, Basis::Added)), (None, Some(128.0)));
    assert_eq!(after(cost(TlbState::MissL1, 141.0, Basis::Measured)), (None, None));
    assert_eq!(after(cost(TlbState::MissL1, 129.0, Basis::Added)), (Some(129.0), Some(129.0)));
    assert_eq!(after(cost(TlbState::MissL1, 100.0, Basis::Added)), (Some(100.0), Some(128.0)));
}

proptest! {
    #[test]
    fn no_curves_make_it_panic(
        curves in prop::collection::vec(
            (0_u64..1 << 40, prop::collection::vec(any::<f64>(), 0..4)), 0..12),
        sizes in prop::collection::vec((any::<f64>(), any::<f64>()), 0..4),
        tlb_levels in prop::collection::vec((any::<f64>(), any::<f64>()), 0..4),
        page_bytes in 0_u64..1 << 22,
        line_bytes in 0_u64..256,
    ) {
        let samples: Vec<steps::Sample> =
            curves.into_iter().map(|(bytes, passes)| steps::Sample { bytes, passes }).collect();
        let level = |(size, latency)| steps::Level {
            size: Some(exactly(size)), latency: exactly(latency), settled: false,
        };
        let levels: Vec<steps::Level> = sizes.into_iter().map(level).collect();
        let tlb: Vec<tlb::Level> = tlb_levels.into_iter().map(|(e, c)| tlb_level(e, c)).collect();
        let costs = table(&Inputs {
            levels: &levels, outstanding: &[], tlb: &tlb, local: &samples, random: &samples,
            page_bytes, line_bytes, confidence: 0.95, seed: 5,
        });
        prop_assert!(costs.len() <= 3 * levels.len());
    }
}
