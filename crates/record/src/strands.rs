// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `strands` record: measurements that another program made per strand (hardware
//! thread or worker thread), parsed from its output, with derived values.
//!
//! Counts are exactly those in the input. Everything computed from them is a [`Figure`]; a figure
//! for which the input lacks the data is absent, with a reason.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Strands (hardware threads or worker threads) whose measurements another program reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StrandsReport {
    /// Format of the input, which tells the program that wrote it.
    pub format: ForeignFormat,
    /// Format version stated in the input; `null` if the format has none.
    pub format_version: Option<String>,
    /// The processor on which the input was measured; `null` if unknown.
    pub machine: Option<Machine>,
    /// The strands (hardware threads or worker threads), in order of first appearance in the input.
    pub strands: Vec<StrandCounts>,
    /// Number of input lines that carry a measurement, including damaged lines.
    pub lines: u64,
    /// Faults in the input, by line. Faulty lines are not used for counts.
    pub faults: Vec<InputFault>,
}

/// Format of the input: the program that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ForeignFormat {
    /// PROFILE_DUMP output of the Netra DPS profiler.
    ProfileDump,
    /// Output of `perf stat`.
    PerfStat,
    /// Output of VPP's `show runtime` command.
    Vpp,
    /// Counts for code regions of a program; used only while answering questions, never in a
    /// record.
    Regions,
}

impl ForeignFormat {
    /// Returns the common name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProfileDump => "PROFILE_DUMP",
            Self::PerfStat => "perf stat",
            Self::Vpp => "VPP show runtime",
            Self::Regions => "regions",
        }
    }
}

impl fmt::Display for ForeignFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The processor of the strands, as named by the user or the input; not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Name of the processor.
    pub name: String,
    /// Source of the processor's figures.
    pub source: String,
    /// Frequency of the tick counter, in GHz.
    #[serde(serialize_with = "crate::finite")]
    pub clock_ghz: f64,
    /// Number of strands (hardware threads) per core, which are numbered consecutively; `null` if
    /// unknown.
    pub strands_per_core: Option<u32>,
}

/// A fault in a line of the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputFault {
    /// Number of the faulty line, starting at 1.
    pub line: u64,
    /// Description of the fault and how it was handled.
    pub sentence: String,
}

impl fmt::Display for InputFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.sentence)
    }
}

/// Measurements of one strand (hardware thread or worker thread).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StrandCounts {
    /// Name of the strand in the input; `null` if it has only a number.
    pub name: Option<String>,
    /// Logical CPU of the strand; `null` if not in the input.
    pub cpu: Option<u32>,
    /// Number of packets between the first and the last reading; `null` if packets were not
    /// counted.
    pub packets: Option<u64>,
    /// Number of ticks between the first and the last reading; `null` if the input has none.
    pub ticks: Option<u64>,
    /// Packet rate, in thousand packets per second.
    pub kpps: Figure,
    /// Ticks per packet, including waiting.
    pub ticks_per_packet: Figure,
    /// Instructions per packet.
    pub instructions_per_packet: Figure,
    /// Cycles per instruction.
    pub cpi: Figure,
    /// Instructions per cycle.
    pub ipc: Figure,
    /// All counted events, including instructions and cycles if the input has them.
    pub events: Vec<StrandEvent>,
    /// Graph nodes (functions) that the strand runs, if the input lists them.
    pub nodes: Vec<NodeCounts>,
    /// Counter readings in the input; empty if it has only totals.
    pub slices: Vec<Slice>,
    /// Cycles per instruction broken down by cause (CPI stack); `null` if the cost of a miss is
    /// unknown.
    pub cpi_by_cause: Option<CpiByCause>,
}

/// An event counted on a strand (hardware thread or worker thread).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StrandEvent {
    /// Name of the event, as in keys of `summary`: `dc` in `dc_pti`.
    pub name: String,
    /// Name or code of the event in the input.
    pub native: String,
    /// Count over the time during which the event was on a counter.
    pub count: Figure,
    /// Count per packet.
    pub per_packet: Figure,
    /// Count per thousand instructions.
    pub pti: Figure,
}

/// Counts of a VPP graph node on one strand (worker thread).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeCounts {
    /// Name of the graph node.
    pub name: String,
    /// State of the node: `polling`, `active`, `event wait`, ...
    pub state: String,
    /// Number of calls of the node.
    pub calls: u64,
    /// Number of packets that the node processed.
    pub packets: u64,
    /// Ticks per packet; absent if the node processed no packets.
    pub ticks_per_packet: Figure,
    /// Packets per call.
    pub packets_per_call: Figure,
}

/// An interval in which one pair of events was counted, from a start record of the dump to the next
/// update record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slice {
    /// Line number of the update record.
    pub line: u64,
    /// Tick count when counting began; `null` if the start record is missing, in which case it is
    /// unknown which events were counted.
    pub from_ticks: Option<u64>,
    /// Tick count when counting ended.
    pub to_ticks: u64,
    /// Event code of the first counter; `null` if the start record is missing.
    pub code_hi: Option<u64>,
    /// Event code of the second counter; `null` if the start record is missing.
    pub code_lo: Option<u64>,
    /// Count of the first counter.
    pub count_hi: u64,
    /// Count of the second counter.
    pub count_lo: u64,
    /// Overflow indicator of the counters; the counts are used only if it is 0.
    pub overflow: u64,
    /// Value of the user-defined counter at the end of the slice: the number of packets so far.
    pub user: u64,
    /// Whether the previous reading is missing, so that the time and packet count at the start are
    /// unknown.
    pub is_first: bool,
    /// ID and PC (program counter) of the start record; 0 if it is missing, and in records before
    /// version 2.0.
    #[serde(default)]
    pub from: Place,
    /// ID and PC (program counter) of the update record; 0 in records before version 2.0.
    #[serde(default)]
    pub to: Place,
}

/// Position in the program at which a record of a dump was written: number of the profiler call,
/// and program counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// ID: number of the profiler call.
    pub id: u64,
    /// PC: program counter.
    pub pc: u64,
}

/// Cycles per instruction broken down by cause (CPI stack). The value of each cause is an upper
/// bound, as if no two misses overlapped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpiByCause {
    /// Source of the miss costs.
    pub source: String,
    /// The causes, with the maximum of cycles per instruction that each explains.
    pub causes: Vec<CpiCause>,
    /// Cycles per instruction not explained by any cause; absent if the bounds exceed the total.
    pub unexplained: Figure,
    /// Verdict on whether the strand (hardware thread or worker thread) is compute-bound or
    /// memory-bound.
    pub bound: Bound,
    /// The verdict in a sentence, with the rule or the evidence behind it.
    pub sentence: String,
}

/// One cause of cycles: an event with a cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpiCause {
    /// Name of the event.
    pub event: String,
    /// Maximum number of cycles that one event costs; `null` if unknown.
    pub cycles_each: Option<f64>,
    /// Count per thousand instructions.
    pub pti: Figure,
    /// Maximum number of cycles per instruction that the event explains.
    pub cycles: Figure,
    /// Maximum share of all cycles per instruction that the event explains, 0 to 1.
    pub share: Figure,
}

/// What limits a strand (hardware thread or worker thread).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Compute: the rate at which instructions are executed.
    Compute,
    /// Memory: waiting for caches and memory.
    Memory,
    /// The limit could not be determined.
    CannotTell,
}

impl StrandCounts {
    /// Returns the name of the strand for display: its name or, without a name, its CPU number.
    pub fn label(&self) -> String {
        match (&self.name, self.cpu) {
            (Some(name), _) => name.clone(),
            (None, Some(cpu)) => format!("cpu {cpu}"),
            (None, None) => "all".to_owned(),
        }
    }

    /// Returns the event with this name; `None` if it was not counted.
    pub fn event(&self, name: &str) -> Option<&StrandEvent> {
        self.events.iter().find(|event| event.name == name)
    }
}
