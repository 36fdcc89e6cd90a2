// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locates what the repair of a captured frame needs: its headers and its transport checksum.
//!
//! Tunnels are not supported: their inner packets are treated as payload.

use crate::headers::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, be16, network_layer};
use linerate_kernels::checksum;

/// IANA protocol number of TCP.
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Maximum number of IPv6 extension headers to follow.
const EXTENSIONS: usize = 8;

/// Headers of an IP packet within a frame. Offsets are from the start of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layers {
    /// IP version, 4 or 6.
    pub(super) version: u8,
    /// IP header offset.
    pub(super) l3: usize,
    /// Offset of the end of the IP header, including options and extension headers.
    pub(super) l4: usize,
    pub(super) protocol: u8,
    /// Offset of the end of the packet, according to its length field. `None` if that field is 0,
    /// as in packets of more than 64 KiB that were captured before segmentation offload split them.
    pub(super) end: Option<usize>,
    /// Whether the packet is a fragment.
    pub(super) is_fragment: bool,
    /// Whether the packet has a routing header or a jumbo payload. If so, its transport checksum is
    /// never rewritten.
    pub(super) is_special: bool,
}

/// Why a frame has no [`Layers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Headerless {
    /// The frame is not IP.
    NotIp,
    /// The headers are truncated or invalid.
    Cut,
}

/// Writes `value` at offset `at`, which must be within the frame.
pub(super) fn put16(frame: &mut [u8], at: usize, value: u16) {
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

impl Layers {
    /// Locates the headers of `frame`, which starts at the Ethernet header and may be truncated.
    pub(super) fn locate(frame: &[u8]) -> Result<Self, Headerless> {
        let (l3, ethertype) = network_layer(frame).ok_or(Headerless::Cut)?;
        match ethertype {
            ETHERTYPE_IPV4 => v4(frame, l3).ok_or(Headerless::Cut),
            ETHERTYPE_IPV6 => v6(frame, l3).ok_or(Headerless::Cut),
            _ => Err(Headerless::NotIp),
        }
    }

    /// Returns the length of the transport header in `frame`: `None` if it is truncated or invalid,
    /// 0 for fragments and unknown protocols.
    pub(super) fn transport_bytes(&self, frame: &[u8]) -> Option<usize> {
        let bytes = match self.protocol {
            _ if self.is_fragment => 0,
            TCP => usize::from(frame.get(self.l4 + 12)? >> 4) * 4,
            UDP | ICMP | ICMPV6 => 8,
            _ => 0,
        };
        let least = if self.protocol == TCP && !self.is_fragment { 20 } else { 0 };
        (bytes >= least && self.l4 + bytes <= frame.len()).then_some(bytes)
    }

    /// Computes and writes the transport checksum over `frame[l4..end]`. Leaves the frame unchanged
    /// if it is a fragment, has a routing header or jumbo payload, has an unknown protocol, or is
    /// UDP over IPv4 without a checksum.
    pub(super) fn write_checksum(&self, frame: &mut [u8], end: usize) {
        let offset = match self.protocol {
            _ if self.is_fragment || self.is_special => return,
            TCP => 16,
            UDP => 6,
            ICMP | ICMPV6 => 2,
            _ => return,
        };
        let at = self.l4 + offset;
        let is_without = self.version == 4 && self.protocol == UDP;
        if at + 2 > end || end > frame.len() || is_without && frame[at..at + 2] == [0, 0] {
            return;
        }
        let Some(pseudo) = self.pseudo_header(frame, end - self.l4) else { return };
        put16(frame, at, 0);
        let sum = checksum::partial(&frame[self.l4..end], pseudo);
        let value = if self.protocol == UDP { sum.finish_udp() } else { sum.finish() };
        put16(frame, at, value);
    }

    /// Returns whether the TCP or UDP checksum of `frame[l4..end]` covers only the pseudo-header;
    /// `None` if the frame has no TCP or UDP checksum.
    pub(super) fn has_pseudo_header_only(&self, frame: &[u8], end: usize) -> Option<bool> {
        let offset = match self.protocol {
            _ if self.is_fragment || self.is_special => return None,
            TCP => 16,
            UDP => 6,
            _ => return None,
        };
        let bytes = end.checked_sub(self.l4)?;
        let pseudo = self.pseudo_header(frame, bytes)?;
        (end <= frame.len() && bytes >= offset + 2)
            .then(|| be16(frame, self.l4 + offset) == Some(!pseudo.finish()))
    }

    fn pseudo_header(&self, frame: &[u8], bytes: usize) -> Option<linerate_kernels::Sum> {
        match (self.version, self.protocol) {
            (4, ICMP) => Some(linerate_kernels::Sum::ZERO),
            (4, protocol) => {
                let addresses = frame.get(self.l3 + 12..)?.first_chunk()?;
                Some(checksum::pseudo_ipv4(addresses, protocol, u16::try_from(bytes).ok()?))
            }
            (_, protocol) => {
                let addresses = frame.get(self.l3 + 8..)?.first_chunk()?;
                Some(checksum::pseudo_ipv6(addresses, protocol, u32::try_from(bytes).ok()?))
            }
        }
    }
}

fn v4(frame: &[u8], l3: usize) -> Option<Layers> {
    let header: &[u8; 20] = frame.get(l3..)?.first_chunk()?;
    let header_bytes = usize::from(header[0] & 15) * 4;
    let total = usize::from(be16(header, 2)?);
    let is_sound =
        header[0] >> 4 == 4 && header_bytes >= 20 && (total == 0 || total >= header_bytes);
    (is_sound && l3 + header_bytes <= frame.len()).then_some(Layers {
        version: 4,
        l3,
        l4: l3 + header_bytes,
        protocol: header[9],
        end: (total > 0).then_some(l3 + total),
        is_fragment: be16(header, 6)? & 0x3fff != 0,
        is_special: false,
    })
}

fn v6(frame: &[u8], l3: usize) -> Option<Layers> {
    const FIXED_BYTES: usize = 40;
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const OPTIONS: u8 = 60;
    let header: &[u8; FIXED_BYTES] = frame.get(l3..)?.first_chunk()?;
    let payload = usize::from(be16(header, 4)?);
    let mut layers = Layers {
        version: 6,
        l3,
        l4: l3 + FIXED_BYTES,
        protocol: header[6],
        end: (payload > 0).then_some(l3 + FIXED_BYTES + payload),
        is_fragment: false,
        is_special: false,
    };
    for _ in 0..EXTENSIONS {
        let bytes = match layers.protocol {
            HOP_BY_HOP | ROUTING | OPTIONS => {
                let is_jumbo = layers.protocol == HOP_BY_HOP && payload == 0;
                layers.is_special |= layers.protocol == ROUTING || is_jumbo;
                (usize::from(*frame.get(layers.l4 + 1)?) + 1) * 8
            }
            FRAGMENT => {
                layers.is_fragment = true;
                8
            }
            _ => break,
        };
        layers.protocol = *frame.get(layers.l4)?;
        layers.l4 += bytes;
        if layers.is_fragment {
            break;
        }
    }
    (header[0] >> 4 == 6 && layers.l4 <= frame.len()).then_some(layers)
}
