// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `strands` record: what another program measured of each strand, as it was read
//! from that program's own output, and what follows from it.
//!
//! Counts are those of the input, to the digit. Everything that is computed from them is a
//! [`Figure`]; one that the input does not tell is absent with a reason.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Strands of another program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StrandsReport {
    /// What the input was.
    pub format: ForeignFormat,
    /// The version that the input says it has; `null` where the format has none.
    pub format_version: Option<String>,
    /// The processor it was measured on; `null` where nobody said.
    pub machine: Option<Machine>,
    /// The strands, in the order in which the input names them first.
    pub strands: Vec<StrandCounts>,
    /// Lines of the input that hold a measurement, damaged ones included.
    pub lines: u64,
    /// What was wrong with the input, by line; what is wrong is left out of the counts.
    pub faults: Vec<InputFault>,
}

/// Whose output it is.
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
    /// Regions of a program; only while questions are answered, no record has it.
    Regions,
}

impl ForeignFormat {
    /// The name people know it by.
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

/// The processor as it was named, not as it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Where its figures are from.
    pub source: String,
    /// GHz of its tick counter.
    #[serde(serialize_with = "crate::finite")]
    pub clock_ghz: f64,
    /// Strands of a core, numbered in a row; `null` where that is not known.
    pub strands_per_core: Option<u32>,
}

/// Something wrong with the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputFault {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it, and what was made of it.
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
    /// What the input calls it; `null` where it has a number only.
    pub name: Option<String>,
    /// The logical processor; `null` where the input does not tell.
    pub cpu: Option<u32>,
    /// Packets between the first and the last reading; `null` where packets were not counted.
    pub packets: Option<u64>,
    /// Ticks between these readings; `null` where the input has none.
    pub ticks: Option<u64>,
    /// Thousand packets per second.
    pub kpps: Figure,
    /// Ticks from one packet to the next, waiting included.
    pub ticks_per_packet: Figure,
    /// Instructions per packet.
    pub instructions_per_packet: Figure,
    /// Cycles per instruction.
    pub cpi: Figure,
    /// Instructions per cycle.
    pub ipc: Figure,
    /// Every event, instructions and cycles included where the input has them.
    pub events: Vec<StrandEvent>,
    /// What its functions did, where the input tells.
    pub nodes: Vec<NodeCounts>,
    /// The readings of the counters as the input has them; empty where it has sums only.
    pub slices: Vec<Slice>,
    /// Cycles per instruction by cause; `null` where nothing says what a miss costs.
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
    /// How often it happened while it was counted.
    pub count: Figure,
    /// Per packet.
    pub per_packet: Figure,
    /// Per thousand instructions.
    pub pti: Figure,
}

/// A function of a strand, as VPP counts them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeCounts {
    /// Its name.
    pub name: String,
    /// How it is called: `polling`, `active`, `event wait`, ...
    pub state: String,
    /// Calls.
    pub calls: u64,
    /// Packets it was given.
    pub packets: u64,
    /// Ticks per packet; absent where it was given none.
    pub ticks_per_packet: Figure,
    /// Packets of a call.
    pub packets_per_call: Figure,
}

/// A stretch of time in which one pair of events was counted: from a start record to the next
/// update record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slice {
    /// The line of the update record.
    pub line: u64,
    /// Ticks when counting began; `null` where the start record is missing, so that nothing tells
    /// which events the counts are of.
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
    /// The user's own number when it ended: packets so far.
    pub user: u64,
    /// Whether the reading before this one is missing, so that nothing tells when, and after how
    /// many packets, this stretch began.
    pub is_first: bool,
    /// ID and PC of the start record; 0 where it is missing, and in records before version 2.0.
    #[serde(default)]
    pub from: Place,
    /// ID and PC of the update record.
    #[serde(default)]
    pub to: Place,
}

/// Where in its program a record of a dump was written: its call of the profiler by number, and the
/// program counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// ID.
    pub id: u64,
    /// PC.
    pub pc: u64,
}

/// Where the cycles of an instruction may have gone: an upper bound per cause, as if no two misses
/// overlapped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpiByCause {
    /// Where the costs are from.
    pub source: String,
    /// The causes.
    pub causes: Vec<CpiCause>,
    /// Cycles per instruction that no cause explains; absent where the bounds exceed the whole.
    pub unexplained: Figure,
    /// Whether the strand computes or waits for memory.
    pub bound: Bound,
    /// The same in a sentence, with the rule or the evidence.
    pub sentence: String,
}

/// What cycles went to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpiCause {
    /// The event.
    pub event: String,
    /// Cycles that each one costs at most; `null` where nobody knows.
    pub cycles_each: Option<f64>,
    /// Per thousand instructions.
    pub pti: Figure,
    /// Cycles per instruction, at most.
    pub cycles: Figure,
    /// The same over all cycles per instruction.
    pub share: Figure,
}

/// What a strand waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The rate at which instructions are executed.
    Compute,
    /// Caches and memory.
    Memory,
    /// Nothing tells.
    CannotTell,
}

impl StrandCounts {
    /// How people name it: its name, or the number of its processor.
    pub fn label(&self) -> String {
        match (&self.name, self.cpu) {
            (Some(name), _) => name.clone(),
            (None, Some(cpu)) => format!("cpu {cpu}"),
            (None, None) => "all".to_owned(),
        }
    }

    /// An event by its name.
    pub fn event(&self, name: &str) -> Option<&StrandEvent> {
        self.events.iter().find(|event| event.name == name)
    }
}
