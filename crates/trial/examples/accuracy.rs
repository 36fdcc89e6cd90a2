// SPDX-License-Identifier: MIT OR Apache-2.0
//! How well the engine finds on this machine what is known: races of loops whose work is exact.
//!
//! Prints a line per property, `accuracy: NAME value=V n=N`, which whoever runs it judges: a share
//! of intervals that hold the truth may miss their confidence by its own sampling error.
//!
//! `cargo run --release -p linerate-trial --example accuracy [-- RACES]`

use linerate_machine::ticks::ticks_per_second;
use linerate_record::stats::median;
use linerate_trial::{Account, Clock, Fill, Length, Machine, Rules, Samples, Watch, filling, time};
use std::convert::Infallible;
use std::hint::black_box;

/// Steps of the chain that each contestant goes through: the second does a quarter more than the
/// first, the third twice as much, the last the same.
const STEPS: [u64; 4] = [4000, 5000, 8000, 4000];
const NAMES: [&str; 4] = ["first", "quarter more", "twice", "same"];

/// What a call and the start of a chain add, as a share of it.
const START: f64 = 0.01;

const CONFIDENCE: f64 = 0.9;
const ROUNDS: u32 = 41;
const RACES: u64 = 40;

/// Seconds of a window.
const WINDOW: f64 = 25e-6;

/// Steps of xorshift64 (Marsaglia, 2003), each of which needs the one before.
fn chain(steps: u64) -> u64 {
    let mut x = black_box(1_u64);
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

fn race(clock: &Machine, seed: u64) -> Samples<f64> {
    let fill =
        Fill { window: WINDOW * ticks_per_second(), multiple: 1, at_most: 1 << 20, tries: 3 };
    let calls = |which: usize| {
        let ticks = |calls| {
            let timed = time(clock, || (0..calls).for_each(|_| _ = black_box(chain(STEPS[which]))));
            Ok::<_, Infallible>(timed.ticks as f64)
        };
        let Ok(calls) = filling(&fill, ticks);
        calls
    };
    let calls: Vec<u64> = (0..STEPS.len()).map(calls).collect();
    let length = Length::Rounds(ROUNDS);
    let rules = Rules { what: "chains", contestants: &NAMES, placements: 1, length, seed };
    let Ok(mut samples) = linerate_trial::rounds(&rules, clock, &Watch::unattended(), |turn| {
        let (calls, steps) = (calls[turn.contestant], STEPS[turn.contestant]);
        let timed = time(clock, || (0..calls).for_each(|_| _ = black_box(chain(steps))));
        Ok::<_, Infallible>(timed.keep(timed.ticks as f64 / calls as f64))
    });
    samples.drop_far_slower();
    samples
}

fn put(name: &str, value: f64, n: usize) {
    println!("accuracy: {name} value={value:.4} n={n}");
}

/// Nanoseconds of opening and closing a window around nothing, of which what is within its ticks.
fn overhead(clock: &Machine) {
    let (mut whole, mut within) = (Vec::new(), Vec::new());
    for _ in 0..1001 {
        let start = clock.ticks();
        let timed = time(clock, || {});
        whole.push((clock.ticks() - start) as f64 * clock.ns_per_tick());
        within.push(timed.ticks as f64 * clock.ns_per_tick());
    }
    put("trial_window_ns", median(&whole).unwrap_or(f64::NAN), whole.len());
    put("trial_ns_within_window", median(&within).unwrap_or(f64::NAN), within.len());
}

fn main() {
    let races = std::env::args().skip(1).find_map(|text| text.parse().ok()).unwrap_or(RACES);
    let clock = Machine::counter();
    let start = Account::now(&clock);
    let (mut held, mut told, mut fastest, mut kept, mut all) = ([0, 0, 0], 0, 0, 0, 0);
    let mut errors = Vec::new();
    for seed in 1..=races {
        let samples = race(&clock, seed);
        for (place, (which, truth)) in [(1, 1.25), (2, 2.0), (3, 1.0)].into_iter().enumerate() {
            let Some(ratio) = samples.ratio(which, 0, CONFIDENCE) else { continue };
            let holds = ratio.low * (1.0 - START) <= truth && truth <= ratio.high * (1.0 + START);
            held[place] += usize::from(holds);
            errors.push((ratio.value / truth - 1.0).abs());
            told += usize::from(which != 3 && ratio.low > 1.0);
        }
        fastest += usize::from(matches!(samples.fastest(0..3), Some(0)));
        kept += samples.counts().kept();
        all += samples.counts().total;
    }
    let n = races as usize;
    let share = |count: usize, of: usize| count as f64 / of as f64;
    put("trial_quarter_more_within_interval", share(held[0], n), n);
    put("trial_twice_within_interval", share(held[1], n), n);
    put("trial_same_within_interval", share(held[2], n), n);
    put("trial_more_work_is_slower", share(told, 2 * n), 2 * n);
    put("trial_fastest_found", share(fastest, n), n);
    put("trial_median_error", median(&errors).unwrap_or(f64::NAN), errors.len());
    put("trial_windows_kept", kept as f64 / all as f64, all as usize);
    let spent = Account::now(&clock).since(start);
    put("trial_cpu_share", spent.cpu_ns as f64 / spent.wall_ns as f64, n);
    put("trial_cpu_step_ns", clock.cpu_step_ns() as f64, 1);
    overhead(&clock);
}
