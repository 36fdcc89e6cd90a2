// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `strands` record: measurements per strand (hardware thread or worker thread),
//! parsed from the output of another program, with derived values.
//!
//! Counts are exactly as in the input. Anything computed from them is a [`Figure`], which is
//! absent, with a reason, if the input lacks the data.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Per-strand (hardware thread or worker thread) measurements reported by another program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StrandsReport {
    /// Input format, which identifies the program that wrote the input.
    pub format: ForeignFormat,
    /// Format version stated in the input; `null` if the format has none.
    pub format_version: Option<String>,
    /// Processor on which the input was measured; `null` if unknown.
    pub machine: Option<Machine>,
    /// The strands (hardware threads or worker threads), in order of appearance.
    pub strands: Vec<StrandCounts>,
    /// Number of input lines with a measurement, including damaged ones.
    pub lines: u64,
    /// Faults in the input, by line. Faulty lines do not contribute to counts.
    pub faults: Vec<InputFault>,
}

/// Input format, identified by the program that wrote the input.
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
    /// Counts for a program's regions. Used only while answering questions, never in a record.
    Regions,
}

impl ForeignFormat {
    /// Returns the format's common name.
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

/// Processor that the strands ran on, as named by the user or the input; not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Name of the processor.
    pub name: String,
    /// Where the processor's figures come from.
    pub source: String,
    /// Frequency of the tick counter, in GHz.
    #[serde(serialize_with = "crate::finite")]
    pub clock_ghz: f64,
    /// Number of strands (hardware threads) per core; the strands of a core have consecutive
    /// numbers. `null` if unknown.
    pub strands_per_core: Option<u32>,
}

/// A faulty input line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputFault {
    /// Line number, 1-based.
    pub line: u64,
    /// The problem, and how it was handled.
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
    /// Name of the strand in the input; `null` if it only has a number.
    pub name: Option<String>,
    /// Logical CPU of the strand; `null` if the input does not state it.
    pub cpu: Option<u32>,
    /// Packets between the first and last reading; `null` if not counted.
    pub packets: Option<u64>,
    /// Ticks between the first and last reading; `null` if the input has none.
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
    /// Graph nodes (functions) that the strand runs, if listed in the input.
    pub nodes: Vec<NodeCounts>,
    /// Counter readings in the input; empty if the input has only totals.
    pub slices: Vec<Slice>,
    /// CPI stack: cycles per instruction, broken down by cause; `null` if the cost of a miss is
    /// unknown.
    pub cpi_by_cause: Option<CpiByCause>,
}

/// An event counted on a strand (hardware thread or worker thread).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StrandEvent {
    /// Event name as used in keys of `summary`: `dc` in `dc_pti`.
    pub name: String,
    /// Name or code of the event in the input.
    pub native: String,
    /// Count while the event was on a counter.
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
    /// Node state: `polling`, `active`, `event wait`, ...
    pub state: String,
    /// Number of times the node was called.
    pub calls: u64,
    /// Number of packets that the node processed.
    pub packets: u64,
    /// Ticks per packet; absent if the node processed no packets. An upper bound for a polling
    /// node: its ticks include those of empty polls.
    pub ticks_per_packet: Figure,
    /// Packets per call.
    pub packets_per_call: Figure,
}

/// Interval in which one pair of events was counted, from a start record in the dump to the next
/// update record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slice {
    /// Line number of the update record.
    pub line: u64,
    /// Tick count when counting began; `null` if the start record is missing, which leaves the
    /// counted events unknown.
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
    /// Overflow indicator; counts are used only if it is 0.
    pub overflow: u64,
    /// User-defined counter at the end of the slice: the number of packets so far.
    pub user: u64,
    /// Whether the previous reading is missing, in which case time and packet count at the start
    /// are unknown.
    pub is_first: bool,
    /// ID and PC (program counter) of the start record; 0 if it is missing, and in records before
    /// version 2.0.
    #[serde(default)]
    pub from: Place,
    /// ID and PC (program counter) of the update record; 0 in records before version 2.0.
    #[serde(default)]
    pub to: Place,
}

/// Where in the program a dump record was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// Number that identifies the profiler call.
    pub id: u64,
    /// Program counter.
    pub pc: u64,
}

/// CPI stack: cycles per instruction, broken down by cause. Each cause's value is an upper bound
/// that assumes no overlap between misses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpiByCause {
    /// Where the miss costs come from.
    pub source: String,
    /// The causes, each with an upper bound on the cycles per instruction it explains.
    pub causes: Vec<CpiCause>,
    /// Cycles per instruction that no cause explains; absent if the bounds exceed the total.
    pub unexplained: Figure,
    /// Whether the strand (hardware thread or worker thread) is compute-bound or memory-bound.
    pub bound: Bound,
    /// The verdict in one sentence, with its rule or evidence.
    pub sentence: String,
}

/// An event that costs cycles, with an upper bound on its cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpiCause {
    /// Name of the event.
    pub event: String,
    /// Upper bound on the cycles per event; `null` if unknown.
    pub cycles_each: Option<f64>,
    /// Count per thousand instructions.
    pub pti: Figure,
    /// Upper bound on the cycles per instruction that the event explains.
    pub cycles: Figure,
    /// Upper bound on the share of all cycles per instruction that the event explains, 0 to 1.
    pub share: Figure,
}

/// What limits a strand (hardware thread or worker thread).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Executing instructions.
    Compute,
    /// Waiting for caches and memory.
    Memory,
    /// Undetermined.
    CannotTell,
}

impl NodeCounts {
    /// Mean packets per call below which the empty polls of a polling node may take most of its
    /// ticks. An empty poll costs about as much as one or two packets.
    const FILLED: f64 = 32.0;

    /// Returns whether the node is called in every iteration of its thread's loop, even without
    /// packets. If so, its ticks include those of empty polls.
    pub fn is_polling(&self) -> bool {
        self.state.split_whitespace().any(|word| word == "polling")
    }

    /// Returns whether the node polled and, on average, found few packets per call.
    pub fn finds_few_packets(&self) -> bool {
        self.is_polling() && (self.packets as f64) < Self::FILLED * self.calls as f64
    }

    /// Returns the node's total ticks for all packets; `None` if it processed none.
    pub fn all_ticks(&self) -> Option<f64> {
        let ticks = self.ticks_per_packet.as_number().filter(|_| self.packets > 0)?;
        Some(ticks * self.packets as f64)
    }
}

impl StrandCounts {
    /// Returns a sentence about the node whose empty polls hide its cost per packet. `None` unless
    /// the nodes that [find few packets](NodeCounts::finds_few_packets) account for more than 10 %
    /// of the ticks of all nodes.
    pub fn hidden_by_empty_polls(&self) -> Option<String> {
        let sum = |of: &dyn Fn(&&NodeCounts) -> bool| -> f64 {
            self.nodes.iter().filter(of).filter_map(NodeCounts::all_ticks).sum()
        };
        let is_few = |node: &&NodeCounts| node.finds_few_packets();
        if sum(&is_few) <= 0.1 * sum(&|_| true) {
            return None;
        }
        let ticks = |node: &NodeCounts| node.all_ticks().unwrap_or(0.0);
        let most = self.nodes.iter().filter(is_few);
        let most = most.max_by(|a, b| ticks(a).total_cmp(&ticks(b)))?;
        Some(format!(
            "`{}` on {} received {:.1} packets per poll, and its ticks include empty polls; \
             measure at a load that fills its vectors ({} or more packets per poll)",
            most.name,
            self.label(),
            most.packets as f64 / most.calls.max(1) as f64,
            NodeCounts::FILLED
        ))
    }

    /// Returns the strand's display name: its name or, failing that, its CPU number.
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
