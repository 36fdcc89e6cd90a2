// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with TLBs simulated translation by translation, and with measurements on a machine whose
//! TLB is known.

mod contended;

use super::*;
use crate::resample::normal;
use fastrand::Rng;
use linerate_record::memory::PagesVerdict;
use proptest::prelude::*;
use std::cell::RefCell;

#[derive(Clone, Copy)]
enum Policy {
    Lru,
    /// Tree pseudo-LRU over a power-of-two number of ways.
    Tree,
    Random,
}

/// A level of `sets` x `ways` pages.
#[derive(Clone, Copy)]
struct Buffer {
    sets: usize,
    ways: usize,
    policy: Policy,
    cost: f64,
}

/// One set during simulation: its pages, and the state of the policy.
struct Set {
    pages: Vec<Option<u64>>,
    used: Vec<u64>,
    tree: Vec<bool>,
}

impl Buffer {
    fn entries(&self) -> f64 {
        (self.sets * self.ways) as f64
    }

    /// Returns the miss ratio of a chase through `pages` adjacent pages in random order.
    fn misses(&self, pages: u64, random: &mut Rng) -> f64 {
        let set = || Set {
            pages: vec![None; self.ways],
            used: vec![0; self.ways],
            tree: vec![false; self.ways],
        };
        let mut sets: Vec<Set> = (0..self.sets).map(|_| set()).collect();
        let mut order: Vec<u64> = (0..pages).collect();
        random.shuffle(&mut order);
        let (warm, counted) = (2, if matches!(self.policy, Policy::Random) { 4 } else { 1 });
        let mut misses = 0_u64;
        for round in 0..warm + counted {
            for (i, &page) in order.iter().enumerate() {
                let set = &mut sets[page as usize % self.sets];
                let now = round * pages + i as u64 + 1;
                misses += u64::from(!self.look_up(set, page, now, random) && round >= warm);
            }
        }
        misses as f64 / (counted * pages) as f64
    }

    fn look_up(&self, set: &mut Set, page: u64, now: u64, random: &mut Rng) -> bool {
        let place = |wanted| set.pages.iter().position(|&page| page == wanted);
        let found = place(Some(page));
        let way = found.or(place(None)).unwrap_or_else(|| match self.policy {
            Policy::Lru => (0..self.ways).min_by_key(|&way| set.used[way]).unwrap(),
            Policy::Random => random.usize(..self.ways),
            Policy::Tree => {
                let mut node = 1;
                while node < self.ways {
                    node = 2 * node + usize::from(set.tree[node]);
                }
                node - self.ways
            }
        });
        set.pages[way] = Some(page);
        set.used[way] = now;
        let mut node = way + self.ways;
        while matches!(self.policy, Policy::Tree) && node > 1 {
            set.tree[node / 2] = node % 2 == 0;
            node /= 2;
        }
        found.is_some()
    }
}

/// A machine whose L1 holds 768 lines.
struct Machine {
    levels: Vec<Buffer>,
    added: RefCell<BTreeMap<u64, f64>>,
}

/// Noise of 1 %, and the fraction of windows slowed down by interference.
#[derive(Clone, Copy)]
struct Noise {
    deviation: f64,
    disturbed: f64,
    passes: usize,
}

const QUIET: Noise = Noise { deviation: 0.001, disturbed: 0.02, passes: 6 };
const BUSY: Noise = Noise { deviation: 0.01, disturbed: 0.15, passes: 10 };

impl Machine {
    fn with_levels(levels: &[Buffer]) -> Self {
        Self { levels: levels.to_vec(), added: RefCell::default() }
    }

    /// Returns the time that translation adds to a load.
    fn added(&self, pages: u64) -> f64 {
        let mut random = Rng::with_seed(pages);
        let simulate = || {
            let added = self.levels.iter().map(|level| {
                if level.entries() >= pages as f64 {
                    0.0
                } else {
                    level.cost * level.misses(pages, &mut random)
                }
            });
            added.sum()
        };
        *self.added.borrow_mut().entry(pages).or_insert_with(simulate)
    }

    fn sample(&self, pages: u64, noise: Noise, random: &mut Rng) -> Sample {
        let packed = if pages <= 768 { 1.083 } else { 3.8 };
        let mut window = |time: f64| {
            let disturbed = if random.f64() < noise.disturbed { random.f64() } else { 0.0 };
            time * (1.0 + noise.deviation * normal(random).abs() + disturbed)
        };
        let spread = packed + self.added(pages);
        let mut passes = |time| (0..noise.passes).map(|_| window(time)).collect::<Vec<f64>>();
        Sample { pages, spread: passes(spread), packed: passes(packed) }
    }

    /// Measures as `linerate-memory` does: an initial grid, then the requested points.
    fn measured(&self, most: u64, noise: Noise, seed: u64) -> Vec<Sample> {
        let mut random = Rng::with_seed(seed);
        let mut samples = Vec::new();
        let mut wanted = start(most);
        for _ in 0..8 {
            samples.extend(wanted.iter().map(|&pages| self.sample(pages, noise, &mut random)));
            if wanted.is_empty() {
                break;
            }
            wanted = refine(&samples, &levels(&samples, 0.95, seed));
        }
        let found = levels(&samples, 0.95, seed);
        let beside = found.iter().flat_map(around_edge);
        samples.extend(beside.map(|pages| self.sample(pages, noise, &mut random)));
        assert!(samples.len() < 160, "{} sizes", samples.len());
        samples
    }

    fn found(&self, most: u64, noise: Noise, seed: u64) -> Vec<Level> {
        levels(&self.measured(most, noise, seed), 0.95, seed)
    }
}

const fn buffer(sets: usize, ways: usize, policy: Policy, cost: f64) -> Buffer {
    Buffer { sets, ways, policy, cost }
}

const FIRST: [Buffer; 5] = [
    buffer(1, 72, Policy::Lru, 1.895),
    buffer(1, 10, Policy::Lru, 1.0),
    buffer(16, 4, Policy::Lru, 1.9),
    buffer(16, 4, Policy::Tree, 1.9),
    buffer(32, 2, Policy::Lru, 1.9),
];
const RANDOM: Buffer = buffer(6, 4, Policy::Random, 1.9);
const SECOND: Buffer = buffer(64, 12, Policy::Lru, 6.0);
const SLOW: Buffer = buffer(1, 512, Policy::Random, 9.0);

#[test]
fn entries_of_the_first_level_are_exact() {
    for (seed, first) in (1..).zip(FIRST) {
        let found = Machine::with_levels(&[first, SECOND]).found(2048, BUSY, seed);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].entries.map(|e| e.value), Some(first.entries()), "{:?}", found[0]);
        let cost = found[0].cost;
        assert!((cost.value / first.cost - 1.0).abs() < 0.02, "{cost:?}");
    }
}

#[test]
fn distinguishes_a_step_from_a_gradual_climb() {
    for (first, is_step) in [(FIRST[0], true), (FIRST[4], true), (RANDOM, false)] {
        let found = Machine::with_levels(&[first, SLOW]).found(2048, QUIET, 3);
        assert_eq!(found[0].is_step, is_step, "{:?}", found[0]);
        assert_eq!(found[0].entries, is_step.then_some(found[0].onset));
        let slow = &found[1];
        assert!(!slow.is_step && slow.entries.is_none(), "{slow:?}");
        assert!((slow.onset.value / 512.0 - 1.0).abs() < 0.02, "{slow:?}");
        // With random replacement, half of the loads miss at 2 ln 2 times the TLB's size.
        assert!((slow.half.value / 710.0 - 1.0).abs() < 0.03, "{slow:?}");
        assert_eq!((slow.half.high, slow.cost.high), (f64::INFINITY, f64::INFINITY));
    }
}

#[test]
fn intervals_hold_the_truth() {
    let machine = Machine::with_levels(&[FIRST[0]]);
    let experiments = 60;
    let (mut entries, mut costs) = (0, 0);
    for seed in 0..experiments {
        let mut random = Rng::with_seed(seed);
        let pages = start(1024).into_iter().chain(68..77);
        let samples: Vec<Sample> = pages.map(|p| machine.sample(p, BUSY, &mut random)).collect();
        let found = levels(&samples, 0.95, seed);
        let holds = |e: Estimate, truth: f64| u64::from(e.low <= truth && truth <= e.high);
        entries += holds(found[0].onset, 72.0);
        costs += holds(found[0].cost, 1.895);
    }
    let enough = experiments * 9 / 10;
    assert!(entries >= enough && costs >= enough, "{entries} and {costs} of {experiments}");
}

#[test]
fn an_edge_between_two_points_stays_an_interval() {
    let machine = Machine::with_levels(&[FIRST[0]]);
    let mut random = Rng::with_seed(4);
    let samples: Vec<Sample> =
        start(1024).into_iter().map(|pages| machine.sample(pages, QUIET, &mut random)).collect();
    let found = levels(&samples, 0.95, 4);
    let wanted = refine(&samples, &found);
    let (low, high) = (found[0].onset.low, found[0].onset.high);
    assert!(low <= 72.0 && 72.0 <= high && high - low > 5.0, "{found:?}");
    assert!(wanted.iter().all(|pages| !start(1024).contains(pages)), "{wanted:?}");
    assert!(wanted.iter().any(|&pages| low <= pages as f64 && pages as f64 <= high), "{wanted:?}");
}

#[test]
fn a_disturbed_number_of_pages_is_measured_again() {
    let machine = Machine::with_levels(&[FIRST[0]]);
    let mut random = Rng::with_seed(5);
    let mut samples = machine.measured(1024, QUIET, 5);
    let disturbed = samples.iter().position(|sample| sample.pages == 64).unwrap();
    samples[disturbed].spread = vec![2.1, 2.4];
    let found = levels(&samples, 0.95, 5);
    assert_eq!(found[0].entries.map(|e| e.value), Some(72.0));
    assert_eq!(refine(&samples, &found), [64]);
    samples.push(machine.sample(64, QUIET, &mut random));
    assert!(refine(&samples, &levels(&samples, 0.95, 5)).is_empty());
}

#[test]
fn a_buffer_that_holds_everything_has_no_levels() {
    let found = Machine::with_levels(&[]).found(4096, BUSY, 6);
    assert_eq!(found, []);
}

#[test]
fn a_first_level_that_is_over_before_the_first_point_is_not_named() {
    let machine = Machine::with_levels(&[FIRST[1]]);
    let mut random = Rng::with_seed(7);
    let samples: Vec<Sample> = [8, 9, 11, 13, 16, 19, 23, 64]
        .map(|pages| machine.sample(pages, QUIET, &mut random))
        .into();
    assert_eq!(levels(&samples, 0.95, 7), []);
}

/// The machine of `facts`: 72 entries, and a climb without an end.
#[test]
fn a_climb_without_end_has_an_onset_and_a_lower_bound() {
    let flat = start(2200).into_iter().map(|pages| (pages, if pages > 72 { 2.16 } else { 0.0 }));
    let edge = [(70, 0.0), (71, 0.0), (72, 0.0), (73, 1.64), (74, 2.0), (75, 2.1), (76, 2.16)];
    let climb = [(2230, 2.16), (2580, 4.1), (3100, 7.0), (4096, 12.5), (5800, 19.0), (8192, 27.6)];
    let points = flat.chain(edge).chain(climb);
    let sample =
        |(pages, added)| Sample { pages, spread: vec![1.08 + added; 5], packed: vec![1.08; 3] };
    let samples: Vec<Sample> = points.map(sample).collect();
    let found = levels(&samples, 0.95, 8);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0].entries.map(|e| (e.low, e.value, e.high)), Some((72.0, 72.0, 72.0)));
    assert!((found[0].cost.value - 2.16).abs() < 1e-9, "{found:?}");
    assert_eq!(found[1].entries, None);
    assert!((2100.0..2400.0).contains(&found[1].onset.value), "{found:?}");
    assert!((found[1].cost.value - 25.44).abs() < 1e-9 && found[1].cost.high == f64::INFINITY);
}

/// Data recorded on small pages, and inside huge pages.
fn recorded() -> (Vec<Sample>, Vec<Sample>) {
    let text = include_str!("../../tests/data/tlb.txt");
    let times = |column: &str| column.split_whitespace().map(|t| t.parse().unwrap()).collect();
    let row = |line: &str| {
        let columns: Vec<&str> = line.split('|').collect();
        let pages = columns[0].trim().parse().unwrap();
        let of = |at: usize| Sample {
            pages,
            spread: times(columns[at]),
            packed: times(columns[at + 1]),
        };
        (of(1), of(3))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(row).unzip()
}

#[test]
fn a_busy_machine_with_96_entries() {
    let (small, huge) = recorded();
    for samples in [&small, &huge] {
        let found = levels(samples, 0.95, 9);
        assert_eq!(found.len(), 2, "{found:?}");
        let onset = found[0].onset;
        assert!(onset.low <= 96.0 && 96.0 <= onset.high, "{onset:?}");
        // 7 cycles at about 3.8 GHz.
        assert!((found[0].cost.value - 1.84).abs() < 0.06, "{found:?}");
        assert!(!found[1].is_step, "{found:?}");
    }
    let wanted = refine(&small, &levels(&small, 0.95, 9));
    assert!(wanted.iter().any(|pages| (92..108).contains(pages)), "{wanted:?}");
}

/// Recorded on small pages while a thread hidden by the hypervisor occupied entries: sometimes in
/// one recording, nearly always in the other.
#[test]
fn entries_of_a_core_that_is_shared() {
    let samples = |text: &str| {
        let times = |column: &str| column.split_whitespace().map(|t| t.parse().unwrap()).collect();
        let sample = |line: &str| {
            let columns: Vec<&str> = line.split('|').collect();
            let pages = columns[0].trim().parse().unwrap();
            Sample { pages, spread: times(columns[1]), packed: times(columns[2]) }
        };
        text.lines().filter(|line| !line.starts_with('#')).map(sample).collect::<Vec<_>>()
    };
    let at_times = samples(include_str!("../../tests/data/tlb-others-rest.txt"));
    let found = levels(&at_times, 0.95, 13);
    assert_eq!(found[0].entries.map(|e| e.value), Some(96.0), "{:?}", found[0]);
    let nearly_always = samples(include_str!("../../tests/data/tlb-others-take.txt"));
    let found = levels(&nearly_always, 0.95, 13);
    assert_eq!(found[0].entries, None);
    assert!(found[0].onset.low <= 96.0 && 94.0 <= found[0].onset.high, "{:?}", found[0]);
}

#[test]
fn huge_pages_in_small_pieces_are_seen_as_such() {
    let (small, huge) = recorded();
    let found = huge_pages(&small, &huge, 0.95, 10);
    assert_eq!(found.verdict, PagesVerdict::Splintered, "{found:?}");
    let share = found.share.unwrap();
    assert!((share.value - 1.0).abs() < 0.1, "{share:?}");
    let ratio = found.time_ratio.unwrap();
    assert!(ratio.low <= ratio.value && ratio.value < 1.0, "{ratio:?}");
}

#[test]
fn huge_pages_that_work_are_seen_as_such() {
    let mut random = Rng::with_seed(11);
    let mut measure = |machine: &Machine| {
        start(4096).into_iter().map(|pages| machine.sample(pages, BUSY, &mut random)).collect()
    };
    let small: Vec<Sample> = measure(&Machine::with_levels(&[FIRST[2], SLOW]));
    let huge: Vec<Sample> = measure(&Machine::with_levels(&[]));
    let found = huge_pages(&small, &huge, 0.95, 11);
    assert_eq!(found.verdict, PagesVerdict::Work, "{found:?}");
    assert!(found.share.unwrap().value.abs() < 0.05, "{found:?}");
    // 3.8 ns with huge pages, compared with 3.8 ns plus the cost of the first level and most of the
    // second with small pages.
    assert!(found.time_ratio.unwrap().value < 0.4, "{found:?}");
}

#[test]
fn huge_pages_are_undetermined_without_a_first_level() {
    let unknown = HugePages { verdict: PagesVerdict::Unknown, share: None, time_ratio: None };
    assert_eq!(huge_pages(&[], &[], 0.95, 12), unknown);
    let (small, _) = recorded();
    let found = huge_pages(&small, &[], 0.95, 12);
    assert_eq!((found.verdict, found.share, found.time_ratio), (PagesVerdict::Unknown, None, None));
}

/// Returns the distance to the nearest non-decreasing sequence, by exhaustive search over sequences
/// of the given values.
fn nearest_by_trying(values: &[f64]) -> f64 {
    let mut levels = values.to_vec();
    levels.sort_unstable_by(f64::total_cmp);
    let mut best = vec![0.0; levels.len()];
    for &value in values {
        let mut least = f64::INFINITY;
        for (so_far, level) in best.iter_mut().zip(&levels) {
            least = least.min(*so_far);
            *so_far = least + (value - level).abs();
        }
    }
    best.into_iter().fold(f64::INFINITY, f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn isotonic_is_the_nearest_that_never_falls(values in prop::collection::vec(-5.0..5.0, 1..12)) {
        let rising = isotonic(&values);
        prop_assert!(rising.windows(2).all(|pair| pair[0] <= pair[1]));
        let off: f64 = values.iter().zip(&rising).map(|(a, b)| (a - b).abs()).sum();
        let nearest = nearest_by_trying(&values);
        prop_assert!(off <= nearest + 1e-9, "{} is not {}", off, nearest);
    }

    #[test]
    fn no_samples_make_it_panic(
        samples in prop::collection::vec(
            (
                any::<u64>(),
                prop::collection::vec(any::<f64>(), 0..4),
                prop::collection::vec(any::<f64>(), 0..4),
            ),
            0..12,
        ),
        few in prop::collection::vec((0_u64..64, 0.5..50.0, 0.5..2.0), 0..24),
    ) {
        let sample = |(pages, spread, packed)| Sample { pages, spread, packed };
        let few = few.into_iter().map(|(pages, a, b)| (pages, vec![a], vec![b]));
        let samples: Vec<Sample> = samples.into_iter().chain(few).map(sample).collect();
        let found = levels(&samples, 0.95, 1);
        for level in &found {
            prop_assert!(level.onset.low <= level.onset.value);
            prop_assert!(level.onset.value <= level.onset.high);
            prop_assert!(level.cost.low >= 0.0, "{:?}", level.cost);
            prop_assert!(level.cost.value.is_nan() || is_known(level.cost), "{:?}", level.cost);
        }
        refine(&samples, &found);
        huge_pages(&samples, &samples, 0.95, 1);
    }
}
