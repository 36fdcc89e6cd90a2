// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `strands` record: measurements of another program per strand, as parsed from its
//! output, with derived values.
//!
//! Counts are exactly those of the input. Everything computed from them is a [`Figure`]; one that
//! the input does not provide is absent with a reason.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Strands of another program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StrandsReport {
    /// The kind of input.
    pub format: ForeignFormat,
    /// The version stated in the input; `null` if the format has none.
    pub format_version: Option<String>,
    /// The processor it was measured on; `null` if unknown.
    pub machine: Option<Machine>,
    /// The strands, in order of first appearance in the input.
    pub strands: Vec<StrandCounts>,
    /// Input lines with a measurement, including damaged ones.
    pub lines: u64,
    /// Faults of the input by line; faulty lines are not counted.
    pub faults: Vec<InputFault>,
}

/// The program that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ForeignFormat {
    /// PROFILE_DUMP of the Netra DPS profiler.
    ProfileDump,
    /// `perf stat`.
    PerfStat,
    /// `show runtime` of VPP.
    Vpp,
    /// Regions of a program; only used while questions are answered, never in a record.
    Regions,
}

impl ForeignFormat {
    /// Common name.
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

/// The processor as named by the user or the input, not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Source of its figures.
    pub source: String,
    /// GHz of its tick counter.
    #[serde(serialize_with = "crate::finite")]
    pub clock_ghz: f64,
    /// Strands per core, numbered consecutively; `null` if unknown.
    pub strands_per_core: Option<u32>,
}

/// A fault of the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputFault {
    /// The line, from 1.
    pub line: u64,
    /// The fault, and how it was handled.
    pub sentence: String,
}

impl fmt::Display for InputFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.sentence)
    }
}

/// One strand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StrandCounts {
    /// Its name in the input; `null` if it has only a number.
    pub name: Option<String>,
    /// The logical processor; `null` if not in the input.
    pub cpu: Option<u32>,
    /// Packets between the first and the last reading; `null` where packets were not counted.
    pub packets: Option<u64>,
    /// Ticks between these readings; `null` where the input has none.
    pub ticks: Option<u64>,
    /// Thousand packets per second.
    pub kpps: Figure,
    /// Ticks per packet, waiting included.
    pub ticks_per_packet: Figure,
    /// Instructions per packet.
    pub instructions_per_packet: Figure,
    /// Cycles per instruction.
    pub cpi: Figure,
    /// Instructions per cycle.
    pub ipc: Figure,
    /// All events, including instructions and cycles if the input has them.
    pub events: Vec<StrandEvent>,
    /// Its functions, if in the input.
    pub nodes: Vec<NodeCounts>,
    /// The counter readings of the input; empty if it has only sums.
    pub slices: Vec<Slice>,
    /// CPI stack; `null` if the cost of a miss is unknown.
    pub cpi_by_cause: Option<CpiByCause>,
}

/// An event of a strand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StrandEvent {
    /// Its name: `dc` in `dc_pti` of `summary`.
    pub name: String,
    /// The input's own name or code.
    pub native: String,
    /// Its count while it was counted.
    pub count: Figure,
    /// Per packet.
    pub per_packet: Figure,
    /// Per thousand instructions.
    pub pti: Figure,
}

/// A graph node of a strand, as counted by VPP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeCounts {
    /// Its name.
    pub name: String,
    /// Its state: `polling`, `active`, `event wait`, ...
    pub state: String,
    /// Calls.
    pub calls: u64,
    /// Packets it processed.
    pub packets: u64,
    /// Ticks per packet; absent if it processed none.
    pub ticks_per_packet: Figure,
    /// Packets per call.
    pub packets_per_call: Figure,
}

/// An interval in which one pair of events was counted: from a start record to the next update
/// record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slice {
    /// The line of the update record.
    pub line: u64,
    /// Ticks when counting began; `null` if the start record is missing, so that the events of the
    /// counts are unknown.
    pub from_ticks: Option<u64>,
    /// Ticks when it ended.
    pub to_ticks: u64,
    /// Code of the event on the first counter; `null` as above.
    pub code_hi: Option<u64>,
    /// Code of the event on the second counter; `null` as above.
    pub code_lo: Option<u64>,
    /// The first counter.
    pub count_hi: u64,
    /// The second counter.
    pub count_lo: u64,
    /// The overflow indicator; the counts are used only where it is 0.
    pub overflow: u64,
    /// The user's own counter at the end: packets so far.
    pub user: u64,
    /// Whether the previous reading is missing, so that time and packet count at the start are
    /// unknown.
    pub is_first: bool,
    /// ID and PC of the start record; 0 where it is missing, and in records before version 2.0.
    #[serde(default)]
    pub from: Place,
    /// ID and PC of the update record.
    #[serde(default)]
    pub to: Place,
}

/// Position in the program at which a record of a dump was written: number of the profiler call,
/// and program counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// ID.
    pub id: u64,
    /// PC.
    pub pc: u64,
}

/// CPI stack: an upper bound per cause, as if no two misses overlapped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpiByCause {
    /// Source of the costs.
    pub source: String,
    /// The causes.
    pub causes: Vec<CpiCause>,
    /// Cycles per instruction that no cause explains; absent if the bounds exceed the total.
    pub unexplained: Figure,
    /// Whether the strand is compute-bound or memory-bound.
    pub bound: Bound,
    /// The same in a sentence, with the rule or the evidence.
    pub sentence: String,
}

/// Cause of cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpiCause {
    /// The event.
    pub event: String,
    /// Maximum cycles per event; `null` if unknown.
    pub cycles_each: Option<f64>,
    /// Per thousand instructions.
    pub pti: Figure,
    /// Maximum cycles per instruction.
    pub cycles: Figure,
    /// The same relative to all cycles per instruction.
    pub share: Figure,
}

/// Limiting resource of a strand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The rate at which instructions are executed.
    Compute,
    /// Caches and memory.
    Memory,
    /// Undetermined.
    CannotTell,
}

impl StrandCounts {
    /// Display name: its name, or its CPU number.
    pub fn label(&self) -> String {
        match (&self.name, self.cpu) {
            (Some(name), _) => name.clone(),
            (None, Some(cpu)) => format!("cpu {cpu}"),
            (None, None) => "all".to_owned(),
        }
    }

    /// Finds an event by name.
    pub fn event(&self, name: &str) -> Option<&StrandEvent> {
        self.events.iter().find(|event| event.name == name)
    }
}
