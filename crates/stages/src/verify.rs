// SPDX-License-Identifier: MIT OR Apache-2.0
//! `verify`: drops packets whose checksums are wrong.
//!
//! IPv4 header (RFC 1812, 5.2.2); TCP (RFC 9293, 3.1), UDP (RFC 768), ICMP (RFC 792), ICMPv6 (RFC
//! 4443, 2.3). Over IPv4, a UDP checksum of zero means that there is no checksum; over IPv6, it is
//! rejected (RFC 8200, 8.1; without the exception of RFC 6935 for tunnels). Two transport checksums
//! cannot be checked, so the packets pass and are counted: that of fragments, which needs the whole
//! packet, and that of IPv6 packets whose final destination, which the pseudo-header needs, is in
//! the routing header.
//!
//! Not supported: SCTP, DCCP, UDP-Lite, and the home address option of Mobile IPv6.

use crate::headers::{array, be16, is_en_route_v6, protocol};
use crate::params::Reader;
use linerate_stage_api::causes;
use linerate_stage_api::kernels::{Sum, checksum};
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{Burst, Stage, StageContext, StageKernels, StageKind};
use linerate_stage_api::{Fragment, Layers};

causes! {
    /// The packet has not passed through a `parse` stage.
    Unparsed = "unparsed",
    BadL3Checksum = "bad_l3_checksum",
    BadL4Checksum = "bad_l4_checksum",
    /// The packet is UDP over IPv6 without a checksum.
    ZeroUdpV6 = "zero_udp_checksum_v6",
}

pub(crate) const KIND: StageKind = StageKind::new(
    StageSpec {
        kind: "verify",
        help: "Drop packets with a wrong checksum: IPv4 header, TCP, UDP, ICMP, ICMPv6.",
        params: &[ParamSpec {
            name: "l4",
            kind: ParamKind::Bool,
            default: Default::Bool(true),
            help: "Check TCP, UDP, ICMP and ICMPv6 too, not only the IPv4 header.",
        }],
        needs_headers: true,
        state: State::None,
        keeps_order: true,
        drop_causes: CAUSES,
    },
    |params, _| Ok(Box::new(Verify { l4: Reader(params).bool("l4")?, counts: Counts::default() })),
);

struct Verify {
    l4: bool,
    counts: Counts,
}

/// Packets that passed without a check of their transport checksum, by reason.
#[derive(Default)]
struct Counts {
    fragments: u64,
    no_udp_checksum: u64,
    en_route: u64,
    other_protocol: u64,
    /// IPv6 packets with `l4 = false`: IPv6 has no header checksum.
    v6: u64,
}

impl Stage for Verify {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        burst.sift(context, |packet, context| {
            let layers = packet.meta().layers;
            Cause::judge(self.check(packet.bytes(), &layers, &mut context.kernels))
        });
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("unchecked_fragments", self.counts.fragments),
            ("unchecked_udp_zero", self.counts.no_udp_checksum),
            ("unchecked_routing_header", self.counts.en_route),
            ("unchecked_other_protocol", self.counts.other_protocol),
            ("unchecked_v6", self.counts.v6),
        ]
    }

    fn idle(&self, packets: u64) -> Option<String> {
        let reason = "all are IPv6, which has no header checksum, and `l4` = false";
        (self.counts.v6 == packets).then(|| reason.to_owned())
    }
}

impl Verify {
    #[inline]
    fn check(
        &mut self,
        frame: &[u8],
        layers: &Layers,
        kernels: &mut StageKernels,
    ) -> Result<(), Cause> {
        match layers.ip_version {
            4 => self.check_v4(frame, layers, kernels),
            6 if self.l4 => self.check_v6(frame, layers, kernels),
            6 => {
                self.counts.v6 += 1;
                Ok(())
            }
            _ => Err(Cause::Unparsed),
        }
    }

    #[inline]
    fn check_v4(
        &mut self,
        frame: &[u8],
        layers: &Layers,
        kernels: &mut StageKernels,
    ) -> Result<(), Cause> {
        let l3 = usize::from(layers.l3);
        let header = frame.get(l3..layers.l4.into()).ok_or(Cause::Unparsed)?;
        if checksum::header(header, Sum::ZERO).fold() != 0xffff {
            return Err(Cause::BadL3Checksum);
        }
        if !self.l4 {
            return Ok(());
        }
        let addresses: &[u8; 8] = array(header, 12).ok_or(Cause::Unparsed)?;
        let Some(segment) = self.covered(frame, layers)? else {
            return Ok(());
        };
        let pseudo = match layers.protocol {
            protocol::ICMP => Sum::ZERO,
            // A segment is shorter than its frame, which is at most 65535 bytes long.
            _ => checksum::pseudo_ipv4(addresses, layers.protocol, segment.len() as u16),
        };
        intact(kernels.checksum(segment, pseudo))
    }

    #[inline]
    fn check_v6(
        &mut self,
        frame: &[u8],
        layers: &Layers,
        kernels: &mut StageKernels,
    ) -> Result<(), Cause> {
        let l3 = usize::from(layers.l3);
        let addresses: &[u8; 32] = array(frame, l3 + 8).ok_or(Cause::Unparsed)?;
        let Some(segment) = self.covered(frame, layers)? else {
            return Ok(());
        };
        if usize::from(layers.l4) != l3 + 40 && is_en_route_v6(frame, layers) {
            self.counts.en_route += 1;
            return Ok(());
        }
        let pseudo = checksum::pseudo_ipv6(addresses, layers.protocol, segment.len() as u32);
        intact(kernels.checksum(segment, pseudo))
    }

    /// Returns the bytes that the transport checksum covers in addition to the pseudo-header;
    /// `None` if there is no checksum to verify.
    #[inline]
    fn covered<'f>(&mut self, frame: &'f [u8], layers: &Layers) -> Result<Option<&'f [u8]>, Cause> {
        if layers.fragment != Fragment::Whole {
            self.counts.fragments += 1;
            return Ok(None);
        }
        let (l4, end) = (usize::from(layers.l4), usize::from(layers.l3_end));
        let segment = frame.get(l4..end).ok_or(Cause::Unparsed)?;
        match (layers.protocol, layers.ip_version) {
            (protocol::TCP, _) | (protocol::ICMP, 4) | (protocol::ICMPV6, 6) => Ok(Some(segment)),
            (protocol::UDP, version) => {
                let header: &[u8; 8] = array(segment, 0).ok_or(Cause::Unparsed)?;
                match (be16(header, 6), version) {
                    (0, 6) => return Err(Cause::ZeroUdpV6),
                    (0, _) => {
                        self.counts.no_udp_checksum += 1;
                        return Ok(None);
                    }
                    _ => {}
                }
                Ok(segment.get(..be16(header, 4).into()))
            }
            _ => {
                self.counts.other_protocol += 1;
                Ok(None)
            }
        }
    }
}

#[inline]
fn intact(sum: Sum) -> Result<(), Cause> {
    if sum.fold() == 0xffff { Ok(()) } else { Err(Cause::BadL4Checksum) }
}
