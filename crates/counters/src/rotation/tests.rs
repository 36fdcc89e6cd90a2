// SPDX-License-Identifier: MIT OR Apache-2.0
use super::counts::TAIL;
use super::*;
use linerate_record::stats::{Estimate, student_quantile};

const MS: Duration = Duration::from_millis(1);

fn plan(sets: &[&[usize]]) -> Plan {
    Plan { always: Vec::new(), sets: sets.iter().map(|set| set.to_vec()).collect(), slice: MS }
}

/// Returns a slice during the whole of which its set was on the counters.
fn slice(set: usize, counts: &[u64], base: f64, ns: u64) -> Slice<'_> {
    Slice { set, counts, base, enabled_ns: ns, running_ns: ns }
}

/// An event's true count in each slice, with the slice's increase in the scaling base.
type Truth = [(u64, f64)];

/// Counts `truth` with one event per set, in the set order `turns`; every slice lasts 1 ms.
fn counted(truth: &Truth, sets: usize, turns: &[usize]) -> Counts {
    let plan = Plan { sets: (0..sets).map(|set| vec![set]).collect(), ..plan(&[]) };
    let mut slices = Slices::new(&plan);
    for (&(count, base), &set) in truth.iter().zip(turns) {
        slices.add(&slice(set, &[count], base, 1_000_000));
    }
    let base = truth.iter().map(|(_, base)| base).sum();
    let whole = Whole { always: &[], base, enabled_ns: truth.len() as u64 * 1_000_000 };
    slices.counts(sets, &plan, &whole)
}

/// All possible orders in a round with two sets and two slices each.
const ORDERS: [[usize; 4]; 6] =
    [[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 1, 0], [1, 1, 0, 0]];

/// Returns the variance behind an interval: the squared ratio of its half-width to Student's t
/// quantile.
fn variance(estimate: &Estimate, freedom: f64) -> f64 {
    // Intervals of positive values are symmetric on a log scale.
    let half = (estimate.high / estimate.value).ln() * estimate.value;
    (half / student_quantile(freedom, TAIL)).powi(2)
}

#[test]
fn every_set_has_two_turns_in_each_round_and_every_order_comes_up_as_often() {
    let mut turns = Turns::new(&plan(&[&[0], &[1]]), 7);
    let mut seen = [0; 6];
    for _ in 0..6000 {
        let round: Vec<usize> = (0..4).map(|_| turns.next_turn().set).collect();
        let order = ORDERS.iter().position(|order| order[..] == round[..]);
        seen[order.expect("each set twice")] += 1;
    }
    // Each order is expected 1000 times, with a standard deviation of 29.
    assert!(seen.iter().all(|&times| (850..1150).contains(&times)), "{seen:?}");
}

#[test]
fn lengths_are_spread_about_the_nominal_one_alike_for_all_sets() {
    let mut turns = Turns::new(&plan(&[&[0], &[1]]), 1);
    let mut sums = [0.0; 2];
    for _ in 0..8000 {
        let Turn { set, length } = turns.next_turn();
        assert!((MS / 2..=MS * 3 / 2).contains(&length));
        sums[set] += length.as_secs_f64() / 4000.0;
    }
    // The mean of 4000 lengths has a standard deviation of 0.5 %.
    assert!(sums.iter().all(|mean| (mean / 0.001 - 1.0).abs() < 0.02), "{sums:?}");
}

#[test]
fn the_same_seed_gives_the_same_turns() {
    let turns = |seed| {
        let mut turns = Turns::new(&plan(&[&[0], &[1], &[2]]), seed);
        (0..60).map(|_| turns.next_turn()).collect::<Vec<_>>()
    };
    assert_eq!(turns(5), turns(5));
    assert_ne!(turns(5), turns(6));
}

/// Averages over all 36 possible orders of two rounds. The mean estimate must equal the true total,
/// and the mean variance behind the intervals must equal the variance of the estimates.
#[test]
fn estimate_and_variance_are_right_on_average_over_all_orders() {
    let truth = [900, 1400, 1000, 300, 5000, 5100, 6000, 4000].map(|count: u64| (count, 1.0));
    let total: u64 = truth.iter().map(|(count, _)| count).sum();
    let (mut values, mut variances) = (Vec::new(), Vec::new());
    for first in ORDERS {
        for second in ORDERS {
            let turns = [first, second].concat();
            let slices = || turns.iter().zip(truth).filter(|(set, _)| **set == 0);
            let counts: Vec<f64> = slices().map(|(_, (count, _))| count as f64).collect();
            let (differences, sum): (Vec<f64>, f64) = (
                counts.chunks(2).map(|pair| (pair[1] - pair[0]).powi(2)).collect(),
                counts.iter().sum(),
            );
            let estimate = counted(&truth, 2, &turns).events[0].unwrap().estimate;
            assert!((estimate.value - 2.0 * sum).abs() < 1e-6);
            // Satterthwaite's degrees of freedom for two squares.
            let (a, b) = (differences[0], differences[1]);
            let spread = ((a - b).powi(2) / 2.0) * 2.0;
            let freedom = (2.0 * (a + b).powi(2) / spread).clamp(1.0, 2.0);
            values.push(estimate.value);
            variances.push((variance(&estimate, freedom), 2.0 * (a + b)));
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    assert!((mean(&values) - total as f64).abs() < 1e-6);
    let of_estimates =
        mean(&values.iter().map(|value| (value - total as f64).powi(2)).collect::<Vec<_>>());
    let promised: Vec<f64> = variances.iter().map(|&(promised, _)| promised).collect();
    for &(promised, by_hand) in &variances {
        assert!((promised / by_hand - 1.0).abs() < 1e-6, "{promised} {by_hand}");
    }
    assert!((mean(&promised) / of_estimates - 1.0).abs() < 1e-6);
}

#[test]
fn what_comes_with_the_base_is_known_exactly() {
    let truth: Vec<(u64, f64)> = (1..=8).map(|i| (i * i * 30, (i * i) as f64)).collect();
    let turns = [0, 1, 1, 0, 1, 0, 1, 0];
    let estimate = counted(&truth, 2, &turns).events[0].unwrap().estimate;
    let total: u64 = truth.iter().map(|(count, _)| count).sum();
    assert!((estimate.value - total as f64).abs() < 1e-6);
    assert!(estimate.high - estimate.low < 1e-3, "{estimate:?}");
}

#[test]
fn no_interval_before_a_set_had_two_slices_in_a_round() {
    let truth = [(100, 1.0); 3];
    let counts = counted(&truth, 2, &[0, 1, 1]);
    let [zero, one] = [0, 1].map(|event| counts.events[event].unwrap().estimate);
    assert_eq!((zero.value, zero.low, zero.high), (300.0, 100.0, f64::INFINITY));
    assert!(one.high.is_finite());
    // Two slices from different rounds are not a pair.
    let counts = counted(&[(100, 1.0); 5], 2, &[1, 1, 1, 0, 0]);
    assert_eq!(counts.events[0].unwrap().estimate.high, f64::INFINITY);
}

#[test]
fn the_truth_is_never_below_what_was_seen() {
    let truth = [900, 2, 1000, 3, 5000, 1, 6000, 4].map(|count: u64| (count, 1.0));
    let tally = counted(&truth, 2, &[0, 1, 0, 1, 0, 1, 1, 0]).events[0].unwrap();
    assert_eq!((tally.raw, tally.periods, tally.duty), (6904, 4, 0.5));
    assert!(tally.is_scaled && tally.estimate.low >= 6904.0, "{tally:?}");
}

/// If no event was counted in half of the time, the upper bound is the number `n` of events for
/// which the probability `0.5^n` that all of them occurred in the other half is 2.5 %: `n` = 5.3.
#[test]
fn nothing_seen_is_not_nothing() {
    let estimate =
        counted(&[(0, 1.0); 8], 2, &[0, 1, 0, 1, 0, 1, 1, 0]).events[0].unwrap().estimate;
    assert_eq!((estimate.value, estimate.low), (0.0, 0.0));
    assert!((estimate.high - 5.32).abs() < 0.01, "{estimate:?}");
}

#[test]
fn no_bound_without_a_complete_round() {
    let estimate = counted(&[(0, 1.0), (9, 1.0), (7, 1.0)], 2, &[0, 1, 1]).events[0].unwrap();
    assert_eq!((estimate.estimate.low, estimate.estimate.high), (0.0, f64::INFINITY));
}

/// Like the intervals of rare events, the intervals of metrics computed from them allow for missed
/// events.
#[test]
fn formulas_reckon_with_chance_as_their_events_do() {
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
    let turns = [0, 1, 0, 1, 0, 1, 1, 0];
    for seen in [0, 1] {
        let counts = counted(&[(seen, 1.0); 8], 2, &turns);
        let own = counts.events[0].unwrap().estimate;
        let derived = counts.derive(|events| Some(events[0] / 10.0)).unwrap();
        near(10.0 * derived.high, own.high);
        assert!(own.high >= 5.0 && derived.low >= 0.0, "{derived:?}");
        let sum = counts.derive(|events| Some(events[0] + events[1])).unwrap();
        assert!(sum.high - sum.value > 5.0, "{sum:?}");
        let difference = counts.derive(|events| Some(events[0] - events[1])).unwrap();
        assert!(difference.low < -5.0 && difference.high > 5.0, "{difference:?}");
    }
}

#[test]
fn few_counts_leave_room_for_chance() {
    let truth = [1, 0, 1, 0, 1, 0, 1, 0].map(|count: u64| (count, 1.0));
    let estimate = counted(&truth, 2, &[0, 1, 1, 0, 0, 1, 0, 1]).events[0].unwrap().estimate;
    // Three occurrences were counted; six are estimated, with a standard error of at least 2.4.
    assert_eq!(estimate.value, 6.0);
    assert!(estimate.high > 6.0 * f64::exp(1.96 * 2.4 / 6.0), "{estimate:?}");
}

#[test]
fn a_set_that_never_ran_has_no_count_and_a_target_that_never_ran_has_zero() {
    let never = counted(&[(5, 1.0); 2], 2, &[0, 0]);
    assert!(never.events[0].is_some() && never.events[1].is_none());
    assert!(never.derive(|events| Some(events[0] + events[1])).is_none());
    let plan = plan(&[&[0]]);
    let whole = Whole { always: &[], base: 0.0, enabled_ns: 0 };
    let tally = Slices::new(&plan).counts(1, &plan, &whole).events[0].unwrap();
    assert_eq!((tally.raw, tally.is_scaled, tally.estimate.high), (0, false, 0.0));
}

/// With one set for all events, counts are exact unless another user of the PMU takes the counters
/// for some time.
#[test]
fn a_set_that_is_alone_is_scaled_only_if_it_lost_time() {
    let plan = Plan { always: vec![2, 3], ..plan(&[&[0, 1]]) };
    let counts = |running_ns: u64| {
        let mut slices = Slices::new(&plan);
        for _ in 0..8 {
            let counts = &[300, 40];
            let base = running_ns as f64;
            slices.add(&Slice { enabled_ns: 1000, ..slice(0, counts, base, running_ns) });
        }
        let full = AlwaysCount { raw: 7, enabled_ns: 100, running_ns: 100 };
        let half = AlwaysCount { raw: 7, enabled_ns: 100, running_ns: 50 };
        let whole = Whole { always: &[Some(full), Some(half)], base: 8000.0, enabled_ns: 8000 };
        slices.counts(4, &plan, &whole)
    };
    let whole = counts(1000);
    let exactly = |value: f64, estimate: Estimate| {
        assert_eq!((estimate.value, estimate.low, estimate.high), (value, value, value));
    };
    exactly(2400.0, whole.events[0].unwrap().estimate);
    exactly(7.0, whole.events[2].unwrap().estimate);
    exactly(2407.0, whole.derive(|events| Some(events[0] + events[2])).unwrap());
    let lost = whole.events[3].unwrap();
    assert_eq!((lost.is_scaled, lost.estimate.value), (true, 14.0));
    assert_eq!((lost.estimate.low, lost.estimate.high), (7.0, f64::INFINITY));
    let part = counts(500).events[1].unwrap();
    assert!(part.is_scaled && part.duty == 0.5 && part.raw == 320);
    assert_eq!((part.estimate.value, part.estimate.low), (640.0, 320.0));
    assert_eq!(part.estimate.high, f64::INFINITY);
}

/// A thread that spends half of its time on cores of another type, on which the event does not
/// count: the slices that were counted are alike, but say nothing about the others.
#[test]
fn time_lost_within_slices_leaves_the_estimate_open() {
    let counts = |sets: usize, lost_ns: u64| {
        let plan = Plan { sets: (0..sets).map(|set| vec![set]).collect(), ..plan(&[]) };
        let mut slices = Slices::new(&plan);
        for at in 0..64 {
            let set = ORDERS[at / 4 % 6][at % 4] % sets;
            // The first set loses all time of every second of its slices, or a little of each.
            let running_ns = match set {
                0 if lost_ns == 1000 && at % 8 < 4 => 0,
                0 if lost_ns < 1000 => 1000 - lost_ns,
                _ => 1000,
            };
            let counts = &[3 * running_ns];
            let base = running_ns as f64;
            slices.add(&Slice { enabled_ns: 1000, ..slice(set, counts, base, running_ns) });
        }
        let whole = Whole { always: &[], base: 64_000.0, enabled_ns: 64_000 };
        slices.counts(sets, &plan, &whole)
    };
    for sets in [1, 2] {
        let lossy = counts(sets, 1000);
        let tally = lossy.events[0].unwrap();
        assert!(tally.is_scaled && tally.estimate.value == 192_000.0, "{tally:?}");
        assert_eq!((tally.estimate.low, tally.estimate.high), (tally.raw as f64, f64::INFINITY));
        let metric = lossy.derive(|events| Some(events[0] / 1000.0)).unwrap();
        assert_eq!((metric.low, metric.high), (f64::NEG_INFINITY, f64::INFINITY));
        let other = lossy.events[sets - 1].unwrap().estimate;
        assert_eq!(other.high.is_finite(), sets == 2, "only the set that lost time is open");
        let little = counts(sets, 1).events[0].unwrap().estimate;
        assert!(little.high < 193_000.0, "a thousandth is negligible: {little:?}");
    }
}

/// Returns the plan and the counts for a varying load with three sets, the first of which has two
/// events.
fn three_sets() -> (Counts, Plan) {
    let plan = plan(&[&[0, 1], &[2], &[3]]);
    let (mut turns, mut slices) = (Turns::new(&plan, 3), Slices::new(&plan));
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..600 {
        let set = turns.next_turn().set;
        let work = 1000 + random.u64(0..1000);
        let counts = [work, work / 3 + random.u64(0..40)];
        let counts = if set == 0 { &counts[..] } else { &counts[..1] };
        slices.add(&slice(set, counts, 1.0, 1000));
    }
    let whole = Whole { always: &[], base: 600.0, enabled_ns: 600_000 };
    (slices.counts(4, &plan, &whole), plan)
}

#[test]
fn a_formula_of_one_event_has_that_events_interval() {
    let (counts, _) = three_sets();
    let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
    for event in 0..4 {
        let own = counts.events[event].unwrap().estimate;
        let derived = counts.derive(|events| Some(2.0 * events[event])).unwrap();
        assert_eq!(derived.n, 200);
        near(derived.value, 2.0 * own.value);
        near(derived.low, 2.0 * own.low);
        near(derived.high, 2.0 * own.high);
    }
}

#[test]
fn a_ratio_of_events_of_one_set_is_better_known_than_one_of_two_sets() {
    let (counts, _) = three_sets();
    let width = |estimate: Estimate| (estimate.high - estimate.low) / estimate.value;
    let together = width(counts.derive(|events| Some(events[1] / events[0])).unwrap());
    let apart = width(counts.derive(|events| Some(events[2] / events[0])).unwrap());
    let single = width(counts.events[0].unwrap().estimate);
    assert!(3.0 * together < apart, "{together} {apart}");
    // Two equal errors with half of the maximum correlation add up to sqrt(2 + 2 / 4) errors for
    // three sets.
    assert!((apart / single - 2.5f64.sqrt()).abs() < 0.2, "{apart} {single}");
}

#[test]
fn formulas_without_value_have_no_estimate_and_differences_may_be_negative() {
    let (counts, _) = three_sets();
    assert!(counts.derive(|_| None).is_none());
    assert!(counts.derive(|events| Some(1.0 / (events[0] - events[0]))).is_none());
    let difference = counts.derive(|events| Some(events[2] - events[0])).unwrap();
    assert!(difference.low < 0.0 && difference.high > 0.0, "{difference:?}");
    let constant = counts.derive(|_| Some(3.0)).unwrap();
    assert_eq!((constant.low, constant.high), (3.0, 3.0));
}

#[test]
fn what_was_added_since_is_counted_alone() {
    let plan = plan(&[&[0], &[1]]);
    let (mut whole, mut second) = (Slices::new(&plan), Slices::new(&plan));
    let mut random = fastrand::Rng::with_seed(9);
    let mut earlier = whole.clone();
    for at in 0..80 {
        if at == 40 {
            earlier = whole.clone();
        }
        let counts = &[random.u64(0..1000)];
        let slice = slice(ORDERS[at / 4 % 6][at % 4], counts, 1.0, 10);
        whole.add(&slice);
        if at >= 40 {
            second.add(&slice);
        }
    }
    let since = |slices: &Slices| {
        let whole = Whole { always: &[], base: 40.0, enabled_ns: 400 };
        slices.counts(2, &plan, &whole).events[0].unwrap()
    };
    let (since, alone) = (since(&whole.since(&earlier)), since(&second));
    assert_eq!((since.raw, since.periods), (alone.raw, alone.periods));
    assert!((since.estimate.high / alone.estimate.high - 1.0).abs() < 1e-6);
}

/// A slice that could not be read still counts towards its round, so that later slices are assigned
/// to the right rounds.
#[test]
fn a_skipped_slice_keeps_the_rounds_in_step() {
    let plan = plan(&[&[0], &[1]]);
    let mut slices = Slices::new(&plan);
    let mut add = |set: Option<usize>| match set {
        Some(set) => slices.add(&slice(set, &[50], 1.0, 1)),
        None => slices.skip(),
    };
    let turns = [Some(0), Some(1), None, Some(1), Some(0), Some(1), Some(0), Some(1)];
    turns.into_iter().for_each(&mut add);
    let whole = Whole { always: &[], base: 8.0, enabled_ns: 8 };
    let counts = slices.counts(2, &plan, &whole);
    assert_eq!(counts.slices, 8);
    assert_eq!(counts.events[0].unwrap().periods, 3);
    assert!(counts.events[0].unwrap().estimate.high.is_finite());
}

#[test]
fn the_multiplexing_plan_is_known_before_counting() {
    let plan = Plan { always: vec![4], ..plan(&[&[0, 1], &[2], &[3]]) };
    assert_eq!(plan.shortest_run(), 24 * MS);
    assert_eq!(plan.duty(4), Some(1.0));
    assert_eq!(plan.duty(1), Some(1.0 / 3.0));
    assert_eq!(plan.duty(5), None);
    let alone = Plan { sets: vec![vec![0]], ..Plan::default() };
    assert_eq!((alone.shortest_run(), alone.duty(0)), (Duration::ZERO, Some(1.0)));
}
