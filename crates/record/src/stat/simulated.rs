// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated caches, TLBs and processor.

use super::CacheShape;
use serde::{Deserialize, Serialize};

/// The simulated caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedCaches {
    /// Name or origin: `this machine`, `arm1176`, ...
    pub name: String,
    /// First-level instruction cache.
    pub i1: CacheShape,
    /// First-level data cache.
    pub d1: CacheShape,
    /// Last-level cache; the same as `d1` if there is no level beyond the first.
    pub ll: CacheShape,
    /// How the geometry was adjusted for the simulator, and how the model differs from the
    /// processor; empty if neither applies.
    pub note: String,
    /// The complete model, if it was simulated inside QEMU; `null` for Valgrind, which simulates
    /// only `i1`, `d1` and `ll`.
    #[serde(default)]
    pub machine: Option<SimulatedMachine>,
}

/// A processor's caches, TLBs and emulated instruction set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedMachine {
    /// The emulator that executed the program, such as `qemu-arm`; empty before one is chosen.
    pub emulator: String,
    /// QEMU's name for the emulated processor, such as `arm1176`, or `max` for every feature that
    /// QEMU emulates.
    pub processor: String,
    /// L1I, L1D and further levels, nearest to the core first.
    pub levels: Vec<SimulatedLevel>,
    /// Write policy of L1D.
    pub writes: Writes,
    /// TLBs; empty if they are unknown.
    pub tlbs: Vec<SimulatedTlb>,
    /// Page size of the program's memory, in bytes.
    pub page_bytes: u64,
}

/// One simulated cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedLevel {
    /// `L1I`, `L1D`, `L2` or `L3`.
    pub name: String,
    /// Size, associativity and line size.
    pub shape: CacheShape,
    /// Replacement policy.
    pub replacement: Replacement,
    /// Inclusion policy; `any` for L1.
    pub contents: Contents,
}

/// One simulated TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedTlb {
    /// `ITLB`, `DTLB`, or `TLB2` for a unified second level.
    pub name: String,
    /// Number of entries, each of which maps one page.
    pub entries: u32,
    /// Entries per set; equal to `entries` if fully associative.
    pub ways: u32,
    /// Replacement policy.
    pub replacement: Replacement,
}

/// Replacement policy: which entry of a set is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// The least recently used entry.
    Lru,
    /// The entry filled first, as with a round-robin pointer.
    Fifo,
    /// A random entry, drawn by a generator with a fixed seed.
    Random,
}

/// Write policy of the first-level data cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Writes {
    /// Write-allocate: a store that misses fetches the line.
    Allocate,
    /// No-write-allocate: a store that misses goes to the next level.
    Around,
    /// Write-through, no-write-allocate: every store goes to the next level, and a miss does not
    /// fetch the line.
    Through,
}

/// Inclusion policy: which lines a level holds, relative to the previous level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// Lines fetched for the previous level are kept here as well; the two levels evict
    /// independently.
    Any,
    /// As `any`, but a line evicted here is also evicted from all previous levels.
    Inclusive,
    /// Holds lines evicted from the previous level; a hit removes the line from this level.
    Exclusive,
    /// Holds lines evicted from the previous level; a hit leaves the line here.
    Victim,
}
