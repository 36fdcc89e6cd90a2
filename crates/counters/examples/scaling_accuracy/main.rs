// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the error of multiplexed counts, for `cargo xtask accuracy`. Compares the scaled task
//! clock with the unscaled one on a synthetic processor with two counters. Time in the gaps between
//! sets is not counted.
//!
//! `cargo run --release -p linerate-counters --example scaling_accuracy [-- RUNS]`

#[path = "../../tests/session/pmu.rs"]
mod pmu;

use linerate_counters::opener::{Kernel, Opener};
use linerate_counters::session::{Options, Scope, Session};
use linerate_linux::perf::{Request, SOFTWARE, Selector, Target};
use linerate_linux::thread_cpu_time_ns;
use linerate_record::accuracy::Check;
use linerate_record::stats::median;
use pmu::{CLOCK, hardware, pmu, software};
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

/// Default number of runs.
const RUNS: usize = 11;

/// Slices per run.
const SLICES: u32 = 150;

/// Maximum relative error of a scaled count, and of the ratio of two counts from different sets.
const LIMIT: f64 = 0.03;

const TASK_CLOCK: u64 = 1;

const NAMES: [&str; 2] = ["scaling.task_clock", "scaling.ratio_of_two_sets"];

fn main() {
    let probe = Request::new(Selector::new(SOFTWARE, TASK_CLOCK));
    if let Err(error) = Kernel.open(&probe, Target::CurrentThread, None) {
        NAMES.iter().for_each(|name| println!("{}", Check::skip(name, &error.to_string())));
        return;
    }
    let runs = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(RUNS);
    let errors: Vec<[f64; 2]> = (0..runs).map(|_| run()).collect();
    for (place, name) in NAMES.iter().enumerate() {
        let errors: Vec<f64> = errors.iter().map(|errors| errors[place]).collect();
        let error = median(&errors).unwrap_or(f64::NAN);
        println!("{}", Check::at_most(name, error, errors.len() as u64, LIMIT, "median error"));
    }
}

/// Returns the largest relative error among five scaled counts, and the relative error of the ratio
/// of two counts from different sets.
fn run() -> [f64; 2] {
    let mut events = hardware(CLOCK, 5);
    events.push(software("task_clock_ns", TASK_CLOCK));
    let options = Options { slice: Duration::from_micros(500), ..Options::default() };
    let (pmu, scope) = (pmu(2), Scope::CurrentThread);
    let mut session = Session::open(&pmu, Path::new("/"), &events, &scope, &options);
    let mut length = session.start().expect("the task clock can be counted");
    for _ in 0..SLICES {
        work(length);
        length = session.turn();
    }
    let counts = session.finish();
    let value = |event: usize| counts.events[event].map_or(f64::NAN, |tally| tally.estimate.value);
    let off = |value: f64, truth: f64| (value / truth - 1.0).abs();
    // `f64::max` would ignore NaN.
    let larger = |a: f64, b: f64| if a >= b { a } else { b };
    let largest = (0..5).map(|event| off(value(event), value(5))).fold(0.0, larger);
    let ratio = counts.derive(|events| Some(events[2] / events[4]));
    [largest, ratio.map_or(f64::NAN, |ratio| off(ratio.value, 1.0))]
}

/// Spins until this thread has used `time` of CPU time.
fn work(time: Duration) {
    let begin = thread_cpu_time_ns();
    while u128::from(thread_cpu_time_ns() - begin) < time.as_nanos() {
        black_box(0);
    }
}
