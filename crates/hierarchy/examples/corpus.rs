// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the detector of tiers over made-up machines, and prints where it is wrong, and how often.
//!
//! ```text
//! cargo run --release -p linerate-hierarchy --example corpus -- [--held-out] [--analytic N]
//!     [--trace N] [--first SEED] [--noise none|idle|busy]
//! ```
//!
//! The detector is tuned on seeds from 0 on. Those of `--held-out`, from [`HELD_OUT`] on, are for
//! the final figures only.

#[path = "../tests/corpus/judge.rs"]
mod judge;

use judge::{Verdict, Way, judge};
use linerate_caches::Noise;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The first held-out seed.
const HELD_OUT: u64 = 1_000_000_000;

/// Machines that are simulated load by load reach no further: 32 MiB of chain, 500,000 lines.
const TRACE_REACH_BYTES: u64 = 8 << 20;

struct Options {
    first: u64,
    analytic: u64,
    trace: u64,
    noise: String,
}

fn main() -> ExitCode {
    let Some(options) = parse(std::env::args().skip(1)) else {
        eprintln!(
            "usage: corpus [--held-out] [--analytic N] [--trace N] [--first SEED] \
             [--noise none|idle|busy]"
        );
        return ExitCode::from(2);
    };
    let noise = match options.noise.as_str() {
        "none" => Noise::none(),
        "busy" => Noise::busy(),
        _ => Noise::idle(),
    };
    println!("seeds from {}, noise: {}\n", options.first, options.noise);
    let ways = [(options.analytic, Way::Analytic), (options.trace, Way::Trace(TRACE_REACH_BYTES))];
    for (count, way) in ways.into_iter().filter(|(count, _)| *count > 0) {
        let start = Instant::now();
        let verdicts = judge_all(options.first, count, way, &noise);
        println!("{}", summary(&verdicts, way));
        eprintln!("{:.0} s", start.elapsed().as_secs_f64());
    }
    ExitCode::SUCCESS
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options { first: 0, analytic: 1000, trace: 20, noise: "idle".into() };
    while let Some(argument) = arguments.next() {
        if argument == "--held-out" {
            options.first = HELD_OUT;
            continue;
        }
        let value = arguments.next()?;
        match argument.as_str() {
            "--first" => options.first = value.parse().ok()?,
            "--analytic" => options.analytic = value.parse().ok()?,
            "--trace" => options.trace = value.parse().ok()?,
            "--noise" if ["none", "idle", "busy"].contains(&value.as_str()) => {
                options.noise = value;
            }
            _ => return None,
        }
    }
    Some(options)
}

/// On all processors, in the order of the seeds.
fn judge_all(first: u64, count: u64, way: Way, noise: &Noise) -> Vec<Verdict> {
    let next = AtomicU64::new(first);
    let verdicts = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                break;
            }
            let verdict = judge(seed, way, noise);
            verdicts.lock().expect("no thread panics with it").push(verdict);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut verdicts = verdicts.into_inner().expect("no thread panics with it");
    verdicts.sort_by_key(|verdict| verdict.seed);
    verdicts
}

type IsInGroup = fn(&&Verdict) -> bool;

/// The machines that went wrong, and how many went right in what.
fn summary(verdicts: &[Verdict], way: Way) -> String {
    let mut text = String::new();
    let groups: [(&str, IsInGroup); 4] = [
        ("count wrong", |verdict| !verdict.is_count_right),
        ("size off by more than 10 %", |verdict| !verdict.is_size_right()),
        ("latency off by more than 1 %", |verdict| !verdict.is_latency_right()),
        ("what moved not told", |verdict| verdict.is_move_told == Some(false)),
    ];
    for (title, is_in_group) in groups {
        let wrong: Vec<&Verdict> = verdicts.iter().filter(is_in_group).collect();
        if !wrong.is_empty() {
            let machines: String = wrong.iter().map(|verdict| verdict.print()).collect();
            text += &format!("{title}: {}\n{machines}\n", wrong.len());
        }
    }
    text + &figures(verdicts, way)
}

fn figures(verdicts: &[Verdict], way: Way) -> String {
    let all = verdicts.len().max(1) as f64;
    let share = |is_right: &dyn Fn(&&Verdict) -> bool| {
        let right = verdicts.iter().filter(is_right).count();
        format!("{right} ({:.1} %)", right as f64 / all * 100.0)
    };
    let sum = |of: &dyn Fn(&Verdict) -> u32| verdicts.iter().map(of).sum::<u32>();
    let (covered, intervals) = (sum(&|v| v.covered.0), sum(&|v| v.covered.1));
    let moved = verdicts.iter().filter(|verdict| verdict.is_move_told.is_some()).count();
    let way = match way {
        Way::Analytic => "analytic",
        Way::Trace(_) => "trace-driven",
    };
    format!(
        "{} {way} machines: count right {}, sizes within 10 % {}, latencies within 1 % {}, \
         all of it {}\n\
         intervals that hold the truth: {covered} of {intervals} ({:.1} %); \
         latencies hidden by noise: {}; \
         moved: {moved}, told: {}\n\
         size error, median and 90th percentile: {}; latency error: {}\n",
        verdicts.len(),
        share(&|verdict| verdict.is_count_right),
        share(&|verdict| verdict.is_size_right()),
        share(&|verdict| verdict.is_latency_right()),
        share(&|verdict| verdict.is_right()),
        f64::from(covered) / f64::from(intervals.max(1)) * 100.0,
        sum(&|verdict| verdict.hidden),
        verdicts.iter().filter(|verdict| verdict.is_move_told == Some(true)).count(),
        spread(verdicts.iter().flat_map(|verdict| &verdict.size_errors)),
        spread(verdicts.iter().flat_map(|verdict| &verdict.latency_errors)),
    )
}

fn spread<'a>(errors: impl Iterator<Item = &'a f64>) -> String {
    let mut errors: Vec<f64> = errors.map(|error| error.abs() * 100.0).collect();
    errors.sort_by(f64::total_cmp);
    let at = |share: f64| errors.get((errors.len() as f64 * share) as usize);
    match (at(0.5), at(0.9)) {
        (Some(median), Some(p90)) => format!("{median:.2} %, {p90:.2} %"),
        _ => "none".into(),
    }
}
