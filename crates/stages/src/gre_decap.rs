// SPDX-License-Identifier: MIT OR Apache-2.0
//! `gre_decap`: decapsulates IP packets from a GRE tunnel over IPv4.
//!
//! Implements RFC 2784 with the key of RFC 2890; sequence numbers are skipped without being
//! checked. The inner packet inherits the outer Ethernet header and is parsed like any other. An
//! outer "congestion experienced" mark is propagated to the inner ECN field (RFC 6040, 4.2).
//! Packets other than GRE over IPv4 to `local` pass unchanged.
//!
//! Not supported: reassembly of outer fragments (which are dropped), routing (RFC 1701), payloads
//! other than IP.

use crate::headers::{
    self, ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, Fault, array, array_mut, be16, be32,
    protocol,
};
use crate::params::{Address4, Reader};
use linerate_stage_api::causes;
use linerate_stage_api::kernels::{Sum, checksum};
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{Burst, Stage, StageContext, StageKernels, StageKind, Verdict};
use linerate_stage_api::{Fragment, Layers, Packet};
use std::net::Ipv4Addr;

causes! {
    /// Not parsed: there is no `parse` stage before this one.
    Unparsed = "unparsed",
    /// The outer packet is a fragment.
    Fragment = "fragment",
    /// The outer source is not `remote`.
    UnknownPeer = "unknown_peer",
    /// The GRE header or an inner header is truncated.
    CutHeader = "cut_header",
    /// A GRE flag that must be zero is set, or the version is unsupported.
    BadFlags = "bad_flags",
    BadChecksum = "bad_checksum",
    BadKey = "bad_key",
    /// The payload is neither IPv4 nor IPv6.
    BadProtocol = "bad_protocol",
    /// The inner header is inconsistent with itself or with the outer length.
    BadHeader = "bad_header",
    ExtensionChain = "ext_chain",
    /// The outer header has the mark "congestion experienced", but the inner packet is not
    /// ECN-capable.
    Congestion = "congestion",
}

impl From<Fault> for Cause {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NotIp => Self::BadProtocol,
            Fault::CutHeader => Self::CutHeader,
            Fault::BadHeader => Self::BadHeader,
            Fault::ExtensionChain => Self::ExtensionChain,
        }
    }
}

pub(crate) const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "gre_decap",
        help: "Decapsulate packets of a GRE tunnel over IPv4; other packets pass unchanged.",
        params: &[
            ParamSpec {
                name: "local",
                kind: ParamKind::Text,
                default: Default::Required,
                help: "IPv4 address of this end of the tunnel.",
            },
            ParamSpec {
                name: "remote",
                kind: ParamKind::Text,
                default: Default::Text(""),
                help: "IPv4 address of the other end; \"\" accepts any.",
            },
            ParamSpec {
                name: "key",
                kind: ParamKind::Integer { min: -1, max: u32::MAX as i64 },
                default: Default::Integer(-1),
                help: "Key that packets must carry; -1 means no key.",
            },
        ],
        needs_headers: true,
        state: State::None,
        keeps_order: true,
        drop_causes: CAUSES,
    },
    |params, _| {
        let params = Reader(params);
        let Address4(local) = params.parsed("local")?;
        let remote = params.optional("remote")?.map(|Address4(remote)| remote);
        let key = u32::try_from(params.integer::<i64>("key")?).ok();
        Ok(Box::new(Decap { local, remote, key, untouched: 0 }))
    },
);

struct Decap {
    local: u32,
    remote: Option<u32>,
    key: Option<u32>,
    untouched: u64,
}

impl Stage for Decap {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, context| match self.tunnelled(packet) {
            Ok(Some(outer)) => Cause::judge(self.decapsulate(packet, outer, context)),
            Ok(None) => {
                self.untouched += 1;
                Verdict::Pass
            }
            Err(cause) => Cause::judge(Err(cause)),
        });
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("untouched", self.untouched)]
    }

    fn idle(&self, packets: u64) -> Option<String> {
        let local = Ipv4Addr::from(self.local);
        (self.untouched == packets).then(|| format!("no GRE packet is sent to `local` = {local}"))
    }
}

/// Checksum Present bit in the first byte of a GRE header (RFC 2784).
const CHECKSUM_PRESENT: u8 = 0x80;
/// Key Present bit in the same byte (RFC 2890).
const KEY_PRESENT: u8 = 0x20;
/// Sequence Number Present bit in the same byte (RFC 2890).
const SEQUENCE_PRESENT: u8 = 0x10;
/// Bits 1, 4 and 5 of the same byte, which must be zero: routing, strict source route, and the
/// upper bit of the recursion control field in RFC 1701.
const MUST_BE_ZERO: u8 = 0x4c;

impl Decap {
    /// Returns the outer IPv4 header if the packet is GRE over IPv4 to `local`; `None` for any
    /// other packet.
    #[inline]
    fn tunnelled<'p>(&self, packet: &'p Packet<'_>) -> Result<Option<[u8; 20]>, Cause> {
        let layers = packet.meta().layers;
        if layers.ip_version == 0 {
            return Err(Cause::Unparsed);
        }
        if layers.ip_version != 4 || layers.protocol != protocol::GRE {
            return Ok(None);
        }
        let outer: &'p [u8; 20] = array(packet.bytes(), layers.l3.into()).ok_or(Cause::Unparsed)?;
        Ok((be32(outer, 16) == self.local).then_some(*outer))
    }

    fn decapsulate(
        &self,
        packet: &mut Packet<'_>,
        outer: [u8; 20],
        context: &mut StageContext,
    ) -> Result<(), Cause> {
        let layers = packet.meta().layers;
        if layers.fragment != Fragment::Whole {
            return Err(Cause::Fragment);
        }
        if self.remote.is_some_and(|remote| remote != be32(&outer, 12)) {
            return Err(Cause::UnknownPeer);
        }
        let (l3, l4, end) =
            (usize::from(layers.l3), usize::from(layers.l4), usize::from(layers.l3_end));
        let tunnel = packet.bytes().get(l4..end).ok_or(Cause::Unparsed)?;
        let (gre_bytes, ethertype) = self.check_gre(tunnel, &mut context.kernels)?;
        let inner = l4 + gre_bytes;
        if l3 < ETHERNET_BYTES {
            return Err(Cause::Unparsed);
        }
        packet.truncate(end, &mut context.account);
        let frame = packet.bytes_mut();
        frame.copy_within(0..l3, inner - l3);
        frame[inner - 2..inner].copy_from_slice(&ethertype.to_be_bytes());
        packet.trim_front(inner - l3, &mut context.account);
        let layers = headers::walk(packet.bytes())?;
        packet.meta_mut().layers = layers;
        carry_congestion(packet.bytes_mut(), &layers, outer[1] & 0b11)
    }

    /// Validates the GRE header at the start of `tunnel`, and checks its key and checksum. Returns
    /// its length in bytes and the inner EtherType.
    fn check_gre(&self, tunnel: &[u8], kernels: &mut StageKernels) -> Result<(usize, u16), Cause> {
        let start: &[u8; 4] = array(tunnel, 0).ok_or(Cause::CutHeader)?;
        let flags = start[0];
        if flags & MUST_BE_ZERO != 0 || start[1] & 0b111 != 0 {
            return Err(Cause::BadFlags);
        }
        let mut bytes = 4;
        if flags & CHECKSUM_PRESENT != 0 {
            bytes += 4;
            if kernels.checksum(tunnel, Sum::ZERO).fold() != 0xffff {
                return Err(Cause::BadChecksum);
            }
        }
        let mut key = None;
        if flags & KEY_PRESENT != 0 {
            let field: &[u8; 4] = array(tunnel, bytes).ok_or(Cause::CutHeader)?;
            key = Some(be32(field, 0));
            bytes += 4;
        }
        if key != self.key {
            return Err(Cause::BadKey);
        }
        if flags & SEQUENCE_PRESENT != 0 {
            bytes += 4;
        }
        if bytes > tunnel.len() {
            return Err(Cause::CutHeader);
        }
        match be16(start, 2) {
            ethertype @ (ETHERTYPE_IPV4 | ETHERTYPE_IPV6) => Ok((bytes, ethertype)),
            _ => Err(Cause::BadProtocol),
        }
    }
}

/// Propagates the ECN bits of the outer header, `outer`, to the inner one (RFC 6040, figure 4).
fn carry_congestion(frame: &mut [u8], layers: &Layers, outer: u8) -> Result<(), Cause> {
    const NOT_CAPABLE: u8 = 0b00;
    const CAPABLE_1: u8 = 0b01;
    const CAPABLE_0: u8 = 0b10;
    const EXPERIENCED: u8 = 0b11;
    let start: &mut [u8; 12] = array_mut(frame, layers.l3.into()).ok_or(Cause::Unparsed)?;
    // The ECN bits are the lowest two of the second byte in IPv4. In IPv6, four bits of the flow
    // label follow them in that byte.
    let shift = if layers.ip_version == 4 { 0 } else { 4 };
    let inner = start[1] >> shift & 0b11;
    let new = match (inner, outer) {
        (NOT_CAPABLE, EXPERIENCED) => return Err(Cause::Congestion),
        (CAPABLE_0 | CAPABLE_1, EXPERIENCED) => EXPERIENCED,
        (CAPABLE_0, CAPABLE_1) => CAPABLE_1,
        _ => return Ok(()),
    };
    let old = be16(start, 0);
    start[1] = start[1] & !(0b11 << shift) | new << shift;
    if layers.ip_version == 4 {
        let sum = checksum::update(be16(start, 10), old, be16(start, 0));
        start[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    Ok(())
}
