// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multiplexes synthetic loads with known totals, and prints the estimation errors and the coverage
//! of the 95 % intervals, as tabulated in docs/results/rotation.md.
//!
//! `cargo run --release -p linerate-counters --example rotation_coverage [RUNS]`
//!
//! Exits with status 1 if the coverage for any load is below 90 % or above 99 %.

mod simulation;
mod tally;

use simulation::{LOADS, Load};
use std::process::ExitCode;
use tally::{Outcome, Setting, Tally, outcome};

fn main() -> ExitCode {
    let runs = std::env::args().nth(1).and_then(|runs| runs.parse().ok()).unwrap_or(1000);
    println!("## The loads\n\n| load | what it does |\n|---|---|");
    for Load { name, prose, .. } in &LOADS {
        println!("| {name} | {prose} |");
    }
    println!();
    let mut is_right = true;
    for run_ms in [500, 2000] {
        let outcomes = print_table(Setting { sets: 4, slice_ms: 2.0, run_ms, runs });
        is_right &= outcomes.iter().all(holds_what_it_promises);
    }
    print_other_settings(runs / 4);
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn holds_what_it_promises(outcome: &Outcome) -> bool {
    let is_right = |tally: &Tally| (0.90..=0.99).contains(&tally.coverage());
    is_right(&outcome.by_time) && is_right(&outcome.by_packets)
}

fn print_table(setting: Setting) -> Vec<Outcome> {
    println!("## Runs of {} s, {} of each load\n", setting.run_ms as f64 / 1000.0, setting.runs);
    println!(
        "| load | by time: error | coverage | per packet: error | coverage | PTI: error | coverage \
         | rpistat: error | coverage |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    let outcomes: Vec<Outcome> = LOADS.iter().map(|load| outcome(load, setting)).collect();
    for (load, outcome) in LOADS.iter().zip(&outcomes) {
        let Outcome { by_time, by_packets, per_instruction, round_robin } = outcome;
        let cells = [by_time, by_packets, per_instruction, round_robin].map(cell);
        println!("| {} | {} |", load.name, cells.join(" | "));
    }
    println!();
    outcomes
}

fn cell(tally: &Tally) -> String {
    let holds = match tally.coverage() {
        share if share.is_nan() => "-".to_owned(),
        share => format!("{:.1} %", 100.0 * share),
    };
    format!("{:.1} % | {holds}", 100.0 * tally.p95_error())
}

fn print_other_settings(runs: usize) {
    println!("## Other numbers of sets and lengths of slices\n");
    println!("Runs of 2 s, {runs} of each load: minimum and maximum over all loads.\n");
    println!("| sets | slice | by time: error | coverage | per packet: error | coverage |");
    println!("|--:|--:|--:|--:|--:|--:|");
    for (sets, slice_ms) in [(2, 2.0), (3, 2.0), (8, 2.0), (4, 0.5), (4, 1.0), (4, 4.0), (4, 10.0)]
    {
        let setting = Setting { sets, slice_ms, run_ms: 2000, runs };
        let outcomes: Vec<Outcome> = LOADS.iter().map(|load| outcome(load, setting)).collect();
        let range = |value: &dyn Fn(&Outcome) -> f64| {
            let values = outcomes.iter().map(|outcome| 100.0 * value(outcome));
            let (low, high) = values.fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(x), b.max(x)));
            format!("{low:.1} to {high:.1} %")
        };
        let cells = [
            range(&|outcome| outcome.by_time.p95_error()),
            range(&|outcome| outcome.by_time.coverage()),
            range(&|outcome| outcome.by_packets.p95_error()),
            range(&|outcome| outcome.by_packets.coverage()),
        ];
        println!("| {sets} | {slice_ms} ms | {} |", cells.join(" | "));
    }
    println!();
}
