// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `budget` record: the time, cycles and instructions available per packet at line
//! rate. Computed, not measured.

use serde::{Deserialize, Serialize};

/// On-wire overhead in bytes: 8 for preamble and start delimiter, 12 for the inter-frame gap (IEEE
/// 802.3).
pub const GAP_BYTES: f64 = 20.0;

/// Length in bytes of the longest untagged frame that every Ethernet device accepts, FCS included
/// (IEEE 802.3).
pub const LONGEST_FRAME: f64 = 1518.0;

/// The per-packet budget of a processor at line rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetReport {
    /// Name of the processor.
    pub processor: String,
    /// Where the processor's figures come from.
    pub source: String,
    /// Clock frequency of the cores, in GHz.
    #[serde(serialize_with = "crate::finite")]
    pub clock_ghz: f64,
    /// Number of cores.
    pub cores: u32,
    /// Number of instruction pipelines (pipes) per core, each of which issues instructions
    /// independently.
    pub pipes_per_core: u32,
    /// Number of hardware threads (strands) that share a pipe.
    pub strands_per_pipe: u32,
    /// Instructions that a pipe issues per cycle; `null` if unknown.
    pub instructions_per_cycle: Option<f64>,
    /// Line rate in bits per second.
    #[serde(serialize_with = "crate::finite")]
    pub line_bits_per_s: f64,
    /// Budgets: one row per frame size, and one for the mix of sizes (IMIX).
    pub rows: Vec<BudgetRow>,
    /// Comparison of a measured path with the line rate; `null` if no path was given.
    pub shortfall: Option<Shortfall>,
    /// Processor on which the path in `shortfall` was measured; `null` if no path was given or its
    /// record does not name the processor.
    #[serde(default)]
    pub measured_on: Option<String>,
    /// Whether the budget is for the processor of the machine on which it was computed. If so, each
    /// core counts as one pipe, and its hardware threads as strands. `false` in records before
    /// version 2.3.
    #[serde(default)]
    pub is_this_machine: bool,
}

/// Per-packet budget for one frame size, or for the mix of sizes (IMIX).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetRow {
    /// The frame size as requested, or `IMIX`.
    pub name: String,
    /// Bytes per frame, FCS included; for a mix, the mean.
    #[serde(serialize_with = "crate::finite")]
    pub frame_bytes: f64,
    /// Interval between packets at line rate, in nanoseconds.
    #[serde(serialize_with = "crate::finite")]
    pub ns_per_packet: f64,
    /// Packet rate at line rate, in packets per second.
    #[serde(serialize_with = "crate::finite")]
    pub packets_per_s: f64,
    /// Cycles available to one pipe between two packets at line rate.
    #[serde(serialize_with = "crate::finite")]
    pub cycles_per_packet: f64,
    /// Cycles available to all pipes together between two packets at line rate: the per-packet
    /// budget if packets are spread evenly over the pipes.
    #[serde(serialize_with = "crate::finite")]
    pub cycles_of_all: f64,
    /// Instructions that one strand (hardware thread) can issue between two packets while the other
    /// strands on its pipe are busy; `null` if the instructions per cycle are unknown.
    pub instructions_per_packet: Option<f64>,
    /// Instructions that one strand (hardware thread) can issue between two packets while the other
    /// strands on its pipe are parked; `null` if the instructions per cycle are unknown.
    pub instructions_alone: Option<f64>,
    /// Upper bounds on the packet rate, apart from line rate.
    pub ceilings: Ceilings,
    /// Requirements of the given task at line rate; `null` if no task was given or the instructions
    /// per cycle are unknown.
    pub task: Option<Task>,
}

/// Upper bounds on the forwarding rate over all ports, in packets per second; `null` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ceilings {
    /// Upper bound set by the I/O bandwidth of the network interfaces; every byte is transferred
    /// twice.
    pub io_packets_per_s: Option<f64>,
    /// Upper bound set by memory bandwidth; every byte is written once and read once.
    pub memory_packets_per_s: Option<f64>,
    /// Upper bound set by the combined issue rate of all pipes; `null` unless the instructions per
    /// packet are given.
    pub issue_packets_per_s: Option<f64>,
    /// Published forwarding rate measured on this processor at this frame size.
    pub measured_packets_per_s: Option<f64>,
}

/// Requirements of a task at line rate: the number of strands, and an instruction budget for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Task {
    /// Instructions per packet that the task executes on one strand (hardware thread).
    #[serde(serialize_with = "crate::finite")]
    pub instructions: f64,
    /// Strands (hardware threads) needed for line rate, assuming that distributing packets is free.
    #[serde(serialize_with = "crate::finite")]
    pub strands: f64,
    /// Instruction budget per packet for each strand if the strands run in parallel and each
    /// handles every n-th packet.
    #[serde(serialize_with = "crate::finite")]
    pub parallel_instructions: f64,
    /// Instruction budget per packet for each strand if the strands form a pipeline and each does
    /// part of the work on every packet.
    #[serde(serialize_with = "crate::finite")]
    pub pipelined_instructions: f64,
    /// Whether the processor has enough strands (hardware threads) for the task.
    pub fits: bool,
}

/// A measured path compared with line rate, assuming that its per-packet cost does not depend on
/// packet size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shortfall {
    /// Capacity of the path, in packets per second.
    #[serde(serialize_with = "crate::finite")]
    pub packets_per_s: f64,
    /// Frame size at which the path was measured, in bytes, FCS included.
    #[serde(serialize_with = "crate::finite")]
    pub frame_bytes: f64,
    /// Capacity as a fraction of line rate at this frame size; above 1 if it exceeds line rate.
    #[serde(serialize_with = "crate::finite")]
    pub share_of_line: f64,
    /// Smallest frame size at which the path sustains line rate, in bytes, FCS included.
    #[serde(serialize_with = "crate::finite")]
    pub holds_from_bytes: f64,
    /// Capacity as a fraction of line rate at the minimum frame size.
    #[serde(serialize_with = "crate::finite")]
    pub share_of_line_at_shortest: f64,
}

impl Shortfall {
    /// Returns the capacity as a fraction of line rate with frames of [`LONGEST_FRAME`] bytes;
    /// `None` if the path sustains line rate with these frames.
    pub fn share_at_longest(&self) -> Option<f64> {
        let is_short = self.holds_from_bytes > LONGEST_FRAME;
        is_short.then(|| (LONGEST_FRAME + GAP_BYTES) / (self.holds_from_bytes + GAP_BYTES))
    }
}
