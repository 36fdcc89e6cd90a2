// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet processing in the drivers: IPv4 and TCP checksums, and copies.

use crate::link::HEADER_BYTES;
use crate::routines::Seam;
use linerate_kernels::{Sum, checksum};

/// Size in bytes of an IPv4 header without options, the only kind that is sent.
pub(crate) const IP_HEADER: usize = 20;
/// IP protocol number for TCP.
const TCP: u8 = 6;

/// Returns the partial sum of the TCP pseudo-header for a segment of `bytes` bytes.
pub(crate) fn pseudo(header: &[u8], bytes: usize) -> Sum {
    let addresses = header[12..20].try_into().expect("the slice has 8 bytes");
    // The length fits in 16 bits: it is at most the largest frame size, which the frame pool
    // limits.
    checksum::pseudo_ipv4(addresses, TCP, bytes as u16)
}

/// Returns the size of a packet's headers in bytes, including TCP options. Even for a corrupted
/// packet, it is a multiple of 4 and does not exceed the packet.
pub(crate) fn header_bytes(packet: &[u8]) -> usize {
    let words = packet.get(IP_HEADER + 12).map_or(0, |byte| byte >> 4);
    let bytes = IP_HEADER + 4 * usize::from(words);
    bytes.max(HEADER_BYTES).min(packet.len() & !3)
}

/// Returns whether a packet begins with the kind of IP header that both ends send, with the correct
/// total length.
pub(crate) fn is_formed(packet: &[u8]) -> bool {
    packet.len() >= HEADER_BYTES
        && packet[0] == 0x45
        && usize::from(u16::from_be_bytes([packet[2], packet[3]])) == packet.len()
}

/// Returns whether `sum` is the sum of intact data: an IP header, or a segment with its
/// pseudo-header.
pub(crate) fn matches(sum: Sum) -> bool {
    sum.fold() == u16::MAX
}

/// Copies a packet without verifying it; headers are copied inline.
pub(crate) fn copy(seam: &mut Seam, to: &mut [u8], packet: &[u8]) {
    let (head, payload) = packet.split_at(header_bytes(packet));
    let (to_head, to_payload) = to.split_at_mut(head.len());
    to_head.copy_from_slice(head);
    if !payload.is_empty() {
        seam.copy(to_payload, payload);
    }
}

/// Copies a packet while verifying its checksums, and returns whether they match. If not, the copy
/// must be discarded.
pub(crate) fn copy_verified(seam: &mut Seam, to: &mut [u8], packet: &[u8]) -> bool {
    if !is_formed(packet) {
        return false;
    }
    let (head, payload) = packet.split_at(header_bytes(packet));
    let (to_head, to_payload) = to.split_at_mut(head.len());
    let (ip, tcp) = head.split_at(IP_HEADER);
    let (to_ip, to_tcp) = to_head.split_at_mut(IP_HEADER);
    if !matches(seam.copy_header(to_ip, ip, Sum::ZERO)) {
        return false;
    }
    let mut sum = seam.copy_header(to_tcp, tcp, pseudo(ip, packet.len() - IP_HEADER));
    if !payload.is_empty() {
        sum = Sum::from_raw(seam.copy_checksum(to_payload, payload, sum.raw()));
    }
    matches(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_end_where_the_packet_says_but_not_behind_it() {
        let mut packet = vec![0; 61];
        for (words, bytes) in [(0, 40), (5, 40), (8, 52), (10, 60), (15, 60)] {
            packet[32] = words << 4;
            assert_eq!(header_bytes(&packet), bytes, "{words}");
        }
        assert_eq!(
            [50, 40, 33, 3, 0].map(|length| header_bytes(&packet[..length])),
            [48, 40, 32, 0, 0]
        );
    }
}
