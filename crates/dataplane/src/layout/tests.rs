// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the size of a pool with the rings that its packets pass through, counted one by one.

use super::*;
use linerate_path::model::{FullRing, Rate, Segment};

/// Counts the rings from worker `worker` of segment `segment` to the sink, each once.
fn reachable(replicas: &[u32], segment: usize, worker: u32, seen: &mut Vec<(usize, u32, u32)>) {
    for next in 0..replicas.get(segment + 1).copied().unwrap_or(0) {
        if !seen.contains(&(segment, worker, next)) {
            seen.push((segment, worker, next));
            reachable(replicas, segment + 1, next, seen);
        }
    }
}

#[test]
fn a_pool_fills_all_rings_that_its_packets_pass_through() {
    let options = RunOptions {
        length: RunLength::Seconds(1.0),
        rate: Rate::Max,
        burst: 32,
        ring: 512,
        full_ring: FullRing::Wait,
    };
    for replicas in [&[1][..], &[3], &[1, 1], &[1, 4], &[4, 1], &[2, 3, 4], &[1, 4, 4, 2]] {
        let segment = |&replicas: &u32| Segment { stages: 0..0, replicas, cpus: Vec::new() };
        let mapping = Mapping { segments: replicas.iter().map(segment).collect() };
        let mut rings = Vec::new();
        reachable(replicas, 0, 0, &mut rings);
        let bursts = slots(&mapping, &options) - rings.len() * options.ring as usize;
        assert_eq!(bursts, 2 * MAX_BURST * mapping.workers(), "{replicas:?}");
    }
}
