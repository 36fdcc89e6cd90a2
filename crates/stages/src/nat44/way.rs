// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines whether a packet is from inside or to the pool, and which fields to translate. The
//! stage and its steering share this code, so they agree on the bucket.

use super::{Realm, Side, is_error, is_query, is_reply};
use crate::headers::{array, be16, be32};
use linerate_stage_api::BUCKETS;
use linerate_stage_api::{Fragment, Layers};

/// Protocols supported by NAPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Transport {
    Tcp,
    Udp,
    Icmp,
}

/// Number of protocols, for arrays indexed by [`Transport`].
pub(super) const TRANSPORTS: usize = 3;

/// A group of outside ports that are allocated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) bucket: u8,
    /// Index of the address within the pool.
    pub(super) pool_index: u32,
    /// Transport protocol of the flow or, for an ICMP error, of the quoted packet.
    pub(super) transport: Transport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Passes without translation: not IPv4, between inside addresses, or neither from inside nor
    /// to the pool.
    Untouched,
    /// From an inside address to the outside.
    Out {
        /// The group of ports available to the inside address.
        group: Group,
        /// Inside address to map.
        address: u32,
        /// Inside port to map; `None` for a later fragment.
        port: Option<u16>,
        /// Offset in the frame of the packet quoted by an ICMP error.
        quoted: Option<u16>,
    },
    /// To an address of the pool.
    In {
        /// The group of `port`.
        group: Group,
        /// Mapped outside port.
        port: u16,
        /// Offset in the frame of the packet quoted by an ICMP error.
        quoted: Option<u16>,
    },
}

/// Why a packet is dropped regardless of the mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Truncated: shorter than its headers claim.
    Cut,
    Fragment,
    Hairpin,
    NotTranslatable,
}

/// Spreads inside addresses over buckets and pool addresses by Fibonacci hashing: the upper bits
/// select the bucket, the bits below them the pool address. Both depend only on the inside address.
fn hash(address: u32) -> u32 {
    address.wrapping_mul(0x9e37_79b9)
}

const BUCKET_BITS: u32 = BUCKETS.ilog2();

/// Returns the RSS bucket of an inside address.
#[inline]
fn bucket(address: u32) -> u8 {
    (hash(address) >> (u32::BITS - BUCKET_BITS)) as u8
}

impl Realm {
    /// Returns how to translate a packet, or why it is dropped.
    #[inline]
    pub(super) fn way(&self, frame: &[u8], layers: &Layers) -> Result<Way, Refusal> {
        if layers.ip_version != 4 {
            return Ok(Way::Untouched);
        }
        let header: &[u8; 20] = array(frame, layers.l3.into()).ok_or(Refusal::Cut)?;
        let (source, destination) = (be32(header, 12), be32(header, 16));
        if self.inside.contains(source) {
            if self.inside.contains(destination) {
                return Ok(Way::Untouched);
            }
            self.way_out(frame, layers, source, destination)
        } else if self.pool.contains(destination) {
            self.way_in(frame, layers, destination)
        } else {
            Ok(Way::Untouched)
        }
    }

    #[inline]
    fn way_out(
        &self,
        frame: &[u8],
        layers: &Layers,
        source: u32,
        destination: u32,
    ) -> Result<Way, Refusal> {
        if self.pool.contains(destination) {
            return Err(Refusal::Hairpin);
        }
        if destination >= 0xe000_0000 {
            // Multicast, class E, broadcast.
            return Err(Refusal::NotTranslatable);
        }
        let transport =
            Transport::from_protocol(layers.protocol).ok_or(Refusal::NotTranslatable)?;
        let way = |address, transport, port, quoted| {
            Ok(Way::Out { group: self.group(address, transport), address, port, quoted })
        };
        if layers.fragment == Fragment::Later {
            return way(source, transport, None, None);
        }
        let start: &[u8; 8] = array(frame, layers.l4.into()).ok_or(Refusal::Cut)?;
        match transport {
            Transport::Icmp if is_error(start[0]) => {
                let quote = quote(frame, layers, Side::Destination, is_reply)?;
                if !self.inside.contains(quote.address) {
                    return Err(Refusal::NotTranslatable);
                }
                way(quote.address, quote.transport, Some(quote.port), Some(quote.at))
            }
            Transport::Icmp if !is_query(start[0]) => Err(Refusal::NotTranslatable),
            _ => {
                let port = be16(start, transport.port_at(Side::Source));
                way(source, transport, Some(port), None)
            }
        }
    }

    #[inline]
    fn way_in(&self, frame: &[u8], layers: &Layers, destination: u32) -> Result<Way, Refusal> {
        let transport =
            Transport::from_protocol(layers.protocol).ok_or(Refusal::NotTranslatable)?;
        if layers.fragment != Fragment::Whole {
            return Err(Refusal::Fragment);
        }
        let start: &[u8; 8] = array(frame, layers.l4.into()).ok_or(Refusal::Cut)?;
        let way = |transport, port: u16, quoted| {
            let bucket = (port % BUCKETS as u16) as u8;
            let pool_index = destination - self.pool.address;
            Ok(Way::In { group: Group { bucket, pool_index, transport }, port, quoted })
        };
        match transport {
            Transport::Icmp if is_error(start[0]) => {
                let quote = quote(frame, layers, Side::Source, is_query)?;
                if quote.address != destination {
                    return Err(Refusal::NotTranslatable);
                }
                way(quote.transport, quote.port, Some(quote.at))
            }
            Transport::Icmp if !is_reply(start[0]) => Err(Refusal::NotTranslatable),
            _ => way(transport, be16(start, transport.port_at(Side::Destination)), None),
        }
    }

    /// Returns the group of ports that an inside address uses: its bucket, its pool address and the
    /// protocol.
    #[inline]
    fn group(&self, address: u32, transport: Transport) -> Group {
        // The hash bits below the bucket, as a binary fraction, select an address of the pool.
        let fraction = u64::from(hash(address) << BUCKET_BITS);
        let pool_index = ((fraction * u64::from(self.pool_addresses())) >> u32::BITS) as u32;
        Group { bucket: bucket(address), pool_index, transport }
    }
}

/// The fields of a packet quoted by an ICMP error that are needed to find its mapping.
struct Quote {
    /// Offset of the quoted packet in the frame.
    at: u16,
    transport: Transport,
    /// Address and port on the side of the quoted packet that the caller asked for.
    address: u32,
    port: u16,
}

/// Returns the fields of the packet quoted by an ICMP error, on its side `side`. If the quoted
/// packet is itself ICMP, its type must satisfy `is_expected`.
fn quote(
    frame: &[u8],
    layers: &Layers,
    side: Side,
    is_expected: fn(u8) -> bool,
) -> Result<Quote, Refusal> {
    let at = usize::from(layers.l4) + 8;
    let quote = frame.get(at..layers.l3_end.into()).ok_or(Refusal::NotTranslatable)?;
    let header: &[u8; 20] = array(quote, 0).ok_or(Refusal::NotTranslatable)?;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let is_later_fragment = be16(header, 6) & 0x1fff != 0;
    if header[0] >> 4 != 4 || header_bytes < 20 || is_later_fragment {
        return Err(Refusal::NotTranslatable);
    }
    let transport = Transport::from_protocol(header[9]).ok_or(Refusal::NotTranslatable)?;
    let start: &[u8; 8] = array(quote, header_bytes).ok_or(Refusal::NotTranslatable)?;
    if transport == Transport::Icmp && !is_expected(start[0]) {
        return Err(Refusal::NotTranslatable);
    }
    Ok(Quote {
        // The offset is less than the frame length, which is at most 65535.
        at: at as u16,
        transport,
        address: be32(header, side.address_at()),
        port: be16(start, transport.port_at(side)),
    })
}
