// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests counts per instruction of simulated programs: they add up to the program's counts, which
//! equal those of a simulation without counts per instruction.
//!
//! Needs qemu-user and a C compiler; without them, prints `SKIP` and why.

use crate::rig::{event, events, watch};
use linerate_linux::signal::Pending;
use linerate_record::Tier;
use linerate_record::stat::{CodeCounts, CodeSpot};
use linerate_stat::sim::Geometry;
use linerate_stat::{Outcome, Request, Simulator, StatError, What};
use std::path::Path;
use std::process::Command;

const EVENTS: [&str; 8] = [
    "instructions",
    "l1d_accesses",
    "l1d_misses",
    "l1i_misses",
    "l2_misses",
    "main_tlb_misses",
    "branches",
    "branch_misses",
];

const CACHES: &str = "i1=16K/4/64,d1=16K/4/64,l2=128K/8/64,itlb=16,dtlb=16,tlb2=64/4,page=4K";

/// Lines that `walk` of `tests/sim/hot.c` misses.
const MISSES: u64 = 20 * (1 << 20) / 64;

fn skip<T>(reason: &str) -> Option<T> {
    println!("SKIP counts per instruction: {reason}");
    None
}

/// Compiles the program `tests/sim/hot.c`; `None`, after printing why, if that is not possible.
fn compiled(compiler: &str, options: &[&str], to: &Path) -> Option<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sim/hot.c");
    let mut command = Command::new(compiler);
    command.args(["-O1", "-o"]).arg(to).arg(source).args(options);
    match command.output() {
        Ok(output) if output.status.success() => Some(()),
        Ok(output) => skip(&String::from_utf8_lossy(&output.stderr)),
        Err(error) => skip(&format!("{compiler}: {error}")),
    }
}

fn request(argv: &[&str], hot: Option<&str>) -> Request {
    let argv = argv.iter().map(Into::into).collect();
    Request {
        tier: Some(Tier::Sim),
        caches: Some(Geometry::parse(CACHES).unwrap()),
        plugin: Some(linerate_cachesim::PLUGIN),
        simulator: Some(Simulator::Qemu),
        hot: hot.map(str::to_owned),
        ..events(Request::new(What::Command { argv }), &EVENTS)
    }
}

/// Simulates a command; `None`, after printing why, without an emulator.
fn simulated(argv: &[&str], hot: Option<&str>) -> Option<Outcome> {
    match request(argv, hot).run(&watch(&Pending::new())) {
        Err(StatError::NoSimulator { reason }) => skip(&reason),
        outcome => Some(outcome.unwrap_or_else(|error| panic!("{error}"))),
    }
}

/// Returns the count of an event; 0 if it was not counted.
fn raw(outcome: &Outcome, name: &str) -> u64 {
    event(outcome, name).raw.unwrap_or(0)
}

/// Checks the sums over all instructions, and returns the counts.
#[track_caller]
fn assert_sums(outcome: &Outcome) -> &CodeCounts {
    let code = outcome.code.as_ref().expect("counts per instruction");
    for (place, name) in code.events.iter().enumerate() {
        let spots: u64 = code.spots.iter().map(|spot| spot.counts[place]).sum();
        assert_eq!(spots + code.rest[place], raw(outcome, name), "{name}");
    }
    code
}

/// Returns the highest count of an event at one instruction, and that instruction.
fn hottest<'a>(code: &'a CodeCounts, name: &str) -> (u64, &'a CodeSpot) {
    let place = code.events.iter().position(|event| event == name).unwrap();
    let spots = code.spots.iter().map(|spot| (spot.counts[place], spot));
    spots.max_by_key(|(count, _)| *count).unwrap()
}

#[test]
fn counts_per_instruction_add_up_to_those_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hot");
    let name = path.to_str().unwrap();
    for options in [&["-static"][..], &[], &["-static", "-s"]] {
        let Some(()) = compiled("cc", options, &path) else { return };
        let Some(without) = simulated(&[name], None) else { return };
        let with = simulated(&[name], Some("l1d_misses")).unwrap();
        assert_eq!(without.code, None);
        for event in EVENTS {
            assert_eq!(raw(&with, event), raw(&without, event), "{event} {options:?}");
        }
        let code = assert_sums(&with);
        let (misses, spot) = hottest(code, "l1d_misses");
        assert!((MISSES..MISSES + 2000).contains(&misses), "{misses}");
        let file = &code.files[spot.file.unwrap() as usize];
        assert!(file.path.ends_with("/hot"), "{file:?}");
        // A step of `compute` executes each of its instructions a million times.
        let (executions, _) = hottest(code, "instructions");
        assert!((1_000_000..1_000_100).contains(&executions), "{executions}");
    }
}

#[test]
fn all_processes_and_programs_of_a_command_count_per_instruction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hot");
    let Some(()) = compiled("cc", &[], &path) else { return };
    let script = format!("{0} && {0} child", path.to_str().unwrap());
    let Some(outcome) = simulated(&["sh", "-c", &script], Some("instructions")) else { return };
    let code = assert_sums(&outcome);
    let place = code.events.iter().position(|event| event == "l1d_misses").unwrap();
    let is_program = |spot: &&CodeSpot| {
        spot.file.is_some_and(|file| code.files[file as usize].path.ends_with("/hot"))
    };
    let misses: u64 = code.spots.iter().filter(is_program).map(|spot| spot.counts[place]).sum();
    // Three processes: one alone, then a parent and its child.
    assert!((3 * MISSES..3 * MISSES + 6000).contains(&misses), "{misses}");
}

#[test]
fn counts_per_instruction_survive_a_killed_command() {
    let Some(outcome) = simulated(&["sh", "-c", "kill -9 $$"], Some("instructions")) else {
        return;
    };
    assert_eq!(outcome.report.ended.unwrap().signal, Some(9));
    assert!(assert_sums(&outcome).spots.len() > 1000);
}

#[test]
fn programs_of_other_architectures_count_per_instruction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hot");
    for compiler in ["arm-linux-gnueabi-gcc", "aarch64-linux-gnu-gcc", "powerpc-linux-gnu-gcc"] {
        let Some(()) = compiled(compiler, &["-static"], &path) else { continue };
        let argv = [path.to_str().unwrap()];
        let Some(outcome) = simulated(&argv, Some("l1d_misses")) else { continue };
        let (misses, spot) = hottest(assert_sums(&outcome), "l1d_misses");
        assert!((MISSES..MISSES + 2000).contains(&misses), "{compiler}: {misses}");
        assert!(spot.file.is_some(), "{compiler}");
    }
}

#[test]
fn what_cannot_be_counted_per_instruction_is_refused() {
    let refused = |request: Request| match request.run(&watch(&Pending::new())) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("the request was accepted"),
    };
    let hot = || request(&["true"], Some("l1d_misses"));
    assert!(refused(Request { tier: None, caches: None, ..hot() }).contains("add --tier sim"));
    assert!(refused(Request { repeat: 2, ..hot() }).contains("drop --repeat"));
    let valgrind = Request { simulator: Some(Simulator::Valgrind), ..hot() };
    assert!(refused(valgrind).contains("only QEMU counts by function"));
    let without = Request { plugin: None, simulator: None, ..hot() };
    assert!(refused(without).contains("--hot"), "without a plug-in");
    let cycles = request(&["true"], Some("cycles"));
    match cycles.run(&watch(&Pending::new())) {
        Err(StatError::NoSimulator { reason }) => println!("SKIP an event: {reason}"),
        Err(error) => assert!(error.to_string().contains("--hot: cycles: "), "{error}"),
        Ok(_) => panic!("cycles were counted"),
    }
}
