// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locates a frame's headers: Ethernet II, up to two VLAN tags (IEEE 802.1Q, 802.1ad), IPv4 (RFC
//! 791), IPv6 with its extension headers (RFC 8200), and the start of TCP, UDP and ICMP.
//!
//! Not handled: IEEE 802.3 length frames and LLC/SNAP, more than two tags, IPv6 jumbograms (RFC
//! 2675), headers after AH in IPv4, and all checksums.

use linerate_stage_api::{Fragment, Layers};

/// IP protocol numbers, from the IANA registry "Protocol Numbers".
pub(crate) mod protocol {
    pub(crate) const HOP_BY_HOP: u8 = 0;
    pub(crate) const ICMP: u8 = 1;
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const ROUTING: u8 = 43;
    pub(crate) const FRAGMENT: u8 = 44;
    pub(crate) const GRE: u8 = 47;
    pub(crate) const AUTHENTICATION: u8 = 51;
    pub(crate) const ICMPV6: u8 = 58;
    pub(crate) const DESTINATION_OPTIONS: u8 = 60;
}

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_CUSTOMER_TAG: u16 = 0x8100;
const ETHERTYPE_SERVICE_TAG: u16 = 0x88a8;

/// Ethernet header length without tags: destination, source, type.
pub(crate) const ETHERNET_BYTES: usize = 14;
const MAX_TAGS: usize = 2;

/// Maximum number of extension headers to follow. RFC 8200 defines six kinds, one of which may
/// occur twice, and RFC 9099 advises dropping chains that are too long to inspect.
pub(crate) const MAX_EXTENSION_HEADERS: usize = 8;

/// Reason why the headers of a frame could not be located.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fault {
    /// The frame is neither IPv4 nor IPv6.
    NotIp,
    /// The frame or fragment ends within a header.
    CutHeader,
    /// A header is inconsistent, or claims more bytes than are present.
    BadHeader,
    /// The chain of IPv6 extension headers is too long or out of order.
    ExtensionChain,
}

/// Names of the faults, in the order of [`Fault`], for use as drop causes.
pub(crate) const FAULT_NAMES: [&str; 4] = ["not_ip", "cut_header", "bad_header", "ext_chain"];

impl Fault {
    /// Returns the index of the fault in [`FAULT_NAMES`].
    pub(crate) fn index(self) -> u8 {
        self as u8
    }
}

/// Returns the big-endian 16-bit number at offset `at`, which must be in bounds.
#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Returns the big-endian 32-bit number at offset `at`, which must be in bounds.
#[inline]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns the `N` bytes at offset `at`; `None` if out of bounds.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

/// Returns a mutable reference to the `N` bytes at offset `at`; `None` if out of bounds.
#[inline]
pub(crate) fn array_mut<const N: usize>(bytes: &mut [u8], at: usize) -> Option<&mut [u8; N]> {
    bytes.get_mut(at..)?.first_chunk_mut()
}

/// Locates the headers of a frame that starts at the Ethernet header.
///
/// Invariants of the result: `14 <= l3 <= l4 <= l3_end <= frame.len()`; the complete IP header is
/// between `l3` and `l4`; unless the packet is a later fragment, a complete TCP, UDP or ICMP header
/// (8 bytes for ICMP) is between `l4` and `l3_end`.
#[inline]
pub(crate) fn walk(frame: &[u8]) -> Result<Layers, Fault> {
    let ethernet: &[u8; ETHERNET_BYTES] = array(frame, 0).ok_or(Fault::CutHeader)?;
    let mut ethertype = be16(ethernet, 12);
    let mut l3 = ETHERNET_BYTES;
    let mut tags = 0;
    while ethertype == ETHERTYPE_CUSTOMER_TAG || ethertype == ETHERTYPE_SERVICE_TAG {
        if tags == MAX_TAGS {
            return Err(Fault::NotIp);
        }
        let tag: &[u8; 4] = array(frame, l3).ok_or(Fault::CutHeader)?;
        ethertype = be16(tag, 2);
        l3 += 4;
        tags += 1;
    }
    match ethertype {
        ETHERTYPE_IPV4 => walk_v4(frame, l3),
        ETHERTYPE_IPV6 => walk_v6(frame, l3),
        _ => Err(Fault::NotIp),
    }
}

/// Parses the IPv4 header at `l3` and locates the headers after it.
#[inline]
pub(crate) fn walk_v4(frame: &[u8], l3: usize) -> Result<Layers, Fault> {
    let header: &[u8; 20] = array(frame, l3).ok_or(Fault::CutHeader)?;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let total_bytes = usize::from(be16(header, 2));
    let end = l3 + total_bytes;
    if header[0] >> 4 != 4 || header_bytes < 20 || total_bytes < header_bytes || end > frame.len() {
        return Err(Fault::BadHeader);
    }
    let (offset, more) = (be16(header, 6) & 0x1fff, header[6] & 0x20 != 0);
    finish(frame, l3, l3 + header_bytes, end, 4, header[9], fragment(offset != 0, more))
}

fn fragment(has_offset: bool, more: bool) -> Fragment {
    match (has_offset, more) {
        (true, _) => Fragment::Later,
        (false, true) => Fragment::First,
        (false, false) => Fragment::Whole,
    }
}

/// Parses the IPv6 header at `l3` and locates the headers after it.
///
/// A fragment header with offset 0 and no more fragments does not make the packet a fragment (RFC
/// 6946). The first fragment must contain the entire chain (RFC 7112). In later fragments,
/// everything after the fragment header is data and not examined.
fn walk_v6(frame: &[u8], l3: usize) -> Result<Layers, Fault> {
    let header: &[u8; 40] = array(frame, l3).ok_or(Fault::CutHeader)?;
    let end = l3 + 40 + usize::from(be16(header, 4));
    if header[0] >> 4 != 6 || end > frame.len() {
        return Err(Fault::BadHeader);
    }
    let (mut next, mut at) = (header[6], l3 + 40);
    let mut kind = Fragment::Whole;
    let mut fragment_headers = 0;
    for place in 0..=MAX_EXTENSION_HEADERS {
        if !is_extension(next) {
            return finish(frame, l3, at, end, 6, next, kind);
        }
        let extension: &[u8; 8] = array(&frame[..end], at).ok_or(Fault::CutHeader)?;
        if next == protocol::HOP_BY_HOP && place > 0 {
            return Err(Fault::ExtensionChain);
        }
        if next == protocol::FRAGMENT {
            fragment_headers += 1;
            if fragment_headers > 1 {
                return Err(Fault::ExtensionChain);
            }
            kind = fragment(be16(extension, 2) & 0xfff8 != 0, extension[3] & 1 != 0);
        }
        at += extension_bytes(next, extension[1]);
        next = extension[0];
        if kind == Fragment::Later {
            return finish(frame, l3, at, end, 6, next, kind);
        }
    }
    Err(Fault::ExtensionChain)
}

fn is_extension(next: u8) -> bool {
    use protocol::{AUTHENTICATION, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
    matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS)
}

/// Returns the length of an IPv6 extension header in bytes, given its length field. The field
/// counts units of 8 bytes or, for AH (RFC 4302, 2.2), of 4 bytes, and excludes the first 8 bytes.
/// The fragment header has a fixed length.
fn extension_bytes(kind: u8, length: u8) -> usize {
    match kind {
        protocol::FRAGMENT => 8,
        protocol::AUTHENTICATION => (usize::from(length) + 2) * 4,
        _ => (usize::from(length) + 1) * 8,
    }
}

/// Returns whether an IPv6 packet has a routing header with segments left. If so, the destination
/// address in the IPv6 header is not the final one.
pub(crate) fn is_en_route_v6(frame: &[u8], layers: &Layers) -> bool {
    let (l3, l4) = (usize::from(layers.l3), usize::from(layers.l4));
    let (Some(&first), mut at) = (frame.get(l3 + 6), l3 + 40) else {
        return false;
    };
    let mut next = first;
    while at < l4 {
        let Some(extension) = array::<4>(frame, at) else {
            return false;
        };
        if next == protocol::ROUTING && extension[3] != 0 {
            return true;
        }
        at += extension_bytes(next, extension[1]);
        next = extension[0];
    }
    false
}

/// Checks that the transport header is complete, and returns the offsets of all headers.
#[inline]
fn finish(
    frame: &[u8],
    l3: usize,
    l4: usize,
    end: usize,
    ip_version: u8,
    protocol: u8,
    fragment: Fragment,
) -> Result<Layers, Fault> {
    let payload = frame[..end].get(l4..).ok_or(Fault::CutHeader)?;
    if fragment != Fragment::Later {
        check_transport(payload, protocol, fragment)?;
    }
    // Frames are at most 65535 bytes long, so all offsets fit.
    Ok(Layers { l3: l3 as u16, l4: l4 as u16, l3_end: end as u16, ip_version, protocol, fragment })
}

/// Checks that `payload` contains the entire transport header. A first fragment with a truncated
/// header is rejected like any other packet (RFC 1858, RFC 7112), because filters could not match
/// it.
#[inline]
fn check_transport(payload: &[u8], protocol: u8, fragment: Fragment) -> Result<(), Fault> {
    match protocol {
        protocol::TCP => {
            let header: &[u8; 20] = array(payload, 0).ok_or(Fault::CutHeader)?;
            match usize::from(header[12] >> 4) * 4 {
                bytes if bytes < 20 => Err(Fault::BadHeader),
                bytes if bytes > payload.len() => Err(Fault::CutHeader),
                _ => Ok(()),
            }
        }
        protocol::UDP => {
            let header: &[u8; 8] = array(payload, 0).ok_or(Fault::CutHeader)?;
            let bytes = usize::from(be16(header, 4));
            let fits = bytes <= payload.len() || fragment == Fragment::First;
            if bytes < 8 || !fits { Err(Fault::BadHeader) } else { Ok(()) }
        }
        protocol::ICMP | protocol::ICMPV6 if payload.len() < 8 => Err(Fault::CutHeader),
        _ => Ok(()),
    }
}
