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
        // The worker at which the queue's packets enter, and all workers behind it.
        let reached = 1 + replicas[1..].iter().sum::<u32>() as usize;
        assert_eq!(bursts, 2 * MAX_BURST * reached, "{replicas:?}");
    }
}

#[test]
fn a_sample_has_the_sizes_of_all_frames() {
    // Short frames at the start, long ones afterwards.
    let bytes = |frame: &u32| if *frame < 2_000 { 60.0 } else { 1514.0 };
    let mean = |frames: &[u32]| frames.iter().map(bytes).sum::<f64>() / frames.len() as f64;
    for frames in [1_000, 1_024, 1_025, 10_000, 100_000] {
        let all: Vec<u32> = (0..frames).collect();
        let some = sample(&all, 1_024);
        assert!(some.len() <= 1_024 && some.len() >= all.len().min(512), "{}", some.len());
        assert!(some.is_sorted());
        assert!((mean(&some) / mean(&all) - 1.0).abs() < 0.01, "{frames}");
    }
    assert!(sample(&[], 1_024).is_empty());
}

/// Generated frames use the sizes in rotation.
#[test]
fn a_sample_of_periodic_frames_has_all_sizes() {
    const IMIX: [u32; 12] = [60, 590, 60, 590, 60, 60, 1514, 60, 590, 60, 60, 590];
    for sizes in [&[60, 1514][..], &[60, 124, 252, 508], &IMIX] {
        let bytes = |frame: &u32| f64::from(sizes[*frame as usize % sizes.len()]);
        let mean = |frames: &[u32]| frames.iter().map(bytes).sum::<f64>() / frames.len() as f64;
        for frames in [4_096, 8_192, 10_008, 65_536] {
            let all: Vec<u32> = (0..frames).collect();
            let some = sample(&all, 1_024);
            assert!(some.is_sorted());
            let error = mean(&some) / mean(&all) - 1.0;
            assert!(error.abs() < 0.1, "{frames} frames of {sizes:?}: {error}");
        }
    }
}
