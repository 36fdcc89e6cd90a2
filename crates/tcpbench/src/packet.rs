// SPDX-License-Identifier: MIT OR Apache-2.0
//! What drivers know of a packet: IPv4 and TCP as far as their sums go.

use crate::endpoint::HEADER_OCTETS;
use linerate_kernels::{Sum, checksum};

/// Octets of a header of IPv4 without options, the only one that either end sends.
pub(crate) const IP_HEADER: usize = 20;
/// The number of TCP in a header of IP.
const TCP: u8 = 6;

/// The sum of the pseudo-header for a segment of so many octets.
pub(crate) fn pseudo(header: &[u8], octets: usize) -> Sum {
    let addresses = header[12..20].try_into().expect("the slice has 8 octets");
    // At most the largest frame, which the pool of frames limits.
    checksum::pseudo_ipv4(addresses, TCP, octets as u16)
}

/// Octets of the headers of a packet, options of TCP among them: whole words, and no more than
/// there are, whatever a damaged one says.
pub(crate) fn header_octets(packet: &[u8]) -> usize {
    let words = packet.get(IP_HEADER + 12).map_or(0, |octet| octet >> 4);
    let octets = IP_HEADER + 4 * usize::from(words);
    octets.max(HEADER_OCTETS).min(packet.len() & !3)
}

/// Whether a header of IP is one of ours and undamaged, and has the length of the frame.
pub(crate) fn is_sound(head: &[u8], octets: usize) -> bool {
    head.len() >= HEADER_OCTETS
        && head[0] == 0x45
        && usize::from(u16::from_be_bytes([head[2], head[3]])) == octets
        && checksum::header(&head[..IP_HEADER], Sum::ZERO).fold() == u16::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_end_where_the_packet_says_but_not_behind_it() {
        let mut packet = vec![0; 61];
        for (words, octets) in [(0, 40), (5, 40), (8, 52), (10, 60), (15, 60)] {
            packet[32] = words << 4;
            assert_eq!(header_octets(&packet), octets, "{words}");
        }
        assert_eq!(
            [50, 40, 33, 3, 0].map(|length| header_octets(&packet[..length])),
            [48, 40, 32, 0, 0]
        );
    }
}
