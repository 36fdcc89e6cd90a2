// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory for the source lines of a program with 100 MB of debug information.

#![cfg(target_arch = "x86_64")]

use linerate_observe::ObserveError;
use linerate_observe::profile::{
    Annotated, CallGraph, ProfileRequest, ProfileTarget, SampleRate, profile,
};
use linerate_record::profile::CostClass;
use linerate_trial::Watch;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Names the program that this test profiles in a process of its own.
const PROGRAM: &str = "LINERATE_TEST_LARGE_PROGRAM";
/// Minimum size of the debug information, in bytes.
const BYTES: u64 = 100 << 20;
/// Number of units, each with this number of structures and functions.
const UNITS: u32 = 120;
const FUNCTIONS: u32 = 1500;
/// Maximum resident memory of the profiler.
const MOST_KIB: u64 = 100 << 10;
const WINDOW: Duration = Duration::from_millis(500);

/// `hot` is the function on line 2, with its loop on lines 3 and 4.
const MAIN: &str = "volatile unsigned n;
__attribute__((noinline)) void hot(void) {
    for (int i = 0; i < 1000000; i++)
        n += i;
}
int main(void) { for (;;) hot(); }
";

fn unit() -> String {
    let mut text = String::new();
    for at in 0..FUNCTIONS {
        let fields: String = (0..40).map(|field| format!("int f{at}_{field}; ")).collect();
        let _ = writeln!(text, "struct s{at} {{ {fields}}};");
        let _ = writeln!(text, "int g{at}(struct s{at} *s) {{ return s->f{at}_3; }}");
    }
    text
}

/// Builds the program; `false`, with a note, without a compiler. One unit is compiled, and linked
/// again and again under other names.
fn is_built(place: &Path) -> bool {
    std::fs::write(place.join("unit.c"), unit()).unwrap();
    std::fs::write(place.join("main.c"), MAIN).unwrap();
    let run = |program: &str, words: &[&str]| {
        let status = Command::new(program).current_dir(place).args(words).status();
        status.is_ok_and(|status| status.success())
    };
    let mut is_done = run("cc", &["-O1", "-g", "-c", "unit.c", "main.c"]);
    let mut words = vec!["-o".to_owned(), "large".to_owned()];
    for at in 0..UNITS {
        let (prefix, object) = (format!("--prefix-symbols=u{at}_"), format!("u{at}.o"));
        is_done = is_done && run("objcopy", &[&prefix, "unit.o", &object]);
        words.push(object);
    }
    words.push("main.o".to_owned());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    is_done = is_done && run("cc", &words);
    if !is_done {
        println!("SKIP: no C compiler, or no objcopy");
    }
    is_done
}

/// Returns the peak of this process's resident memory, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Profiles the program, and checks lines and memory.
fn check(program: &str) {
    let request = ProfileRequest {
        target: ProfileTarget::Command(vec![program.into()]),
        window: WINDOW,
        rate: SampleRate::AtMost(999),
        call_graph: CallGraph::Auto,
        interface: None,
        class_of: |_, _| CostClass::Program,
        annotated: Annotated::Named("hot".to_owned()),
        has_timeline: false,
    };
    let found = match profile(&request, &Watch::unattended()) {
        Ok(found) => found,
        Err(ObserveError::NotSampled { reason, .. }) => return println!("SKIP: {reason}"),
        Err(error) => panic!("{error}"),
    };
    let annotated = found.annotated.unwrap();
    assert_eq!(annotated.no_lines, None);
    let of_loop = annotated.lines.iter().filter(|one| matches!(one.line.line, 3 | 4));
    let samples: u64 = of_loop.map(|one| one.samples).sum();
    assert!(samples * 10 > annotated.samples * 9, "{:?}", annotated.lines);
    let peak_kib = peak_kib();
    println!("peak {peak_kib} KiB");
    assert!(peak_kib < MOST_KIB, "{peak_kib} KiB");
}

#[test]
fn lines_of_a_large_program_take_little_memory() {
    if let Ok(program) = std::env::var(PROGRAM) {
        return check(&program);
    }
    let place = tempfile::tempdir().unwrap();
    if !is_built(place.path()) {
        return;
    }
    let program = place.path().join("large");
    for has_index in [true, false] {
        if !has_index {
            // As compilers other than GCC build it: each unit must be searched.
            let words = ["--remove-section", ".debug_aranges"];
            assert!(Command::new("objcopy").args(words).arg(&program).status().unwrap().success());
        }
        assert!(program.metadata().unwrap().len() > BYTES);
        let mut own = Command::new(std::env::current_exe().unwrap());
        own.args(["--exact", "lines_of_a_large_program_take_little_memory", "--nocapture"]);
        let output = own.env(PROGRAM, &program).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{errors}");
        text.lines().filter(|line| !line.is_empty()).for_each(|line| println!("{line}"));
    }
}
