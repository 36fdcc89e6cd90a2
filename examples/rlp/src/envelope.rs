// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet of the A10 bearer: Ethernet II, IPv4 (RFC 791), GRE (RFC 2784) with key and sequence
//! number (RFC 2890), protocol type 0x8881 (CDMA2000 A10 unstructured byte stream).
//!
//! ```text
//!  0              14                    34                        46
//!  +--------------+---------------------+-------------------------+---------
//!  | Ethernet     | IPv4, protocol 47   | flags 0x3000 | 0x8881   | bytes
//!  |              | (options may stand  | key, 32 bits            | of the
//!  |              |  behind: more)      | sequence number, 32 bit | stream
//!  +--------------+---------------------+-------------------------+---------
//! ```
//!
//! Leaves out: VLAN tags, IPv6, fragments (refused), GRE checksums and routing (refused: the bearer
//! carries neither), 0x88d2 with its attributes.

use linerate_stage_api::kernels::{Sum, checksum};
use std::ops::Range;

/// Ethernet header: destination, source, type.
pub const ETHERNET_BYTES: usize = 14;
/// IPv4 header without options.
const IPV4_BYTES: usize = 20;
/// GRE with key and sequence number.
pub const GRE_BYTES: usize = 12;
/// Bytes that [`write_header`] writes before the bytes of the stream.
pub const HEADER_BYTES: usize = ETHERNET_BYTES + IPV4_BYTES + GRE_BYTES;

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const PROTOCOL_GRE: u8 = 47;
/// More fragments, or an offset; "don't fragment" may be set.
const FRAGMENT: u16 = 0x3fff;
/// The same where time to live and protocol follow.
const FRAGMENT_WORD: u32 = (FRAGMENT as u32) << 16;
/// EtherType, version, and length of a header without options.
const PLAIN_IPV4: u32 = 0x08_0045;
/// Key and sequence number present, all else zero: flags, reserved bits and version.
const GRE_FLAGS: [u8; 2] = [0x30, 0x00];
/// CDMA2000 A10 unstructured byte stream.
const GRE_PROTOCOL: [u8; 2] = [0x88, 0x81];
const GRE_WORD: u32 =
    u32::from_be_bytes([GRE_FLAGS[0], GRE_FLAGS[1], GRE_PROTOCOL[0], GRE_PROTOCOL[1]]);

/// Reasons why a frame is not a packet of the bearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// Not IPv4.
    NotIpv4,
    /// The frame ends within a header.
    CutHeader,
    /// The IPv4 header contradicts itself, or claims more bytes than the frame has.
    BadHeader,
    /// The checksum of the IPv4 header is wrong.
    BadChecksum,
    /// A fragment.
    Fragment,
    /// IPv4, but not GRE.
    NotGre,
    /// Flags other than key and sequence number, or another version.
    BadFlags,
    /// GRE, but not the unstructured byte stream.
    BadProtocol,
}

/// The names of the faults, in order.
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
    /// Index into [`FAULT_NAMES`].
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Content of a packet of the bearer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Names the session.
    pub key: u32,
    /// Number of the packet within the session.
    pub sequence: u32,
    /// Range of the stream's bytes in the frame; Ethernet padding is after its end.
    pub payload: Range<usize>,
}

/// Reads a packet of the bearer; `packet` starts at the Ethernet header.
///
/// # Errors
/// The error; nothing is guessed.
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
///  20..24  flags, offset, any time to live, protocol    no fragment, GRE
///  34..38  flags, protocol of GRE               ==  0x3000, 0x8881
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

/// Field by field: what [`parse_plain`] leaves.
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

/// Reads a packet after its IPv4 header, which was checked before: `gre` is its range.
///
/// # Errors
/// The error; a range outside of the packet means a truncated header.
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

/// Checks an IPv4 header; returns the range in `ip` of the rest of its packet.
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
    // No longer than the packet.
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

/// The two ends of a bearer, as one of them writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Ethernet destination, then source.
    pub ethernet: [u8; 12],
    /// IPv4 source, then destination.
    pub ipv4: [u8; 8],
}

/// Writes the headers in front of `payload_bytes` bytes of the stream.
///
/// "Don't fragment" is set, the identification is 0 (RFC 6864, 4.1), the time to live 64.
///
/// Returns `false`, and writes nothing, when an IPv4 packet cannot hold as many bytes.
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

/// Writes the GRE header alone.
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

    /// A packet with two bytes of padding.
    fn sound() -> Vec<u8> {
        let mut packet = vec![7; HEADER_BYTES + PAYLOAD_BYTES + 2];
        let ends = Ends { ethernet: [2; 12], ipv4: [192, 0, 2, 1, 192, 0, 2, 2] };
        let header = packet.first_chunk_mut().expect("longer than a header");
        assert!(write_header(header, &ends, 0x0102_0304, 0xfffe_fdfc, PAYLOAD_BYTES));
        packet
    }

    /// Results of both paths; returns whether the fast path was used.
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
                // The same with a checksum that holds, so that only the field itself is judged.
                packet[CHECKSUM].fill(0);
                let sum = checksum::header(&packet[14..34], Sum::ZERO).finish();
                packet[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
                let is_short = same(&packet);
                long += u32::from(!is_short && parse_any(&packet).is_ok());
                short += u32::from(is_short);
            }
        }
        // All values of addresses, identification and so on; and no packet rejected by the fast
        // path is valid, except those with options, for which these packets are too short.
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
