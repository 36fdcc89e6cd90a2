// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `strands` record: per-strand measurements from another program, as parsed from its
//! output, with derived values.
//!
//! Counts are exactly those in the input. Everything computed from them is a [`Figure`]; a figure
//! that the input does not provide is absent, with a reason.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Strands reported by another program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StrandsReport {
    /// The kind of input.
    pub format: ForeignFormat,
    /// The version stated in the input; `null` if the format has none.
    pub format_version: Option<String>,
    /// The processor the input was measured on; `null` if unknown.
    pub machine: Option<Machine>,
    /// The strands, in order of first appearance in the input.
    pub strands: Vec<StrandCounts>,
    /// Input lines that carry a measurement, including damaged ones.
    pub lines: u64,
    /// Faults in the input, by line; faulty lines are not counted.
    pub faults: Vec<InputFault>,
}

/// The program that wrote the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ForeignFormat {
    /// PROFILE_DUMP output of the Netra DPS profiler.
    ProfileDump,
    /// `perf stat`.
    PerfStat,
    /// `show runtime` output of VPP.
    Vpp,
    /// Code regions of a program; used only while answering questions, never in a record.
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
    /// Source of the processor's figures.
    pub source: String,
    /// Tick counter frequency in GHz.
    #[serde(serialize_with = "crate::finite")]
    pub clock_ghz: f64,
    /// Strands per core, numbered consecutively; `null` if unknown.
    pub strands_per_core: Option<u32>,
}

/// A fault in the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputFault {
    /// Line number, starting at 1.
    pub line: u64,
    /// Description of the fault and how it was handled.
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
    /// Strand name in the input; `null` if it has only a number.
    pub name: Option<String>,
    /// Logical CPU; `null` if not in the input.
    pub cpu: Option<u32>,
    /// Packets between the first and last readings; `null` if packets were not counted.
    pub packets: Option<u64>,
    /// Ticks between these readings; `null` if the input has none.
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
    /// Functions that the strand runs, if the input lists them.
    pub nodes: Vec<NodeCounts>,
    /// Counter readings in the input; empty if it has only totals.
    pub slices: Vec<Slice>,
    /// CPI stack; `null` if the cost of a miss is unknown.
    pub cpi_by_cause: Option<CpiByCause>,
}

/// An event counted on a strand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StrandEvent {
    /// Event name: `dc` in `dc_pti` of `summary`.
    pub name: String,
    /// The input's own name or code.
    pub native: String,
    /// Count over the time the event was on a counter.
    pub count: Figure,
    /// Per packet.
    pub per_packet: Figure,
    /// Per thousand instructions.
    pub pti: Figure,
}

/// A graph node on a strand, as counted by VPP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeCounts {
    /// Its name.
    pub name: String,
    /// Node state: `polling`, `active`, `event wait`, ...
    pub state: String,
    /// Calls.
    pub calls: u64,
    /// Packets it processed.
    pub packets: u64,
    /// Ticks per packet; absent if the node processed none.
    pub ticks_per_packet: Figure,
    /// Packets per call.
    pub packets_per_call: Figure,
}

/// An interval in which one pair of events was counted, from a start record to the next update
/// record.
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
    /// Event code of the first counter; `null` as above.
    pub code_hi: Option<u64>,
    /// Event code of the second counter; `null` as above.
    pub code_lo: Option<u64>,
    /// The first counter.
    pub count_hi: u64,
    /// The second counter.
    pub count_lo: u64,
    /// Overflow indicator; the counts are used only where it is 0.
    pub overflow: u64,
    /// The user-defined counter at the end of the slice: packets so far.
    pub user: u64,
    /// Whether the previous reading is missing, so that the time and packet count at the start are
    /// unknown.
    pub is_first: bool,
    /// ID and PC of the start record; 0 where it is missing, and in records before version 2.0.
    #[serde(default)]
    pub from: Place,
    /// ID and PC of the update record.
    #[serde(default)]
    pub to: Place,
}

/// Position in the program at which a record of a dump was written: profiler call number and
/// program counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// ID.
    pub id: u64,
    /// PC.
    pub pc: u64,
}

/// CPI stack: an upper bound for each cause, as if no two misses overlapped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpiByCause {
    /// Source of the miss costs.
    pub source: String,
    /// The causes.
    pub causes: Vec<CpiCause>,
    /// Cycles per instruction not explained by any cause; absent if the bounds exceed the total.
    pub unexplained: Figure,
    /// Whether the strand is compute-bound or memory-bound.
    pub bound: Bound,
    /// The verdict in a sentence, with the rule or the evidence.
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
    /// The maximum as a share of all cycles per instruction.
    pub share: Figure,
}

/// What limits a strand.
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
    /// Returns the display name: the strand's name, or its CPU number.
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
