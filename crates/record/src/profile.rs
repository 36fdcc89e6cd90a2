// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `profile` record: the functions in which a program's threads spend CPU time, from
//! samples.
//!
//! Shares refer to all samples of the program. Since each sample represents the same amount of
//! time, they are also shares of its CPU time. Time asleep or waiting for a CPU is not sampled.

use crate::figure::Figure;
use crate::why::{PacketCount, Unread};
use serde::{Deserialize, Serialize};

/// Profile of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileReport {
    /// The sampled program.
    pub sampled: SampledProgram,
    /// Length of the sampling window, in seconds of wall time.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// How the samples were taken.
    pub sampling: SamplingMethod,
    /// CPU time of all threads in the window, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub cpu_s: f64,
    /// Number of samples.
    pub samples: u64,
    /// Samples lost because the ring buffer was full.
    pub lost_samples: u64,
    /// The sampled threads, by descending number of samples.
    pub threads: Vec<SampledThread>,
    /// Functions, by descending number of samples in the function itself.
    pub functions: Vec<FunctionCost>,
    /// Kinds of work, by descending number of samples.
    pub classes: Vec<ClassCost>,
    /// The call chains as a tree: callers before callees.
    pub calls: Vec<CallNode>,
    /// Packets in the window: those of the requested interface, or else those that the program
    /// itself counts; `null` if neither is known.
    pub packets: Option<PacketCount>,
    /// CPU time of the profiler itself divided by `elapsed_s`, as a share of one CPU.
    pub observer: Figure,
    /// Information that could not be sampled, each entry with its reason.
    pub unread: Vec<Unread>,
}

/// The sampled program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledProgram {
    /// Name of the program as reported by the kernel (at most 15 bytes).
    pub name: String,
    /// IDs of the program's processes, including processes that were started during the window.
    pub pids: Vec<u32>,
    /// Whether the program was a command that `profile` started.
    pub is_command: bool,
    /// How the program ended within the window: `exit status 1`, `SIGKILL`; `null` if it was still
    /// running at the end.
    pub ended: Option<String>,
    /// Whether the user ended the sampling window early.
    pub interrupted: bool,
}

/// Sampling method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SamplingMethod {
    /// Sampled event: `cycles`, or `cpu-clock` without a PMU.
    pub event: String,
    /// Number of samples per second of a thread's time on a CPU.
    #[serde(serialize_with = "crate::finite")]
    pub rate_hz: f64,
    /// Whether the kernel was sampled. If it was not, time in the kernel appears as a single
    /// function, `[not in user mode]`.
    pub has_kernel: bool,
    /// Number of slices in the window; slices are the unit of resampling for intervals.
    pub slices: u32,
    /// Number of bytes of the stack that were copied with each sample, to find the callers with
    /// `.eh_frame` unwind tables; `null` if callers were found by frame pointers.
    pub stack_bytes: Option<u32>,
    /// Number of samples whose call chain ends before the first function of its thread: the stack
    /// was deeper than the copied part, or unwind rows are missing. `null` with frame pointers, for
    /// which the number is unknown.
    pub incomplete_chains: Option<u64>,
}

/// A sampled thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledThread {
    /// ID of the thread's process.
    pub pid: u32,
    /// Thread ID.
    pub tid: u32,
    /// Name of the thread at its last sample.
    pub name: String,
    /// Number of samples of the thread.
    pub samples: u64,
    /// Share of the thread's CPU time spent on packets, 0 to 1, fitted from the samples and packets
    /// per slice; the rest is spent in its poll loop.
    pub busy: Figure,
    /// CPU time of this thread per packet of the program, in nanoseconds, excluding the poll loop.
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
    /// File that contains the function; `kernel` for functions of the kernel.
    pub module: String,
    /// Kind of work that the function does, determined by its name and file.
    pub class: CostClass,
    /// Number of samples in the function itself, excluding its callees.
    pub samples: u64,
    /// Share of the program's samples that are in the function itself, 0 to 1.
    pub share: Figure,
    /// Number of samples in the function or its callees.
    pub samples_with_callees: u64,
    /// CPU time per packet in the function itself, in nanoseconds. It excludes the poll loop of
    /// threads whose `busy` is known, and includes all time of other threads.
    pub ns_per_packet: Figure,
    /// Whether the function belongs to the poll loop, because its share of a polling thread falls
    /// as the packet rate rises; `null` if undetermined.
    pub is_polling: Option<bool>,
}

/// Cost of all functions that do one kind of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassCost {
    /// The kind of work.
    pub class: CostClass,
    /// Number of samples in functions of this kind.
    pub samples: u64,
    /// Share of the program's samples that are in functions of this kind, 0 to 1.
    pub share: Figure,
    /// CPU time per packet in functions of this kind, in nanoseconds.
    pub ns_per_packet: Figure,
}

/// A node of the call tree: a function, called on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallNode {
    /// Index of the caller in `calls`, always smaller than the node's own index; `null` for the
    /// first function of a thread.
    pub caller: Option<u32>,
    /// Index of the thread in `threads`.
    pub thread: u32,
    /// Index of the function in `functions`.
    pub function: u32,
    /// Number of samples in the function itself when it was called on this path.
    pub samples: u64,
}

/// Kinds of work in a packet-processing program.
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
    /// Running NIC drivers and the kernel's device layer.
    Driver,
    /// Scheduling, waking and switching threads.
    Scheduler,
    /// Polling for work in a loop.
    Polling,
    /// Idling: the idle loop of a CPU.
    Idle,
    /// The program's own work: user mode, but none of the above.
    Program,
    /// Kernel work that is none of the above.
    Kernel,
}

impl CostClass {
    /// All kinds of work, in the order in which tables list them.
    pub const ALL: [Self; 15] = [
        Self::Copy,
        Self::Checksum,
        Self::Allocation,
        Self::Lock,
        Self::SystemCallEntry,
        Self::PageFault,
        Self::Filter,
        Self::Segmentation,
        Self::Crypto,
        Self::Driver,
        Self::Scheduler,
        Self::Polling,
        Self::Idle,
        Self::Program,
        Self::Kernel,
    ];

    /// Returns the keyword of the kind in records and in the list of function name patterns.
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
            Self::Driver => "driver",
            Self::Scheduler => "scheduler",
            Self::Polling => "polling",
            Self::Idle => "idle",
            Self::Program => "program",
            Self::Kernel => "kernel",
        }
    }

    /// Returns the name of the kind for display.
    pub fn title(self) -> String {
        match self {
            Self::SystemCallEntry => "syscall entry".to_owned(),
            other => other.name().replace('_', " "),
        }
    }
}

impl ProfileReport {
    /// Returns the functions on the call path to the node with index `node` in `calls`, outermost
    /// caller first.
    pub fn path(&self, node: usize) -> Vec<&FunctionCost> {
        let mut path = Vec::new();
        let mut next = Some(node);
        while let Some((at, node)) = next.and_then(|at| Some((at, self.calls.get(at)?))) {
            path.extend(self.functions.get(node.function as usize));
            // A caller must precede its callees, so that a damaged record cannot cause an infinite
            // loop.
            next = node.caller.map(|caller| caller as usize).filter(|caller| *caller < at);
        }
        path.reverse();
        path
    }

    /// Returns the thread in which a node was sampled; `None` if a damaged record lists no such
    /// thread.
    pub fn thread_of(&self, node: &CallNode) -> Option<&SampledThread> {
        self.threads.get(node.thread as usize)
    }

    /// Returns the rank of each function: 1, plus 1 for each function whose share is significantly
    /// larger, with an interval that lies entirely above. Functions of equal rank cannot be
    /// ordered.
    pub fn ranks(&self) -> Vec<usize> {
        let ends: Vec<(f64, f64)> = self.functions.iter().map(|one| ends(&one.share)).collect();
        let above = |high: f64| ends.iter().filter(|(low, _)| *low > high).count();
        ends.iter().map(|(_, high)| 1 + above(*high)).collect()
    }

    /// Returns half the width of the interval of the first function's share, which is the largest;
    /// `None` if the interval is unknown.
    pub fn margin(&self) -> Option<f64> {
        let share = &self.functions.first()?.share;
        Some((share.high? - share.low?) / 2.0)
    }

    /// Returns the number of samples required to know the first function's share to within
    /// ±`margin`, if the program's behaviour does not change; `None` if the interval of that share
    /// is unknown.
    pub fn samples_for(&self, margin: f64) -> Option<u64> {
        let factor = (self.margin()? / margin).powi(2);
        (margin > 0.0).then(|| (self.samples as f64 * factor).round() as u64)
    }
}

/// Returns the low and the high end of a share's interval. A share without an interval, as for
/// functions with very few samples, is both ends itself.
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
