// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of the calls to routines.

use std::ops::Add;

/// Number of length classes in a histogram: 0, 1, 2-3, 4-7, ..., 32768 and more bytes.
pub const LENGTH_CLASSES: usize = 17;

/// Number of alignment classes in a histogram: addresses modulo 64, in steps of 8.
pub const ALIGNMENT_CLASSES: usize = 8;

/// Statistics of the calls to one routine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of calls.
    pub calls: u64,
    /// Number of bytes in all calls.
    pub bytes: u64,
    /// Number of calls that were timed.
    pub timed: u64,
    /// TSC ticks in all timed calls, including the two reads around each.
    pub ticks: u64,
    /// Number of calls per length class.
    pub lengths: [u64; LENGTH_CLASSES],
    /// Number of calls per class of source alignment.
    pub alignments: [u64; ALIGNMENT_CLASSES],
}

impl Tally {
    /// Records a call of a routine on `bytes` that was not timed.
    pub fn count(&mut self, bytes: &[u8]) {
        self.calls += 1;
        self.bytes += bytes.len() as u64;
        let class = (usize::BITS - bytes.len().leading_zeros()) as usize;
        self.lengths[class.min(LENGTH_CLASSES - 1)] += 1;
        self.alignments[bytes.as_ptr().addr() % 64 / 8] += 1;
    }

    /// Records a call of a routine on `bytes` that took `ticks` ticks.
    pub fn time(&mut self, bytes: &[u8], ticks: u64) {
        self.count(bytes);
        self.timed += 1;
        self.ticks += ticks;
    }
}

/// Statistics of the calls to all routines of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Calls that only compute a checksum.
    pub checksum: Tally,
    /// Calls that only copy.
    pub copy: Tally,
    /// Calls that copy and compute a checksum.
    pub copy_checksum: Tally,
    /// Header checksums, which are inline. Only those that the stack itself requests are timed.
    pub header: Tally,
    /// Header copies with checksum, inline and untimed.
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
