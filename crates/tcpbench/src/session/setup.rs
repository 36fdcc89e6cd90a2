// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a session.

use crate::endpoint::{Config, Congestion, Micros, Side, WireMode};
use crate::pattern::{Mix, Pattern};
use crate::routines::Set;
use crate::wire::Impairments;

/// Number of segments that the application submits at once.
const SEGMENTS_PER_WRITE: usize = 4;

/// Settings of a session, except for the stacks and the set.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The pattern of the applications.
    pub pattern: Pattern,
    /// Payload of a full segment, in bytes.
    pub segment: usize,
    /// Size in bytes of each buffer at each end; rounded up to whole segments.
    pub buffer: usize,
    /// How frames reach the receiver.
    pub wire: WireMode,
    /// Impairments of the wire.
    pub impairments: Impairments,
    /// Message lengths in [`Pattern::Mixed`].
    pub mix: Mix,
    /// Whether segments that are not full wait for acknowledgements.
    pub nagle: bool,
    /// Congestion control of both ends.
    pub congestion: Congestion,
    /// How long the ends delay acknowledgements; 0 disables the delay.
    pub ack_delay: Micros,
    /// Seed for all randomness.
    pub seed: u64,
}

impl Setup {
    /// Settings for measuring a pattern: no impairments, 256 KiB buffers, frames copied on the
    /// wire.
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

    /// Effective size of each buffer: whole segments, and at least two writes.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.max(2 * write_bytes(self)).next_multiple_of(self.segment)
    }
}

/// Bytes that the application submits or requests at once.
pub(super) fn write_bytes(setup: &Setup) -> usize {
    setup.segment * SEGMENTS_PER_WRITE
}

/// Configuration of one end of a session with this set.
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
