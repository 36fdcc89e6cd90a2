// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures simulation speed in core cycles per second of CPU time, and compares it with an upper
//! bound, for both configurations of the RLP application on the T1.
//!
//! Most of the time is spent deciding, cycle by cycle, which strand issues, and each decision
//! depends on the previous one. The upper bound is the speed of a chain of bare decisions, each of
//! which only looks up the next state in a table. Runs of the simulation and of the chain
//! alternate; medians are printed.
//!
//! `cargo bench -p linerate-cmt --bench simulate [-- REPETITIONS | --test]`; `--test` runs one
//! repetition.

use linerate_cmt::processor::Processor;
use linerate_cmt::{Application, Chip, Run, System, simulate};
use linerate_record::stats::median;
use std::hint::black_box;

const REPETITIONS: usize = 11;
const CYCLES: u64 = 4_000_000;
/// Speed that the simulator should reach, in core cycles per second of CPU time.
const GOAL: f64 = 100e6;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is_test = args.iter().any(|arg| arg == "--test");
    let wanted = args.iter().find_map(|arg| arg.parse().ok());
    let repetitions = wanted.unwrap_or(if is_test { 1 } else { REPETITIONS });
    let application = Application::named("rlp").expect("the application is built in");
    let t1 = Processor::named("t1").expect("the T1 is built in");
    let chip = Chip::new(&t1).expect("the T1 has latencies");
    for configuration in &application.configurations {
        let system = application.on(&chip, &configuration.pipes).expect("the configuration fits");
        let (mut rates, mut shares) = (Vec::new(), Vec::new());
        for seed in 0..repetitions {
            let (core_cycles, seconds) = timed(|| simulated(&system, seed as u64));
            let (decisions, bound) = timed(|| chain(core_cycles));
            rates.push(core_cycles as f64 / seconds);
            shares.push(core_cycles as f64 / seconds / (decisions as f64 / bound));
        }
        let rate = median(&rates).expect("at least one repetition");
        println!(
            "configuration {}: {:.0} M core cycles per second of CPU time, {:.2} of the goal of \
             {:.0} M, {:.2} of the bound",
            configuration.name,
            rate / 1e6,
            rate / GOAL,
            GOAL / 1e6,
            median(&shares).expect("at least one repetition"),
        );
    }
}

fn simulated(system: &System, seed: u64) -> u64 {
    let run = Run { warm_up_cycles: 0, cycles: CYCLES, seed };
    black_box(simulate(system, &run)).expect("the system is valid").core_cycles
}

/// Executes a chain of dependent lookups in a table as large as the simulator's transition table.
fn chain(length: u64) -> u64 {
    let table: Vec<usize> = (0..512).map(|at| (at * 37 + 11) % 512).collect();
    let table: &[usize; 512] = table.as_slice().try_into().expect("512 entries");
    let mut at = 0;
    for _ in 0..length {
        at = table[black_box(at) & 511];
    }
    black_box(at);
    length
}

/// Runs `work`, and returns its result and CPU time in seconds.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let before = seconds_on_processor();
    let result = work();
    (result, seconds_on_processor() - before)
}

/// Returns this thread's CPU time in seconds, from the first field of
/// `/proc/thread-self/schedstat`, which is in nanoseconds.
fn seconds_on_processor() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has this file");
    let ns: f64 = text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("ns");
    ns / 1e9
}
