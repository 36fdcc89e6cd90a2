// SPDX-License-Identifier: MIT OR Apache-2.0
//! `parse`: finds the headers of a packet, so that later stages do not have to.
//!
//! See `headers.rs` for what is accepted and what is not handled. The frame is not modified; bytes
//! after the IP packet (link-layer padding) are kept.

use crate::headers::{self, FAULT_NAMES};
use linerate_stage_api::spec::{StageSpec, State};
use linerate_stage_api::{Burst, Stage, StageContext, StageKind, Verdict};

pub(crate) const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "parse",
        help: "Parse the headers: Ethernet, VLAN tags, IPv4, IPv6 with extensions, TCP, UDP, ICMP.",
        params: &[],
        needs_headers: false,
        state: State::None,
        keeps_order: true,
        drop_causes: &FAULT_NAMES,
    },
    |_, _| Ok(Box::new(Parse)),
);

struct Parse;

impl Stage for Parse {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| match headers::walk(packet.bytes()) {
            Ok(layers) => {
                packet.meta_mut().layers = layers;
                Verdict::Pass
            }
            Err(fault) => Verdict::Drop(fault.index()),
        });
    }
}
