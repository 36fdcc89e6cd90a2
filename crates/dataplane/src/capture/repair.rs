// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restores frames to their form on the wire: splits coalesced segments, and pads truncated frames
//! with zeros.
//!
//! With segmentation offload, a capture contains TCP segments of up to 64 KiB, from before TSO or
//! GSO splits them or after GRO has coalesced them. They are split as the interface would split
//! them: TCP sequence numbers follow RFC 9293; the IPv4 identification counts up.
//!
//! Not supported: UDP segmentation offload, whose frames are not recognizable, and tunnels.

use super::layers::{Headerless, Layers, TCP, put16};
use linerate_kernels::{Sum, checksum};

/// Maximum length of a padded frame: a 64 KiB IP packet after the Ethernet header and two VLAN
/// tags.
const PADDED_BYTES_MAX: usize = 65_535 + 14 + 8;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const URG: u8 = 0x20;
const CWR: u8 = 0x80;

/// Coalesced TCP segments in one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined<'f> {
    frame: &'f [u8],
    layers: Layers,
    /// Offset of the payload.
    payload: usize,
    /// Offset after the payload.
    end: usize,
    /// Payload bytes per segment; not 0.
    step: usize,
}

impl<'f> Joined<'f> {
    /// Detects coalesced segments in `frame`: TCP in an IP packet longer than `mtu`. Frames with
    /// SYN, RST or urgent data, or with inconsistent lengths, are excluded.
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

    /// Returns the number of segments into which the frame is split.
    pub fn segments(&self) -> u64 {
        (self.end - self.payload).div_ceil(self.step) as u64
    }

    /// Calls `each` with every segment as a separate frame in `scratch`, in order.
    pub fn cut(&self, scratch: &mut Vec<u8>, mut each: impl FnMut(&[u8])) {
        for (index, chunk) in self.frame[self.payload..self.end].chunks(self.step).enumerate() {
            scratch.clear();
            scratch.extend_from_slice(&self.frame[..self.payload]);
            scratch.extend_from_slice(chunk);
            self.write_ip(scratch, index);
            self.write_tcp(scratch, index);
            self.layers.write_checksum(scratch, self.payload + chunk.len());
            each(scratch);
        }
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

    /// Writes sequence number and flags: PSH and FIN belong to the last segment, CWR to the first
    /// (RFC 3168, 6.1.2).
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

/// Returns `frame` with the TCP or UDP checksum that the interface would compute, if the sender
/// left the checksum to the interface.
///
/// Such a frame was captured before it reached the interface: its checksum field holds the sum of
/// the pseudo-header, to which the interface adds the rest. `None` for every other frame, including
/// those with a wrong checksum: 1 in 65,535 of these is mistaken for one left to the interface.
pub fn completed(frame: &[u8]) -> Option<Vec<u8>> {
    let layers = Layers::locate(frame).ok()?;
    let end = layers.end.unwrap_or(frame.len());
    let is_left = layers.has_pseudo_header_only(frame, end)?;
    let mut whole = is_left.then(|| frame.to_vec())?;
    layers.write_checksum(&mut whole, end);
    (whole != frame).then_some(whole)
}

/// Returns a frame that had `original_bytes` on the wire and was truncated to `captured`, padded
/// with zeros and with its transport checksum corrected. `None` if a header is truncated, or the
/// length is invalid.
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
