// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bounds a program and its functions: the measured evidence, and the conclusions from it.

use crate::answers::Evidence;
use crate::figure::{Figure, Tier};
use crate::stat::SimulatedCaches;
use serde::{Deserialize, Serialize};

/// What a program or a function spends its time on, as a keyword of the published list. Minor
/// versions may add keywords.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BoundBy {
    /// Arithmetic on data that is already available: the execution units set the pace.
    Compute,
    /// Waiting for individual loads, because each depends on the previous one or because their
    /// addresses are far apart.
    MemoryLatency,
    /// Moving data to and from memory at full bandwidth.
    MemoryBandwidth,
    /// Waiting for instructions: the caches and decoders cannot supply the hot code fast enough.
    FrontEnd,
    /// Mispredicted branches.
    Branches,
    /// Waiting for other threads: at a lock, a condition variable or a contended atomic variable.
    Locks,
    /// Entering the kernel, and the kernel's work on behalf of system calls.
    SystemCalls,
    /// Page faults, and mapping and unmapping memory.
    PageFaults,
    /// Waiting for a timer or for input, either asleep or polling.
    Waiting,
    /// The evidence does not single out one of the above.
    CannotTell,
    /// Unknown keyword, from a record written by a newer version.
    #[serde(other)]
    Unknown,
}

impl BoundBy {
    /// All keywords, in the order of the published list, without `Unknown`.
    pub const ALL: [Self; 10] = [
        Self::Compute,
        Self::MemoryLatency,
        Self::MemoryBandwidth,
        Self::FrontEnd,
        Self::Branches,
        Self::Locks,
        Self::SystemCalls,
        Self::PageFaults,
        Self::Waiting,
        Self::CannotTell,
    ];

    /// Returns the keyword in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::MemoryLatency => "memory_latency",
            Self::MemoryBandwidth => "memory_bandwidth",
            Self::FrontEnd => "front_end",
            Self::Branches => "branches",
            Self::Locks => "locks",
            Self::SystemCalls => "system_calls",
            Self::PageFaults => "page_faults",
            Self::Waiting => "waiting",
            Self::CannotTell => "cannot_tell",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the name for display.
    pub fn title(self) -> String {
        match self {
            Self::Unknown => crate::why::UNKNOWN_TITLE.to_owned(),
            _ => self.name().replace('_', " "),
        }
    }
}

/// What bounds the program or one of its functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BoundFinding {
    /// Index of the function in `functions`; `null` for the whole program.
    pub function: Option<u32>,
    /// The conclusion.
    pub bound_by: BoundBy,
    /// Weakest evidence tier of the figures on which the conclusion is based; `null` if there is no
    /// conclusion.
    pub tier: Option<Tier>,
    /// The conclusion in one sentence, with its figures; if there is no conclusion, the reason why.
    pub sentence: String,
    /// Figures on which the conclusion is based.
    pub evidence: Vec<Evidence>,
    /// A measurement, and the result that would disprove the conclusion; `null` if there is no
    /// conclusion.
    pub wrong_if: Option<String>,
    /// Command that takes the missing measurement, or where to look next.
    pub next: String,
}

/// Evidence on what bounds the program or one of its functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BoundEvidence {
    /// Index of the function in `functions`; `null` for the whole program.
    pub function: Option<u32>,
    /// The measured values.
    pub measures: Vec<MeasuredValue>,
}

impl BoundEvidence {
    /// Returns the figure for a measure; `None` if it was not measured.
    pub fn figure(&self, measure: BoundMeasure) -> Option<&Figure> {
        let found = self.measures.iter().find(|one| one.measure == measure);
        found.map(|one| &one.figure)
    }
}

/// One measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MeasuredValue {
    /// Measured quantity.
    pub measure: BoundMeasure,
    /// Value of the measured quantity.
    pub figure: Figure,
}

/// Measures in [`BoundEvidence`]. Shares are fractions of all samples of the program or function, 0
/// to 1. A sample is *taken while waiting for* the instruction before the sampled address, which
/// was the oldest instruction in flight. Minor versions may add measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BoundMeasure {
    /// Share of samples in user mode.
    UserMode,
    /// Share of samples in the kernel on behalf of system calls.
    UnderSystemCalls,
    /// Share of samples in page faults, and in mapping and unmapping memory.
    InPageFaults,
    /// Share of samples in lock functions and in futex system calls.
    InLocks,
    /// Share of samples in copy functions.
    InCopies,
    /// Share of samples in user mode for which the instruction before the sampled one was decoded.
    Decoded,
    /// Share of samples taken while waiting for register-addressed loads, excluding loads from the
    /// stack.
    Loads,
    /// Share of samples taken while waiting for loads whose address depends on the previous load.
    DependentLoads,
    /// Share of samples taken while waiting for register-addressed stores, excluding stores to the
    /// stack.
    Stores,
    /// Share of samples taken while waiting for divisions, multiplications, floating-point and
    /// cipher instructions without a memory operand.
    LongArithmetic,
    /// Share of samples taken while waiting for instructions that have no memory operand and are in
    /// no other class.
    SimpleInstructions,
    /// Share of samples taken while waiting for atomic read-modify-write instructions.
    Atomics,
    /// Share of samples taken while waiting for spin-wait hints (`pause`).
    Pauses,
    /// Share of samples at the first two instructions after a branch, outside of straight loops.
    BehindBranches,
    /// Share of samples in loops whose only branch is the back edge.
    StraightLoops,
    /// Share of samples that access bytes used by several threads, at least one of which writes
    /// them.
    ContendedBytes,
    /// Share of samples at the most frequently accessed address; high in loops that poll a
    /// variable.
    OneAddress,
    /// Memory in use, in bytes, estimated from sampled addresses.
    WorkingSet,
    /// Memory in use by the thread with the most sampled accesses, in bytes.
    ThreadWorkingSet,
    /// Share of accesses made by streaming instructions: those whose successive addresses advance
    /// by a roughly constant stride.
    Streamed,
    /// Rate at which the streams of all threads together advance while at least one of these
    /// threads runs, in bytes per second.
    StreamRate,
    /// Code in use, in bytes, estimated from sampled instructions.
    CodeSize,
    /// Share of the window for which the busiest thread ran or waited for a CPU.
    Saturation,
    /// Share of the window that threads spent asleep on futexes, averaged over the threads counted
    /// in `working_threads`.
    AsleepOnFutex,
    /// Number of threads that ran for at least 5 % of the window.
    WorkingThreads,
    /// Mispredicted branches per 1000 instructions.
    Mispredictions,
    /// First-level instruction cache misses per 1000 instructions.
    InstructionMisses,
    /// First-level data cache misses per 1000 instructions.
    DataMisses,
    /// Last-level cache misses per 1000 instructions.
    LastLevelMisses,
    /// Unknown measure, from a record written by a newer version.
    #[serde(other)]
    Unknown,
}

impl BoundMeasure {
    /// Returns the measure in words.
    pub fn title(self) -> &'static str {
        match self {
            Self::UserMode => "in user mode",
            Self::UnderSystemCalls => "in system calls",
            Self::InPageFaults => "in page faults",
            Self::InLocks => "in locks",
            Self::InCopies => "in copies",
            Self::Decoded => "at decoded instructions",
            Self::Loads => "waiting for loads",
            Self::DependentLoads => "waiting for dependent loads",
            Self::Stores => "waiting for stores",
            Self::LongArithmetic => "waiting for long-latency arithmetic",
            Self::SimpleInstructions => "waiting for simple instructions",
            Self::Atomics => "waiting for atomics",
            Self::Pauses => "in pause",
            Self::BehindBranches => "after branches",
            Self::StraightLoops => "in straight loops",
            Self::ContendedBytes => "at contended bytes",
            Self::OneAddress => "at one address",
            Self::WorkingSet => "working set",
            Self::ThreadWorkingSet => "working set of one thread",
            Self::Streamed => "accesses in streams",
            Self::StreamRate => "rate of streams",
            Self::CodeSize => "code in use",
            Self::Saturation => "busiest thread running or runnable",
            Self::AsleepOnFutex => "asleep on futexes",
            Self::WorkingThreads => "working threads",
            Self::Mispredictions => "mispredictions per 1000 instructions",
            Self::InstructionMisses => "L1i misses per 1000 instructions",
            Self::DataMisses => "L1d misses per 1000 instructions",
            Self::LastLevelMisses => "LLC misses per 1000 instructions",
            Self::Unknown => crate::why::UNKNOWN_TITLE,
        }
    }
}

/// Cache sizes and memory bandwidth of this machine, with which evidence is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineLimits {
    /// Size of the first-level data cache in bytes, as reported by the kernel; `null` if unknown.
    pub l1d_bytes: Option<u64>,
    /// Size of the first-level instruction cache in bytes; `null` if unknown.
    pub l1i_bytes: Option<u64>,
    /// Size of the second-level cache in bytes; `null` if unknown.
    pub l2_bytes: Option<u64>,
    /// Size of the last-level cache in bytes; `null` if unknown.
    pub last_level_bytes: Option<u64>,
    /// Number of last-level caches, each `last_level_bytes` in size and shared by some of the CPUs;
    /// `null` if unknown.
    #[serde(default)]
    pub last_level_caches: Option<u32>,
    /// Combined memory read bandwidth of `read_threads` threads, in bytes per second, as measured
    /// by `linerate memory`; `null` if it was not measured.
    pub read_bytes_per_s: Option<f64>,
    /// Number of threads with which `read_bytes_per_s` was measured: at least as many as the
    /// program runs concurrently. `null` if `read_bytes_per_s` is, and in older records, which used
    /// one thread.
    #[serde(default)]
    pub read_threads: Option<u32>,
}

/// Simulated counts of the program's functions, from a run of the same command under Valgrind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedRun {
    /// The simulated caches.
    pub caches: SimulatedCaches,
    /// Functions, by descending number of instructions.
    pub functions: Vec<SimulatedFunction>,
}

/// Simulated counts of a function, excluding its callees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulatedFunction {
    /// Name of the function.
    pub name: String,
    /// Instructions.
    pub instructions: u64,
    /// Mispredicted branches, conditional and indirect.
    pub mispredictions: u64,
    /// First-level instruction cache misses.
    pub l1i_misses: u64,
    /// First-level data cache misses.
    pub l1d_misses: u64,
    /// Last-level cache misses.
    pub last_level_misses: u64,
}

/// Kinds of memory that programs access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Huge pages mapped from files, such as the packet buffers and rings of DPDK and VPP.
    HugePages,
    /// Rings shared with the kernel: those of AF_PACKET and AF_XDP sockets, and of io_uring.
    KernelRing,
    /// Memory shared with other processes.
    Shared,
    /// The heap.
    Heap,
    /// Stacks.
    Stack,
    /// Global variables and constants of the program and its libraries.
    Globals,
    /// Other file mappings.
    File,
    /// Anonymous mappings: large allocations, arenas, thread stacks.
    Anonymous,
    /// Unknown mappings, such as those created or removed during the window, and kinds that only a
    /// newer version knows.
    #[serde(other)]
    Unknown,
}

impl MemoryKind {
    /// Returns the keyword in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::HugePages => "huge_pages",
            Self::KernelRing => "kernel_ring",
            Self::Shared => "shared",
            Self::Heap => "heap",
            Self::Stack => "stack",
            Self::Globals => "globals",
            Self::File => "file",
            Self::Anonymous => "anonymous",
            Self::Unknown => "unknown",
        }
    }
}

/// Samples taken while waiting for accesses to one kind of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryShare {
    /// The kind of memory.
    pub kind: MemoryKind,
    /// Number of samples.
    pub samples: u64,
    /// Share of all samples of the program, 0 to 1.
    pub share: Figure,
}
