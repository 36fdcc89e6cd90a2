// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of a meter, available once its worker has ended.

use super::stretches::Stretches;
use crate::counting::CountedTurns;
use crate::idle::Rested;
use crate::stage::MAX_PARTS;
use hdrhistogram::Histogram;

/// Number of bins in the histogram of burst sizes: 1, 2-3, 4-7, ... 256.
pub(crate) const BURST_BUCKETS: usize = 9;

/// One window of one worker. Its length is the total time of its iterations. It ends with the first
/// iteration that crosses a boundary of the time grid, which all workers share, so no iteration is
/// split between two windows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// Index of the first cell of the time grid that the window covers. All workers share the grid.
    pub(crate) index: u64,
    /// Number of cells of the time grid that the window covers. This is more than one if an
    /// iteration was longer than a cell, for example because the worker slept.
    pub(crate) cells: u64,
    pub(crate) ticks: u64,
    /// Ticks that the meter spent on closing the previous window, which are part of neither window.
    pub(crate) crossing: u64,
    pub(crate) clean: bool,
    /// Packets received from the source (first segment only).
    pub(crate) taken: u64,
    /// Packets delivered to the sink (last segment only).
    pub(crate) delivered: u64,
    /// Packets lost because a ring was full or an interface refused them.
    pub(crate) overflowed: u64,
    pub(crate) busy: u64,
    pub(crate) packets: u64,
    /// Time and packets of the sampled iterations, by part.
    pub(crate) parts: [PartSum; MAX_PARTS],
}

impl Window {
    /// Returns the indices of the cells that the window covers, limited to multiples of `stride`.
    pub(crate) fn kept_cells(&self, stride: u64) -> impl Iterator<Item = u64> + use<> {
        let first = self.index.next_multiple_of(stride);
        (first..self.index + self.cells).step_by(stride as usize)
    }
}

/// Time spent in one part of a worker, and packets passed to that part, in sampled iterations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartSum {
    pub(crate) ticks: u64,
    pub(crate) packets: u64,
}

/// Everything that a meter has recorded during the measurement. Times are in ticks unless their
/// names say otherwise.
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
    /// The worker's sleeps, whose time is included in `starved`.
    pub(crate) rested: Rested,
    pub(crate) packets: u64,
    pub(crate) burst_sizes: [u64; BURST_BUCKETS],
    /// Windows, in order. Only windows that cover a cell whose index is a multiple of `stride` are
    /// kept.
    pub(crate) windows: Vec<Window>,
    pub(crate) stride: u64,
    pub(crate) windows_total: u64,
    pub(crate) windows_lost: u64,
    /// Source-to-sink latency in ticks, for packets timestamped at the source. Recorded only by
    /// workers with a sink.
    pub(crate) latency: Option<Histogram<u64>>,
    /// The latency samples by stretch of the measurement, at a lower resolution than in `latency`.
    pub(crate) stretches: Stretches,
    /// Hardware event counts; `None` if no counter was opened.
    pub(crate) counted: Option<CountedTurns>,
}

/// Packets that one iteration received from the source, delivered to the sink, or lost
/// (`overflowed`) because a ring was full or an interface refused them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) taken: u64,
    pub(crate) delivered: u64,
    pub(crate) overflowed: u64,
}
