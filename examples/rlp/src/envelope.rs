// SPDX-License-Identifier: MIT OR Apache-2.0
//! A10 bearer packet: Ethernet II, IPv4 (RFC 791), GRE (RFC 2784) with key and sequence number (RFC
//! 2890), protocol type 0x8881 (CDMA2000 A10 unstructured byte stream).
//!
//! ```text
//!  0              14                    34                        46
//!  +--------------+---------------------+-------------------------+---------
//!  | Ethernet     | IPv4, protocol 47   | flags 0x3000 | 0x8881   | bytes
//!  |              | (longer with        | key, 32 bits            | of the
//!  |              |  IPv4 options)      | sequence number, 32 bit | stream
//!  +--------------+---------------------+-------------------------+---------
//! ```
//!
//! VLAN tags, IPv6, and protocol type 0x88d2 with its attributes are not supported. Fragments are
//! rejected, as are GRE checksums and routing, which the bearer does not use.

use linerate_stage_api::kernels::{Sum, checksum};
use std::ops::Range;

/// Ethernet header length: destination, source, type.
pub const ETHERNET_BYTES: usize = 14;
/// IPv4 header length without options.
const IPV4_BYTES: usize = 20;
/// GRE header length with key and sequence number.
pub const GRE_BYTES: usize = 12;
/// Length of the headers that [`write_header`] writes before the stream bytes.
pub const HEADER_BYTES: usize = ETHERNET_BYTES + IPV4_BYTES + GRE_BYTES;

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const PROTOCOL_GRE: u8 = 47;
/// Mask of the MF flag and the fragment offset; DF may be set.
const FRAGMENT: u16 = 0x3fff;
/// [`FRAGMENT`], shifted for the 32-bit word that also holds the TTL and the protocol.
const FRAGMENT_WORD: u32 = (FRAGMENT as u32) << 16;
/// EtherType IPv4, version 4, IHL 5 (no options).
const PLAIN_IPV4: u32 = 0x08_0045;
/// Key and sequence number present; all other flags, reserved bits and the version are zero.
const GRE_FLAGS: [u8; 2] = [0x30, 0x00];
/// CDMA2000 A10 unstructured byte stream.
const GRE_PROTOCOL: [u8; 2] = [0x88, 0x81];
const GRE_WORD: u32 =
    u32::from_be_bytes([GRE_FLAGS[0], GRE_FLAGS[1], GRE_PROTOCOL[0], GRE_PROTOCOL[1]]);

/// Why a frame is not an A10 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// Not IPv4.
    NotIpv4,
    /// The frame ends within a header.
    CutHeader,
    /// The IPv4 header is inconsistent, or claims more bytes than the frame has.
    BadHeader,
    /// Bad IPv4 header checksum.
    BadChecksum,
    /// A fragment.
    Fragment,
    /// IPv4, but not GRE.
    NotGre,
    /// GRE flags other than key and sequence number, or an unknown version.
    BadFlags,
    /// GRE with a protocol type other than the unstructured byte stream.
    BadProtocol,
}

/// Fault names, in declaration order.
pub const FAULT_NAMES: [&str; 8] = [
    "not_ipv4",
    "cut_header",
    "bad_header",
    "bad_checksum",
    "fragment",
    "not_gre",
    "bad_flags",
    "bad_protocol",
];

impl Fault {
    /// Returns the index into [`FAULT_NAMES`].
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A parsed A10 packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// GRE key, which identifies the session.
    pub key: u32,
    /// GRE sequence number within the session.
    pub sequence: u32,
    /// Range of the stream bytes within the frame, without Ethernet padding.
    pub payload: Range<usize>,
}

/// Parses an A10 packet; `packet` starts at the Ethernet header.
///
/// # Errors
/// Returns the first fault found.
#[inline]
pub fn parse(packet: &[u8]) -> Result<Envelope, Fault> {
    match parse_plain(packet) {
        Some(envelope) => Ok(envelope),
        None => parse_any(packet),
    }
}

/// Fast path for valid packets without IPv4 options, which is nearly all of them. Header offsets
/// are constant, and adjacent fields are checked together.
///
/// ```text
///  12..15  EtherType, version, header length    ==  0x0800, 4, 5
///  16..18  total length                         between the headers and the end of the frame
///  20..24  flags, offset, any TTL, protocol     not a fragment, GRE
///  34..38  GRE flags, protocol type             ==  0x3000, 0x8881
/// ```
#[inline]
pub(crate) fn parse_plain(packet: &[u8]) -> Option<Envelope> {
    let header: &[u8; HEADER_BYTES] = packet.first_chunk()?;
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let ip = &header[ETHERNET_BYTES..ETHERNET_BYTES + IPV4_BYTES];
    let payload_bytes =
        usize::from(u16::from_be_bytes([ip[2], ip[3]])).wrapping_sub(IPV4_BYTES + GRE_BYTES);
    let is_sound = word(12) >> 8 == PLAIN_IPV4
        && payload_bytes <= packet.len() - HEADER_BYTES
        && word(20) & (FRAGMENT_WORD | 0xff) == u32::from(PROTOCOL_GRE)
        && word(34) == GRE_WORD
        && checksum::header(ip, Sum::ZERO).fold() == 0xffff;
    is_sound.then(|| Envelope {
        key: word(38),
        sequence: word(42),
        payload: HEADER_BYTES..HEADER_BYTES + payload_bytes,
    })
}

/// Slow path for the packets that [`parse_plain`] does not accept: checks every field separately.
#[cold]
fn parse_any(packet: &[u8]) -> Result<Envelope, Fault> {
    let ethernet: &[u8; ETHERNET_BYTES] = packet.first_chunk().ok_or(Fault::CutHeader)?;
    if ethernet[12..] != ETHERTYPE_IPV4 {
        return Err(Fault::NotIpv4);
    }
    let ip = &packet[ETHERNET_BYTES..];
    let bytes = check_ipv4(ip)?;
    parse_gre(packet, ETHERNET_BYTES + bytes.start..ETHERNET_BYTES + bytes.end)
}

/// Parses a packet from its GRE header on, after its IPv4 header has been checked. `gre` is the
/// range of the IPv4 payload.
///
/// # Errors
/// Returns the first fault found. A range that exceeds the packet counts as a truncated header.
#[inline]
pub fn parse_gre(packet: &[u8], gre: Range<usize>) -> Result<Envelope, Fault> {
    let bytes = packet.get(gre.clone()).ok_or(Fault::CutHeader)?;
    let header: &[u8; GRE_BYTES] = bytes.first_chunk().ok_or(Fault::CutHeader)?;
    if header[..2] != GRE_FLAGS {
        return Err(Fault::BadFlags);
    }
    if header[2..4] != GRE_PROTOCOL {
        return Err(Fault::BadProtocol);
    }
    Ok(Envelope {
        key: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        sequence: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
        payload: gre.start + GRE_BYTES..gre.end,
    })
}

/// Checks an IPv4 header and returns the range of the payload in `ip`.
fn check_ipv4(ip: &[u8]) -> Result<Range<usize>, Fault> {
    let header: &[u8; IPV4_BYTES] = ip.first_chunk().ok_or(Fault::CutHeader)?;
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let total_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4
        || header_bytes < IPV4_BYTES
        || total_bytes < header_bytes
        || total_bytes > ip.len()
    {
        return Err(Fault::BadHeader);
    }
    // The header is no longer than the packet, as checked above.
    if checksum::header(&ip[..header_bytes], Sum::ZERO).fold() != 0xffff {
        return Err(Fault::BadChecksum);
    }
    if u16::from_be_bytes([header[6], header[7]]) & FRAGMENT != 0 {
        return Err(Fault::Fragment);
    }
    if header[9] != PROTOCOL_GRE {
        return Err(Fault::NotGre);
    }
    Ok(header_bytes..total_bytes)
}

/// Addresses of the two ends of a bearer, in the order in which one end writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Ethernet destination, then source.
    pub ethernet: [u8; 12],
    /// IPv4 source, then destination.
    pub ipv4: [u8; 8],
}

/// Writes the headers before `payload_bytes` stream bytes.
///
/// "Don't fragment" is set, the identification is 0 (RFC 6864, 4.1), and the TTL is 64.
///
/// Returns `false`, and writes nothing, if the payload is too long for an IPv4 packet.
#[inline]
pub fn write_header(
    header: &mut [u8; HEADER_BYTES],
    ends: &Ends,
    key: u32,
    sequence: u32,
    payload_bytes: usize,
) -> bool {
    let Ok(total) = u16::try_from(IPV4_BYTES + GRE_BYTES + payload_bytes) else {
        return false;
    };
    header[..12].copy_from_slice(&ends.ethernet);
    header[12..14].copy_from_slice(&ETHERTYPE_IPV4);
    let (ip, gre) = header[ETHERNET_BYTES..].split_at_mut(IPV4_BYTES);
    ip[..2].copy_from_slice(&[0x45, 0]);
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[4..12].copy_from_slice(&[0, 0, 0x40, 0, 64, PROTOCOL_GRE, 0, 0]);
    ip[12..].copy_from_slice(&ends.ipv4);
    let sum = checksum::header(ip, Sum::ZERO).finish();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    if let Some(gre) = gre.first_chunk_mut() {
        write_gre(gre, key, sequence);
    }
    true
}

/// Writes only the GRE header.
#[inline]
pub fn write_gre(header: &mut [u8; GRE_BYTES], key: u32, sequence: u32) {
    header[..2].copy_from_slice(&GRE_FLAGS);
    header[2..4].copy_from_slice(&GRE_PROTOCOL);
    header[4..8].copy_from_slice(&key.to_be_bytes());
    header[8..].copy_from_slice(&sequence.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD_BYTES: usize = 8;
    const CHECKSUM: Range<usize> = 24..26;

    /// A valid packet with two bytes of Ethernet padding.
    fn sound() -> Vec<u8> {
        let mut packet = vec![7; HEADER_BYTES + PAYLOAD_BYTES + 2];
        let ends = Ends { ethernet: [2; 12], ipv4: [192, 0, 2, 1, 192, 0, 2, 2] };
        let header = packet.first_chunk_mut().expect("longer than a header");
        assert!(write_header(header, &ends, 0x0102_0304, 0xfffe_fdfc, PAYLOAD_BYTES));
        packet
    }

    /// Asserts that the fast and slow paths agree, and returns whether the fast path accepted the
    /// packet.
    fn same(packet: &[u8]) -> bool {
        let plain = parse_plain(packet);
        if let Some(envelope) = &plain {
            assert_eq!(parse_any(packet).as_ref(), Ok(envelope), "{packet:02x?}");
        }
        plain.is_some()
    }

    #[test]
    fn the_short_way_takes_what_the_long_one_takes() {
        assert!(same(&sound()));
        let (mut short, mut long) = (0, 0);
        for at in 0..HEADER_BYTES {
            for value in 0..=255 {
                let mut packet = sound();
                packet[at] = value;
                short += u32::from(same(&packet));
                if CHECKSUM.contains(&at) {
                    continue;
                }
                // Repeat with a corrected checksum to test only the changed field.
                packet[CHECKSUM].fill(0);
                let sum = checksum::header(&packet[14..34], Sum::ZERO).finish();
                packet[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
                let is_short = same(&packet);
                long += u32::from(!is_short && parse_any(&packet).is_ok());
                short += u32::from(is_short);
            }
        }
        // The fast path accepts all values of addresses, identification and so on. No packet that
        // it rejects is valid, except those with IPv4 options, for which these packets are too
        // short.
        assert!(short > 46 * 256, "{short} were judged the short way");
        assert_eq!(long, 0, "{long} valid packets without options took the slow path");
    }

    #[test]
    fn no_length_is_read_beyond() {
        for bytes in 0..=sound().len() {
            let packet = &sound()[..bytes];
            let is_whole = bytes >= HEADER_BYTES + PAYLOAD_BYTES;
            assert_eq!((same(packet), parse(packet).is_ok()), (is_whole, is_whole), "{bytes}");
        }
    }
}
