// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::Watch;
use linerate_record::memory::PageKind;
use std::sync::atomic::AtomicBool;

/// Returns a level of `size` bytes (0: unlimited) with a load latency of `ns`.
fn level(name: &str, size: f64, ns: f64) -> MemoryLevel {
    let exact = |unit, value| Figure::exact(unit, value, Tier::Sw, "synthetic");
    MemoryLevel {
        name: name.to_owned(),
        size_bytes: match size {
            0.0 => Figure::absent("B", Tier::Sw, "synthetic", "the end of the level was not seen"),
            size => exact("B", size),
        },
        latency_ns: exact("ns", ns),
        latency_cycles: exact("cycles", 4.0 * ns),
        settled: true,
        note: None,
    }
}

fn machine() -> [MemoryLevel; 4] {
    let (kib, mib) = (1024.0, 1_048_576.0);
    [
        level("L1", 32.0 * kib, 1.0),
        level("L2", mib, 4.0),
        level("L3", 32.0 * mib, 12.0),
        level("memory", 0.0, 90.0),
    ]
}

#[test]
fn a_mode_is_named_by_the_level_it_must_be() {
    let levels = machine();
    let name = |ns, own: usize, step| name_of(ns, &levels[own], &levels, step);
    assert_eq!(name(1.1, 2, 0.4), Some("L1"));
    assert_eq!(name(13.0, 2, 0.4), Some("L3"));
    assert_eq!(name(80.0, 2, 10.0), Some("memory"));
    assert_eq!(name(40.0, 3, 10.0), None);
    // With a step of 10 ns, L1 and L2 are indistinguishable. The chain's own level is chosen if it
    // is one of them.
    assert_eq!(name(2.0, 1, 10.0), Some("L2"));
    assert_eq!(name(2.0, 3, 10.0), None);
}

#[test]
fn the_longest_chain_takes_many_steps() {
    let longest = |step, load| round(step, load).into_iter().max().unwrap();
    assert_eq!(longest(0.4, 1.0), LEAST_LONGEST);
    assert_eq!(longest(10.0, 1.0), 256);
    assert_eq!(longest(52.0, 100.0), LEAST_LONGEST);
    // A 1 MHz clock, and a clock that practically does not advance.
    assert_eq!(longest(1000.0, 2.0), 8192);
    assert_eq!(longest(1e7, 0.0), MOST_LONGEST);
    let order = round(10.0, 1.0);
    assert_eq!(order[..4], [0, 1, 2, 4]);
    assert_eq!(order.iter().filter(|&&loads| loads == 1).count(), 1 + SINGLES);
}

/// The clock advances in steps of 26 ticks. One read in four shows three steps, the others show
/// two, and an interrupted one, which the mean excludes, shows a thousand.
#[test]
fn the_mean_of_reads_is_free_of_their_steps_and_of_interrupts() {
    let reads: Vec<f64> = (0..64).map(|i| if i % 4 == 0 { 78.0 } else { 52.0 }).collect();
    assert_eq!(trimmed_mean(&reads, 26.0), Some(58.5));
    assert_eq!(trimmed_mean(&[&reads[..], &[26_000.0]].concat(), 26.0), Some(58.5));
    // With a 1 MHz clock, most reads show no difference.
    let coarse: Vec<f64> = (0..64).map(|i| if i % 16 == 0 { 1.0 } else { 0.0 }).collect();
    assert_eq!(trimmed_mean(&coarse, 1.0), Some(1.0 / 16.0));
    assert_eq!(trimmed_mean(&[], 1.0), None);
}

#[test]
fn the_fastest_windows_count_as_quiet() {
    let mut samples = Samples { order: round(1.0, 1.0), ..Samples::default() };
    for i in 0..10 * QUIET_WINDOWS {
        // Every third window is quiet, and its samples identify it.
        let ns = if i % 3 == 0 { 100.0 } else { 200.0 };
        samples.add(&[(0, ns as u32), (1, i as u32)], ns);
    }
    assert!(samples.windows.len() < 4 * QUIET_WINDOWS);
    assert_eq!(samples.singles.len(), 10 * QUIET_WINDOWS);
    let quiet = samples.quiet();
    assert_eq!(quiet.len(), QUIET_WINDOWS);
    assert!(quiet.iter().all(|window| window.empty(1.0) == Some(100.0)));
}

/// With this machine's clock and loads: totals add up, and only existing levels are named.
#[test]
fn a_histogram_of_this_machine() {
    let stop = AtomicBool::new(false);
    let watch = Watch::new(&stop, &|_, _| {});
    let bench = Bench::small(&watch, 1 << 20);
    let stopwatch = Stopwatch::new(&bench);
    let step = stopwatch.timer.step_ns.as_number().expect("a clock that advances");
    assert!(step > 0.0 && stopwatch.timer.rate_ghz.as_number().unwrap() > 0.0);
    let mut arena = Arena::new(1 << 20, PageKind::Base, &stop).unwrap();
    let levels = [level("L1", 32_768.0, 1.0), level("memory", 0.0, 10.0)];
    let deadline = bench.windows.started() + Duration::from_millis(1500);
    let histograms = stopwatch.measure(&bench, &mut arena, &levels, deadline);
    assert!(!histograms.is_empty() || !stopwatch.is_fine_enough());
    for histogram in histograms {
        let names = ["L1", "memory"];
        assert!(names.contains(&histogram.level.as_deref().unwrap()));
        assert!(histogram.samples >= LEAST_SINGLES as u64);
        let sum: u64 = histogram.bins.iter().map(|bin| bin.count).sum();
        assert_eq!(sum, histogram.samples);
        assert!(histogram.bins.windows(2).all(|two| two[0].to_ns == Some(two[1].from_ns)));
        let share: f64 = histogram.modes.iter().map(|mode| mode.share).sum();
        assert!(share <= 1.0 + 1e-9, "{share}");
        assert!(histogram.slope_ns.as_number().is_some_and(|ns| ns > 0.0), "{histogram:?}");
    }
    // If no time is left, there is no histogram.
    assert!(stopwatch.measure(&bench, &mut arena, &levels, bench.windows.started()).is_empty());
}
