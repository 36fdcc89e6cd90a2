// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `budget` record: the per-packet budget of time, cycles and instructions at line
//! rate. It is computed, not measured.

use serde::{Deserialize, Serialize};

/// The per-packet budget of a processor at line rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetReport {
    /// Name of the processor.
    pub processor: String,
    /// Source of the processor's figures.
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
    /// Number of instructions that a pipe issues per cycle; `null` if not given.
    pub instructions_per_cycle: Option<f64>,
    /// Line rate in bits per second.
    #[serde(serialize_with = "crate::finite")]
    pub line_bits_per_s: f64,
    /// Budgets: one row per frame size, and one for the mix of sizes (IMIX).
    pub rows: Vec<BudgetRow>,
    /// Comparison of the line with a measured path; `null` if no path was given.
    pub shortfall: Option<Shortfall>,
    /// The processor on which the path in `shortfall` was measured; `null` if no path was given, or
    /// if its record does not name the processor.
    #[serde(default)]
    pub measured_on: Option<String>,
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
    /// Time from one packet to the next at line rate, in nanoseconds.
    #[serde(serialize_with = "crate::finite")]
    pub ns_per_packet: f64,
    /// Packet rate at line rate, in packets per second.
    #[serde(serialize_with = "crate::finite")]
    pub packets_per_s: f64,
    /// Cycles of one pipe in the time between two packets.
    #[serde(serialize_with = "crate::finite")]
    pub cycles_per_packet: f64,
    /// Cycles of all pipes together in the time between two packets: the per-packet budget if
    /// packets are spread evenly over the pipes.
    #[serde(serialize_with = "crate::finite")]
    pub cycles_of_all: f64,
    /// Instructions that one strand (hardware thread) issues in the time between two packets while
    /// the other strands of its pipe are busy; `null` if the instructions per cycle are unknown.
    pub instructions_per_packet: Option<f64>,
    /// Instructions that one strand (hardware thread) issues in the time between two packets while
    /// the other strands of its pipe are parked; `null` if the instructions per cycle are unknown.
    pub instructions_alone: Option<f64>,
    /// Upper bounds on the packet rate that do not depend on the line.
    pub ceilings: Ceilings,
    /// What the given task requires; `null` if no task was given or the instructions per cycle are
    /// unknown.
    pub task: Option<Task>,
}

/// Upper bounds on the forwarding rate over all ports, in packets per second; `null` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ceilings {
    /// Bound set by the I/O bandwidth to and from the network interfaces, which every byte crosses
    /// twice.
    pub io_packets_per_s: Option<f64>,
    /// Bound set by the memory bandwidth; every byte is written once and read once.
    pub memory_packets_per_s: Option<f64>,
    /// Bound set by the rate at which all pipes together issue instructions; `null` unless the
    /// instructions per packet are given.
    pub issue_packets_per_s: Option<f64>,
    /// Forwarding rate that was measured on such a processor and published, for this frame size.
    pub measured_packets_per_s: Option<f64>,
}

/// What a task requires of the processor at line rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Task {
    /// Instructions that the task takes per packet on one strand (hardware thread).
    #[serde(serialize_with = "crate::finite")]
    pub instructions: f64,
    /// Number of strands (hardware threads) needed for line rate, if distributing the packets adds
    /// no cost.
    #[serde(serialize_with = "crate::finite")]
    pub strands: f64,
    /// Instructions that each of these strands may spend on a packet when they run in parallel, so
    /// that each takes every n-th packet.
    #[serde(serialize_with = "crate::finite")]
    pub parallel_instructions: f64,
    /// Instructions that each of these strands may spend on a packet when they form a pipeline, so
    /// that each does a part of the work on every packet.
    #[serde(serialize_with = "crate::finite")]
    pub pipelined_instructions: f64,
    /// Whether the processor has enough strands (hardware threads) for the task.
    pub fits: bool,
}

/// Comparison of a measured path with the line rate, assuming that the cost of a packet does not
/// depend on its size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shortfall {
    /// Capacity of the path, in packets per second.
    #[serde(serialize_with = "crate::finite")]
    pub packets_per_s: f64,
    /// Size of the frames with which the path was measured, in bytes, FCS included.
    #[serde(serialize_with = "crate::finite")]
    pub frame_bytes: f64,
    /// Capacity as a share of the line rate with these frames, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share_of_line: f64,
    /// Smallest frame size at which the path sustains line rate, in bytes, FCS included.
    #[serde(serialize_with = "crate::finite")]
    pub holds_from_bytes: f64,
    /// Capacity as a share of the line rate with the shortest frames, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share_of_line_at_shortest: f64,
}
