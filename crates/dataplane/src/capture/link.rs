// SPDX-License-Identifier: MIT OR Apache-2.0
//! Link layers of captures. A packet with a link header other than Ethernet gets a synthetic
//! Ethernet header instead.
//!
//! The layouts of link headers are defined in the tcpdump group's link type registry.

use crate::headers::{ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, be16};
use std::fmt;

/// A link type number from the tcpdump group's registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    const LOOPBACK: Self = Self(0);
    const RAW: [Self; 3] = [Self(12), Self(14), Self(101)];
    const OPENBSD_LOOPBACK: Self = Self(108);
    const COOKED: Self = Self(113);
    const RAW_IPV4: Self = Self(228);
    const RAW_IPV6: Self = Self(229);
    const COOKED_2: Self = Self(276);

    /// Returns whether packets of this link type can be replayed.
    pub(super) fn is_known(self) -> bool {
        let others = [
            Self::ETHERNET,
            Self::LOOPBACK,
            Self::OPENBSD_LOOPBACK,
            Self::COOKED,
            Self::RAW_IPV4,
            Self::RAW_IPV6,
            Self::COOKED_2,
        ];
        others.contains(&self) || Self::RAW.contains(&self)
    }

    fn name(self) -> &'static str {
        match self.0 {
            0 | 108 => "BSD loopback",
            1 => "Ethernet",
            9 => "PPP",
            12 | 14 | 101 => "raw IP",
            105 => "IEEE 802.11",
            113 => "Linux cooked",
            127 => "IEEE 802.11 with radiotap",
            228 => "raw IPv4",
            229 => "raw IPv6",
            276 => "Linux cooked, version 2",
            _ => "unnamed link type",
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

/// Destination address of synthetic Ethernet headers. Like [`SOURCE`], it is a locally administered
/// MAC address.
const DESTINATION: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Source address of synthetic Ethernet headers, also locally administered.
const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Smallest EtherType. Smaller values of a protocol field are frame lengths, or protocol numbers
/// that only Linux uses.
const ETHERTYPE_MIN: u16 = 0x0600;
/// ARPHRD device type of netlink messages, whose protocol field is not an EtherType.
const ARPHRD_NETLINK: u16 = 824;

/// Properties of the link on which packets were captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) link_type: LinkType,
    /// Length of the FCS at the end of each packet; 0 if absent.
    pub(super) fcs_bytes: u8,
}

/// Contents of a synthetic Ethernet header. `bytes` is the length of the captured link header that
/// it replaces.
struct Header {
    bytes: usize,
    source: [u8; 6],
    ethertype: u16,
}

impl Link {
    /// Returns a captured packet as an Ethernet frame, and its on-wire length, both without FCS;
    /// `None` if the packet contains no frame. A packet without an Ethernet header gets one in
    /// `scratch`.
    pub(super) fn framed<'b>(
        self,
        captured: &'b [u8],
        original_bytes: u32,
        scratch: &'b mut Vec<u8>,
    ) -> Option<(&'b [u8], u32)> {
        let original = original_bytes.saturating_sub(self.fcs_bytes.into());
        let kept = match self.fcs_bytes {
            0 => captured.len(),
            _ => captured.len().min(original as usize),
        };
        let captured = &captured[..kept];
        if self.link_type == LinkType::ETHERNET {
            return Some((captured, original));
        }
        let Header { bytes, source, ethertype } = self.header(captured)?;
        scratch.clear();
        scratch.extend_from_slice(&DESTINATION);
        scratch.extend_from_slice(&source);
        scratch.extend_from_slice(&ethertype.to_be_bytes());
        scratch.extend_from_slice(captured.get(bytes..)?);
        let original = original.checked_sub(bytes as u32)?.checked_add(ETHERNET_BYTES as u32)?;
        Some((scratch, original))
    }

    fn header(self, packet: &[u8]) -> Option<Header> {
        let raw = |ethertype| Some(Header { bytes: 0, source: SOURCE, ethertype });
        match self.link_type {
            LinkType::COOKED => {
                // Linux cooked capture v1: packet type, device type, address length, address,
                // protocol.
                let header: &[u8; 16] = packet.first_chunk()?;
                cooked(header, be16(header, 14)?, be16(header, 2)?, &header[5..14])
            }
            LinkType::COOKED_2 => {
                // Linux cooked capture v2: protocol, device index and type, packet type, address
                // length, address.
                let header: &[u8; 20] = packet.first_chunk()?;
                cooked(header, be16(header, 0)?, be16(header, 8)?, &header[11..20])
            }
            LinkType::LOOPBACK | LinkType::OPENBSD_LOOPBACK => {
                let header: &[u8; 4] = packet.first_chunk()?;
                // The 4-byte header is an address family, in network byte order or in that of the
                // capturing machine.
                let number = u32::from_le_bytes(*header);
                let family = if number > 0xffff { number.swap_bytes() } else { number };
                Some(Header { bytes: 4, source: SOURCE, ethertype: of_family(family)? })
            }
            LinkType::RAW_IPV4 => raw(ETHERTYPE_IPV4),
            LinkType::RAW_IPV6 => raw(ETHERTYPE_IPV6),
            _ => match packet.first()? >> 4 {
                4 => raw(ETHERTYPE_IPV4),
                6 => raw(ETHERTYPE_IPV6),
                _ => None,
            },
        }
    }
}

/// Builds an Ethernet header from a Linux cooked capture header. `address` is the sender's address,
/// preceded by its length.
fn cooked(header: &[u8], protocol: u16, device: u16, address: &[u8]) -> Option<Header> {
    let is_packet = protocol >= ETHERTYPE_MIN && device != ARPHRD_NETLINK;
    let source = match address {
        [6, address @ ..] => *address.first_chunk()?,
        _ => SOURCE,
    };
    is_packet.then_some(Header { bytes: header.len(), source, ethertype: protocol })
}

/// Returns the EtherType of a BSD address family. Each BSD has a different number for IPv6.
fn of_family(family: u32) -> Option<u16> {
    match family {
        2 => Some(ETHERTYPE_IPV4),
        10 | 24 | 28 | 30 => Some(ETHERTYPE_IPV6),
        _ => None,
    }
}
