// SPDX-License-Identifier: MIT OR Apache-2.0
//! `PDSN_RX`, `PDSN_TX`, `PDSN_RXTX`: the interface to the packet data serving node. These stages
//! receive and send A10 packets.
//!
//! Receiving checks Ethernet, IPv4 with its header checksum, and GRE flags and protocol. Sending
//! writes the Ethernet and IPv4 headers before the GRE header written by `RLP`. Access-side packets
//! pass unchanged: they are NAK lists, which `RLP` reads or has written.
//!
//! `RLP` finds the session and detects duplicates.

use super::sides::{Both, Receive, Side, Transmit, and_not_framed};
use super::{Place, mark_a10, place};
use crate::envelope::{self, Ends, FAULT_NAMES, HEADER_BYTES};
use crate::frame;
use linerate_stage_api::params::Params;
use linerate_stage_api::params::{Address4, Mac, Reader};
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{BuildError, Packet, StageContext, StageKind, Verdict};

/// Drop causes: errors in an A10 packet, and packets that did not come from `RLP`.
const CAUSES: [&str; FAULT_NAMES.len() + 1] = and_not_framed(&FAULT_NAMES);
const NOT_FRAMED: u8 = FAULT_NAMES.len() as u8;

const fn text(name: &'static str, default: &'static str, help: &'static str) -> ParamSpec {
    ParamSpec { name, kind: ParamKind::Text, default: Default::Text(default), help }
}

const PARAMS: &[ParamSpec] = &[
    text("local", "192.0.2.2", "IPv4 address of this end of the bearer."),
    text("remote", "192.0.2.1", "IPv4 address of the serving node."),
    text("source_mac", "02:00:00:00:00:0b", "Hardware address of this end."),
    text("next_hop_mac", "02:00:00:00:00:0a", "Hardware address of the serving node."),
];

const SPEC: StageSpec = StageSpec {
    kind: "PDSN_RX",
    help: "Check A10 packets from the serving node; pass on NAK lists of the terminals.",
    params: &[],
    needs_headers: false,
    state: State::None,
    keeps_order: true,
    drop_causes: &FAULT_NAMES,
};

pub(super) const RX: StageKind = StageKind::new(SPEC, |_, _| Ok(Receive::<ServingNode>::boxed()));

pub(super) const TX: StageKind = StageKind::new(
    StageSpec {
        kind: "PDSN_TX",
        help: "Write the IPv4 and Ethernet headers of A10 packets to the serving node.",
        params: PARAMS,
        drop_causes: &CAUSES,
        ..SPEC
    },
    |params, _| Ok(Box::new(Transmit(ServingNode(ends(params)?)))),
);

pub(super) const RXTX: StageKind = StageKind::new(
    StageSpec {
        kind: "PDSN_RXTX",
        help: "Act as PDSN_RX for packets from the serving node, as PDSN_TX for packets to it.",
        params: PARAMS,
        drop_causes: &CAUSES,
        ..SPEC
    },
    |params, _| Ok(Box::new(Both::new(ServingNode(ends(params)?)))),
);

fn ends(params: &Params) -> Result<Ends, BuildError> {
    let params = Reader(params);
    let [Address4(local), Address4(remote)] = [params.parsed("local")?, params.parsed("remote")?];
    let [Mac(source), Mac(next_hop)] =
        [params.parsed("source_mac")?, params.parsed("next_hop_mac")?];
    let mut ends = Ends { ethernet: [0; 12], ipv4: [0; 8] };
    ends.ethernet[..6].copy_from_slice(&next_hop);
    ends.ethernet[6..].copy_from_slice(&source);
    ends.ipv4[..4].copy_from_slice(&local.to_be_bytes());
    ends.ipv4[4..].copy_from_slice(&remote.to_be_bytes());
    Ok(ends)
}

/// The serving node's side, with the addresses of both ends of the bearer.
struct ServingNode(Ends);

impl Side for ServingNode {
    #[inline]
    fn receive(packet: &mut Packet<'_>) -> Verdict {
        receive(packet)
    }

    #[inline]
    fn send(&self, packet: &mut Packet<'_>, _: &mut StageContext) -> Verdict {
        send(packet, &self.0)
    }
}

/// Checks a packet from the wire.
#[inline]
fn receive(packet: &mut Packet<'_>) -> Verdict {
    match envelope::parse_plain(packet.bytes()) {
        Some(envelope) => {
            mark_a10(packet, envelope.payload);
            Verdict::Pass
        }
        None => receive_other(packet),
    }
}

/// Handles packets other than plain A10. This is a separate function so that the fast path needs no
/// stack frame.
#[cold]
#[inline(never)]
fn receive_other(packet: &mut Packet<'_>) -> Verdict {
    if frame::is_access(packet.bytes()) {
        return Verdict::Pass;
    }
    match envelope::parse(packet.bytes()) {
        Ok(envelope) => {
            mark_a10(packet, envelope.payload);
            Verdict::Pass
        }
        Err(fault) => Verdict::Drop(fault.index() as u8),
    }
}

/// Writes the Ethernet and IPv4 headers of a packet from `RLP`.
#[inline]
fn send(packet: &mut Packet<'_>, ends: &Ends) -> Verdict {
    let Place::A10 { gre, end } = place(packet) else {
        let is_access = place(packet) == Place::Access;
        return if is_access { Verdict::Pass } else { Verdict::Drop(NOT_FRAMED) };
    };
    let bytes = packet.bytes_mut();
    let Ok(envelope) = envelope::parse_gre(bytes, gre.into()..end.into()) else {
        return Verdict::Drop(NOT_FRAMED);
    };
    let payload = envelope.payload;
    let header = payload.start.checked_sub(HEADER_BYTES).and_then(|at| bytes.get_mut(at..));
    let is_written = header.and_then(<[u8]>::first_chunk_mut).is_some_and(|header| {
        envelope::write_header(header, ends, envelope.key, envelope.sequence, payload.len())
    });
    if is_written { Verdict::Pass } else { Verdict::Drop(NOT_FRAMED) }
}
