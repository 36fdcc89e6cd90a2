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

/// What is sure of this machine: the caches that belong to its core. What there is of the last
/// cache depends on its neighbours.
fn private_caches_are_found(tiers: &Tiers) {
    assert!((3..=5).contains(&tiers.tiers.len()), "{tiers:?}");
    let first = tiers.tiers[0].size.unwrap();
    assert!((first.value / 49152.0 - 1.0).abs() < 0.05, "{first:?}");
    let second = tiers.tiers[1].size.unwrap();
    assert!(second.low < 1048576.0 && 1048576.0 < second.high, "{second:?}");
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
