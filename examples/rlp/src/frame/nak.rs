// SPDX-License-Identifier: MIT OR Apache-2.0
//! NAK ranges: the list that a receiver builds, and a view of a list in a packet.

use super::Fault;

/// Maximum ranges per NAK.
pub const MAX_RANGES: usize = 32;
/// Maximum span of a list in bytes: half of the 32-bit sequence number space.
const MAX_SPAN: u32 = 1 << 31;
pub(super) const RANGE_BYTES: usize = 8;
/// Maximum NAK length in bytes, without the frame header.
pub const MAX_NAK_BYTES: usize = MAX_RANGES * RANGE_BYTES;

/// A range of stream bytes, numbered as on the wire (32 bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// Number of the first byte.
    pub first: u32,
    /// Length in bytes; 1 to 2^31 in a list.
    pub bytes: u32,
}

/// Ranges requested by a receiver, ascending and disjoint.
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
    /// Appends a range.
    ///
    /// Returns `false`, and appends nothing, if the list is full, or if the range is empty, does
    /// not follow the last one, or ends more than 2^31 bytes after the start of the first.
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
        // Cannot overflow: for every range but the first, this check kept the sum below 2^31.
        let end = to(range.first).saturating_add(range.bytes);
        to(range.first) >= to(last.first) + last.bytes && end <= MAX_SPAN
    }

    /// Returns the ranges in ascending order.
    #[inline]
    pub fn ranges(&self) -> &[ByteRange] {
        &self.ranges[..self.len]
    }
}

/// A view of a NAK's ranges in its packet; their order has been checked.
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

    /// Iterates over the ranges, ascending and disjoint.
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
