// SPDX-License-Identifier: MIT OR Apache-2.0
//! `chase`: follows a chain of loads through memory, each address known only when the load before
//! it is done. With more memory than a cache holds it costs that cache's miss latency per load.
//!
//! The chain visits every 64-octet line of its memory once before it repeats, in random order: a
//! cyclic permutation by Sattolo's algorithm (Fisher-Yates that never leaves an element where it
//! is). It goes on from packet to packet. The order is the same in every replica and every run.

use crate::params::Reader;
use linerate_dataplane::{Burst, Stage, StageKind, StageLedger};
use linerate_path::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use std::hint::black_box;

pub(crate) const KIND: StageKind = StageKind {
    spec: StageSpec {
        kind: "chase",
        help: "Load memory in a random cycle, each load waiting for the last, for experiments.",
        params: &[
            ParamSpec {
                name: "kib",
                kind: ParamKind::Integer { min: 1, max: 1 << 20 },
                default: Default::Integer(1 << 14),
                help: "Memory the cycle runs through, in KiB; each replica has its own.",
            },
            ParamSpec {
                name: "loads",
                kind: ParamKind::Integer { min: 0, max: 100_000 },
                default: Default::Integer(4),
                help: "Dependent loads per packet.",
            },
        ],
        needs_headers: false,
        state: State::None,
        keeps_order: true,
        drop_causes: &[],
    },
    build: |params, _| {
        let params = Reader(params);
        let lines = params.integer::<usize>("kib")? * 1024 / size_of::<Line>();
        Ok(Box::new(Chase { lines: cycle(lines), at: 0, loads: params.integer("loads")? }))
    },
    steer: crate::no_steering,
};

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    next: u32,
}

struct Chase {
    lines: Vec<Line>,
    at: u32,
    loads: u32,
}

/// Lines linked into one cycle. At most 2^24 lines, so their indices fit.
fn cycle(lines: usize) -> Vec<Line> {
    let mut cycle: Vec<Line> = (0..lines).map(|i| Line { next: i as u32 }).collect();
    let mut seed = 1u64;
    for i in (1..lines).rev() {
        // The generator MMIX by Knuth; its high bits are the good ones.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        cycle.swap(i, (seed >> 33) as usize % i);
    }
    cycle
}

impl Stage for Chase {
    fn process(&mut self, burst: &mut Burst<'_>, _: &mut StageLedger) {
        for _ in 0..burst.len() {
            let mut at = self.at;
            for _ in 0..self.loads {
                at = self.lines[at as usize].next;
            }
            self.at = black_box(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cycle_through_every_line() {
        for lines in [1, 2, 3, 16, 1000] {
            let cycle = cycle(lines);
            let mut seen = vec![false; lines];
            let mut at = 0;
            for _ in 0..lines {
                assert!(!std::mem::replace(&mut seen[at], true));
                at = cycle[at].next as usize;
            }
            assert_eq!(at, 0);
        }
    }
}
