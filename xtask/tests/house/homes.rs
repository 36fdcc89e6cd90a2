// SPDX-License-Identifier: MIT OR Apache-2.0
//! One home for each small thing: what marks it may stand in the files named, and nowhere else.

use crate::tree::{File, files};

/// A thing that the tree has once.
struct Thing {
    /// What only its definition contains.
    marks: &'static [&'static str],
    /// The files that may contain it, and why each.
    homes: &'static [(&'static str, &'static str)],
    /// What to use instead.
    instead: &'static str,
}

const THINGS: &[Thing] = &[
    Thing {
        marks: &[concat!("Opener", " for ")],
        homes: &[
            ("crates/counters/src/opener.rs", "the kernel"),
            ("crates/counters/src/scripted.rs", "the kernel of tests"),
        ],
        instead: "linerate_counters::scripted",
    },
    Thing {
        marks: &[
            concat!("/// Print the record ", "as JSON"),
            concat!("/// Write the record ", "to this file"),
            concat!("/// No progress, ", "no warnings"),
        ],
        homes: &[("crates/cli/src/emit.rs", "the options of every result")],
        instead: "`Output` or `Notices`, flattened",
    },
    Thing {
        marks: &[concat!("svg: Option", "<PathBuf>")],
        homes: &[("crates/cli/src/plots.rs", "the option of every plot")],
        instead: "`Plots`, flattened",
    },
    Thing {
        marks: &[concat!("is_within ", "^= c == '/'")],
        homes: &[("crates/counters/src/event.rs", "lists of events")],
        instead: "linerate_counters::event::split_names",
    },
    Thing {
        // The mixer of SplitMix64, a shift of xorshift, the multiplier of a congruential generator.
        marks: &[
            concat!("0xbf", "58"),
            concat!("0xBF", "58"),
            concat!("<< 1", "3;"),
            concat!("6_364", "_136"),
            concat!("6364", "136"),
        ],
        homes: &[
            ("crates/record/src/random.rs", "sequences that are the same in every version"),
            ("crates/dataplane/src/meter.rs", "a draw in each iteration, whose cost is measured"),
            ("crates/trial/examples/engine_accuracy.rs", "work whose steps wait for each other"),
            ("crates/cmt/tests/reference/cycle_by_cycle.rs", "what the simulator is held against"),
            ("crates/stages/src/chase.rs", "the place that a frame leads to, in its cost"),
            ("examples/rlp/src/trial.rs", "the text of a stream, a multiplication for 8 bytes"),
            ("lab/known/src/main.rs", "work of a known number of instructions"),
        ],
        instead: "linerate_record::random, or fastrand where no sequence is promised",
    },
];

/// Lines of a Rust file that have a thing whose home is elsewhere.
fn strays(file: &File, things: &[Thing]) -> Vec<String> {
    let mut strays = Vec::new();
    for thing in things {
        if file.extension() != "rs" || thing.homes.iter().any(|(home, _)| *home == file.path) {
            continue;
        }
        for (i, line) in file.text.lines().enumerate() {
            if thing.marks.iter().any(|mark| line.contains(mark)) {
                strays.push(format!("{}:{}: use {}", file.path, i + 1, thing.instead));
            }
        }
    }
    strays
}

#[test]
fn each_small_thing_has_one_home() {
    let strays: Vec<String> = files().iter().flat_map(|file| strays(file, THINGS)).collect();
    assert!(strays.is_empty(), "{}", strays.join("\n"));
}

#[test]
fn every_home_is_lived_in() {
    let files = files();
    for thing in THINGS {
        for (home, why) in thing.homes {
            let file = files.iter().find(|file| file.path == *home);
            let file = file.unwrap_or_else(|| panic!("{home} is gone; so is: {why}"));
            let has_mark = thing.marks.iter().any(|mark| file.text.contains(mark));
            assert!(has_mark, "{home} has no {:?} any more", thing.marks);
        }
    }
}

#[test]
fn a_second_home_is_found() {
    for thing in THINGS {
        for mark in thing.marks {
            let text = format!("// a\nimpl {mark} X {{}}\n");
            let file = |path: &str| File { path: path.to_owned(), text: text.clone() };
            assert_eq!(strays(&file("crates/a/tests/a.rs"), THINGS).len(), 1, "{mark}");
            assert!(strays(&file("docs/a.md"), THINGS).is_empty(), "{mark}");
            let (home, _) = thing.homes[0];
            assert!(strays(&file(home), THINGS).is_empty(), "{mark}");
        }
    }
}
