// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a session.

use crate::endpoint::{Config, Congestion, Micros, Side, WireMode};
use crate::pattern::{Mix, Pattern};
use crate::routines::Set;
use crate::wire::Impairments;

/// Segments that the application submits at once.
const SEGMENTS_PER_WRITE: usize = 4;

/// Settings of a session, except stacks and set.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The pattern of the applications.
    pub pattern: Pattern,
    /// Bytes of payload of a full segment.
    pub segment: usize,
    /// Bytes of each buffer of each end; rounded up to whole segments.
    pub buffer: usize,
    /// Transport of frames to the receiver.
    pub wire: WireMode,
    /// Impairments of the wire.
    pub impairments: Impairments,
    /// Lengths of messages in [`Pattern::Mixed`].
    pub mix: Mix,
    /// Whether segments that are not full wait for acknowledgements.
    pub nagle: bool,
    /// Congestion control of both ends.
    pub congestion: Congestion,
    /// For how long the ends hold acknowledgements back; 0 for not at all.
    pub ack_delay: Micros,
    /// Seed of everything random.
    pub seed: u64,
}

impl Setup {
    /// The settings for measuring a pattern: no impairments, buffers of 256 KiB, copies on the
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

/// The end of a session, made for one set.
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
