// SPDX-License-Identifier: MIT OR Apache-2.0
//! `verify`: drops packets whose checksums are wrong.
//!
//! ```text
//! for each packet: sum the IP header; sum the transport payload now if it is long, otherwise queue
//!                  it
//! sum the queued payloads, many packets per call
//! drop the packets whose checksums are wrong
//! ```
//!
//! Verifies the checksums of the IPv4 header (RFC 1812, 5.2.2), TCP (RFC 9293, 3.1), UDP (RFC 768),
//! ICMP (RFC 792) and ICMPv6 (RFC 4443, 2.3). A UDP checksum of zero means "none" over IPv4, and is
//! rejected over IPv6 (RFC 8200, 8.1; without the tunnel exception of RFC 6935). Two kinds of
//! transport checksum cannot be verified, so the packets pass and are counted: those of fragments,
//! which cover the entire packet, and those of IPv6 packets with segments left in a routing header,
//! whose pseudo-header contains the final destination from that header.
//!
//! Not supported: SCTP, DCCP, UDP-Lite, and the home address option of Mobile IPv6.

use crate::headers::{array, be16, is_en_route_v6, protocol};
use crate::params::Reader;
use linerate_stage_api::causes;
use linerate_stage_api::kernels::checksum::Buffer;
use linerate_stage_api::kernels::{Sum, checksum};
use linerate_stage_api::spec::{Default, ParamKind, ParamSpec, StageSpec, State};
use linerate_stage_api::{Burst, MAX_BURST, Stage, StageContext, StageKernels, StageKind};
use linerate_stage_api::{Fragment, Layers};

causes! {
    /// Not parsed: there is no `parse` stage before this one.
    Unparsed = "unparsed",
    BadL3Checksum = "bad_l3_checksum",
    BadL4Checksum = "bad_l4_checksum",
    /// UDP over IPv6 without a checksum.
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
    |params, _| Ok(Box::new(Verify::new(Reader(params).bool("l4")?))),
);

struct Verify {
    l4: bool,
    counts: Counts,
    /// The packets to drop, as indices into the current burst in ascending order, and why.
    rejected: Vec<(u16, Cause)>,
}

/// Packets that passed without a transport checksum check, by reason.
#[derive(Default)]
struct Counts {
    fragments: u64,
    no_udp_checksum: u64,
    en_route: u64,
    other_protocol: u64,
    /// IPv6 packets that were not verified: with `l4 = false` there is nothing to verify, because
    /// IPv6 has no header checksum.
    v6: u64,
}

impl Stage for Verify {
    fn process(&mut self, burst: &mut Burst<'_>, context: &mut StageContext) {
        self.check(burst, &mut context.kernels);
        if self.rejected.is_empty() {
            return;
        }
        let (mut index, mut rejected) = (0, self.rejected.iter().peekable());
        burst.sift(context, |_, _| {
            let found = rejected.next_if(|(packet, _)| *packet == index);
            index += 1;
            Cause::judge(found.map_or(Ok(()), |(_, cause)| Err(*cause)))
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
        let reason = "all packets are IPv6, which has no header checksum, and `l4` = false";
        (self.counts.v6 == packets).then(|| reason.to_owned())
    }
}

impl Verify {
    fn new(l4: bool) -> Self {
        Self { l4, counts: Counts::default(), rejected: Vec::with_capacity(MAX_BURST) }
    }

    /// Checks all packets of a burst, and collects those to drop in `rejected`.
    fn check(&mut self, burst: &Burst<'_>, kernels: &mut StageKernels) {
        let mut unsummed = Unsummed::default();
        self.rejected.clear();
        for (packet, index) in burst.iter().zip(0..) {
            let layers = packet.meta().layers;
            match self.covered_by(packet.bytes(), &layers) {
                Ok(Some(Covered { segment, pseudo })) if segment.len() > checksum::BURST_BYTES => {
                    if kernels.checksum(segment, pseudo).fold() != 0xffff {
                        self.rejected.push((index, Cause::BadL4Checksum));
                    }
                }
                Ok(Some(covered)) => unsummed.push(index, covered),
                Ok(None) => {}
                Err(cause) => self.rejected.push((index, cause)),
            }
            if unsummed.count == GROUP {
                unsummed.settle(&mut self.rejected, kernels);
            }
        }
        unsummed.settle(&mut self.rejected, kernels);
        self.rejected.sort_unstable_by_key(|(index, _)| *index);
    }

    /// Checks what needs no checksum kernel, and returns the bytes that the transport checksum
    /// covers; `None` if there is no transport checksum to verify.
    #[inline]
    fn covered_by<'f>(
        &mut self,
        frame: &'f [u8],
        layers: &Layers,
    ) -> Result<Option<Covered<'f>>, Cause> {
        match layers.ip_version {
            4 => self.covered_v4(frame, layers),
            6 if self.l4 => self.covered_v6(frame, layers),
            6 => {
                self.counts.v6 += 1;
                Ok(None)
            }
            _ => Err(Cause::Unparsed),
        }
    }

    #[inline]
    fn covered_v4<'f>(
        &mut self,
        frame: &'f [u8],
        layers: &Layers,
    ) -> Result<Option<Covered<'f>>, Cause> {
        let l3 = usize::from(layers.l3);
        let header = frame.get(l3..layers.l4.into()).ok_or(Cause::Unparsed)?;
        if checksum::header(header, Sum::ZERO).fold() != 0xffff {
            return Err(Cause::BadL3Checksum);
        }
        if !self.l4 {
            return Ok(None);
        }
        let addresses: &[u8; 8] = array(header, 12).ok_or(Cause::Unparsed)?;
        let Some(segment) = self.segment(frame, layers)? else {
            return Ok(None);
        };
        let pseudo = match layers.protocol {
            protocol::ICMP => Sum::ZERO,
            // A segment is shorter than its frame, which is at most 65535 bytes long.
            _ => checksum::pseudo_ipv4(addresses, layers.protocol, segment.len() as u16),
        };
        Ok(Some(Covered { segment, pseudo }))
    }

    #[inline]
    fn covered_v6<'f>(
        &mut self,
        frame: &'f [u8],
        layers: &Layers,
    ) -> Result<Option<Covered<'f>>, Cause> {
        let l3 = usize::from(layers.l3);
        let addresses: &[u8; 32] = array(frame, l3 + 8).ok_or(Cause::Unparsed)?;
        let Some(segment) = self.segment(frame, layers)? else {
            return Ok(None);
        };
        if usize::from(layers.l4) != l3 + 40 && is_en_route_v6(frame, layers) {
            self.counts.en_route += 1;
            return Ok(None);
        }
        let pseudo = checksum::pseudo_ipv6(addresses, layers.protocol, segment.len() as u32);
        Ok(Some(Covered { segment, pseudo }))
    }

    /// Returns the bytes covered by the transport checksum in addition to the pseudo-header; `None`
    /// if there is no checksum to verify.
    #[inline]
    fn segment<'f>(&mut self, frame: &'f [u8], layers: &Layers) -> Result<Option<&'f [u8]>, Cause> {
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

/// Bytes covered by a transport checksum.
struct Covered<'f> {
    segment: &'f [u8],
    /// Sum of the pseudo-header.
    pseudo: Sum,
}

/// Maximum number of segments summed in one call.
const GROUP: usize = 16;

/// Segments of a burst that wait to be summed together, in one call.
#[derive(Default)]
struct Unsummed<'f> {
    segments: [Buffer<'f>; GROUP],
    sums: [Sum; GROUP],
    /// For each segment, the index of its packet in the burst.
    packets: [u16; GROUP],
    count: usize,
}

impl<'f> Unsummed<'f> {
    #[inline]
    fn push(&mut self, packet: u16, covered: Covered<'f>) {
        self.segments[self.count] = Buffer::new(covered.segment);
        self.sums[self.count] = covered.pseudo;
        self.packets[self.count] = packet;
        self.count += 1;
    }

    /// Sums the queued segments, and rejects the packets whose checksums are wrong.
    #[inline]
    fn settle(&mut self, rejected: &mut Vec<(u16, Cause)>, kernels: &mut StageKernels) {
        let (segments, sums) = (&self.segments[..self.count], &mut self.sums[..self.count]);
        kernels.checksum_burst(segments, sums);
        for (sum, packet) in sums.iter().zip(&self.packets) {
            if sum.fold() != 0xffff {
                rejected.push((*packet, Cause::BadL4Checksum));
            }
        }
        self.count = 0;
    }
}
