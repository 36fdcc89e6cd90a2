// SPDX-License-Identifier: MIT OR Apache-2.0
//! `work`: spends a known number of core cycles per packet on computation, without accessing
//! memory.
//!
//! The computation is a dependent chain of alternating additions and exclusive-ors, each of which
//! takes one cycle on all common processors. A chain of additions alone would be compiled to a
//! multiplication.

use crate::params::Reader;
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{Burst, Stage, StageContext, StageKind};
use std::hint::black_box;

pub(crate) const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "work",
        help: "Compute without touching memory: a stage of known cost, for experiments.",
        params: &[ParamSpec {
            name: "adds",
            kind: ParamKind::Integer { min: 0, max: 1_000_000 },
            default: Default::Integer(100),
            help: "Dependent integer operations per packet, each of which takes one core cycle.",
        }],
        needs_headers: false,
        state: State::None,
        keeps_order: true,
        drop_causes: &[],
    },
    |params, _| Ok(Box::new(Work { adds: Reader(params).integer("adds")?, value: 1 })),
);

struct Work {
    adds: u32,
    /// Result of the chain so far. It is carried over, so the work for each packet depends on the
    /// result for the previous one.
    value: u64,
}

impl Stage for Work {
    fn process(&mut self, burst: &mut Burst<'_>, _: &mut StageContext) {
        // Hide the operand from the compiler, which could otherwise precompute the result.
        let operand = black_box(0x9e37_79b9_7f4a_7c15_u64);
        for _ in 0..burst.len() {
            let mut value = self.value;
            for _ in 0..self.adds / 2 {
                value = value.wrapping_add(operand);
                value ^= operand;
            }
            if self.adds % 2 == 1 {
                value = value.wrapping_add(operand);
            }
            self.value = black_box(value);
        }
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("result", self.value)]
    }
}
