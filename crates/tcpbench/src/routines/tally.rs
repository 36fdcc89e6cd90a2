// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics on calls to routines.

use std::ops::Add;

/// Number of length classes in a histogram: 0, 1, 2-3, 4-7, ..., 32768 and more.
pub const LENGTH_CLASSES: usize = 17;

/// Number of alignment classes in a histogram: addresses modulo 64, in steps of 8.
pub const ALIGNMENT_CLASSES: usize = 8;

/// Statistics on the calls to one routine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls.
    pub calls: u64,
    /// Total bytes.
    pub bytes: u64,
    /// Calls that were timed.
    pub timed: u64,
    /// Timestamp counter ticks from before each timed call to after it, including the reads.
    pub ticks: u64,
    /// Calls by length.
    pub lengths: [u64; LENGTH_CLASSES],
    /// Calls by alignment of the source.
    pub alignments: [u64; ALIGNMENT_CLASSES],
}

impl Tally {
    /// One call.
    pub fn count(&mut self, bytes: &[u8]) {
        self.calls += 1;
        self.bytes += bytes.len() as u64;
        let class = (usize::BITS - bytes.len().leading_zeros()) as usize;
        self.lengths[class.min(LENGTH_CLASSES - 1)] += 1;
        self.alignments[bytes.as_ptr().addr() % 64 / 8] += 1;
    }

    /// One timed call.
    pub fn time(&mut self, bytes: &[u8], ticks: u64) {
        self.count(bytes);
        self.timed += 1;
        self.ticks += ticks;
    }
}

/// Statistics on the calls to a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Separate checksums.
    pub checksum: Tally,
    /// Copies.
    pub copy: Tally,
    /// Copies that sum.
    pub copy_checksum: Tally,
    /// Header checksums, separate and inline; timed if the stack itself requests them.
    pub header: Tally,
    /// Header copies with checksum, inline and not timed.
    pub copy_header: Tally,
}

impl Add<&Self> for Tally {
    type Output = Self;

    fn add(mut self, other: &Self) -> Self {
        self.calls += other.calls;
        self.bytes += other.bytes;
        self.timed += other.timed;
        self.ticks += other.ticks;
        self.lengths.iter_mut().zip(other.lengths).for_each(|(sum, count)| *sum += count);
        self.alignments.iter_mut().zip(other.alignments).for_each(|(sum, count)| *sum += count);
        self
    }
}

impl Add<&Self> for Tallies {
    type Output = Self;

    fn add(self, other: &Self) -> Self {
        Self {
            checksum: self.checksum + &other.checksum,
            copy: self.copy + &other.copy,
            copy_checksum: self.copy_checksum + &other.copy_checksum,
            header: self.header + &other.header,
            copy_header: self.copy_header + &other.copy_header,
        }
    }
}
