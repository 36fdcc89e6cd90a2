// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulates programs with known counts in QEMU.
//!
//! Needs qemu-user and a C compiler with a static C library; without them, prints `SKIP` and why.

use crate::rig::{event, events, watch};
use linerate_linux::signal::Pending;
use linerate_record::{Provenance, Tier, Warning};
use linerate_stat::sim::Geometry;
use linerate_stat::{Outcome, Request, Simulator, StatError, What};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const EVENTS: [&str; 6] =
    ["instructions", "loads", "stores", "l1d_misses", "branches", "main_tlb_misses"];

/// L1 of 16 KiB, L2 of 128 KiB, 16 pages in the first TLB level, 64 in the second.
const CACHES: &str = "i1=16K/4/64,d1=16K/4/64,l2=128K/8/64,itlb=16,dtlb=16,tlb2=64/4,page=4K";

/// The compiled program `tests/sim/known.c`.
pub(crate) struct Known {
    pub(crate) folder: TempDir,
    pub(crate) caches: String,
}

/// Counts by event.
pub(crate) type Counts = BTreeMap<String, i64>;

impl Known {
    /// Compiles the program; `None`, after printing why, if that or emulation is not possible.
    pub(crate) fn new(compiler: &str, options: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sim/known.c");
        let mut command = Command::new(compiler);
        command.args(["-O1", "-o"]).arg(folder.path().join("known")).arg(source).args(options);
        match command.output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => return skip(&String::from_utf8_lossy(&output.stderr)),
            Err(error) => return skip(&format!("{compiler}: {error}")),
        }
        let known = Self { folder, caches: CACHES.to_owned() };
        match known.request("w1", Simulator::Qemu).run(&watch(&Pending::new())) {
            Err(StatError::NoSimulator { reason }) => skip(&reason),
            Err(error) => panic!("{error}"),
            Ok(_) => Some(known),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("known")
    }

    fn argv(&self, arguments: &str) -> Vec<OsString> {
        let arguments = arguments.split_whitespace().map(OsString::from);
        std::iter::once(self.path().into_os_string()).chain(arguments).collect()
    }

    pub(crate) fn request(&self, arguments: &str, simulator: Simulator) -> Request {
        self.requested(self.argv(arguments), simulator)
    }

    pub(crate) fn requested(&self, argv: Vec<OsString>, simulator: Simulator) -> Request {
        let request = events(Request::new(What::Command { argv }), &EVENTS);
        Request {
            tier: Some(Tier::Sim),
            caches: Some(Geometry::parse(&self.caches).unwrap()),
            plugin: Some(linerate_cachesim::PLUGIN),
            simulator: Some(simulator),
            ..request
        }
    }

    pub(crate) fn run(&self, arguments: &str) -> Outcome {
        let request = self.request(arguments, Simulator::Qemu);
        request.run(&watch(&Pending::new())).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn counts(&self, arguments: &str) -> Counts {
        let outcome = self.run(arguments);
        assert_eq!(outcome.status, 0);
        assert_eq!(warnings(&outcome), []);
        counts(&outcome)
    }

    /// Returns how many more events occur with the arguments `more` than with `less`. Both must
    /// have the same length, so that the stack has the same layout.
    pub(crate) fn difference(&self, name: &str, more: &str, less: &str) -> i64 {
        assert_eq!(more.len(), less.len());
        self.counts(more)[name] - self.counts(less)[name]
    }
}

pub(crate) fn skip<T>(reason: &str) -> Option<T> {
    println!("SKIP: {reason}");
    None
}

pub(crate) fn warnings(outcome: &Outcome) -> Vec<Warning> {
    use linerate_record::Derive;
    outcome.report.warnings(&Provenance::default())
}

pub(crate) fn counts(outcome: &Outcome) -> Counts {
    let count = |event: &linerate_record::stat::EventCount| event.raw.map(|raw| raw as i64);
    let all = outcome.report.events.iter();
    all.filter_map(|event| Some((event.name.clone(), count(event)?))).collect()
}

#[test]
fn emulated_counts_are_exact_and_repeat() {
    let Some(known) = Known::new("cc", &["-static"]) else { return };
    let base = known.counts("l1000 s1000 w1000 p1000");
    for _ in 0..2 {
        assert_eq!(known.counts("l1000 s1000 w1000 p1000"), base);
    }
    let more = known.counts("l4000 s3000 w2000 p2000");
    let difference = |name: &str| more[name] - base[name];
    assert_eq!(difference("loads"), 3000 + 1000);
    assert_eq!(difference("stores"), 2000);
    assert_eq!(difference("branches"), 3000 + 2000 + 1000 + 1000);
    let outcome = known.run("w1");
    let machine = outcome.report.caches.as_ref().unwrap().machine.as_ref().unwrap();
    assert!(machine.emulator.starts_with("qemu-") && machine.levels.len() == 3, "{machine:?}");
}

#[test]
fn emulated_misses_are_those_of_the_caches_and_tlbs_given() {
    let Some(mut known) = Known::new("cc", &["-static"]) else { return };
    // 100 lines occupy two of four ways, which leaves room for the program itself.
    assert_eq!(known.difference("l1d_misses", "p0100 p0100", "p0100 p0000"), 0);
    let beyond = known.difference("l1d_misses", "p0400 p0400", "p0400 p0000");
    assert!((400..=420).contains(&beyond), "{beyond}");
    // 4096 lines are 64 pages: as many as the second TLB level holds, with one set for every 16th.
    let walks = known.difference("main_tlb_misses", "p4096 p4096", "p4096 p0000");
    assert!((0..64).contains(&walks), "{walks}");
    known.caches = CACHES.replace(",tlb2=64/4", "");
    let walks = known.difference("main_tlb_misses", "p4096 p4096", "p4096 p0000");
    assert!((64..=70).contains(&walks), "{walks}");
    known.caches = CACHES.replace("page=4K", "page=2M");
    let walks = known.difference("main_tlb_misses", "p4096 p4096", "p4096 p0000");
    assert_eq!(walks, 0);
}

#[test]
fn emulated_misses_agree_with_valgrind() {
    let Some(known) = Known::new("cc", &["-static"]) else { return };
    let counted = |simulator| {
        let request = known.request("p4096 w1000 p4096 p0200 p0200", simulator);
        request.run(&watch(&Pending::new())).map(|outcome| counts(&outcome))
    };
    let Ok(valgrind) = counted(Simulator::Valgrind) else {
        println!("SKIP: no valgrind");
        return;
    };
    let emulated = counted(Simulator::Qemu).unwrap();
    for (name, tolerance) in [("l1d_misses", 100), ("branches", 2000), ("loads", 2000)] {
        let off = emulated[name] - valgrind[name];
        assert!(off.abs() < tolerance, "{name}: {} and {}", emulated[name], valgrind[name]);
    }
}

/// Maximum branches that creating processes may add, far fewer than a loop counted twice.
const PROCESS: i64 = 100_000;

#[test]
fn every_emulated_process_and_program_counts_once() {
    for options in [&["-static", "-s"][..], &[]] {
        let Some(known) = Known::new("cc", options) else { return };
        let one = known.counts("w1000000")["branches"];
        let forked = known.counts("w1000000 fw F w1000000")["branches"] - one;
        assert!((0..PROCESS).contains(&(forked - 1_100_000)), "{forked}");
        let three = known.counts("w1000000 e w1000000 e w1000000")["branches"] - one;
        assert!((0..PROCESS).contains(&(three - 2_000_000)), "{three}");
        let script = known.folder.path().join("script");
        let text = format!("#!/bin/sh\n{0} w1000000\nexec {0} w1000000\n", known.path().display());
        std::fs::write(&script, text).unwrap();
        assert!(Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
        let shell: [OsString; 4] =
            ["sh".into(), "-c".into(), "\"$0\" && exit 3".into(), script.into()];
        for (argv, status) in [(vec![shell[3].clone()], 0), (shell.to_vec(), 3)] {
            let request = known.requested(argv, Simulator::Qemu);
            let outcome = request.run(&watch(&Pending::new())).unwrap();
            assert_eq!((outcome.status, warnings(&outcome)), (status, vec![]));
            let own = counts(&outcome)["branches"] - one;
            assert!((0..3 * PROCESS).contains(&(own - 1_000_000)), "{own}");
        }
    }
}

#[test]
fn emulated_commands_end_as_without() {
    let Some(known) = Known::new("cc", &["-static"]) else { return };
    let outcome = known.run("w1000 c x7");
    assert_eq!(outcome.status, 7);
    assert!(counts(&outcome)["branches"] > 1000);
    // The counts survive even SIGKILL.
    for signal in [15, 9] {
        let outcome = known.run(&format!("w1000 k{signal}"));
        assert_eq!(outcome.report.ended.unwrap().signal, Some(signal));
        assert!(counts(&outcome)["branches"] > 1000);
    }
    let left = known.run("d w1000");
    assert_eq!(warnings(&left), [Warning::UnfinishedProcesses { processes: 1 }]);
    let missing = known.requested(vec!["no-such-command-anywhere".into()], Simulator::Qemu);
    let missing = missing.run(&watch(&Pending::new())).unwrap();
    assert_eq!(missing.status, 127);
    assert_eq!(event(&missing, "instructions").raw, None);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn an_instruction_that_is_not_emulated_is_named() {
    let Some(known) = Known::new("cc", &["-static"]) else { return };
    let source = known.folder.path().join("wide.c");
    let body = "int main(void) { __asm__ volatile(\"vpxorq %zmm0, %zmm0, %zmm0\"); return 0; }";
    std::fs::write(&source, body).unwrap();
    let made = Command::new("cc").arg("-o").arg(known.path()).arg(source).status().unwrap();
    assert!(made.success());
    let outcome = known.run("");
    assert_eq!(outcome.report.ended.unwrap().signal, Some(4));
    let warnings = warnings(&outcome);
    let [Warning::UnknownInstruction { bytes }] = warnings.as_slice() else {
        panic!("{warnings:?}");
    };
    assert!(bytes.starts_with("0x62 "), "{bytes}");
}

/// Simulates an ARMv6 program on an ARM1176, a PowerPC program on a G4, and others.
#[test]
fn programs_of_other_architectures_run_on_their_own_caches() {
    for (compiler, options, caches, emulator, processor) in [
        (
            "arm-linux-gnueabi-gcc",
            &["-static", "-march=armv6"][..],
            "arm1176",
            "qemu-arm",
            "arm1176",
        ),
        ("aarch64-linux-gnu-gcc", &["-static"], "cortex_a53", "qemu-aarch64", "cortex-a53"),
        ("powerpc-linux-gnu-gcc", &["-static"], "g4", "qemu-ppc", "7455"),
        ("sparc64-linux-gnu-gcc", &["-static"], "t1", "qemu-sparc64", "default"),
    ] {
        let Some(mut known) = Known::new(compiler, options) else { continue };
        known.caches = caches.to_owned();
        assert_eq!(known.difference("loads", "l4000", "l1000"), 3000, "{compiler}");
        assert_eq!(known.difference("stores", "s3000", "s1000"), 2000, "{compiler}");
        let outcome = known.run("w1000");
        let caches = outcome.report.caches.as_ref().unwrap();
        let machine = caches.machine.as_ref().unwrap();
        assert_eq!((&*machine.emulator, &*machine.processor), (emulator, processor));
        let has_branches = event(&outcome, "branches").raw.is_some();
        assert_eq!(has_branches, emulator != "qemu-sparc64");
        let request = known.request("w1", Simulator::Qemu);
        let unspecified = Request { simulator: None, ..request };
        assert_eq!(unspecified.run(&watch(&Pending::new())).unwrap().status, 0);
    }
}

/// Without an explicit simulator, Valgrind is the fallback if QEMU does not load the plug-in.
#[test]
fn valgrind_is_used_where_the_plug_in_is_not_loaded() {
    let Some(known) = Known::new("cc", &["-static"]) else { return };
    let request = known.request("w1000", Simulator::Qemu);
    let broken = Request { plugin: Some(b"no shared object"), ..request };
    let Err(StatError::NoSimulator { reason }) = broken.run(&watch(&Pending::new())) else {
        panic!("it was loaded");
    };
    assert!(reason.contains("did not load the plug-in"), "{reason}");
    match (Request { simulator: None, ..broken }).run(&watch(&Pending::new())) {
        Ok(outcome) => assert_eq!(outcome.report.event_table, "callgrind"),
        Err(error) => assert!(error.to_string().contains("Valgrind"), "{error}"),
    }
}
