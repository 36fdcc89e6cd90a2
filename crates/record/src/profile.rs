// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `profile` record: the functions in which a program's threads spend CPU time,
//! determined by sampling.
//!
//! Shares are fractions of all samples of the program. Every sample represents the same amount of
//! CPU time or, with a PMU, the same number of cycles, so shares are also fractions of the
//! program's CPU time. Time spent asleep or waiting for a CPU is not sampled.

mod bound;
mod views;

pub use bound::{
    BoundBy, BoundEvidence, BoundFinding, BoundMeasure, MachineLimits, MeasuredValue, MemoryKind,
    MemoryShare, SimulatedFunction, SimulatedRun,
};
pub use views::{
    AnnotatedFunction, FunctionThen, Gap, InstructionCost, LineCost, SourceLine, ThreadTimeline,
    TimeSlice, Timeline,
};

use crate::figure::Figure;
use crate::why::{PacketCount, SharedLine, SleepTime, Unread};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Profile of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileReport {
    /// The sampled program.
    pub sampled: SampledProgram,
    /// Length of the sampling window, in seconds of wall time.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// How the program was sampled.
    pub sampling: SamplingMethod,
    /// CPU time of all threads in the window, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub cpu_s: f64,
    /// Number of samples.
    pub samples: u64,
    /// Samples lost because the ring buffer was full. If whole CPUs were sampled, this counts the
    /// lost records of all programs on these CPUs.
    pub lost_samples: u64,
    /// Sampled threads, most samples first.
    pub threads: Vec<SampledThread>,
    /// Functions, most self samples first.
    pub functions: Vec<FunctionCost>,
    /// Kinds of work, most samples first.
    pub classes: Vec<ClassCost>,
    /// Call tree; callers precede callees.
    pub calls: Vec<CallNode>,
    /// Packets in the window, counted at the requested interface or else by the program itself;
    /// `null` if neither count is available.
    pub packets: Option<PacketCount>,
    /// The profiler's own CPU time divided by `elapsed_s`, as a share of one CPU.
    pub observer: Figure,
    /// Evidence on what bounds the program and its hottest functions. The first entry is for the
    /// whole program.
    #[serde(default)]
    pub evidence: Vec<BoundEvidence>,
    /// What bounds the program and its hottest functions, in the order of `evidence`.
    #[serde(default)]
    pub bounds: Vec<BoundFinding>,
    /// System calls in which the program's threads slept, by descending share. Shares are averaged
    /// over all threads.
    #[serde(default)]
    pub asleep_on: Vec<SleepTime>,
    /// Cache sizes and memory bandwidth of this machine, with which the evidence is compared.
    #[serde(default)]
    pub limits: MachineLimits,
    /// Counts from a simulation of the same command (`--sim`); `null` without a simulation.
    #[serde(default)]
    pub simulated: Option<SimulatedRun>,
    /// Samples taken while waiting for memory accesses, by kind of memory; most samples first.
    /// Empty if addresses could not be sampled.
    #[serde(default)]
    pub memory: Vec<MemoryShare>,
    /// Cache lines that several threads use and at least one writes, by descending number of
    /// samples.
    #[serde(default)]
    pub shared_lines: Vec<SharedLine>,
    /// The instructions of one function; `null` unless requested.
    #[serde(default)]
    pub annotated: Option<AnnotatedFunction>,
    /// Samples over time; `null` unless requested.
    #[serde(default)]
    pub timeline: Option<Timeline>,
    /// Format of the other profiler's output that the profile was imported from: `perf script`;
    /// `null` if linerate sampled the program.
    #[serde(default)]
    pub imported_from: Option<String>,
    /// Information that could not be sampled, each entry with its reason.
    pub unread: Vec<Unread>,
}

/// The sampled program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledProgram {
    /// Program name as reported by the kernel (at most 15 bytes).
    pub name: String,
    /// IDs of the program's processes, including those started during the window.
    pub pids: Vec<u32>,
    /// Whether `profile` started the program as a command.
    pub is_command: bool,
    /// Exit status or signal if the program ended within the window: `exit status 1`, `SIGKILL`;
    /// `null` if it was still running.
    pub ended: Option<String>,
    /// Whether the user ended the sampling window early.
    pub interrupted: bool,
}

/// How a program was sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SamplingMethod {
    /// Sampled event: `cycles`, or `cpu-clock` without a PMU.
    pub event: String,
    /// Samples per second of a thread's on-CPU time. With `cycles`, at the frequency measured
    /// before the window.
    #[serde(serialize_with = "crate::finite")]
    pub rate_hz: f64,
    /// Whether kernel code was sampled. If not, time in the kernel is attributed to a single
    /// function, `[not in user mode]`.
    pub has_kernel: bool,
    /// Whether whole CPUs were sampled and the samples of other programs ignored, because the
    /// program's threads switch so often that per-thread events would have slowed them down.
    #[serde(default)]
    pub is_by_cpu: bool,
    /// Number of slices in the window. Intervals are computed by resampling slices.
    pub slices: u32,
    /// Bytes of stack copied with each sample in order to unwind it with `.eh_frame`; `null` if
    /// frame pointers were used.
    pub stack_bytes: Option<u32>,
    /// Number of samples whose call chain does not reach the thread's first function, because the
    /// stack was deeper than the copied part or unwind rows are missing. `null` with frame
    /// pointers, where this is unknown.
    pub incomplete_chains: Option<u64>,
    /// CPU time that one sample costs the sampled thread, measured before the window; higher if
    /// stacks are copied. `null` in older records.
    #[serde(default)]
    pub sample_cost: Option<Figure>,
}

impl SamplingMethod {
    /// Maximum of `stack_bytes`. A record in the kernel's ring buffer is at most 64 KiB, including
    /// the other fields of the sample.
    pub const MAX_STACK_BYTES: u32 = 63 << 10;
}

/// A sampled thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledThread {
    /// ID of the thread's process.
    pub pid: u32,
    /// Thread ID.
    pub tid: u32,
    /// Thread name at its last sample.
    pub name: String,
    /// Number of the thread's samples.
    pub samples: u64,
    /// Share of the thread's CPU time spent on packets rather than in its poll loop, 0 to 1, fitted
    /// from samples and packets per slice.
    pub busy: Figure,
    /// This thread's CPU time per packet of the program, in nanoseconds, excluding the poll loop.
    pub ns_per_packet: Figure,
    /// Packet rate at which the thread would spend all of its CPU time on packets, in packets per
    /// second.
    pub capacity: Figure,
}

/// Cost of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionCost {
    /// Function name, or file and offset if it has none: `dpdk-testpmd+0x7cd00`.
    pub name: String,
    /// Binary or shared library that contains the function; `kernel` for kernel functions.
    pub module: String,
    /// Kind of work that the function does, inferred from its name and file.
    pub class: CostClass,
    /// Number of self samples, excluding callees.
    pub samples: u64,
    /// Share of the program's samples in the function itself, 0 to 1.
    pub share: Figure,
    /// Number of samples including callees.
    pub samples_with_callees: u64,
    /// Self CPU time per packet, in nanoseconds. Excludes the poll loop of threads whose `busy` is
    /// known; includes all time of other threads.
    pub ns_per_packet: Figure,
    /// Whether the function is part of the poll loop, inferred from whether its share of a polling
    /// thread falls as the packet rate rises; `null` if undetermined.
    pub is_polling: Option<bool>,
}

/// Cost of all functions that do the same kind of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassCost {
    /// The kind of work.
    pub class: CostClass,
    /// Number of samples in functions of this kind.
    pub samples: u64,
    /// Share of the program's samples in functions of this kind, 0 to 1.
    pub share: Figure,
    /// CPU time per packet in functions of this kind, in nanoseconds.
    pub ns_per_packet: Figure,
}

/// A node of the call tree: a function reached along one call path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallNode {
    /// Index of the caller in `calls`, always less than this node's; `null` for the first function
    /// of a thread.
    pub caller: Option<u32>,
    /// Index of the thread in `threads`.
    pub thread: u32,
    /// Index of the function in `functions`.
    pub function: u32,
    /// Number of the function's self samples on this call path.
    pub samples: u64,
}

/// Builds a call tree from chains of calls.
#[derive(Debug, Default)]
pub struct CallTree {
    /// The nodes, as in [`ProfileReport::calls`].
    pub nodes: Vec<CallNode>,
    /// Indices of the nodes, by caller, thread and function.
    known: HashMap<(Option<u32>, u32, u32), u32>,
}

impl CallTree {
    /// Adds `samples` self samples to the last function of `chain`, which starts with the outermost
    /// caller. Thread and functions are indices, as in [`CallNode`]. An empty chain adds nothing.
    pub fn add(&mut self, thread: u32, chain: impl IntoIterator<Item = u32>, samples: u64) {
        let mut caller = None;
        for function in chain {
            let next = self.nodes.len() as u32;
            let node = *self.known.entry((caller, thread, function)).or_insert(next);
            if node == next {
                self.nodes.push(CallNode { caller, thread, function, samples: 0 });
            }
            caller = Some(node);
        }
        if let Some(node) = caller {
            self.nodes[node as usize].samples += samples;
        }
    }
}

/// Kinds of work done by packet-processing programs. Minor versions may add kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CostClass {
    /// Copying bytes, in user space or between user and kernel.
    Copy,
    /// Computing checksums.
    Checksum,
    /// Allocating and freeing memory and buffers.
    Allocation,
    /// Taking, waiting for and releasing locks.
    Lock,
    /// Entering and leaving the kernel.
    SystemCallEntry,
    /// Page faults, and mapping and unmapping memory.
    PageFault,
    /// Tracking connections and filtering packets.
    Filter,
    /// Splitting packets into segments, and coalescing segments (GSO, GRO).
    Segmentation,
    /// Encrypting, decrypting and hashing.
    Crypto,
    /// Compressing and decompressing.
    Compression,
    /// Time in NIC drivers and the kernel's network device layer.
    Driver,
    /// Scheduling, waking and switching threads.
    Scheduler,
    /// Polling for work in a loop.
    Polling,
    /// Idling: the idle loop of a CPU.
    Idle,
    /// The program's own code: user mode, none of the above.
    Program,
    /// Kernel code, none of the above.
    Kernel,
    /// Unknown kind of work, from a record written by a newer version.
    #[serde(other)]
    Unknown,
}

impl CostClass {
    /// All kinds of work, in table order, without `Unknown`.
    pub const ALL: [Self; 16] = [
        Self::Copy,
        Self::Checksum,
        Self::Allocation,
        Self::Lock,
        Self::SystemCallEntry,
        Self::PageFault,
        Self::Filter,
        Self::Segmentation,
        Self::Crypto,
        Self::Compression,
        Self::Driver,
        Self::Scheduler,
        Self::Polling,
        Self::Idle,
        Self::Program,
        Self::Kernel,
    ];

    /// Returns the kind's keyword in records and in the list of function name patterns.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Checksum => "checksum",
            Self::Allocation => "allocation",
            Self::Lock => "lock",
            Self::SystemCallEntry => "system_call_entry",
            Self::PageFault => "page_fault",
            Self::Filter => "filter",
            Self::Segmentation => "segmentation",
            Self::Crypto => "crypto",
            Self::Compression => "compression",
            Self::Driver => "driver",
            Self::Scheduler => "scheduler",
            Self::Polling => "polling",
            Self::Idle => "idle",
            Self::Program => "program",
            Self::Kernel => "kernel",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the kind's display name.
    pub fn title(self) -> String {
        match self {
            Self::SystemCallEntry => "syscall entry".to_owned(),
            other => other.name().replace('_', " "),
        }
    }
}

impl ProfileReport {
    /// Returns the functions on the call path to node `node`, outermost caller first.
    pub fn path(&self, node: usize) -> Vec<&FunctionCost> {
        let mut path = Vec::new();
        let mut next = Some(node);
        while let Some((at, node)) = next.and_then(|at| Some((at, self.calls.get(at)?))) {
            path.extend(self.functions.get(node.function as usize));
            // Callers must precede callees, so a damaged record cannot cause an infinite loop.
            next = node.caller.map(|caller| caller as usize).filter(|caller| *caller < at);
        }
        path.reverse();
        path
    }

    /// Returns the thread in which a node was sampled; `None` if the record is damaged and lists no
    /// such thread.
    pub fn thread_of(&self, node: &CallNode) -> Option<&SampledThread> {
        self.threads.get(node.thread as usize)
    }

    /// Returns the mean CPU time per sample, in nanoseconds. With `cycles`, this is CPU time
    /// divided by samples: a sample is taken every fixed number of cycles, whose duration depends
    /// on the core clock during the window. With `cpu-clock`, or if only user mode was sampled, so
    /// that samples cover an unknown part of the CPU time, this is the inverse of `rate_hz`.
    pub fn ns_per_sample(&self) -> f64 {
        let samples = self.samples + self.lost_samples;
        let is_of_all = self.sampling.event == "cycles" && self.sampling.has_kernel;
        match is_of_all && self.cpu_s > 0.0 && samples > 0 {
            true => self.cpu_s * 1e9 / samples as f64,
            false => 1e9 / self.sampling.rate_hz.max(f64::MIN_POSITIVE),
        }
    }

    /// Returns each function's rank: 1 plus the number of functions whose interval is entirely
    /// above its own. Functions of equal rank cannot be ordered.
    pub fn ranks(&self) -> Vec<usize> {
        let ends: Vec<(f64, f64)> = self.functions.iter().map(|one| ends(&one.share)).collect();
        let above = |high: f64| ends.iter().filter(|(low, _)| *low > high).count();
        ends.iter().map(|(_, high)| 1 + above(*high)).collect()
    }

    /// Returns the margin of error of the first, and therefore largest, share: half the width of
    /// its interval. `None` if the interval is unknown.
    pub fn margin(&self) -> Option<f64> {
        let share = &self.functions.first()?.share;
        Some((share.high? - share.low?) / 2.0)
    }

    /// Returns how many samples would narrow the interval of the first function's share to
    /// ±`margin`, assuming unchanged behaviour; `None` if that interval is unknown.
    pub fn samples_for(&self, margin: f64) -> Option<u64> {
        let factor = (self.margin()? / margin).powi(2);
        (margin > 0.0).then(|| (self.samples as f64 * factor).round() as u64)
    }
}

/// Returns both ends of a share's interval. Both equal the share itself if it has no interval, as
/// for functions with very few samples.
fn ends(share: &Figure) -> (f64, f64) {
    let value = share.as_number().unwrap_or(0.0);
    match (share.low, share.high) {
        (Some(low), Some(high)) => (low, high),
        _ => (value, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tier, fixtures};

    #[test]
    fn functions_are_ranked_only_where_their_intervals_separate() {
        let mut report = fixtures::profile();
        let model = report.functions[0].clone();
        let function = |value: f64, low: f64, high: f64| FunctionCost {
            share: Figure {
                low: Some(low),
                high: Some(high),
                ..Figure::exact("ratio", value, Tier::Sw, "")
            },
            ..model.clone()
        };
        report.functions = vec![
            function(0.5, 0.45, 0.55),
            function(0.2, 0.16, 0.24),
            function(0.19, 0.15, 0.23),
            function(0.11, 0.08, 0.155),
        ];
        assert_eq!(report.ranks(), [1, 2, 2, 3]);
        report.samples = 1000;
        assert_eq!(report.samples_for(0.05), Some(1000));
        assert_eq!(report.samples_for(0.01), Some(25_000));
    }
}
