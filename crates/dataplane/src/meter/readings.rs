// SPDX-License-Identifier: MIT OR Apache-2.0
//! A meter's readings after its worker has ended.

use crate::counting::CountedTurns;
use crate::stage::MAX_PARTS;
use hdrhistogram::Histogram;

/// Number of buckets for burst sizes: 1, 2-3, 4-7, ... 256.
pub(crate) const BURST_BUCKETS: usize = 9;

/// One window of one worker. A window ends with the first iteration past a common grid point, so
/// that no iteration is in two windows; its length is the total length of its iterations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// Index on the grid, which is the same for all workers.
    pub(crate) index: u64,
    pub(crate) ticks: u64,
    /// Ticks spent on ending the previous window, which belong to neither window.
    pub(crate) crossing: u64,
    pub(crate) clean: bool,
    /// Packets received from the source (first segment only).
    pub(crate) taken: u64,
    /// Packets delivered to the sink (last segment only).
    pub(crate) delivered: u64,
    /// Packets dropped because a ring was full.
    pub(crate) overflowed: u64,
    pub(crate) busy: u64,
    pub(crate) packets: u64,
    /// Time and packets of the sampled iterations, by part.
    pub(crate) parts: [PartSum; MAX_PARTS],
}

/// Time in one part of a worker, and packets passed to it, over the sampled iterations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartSum {
    pub(crate) ticks: u64,
    pub(crate) packets: u64,
}

/// Final readings of a worker's meter.
#[derive(Default)]
pub(crate) struct Readings {
    pub(crate) busy: u64,
    pub(crate) starved: u64,
    pub(crate) blocked: u64,
    pub(crate) lost: u64,
    pub(crate) wall_ns: u64,
    pub(crate) run_delay_ns: Option<u64>,
    pub(crate) switches: u64,
    pub(crate) empty_polls: u64,
    pub(crate) packets: u64,
    pub(crate) burst_sizes: [u64; BURST_BUCKETS],
    pub(crate) windows: Vec<Window>,
    pub(crate) windows_total: u64,
    pub(crate) windows_lost: u64,
    /// Latency from source to sink, in ticks, of the packets that were timed at the source. Only
    /// workers with a sink record it.
    pub(crate) latency: Option<Histogram<u64>>,
    /// Counts of hardware events; `None` if no counter was opened.
    pub(crate) counted: Option<CountedTurns>,
}

/// Packets that one iteration took from the source, delivered to the sink, or dropped at a full
/// ring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) taken: u64,
    pub(crate) delivered: u64,
    pub(crate) overflowed: u64,
}
