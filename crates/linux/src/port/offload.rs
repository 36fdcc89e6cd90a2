// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that segmentation and checksum offloads left undone in a frame: `virtio_net_hdr`.

/// Length of `virtio_net_hdr` in bytes.
pub(super) const HEADER: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;

const TCP_V4: u8 = 1;
const UDP_FRAGMENTS: u8 = 3;
const TCP_V6: u8 = 4;
const UDP_SEGMENTS: u8 = 5;
/// Flag in the GSO type: the segments use ECN.
const ECN: u8 = 0x80;

/// Checksum and segmentation work that the sender left to hardware offloads, and that has not been
/// done in this frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Missing checksum: offset in the frame at which to start summing, and offset of the checksum
    /// field from there. The field already holds the pseudo-header sum.
    pub checksum: Option<(u16, u16)>,
    /// How to segment the frame; `None` if it is not coalesced.
    pub segments: Option<Segmentation>,
}

/// How to segment a coalesced frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segmentation {
    /// TCP segments with this number of payload bytes each; the last may be shorter.
    Tcp(u16),
    /// UDP datagrams with this number of payload bytes each; the last may be shorter.
    Udp(u16),
    /// Segmentation type unknown to this program, by its number in `virtio_net.h`.
    Unknown(u8),
}

impl Offload {
    /// Parses a `virtio_net_hdr` in host byte order. If the header is truncated, assumes that no
    /// work was left undone.
    pub(super) fn decode(header: &[u8]) -> Self {
        let Some(header) = header.first_chunk::<HEADER>() else { return Self::default() };
        let number = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let size = number(4);
        let segments = match header[1] & !ECN {
            0 => None,
            TCP_V4 | TCP_V6 if size > 0 => Some(Segmentation::Tcp(size)),
            UDP_SEGMENTS if size > 0 => Some(Segmentation::Udp(size)),
            other => Some(Segmentation::Unknown(other)),
        };
        let is_missing = header[0] & NEEDS_CHECKSUM != 0;
        Self { checksum: is_missing.then(|| (number(6), number(8))), segments }
    }

    /// Returns whether the frame is a UDP datagram that has yet to be split into IP fragments (UDP
    /// fragmentation offload, UFO). Current kernels no longer have this offload.
    pub fn is_unfragmented_udp(&self) -> bool {
        self.segments == Some(Segmentation::Unknown(UDP_FRAGMENTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(flags: u8, kind: u8, numbers: [u16; 4]) -> Vec<u8> {
        let numbers = numbers.iter().flat_map(|n| n.to_ne_bytes());
        [flags, kind].into_iter().chain(numbers).collect()
    }

    #[test]
    fn fields_are_taken_from_their_places() {
        let plain = Offload::decode(&header(0, 0, [0; 4]));
        assert_eq!(plain, Offload::default());
        let tcp = Offload::decode(&header(1, TCP_V4 | ECN, [54, 1448, 34, 16]));
        assert_eq!(tcp.segments, Some(Segmentation::Tcp(1448)));
        assert_eq!(tcp.checksum, Some((34, 16)));
        let udp = Offload::decode(&header(1, UDP_SEGMENTS, [42, 1200, 34, 6]));
        assert_eq!(udp.segments, Some(Segmentation::Udp(1200)));
        let old = Offload::decode(&header(0, UDP_FRAGMENTS, [42, 1480, 0, 0]));
        assert!(old.is_unfragmented_udp() && old.checksum.is_none());
        assert_eq!(Offload::decode(&[1, 1, 0]), Offload::default());
    }

    #[test]
    fn segments_of_no_bytes_are_unknown() {
        let none = Offload::decode(&header(0, TCP_V6, [0; 4]));
        assert_eq!(none.segments, Some(Segmentation::Unknown(TCP_V6)));
    }
}
