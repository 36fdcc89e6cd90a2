// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the accuracy of function shares: profiles three loops whose iteration counts have the
//! ratio 3:2:1 and prints, as lines for the accuracy suite, how often the interval of a share
//! contains the true share. The argument is the number of profiles (default 8).
//!
//! The loops execute the same instructions and run one after the other for about a millisecond
//! each. Their time per iteration may still differ, since it depends on alignment. The program
//! therefore measures the CPU time of each loop itself, which gives the true shares.

use linerate_linux::thread_cpu_time_ns;
use linerate_observe::profile::{
    Annotated, CallGraph, ProfileRequest, ProfileTarget, SampleRate, profile,
};
use linerate_record::accuracy::Check;
use linerate_record::profile::{CostClass, ProfileReport};
use linerate_record::stats::CONFIDENCE;
use linerate_trial::Watch;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Iterations of the shortest loop per call, which take a few hundred microseconds.
const ITERATIONS: u64 = 200_000;
/// Length of a profile.
const WINDOW: Duration = Duration::from_millis(1500);
/// Time for which the program continues to run after the profile.
const MORE: Duration = Duration::from_millis(500);
const WORK: &str = "--work";

macro_rules! works {
    ($($name:ident $times:literal,)*) => {
        $(
            #[inline(never)]
            fn $name(mut value: u64) -> u64 {
                for _ in 0..$times * ITERATIONS {
                    value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                }
                value
            }
        )*
        /// The loops, each with its name.
        const LOOPS: [(&str, fn(u64) -> u64); 3] = [$((stringify!($name), $name)),*];
    };
}

works! {
    long_loop 3,
    middle_loop 2,
    short_loop 1,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [WORK, file] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return work(Path::new(file));
    }
    let profiles: u64 = arguments.first().and_then(|n| n.parse().ok()).unwrap_or(8);
    let file = std::env::temp_dir().join(format!("linerate-places-{}", std::process::id()));
    let (mut held, mut all, mut ranked) = (0, 0, 0);
    for _ in 0..profiles {
        let Some(report) = profile_of_loops(&file) else { continue };
        let Some(truth) = truth(&file) else { continue };
        let found: Vec<(f64, f64)> = LOOPS.iter().filter_map(|one| share(&report, one.0)).collect();
        if found.len() < LOOPS.len() {
            continue;
        }
        for (((name, _), part), (low, high)) in LOOPS.iter().zip(&truth).zip(&found) {
            let is_held = (*low..=*high).contains(part);
            (all, held) = (all + 1, held + u64::from(is_held));
            if !is_held {
                println!("{name}: measured {part:.3}, profile {low:.3} to {high:.3}");
            }
        }
        ranked += u64::from(is_ranked(&truth, &found));
    }
    // The file is small and temporary.
    let _ = fs::remove_file(&file);
    if all == 0 {
        println!("{}", Check::skip("places.shares_held", "no profile: sampling is not permitted"));
        return;
    }
    let reason = "intervals of three loops with iteration counts of 3:2:1";
    println!("{}", Check::share("places.shares_held", held, all, CONFIDENCE, reason));
    let reason = "1500 samples distinguish the loops whose shares differ by 10 points or more";
    println!("{}", Check::share("places.ranked", ranked, all / 3, CONFIDENCE, reason));
}

/// Returns whether the intervals of any two loops whose true shares differ by 10 percentage points
/// or more are disjoint and in the right order.
fn is_ranked(truth: &[f64], found: &[(f64, f64)]) -> bool {
    let mut pairs = (0..truth.len()).flat_map(|a| (0..truth.len()).map(move |b| (a, b)));
    pairs.all(|(a, b)| truth[a] < truth[b] + 0.1 || found[a].0 > found[b].1)
}

/// Repeats the loops. Writes the CPU time of each to `file` before the profile ends.
fn work(file: &Path) {
    let began = Instant::now();
    let (mut value, mut times) = (1, [0; LOOPS.len()]);
    let mut is_written = false;
    while began.elapsed() < WINDOW + MORE {
        for ((_, one), time) in LOOPS.iter().zip(&mut times) {
            let before = thread_cpu_time_ns();
            value = one(value);
            *time += thread_cpu_time_ns() - before;
        }
        if began.elapsed() > WINDOW * 2 / 3 && !is_written {
            // Without the file, the profile is not counted.
            let _ = fs::write(file, times.map(|ns| ns.to_string()).join(" "));
            is_written = true;
        }
    }
    black_box(value);
}

/// Returns each loop's share of their total CPU time, as measured by the program.
fn truth(file: &Path) -> Option<Vec<f64>> {
    let text = fs::read_to_string(file).ok()?;
    let times: Vec<f64> = text.split(' ').filter_map(|ns| ns.parse().ok()).collect();
    let sum: f64 = times.iter().sum();
    (times.len() == LOOPS.len()).then(|| times.iter().map(|ns| ns / sum).collect())
}

fn profile_of_loops(file: &PathBuf) -> Option<ProfileReport> {
    let program = std::env::current_exe().ok()?.into_os_string();
    let request = ProfileRequest {
        target: ProfileTarget::Command(vec![program, WORK.into(), file.into()]),
        window: WINDOW,
        rate: SampleRate::PerSecond(999),
        call_graph: CallGraph::FramePointers,
        interface: None,
        class_of: |_, _| CostClass::Program,
        annotated: Annotated::None,
        has_timeline: false,
    };
    profile(&request, &Watch::unattended()).ok()
}

/// Returns the interval of a function's share.
fn share(report: &ProfileReport, name: &str) -> Option<(f64, f64)> {
    let function = report.functions.iter().find(|function| function.name.contains(name))?;
    function.share.low.zip(function.share.high)
}
