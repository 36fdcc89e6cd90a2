// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a profile that are recorded on request: the instructions of a function, and when the
//! samples were taken.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// The instructions of a function, with the samples at each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AnnotatedFunction {
    /// Index of the function in `functions`.
    pub function: u32,
    /// Number of samples in the function itself.
    pub samples: u64,
    /// The function's instructions in address order; those far from any sample are omitted.
    pub instructions: Vec<InstructionCost>,
    /// The source lines of all instructions with samples, most samples first. Samples at
    /// instructions whose line is unknown are not included.
    #[serde(default)]
    pub lines: Vec<LineCost>,
    /// Why the source lines are unknown; `null` if they are known.
    pub no_lines: Option<String>,
}

/// An instruction and its cost.
///
/// The sampled address is the address of the instruction at which the interrupt was taken. The
/// stall was on the preceding instruction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InstructionCost {
    /// Address in the file, as `objdump` prints it: `0x401136`.
    pub address: String,
    /// The instruction in AT&T syntax.
    pub text: String,
    /// Number of samples at this instruction.
    pub samples: u64,
    /// Share of the function's samples, 0 to 1; `null` without samples.
    pub share: Option<Figure>,
    /// The source line that the instruction was compiled from; `null` if unknown.
    pub line: Option<SourceLine>,
    /// Whether instructions before this one are omitted.
    pub is_after_gap: bool,
}

/// A source line and its cost: that of the instructions compiled from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineCost {
    /// The line.
    pub line: SourceLine,
    /// Number of samples at the instructions compiled from the line.
    pub samples: u64,
    /// Share of the function's samples, 0 to 1.
    pub share: Figure,
}

/// A line of source code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SourceLine {
    /// Path of the file at compile time.
    pub file: String,
    /// Line number, from 1.
    pub line: u32,
}

/// Samples, packets and losses over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// Length of a bin in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub bin_s: f64,
    /// The threads with the most samples, at most 8.
    pub threads: Vec<ThreadTimeline>,
    /// The slices of the window, in order.
    pub slices: Vec<TimeSlice>,
    /// Counters from which `lost` in the slices is read; `null` if losses are not counted.
    pub losses: Option<String>,
    /// The longest gaps between a thread's samples, in chronological order. At most 50; threads
    /// with fewer than 50 samples are not examined. Empty if `no_gaps` is set.
    pub gaps: Vec<Gap>,
    /// Why gaps were not determined; `null` if they were.
    #[serde(default)]
    pub no_gaps: Option<String>,
    /// Functions whose share in slices with losses or gaps differs significantly from that in all
    /// other slices, largest difference first. Empty unless there are slices of both kinds.
    pub functions: Vec<FunctionThen>,
}

/// Sample counts of one thread over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadTimeline {
    /// Index of the thread in `threads`.
    pub thread: u32,
    /// Number of samples in each bin of the window.
    pub samples: Vec<u32>,
}

/// A slice of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeSlice {
    /// Start, in seconds since the start of the window.
    #[serde(serialize_with = "crate::finite")]
    pub begins_s: f64,
    /// Length in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub seconds: f64,
    /// Packets counted; `null` without a counter.
    pub packets: Option<u64>,
    /// Packets lost; `null` without a counter.
    pub lost: Option<u64>,
}

/// A period during which a thread did not run: it slept or waited for a CPU, or the hypervisor ran
/// something else. With `cpu-clock`, also a period with interrupts off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gap {
    /// Index of the thread in `threads`.
    pub thread: u32,
    /// Time of the last sample before the gap, in seconds since the start of the window.
    #[serde(serialize_with = "crate::finite")]
    pub begins_s: f64,
    /// Lower bound on the time for which the thread did not run, in seconds: the time without a
    /// sample minus the longest sampling period.
    #[serde(serialize_with = "crate::finite")]
    pub seconds: f64,
}

/// A function's share in slices with losses or gaps, and in all other slices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionThen {
    /// Index of the function in `functions`.
    pub function: u32,
    /// Share of the samples in slices with losses or gaps, 0 to 1.
    pub then: Figure,
    /// Share of the samples in slices without losses or gaps, 0 to 1.
    pub otherwise: Figure,
}

impl Timeline {
    /// Returns whether packets were lost in a slice, or a gap overlaps it.
    pub fn is_disturbed(&self, slice: &TimeSlice) -> bool {
        let ends_s = slice.begins_s + slice.seconds;
        let overlaps =
            |gap: &Gap| gap.begins_s < ends_s && gap.begins_s + gap.seconds > slice.begins_s;
        slice.lost.is_some_and(|lost| lost > 0) || self.gaps.iter().any(overlaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_with_losses_or_gaps_are_disturbed() {
        let slice = |begins_s, lost| TimeSlice { begins_s, seconds: 1.0, packets: Some(9), lost };
        let timeline = Timeline {
            bin_s: 0.1,
            threads: Vec::new(),
            slices: Vec::new(),
            losses: None,
            gaps: vec![Gap { thread: 0, begins_s: 1.5, seconds: 0.5 }],
            no_gaps: None,
            functions: Vec::new(),
        };
        let is_disturbed = |begins_s, lost| timeline.is_disturbed(&slice(begins_s, lost));
        assert!(is_disturbed(5.0, Some(1)) && is_disturbed(1.0, None) && is_disturbed(0.9, None));
        assert!(!is_disturbed(0.0, Some(0)) && !is_disturbed(2.0, None));
    }
}
