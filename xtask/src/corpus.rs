// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the detector of levels says of made-up hierarchies, written to `docs/results` by the runs
//! themselves. Takes some twenty minutes of two processors.

use crate::command::{cargo, output, root};
use std::fs;

const RESULT: &str = "docs/results/memory-corpus.md";

const HEAD: &str = "\
# FoundLevels of made-up hierarchies

Written by `cargo xtask evidence corpus`. What the detector of levels says of machines whose
levels are known. What counts as right stands at the head of
`crates/hierarchy/examples/corpus/judge.rs`; how the machines are made, in [decision
0110](../decisions/0110-made-up-hierarchies.md). Nothing was tuned on these seeds, and equal
seeds give equal figures.

The goal is 1,000 analytic and 20 trace-driven machines, count right in 98 %, sizes within 10 %,
latencies within 1 %, intervals that hold the truth in 90 to 97 %. **It is not reached.** At 260
machines, a share of 90 % is good for +-4 %. `cargo xtask accuracy` holds the detector to these
figures.

What the figures depend on most is whether pages are huge, as `linerate memory` asks for them.
Then chance has no part in which sets a chain fills; what is left are neighbours that are close
to each other, of which a step between them is not seen, and the long tail of a last cache that
evicts at random, which is taken for a second step or puts memory too near. With small pages a
cache that is indexed by physical addresses has a few *page colours*, filled as chance has it.
Five passes see five throws, and each overflows at sizes of its own: what scatters so is hard to
tell from a ramp of another shape, of another size.

Machines whose plateaus move are judged by whether that is said; latencies that the noise hid in
all passes are not judged, and counted.

";

const PROGRAM: &str =
    "run --release --locked -q -p linerate-hierarchy --example corpus -- --held-out --brief";

/// Titles and arguments of the runs.
const RUNS: [(&str, &str); 6] = [
    ("Huge pages, no noise", "--huge --analytic 260 --trace 0 --noise none"),
    (
        "Huge pages, noise of an idle virtual machine",
        "--huge --analytic 260 --trace 0 --noise idle",
    ),
    ("Any pages, no noise", "--analytic 260 --trace 0 --noise none"),
    ("Any pages, noise of an idle virtual machine", "--analytic 260 --trace 0 --noise idle"),
    ("Any pages, noise of a busy one", "--analytic 260 --trace 0 --noise busy"),
    ("Any pages, load by load, no noise", "--analytic 0 --trace 20 --noise none"),
];

/// Runs everything and writes the result.
pub(crate) fn write() -> Result<(), String> {
    let mut text = HEAD.to_owned();
    for (title, arguments) in RUNS {
        eprintln!("{title}");
        let words: Vec<&str> = PROGRAM.split(' ').chain(arguments.split(' ')).collect();
        let printed = output(cargo(&words))?;
        let printed = String::from_utf8(printed).map_err(|error| error.to_string())?;
        let figures = printed.split_once("\n\n").map_or(printed.as_str(), |(_, figures)| figures);
        let command = words.join(" ");
        text += &format!("## {title}\n\n```text\n$ cargo {command}\n{}\n```\n\n", figures.trim());
    }
    fs::write(root().join(RESULT), text.trim_end().to_owned() + "\n")
        .map_err(|error| format!("{RESULT}: {error}"))?;
    println!("{RESULT}");
    Ok(())
}
