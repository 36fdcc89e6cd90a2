// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fault`: panics at one packet, to try out how a broken stage is reported.

use crate::params::Reader;
use linerate_dataplane::{Burst, Stage, StageContext, StageKind, Verdict, no_steering};
use linerate_path::spec::{Default, ParamKind, ParamSpec, StageSpec, State};

pub(crate) const KIND: StageKind = StageKind {
    spec: StageSpec {
        kind: "fault",
        help: "Panic at one packet, to try out how a broken stage is reported.",
        params: &[ParamSpec {
            name: "packet",
            kind: ParamKind::Integer { min: 0, max: i64::MAX },
            default: Default::Required,
            help: "Place of that packet in the sequence the source offers, from 0.",
        }],
        needs_headers: false,
        state: State::None,
        keeps_order: true,
        drop_causes: &[],
    },
    build: |params, _| Ok(Box::new(Fault { packet: Reader(params).integer("packet")? })),
    steer: no_steering,
};

struct Fault {
    packet: u64,
}

impl Stage for Fault {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| {
            assert!(
                packet.meta().position != self.packet,
                "the fault asked for at packet {}",
                self.packet
            );
            Verdict::Pass
        });
    }
}
