// SPDX-License-Identifier: MIT OR Apache-2.0
//! Session settings.

use crate::endpoint::{Config, Congestion, Micros, Side, WireMode};
use crate::pattern::{Mix, Pattern};
use crate::routines::Set;
use crate::wire::Impairments;

/// Number of segments that the application submits at once.
const SEGMENTS_PER_WRITE: usize = 4;

/// Settings of a session: everything except the stacks and the routine set.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How the applications use the connection.
    pub pattern: Pattern,
    /// Payload of a full segment in bytes.
    pub segment: usize,
    /// Size of each send or receive buffer in bytes; it is rounded up to whole segments.
    pub buffer: usize,
    /// Whether frames are copied to the receiver or passed by reference.
    pub wire: WireMode,
    /// What the wire does to frames: loss, delay, corruption and so on.
    pub impairments: Impairments,
    /// Distribution of message lengths in [`Pattern::Mixed`].
    pub mix: Mix,
    /// Whether Nagle's algorithm is enabled: partial segments wait for acknowledgements.
    pub nagle: bool,
    /// Congestion control algorithm at both ends.
    pub congestion: Congestion,
    /// Delayed ACK timeout in virtual microseconds; 0 disables it.
    pub ack_delay: Micros,
    /// Seed for everything that is random in the session.
    pub seed: u64,
}

impl Setup {
    /// Returns the default settings for measuring a pattern: no impairments, 256 KiB buffers,
    /// frames copied on the wire.
    pub fn for_pattern(pattern: Pattern) -> Self {
        Self {
            pattern,
            segment: pattern.segment(),
            buffer: 256 << 10,
            wire: WireMode::Copy,
            impairments: Impairments::default(),
            mix: Mix::presets().next().expect("there is a preset"),
            nagle: false,
            congestion: Congestion::None,
            ack_delay: 0,
            seed: 1,
        }
    }

    /// Returns the actual size of each buffer in bytes: whole segments, and room for at least two
    /// writes.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.max(2 * write_bytes(self)).next_multiple_of(self.segment)
    }
}

/// Returns how many bytes the application submits or requests at once.
pub(super) fn write_bytes(setup: &Setup) -> usize {
    setup.segment * SEGMENTS_PER_WRITE
}

/// Returns the configuration for one end of a session that uses this set.
pub(super) fn config(setup: &Setup, set: &Set, side: Side) -> Config {
    Config {
        side,
        segment: setup.segment,
        buffer: setup.buffer_bytes(),
        routines: *set.routines(),
        checksums: set.checksums(),
        wire: setup.wire,
        nagle: setup.nagle,
        ack_delay: setup.ack_delay,
        congestion: setup.congestion,
        seed: setup.seed,
    }
}
