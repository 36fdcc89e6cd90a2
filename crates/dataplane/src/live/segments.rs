// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits coalesced frames (GRO, TSO, UDP segmentation offload) into frames of the size that they
//! have on the wire.

use crate::capture::repair::Joined;
use linerate_linux::port::Segmentation;

/// Maximum size of a coalesced frame in bytes: a 64 KiB IP packet, Ethernet header and VLAN tags.
const FRAME_BYTES: usize = 65_535 + 64;

/// Number of coalesced frames that a queue has taken, and of packets from which they were
/// coalesced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coalesced {
    pub(crate) frames: u64,
    pub(crate) packets: u64,
    /// Whether the number of packets of some frames is unknown.
    pub(crate) has_unknown: bool,
}

impl Coalesced {
    /// Counts a coalesced frame.
    pub(super) fn add(&mut self, frame: &[u8], segmentation: Segmentation) {
        let packets = match segmentation {
            Segmentation::Tcp(step) | Segmentation::Udp(step) => {
                Joined::of_step(frame, step.into()).map(|joined| joined.segments())
            }
            Segmentation::Unknown(_) => None,
        };
        self.frames += 1;
        self.packets += packets.unwrap_or(0);
        self.has_unknown |= packets.is_none();
    }
}

/// A coalesced frame, and the segments of it that have not been delivered yet.
pub(super) struct Segments {
    frame: Vec<u8>,
    step: usize,
    /// Index of the next segment to deliver.
    next: usize,
    /// Number of segments in the frame.
    count: usize,
    pub(super) time_ns: u64,
    pub(super) port: u8,
}

impl Segments {
    /// Creates an empty queue of segments. Allocates all of its memory.
    pub(super) fn new() -> Self {
        let frame = Vec::with_capacity(FRAME_BYTES);
        Self { frame, step: 0, next: 0, count: 0, time_ns: 0, port: 0 }
    }

    /// Returns whether no segment is left.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.count
    }

    /// Loads a coalesced frame, to be split into segments of `step` payload bytes. `tag` is a VLAN
    /// tag to insert into each segment. Returns the number of segments; `None`, without loading
    /// anything, if the frame is not TCP or UDP with consistent lengths.
    pub(super) fn load(&mut self, frame: &[u8], tag: Option<[u8; 4]>, step: u16) -> Option<usize> {
        self.count = self.next;
        if frame.len() + 4 > FRAME_BYTES {
            return None;
        }
        self.frame.clear();
        match (tag, frame.split_at_checked(12)) {
            (Some(tag), Some((addresses, rest))) => {
                self.frame.extend_from_slice(addresses);
                self.frame.extend_from_slice(&tag);
                self.frame.extend_from_slice(rest);
            }
            _ => self.frame.extend_from_slice(frame),
        }
        self.step = step.into();
        let joined = Joined::of_step(&self.frame, self.step)?;
        (self.next, self.count) = (0, joined.segments() as usize);
        Some(self.count)
    }

    /// Returns the length of the next segment's frame; `None` if no segment is left.
    pub(super) fn next_bytes(&self) -> Option<usize> {
        let joined = Joined::of_step(&self.frame, self.step).filter(|_| !self.is_empty())?;
        Some(joined.segment_bytes(self.next))
    }

    /// Writes the frame of the next segment to `room`, whose length must be that of the frame.
    pub(super) fn write_next(&mut self, room: &mut [u8]) {
        if let Some(joined) = Joined::of_step(&self.frame, self.step) {
            joined.write_segment(self.next, room);
        }
        self.next += 1;
    }

    /// Skips the next segment.
    pub(super) fn skip(&mut self) {
        self.next += 1;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use linerate_kernels::Sum;
    use linerate_kernels::checksum::reference;

    /// Returns UDP datagrams over IPv4 with 2500 payload bytes in total, coalesced as segmentation
    /// offload leaves them.
    pub(crate) fn coalesced() -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0x09, 0xe0, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 7, 0, 9, 0x09, 0xcc, 0x12, 0x34]);
        frame.extend((0..2500).map(|at| (at % 251) as u8));
        frame
    }

    /// Returns the segments, each with the VLAN tag, if any, before its EtherType.
    fn cut(tag: Option<[u8; 4]>) -> Vec<Vec<u8>> {
        let mut segments = Segments::new();
        assert_eq!(segments.load(&coalesced(), tag, 1200), Some(3));
        let mut all = Vec::new();
        while let Some(bytes) = segments.next_bytes() {
            let mut segment = vec![0; bytes];
            segments.write_next(&mut segment);
            all.push(segment);
        }
        assert!(segments.is_empty());
        all
    }

    #[test]
    fn datagrams_are_cut_with_lengths_and_checksums_of_their_own() {
        let all = cut(None);
        let payload: Vec<u8> = all.iter().flat_map(|segment| segment[42..].to_vec()).collect();
        assert_eq!(payload, coalesced()[42..]);
        for (index, segment) in all.iter().enumerate() {
            let number = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
            let bytes = segment.len() as u16;
            assert_eq!(
                (number(16), number(38), number(18)),
                (bytes - 14, bytes - 34, 7 + index as u16)
            );
            assert_eq!(reference(&segment[14..34], Sum::ZERO, false), 0, "the header's checksum");
            let mut summed = segment[26..34].to_vec();
            summed.extend([0, 17]);
            summed.extend((bytes - 34).to_be_bytes());
            summed.extend(&segment[34..]);
            assert_eq!(reference(&summed, Sum::ZERO, false), 0, "the datagram's checksum");
        }
    }

    #[test]
    fn packets_of_coalesced_frames_are_counted() {
        let mut sum = Coalesced::default();
        sum.add(&coalesced(), Segmentation::Udp(1200));
        assert_eq!(sum, Coalesced { frames: 1, packets: 3, has_unknown: false });
        sum.add(&coalesced(), Segmentation::Unknown(9));
        sum.add(&[], Segmentation::Tcp(1448));
        assert_eq!(sum, Coalesced { frames: 3, packets: 3, has_unknown: true });
    }

    #[test]
    fn a_tag_is_in_every_segment() {
        let tag = [0x81, 0, 0, 5];
        for (tagged, plain) in cut(Some(tag)).iter().zip(cut(None)) {
            let expected = [&plain[..12], &tag, &plain[12..]].concat();
            assert_eq!(*tagged, expected);
        }
    }

    #[test]
    fn what_is_not_tcp_or_udp_is_refused() {
        let mut segments = Segments::new();
        let mut frame = coalesced();
        frame[23] = 132;
        assert_eq!(segments.load(&frame, None, 1200), None);
        assert_eq!(segments.load(&[0; 20], None, 1200), None);
        assert_eq!(segments.load(&coalesced(), None, 0), None);
        assert!(segments.is_empty());
    }
}
