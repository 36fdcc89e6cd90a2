// SPDX-License-Identifier: MIT OR Apache-2.0
//! `chase`: follows a chain of loads through memory, each address known only when the load before
//! it is done. With more memory than a cache holds it costs that cache's miss latency per load.
//!
//! The memory is one cycle through all its 64-byte lines in random order: a cyclic permutation by
//! Sattolo's algorithm (Fisher-Yates that never leaves an element where it is), the same in every
//! replica and every run. A packet enters it where the first bytes of its frame say, as a table
//! look-up does: equal packets load equal lines, so a source of few packets stays in a near cache.

use crate::params::Reader;
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{Burst, Stage, StageContext, StageKind};
use std::hint::black_box;

pub(crate) const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "chase",
        help: "Chase pointers through memory in a random cycle, for experiments.",
        params: &[
            ParamSpec {
                name: "kib",
                kind: ParamKind::Integer { min: 1, max: 1 << 20 },
                default: Default::Integer(1 << 14),
                help: "Working set of the cycle, in KiB; each replica has its own.",
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
    |params, _| {
        let params = Reader(params);
        let lines = params.integer::<usize>("kib")? * 1024 / size_of::<Line>();
        Ok(Box::new(Chase { lines: cycle(lines), loads: params.integer("loads")? }))
    },
);

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    next: u32,
}

struct Chase {
    lines: Vec<Line>,
    loads: u32,
}

/// Lines linked into one cycle. At most 2^24 lines, so their indices fit.
fn cycle(lines: usize) -> Vec<Line> {
    let mut cycle: Vec<Line> = (0..lines).map(|i| Line { next: i as u32 }).collect();
    let mut random = fastrand::Rng::with_seed(1);
    for i in (1..lines).rev() {
        cycle.swap(i, random.usize(..i));
    }
    cycle
}

impl Stage for Chase {
    fn process(&mut self, burst: &mut Burst<'_>, _: &mut StageContext) {
        for packet in burst.iter() {
            let mut at = entry(packet.bytes()) % self.lines.len() as u64;
            for _ in 0..self.loads {
                at = u64::from(self.lines[at as usize].next);
            }
            black_box(at);
        }
    }
}

/// A number from the first 64 bytes of a frame, which differ between the packets of a flow:
/// lengths, identifications, sequence numbers.
fn entry(frame: &[u8]) -> u64 {
    let words = frame[..frame.len().min(64)].chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    // The multiplier of splitmix64 (Steele, Lea, Flood, 2014).
    let mixed = words.fold(0_u64, |sum, word| (sum ^ word).wrapping_mul(0xBF58_476D_1CE4_E5B9));
    mixed >> 32
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
