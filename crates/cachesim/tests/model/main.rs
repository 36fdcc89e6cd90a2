// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the model with a slow reference on random machines and traces, and its predictor with
//! outcomes known in advance. Requires a C compiler, as the crate itself does.

mod reference;

use reference::{Contents, Counts, Machine, Policy, Reference, Shape, Writes};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The compiled model, as a program that replays traces.
struct Replay {
    _folder: TempDir,
    program: PathBuf,
}

impl Replay {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("replay");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I"]);
        compiler.arg(root.join("plugin")).arg("-o").arg(&program);
        compiler.arg(root.join("tests/replay.c"));
        let files = ["array.c", "index.c", "machine.c", "cpu.c"];
        compiler.args(files.map(|file| root.join("plugin").join(file)));
        assert!(compiler.status().unwrap().success());
        Self { _folder: folder, program }
    }

    /// Returns what the program prints for a machine and a trace.
    fn output(&self, machine: &[String], trace: &str) -> String {
        let mut command = Command::new(&self.program);
        command.args(machine).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The program exits without reading the trace if it rejects the machine.
        let _ = child.stdin.take().unwrap().write_all(trace.as_bytes());
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    }

    fn counts(&self, machine: &[String], trace: &str) -> Vec<Counts> {
        let counts = |line: &str| {
            let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
            Counts(numbers.try_into().unwrap())
        };
        self.output(machine, trace).lines().map(counts).collect()
    }
}

fn choose<T: Copy>(rng: &mut fastrand::Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

fn shape(rng: &mut fastrand::Rng, block_bytes: u64) -> Shape {
    let policy = choose(rng, &[Policy::Lru, Policy::Lru, Policy::Fifo, Policy::Random]);
    let (sets, ways) = choose(rng, &[(1, 4), (1, 24), (4, 2), (8, 4), (16, 1), (5, 3), (64, 8)]);
    Shape { sets, ways, block_bytes, policy }
}

fn machine(rng: &mut fastrand::Rng) -> Machine {
    use Contents::{Any, Exclusive, Inclusive, Victim};
    let line = choose(rng, &[16, 32, 64]);
    let code_line = choose(rng, &[line, line, 16]);
    let beyond_bytes = if rng.bool() { line } else { 64 };
    let contents: &[Contents] = match code_line == line && beyond_bytes == line {
        true => &[Any, Inclusive, Exclusive, Victim],
        false => &[Any, Inclusive],
    };
    let level = |rng: &mut fastrand::Rng, contents: &[Contents]| {
        let found = (shape(rng, beyond_bytes), choose(rng, contents));
        rng.u8(..4).gt(&0).then_some(found)
    };
    let l2 = level(rng, contents);
    let l3 = l2.and_then(|_| level(rng, &[Any, Inclusive, Exclusive, Victim]));
    let is_filled_by_victims = matches!(l2, Some((_, Contents::Exclusive | Contents::Victim)));
    let writes = match is_filled_by_victims {
        true => choose(rng, &[Writes::Allocate, Writes::Around]),
        false => choose(rng, &[Writes::Allocate, Writes::Around, Writes::Through]),
    };
    let page_bytes = choose(rng, &[64, 256, 4096]);
    let has_tlbs = rng.u8(..5) > 0;
    let tlb = |rng: &mut fastrand::Rng| has_tlbs.then(|| shape(rng, page_bytes));
    Machine {
        l1i: shape(rng, code_line),
        l1d: shape(rng, line),
        writes,
        l2,
        l3,
        itlb: tlb(rng),
        dtlb: tlb(rng),
        tlb2: tlb(rng).filter(|_| page_bytes > 64),
        page_bytes,
    }
}

/// Converts the machine to the plugin's arguments.
fn description(machine: &Machine) -> Vec<String> {
    let array = |shape: Shape| format!("{}:{}", shape.sets, shape.ways);
    let cache = |name: &str, shape: Shape, last: u8| {
        let (line, policy) = (shape.block_bytes, shape.policy as u8);
        format!("{name}={}:{line}:{policy}:{last}", array(shape))
    };
    let tlb = |name: &str, shape: Option<Shape>| {
        shape.map(|shape| format!("{name}={}:{}", array(shape), shape.policy as u8))
    };
    let l1i = cache("l1i", machine.l1i, 0);
    let mut all = vec![l1i, cache("l1d", machine.l1d, machine.writes as u8)];
    for (name, level) in [("l2", machine.l2), ("l3", machine.l3)] {
        all.extend(level.map(|(shape, contents)| cache(name, shape, contents as u8)));
    }
    all.extend(tlb("itlb", machine.itlb).into_iter().chain(tlb("dtlb", machine.dtlb)));
    all.extend(tlb("tlb2", machine.tlb2));
    all.push(format!("page={}", machine.page_bytes));
    all
}

/// Runs random strided accesses on the reference model. Returns them as a trace, together with the
/// counts of the reference. Address ranges are chosen such that every level sometimes misses.
fn mixed(
    rng: &mut fastrand::Rng,
    reference: &mut Reference,
    steps: usize,
) -> (String, Vec<Counts>) {
    let (mut trace, mut counts) = (String::new(), Vec::new());
    for step in 0..steps {
        let range = choose(rng, &[256, 4096, 65536, 1 << 20]);
        let (start, stride) = (rng.u64(..range), rng.u64(..512));
        let bytes = choose(rng, &[1, 4, 8, 8, 16, 64]);
        let kind = choose(rng, b"llsf");
        for i in 0..rng.u64(1..20) {
            let address = start + i * stride;
            match kind {
                b'l' => reference.load(address, bytes),
                b's' => reference.store(address, bytes),
                _ => reference.fetch(address, address + bytes),
            }
            let second = if kind == b'f' { address + bytes } else { bytes };
            writeln!(trace, "{} {address:x} {second:x}", kind as char).unwrap();
        }
        if step % 50 == 0 || step + 1 == steps {
            trace.push_str("p\n");
            counts.push(reference.counts);
        }
    }
    (trace, counts)
}

#[test]
fn agrees_with_the_reference_on_random_machines() {
    let replay = Replay::new();
    let rng = &mut fastrand::Rng::with_seed(1);
    for _ in 0..150 {
        let machine = machine(rng);
        let mut reference = Reference::new(&machine);
        let (trace, expected) = mixed(rng, &mut reference, 300);
        let counts = replay.counts(&description(&machine), &trace);
        assert_eq!(counts, expected, "{machine:?}");
    }
}

/// A store that misses L1D is kept by L2: storing again and loading find the line there.
#[test]
fn a_level_of_victims_keeps_the_stores_that_pass_by() {
    const L2_ACCESSES: usize = 6;
    const MEMORY_READS: usize = 14;
    let replay = Replay::new();
    for contents in [2, 3] {
        let machine = format!("l1i=4:1:64:0 l1d=4:1:64:0:1 l2=4:1:64:0:{contents} page=4096");
        let machine: Vec<String> = machine.split(' ').map(str::to_owned).collect();
        let counts = replay.counts(&machine, "s 40 8\ns 40 8\nl 40 8\np\n");
        let of = |place: usize| counts[0].0[place];
        assert_eq!((of(L2_ACCESSES), of(L2_ACCESSES + 1), of(MEMORY_READS)), (3, 1, 1));
    }
}

const SMALL: [&str; 3] = ["l1i=4:1:64:0", "l1d=4:1:64:0:0", "page=4096"];

#[test]
fn branches_are_predicted_by_their_history() {
    const BRANCHES: usize = 16;
    const MISSES: usize = 17;
    let replay = Replay::new();
    let counted = |trace: &str| {
        let small = SMALL.map(str::to_owned);
        let counts = replay.counts(&small, &format!("{trace}p\n"))[0].0;
        (counts[BRANCHES], counts[MISSES])
    };
    // Taken, not taken, taken, ...: predicted once the pattern fills the history.
    let taken = |n: u64, is_taken: bool| {
        format!("b 1 {n:x} {n:x} {}\n", if is_taken { "9" } else { "1000" })
    };
    let alternating: String = (0..1000).map(|i| taken(0x1000, i % 2 == 0)).collect();
    let (branches, misses) = counted(&alternating);
    assert!(branches == 1000 && misses < 30, "{misses}");
    // Direct branches, calls and the matching returns are never mispredicted.
    let calls = "b 3 100 104 500\nb 2 500 504 600\nb 6 600 604 104\n".repeat(100);
    assert_eq!(counted(&calls), (300, 0));
    // After 20 nested calls, the 16-entry return stack has lost the first four.
    let down: String = (1..=20).map(|n| format!("b 3 {n:x}00 {n:x}04 900\n")).collect();
    let up: String = (1..=20).rev().map(|n| format!("b 6 900 904 {n:x}04\n")).collect();
    assert_eq!(counted(&(down + &up)), (40, 4));
    // An indirect branch is predicted to go to its previous target.
    let targets = ["500", "500", "600", "600", "500"];
    let indirect: String = targets.map(|to| format!("b 4 100 104 {to}\n")).concat();
    assert_eq!(counted(&indirect), (5, 3));
}

#[test]
fn refuses_machines_that_make_no_sense() {
    let replay = Replay::new();
    let said = |more: &[&str]| {
        let more = more.iter().flat_map(|items| items.split(' '));
        let all: Vec<String> = SMALL.into_iter().chain(more).map(str::to_owned).collect();
        replay.output(&all, "")
    };
    assert_eq!(said(&[]), "");
    for (item, reason) in [
        ("l3=4:1:64:0:0", "an L3 needs an L2"),
        ("l2=4:1:32:0:0", "must not be shorter"),
        ("l2=4:1:128:0:2", "must have the same line size"),
        ("l2=4:1:64:0:4", "too high"),
        ("l1d=4:1:64:0:2 l2=4:1:64:0:2", "writes through"),
        ("l1d=4:1:64:0:2 l2=4:1:64:0:3", "writes through"),
        ("l2=4:1:64:3:0", "expected SETS"),
        ("l2=0:1:64:0:0", "above 0"),
        ("l2=4:1:65:0:0", "power of two"),
        ("l2=4:1:64:0:0:0", "expected numbers"),
        ("l2=4:1:x:0:0", "expected numbers"),
        ("tlb2=4:1:0", "needs a first one"),
        ("itlb=4:1", "expected SETS"),
        ("page=100", "power of two"),
        ("page=32", "shorter than a cache line"),
        ("l4=1:1:1:1", "unknown key"),
    ] {
        assert!(said(&[item]).contains(reason), "{item}: {}", said(&[item]));
    }
}
