// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `budget` record: the per-packet budget at line rate. Computed, not measured.

use serde::{Deserialize, Serialize};

/// The per-packet budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetReport {
    /// The processor.
    pub processor: String,
    /// Source of its figures.
    pub source: String,
    /// Core clock in GHz.
    #[serde(serialize_with = "crate::finite")]
    pub clock_ghz: f64,
    /// Cores.
    pub cores: u32,
    /// Pipes per core, each issuing instructions independently.
    pub pipes_per_core: u32,
    /// Strands that share a pipe.
    pub strands_per_pipe: u32,
    /// Instructions that a pipe issues per cycle; `null` if not given.
    pub instructions_per_cycle: Option<f64>,
    /// Line rate in bits per second.
    #[serde(serialize_with = "crate::finite")]
    pub line_bits_per_s: f64,
    /// One row per frame size, and one for the mix.
    pub rows: Vec<BudgetRow>,
    /// Comparison with a measured path; `null` if none was given.
    pub shortfall: Option<Shortfall>,
    /// The processor on which that path was measured; `null` if no path was given, or its record
    /// does not name the processor.
    #[serde(default)]
    pub measured_on: Option<String>,
}

/// Budget for one frame size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BudgetRow {
    /// The size as requested, or `IMIX`.
    pub name: String,
    /// Bytes per frame, FCS included; for a mix, the mean.
    #[serde(serialize_with = "crate::finite")]
    pub frame_bytes: f64,
    /// Interval between packets in nanoseconds.
    #[serde(serialize_with = "crate::finite")]
    pub ns_per_packet: f64,
    /// Packets per second.
    #[serde(serialize_with = "crate::finite")]
    pub packets_per_s: f64,
    /// Cycles of one pipe per packet interval.
    #[serde(serialize_with = "crate::finite")]
    pub cycles_per_packet: f64,
    /// Cycles of all pipes per packet interval: the per-packet budget if packets are spread evenly.
    #[serde(serialize_with = "crate::finite")]
    pub cycles_of_all: f64,
    /// Instructions of one strand per packet interval with busy neighbours; `null` if the
    /// instructions per cycle are unknown.
    pub instructions_per_packet: Option<f64>,
    /// Instructions of one strand per packet interval with parked neighbours.
    pub instructions_alone: Option<f64>,
    /// Upper bounds that do not depend on the line.
    pub ceilings: Ceilings,
    /// Requirement of the given task; `null` without a task or without a budget.
    pub task: Option<Task>,
}

/// Upper bounds on forwarding over all ports; `null` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ceilings {
    /// Bound set by I/O bandwidth to and from the network interfaces, which every byte crosses
    /// twice.
    pub io_packets_per_s: Option<f64>,
    /// Bound set by memory bandwidth.
    pub memory_packets_per_s: Option<f64>,
    /// Bound set by the issue rate of all pipes, if instructions per packet are given.
    pub issue_packets_per_s: Option<f64>,
    /// Published measurement on such a processor.
    pub measured_packets_per_s: Option<f64>,
}

/// Requirement of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Task {
    /// Instructions per packet on one strand.
    #[serde(serialize_with = "crate::finite")]
    pub instructions: f64,
    /// Strands needed for line rate, if distributing the packets adds no cost.
    #[serde(serialize_with = "crate::finite")]
    pub strands: f64,
    /// Instructions per packet for each of these strands when they run in parallel.
    #[serde(serialize_with = "crate::finite")]
    pub parallel_instructions: f64,
    /// Instructions per packet for each of these strands when they form a pipeline.
    #[serde(serialize_with = "crate::finite")]
    pub pipelined_instructions: f64,
    /// Whether the processor has this many strands.
    pub fits: bool,
}

/// Comparison of a measured path with the line, assuming that the cost of a packet is independent
/// of its size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shortfall {
    /// Capacity of the path, in packets per second.
    #[serde(serialize_with = "crate::finite")]
    pub packets_per_s: f64,
    /// Size of the frames it was measured with, in bytes, FCS included.
    #[serde(serialize_with = "crate::finite")]
    pub frame_bytes: f64,
    /// Capacity as a share of the line rate with these frames, at most 1.
    #[serde(serialize_with = "crate::finite")]
    pub share_of_line: f64,
    /// Smallest frame size at which line rate is sustained.
    #[serde(serialize_with = "crate::finite")]
    pub holds_from_bytes: f64,
    /// Capacity as a share of the line rate with the shortest frames, at most 1.
    #[serde(serialize_with = "crate::finite")]
    pub share_of_line_at_shortest: f64,
}
