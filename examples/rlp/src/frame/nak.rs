// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ranges of a NAK: the list a receiver makes, and the view of one in a packet.

use super::Fault;

/// Ranges in a NAK at most.
pub const MAX_RANGES: usize = 32;
/// Maximum span of a list in bytes: limited by 32-bit numbers.
const MAX_SPAN: u32 = 1 << 31;
pub(super) const RANGE_BYTES: usize = 8;
/// Bytes of the longest NAK behind the header of its frame.
pub const MAX_NAK_BYTES: usize = MAX_RANGES * RANGE_BYTES;

/// Bytes of a stream, by wire number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// Number of the first.
    pub first: u32,
    /// Length; 1 to 2^31 in a list.
    pub bytes: u32,
}

/// The ranges that a receiver requests, ascending and disjoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NakList {
    ranges: [ByteRange; MAX_RANGES],
    len: usize,
}

impl Default for NakList {
    fn default() -> Self {
        Self { ranges: [ByteRange::default(); MAX_RANGES], len: 0 }
    }
}

impl NakList {
    /// Adds a range behind the others.
    ///
    /// Returns `false`, and adds nothing, when the list is full, the range empty, or not behind the
    /// last one and within 2^31 bytes of the first.
    #[inline]
    pub fn push(&mut self, range: ByteRange) -> bool {
        if range.bytes == 0
            || range.bytes > MAX_SPAN
            || self.len == MAX_RANGES
            || !self.is_behind(range)
        {
            return false;
        }
        self.ranges[self.len] = range;
        self.len += 1;
        true
    }

    fn is_behind(&self, range: ByteRange) -> bool {
        let (Some(first), Some(last)) = (self.ranges().first(), self.ranges().last()) else {
            return true;
        };
        let to = |number: u32| number.wrapping_sub(first.first);
        // The sum of the last one is below 2^31 by this very check, or it is the first.
        let end = to(range.first).saturating_add(range.bytes);
        to(range.first) >= to(last.first) + last.bytes && end <= MAX_SPAN
    }

    /// The ranges.
    #[inline]
    pub fn ranges(&self) -> &[ByteRange] {
        &self.ranges[..self.len]
    }
}

/// The ranges of a NAK in its packet, verified to be in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges<'p>(&'p [[u8; RANGE_BYTES]]);

impl<'p> Ranges<'p> {
    pub(super) fn read(body: &'p [u8]) -> Result<Self, Fault> {
        let (entries, rest) = body.as_chunks::<RANGE_BYTES>();
        if entries.is_empty() || !rest.is_empty() {
            return Err(Fault::BadNak);
        }
        let mut list = NakList::default();
        for entry in entries {
            if !list.push(range(entry)) {
                return Err(Fault::BadNak);
            }
        }
        Ok(Self(entries))
    }

    /// The ranges, ascending and disjoint.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = ByteRange> + use<'p> {
        self.0.iter().map(range)
    }
}

fn range([a, b, c, d, e, f, g, h]: &[u8; RANGE_BYTES]) -> ByteRange {
    ByteRange {
        first: u32::from_be_bytes([*a, *b, *c, *d]),
        bytes: u32::from_be_bytes([*e, *f, *g, *h]),
    }
}
