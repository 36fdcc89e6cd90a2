// SPDX-License-Identifier: MIT OR Apache-2.0
//! Callers in a program without frame pointers whose call chains are known.

#![cfg(target_arch = "x86_64")]

use linerate_observe::ObserveError;
use linerate_observe::profile::{
    Annotated, CallGraph, ProfileRequest, ProfileTarget, SampleRate, profile,
};
use linerate_record::profile::{CostClass, ProfileReport};
use linerate_trial::Watch;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// `left` calls `spin` twice as often as `right`; in the second mode, `deep` calls it below 40
/// frames of 400 bytes.
const CHAINS: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define APART __attribute__((noinline, noclone))
volatile long n;
#ifdef FRAMES
/* A leaf function has no frame, regardless of the compiler options. */
APART void tick(int i) { n += i; }
#else
#define tick(i) n += i
#endif
APART void spin(int times) { for (int i = 0; i < times; i++) tick(i); n++; }
APART void left(void) { spin(200000); n++; spin(200000); n++; }
APART void right(void) { spin(200000); n++; }
APART void middle(void) { left(); n++; right(); n++; }
APART void deep(int depth) {
    volatile char room[400];
    memset((char *)room, depth, sizeof room);
    if (depth) deep(depth - 1); else spin(400000);
    n += room[depth];
}
int main(int count, char **words) {
    alarm(10);
    for (;;) { if (count > 1) deep(atoi(words[1])); else middle(); n++; }
}
"#;

fn built(to: &Path, options: &[&str]) -> Option<OsString> {
    let (code, program) = (to.join("chains.c"), to.join("chains"));
    std::fs::write(&code, CHAINS).unwrap();
    let mut cc = Command::new("cc");
    let built = cc.arg("-O2").args(options).arg("-o").args([&program, &code]).status();
    let is_built = built.is_ok_and(|status| status.success());
    if !is_built {
        println!("SKIP: no C compiler");
    }
    is_built.then(|| program.into_os_string())
}

/// Profiles the program built with `options`; `None`, with a note, if sampling is not permitted or
/// it cannot be built.
fn profiled(options: &[&str], depth: Option<&str>, call_graph: CallGraph) -> Option<ProfileReport> {
    let place = tempfile::tempdir().unwrap();
    let program = built(place.path(), options)?;
    let target =
        ProfileTarget::Command([program].into_iter().chain(depth.map(OsString::from)).collect());
    let (window, rate) = (Duration::from_millis(900), SampleRate::PerSecond(999));
    let class_of = |_: &str, _: &str| CostClass::Program;
    let request = ProfileRequest {
        target,
        window,
        rate,
        call_graph,
        interface: None,
        class_of,
        annotated: Annotated::None,
        has_timeline: false,
    };
    match profile(&request, &Watch::unattended()) {
        Ok(profile) => Some(profile),
        Err(ObserveError::NotSampled { reason, .. }) => {
            println!("SKIP: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns the samples by call path: function names from `main` on.
fn by_path(found: &ProfileReport) -> Vec<(String, u64)> {
    let mut paths = std::collections::BTreeMap::<String, u64>::new();
    for (at, node) in found.calls.iter().enumerate() {
        let names = found.path(at).into_iter().map(|function| function.name.as_str());
        let names: Vec<&str> = names.skip_while(|name| *name != "main").collect();
        *paths.entry(names.join(" ")).or_default() += node.samples;
    }
    paths.into_iter().collect()
}

fn samples_of(paths: &[(String, u64)], path: &str) -> f64 {
    paths.iter().find(|(one, _)| one == path).map_or(0.0, |(_, samples)| *samples as f64)
}

#[test]
fn callers_are_found_without_frame_pointers() {
    let options = ["-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    let Some(found) = profiled(&options, None, CallGraph::Auto) else { return };
    assert_eq!(found.sampling.stack_bytes, Some(8192));
    let paths = by_path(&found);
    let left = samples_of(&paths, "main middle left spin");
    let right = samples_of(&paths, "main middle right spin");
    // All samples except those in other functions and before main.
    assert!(left + right > 0.9 * found.samples as f64, "{paths:?}");
    let deviation = ((left + right) * 2.0 / 9.0).sqrt();
    assert!((left - (left + right) * 2.0 / 3.0).abs() < 4.5 * deviation + 3.0, "{left} {right}");
    let incomplete = found.sampling.incomplete_chains.unwrap();
    assert!(incomplete * 20 < found.samples, "{incomplete} of {}", found.samples);
    assert_eq!(found.lost_samples, 0);
}

/// Returns the options that link with LLVM's linker as bundled with rustc; `None`, with a note, if
/// there is none. Its segments may begin within the last page of the previous segment.
fn with_lld() -> Option<[String; 2]> {
    let rustc = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(rustc.stdout).ok()?;
    let folder = Path::new(sysroot.trim()).join("lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld");
    if !folder.join("ld.lld").exists() {
        println!("SKIP: no ld.lld with rustc");
        return None;
    }
    Some(["-fuse-ld=lld".to_owned(), format!("-B{}", folder.display())])
}

#[test]
fn callers_are_found_where_two_segments_share_a_page_of_the_file() {
    let Some(lld) = with_lld() else { return };
    let options = ["-fomit-frame-pointer", "-fno-optimize-sibling-calls", &lld[0], &lld[1]];
    let Some(found) = profiled(&options, None, CallGraph::Auto) else { return };
    let paths = by_path(&found);
    let spins =
        ["left", "right"].map(|side| samples_of(&paths, &format!("main middle {side} spin")));
    assert!(spins.iter().sum::<f64>() > 0.9 * found.samples as f64, "{paths:?}");
    let incomplete = found.sampling.incomplete_chains.unwrap();
    assert!(incomplete * 20 < found.samples, "{incomplete} of {}", found.samples);
}

#[test]
fn a_stack_deeper_than_its_copy_is_said_to_be_incomplete() {
    let options = ["-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    let Some(found) = profiled(&options, Some("40"), CallGraph::Dwarf(4096)) else { return };
    let incomplete = found.sampling.incomplete_chains.unwrap();
    assert!(incomplete * 10 > found.samples * 9, "{incomplete} of {}", found.samples);
    // The frames within the copy are right.
    let paths = by_path(&found);
    let whole = paths.iter().filter(|(path, _)| path.ends_with("deep spin"));
    assert!(whole.map(|(_, samples)| samples).sum::<u64>() * 10 < found.samples, "{paths:?}");
    let ends = found.functions.iter().find(|one| one.name == "deep").unwrap();
    assert!(ends.samples_with_callees * 10 > found.samples * 9, "{ends:?}");
    let Some(found) = profiled(&options, Some("40"), CallGraph::Dwarf(32_768)) else { return };
    let whole = format!("main{} spin", " deep".repeat(41));
    let paths = by_path(&found);
    assert!(samples_of(&paths, &whole) > 0.9 * found.samples as f64, "{paths:?}");
}

#[test]
fn frame_pointers_are_followed_where_the_program_keeps_them() {
    let options = ["-DFRAMES", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];
    let Some(found) = profiled(&options, None, CallGraph::Auto) else { return };
    assert_eq!(found.sampling.stack_bytes, None);
    let paths = by_path(&found);
    // Samples in `tick` lack `spin`.
    let left = ["main middle left spin", "main middle left tick"];
    let left: f64 = left.iter().map(|path| samples_of(&paths, path)).sum();
    assert!(left > 0.5 * found.samples as f64, "{paths:?}");
}

/// Kills the process when dropped.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn deep_stacks_of_a_running_program_are_copied_further() {
    let place = tempfile::tempdir().unwrap();
    let options = ["-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    let Some(program) = built(place.path(), &options) else { return };
    // 40 frames need 18 KiB.
    let running = Ended(Command::new(program).arg("40").spawn().unwrap());
    let request = |rate| ProfileRequest {
        target: ProfileTarget::Pids(vec![running.0.id()]),
        window: Duration::from_millis(900),
        rate,
        call_graph: CallGraph::Auto,
        interface: None,
        class_of: |_, _| CostClass::Program,
        annotated: Annotated::None,
        has_timeline: false,
    };
    let profiled = |rate| match profile(&request(rate), &Watch::unattended()) {
        Ok(found) => Some(found),
        Err(ObserveError::NotSampled { reason, .. }) => {
            println!("SKIP: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    };
    let Some(chosen) = profiled(SampleRate::PerSecond(499)) else { return };
    // The user chose the rate, and with it the cost.
    assert_eq!(chosen.sampling.stack_bytes, Some(8192));
    // Where the stack is shallow, this copy suffices.
    let incomplete = chosen.sampling.incomplete_chains.unwrap();
    assert!(incomplete * 20 > chosen.samples * 19, "{incomplete} of {}", chosen.samples);
    let Some(found) = profiled(SampleRate::AtMost(999)) else { return };
    assert_eq!(found.sampling.stack_bytes, Some(32 << 10));
    assert!(found.sampling.rate_hz < 501.0, "{}", found.sampling.rate_hz);
    let incomplete = found.sampling.incomplete_chains.unwrap();
    assert!(incomplete * 20 < found.samples, "{incomplete} of {}", found.samples);
}
