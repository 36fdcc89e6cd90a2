// SPDX-License-Identifier: MIT OR Apache-2.0
//! The detector on curves that were recorded on a machine kept busy by others.

use linerate_hierarchy::tiers::{Cause, Options, Sample, Tiers, detect};

fn read(text: &str) -> Vec<Sample> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let mut fields = line.split_whitespace();
        let bytes = fields.next().unwrap().parse().unwrap();
        Sample { bytes, passes: fields.map(|time| time.parse().unwrap()).collect() }
    };
    lines.map(sample).collect()
}

/// What is sure of this machine, whatever its neighbours do: the first cache, the times of the
/// first two, and that memory is far away.
fn private_caches_are_found(tiers: &Tiers) {
    assert!((3..=5).contains(&tiers.tiers.len()), "{tiers:?}");
    let first = tiers.tiers[0].size.unwrap();
    assert!((first.value / 49152.0 - 1.0).abs() < 0.05, "{first:?}");
    // Neighbours left next to nothing of the last cache: its climb and that of the second, 1 MiB,
    // are one here, and reported between the two.
    let second = tiers.tiers[1].size.unwrap();
    assert!((1.0e6..2.6e6).contains(&second.value), "{second:?}");
    // 4 and 14 cycles, at 3.7 to 4 GHz.
    assert!((1.0..1.08).contains(&tiers.tiers[0].latency.value), "{tiers:?}");
    assert!((3.45..3.8).contains(&tiers.tiers[1].latency.value), "{tiers:?}");
    assert!(tiers.tiers.last().unwrap().latency.value > 80.0, "{tiers:?}");
}

fn of(text: &str) -> Tiers {
    detect(&read(text), &Options { replicates: 40, ..Options::default() })
}

const MIB: u64 = 1 << 20;

fn tells(tiers: &Tiers, cause: Cause, bytes: std::ops::RangeInclusive<u64>) -> bool {
    let is_near = |from: u64, to: u64| from <= *bytes.end() && *bytes.start() <= to;
    tiers.unresolved.iter().any(|what| what.cause == cause && is_near(what.from, what.to))
}

#[test]
fn small_pages_on_a_busy_machine() {
    private_caches_are_found(&of(include_str!("data/curve-busy-base.txt")));
}

#[test]
fn huge_pages_on_a_busy_machine() {
    private_caches_are_found(&of(include_str!("data/curve-busy-huge.txt")));
}

#[test]
fn a_last_cache_that_passes_disagree_about_has_moved() {
    let tiers = of(include_str!("data/curve-busy-moved.txt"));
    assert!(tells(&tiers, Cause::Moved, 2 * MIB..=5 * MIB), "{tiers:?}");
    let (sure, moved): (Vec<_>, Vec<_>) = tiers.tiers.iter().partition(|tier| tier.settled);
    assert_eq!((sure.len(), moved.len()), (3, 1), "{tiers:?}");
    assert!((10.0..14.0).contains(&moved[0].latency.value), "{tiers:?}");
}

#[test]
fn memory_that_sizes_disagree_about_has_moved_and_no_tier_lies_beyond_what_was_measured() {
    let text = include_str!("data/curve-busy-once.txt");
    let (curve, tiers) = (read(text), of(text));
    assert!(tells(&tiers, Cause::Moved, 64 * MIB..=128 * MIB), "{tiers:?}");
    let longest = curve.iter().flat_map(|sample| sample.passes.iter().copied()).fold(0.0, f64::max);
    let largest = curve.iter().map(|sample| sample.bytes).max().unwrap() as f64;
    for tier in &tiers.tiers {
        assert!(tier.latency.value <= longest, "{tier:?}");
        assert!(tier.size.is_none_or(|size| size.value <= largest), "{tier:?}");
    }
}

#[test]
fn a_step_that_noise_hides_is_told() {
    let tiers = of(include_str!("data/curve-busy-hidden.txt"));
    assert!(tells(&tiers, Cause::TooNoisy, 5 * MIB..=12 * MIB), "{tiers:?}");
}
