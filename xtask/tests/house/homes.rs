// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that each small helper is defined only once: text typical of its definition may appear
//! only in the listed files.

use crate::suites::test_part;
use crate::tree::{File, files};

/// Where to search for a helper's definition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// All Rust files, in full.
    Rust,
    /// Rust code outside of tests and comments.
    Production,
    /// Manifests of packages.
    Manifests,
}

/// A helper that the tree should contain only once.
struct Thing {
    /// Files to search.
    reach: Reach,
    /// Text that only its definition contains.
    marks: &'static [&'static str],
    /// Files that may contain it, with the reason.
    homes: &'static [(&'static str, &'static str)],
    /// Function or module to use instead.
    instead: &'static str,
}

const THINGS: &[Thing] = &[
    Thing {
        reach: Reach::Rust,
        marks: &[concat!("Opener", " for ")],
        homes: &[
            ("crates/counters/src/opener.rs", "the kernel"),
            ("crates/counters/src/scripted.rs", "the kernel of tests"),
            ("crates/counters/tests/session/units.rs", "one that has units of several CPUs"),
        ],
        instead: "linerate_counters::scripted",
    },
    Thing {
        reach: Reach::Rust,
        marks: &[
            concat!("/// Print the record ", "as JSON"),
            concat!("/// Write the record ", "to this file"),
            concat!("/// No progress, ", "no warnings"),
        ],
        homes: &[("crates/cli/src/emit.rs", "the options of every result")],
        instead: "`Output` or `Notices`, flattened",
    },
    Thing {
        reach: Reach::Rust,
        marks: &[concat!("svg: Option", "<PathBuf>")],
        homes: &[("crates/cli/src/plots.rs", "the option of every plot")],
        instead: "`Plots`, flattened",
    },
    Thing {
        reach: Reach::Rust,
        marks: &[concat!("is_within ", "^= c == '/'")],
        homes: &[("crates/counters/src/event.rs", "lists of events")],
        instead: "linerate_counters::event::split_names",
    },
    Thing {
        reach: Reach::Rust,
        // The mixer of SplitMix64, a shift of xorshift, the multiplier of a linear congruential
        // generator.
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
            ("crates/cachesim/tests/model/reference.rs", "the draw of the model, which is in C"),
            ("crates/cmt/tests/reference/cycle_by_cycle.rs", "what the simulator is held against"),
            ("crates/stages/src/chase.rs", "the place that a frame leads to, in its cost"),
            ("examples/rlp/src/trial.rs", "the text of a stream, a multiplication for 8 bytes"),
            ("lab/known/src/main.rs", "work of a known number of instructions"),
        ],
        instead: "linerate_record::random, or fastrand where no sequence is promised",
    },
    Thing {
        reach: Reach::Production,
        // A confidence level as an argument, as a field, in text, as a constant.
        marks: &[", 0.95)", ", 0.95,", "confidence: 0.", "95 %", "CONFIDENCE: f64"],
        homes: &[
            ("crates/record/src/stats.rs", "the confidence of every interval"),
            ("crates/counters/examples/rotation_coverage/tally.rs", "a quantile of errors"),
            ("crates/tcpbench/src/pattern.rs", "how lengths are distributed"),
        ],
        instead: "linerate_record::stats::{CONFIDENCE, interval_name}",
    },
    Thing {
        reach: Reach::Production,
        marks: &["low: f64::NEG_INFINITY", "low.unwrap_or(", "high.unwrap_or("],
        homes: &[
            ("crates/record/src/stats/algebra.rs", "what a missing end of an interval means"),
            ("crates/hierarchy/src/os_view.rs", "a size without bounds"),
        ],
        instead: "linerate_record::stats::Estimate::of_ends",
    },
    Thing {
        reach: Reach::Production,
        marks: &[".split_once('-')"],
        homes: &[
            ("crates/machine/src/files.rs", "lists of CPUs"),
            ("crates/counters/src/catalog/unit.rs", "ranges of bits"),
            ("crates/doctor/src/host/isolation.rs", "a list that `machine` wrote, for a shell"),
            ("crates/kernelbench/src/memory.rs", "addresses of a mapping, above the base crates"),
            ("crates/memory/src/arena.rs", "addresses of a mapping"),
            ("crates/observe/src/sampler/maps.rs", "addresses of a mapping of another process"),
            ("crates/stages/src/filter/rule.rs", "ranges of ports"),
            ("xtask/src/lab/module.rs", "the version and the rest of a release"),
        ],
        instead: "linerate_machine::files::{parse_cpus, parse_cpu_list}",
    },
    Thing {
        reach: Reach::Production,
        marks: &["r\"'\\''\""],
        homes: &[("crates/record/src/shell.rs", "a quote within quotes")],
        instead: "linerate_record::shell::quoted",
    },
    Thing {
        reach: Reach::Production,
        marks: &["libc::sigaction(", "libc::signal(", "libc::sigprocmask(", "signal_hook"],
        homes: &[
            ("crates/linux/src/signal.rs", "what signals do to a command"),
            ("crates/linux/src/child.rs", "a child begins with what it would have had"),
        ],
        instead: "linerate_linux::signal",
    },
    Thing {
        reach: Reach::Rust,
        marks: &[concat!("\"$", "ref\" =>"), concat!("\"oneOf\"", " =>")],
        homes: &[("crates/record/tests/json/validator.rs", "whether a value obeys a schema")],
        instead: "the validator of `record`, by its path",
    },
    Thing {
        reach: Reach::Manifests,
        marks: &["smoltcp = { version"],
        homes: &[("Cargo.toml", "the version of every package")],
        instead: "smoltcp = { workspace = true }",
    },
];

impl Reach {
    /// Returns a file's lines with their numbers.
    fn lines(self, file: &File) -> Vec<(usize, &str)> {
        let is_rust = file.extension() == "rs";
        let is_manifest = file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml");
        let numbered = (1..).zip(file.text.lines());
        match self {
            Self::Rust if is_rust => numbered.collect(),
            Self::Manifests if is_manifest => numbered.collect(),
            Self::Production if is_rust => {
                let tests_from = test_part(file).map_or(usize::MAX, |(_, above)| above);
                let code = |line| str::split(line, "//").next().unwrap_or_default();
                numbered.take(tests_from).map(|(at, line)| (at, code(line))).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Describes a file's lines that contain a helper belonging in another file.
fn strays(file: &File, things: &[Thing]) -> Vec<String> {
    let mut strays = Vec::new();
    for thing in things {
        if thing.homes.iter().any(|(home, _)| *home == file.path) {
            continue;
        }
        for (at, line) in thing.reach.lines(file) {
            if thing.marks.iter().any(|mark| line.contains(mark)) {
                strays.push(format!("{}:{at}: use {}", file.path, thing.instead));
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
            let lines = thing.reach.lines(file);
            let has_mark =
                thing.marks.iter().any(|mark| lines.iter().any(|(_, line)| line.contains(mark)));
            assert!(has_mark, "{home} has no {:?} any more", thing.marks);
        }
    }
}

#[test]
fn a_second_home_is_found() {
    for thing in THINGS {
        for mark in thing.marks {
            let text = format!("// a\nimpl {mark} X {{}}\n");
            let found = |path: &str, text: &str| {
                strays(&File { path: path.to_owned(), text: text.to_owned() }, THINGS).len()
            };
            let (home, _) = thing.homes[0];
            assert_eq!((found("docs/a.md", &text), found(home, &text)), (0, 0), "{mark}");
            let tested = format!("fn a() {{}}\n\n#[cfg(test)]\nmod tests {{\n{text}}}\n");
            let commented = text.replace("impl", "// impl");
            let [in_code, in_test, in_comment, in_manifest] = [
                found("crates/a/src/a.rs", &text),
                found("crates/a/tests/a.rs", &text) + found("crates/a/src/a.rs", &tested),
                found("crates/a/src/a.rs", &commented),
                found("crates/a/Cargo.toml", &text),
            ];
            let expected = match thing.reach {
                Reach::Rust => [1, 2, 1, 0],
                Reach::Production => [1, 0, 0, 0],
                Reach::Manifests => [0, 0, 0, 1],
            };
            assert_eq!([in_code, in_test, in_comment, in_manifest], expected, "{mark}");
        }
    }
}
