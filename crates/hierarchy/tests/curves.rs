// SPDX-License-Identifier: MIT OR Apache-2.0
//! The detector on curves that were recorded on a machine kept busy by others.

use linerate_hierarchy::tiers::{Options, Sample, Tiers, detect};

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

#[test]
fn small_pages_on_a_busy_machine() {
    let curve = read(include_str!("data/curve-busy-base.txt"));
    private_caches_are_found(&detect(&curve, &Options { replicates: 40, ..Options::default() }));
}

#[test]
fn huge_pages_on_a_busy_machine() {
    let curve = read(include_str!("data/curve-busy-huge.txt"));
    private_caches_are_found(&detect(&curve, &Options { replicates: 40, ..Options::default() }));
}
