// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the detector on curves recorded on a busy machine.

use linerate_hierarchy::os_view;
use linerate_hierarchy::reconcile::{Reconciled, reconcile};
use linerate_hierarchy::steps::{Cause, FoundLevels, Options, Sample, detect};

fn read(text: &str) -> Vec<Sample> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let mut fields = line.split_whitespace();
        let bytes = fields.next().unwrap().parse().unwrap();
        Sample { bytes, passes: fields.map(|time| time.parse().unwrap()).collect() }
    };
    lines.map(sample).collect()
}

/// Checks what holds for this machine regardless of other guests: the L1, the latencies of L1 and
/// L2, and much slower memory.
fn private_caches_are_found(levels: &FoundLevels) {
    assert!((3..=5).contains(&levels.levels.len()), "{levels:?}");
    let first = levels.levels[0].size.unwrap();
    assert!((first.value / 49152.0 - 1.0).abs() < 0.05, "{first:?}");
    // Other guests left next to nothing of the last-level cache, so its climb merges with that of
    // the 1 MiB L2. The merged climb is reported between the two.
    let second = levels.levels[1].size.unwrap();
    assert!((1.0e6..2.6e6).contains(&second.value), "{second:?}");
    // 4 and 14 cycles, at 3.7 to 4 GHz.
    assert!((1.0..1.08).contains(&levels.levels[0].latency.value), "{levels:?}");
    assert!((3.45..3.8).contains(&levels.levels[1].latency.value), "{levels:?}");
    assert!(levels.levels.last().unwrap().latency.value > 80.0, "{levels:?}");
}

fn levels_of_text(text: &str) -> FoundLevels {
    detect(&read(text), &Options { replicates: 40, ..Options::default() })
}

const MIB: u64 = 1 << 20;

fn tells(levels: &FoundLevels, cause: Cause, bytes: std::ops::RangeInclusive<u64>) -> bool {
    let is_near = |from: u64, to: u64| from <= *bytes.end() && *bytes.start() <= to;
    levels.unresolved.iter().any(|what| what.cause == cause && is_near(what.from, what.to))
}

#[test]
fn small_pages_on_a_busy_machine() {
    private_caches_are_found(&levels_of_text(include_str!("data/curve-busy-base.txt")));
}

#[test]
fn huge_pages_on_a_busy_machine() {
    private_caches_are_found(&levels_of_text(include_str!("data/curve-busy-huge.txt")));
}

#[test]
fn a_last_cache_that_passes_disagree_about_has_moved() {
    let levels = levels_of_text(include_str!("data/curve-busy-moved.txt"));
    assert!(tells(&levels, Cause::Moved, 2 * MIB..=5 * MIB), "{levels:?}");
    let (sure, moved): (Vec<_>, Vec<_>) = levels.levels.iter().partition(|level| level.settled);
    assert_eq!((sure.len(), moved.len()), (3, 1), "{levels:?}");
    assert!((10.0..14.0).contains(&moved[0].latency.value), "{levels:?}");
}

#[test]
fn inconsistent_memory_has_moved_and_no_level_exceeds_the_curve() {
    let text = include_str!("data/curve-busy-once.txt");
    let (curve, levels) = (read(text), levels_of_text(text));
    assert!(tells(&levels, Cause::Moved, 64 * MIB..=128 * MIB), "{levels:?}");
    let longest = curve.iter().flat_map(|sample| sample.passes.iter().copied()).fold(0.0, f64::max);
    let largest = curve.iter().map(|sample| sample.bytes).max().unwrap() as f64;
    for level in &levels.levels {
        assert!(level.latency.value <= longest, "{level:?}");
        assert!(level.size.is_none_or(|size| size.value <= largest), "{level:?}");
    }
}

#[test]
fn reports_a_step_hidden_by_noise() {
    let levels = levels_of_text(include_str!("data/curve-busy-hidden.txt"));
    assert!(tells(&levels, Cause::TooNoisy, 5 * MIB..=12 * MIB), "{levels:?}");
}

/// Sizes of the caches that the OS reports on the machine where the curves were recorded.
const REPORTED: [u64; 3] = [48 << 10, MIB, 32 * MIB];

fn reconciled(curve: &[Sample]) -> Reconciled {
    let level =
        |(level, bytes): (u32, u64)| os_view::Level { level, bytes: Ok(bytes), shared_by: 0 };
    reconciled_with(curve, &Ok((1..).zip(REPORTED).map(level).collect()))
}

fn reconciled_with(curve: &[Sample], stated: &Result<Vec<os_view::Level>, String>) -> Reconciled {
    let longest = curve.last().map_or(0, |sample| sample.bytes);
    reconcile(detect(curve, &Options::default()), stated, longest, REPORTED[2])
}

/// Returns the private caches whose size is presented as a fact although it is wrong, and the name
/// of the last level if it is presented as memory although the last cache was not found.
fn wrong_claims(curve: &[Sample]) -> Vec<String> {
    let found = reconciled(curve);
    let mut wrong = Vec::new();
    for (level, name) in found.found.levels.iter().zip(&found.names) {
        let number: Option<usize> = name.strip_prefix('L').and_then(|number| number.parse().ok());
        let (Some(size), Some(number @ 1..=2)) = (level.size, number) else { continue };
        let bytes = REPORTED[number - 1] as f64;
        if !(size.low / 1.1..=size.high * 1.1).contains(&bytes) {
            wrong.push(format!("{name}: {size:?}"));
        }
    }
    let has_last = found.names.iter().any(|name| name == "L3");
    if !has_last && found.names.iter().any(|name| name == "memory") {
        wrong.push("memory".to_owned());
    }
    wrong
}

#[test]
fn nothing_wrong_is_claimed_about_a_busy_machine() {
    for text in [
        include_str!("data/curve-busy-base.txt"),
        include_str!("data/curve-busy-huge.txt"),
        include_str!("data/curve-busy-moved.txt"),
        include_str!("data/curve-busy-once.txt"),
        include_str!("data/curve-busy-hidden.txt"),
    ] {
        assert_eq!(wrong_claims(&read(text)), Vec::<String>::new());
    }
}

/// Five passes over sizes of 4 KiB to 64 MiB, four per octave.
fn synthetic(mut time: impl FnMut(u64) -> f64) -> Vec<Sample> {
    let sizes = (0..=56).map(|step| (4096.0 * (f64::from(step) / 4.0).exp2()) as u64);
    sizes.map(|bytes| Sample { bytes, passes: (0..5).map(|_| time(bytes)).collect() }).collect()
}

/// Checks that a curve without steps shows no level, whether or not the OS reports caches.
fn shows_no_level(curve: &[Sample], of: &str) {
    for found in [reconciled(curve), reconciled_with(curve, &Err("not reported".to_owned()))] {
        assert_eq!(found.names, Vec::<String>::new(), "{of}");
        assert!(found.found.levels.is_empty() && !found.doubts.is_empty(), "{of}: {found:?}");
    }
}

#[test]
fn a_constant_and_noise_show_no_level() {
    shows_no_level(&synthetic(|_| 1.25), "a constant");
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        shows_no_level(&synthetic(|_| 1.0 + random.f64()), &format!("narrow noise {seed}"));
        shows_no_level(&synthetic(|_| (5.0 * random.f64()).exp()), &format!("wide noise {seed}"));
    }
}

#[test]
fn outliers_in_one_of_ten_times_make_no_level() {
    for seed in 0..10 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut spoil = |time: f64| match random.u32(0..10) {
            0 => time * (2.0 + 8.0 * random.f64()),
            _ => time,
        };
        shows_no_level(&synthetic(|_| spoil(1.0)), &format!("outliers {seed}"));
        let steps = synthetic(|bytes| {
            let beyond = REPORTED.iter().filter(|size| bytes > **size).count();
            spoil([1.0, 4.0, 15.0, 100.0][beyond])
        });
        let found = reconciled(&steps);
        assert_eq!(found.names, ["L1", "L2", "L3", "memory"], "{seed}");
        assert_eq!(wrong_claims(&steps), Vec::<String>::new(), "{seed}");
    }
}
