// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask stream`: compares `linerate stream` with iperf3, netperf and /proc, in interleaved
//! runs with the same settings. Also scores its findings on bottlenecks with known causes, set up
//! in network namespaces.

mod judge;
mod process;
mod seeds;

use crate::command::{cargo, output, root};
use std::path::PathBuf;

/// Default number of rounds: the interval of a median needs 6, and some may be left out.
const ROUNDS: u32 = 15;

/// Number of rounds, and path of the `linerate` program to test.
pub(crate) struct Choice {
    rounds: u32,
    linerate: Option<PathBuf>,
}

/// Parses the arguments of `stream`.
pub(crate) fn choose(words: &[&str]) -> Result<Choice, String> {
    let mut choice = Choice { rounds: ROUNDS, linerate: None };
    for pair in words.chunks(2) {
        match pair {
            ["--rounds", number] => {
                let rounds = number.parse().ok().filter(|rounds| (1..=100).contains(rounds));
                choice.rounds = rounds.ok_or("stream: --rounds must be 1 to 100")?;
            }
            ["--linerate", file] => choice.linerate = Some(file.into()),
            other => return Err(format!("stream: unknown option `{}`", other.join(" "))),
        }
    }
    Ok(choice)
}

/// Measures, and prints the tables.
pub(crate) fn run(choice: &Choice) -> Result<(), String> {
    let linerate = match &choice.linerate {
        Some(file) => file.clone(),
        None => build()?,
    };
    print!("{}", judge::judge(choice.rounds, &linerate)?);
    println!();
    print!("{}", seeds::score(&linerate)?);
    Ok(())
}

fn build() -> Result<PathBuf, String> {
    output(cargo(&["build", "--quiet", "--release", "--locked", "--package", "linerate"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root().join(target).join("release/linerate"))
}
