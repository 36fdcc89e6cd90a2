// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the level detector on synthetic machines and prints its errors and error rates.
//!
//! ```text
//! cargo run --release -p linerate-hierarchy --example corpus -- [--held-out] [--analytic N]
//!     [--trace N] [--first SEED] [--noise none|idle|busy] [--huge] [--brief]
//! cargo run --release -p linerate-hierarchy --example corpus -- --accuracy [--full]
//! ```
//!
//! The detector is tuned on seeds from 0 up. The seeds selected by `--held-out`, from [`HELD_OUT`]
//! up, are for the final figures only. `--huge` skips seeds whose machines have no huge pages.
//! `--brief` omits the lists of errors. `--accuracy` checks the published figures ([`accuracy`]),
//! for `cargo xtask accuracy`.

mod accuracy;
mod claims;
mod judge;
mod quantity;
#[cfg(test)]
mod tests;

use claims::Claims;
use judge::{SizeError, Verdict, Way, judge};
use linerate_caches::{Machine, Noise};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The first held-out seed.
const HELD_OUT: u64 = 1_000_000_000;

/// Total cache size, in bytes, above which machines are not simulated load by load. Their longest
/// chains would exceed 32 MiB, or 500,000 lines.
const TRACE_REACH_BYTES: u64 = 8 << 20;

struct Options {
    first: u64,
    analytic: u64,
    trace: u64,
    noise: String,
    is_huge: bool,
    is_brief: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--accuracy") {
        accuracy::run(arguments.iter().any(|argument| argument == "--full"));
        return ExitCode::SUCCESS;
    }
    let Some(options) = parse(arguments.into_iter()) else {
        eprintln!(
            "usage: corpus [--held-out] [--analytic N] [--trace N] [--first SEED] \
             [--noise none|idle|busy] [--huge] [--brief], or --accuracy [--full]"
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
        let verdicts = judge_all(&seeds(&options, count), way, &noise);
        if !options.is_brief {
            println!("{}", wrong(&verdicts));
        }
        println!("{}", figures(&verdicts, way));
        eprintln!("{:.0} s", start.elapsed().as_secs_f64());
    }
    ExitCode::SUCCESS
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
    let noise = "idle".to_owned();
    let mut options =
        Options { first: 0, analytic: 1000, trace: 20, noise, is_huge: false, is_brief: false };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--held-out" => options.first = HELD_OUT,
            "--brief" => options.is_brief = true,
            "--huge" => options.is_huge = true,
            _ => {}
        }
        if ["--held-out", "--brief", "--huge"].contains(&argument.as_str()) {
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

/// Returns the first `count` of the requested seeds.
fn seeds(options: &Options, count: u64) -> Vec<u64> {
    let is_wanted = |seed: &u64| !options.is_huge || has_huge_pages(&Machine::random(*seed));
    (options.first..).filter(is_wanted).take(count as usize).collect()
}

fn has_huge_pages(machine: &Machine) -> bool {
    machine.contiguous_bytes >= 2 << 20
}

/// Judges the machines for `seeds` on all CPUs. Verdicts are in seed order.
fn judge_all(seeds: &[u64], way: Way, noise: &Noise) -> Vec<Verdict> {
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(Vec::new());
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let verdict = judge(*seed, way, noise);
            verdicts.lock().expect("no thread panics while holding it").push(verdict);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut verdicts = verdicts.into_inner().expect("no thread panics while holding it");
    verdicts.sort_by_key(|verdict| verdict.seed);
    verdicts
}

type IsInGroup = fn(&&Verdict) -> bool;

/// Lists the machines that the detector got wrong.
fn wrong(verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    let groups: [(&str, IsInGroup); 4] = [
        ("count wrong", |verdict| !verdict.is_count_right),
        ("size off by more than 10 %", |verdict| !verdict.is_size_right()),
        ("latency off by more than 1 %", |verdict| !verdict.is_latency_right()),
        ("movement not reported", |verdict| verdict.is_move_reported == Some(false)),
    ];
    for (title, is_in_group) in groups {
        let wrong: Vec<&Verdict> = verdicts.iter().filter(is_in_group).collect();
        if !wrong.is_empty() {
            let machines: String = wrong.iter().map(|verdict| verdict.print()).collect();
            text += &format!("{title}: {}\n{machines}\n", wrong.len());
        }
    }
    text
}

/// Formats how many results are correct in each category.
fn figures(verdicts: &[Verdict], way: Way) -> String {
    let all = verdicts.len().max(1) as f64;
    let share = |is_right: &dyn Fn(&&Verdict) -> bool| {
        let right = verdicts.iter().filter(is_right).count();
        format!("{right} ({:.1} %)", right as f64 / all * 100.0)
    };
    let sum = |of: &dyn Fn(&Verdict) -> u32| verdicts.iter().map(of).sum::<u32>();
    let (covered, intervals) = (sum(&|v| v.covered.0), sum(&|v| v.covered.1));
    let moved = verdicts.iter().filter(|verdict| verdict.is_move_reported.is_some()).count();
    let way = match way {
        Way::Analytic => "analytic",
        Way::Trace(_) => "trace-driven",
    };
    format!(
        "{} {way} machines, correct: number of levels {}, sizes within 10 % {}, latencies within \
         1 % {}, all three {}\n\
         intervals that contain the true value: {covered} of {intervals} ({:.1} %); \
         latencies hidden by noise: {}; \
         moved: {moved}, reported: {}\n\
         size error, median and 90th percentile: {}; latency error: {}\n\
         sizes right, by page colours: {}\n\
         machines whose pages are huge, {}\n\
         {}",
        verdicts.len(),
        share(&|verdict| verdict.is_count_right),
        share(&|verdict| verdict.is_size_right()),
        share(&|verdict| verdict.is_latency_right()),
        share(&|verdict| verdict.is_right()),
        f64::from(covered) / f64::from(intervals.max(1)) * 100.0,
        sum(&|verdict| verdict.hidden),
        verdicts.iter().filter(|verdict| verdict.is_move_reported == Some(true)).count(),
        spread(verdicts.iter().flat_map(|verdict| &verdict.size_errors).map(|size| size.off)),
        spread(verdicts.iter().flat_map(|verdict| &verdict.latency_errors).copied()),
        by_colours(verdicts),
        of_huge_pages(verdicts),
        wrong_claims(verdicts),
    )
}

/// Formats how many machines have wrong claims, without and with an OS report.
fn wrong_claims(verdicts: &[Verdict]) -> String {
    let names = ["no report of caches", "a true report", "a report with an error"];
    let line = |(place, name): (usize, &str)| {
        let wrong = |is_wrong: fn(&Claims, usize) -> bool| {
            let wrong = verdicts.iter().filter(|verdict| is_wrong(&verdict.claims, place));
            share_text(wrong.count(), verdicts.len())
        };
        format!(
            "confidently wrong with {name}: levels invented: {}, levels silently missed: {}\n",
            wrong(|claims, place| claims.invented[place] > 0),
            wrong(|claims, place| claims.missing[place] > 0),
        )
    };
    names.into_iter().enumerate().map(line).collect()
}

/// Formats the results by number of page colours. Caches with few colours fill so unevenly that
/// passes carry little information.
fn by_colours(verdicts: &[Verdict]) -> String {
    let groups = [("none", 1..=1), ("2 to 16", 2..=16), ("more", 17..=u64::MAX)];
    let group = |(name, colours): (&str, std::ops::RangeInclusive<u64>)| {
        let sizes = verdicts.iter().flat_map(|verdict| &verdict.size_errors);
        let sizes: Vec<&SizeError> = sizes.filter(|s| colours.contains(&s.colours)).collect();
        let right = sizes.iter().filter(|size| size.is_right()).count();
        format!("{name} {}", share_text(right, sizes.len()))
    };
    groups.map(group).join(", ")
}

/// Formats the results for machines on which `linerate memory` gets huge pages.
fn of_huge_pages(verdicts: &[Verdict]) -> String {
    let huge = |verdict: &&Verdict| has_huge_pages(&verdict.machine);
    let huge: Vec<&Verdict> = verdicts.iter().filter(huge).collect();
    let right = |is_right: fn(&Verdict) -> bool| {
        share_text(huge.iter().filter(|verdict| is_right(verdict)).count(), huge.len())
    };
    format!(
        "correct: number of levels {}, sizes {}, latencies {}, all three {}",
        right(|verdict| verdict.is_count_right),
        right(Verdict::is_size_right),
        right(Verdict::is_latency_right),
        right(Verdict::is_right)
    )
}

fn share_text(right: usize, all: usize) -> String {
    format!("{right} of {all} ({:.1} %)", right as f64 / all.max(1) as f64 * 100.0)
}

fn spread(errors: impl Iterator<Item = f64>) -> String {
    let mut errors: Vec<f64> = errors.map(|error| error.abs() * 100.0).collect();
    errors.sort_by(f64::total_cmp);
    let at = |share: f64| errors.get((errors.len() as f64 * share) as usize);
    match (at(0.5), at(0.9)) {
        (Some(median), Some(p90)) => format!("{median:.2} %, {p90:.2} %"),
        _ => "none".into(),
    }
}
