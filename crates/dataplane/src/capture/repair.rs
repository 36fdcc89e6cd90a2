// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restores captured frames to the form that they had on the wire: splits coalesced segments, and
//! pads truncated frames with zeros.
//!
//! With segmentation offload, a capture contains TCP segments of up to 64 KiB: sent segments before
//! TSO or GSO splits them, and received segments after GRO has coalesced them. They are split as
//! the interface would split them. TCP sequence numbers follow RFC 9293, and the IPv4
//! identification is incremented for each segment.
//!
//! Not supported: tunnels, and UDP segmentation offload, whose frames cannot be recognized in a
//! capture.

use super::layers::{Headerless, Layers, TCP, UDP, put16};
use linerate_kernels::{Sum, checksum};

/// Maximum length of a padded frame: a 64 KiB IP packet with Ethernet header and two VLAN tags.
const PADDED_BYTES_MAX: usize = 65_535 + 14 + 8;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const URG: u8 = 0x20;
const CWR: u8 = 0x80;

/// A frame that contains several coalesced TCP segments or UDP datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined<'f> {
    frame: &'f [u8],
    layers: Layers,
    /// Offset of the payload in the frame.
    payload: usize,
    /// Offset of the end of the payload in the frame.
    end: usize,
    /// Payload bytes per segment; never 0.
    step: usize,
}

impl<'f> Joined<'f> {
    /// Detects coalesced segments, that is, TCP segments in an IP packet longer than `mtu`. Returns
    /// `None` for frames with SYN, RST or urgent data, or with inconsistent lengths.
    pub fn detect(frame: &'f [u8], mtu: usize) -> Option<Self> {
        let layers = Layers::locate(frame).ok()?;
        let is_plain = layers.protocol == TCP && !layers.is_fragment && !layers.is_special;
        let end = layers.end.unwrap_or(frame.len());
        if !is_plain || end > frame.len() || end - layers.l3 <= mtu {
            return None;
        }
        let payload = layers.l4 + layers.transport_bytes(frame)?;
        let step = mtu.checked_sub(payload - layers.l3).filter(|step| *step > 0)?;
        let is_cuttable = frame[layers.l4 + 13] & (SYN | RST | URG) == 0 && payload < end;
        is_cuttable.then_some(Self { frame, layers, payload, end, step })
    }

    /// Treats `frame` as coalesced segments with `step` payload bytes each, as reported by the
    /// interface. Returns `None` if the frame is not TCP or UDP over IP, or if its lengths are
    /// inconsistent.
    pub fn of_step(frame: &'f [u8], step: usize) -> Option<Self> {
        let layers = Layers::locate(frame).ok()?;
        let is_plain = matches!(layers.protocol, TCP | UDP) && !layers.is_fragment;
        let end = layers.end.unwrap_or(frame.len());
        let payload = layers.l4 + layers.transport_bytes(frame)?;
        let is_sound = is_plain && !layers.is_special && step > 0;
        (is_sound && payload < end && end <= frame.len()).then_some(Self {
            frame,
            layers,
            payload,
            end,
            step,
        })
    }

    /// Returns the number of segments into which the frame is split.
    pub fn segments(&self) -> u64 {
        (self.end - self.payload).div_ceil(self.step) as u64
    }

    /// Calls `each` with each segment in order, built as a separate frame in `scratch`.
    pub fn cut(&self, scratch: &mut Vec<u8>, mut each: impl FnMut(&[u8])) {
        for index in 0..self.segments() as usize {
            scratch.resize(self.segment_bytes(index), 0);
            self.write_segment(index, scratch);
            each(scratch);
        }
    }

    /// Returns the frame length of segment `index`, which must be less than the number of segments.
    pub fn segment_bytes(&self, index: usize) -> usize {
        let start = self.payload + index * self.step;
        self.payload + (self.end - start).min(self.step)
    }

    /// Writes the frame of segment `index` to `segment`, which must have that frame's length.
    pub fn write_segment(&self, index: usize, segment: &mut [u8]) {
        let (headers, chunk) = segment.split_at_mut(self.payload);
        let start = self.payload + index * self.step;
        headers.copy_from_slice(&self.frame[..self.payload]);
        chunk.copy_from_slice(&self.frame[start..start + chunk.len()]);
        self.write_ip(segment, index);
        match self.layers.protocol {
            TCP => self.write_tcp(segment, index),
            _ => put16(segment, self.layers.l4 + 4, (segment.len() - self.layers.l4) as u16),
        }
        self.layers.write_checksum(segment, segment.len());
    }

    fn write_ip(&self, segment: &mut [u8], index: usize) {
        let Layers { l3, l4, version, .. } = self.layers;
        let packet_bytes = segment.len() - l3;
        if version == 6 {
            return put16(segment, l3 + 4, (packet_bytes - 40) as u16);
        }
        let identification = u16::from_be_bytes([segment[l3 + 4], segment[l3 + 5]]);
        put16(segment, l3 + 2, packet_bytes as u16);
        put16(segment, l3 + 4, identification.wrapping_add(index as u16));
        put16(segment, l3 + 10, 0);
        let sum = checksum::header(&segment[l3..l4], Sum::ZERO).finish();
        put16(segment, l3 + 10, sum);
    }

    /// Writes the sequence number and the flags. Only the last segment keeps PSH and FIN; only the
    /// first keeps CWR (RFC 3168, 6.1.2).
    fn write_tcp(&self, segment: &mut [u8], index: usize) {
        let (l4, before) = (self.layers.l4, index * self.step);
        let number = segment[l4 + 4..l4 + 8].try_into().expect("4 bytes");
        let number = u32::from_be_bytes(number).wrapping_add(before as u32);
        segment[l4 + 4..l4 + 8].copy_from_slice(&number.to_be_bytes());
        if self.payload + before + self.step < self.end {
            segment[l4 + 13] &= !(PSH | FIN);
        }
        if index > 0 {
            segment[l4 + 13] &= !CWR;
        }
    }
}

/// Returns the frame with a complete TCP or UDP checksum, if the sender had left the checksum to
/// the interface (checksum offload).
///
/// Such a frame was captured before the interface computed the checksum, so the checksum field
/// contains only the sum of the pseudo-header. Returns `None` for all other frames, even if their
/// checksum is wrong; but 1 in 65,535 wrong checksums is mistaken for an offloaded one.
pub fn completed(frame: &[u8]) -> Option<Vec<u8>> {
    let (layers, end) = unfinished(frame)?;
    let mut whole = frame.to_vec();
    layers.write_checksum(&mut whole, end);
    (whole != frame).then_some(whole)
}

/// Like [`completed`], but changes the frame in place. Returns whether the sender had left the
/// checksum to the interface.
pub fn complete(frame: &mut [u8]) -> bool {
    let Some((layers, end)) = unfinished(frame) else { return false };
    layers.write_checksum(frame, end);
    true
}

/// Returns the headers of a packet whose checksum covers only the pseudo-header, and the offset of
/// the packet's end.
fn unfinished(frame: &[u8]) -> Option<(Layers, usize)> {
    let layers = Layers::locate(frame).ok()?;
    let end = layers.end.unwrap_or(frame.len());
    layers.has_pseudo_header_only(frame, end)?.then_some((layers, end))
}

/// Pads a truncated frame with zeros to `original_bytes`, its length on the wire, and computes its
/// transport checksum. Returns `None` if a header is truncated or the length is invalid.
pub fn padded(captured: &[u8], original_bytes: usize) -> Option<Vec<u8>> {
    if original_bytes > PADDED_BYTES_MAX {
        return None;
    }
    let layers = match Layers::locate(captured) {
        Ok(layers) => {
            layers.transport_bytes(captured)?;
            Some(layers)
        }
        Err(Headerless::NotIp) => None,
        Err(Headerless::Cut) => return None,
    };
    let mut frame = captured.to_vec();
    frame.resize(original_bytes, 0);
    if let Some(layers) = layers {
        layers.write_checksum(&mut frame, layers.end.unwrap_or(original_bytes));
    }
    Some(frame)
}

#[cfg(test)]
mod tests;
