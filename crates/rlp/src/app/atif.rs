// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ATIF_RX`, `ATIF_TX`, `ATIF_RXTX`: the interface to the access terminals, where packets of
//! frames come and go.
//!
//! Received: the header of the packet and those of all frames. Sent: Ethernet addresses are written
//! (a terminal's is made of the key of its session), and a short packet is padded.
//!
//! Leaves out: what the frames mean; that is `RLP`'s.

use super::{OtherSide, Place, and_not_framed, mark_access, place};
use crate::frame::{self, FAULT_NAMES};
use linerate_dataplane::params::{Mac, Reader};
use linerate_dataplane::{
    BuildError, Burst, Packet, Stage, StageContext, StageKind, Verdict, no_steering,
};
use linerate_path::model::Params;
use linerate_path::spec::{Default, ParamKind, ParamSpec, StageSpec, State};

/// Smallest frame without its check sequence (IEEE Std 802.3).
const MIN_OCTETS: usize = 60;

/// Why packets are dropped: faults of a packet of frames, and packets `RLP` has not made.
const CAUSES: [&str; FAULT_NAMES.len() + 1] = and_not_framed(&FAULT_NAMES);
const NOT_FRAMED: u8 = FAULT_NAMES.len() as u8;

const PARAMS: &[ParamSpec] = &[ParamSpec {
    name: "source_mac",
    kind: ParamKind::Text,
    default: Default::Text("02:00:00:00:00:0c"),
    help: "Hardware address of this side; a terminal's is 02:00 and its key.",
}];

const SPEC: StageSpec = StageSpec {
    kind: "ATIF_RX",
    help: "Check packets of frames from the terminals.",
    params: &[],
    needs_headers: false,
    state: State::None,
    keeps_order: true,
    drop_causes: &FAULT_NAMES,
};

pub(super) const RX: StageKind =
    StageKind { spec: SPEC, build: |_, _| Ok(Box::new(Receive)), steer: no_steering };

pub(super) const TX: StageKind = StageKind {
    spec: StageSpec {
        kind: "ATIF_TX",
        help: "Address packets of frames to their terminals.",
        params: PARAMS,
        drop_causes: &CAUSES,
        ..SPEC
    },
    build: |params, _| Ok(Box::new(Send { source: source(params)? })),
    steer: no_steering,
};

pub(super) const RXTX: StageKind = StageKind {
    spec: StageSpec {
        kind: "ATIF_RXTX",
        help: "ATIF_RX for what comes from the terminals, ATIF_TX for what goes there.",
        params: PARAMS,
        drop_causes: &CAUSES,
        ..SPEC
    },
    build: |params, _| Ok(Box::new(Both { source: source(params)?, other: OtherSide::new() })),
    steer: no_steering,
};

fn source(params: &Params) -> Result<[u8; 6], BuildError> {
    let Mac(source) = Reader(params).parsed("source_mac")?;
    Ok(source)
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

/// Addresses a packet that `RLP` has made.
#[inline]
fn send(packet: &mut Packet<'_>, source: [u8; 6], context: &mut StageContext) -> Verdict {
    let session = match place(packet) {
        Place::Access => frame::parse(packet.bytes()).map(|access| access.session),
        _ => return Verdict::Drop(NOT_FRAMED),
    };
    let Ok(session) = session else { return Verdict::Drop(NOT_FRAMED) };
    let octets = packet.octets();
    if octets < MIN_OCTETS {
        match packet.resize(MIN_OCTETS, &mut context.account) {
            Some(padded) => padded[octets..].fill(0),
            None => return Verdict::Drop(NOT_FRAMED),
        }
    }
    let ethernet = &mut packet.bytes_mut()[..12];
    ethernet[..2].copy_from_slice(&[2, 0]);
    ethernet[2..6].copy_from_slice(&session.to_be_bytes());
    ethernet[6..].copy_from_slice(&source);
    Verdict::Pass
}

struct Receive;

impl Stage for Receive {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, _| receive(packet));
    }
}

struct Send {
    source: [u8; 6],
}

impl Stage for Send {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, context| send(packet, self.source, context));
    }
}

struct Both {
    source: [u8; 6],
    other: OtherSide,
}

impl Stage for Both {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        self.other.look();
        burst.sift(context, |packet, context| match place(packet) {
            Place::Wire => receive(packet),
            _ => send(packet, self.source, context),
        });
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.other.counts()
    }
}
