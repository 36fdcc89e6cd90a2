// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ATIF_RX`, `ATIF_TX`, `ATIF_RXTX`: the interface to the access terminals. These stages receive
//! and send packets of RLP frames.
//!
//! Receiving checks the packet header and all frame headers. Sending writes the Ethernet addresses
//! (a terminal's address is derived from its session key) and pads short packets.
//!
//! `RLP` interprets the frames.

use super::sides::{Both, Receive, Side, Transmit, and_not_framed};
use super::{Place, mark_access, place};
use crate::frame::{self, FAULT_NAMES};
use linerate_stage_api::params::Params;
use linerate_stage_api::params::{Mac, Reader};
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{BuildError, Packet, StageContext, StageKind, Verdict};

/// Minimum Ethernet frame length without FCS (IEEE Std 802.3).
const MIN_BYTES: usize = 60;

/// Drop causes: errors in a packet of frames, and packets that did not come from `RLP`.
const CAUSES: [&str; FAULT_NAMES.len() + 1] = and_not_framed(&FAULT_NAMES);
const NOT_FRAMED: u8 = FAULT_NAMES.len() as u8;

const PARAMS: &[ParamSpec] = &[ParamSpec {
    name: "source_mac",
    kind: ParamKind::Text,
    default: Default::Text("02:00:00:00:00:0c"),
    help: "Hardware address of this side; a terminal's is 02:00 followed by its key.",
}];

const SPEC: StageSpec = StageSpec {
    kind: "ATIF_RX",
    help: "Check packets with RLP frames from the terminals.",
    params: &[],
    needs_headers: false,
    state: State::None,
    keeps_order: true,
    drop_causes: &FAULT_NAMES,
};

pub(super) const RX: StageKind = StageKind::new(SPEC, |_, _| Ok(Receive::<Terminals>::boxed()));

pub(super) const TX: StageKind = StageKind::new(
    StageSpec {
        kind: "ATIF_TX",
        help: "Write the Ethernet addresses of packets with RLP frames to the terminals.",
        params: PARAMS,
        drop_causes: &CAUSES,
        ..SPEC
    },
    |params, _| Ok(Box::new(Transmit(terminals(params)?))),
);

pub(super) const RXTX: StageKind = StageKind::new(
    StageSpec {
        kind: "ATIF_RXTX",
        help: "Act as ATIF_RX for packets from the terminals, as ATIF_TX for packets to them.",
        params: PARAMS,
        drop_causes: &CAUSES,
        ..SPEC
    },
    |params, _| Ok(Box::new(Both::new(terminals(params)?))),
);

fn terminals(params: &Params) -> Result<Terminals, BuildError> {
    let Mac(source) = Reader(params).parsed("source_mac")?;
    Ok(Terminals { source })
}

/// The terminals' side, with its own MAC address.
struct Terminals {
    source: [u8; 6],
}

impl Side for Terminals {
    #[inline]
    fn receive(packet: &mut Packet<'_>) -> Verdict {
        receive(packet)
    }

    #[inline]
    fn send(&self, packet: &mut Packet<'_>, context: &mut StageContext) -> Verdict {
        send(packet, self.source, context)
    }
}

/// Checks a packet from the wire.
#[inline]
fn receive(packet: &mut Packet<'_>) -> Verdict {
    let checked = frame::parse(packet.bytes())
        .and_then(|access| access.frames().try_for_each(|frame| frame.map(drop)));
    match checked {
        Ok(()) => {
            mark_access(packet);
            Verdict::Pass
        }
        Err(fault) => Verdict::Drop(fault.index() as u8),
    }
}

/// Writes the Ethernet addresses of a packet from `RLP`.
#[inline]
fn send(packet: &mut Packet<'_>, source: [u8; 6], context: &mut StageContext) -> Verdict {
    let session = match place(packet) {
        Place::Access => frame::parse(packet.bytes()).map(|access| access.session),
        _ => return Verdict::Drop(NOT_FRAMED),
    };
    let Ok(session) = session else { return Verdict::Drop(NOT_FRAMED) };
    let bytes = packet.length();
    if bytes < MIN_BYTES {
        match packet.resize(MIN_BYTES, &mut context.account) {
            Some(padded) => padded[bytes..].fill(0),
            None => return Verdict::Drop(NOT_FRAMED),
        }
    }
    let ethernet = &mut packet.bytes_mut()[..12];
    ethernet[..2].copy_from_slice(&[2, 0]);
    ethernet[2..6].copy_from_slice(&session.to_be_bytes());
    ethernet[6..].copy_from_slice(&source);
    Verdict::Pass
}
