// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of a simulated command by function and source line, and the counts by instruction from
//! which they are computed.

use crate::why::Unread;
use serde::{Deserialize, Serialize};

/// Counts of a simulated command by function (`--hot`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HotSpots {
    /// Requested event, by which functions are sorted; one of `events`.
    pub by: String,
    /// Events that are counted by function; all `counts` are in this order.
    pub events: Vec<String>,
    /// Counts of the whole command: the sum over `functions` for each event.
    pub totals: Vec<u64>,
    /// All functions that were executed, by descending count of `by`.
    pub functions: Vec<HotFunction>,
    /// Code without names or source lines, each entry with its reason.
    pub unread: Vec<Unread>,
}

/// Counts of a function, excluding its callees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HotFunction {
    /// Function name, or file and first address if it has none: `sort+0x4120`.
    pub name: String,
    /// Binary or shared library that contains the function; `[anon]` for code that is not in a
    /// file, and `[other code]` for instructions that the simulator had no room to count
    /// individually.
    pub module: String,
    /// Counts, in the order of `events`.
    pub counts: Vec<u64>,
    /// Source lines by descending count of the requested event, at most 20; empty without debug
    /// information.
    pub lines: Vec<HotLine>,
}

/// Counts of a source line within a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HotLine {
    /// Path of the source file at compile time; for an inlined line, the file that the line comes
    /// from.
    pub file: String,
    /// Line number, from 1.
    pub line: u32,
    /// Counts, in the order of `events`.
    pub counts: Vec<u64>,
}

impl HotSpots {
    /// Returns the count of `event` from `counts`, the counts of a function, a line or the whole
    /// command; 0 if `events` does not contain the event.
    pub fn count(&self, event: &str, counts: &[u64]) -> u64 {
        let place = self.events.iter().position(|one| one == event);
        place.and_then(|place| counts.get(place)).copied().unwrap_or(0)
    }
}

/// Counts by instruction, from which the counts by function are computed. Not part of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeCounts {
    /// Event by which functions are to be sorted; one of `events`.
    pub by: String,
    /// Names of the events; all counts are in this order.
    pub events: Vec<String>,
    /// Files that contain executed code, without duplicates.
    pub files: Vec<CodeFile>,
    /// Counts per instruction, by file and position.
    pub spots: Vec<CodeSpot>,
    /// Total counts of the instructions that the simulator had no room to count individually.
    pub rest: Vec<u64>,
}

/// A file that contains executed code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodeFile {
    /// Device as in /proc/PID/maps: `fd:00`.
    pub device: String,
    /// Inode number.
    pub inode: u64,
    /// Path, perhaps followed by ` (deleted)`.
    pub path: String,
}

/// An instruction and its counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeSpot {
    /// Index of the file in `files`; `None` for code that is not in a file.
    pub file: Option<u32>,
    /// Offset in the file in bytes, or the address if the code is not in a file.
    pub position: u64,
    /// Counts, in the order of the events.
    pub counts: Vec<u64>,
}
