// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how much time `linerate stat` and `perf stat` add to a run of `/bin/true`, and compares
//! the two.
//!
//! Each round runs every command once, in random order, discarding its output. Reports minimum
//! times, because other activity on the machine can only make a run longer. The goal is an overhead
//! of at most 1 ms.
//!
//! `cargo bench -p linerate --bench startup [-- ROUNDS]`

use linerate_record::stats::median;
use linerate_trial::orders;
use std::process::{Command, Stdio};
use std::time::Instant;

const ROUNDS: usize = 200;
const GOAL_MS: f64 = 1.0;
const NOTHING: &str = "/bin/true";

struct Contender {
    name: &'static str,
    argv: Vec<&'static str>,
    ms: Vec<f64>,
}

impl Contender {
    fn new(name: &'static str, argv: &[&'static str]) -> Self {
        Self { name, argv: argv.to_vec(), ms: Vec::new() }
    }

    /// Runs the command once, and returns whether it succeeded.
    fn run(&mut self) -> bool {
        let mut command = Command::new(self.argv[0]);
        command.args(&self.argv[1..]).stdout(Stdio::null()).stderr(Stdio::null());
        let start = Instant::now();
        let is_run = command.status().is_ok_and(|status| status.success());
        self.ms.push(start.elapsed().as_secs_f64() * 1e3);
        is_run
    }

    fn least(&self) -> f64 {
        self.ms.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let linerate = env!("CARGO_BIN_EXE_linerate");
    let mut contenders = vec![
        Contender::new("fork and exec", &[NOTHING]),
        // timeout(1) only starts a program and waits for it: a lower bound for any wrapper.
        Contender::new("timeout", &["timeout", "60", NOTHING]),
        Contender::new("linerate --version", &[linerate, "--version"]),
        Contender::new(
            "linerate stat, one event",
            &[linerate, "stat", "-e", "task_clock_ns", "--", NOTHING],
        ),
        Contender::new("linerate stat", &[linerate, "stat", "--", NOTHING]),
        Contender::new("perf stat", &["perf", "stat", NOTHING]),
    ];
    // This first run fills the page cache and drops commands that cannot be run.
    contenders.retain_mut(Contender::run);
    contenders.iter_mut().for_each(|contender| contender.ms.clear());
    let mut next = orders(contenders.len(), 1);
    for _ in 0..rounds {
        for place in next() {
            assert!(contenders[place].run(), "{} failed", contenders[place].name);
        }
    }
    let plain = contenders[0].least();
    println!(
        "{rounds} rounds; ms; the goal is {GOAL_MS} ms added by `linerate stat` to the minimum"
    );
    println!("{:26} {:>8} {:>8} {:>8}", "", "minimum", "median", "added");
    for contender in &contenders {
        let (least, middle) = (contender.least(), median(&contender.ms).unwrap_or(f64::NAN));
        println!("{:26} {least:>8.3} {middle:>8.3} {:>8.3}", contender.name, least - plain);
    }
}
