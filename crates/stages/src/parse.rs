// SPDX-License-Identifier: MIT OR Apache-2.0
//! `parse`: locates a packet's headers, so that later stages do not have to.
//!
//! See `headers.rs` for what is accepted and what is not handled. The frame is not modified; bytes
//! after the IP packet (link-layer padding) are kept. Frames that are not IP are dropped, unless
//! `other = "pass"`; frames with broken headers are always dropped.

use crate::headers::{self, FAULT_NAMES, Fault};
use crate::params::Reader;
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{Burst, Layers, Stage, StageContext, StageKind, Verdict};

pub(crate) const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "parse",
        help: "Parse the headers: Ethernet, VLAN tags, IPv4, IPv6 with extensions, TCP, UDP, ICMP.",
        params: &[ParamSpec {
            name: "other",
            kind: ParamKind::Word(&["drop", "pass"]),
            default: Default::Text("drop"),
            help: "Action for non-IP frames; with 'pass', later stages that need headers must set \
                   'only'.",
        }],
        needs_headers: false,
        state: State::None,
        keeps_order: true,
        drop_causes: &FAULT_NAMES,
    },
    |params, _| Ok(Box::new(Parse { passes_other: Reader(params).text("other")? == "pass" })),
);

struct Parse {
    /// Whether frames that are not IP continue.
    passes_other: bool,
}

impl Stage for Parse {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| match headers::walk(packet.bytes()) {
            Ok(layers) => {
                packet.meta_mut().layers = layers;
                Verdict::Pass
            }
            Err(Fault::NotIp) if self.passes_other => {
                packet.meta_mut().layers = Layers::default();
                Verdict::Pass
            }
            Err(fault) => Verdict::Drop(fault.index()),
        });
    }
}
