// SPDX-License-Identifier: MIT OR Apache-2.0
//! `gre_encap`, `gre_encap_sequenced`: encapsulate IP packets in a GRE tunnel over IPv4.
//!
//! Implements RFC 2784 with the key and sequence number of RFC 2890. The outer header has TTL 64,
//! DF set, and identification 0, as permitted for atomic datagrams (RFC 6864, 4.1). DSCP (RFC 2983,
//! uniform) and ECN (RFC 6040, normal mode) are copied from the inner TOS or traffic class. The
//! Ethernet header and VLAN tags are moved in front of the outer header; link-layer padding is
//! removed.
//!
//! `gre_encap_sequenced` is a separate kind because sequence numbers are global state, which rules
//! out replication.
//!
//! Not supported: fragmentation (packets that exceed `mtu` are dropped regardless of DF), the GRE
//! checksum, ICMP "packet too big", an outer IPv6 header.

use crate::headers::{ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, array, be16, protocol};
use crate::params::{Address4, Reader};
use linerate_stage_api::causes;
use linerate_stage_api::kernels::{Sum, checksum};
use linerate_stage_api::params::Params;
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{BuildError, Burst, Stage, StageContext, StageKind};
use linerate_stage_api::{Fragment, Layers, Packet};

causes! {
    /// Not parsed: there is no `parse` stage before this one.
    Unparsed = "unparsed",
    /// The outer packet would exceed `mtu`.
    TooBig = "too_big",
    /// Too little headroom for the outer headers.
    NoHeadroom = "no_headroom",
}

const PARAMS: &[ParamSpec] = &[
    ParamSpec {
        name: "local",
        kind: ParamKind::Text,
        default: Default::Required,
        help: "IPv4 address of this end of the tunnel.",
    },
    ParamSpec {
        name: "remote",
        kind: ParamKind::Text,
        default: Default::Required,
        help: "IPv4 address of the other end.",
    },
    ParamSpec {
        name: "key",
        kind: ParamKind::Integer { min: -1, max: u32::MAX as i64 },
        default: Default::Integer(-1),
        help: "Tunnel key; -1 means no key field.",
    },
    ParamSpec {
        name: "mtu",
        kind: ParamKind::Integer { min: 68, max: 65535 },
        default: Default::Integer(1500),
        help: "MTU for outer IPv4 packets, in bytes; larger packets are dropped, not fragmented.",
    },
];

pub(crate) const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "gre_encap",
        help: "Encapsulate packets in a GRE tunnel over IPv4.",
        params: PARAMS,
        needs_headers: true,
        state: State::None,
        keeps_order: true,
        drop_causes: CAUSES,
    },
    |params, _| build(params, None),
);

pub(crate) const SEQUENCED: StageKind = StageKind::new(
    StageSpec {
        kind: "gre_encap_sequenced",
        help: "Encapsulate packets in a GRE tunnel over IPv4 with sequence numbers.",
        params: PARAMS,
        needs_headers: true,
        state: State::Global,
        keeps_order: true,
        drop_causes: CAUSES,
    },
    |params, _| build(params, Some(0)),
);

const IP_BYTES: usize = 20;
/// Maximum length of the outer headers: IPv4, and GRE with key and sequence number.
const MAX_OUTER_BYTES: usize = IP_BYTES + 12;

struct Encap {
    /// The outer headers. Five fields are set per packet: length, TOS, checksum, protocol type and
    /// sequence number.
    template: [u8; MAX_OUTER_BYTES],
    /// Bytes of `template` in use.
    outer_bytes: usize,
    mtu: usize,
    /// Sequence number of the next packet, starting with 0 (RFC 2890, 2.2); `None` for `gre_encap`,
    /// which sends none.
    sequence: Option<u32>,
}

fn build(params: &Params, sequence: Option<u32>) -> Result<Box<dyn Stage>, BuildError> {
    let params = Reader(params);
    let [Address4(local), Address4(remote)] = [params.parsed("local")?, params.parsed("remote")?];
    let key: i64 = params.integer("key")?;
    let mut template = [0; MAX_OUTER_BYTES];
    // The fixed fields of the IPv4 header: version and header length, DF, TTL, protocol.
    (template[0], template[6], template[8], template[9]) = (0x45, 0x40, 64, protocol::GRE);
    template[12..16].copy_from_slice(&local.to_be_bytes());
    template[16..20].copy_from_slice(&remote.to_be_bytes());
    let mut outer_bytes = IP_BYTES + 4;
    if let Ok(key) = u32::try_from(key) {
        template[IP_BYTES] |= 0x20;
        template[outer_bytes..outer_bytes + 4].copy_from_slice(&key.to_be_bytes());
        outer_bytes += 4;
    }
    if sequence.is_some() {
        template[IP_BYTES] |= 0x10;
        outer_bytes += 4;
    }
    Ok(Box::new(Encap { template, outer_bytes, mtu: params.integer("mtu")?, sequence }))
}

impl Stage for Encap {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, context| Cause::judge(self.encapsulate(packet, context)));
    }
}

impl Encap {
    #[inline]
    fn encapsulate(
        &mut self,
        packet: &mut Packet<'_>,
        context: &mut StageContext,
    ) -> Result<(), Cause> {
        let layers = packet.meta().layers;
        let (l3, end) = (usize::from(layers.l3), usize::from(layers.l3_end));
        let (tos, ethertype) = service(packet.bytes(), &layers).ok_or(Cause::Unparsed)?;
        let outer_total = self.outer_bytes + end.checked_sub(l3).ok_or(Cause::Unparsed)?;
        if outer_total > self.mtu {
            return Err(Cause::TooBig);
        }
        packet.truncate(end, &mut context.account);
        packet.push_front(self.outer_bytes, &mut context.account).ok_or(Cause::NoHeadroom)?;
        let frame = packet.bytes_mut();
        frame.copy_within(self.outer_bytes..self.outer_bytes + l3, 0);
        // The EtherType is the last field of the Ethernet header, after any tags.
        frame[l3 - 2..l3].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
        let outer = &mut frame[l3..l3 + self.outer_bytes];
        self.write_outer(outer, tos, outer_total as u16, ethertype);
        packet.meta_mut().layers = Layers {
            l3: l3 as u16,
            l4: (l3 + IP_BYTES) as u16,
            l3_end: (l3 + outer_total) as u16,
            ip_version: 4,
            protocol: protocol::GRE,
            fragment: Fragment::Whole,
        };
        Ok(())
    }

    #[inline]
    fn write_outer(&mut self, outer: &mut [u8], tos: u8, total: u16, ethertype: u16) {
        outer.copy_from_slice(&self.template[..self.outer_bytes]);
        outer[1] = tos;
        outer[2..4].copy_from_slice(&total.to_be_bytes());
        let sum = checksum::header(&outer[..IP_BYTES], Sum::ZERO).finish();
        outer[10..12].copy_from_slice(&sum.to_be_bytes());
        outer[IP_BYTES + 2..IP_BYTES + 4].copy_from_slice(&ethertype.to_be_bytes());
        if let Some(number) = &mut self.sequence {
            outer[self.outer_bytes - 4..].copy_from_slice(&number.to_be_bytes());
            *number = number.wrapping_add(1);
        }
    }
}

/// Returns the TOS or traffic class of an IP packet, and the protocol type for its GRE header;
/// `None` if the packet is not parsed.
#[inline]
fn service(frame: &[u8], layers: &Layers) -> Option<(u8, u16)> {
    let l3 = usize::from(layers.l3);
    let start: &[u8; 2] = array(frame, l3).filter(|_| l3 >= ETHERNET_BYTES)?;
    match layers.ip_version {
        4 => Some((start[1], ETHERTYPE_IPV4)),
        // The traffic class follows the four-bit version.
        6 => Some(((be16(start, 0) >> 4) as u8, ETHERTYPE_IPV6)),
        _ => None,
    }
}
