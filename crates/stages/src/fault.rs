// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fault`: panics on one packet, to test how a broken stage is reported.

use crate::params::Reader;
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{Burst, Stage, StageContext, StageKind, Verdict};

pub(crate) const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "fault",
        help: "Panic at one packet, to test how a broken stage is reported.",
        params: &[ParamSpec {
            name: "packet",
            kind: ParamKind::Integer { min: 0, max: i64::MAX },
            default: Default::Required,
            help: "Index of that packet in the source's sequence, from 0.",
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
