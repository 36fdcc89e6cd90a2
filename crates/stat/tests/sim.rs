// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulates programs with known counts.
//!
//! Needs Valgrind and a C compiler with a static C library; without them, prints `SKIP` and why.

use linerate_doctor::host_facts::HostFacts;
use linerate_linux::child::{Ended, ExecError};
use linerate_stat::sim::{Geometry, Remark, Sim, SimCounts, SimError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The simulator, and the compiled program `tests/sim/known.c`.
struct Known {
    folder: TempDir,
    sim: Sim,
    geometry: Geometry,
}

impl Known {
    /// Compiles the program; `None`, after printing why, if there is no simulator.
    fn new(options: &[&str]) -> Option<Self> {
        let sim = match Sim::find(&HostFacts::gather()) {
            Ok(sim) => sim,
            Err(refusal) => return skip(&refusal.sentence),
        };
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sim/known.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-o"]).arg(folder.path().join("known")).arg(source).args(options);
        match compiler.output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => return skip(&String::from_utf8_lossy(&output.stderr)),
            Err(error) => return skip(&format!("cc: {error}")),
        }
        let geometry = Geometry::parse("i1=16K/4/64,d1=16K/4/64,ll=128K/8/64").unwrap();
        Some(Self { folder, sim, geometry })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("known")
    }

    fn argv(&self, arguments: &str) -> Vec<OsString> {
        let arguments = arguments.split_whitespace().map(OsString::from);
        std::iter::once(self.path().into_os_string()).chain(arguments).collect()
    }

    fn run(&self, arguments: &str) -> (SimCounts, Ended) {
        self.sim.run(&self.argv(arguments), &self.geometry).unwrap()
    }

    fn counts(&self, arguments: &str) -> SimCounts {
        self.run(arguments).0
    }
}

fn skip<T>(reason: &str) -> Option<T> {
    println!("SKIP: {reason}");
    None
}

/// Returns the difference between an event's counts in `more` and `less`.
fn difference(name: &str, more: &SimCounts, less: &SimCounts) -> i64 {
    let count = |counts: &SimCounts| i64::try_from(counts.get(name).unwrap()).unwrap();
    count(more) - count(less)
}

#[test]
fn counts_are_exact_and_three_runs_agree() {
    let Some(known) = Known::new(&["-static"]) else { return };
    let base = known.counts("l1000 s1000 w1000 p1000");
    assert_eq!(base.remarks, []);
    assert_eq!(base.processes, 1);
    for _ in 0..2 {
        assert_eq!(known.counts("l1000 s1000 w1000 p1000"), base);
    }
    // Arguments of the same length, so that the stack has the same layout.
    let more = known.counts("l4000 s3000 w2000 p2000");
    assert_eq!(difference("loads", &more, &base), 3000 + 1000);
    assert_eq!(difference("stores", &more, &base), 2000);
    assert_eq!(difference("l1d_accesses", &more, &base), 3000 + 2000 + 1000);
    assert_eq!(difference("branches", &more, &base), 3000 + 2000 + 1000 + 1000);
    assert!(difference("instructions", &more, &base) >= 2 * 7000);
}

#[test]
fn misses_are_those_of_the_caches_given() {
    let Some(mut known) = Known::new(&["-static"]) else { return };
    let difference = |known: &Known, name: &str, more: &str, less: &str| {
        difference(name, &known.counts(more), &known.counts(less))
    };
    // In 16 KiB with 64 sets, 100 lines occupy two of four ways, which leaves room for the program
    // itself.
    assert_eq!(difference(&known, "l1d_misses", "p0100 p0100", "p0100 p0000"), 0);
    // 400 lines are six per set: each is evicted to the 128 KiB last level before it is used again.
    // The few lines of the program itself are evicted as well.
    let beyond = difference(&known, "l1d_misses", "p0400 p0400", "p0400 p0000");
    assert!((400..=420).contains(&beyond), "{beyond}");
    assert_eq!(difference(&known, "ll_misses", "p0400 p0400", "p0400 p0000"), 0);
    known.geometry = Geometry::parse("i1=16K/4/64,d1=1M/16/64,ll=2M/16/64").unwrap();
    assert_eq!(difference(&known, "l1d_misses", "p2000", "p1000"), 1000);
    assert_eq!(difference(&known, "ll_misses", "p2000", "p1000"), 1000);
}

/// Maximum branches that creating processes may add, far fewer than a loop counted twice.
const PROCESS: i64 = 50_000;

#[test]
fn every_process_counts_once() {
    for options in [&["-static"][..], &[]] {
        let Some(known) = Known::new(options) else { return };
        let one = known.counts("w1000000");
        // A child that loops 100 000 times, a child that fails, then a second loop in the parent.
        let forked = known.counts("w1000000 fw F w1000000");
        assert_eq!(forked.remarks, []);
        assert_eq!(forked.processes, 3);
        let own = difference("branches", &forked, &one) - 100_000 - 1_000_000;
        assert!((0..PROCESS).contains(&own), "{own}");
        // One process that runs two programs.
        let became = known.counts("w1000000 e w1000000");
        assert_eq!(became.remarks, []);
        assert_eq!(became.processes, 1);
        let own = difference("branches", &became, &one) - 1_000_000;
        assert!((0..PROCESS).contains(&own), "{own}");
        // Three programs. The only stretch of the first has the same number as the second's.
        let lost = known.counts("w1000000 e w1000000 e w1000000");
        assert_eq!(lost.remarks, [Remark::Overwritten { processes: 1 }]);
        assert!(difference("branches", &lost, &became).abs() < PROCESS);
    }
}

#[test]
fn reports_what_cannot_be_determined() {
    let Some(stripped) = Known::new(&["-static", "-s"]) else { return };
    let counts = stripped.counts("w1000000 fw");
    assert_eq!(counts.remarks, [Remark::Inseparable { processes: 1 }]);
    assert!(counts.get("branches").unwrap() < 1_100_000);
    let left = stripped.counts("d w1000");
    assert_eq!(left.remarks, [Remark::Unfinished { processes: 1 }]);
    assert!(left.get("branches").unwrap() > 1000);
}

#[test]
fn the_command_ends_and_speaks_as_without() {
    let Some(known) = Known::new(&["-static"]) else { return };
    let (counts, ended) = known.run("w1000 c x7");
    assert_eq!((ended.status, ended.signal), (Some(7), None));
    assert!(counts.get("branches").unwrap() > 1000);
    let (counts, ended) = known.run("w1000 k15");
    assert_eq!((ended.status, ended.signal), (None, Some(15)));
    assert!(counts.get("branches").unwrap() > 1000);

    let simulation = known.sim.prepare(&known.argv("o w1000"), &known.geometry).unwrap();
    let (program, arguments) = simulation.command();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    // The user's own Valgrind settings do not affect the simulation.
    command.env("VALGRIND_OPTS", "--tool=none --verbose");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");
    assert!(simulation.collect(pid).unwrap().get("branches").unwrap() > 1000);
}

#[test]
fn reports_an_unstartable_command_early() {
    let Ok(sim) = Sim::find(&HostFacts::gather()) else {
        println!("SKIP: no valgrind");
        return;
    };
    let geometry = Geometry::named("g4").unwrap();
    let errno = |command: &str| match sim.prepare(&[command.into()], &geometry) {
        Err(SimError::Command(ExecError { errno })) => errno,
        other => panic!("{other:?}"),
    };
    assert_eq!(errno("no-such-command-anywhere"), 2);
    assert_eq!(errno("/no/such/command"), 2);
    assert_eq!(errno(""), 2);
    assert_eq!(errno("/etc/passwd"), 13);
    assert_eq!(errno("/etc"), 13);
    let simulation = sim.prepare(&["true".into()], &geometry).unwrap();
    assert!(matches!(simulation.collect(1), Err(SimError::NoCounts { .. })));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn an_instruction_that_is_not_simulated_is_named() {
    let Some(known) = Known::new(&["-static"]) else { return };
    let source = known.folder.path().join("wide.c");
    let body = "int main(void) { __asm__ volatile(\"vpxorq %zmm0, %zmm0, %zmm0\"); return 0; }";
    std::fs::write(&source, body).unwrap();
    let made = Command::new("cc").arg("-o").arg(known.path()).arg(source).status().unwrap();
    assert!(made.success());
    let (counts, ended) = known.run("");
    assert_eq!(ended.signal, Some(4));
    let [Remark::UnknownInstruction { bytes }] = counts.remarks.as_slice() else {
        panic!("{:?}", counts.remarks);
    };
    assert!(bytes.starts_with("0x62 "), "{bytes}");
}

/// Valgrind accepts all of them, including this machine's.
#[test]
fn all_caches_can_be_simulated() {
    let Some(known) = Known::new(&["-static"]) else { return };
    let named = Geometry::names().map(|(name, _)| Geometry::named(name).unwrap());
    // A guest that reports no caches has no geometry of its own to simulate.
    for geometry in named.chain(Geometry::this_machine().ok()) {
        let (counts, _) = known.sim.run(&known.argv(""), &geometry).unwrap();
        assert!(counts.get("l1i_misses").unwrap() > 0, "{geometry:?}");
    }
}
