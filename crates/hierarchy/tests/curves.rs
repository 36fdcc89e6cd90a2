// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the detector on curves recorded on a busy machine.

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

/// Checks what holds for this machine regardless of its neighbours: the L1, the latencies of L1 and
/// L2, and that memory is far away.
fn private_caches_are_found(levels: &FoundLevels) {
    assert!((3..=5).contains(&levels.levels.len()), "{levels:?}");
    let first = levels.levels[0].size.unwrap();
    assert!((first.value / 49152.0 - 1.0).abs() < 0.05, "{first:?}");
    // Neighbours left next to nothing of the last-level cache, so its climb and that of the 1 MiB
    // L2 merge into one here, which is reported between the two.
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
