// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Radio Link Protocol tried out at length: streams over links that lose, and parsers on bytes
//! that nobody meant; and its stages beside copying. Written to `docs/results` by the runs
//! themselves.
//!
//! But for the last, nothing here depends on the machine: equal seeds give equal pages.

use crate::command::{cargo, output, root, status};
use crate::evidence::{bench, section};
use std::fs;

const PACKAGE: &str = "linerate-rlp";
const LOSS: &str = "docs/results/rlp-loss.md";
const STAGES: &str = "docs/results/rlp-stages.md";
const FUZZ: &str = "docs/results/fuzz.md";

/// Streams over links that lose.
pub(crate) fn loss() -> Result<(), String> {
    let table = bench(PACKAGE, "loss")?;
    write(
        LOSS,
        "# Streams of the Radio Link Protocol over links that lose\n\n\
         Written by `cargo xtask evidence rlp-loss`, which is\n\
         `cargo bench -p linerate-rlp --bench loss`. Nothing here depends on the machine: chance \
         comes from\none seed, time is counted in ticks. Every byte given out was compared with \
         the one sent in its\nplace. What theory says, and where it ends: \
         [rlp.md](../rlp.md).\n\n",
        &table,
    )
}

/// What the stages cost beside copying.
pub(crate) fn stages() -> Result<(), String> {
    let text = bench(PACKAGE, "stages")?;
    write(
        STAGES,
        "# What the stages of the RLP application cost beside copying\n\n\
         Written by `cargo xtask evidence rlp-stages`. Ticks are those of the timestamp counter, \
         per packet,\nmedians over rounds with their 95 % intervals; the ways are timed in turns \
         of one loop. Beside each ratio\nstands what the stage adds, in ticks; a goal is met or \
         missed when the whole interval says so. With 16 frames\non the line nothing misses the \
         first cache, and a copy is as cheap as it gets: that is the hardest case for\na ratio. \
         What the bounds leave out is told in the head of `examples/rlp/benches/stages.rs`.\n\n",
        &section("cargo bench -p linerate-rlp --bench stages", &text),
    )
}

/// Parsers and a session, fuzzed; the corpus is written anew.
pub(crate) fn fuzz() -> Result<(), String> {
    eprintln!("fuzzing");
    let arguments = ["bench", "--quiet", "--locked", "-p", PACKAGE, "--bench", "fuzz", "--"];
    let text = output(cargo(&[&arguments[..], &["--write"]].concat()))?;
    let table = String::from_utf8(text).map_err(|error| error.to_string())?;
    write(
        FUZZ,
        "# Fuzzing the parsers\n\n\
         Written by `cargo xtask evidence fuzz`, which is\n\
         `cargo bench -p linerate-rlp --bench fuzz -- --write`. Inputs that made something new \
         happen\nwere kept and changed further \
         ([0153](../decisions/0153-fuzzing-by-what-happens.md)); what was\nkept is \
         `examples/rlp/fuzz/corpus.txt`, which the tests run again.\n\n",
        &table,
    )
}

/// A minute of fuzzing, from what earlier ones found.
pub(crate) fn fuzz_briefly() -> Result<(), String> {
    // Of the whole workspace, as CI has built it: with this package's features alone it would be
    // built once more.
    let bench = ["bench", "--quiet", "--locked", "--workspace", "--bench", "fuzz", "--", "60s"];
    match status(cargo(&bench))? {
        0 => Ok(()),
        code => Err(format!("exit status {code}")),
    }
}

fn write(file: &str, head: &str, table: &str) -> Result<(), String> {
    fs::write(root().join(file), head.to_owned() + table.trim_end() + "\n")
        .map_err(|error| format!("{file}: {error}"))?;
    println!("{file}");
    Ok(())
}
