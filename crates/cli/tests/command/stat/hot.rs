// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests per-function counts of a simulated program with known counts: one function causes cache
//! misses, and another only computes.
//!
//! Needs qemu-user and a C compiler; without them, prints `SKIP` and why.

use super::*;
use linerate_record::stat::{HotFunction, HotSpots};

const SOURCE: &str = "../stat/tests/sim/hot.c";
/// Number of cache lines that `walk` misses.
const MISSES: u64 = 20 * (1 << 20) / 64;
/// Number of steps of `compute`.
const STEPS: u64 = 1_000_000;

/// Returns the path of the compiled program; `None`, after printing why, if it cannot be compiled
/// or simulated.
fn program(folder: &Folder, compiler: &str, options: &[&str], emulator: &str) -> Option<String> {
    let path = folder.file("hot");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(SOURCE);
    let mut command = Command::new(compiler);
    command.args(["-O1", "-o", &path]).arg(source).args(options);
    let is_there = Command::new(emulator).arg("--version").output().is_ok();
    if !is_there || !command.output().is_ok_and(|output| output.status.success()) {
        println!("SKIP counts by function: no {emulator}, or {compiler} {options:?} fails");
        return None;
    }
    Some(path)
}

fn own_emulator() -> String {
    format!("qemu-{}", std::env::consts::ARCH)
}

/// Returns the record of a simulation of the program with counts by function.
#[track_caller]
fn hot_record(program: &str, by: &str) -> Record {
    let hot = format!("--hot={by}");
    let caches = "i1=16K/4/64,d1=16K/4/64,l2=128K/8/64,dtlb=16,itlb=16,page=4K";
    counted(0, &["--tier", "sim", "--caches", caches, &hot, "--", program])
}

#[track_caller]
fn hot_spots(record: &Record) -> &HotSpots {
    report_of(record).hot.as_ref().expect("counts by function")
}

/// Checks that the counts of all functions add up exactly to those of the command.
#[track_caller]
fn assert_sums(record: &Record) {
    let hot = hot_spots(record);
    for (place, name) in hot.events.iter().enumerate() {
        let sum: u64 = hot.functions.iter().map(|function| function.counts[place]).sum();
        assert_eq!(Some(sum), event(report_of(record), name).raw, "{name}");
        assert_eq!(sum, hot.totals[place], "{name}");
    }
}

#[track_caller]
fn function<'a>(hot: &'a HotSpots, name: &str) -> &'a HotFunction {
    let found = hot.functions.iter().find(|function| function.name == name);
    found.unwrap_or_else(|| panic!("{name} is in {hot:?}"))
}

#[test]
fn misses_and_instructions_are_those_of_the_function_that_causes_them() {
    let folder = Folder::new();
    for options in [&["-g"][..], &["-g", "-static"], &["-g", "-no-pie"]] {
        let Some(path) = program(&folder, "cc", options, &own_emulator()) else { return };
        let record = hot_record(&path, "l1d_misses");
        assert_sums(&record);
        let hot = hot_spots(&record);
        let (walk, compute) = (function(hot, "walk"), function(hot, "compute"));
        assert_eq!((hot.functions[0].name.as_str(), walk.module.as_str()), ("walk", "hot"));
        let [misses, all] = [&walk.counts, &hot.totals].map(|one| hot.count("l1d_misses", one));
        assert!((MISSES..MISSES + 100).contains(&misses), "{misses}");
        assert!(misses as f64 >= 0.95 * all as f64, "{misses} of {all}");
        assert!(hot.count("l1d_misses", &compute.counts) < 100, "{compute:?}");
        let instructions = hot.count("instructions", &compute.counts);
        assert!((3 * STEPS..6 * STEPS + 100).contains(&instructions), "{instructions}");
        let source = std::fs::read_to_string(SOURCE).expect("the source is there");
        let line = source.lines().position(|line| line.contains("(void)memory[at]"));
        let hottest = walk.lines.first().expect("a line");
        assert!(hottest.file.ends_with("hot.c"), "{hottest:?}");
        assert_eq!(hottest.line as usize, line.expect("it is there") + 1);
    }
}

#[test]
fn functions_of_a_stripped_program_are_kept_apart_by_address() {
    let folder = Folder::new();
    let Some(path) = program(&folder, "cc", &["-s"], &own_emulator()) else { return };
    let record = hot_record(&path, "instructions");
    assert_sums(&record);
    let hot = hot_spots(&record);
    let (compute, walk) = (&hot.functions[0], &hot.functions[1]);
    for one in [compute, walk] {
        assert!(one.name.starts_with("hot+0x") && one.lines.is_empty(), "{one:?}");
    }
    assert_ne!(compute.name, walk.name);
    assert!(hot.count("l1d_misses", &walk.counts) >= MISSES, "{walk:?}");
    assert!(hot.unread.iter().any(|one| one.reason.contains("no source lines for hot: ")));
}

#[test]
fn functions_of_programs_of_other_architectures_have_names() {
    let folder = Folder::new();
    for (compiler, emulator) in [
        ("arm-linux-gnueabi-gcc", "qemu-arm"),
        ("aarch64-linux-gnu-gcc", "qemu-aarch64"),
        ("powerpc-linux-gnu-gcc", "qemu-ppc"),
    ] {
        let Some(path) = program(&folder, compiler, &["-g", "-static"], emulator) else { continue };
        let record = hot_record(&path, "l1d_misses");
        assert_sums(&record);
        let hot = hot_spots(&record);
        assert_eq!(hot.functions[0].name, "walk", "{compiler}");
        assert!(hot.functions[0].lines[0].file.ends_with("hot.c"), "{compiler}");
    }
}

#[test]
fn the_report_ranks_functions_and_the_export_folds_them() {
    let folder = Folder::new();
    let Some(path) = program(&folder, "cc", &["-g"], &own_emulator()) else { return };
    let kept = folder.file("record.json");
    let hot = ["--tier", "sim", "--hot=l1d_misses", "--record", &kept, "--", &path];
    let text = answered(0, &hot);
    let row = text.lines().find(|line| line.contains(" walk (hot)")).expect("a row");
    assert!(row.trim_start().starts_with("9") && row.contains(" hot.c:"), "{row}");
    let functions = text.lines().filter(|line| line.ends_with(')') && line.contains(" (")).count();
    assert!(functions <= 24, "{text}");
    let done = linerate(&["export", &kept, "--format", "folded"]);
    assert_eq!(done.status, Some(0), "{done:?}");
    let record = record(&std::fs::read_to_string(&kept).expect("it is written"));
    let folded =
        |line: &str| line.rsplit_once(' ').and_then(|(_, count)| count.parse::<u64>().ok());
    let sum: u64 = done.stdout.lines().map(|line| folded(line).expect("a count")).sum();
    assert!(done.stdout.starts_with("hot;walk "), "{}", done.stdout);
    assert_eq!(sum as f64, count(report_of(&record), "l1d_misses"));
}

#[test]
fn what_cannot_be_counted_by_function_is_refused_in_one_sentence() {
    let said = refused(&["--hot", "--", "true"]);
    assert_eq!(said, "linerate: --hot applies to simulation only: add --tier sim\n");
    let said = refused(&["--tier", "sim", "--hot=cycles", "--", "true"]);
    assert!(said.contains("--hot: cycles: ") || said.contains("qemu"), "{said}");
    let said = refused(&["--tier", "sim", "--simulator", "valgrind", "--hot", "--", "true"]);
    assert!(said.contains("only QEMU counts by function"), "{said}");
}
