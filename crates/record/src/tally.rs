// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packet counts and their byte counts.

use serde::{Deserialize, Serialize};

/// A number of packets and their total bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tally {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of the packets, from the first byte of each frame; excludes FCS, preamble and
    /// inter-frame gap.
    pub bytes: u64,
}

impl Tally {
    /// Adds `packets` packets totalling `bytes` bytes.
    pub fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}

impl std::ops::Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |a, b| a + b)
    }
}
