// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::clean::{Timed, time};
use crate::scripted::Scripted;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn rules(contestants: usize, placements: u32, length: Length) -> Rules<'static> {
    Rules { what: "race", contestants: &NAMES[..contestants], placements, length, seed: 1 }
}

/// Runs a race on a scripted clock. `window` scripts what happens in each window.
fn raced(rules: &Rules<'_>, clock: &Scripted, mut window: impl FnMut(Turn)) -> Samples<f64> {
    let sample = |turn| {
        let timed: Timed = time(clock, || window(turn));
        Ok::<_, Infallible>(timed.keep(timed.ticks as f64))
    };
    let Ok(samples) = rounds(rules, clock, &Watch::unattended(), sample);
    samples
}

#[test]
fn the_order_is_random_and_the_seed_decides() {
    let list = |seed| -> Vec<Vec<usize>> {
        let mut next = orders(4, seed);
        (0..1000).map(|_| next()).collect()
    };
    assert_eq!(list(7), list(7));
    assert_ne!(list(7), list(8));
    let orders = list(7);
    assert_eq!(orders.iter().collect::<HashSet<_>>().len(), 24, "all orders of four come up");
    for contestant in 0..4 {
        let first = orders.iter().filter(|order| order[0] == contestant).count();
        // 250 expected; the limits are the 0.1 % and 99.9 % points of the binomial distribution.
        assert!((208..=293).contains(&first), "{contestant} was first {first} times");
        assert!(orders.iter().all(|order| order.contains(&contestant)));
    }
}

#[test]
fn each_round_has_every_contestant_once_on_the_placement_of_the_round() {
    let mut turns = Vec::new();
    let clock = Scripted::new();
    raced(&rules(3, 2, Length::Rounds(5)), &clock, |turn| turns.push(turn));
    assert_eq!(turns.len(), 15);
    for (round, of_round) in turns.chunks(3).enumerate() {
        let round = round as u32;
        assert!(of_round.iter().all(|t| t.round == round && t.placement == round % 2));
        let firsts: Vec<bool> = of_round.iter().map(|turn| turn.is_first).collect();
        assert_eq!(firsts, [true, false, false]);
        let all: HashSet<usize> = of_round.iter().map(|turn| turn.contestant).collect();
        assert_eq!(all.len(), 3);
    }
}

/// The true ratios are known: compared with the first contestant, the second does a quarter more
/// work and the third twice as much. The core's clock frequency changes from round to round.
#[test]
fn ratios_are_exact_though_the_clock_moves() {
    let (clock, slowness) = (Scripted::new(), [1.0, 1.4, 0.7, 3.0, 1.1]);
    let samples = raced(&rules(3, 1, Length::Rounds(41)), &clock, |turn| {
        clock.slow_down(slowness[turn.round as usize % slowness.len()]);
        clock.work([400_000, 500_000, 800_000][turn.contestant]);
    });
    for (which, truth) in [(1, 1.25), (2, 2.0)] {
        let ratio = samples.ratio(which, 0, 0.9).expect("windows");
        let ends = [ratio.value, ratio.low, ratio.high];
        assert!(ends.iter().all(|end| (end - truth).abs() < 1e-5), "{ratio:?}");
        assert_eq!(ratio.n, 41);
    }
    assert_eq!(samples.fastest(0..3), Some(0));
}

/// Every fifth window of a contestant is preempted, and none of these is among the valid samples.
#[test]
fn disturbed_windows_are_counted_and_left_out() {
    let clock = Scripted::new();
    let samples = raced(&rules(2, 1, Length::Rounds(20)), &clock, |turn| {
        clock.work(1000);
        match (turn.contestant, turn.round % 5) {
            (0, 0) => clock.preempt(500),
            (1, 1) => clock.sleep(500),
            _ => {}
        }
    });
    let counts = samples.counts();
    assert_eq!((counts.total, counts.switched, counts.away), (40, 4, 4));
    assert_eq!((counts.far_slower, counts.none_kept), (0, 0));
    assert!((0..2).all(|which| samples.kept(which).all(|ticks| *ticks == 1000.0)));
    let ratio = samples.ratio(0, 1, 0.9).expect("both samples are valid in some round");
    assert_eq!((ratio.value, ratio.n), (1.0, 12));
}

/// Each window takes 100 ns. With two contestants, a round takes 200 ns.
#[test]
fn a_limited_time_ends_with_the_round_in_which_it_is_over() {
    let rounds_in = |ns, kept, is_clean: fn(u32) -> bool| {
        let clock = Scripted::new();
        let samples = raced(&rules(2, 2, Length::Time { ns, kept }), &clock, |turn| {
            clock.work(100);
            if !is_clean(turn.round) {
                clock.preempt(0);
            }
        });
        samples.each(0).len()
    };
    assert_eq!(rounds_in(2000, 1, |_| true), 11);
    assert_eq!(rounds_in(1999, 1, |_| true), 10);
    // Each placement runs its minimum number of windows, however short the time.
    assert_eq!(rounds_in(0, 3, |_| true), 6);
    assert_eq!(rounds_in(0, 3, |_| false), 6);
    // Without enough valid windows, the race continues beyond its time, but at most half as long
    // again.
    assert_eq!(rounds_in(2000, 2, |round| round >= 8), 12);
    assert_eq!(rounds_in(2000, 2, |round| round >= 10), 14);
    assert_eq!(rounds_in(2000, 2, |_| false), 16);
}

#[test]
fn a_stop_leaves_whole_rounds() {
    let (clock, stop) = (Scripted::new(), AtomicBool::new(false));
    let (heard, done) = (RefCell::new(Vec::new()), Cell::new(0));
    let put = |what: &str, share: f64| {
        assert_eq!(what, "race");
        heard.borrow_mut().push(share);
    };
    let watch = Watch::new(&stop, &put);
    let sample = |_| {
        done.set(done.get() + 1);
        stop.store(done.get() == 8, Ordering::Relaxed);
        Ok::<_, Infallible>(Ok(1.0))
    };
    let Ok(samples) = rounds(&rules(3, 1, Length::Rounds(10)), &clock, &watch, sample);
    assert_eq!((done.get(), samples.counts().total), (8, 6));
    assert_eq!(*heard.borrow(), [0.0, 0.1, 0.2]);
    let never = |_| -> Result<Result<f64, Dropped>, Infallible> { panic!("ran after the stop") };
    let Ok(none) = rounds(&rules(3, 1, Length::Rounds(10)), &clock, &watch, never);
    assert_eq!(none.counts().total, 0);
}

#[test]
fn the_first_failure_ends_it() {
    let sample = |turn: Turn| if turn.round < 2 { Ok(Ok(1.0)) } else { Err(turn.round) };
    let rules = rules(2, 1, Length::Rounds(9));
    let failed = rounds(&rules, &Scripted::new(), &Watch::unattended(), sample);
    assert_eq!(failed.err(), Some(2));
}

/// A race ends and panics in the same way with the watchdog running as without.
#[test]
fn a_race_with_a_watchdog_ends_with_its_windows() {
    let hung = |what: &str| panic!("{what}");
    let watch = Watch::unattended().reporting(&hung);
    let (rules, clock) = (rules(2, 1, Length::Rounds(3)), Scripted::new());
    let Ok(samples) = rounds(&rules, &clock, &watch, |_| Ok::<_, Infallible>(Ok(1.0)));
    assert_eq!(samples.counts().total, 6);
    let race = || {
        let sample = |_| -> Result<Result<f64, Dropped>, Infallible> { panic!("a routine fails") };
        rounds(&rules, &Scripted::new(), &watch, sample).is_ok()
    };
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(race));
    assert!(panicked.is_err());
}
