// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fault`: panics on one packet, to test how linerate reports a panic in a stage.

use crate::params::Reader;
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{Burst, Stage, StageContext, StageKind, Verdict};

pub(crate) const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "fault",
        help: "Panic on one packet, to test how a panic in a stage is reported.",
        params: &[ParamSpec {
            name: "packet",
            kind: ParamKind::Integer { min: 0, max: i64::MAX },
            default: Default::Required,
            help: "Zero-based index of the packet in the source's sequence.",
        }],
        needs_headers: false,
        state: State::None,
        keeps_order: true,
        drop_causes: &[],
    },
    |params, _| Ok(Box::new(Fault { packet: Reader(params).integer("packet")? })),
);

struct Fault {
    packet: u64,
}

impl Stage for Fault {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| {
            assert!(
                packet.meta().position != self.packet,
                "requested fault at packet {}",
                self.packet
            );
            Verdict::Pass
        });
    }
}
