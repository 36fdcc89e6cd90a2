// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the accuracy of the measuring engine on this machine against known values, by racing
//! loops with known amounts of work.
//!
//! Prints one line per check for `cargo xtask accuracy`. The fraction of intervals that contain the
//! true value may be lower than the confidence level, but only by the sampling error of the
//! fraction. Also prints the engine's overhead.
//!
//! `cargo run --release -p linerate-trial --example engine_accuracy [-- RACES]`

use linerate_machine::ticks::ticks_per_s;
use linerate_record::accuracy::Check;
use linerate_record::stats::{CONFIDENCE, median};
use linerate_trial::{Account, Clock, Fill, Length, Machine, Rules, Samples, Watch, filling, time};
use std::convert::Infallible;
use std::hint::black_box;

/// Steps in each contestant's chain. Compared with the first contestant, the second does a quarter
/// more work, the third twice as much, and the fourth the same.
const STEPS: [u64; 4] = [4000, 5000, 8000, 4000];
const NAMES: [&str; 4] = ["first", "quarter more", "twice", "same"];

/// Maximum relative overhead of calling a contestant and starting its chain.
const START: f64 = 0.01;

/// Minimum fraction of races in which the slower contestant must be identified. Not 1, because the
/// interval of a ratio is expected to be too close to 1 in 2.5 % of all races.
const FOUND: f64 = 0.97;

const ROUNDS: u32 = 41;
const RACES: u64 = 40;

/// Window length in seconds.
const WINDOW: f64 = 25e-6;

/// Runs steps of xorshift64 (Marsaglia, 2003), each depending on the previous one.
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
    let fill = Fill { window: WINDOW * ticks_per_s(), multiple: 1, at_most: 1 << 20, tries: 3 };
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

/// Prints a result that is reported but not checked against a limit.
fn print_check(name: &str, value: f64, n: usize) {
    println!("{name} {value:.4} n={n}");
}

fn share(name: &str, hits: usize, trials: u64, stated: f64, why: &str) {
    println!("{}", Check::share(name, hits as u64, trials, stated, why));
}

/// Prints the time that it takes to open and close an empty window, and the part of this time that
/// the window's own ticks include, in ns.
fn overhead(clock: &Machine) {
    let (mut whole, mut within) = (Vec::new(), Vec::new());
    for _ in 0..1001 {
        let start = clock.ticks();
        let timed = time(clock, || {});
        whole.push((clock.ticks() - start) as f64 * clock.ns_per_tick());
        within.push(timed.ticks as f64 * clock.ns_per_tick());
    }
    print_check("trial_window_ns", median(&whole).unwrap_or(f64::NAN), whole.len());
    print_check("trial_ns_within_window", median(&within).unwrap_or(f64::NAN), within.len());
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
    let why = "confidence of the intervals";
    share("trial.quarter_more_within_interval", held[0], races, CONFIDENCE, why);
    share("trial.twice_within_interval", held[1], races, CONFIDENCE, why);
    share("trial.same_within_interval", held[2], races, CONFIDENCE, why);
    let why = "contestants whose work differs by a quarter or more";
    share("trial.more_work_is_slower", told, 2 * races, FOUND, why);
    share("trial.fastest_found", fastest, races, FOUND, why);
    let error = median(&errors).unwrap_or(f64::NAN);
    let why = "overhead of a call and of starting a chain";
    println!("{}", Check::at_most("trial.median_error", error, errors.len() as u64, START, why));
    print_check("trial_windows_kept", kept as f64 / all as f64, all as usize);
    let spent = Account::now(&clock).since(start);
    print_check("trial_cpu_share", spent.cpu_ns as f64 / spent.wall_ns as f64, races as usize);
    print_check("trial_cpu_step_ns", clock.cpu_step_ns() as f64, 1);
    overhead(&clock);
}
