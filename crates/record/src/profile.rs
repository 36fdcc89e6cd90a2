// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `profile` record: the functions in which a program's threads spend CPU time, from
//! samples.
//!
//! Shares refer to all samples of the program and, since each sample represents the same amount of
//! time, to its CPU time. Time asleep or waiting for a CPU is not sampled.

use crate::figure::Figure;
use crate::why::{PacketCount, Unread};
use serde::{Deserialize, Serialize};

/// Profile of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileReport {
    /// The sampled program.
    pub sampled: SampledProgram,
    /// Length of the window, in seconds of wall time.
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
    /// Packets of the requested interface, or else those that the program itself counts; `null`
    /// without either.
    pub packets: Option<PacketCount>,
    /// CPU time of the profiler itself divided by `elapsed_s`, as a share of one CPU.
    pub observer: Figure,
    /// What could not be sampled, each with its reason.
    pub unread: Vec<Unread>,
}

/// The sampled program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledProgram {
    /// Name as the kernel has it (at most 15 bytes).
    pub name: String,
    /// IDs of the processes, including those started during the window.
    pub pids: Vec<u32>,
    /// Whether the program was a command that `profile` started.
    pub is_command: bool,
    /// How the program ended within the window: `exit status 1`, `SIGKILL`; `null` if it was still
    /// running.
    pub ended: Option<String>,
    /// Whether the user ended the window early.
    pub interrupted: bool,
}

/// Sampling method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SamplingMethod {
    /// Sampled event: `cycles`, or `cpu-clock` without a PMU.
    pub event: String,
    /// Samples per second of a thread's running time.
    #[serde(serialize_with = "crate::finite")]
    pub rate_hz: f64,
    /// Whether the kernel was sampled. If not, its time appears as a single function, `[not in user
    /// mode]`.
    pub has_kernel: bool,
    /// Number of slices in the window; slices are the unit of resampling for intervals.
    pub slices: u32,
    /// Stack bytes per sample, in which callers were found by `.eh_frame`; `null` if they were
    /// found by frame pointers.
    pub stack_bytes: Option<u32>,
    /// Samples whose call chain ends before the first function of its thread: the stack was deeper
    /// than its copy, or unwind rows are missing. `null` with frame pointers, for which it is
    /// unknown.
    pub incomplete_chains: Option<u64>,
}

/// A sampled thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledThread {
    /// Its process.
    pub pid: u32,
    /// Its thread ID.
    pub tid: u32,
    /// Name of the thread at its last sample.
    pub name: String,
    /// Number of samples of the thread.
    pub samples: u64,
    /// Share of its CPU time spent on packets; the rest is its poll loop. Fitted from samples and
    /// packets per slice.
    pub busy: Figure,
    /// This thread's CPU time per packet of the program, without the poll loop.
    pub ns_per_packet: Figure,
    /// Packets per second at which it would be busy for all of its CPU time.
    pub capacity: Figure,
}

/// Cost of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionCost {
    /// Function name, or file and offset if it has none: `dpdk-testpmd+0x7cd00`.
    pub name: String,
    /// File that contains the function; `kernel` for the kernel.
    pub module: String,
    /// Kind of work, determined by name and file.
    pub class: CostClass,
    /// Samples in the function itself.
    pub samples: u64,
    /// Share of all samples in the function itself.
    pub share: Figure,
    /// Samples in the function or its callees.
    pub samples_with_callees: u64,
    /// CPU time per packet in the function itself, without the poll loop in threads whose `busy` is
    /// known; otherwise all of it.
    pub ns_per_packet: Figure,
    /// Whether its share of a polling thread falls as packets rise: it belongs to the poll loop.
    /// `null` if undetermined.
    pub is_polling: Option<bool>,
}

/// Cost of a kind of work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassCost {
    /// The kind of work.
    pub class: CostClass,
    /// Samples in functions of this kind.
    pub samples: u64,
    /// Share of all samples.
    pub share: Figure,
    /// CPU time per packet.
    pub ns_per_packet: Figure,
}

/// A function on one call path.
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
    /// Samples in the function itself when called on this path.
    pub samples: u64,
}

/// Kinds of work in a packet-processing program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CostClass {
    /// Copying bytes, in user space or between user and kernel.
    Copy,
    /// Checksums.
    Checksum,
    /// Allocating and freeing memory and buffers.
    Allocation,
    /// Taking, waiting for and releasing locks.
    Lock,
    /// Entering and leaving the kernel.
    SystemCallEntry,
    /// Page faults, and mapping and unmapping memory.
    PageFault,
    /// Connection tracking and packet filters.
    Filter,
    /// Segmentation and its reverse (GSO, GRO).
    Segmentation,
    /// Ciphers and hashes.
    Crypto,
    /// NIC drivers and the device layer.
    Driver,
    /// Scheduling, waking and switching threads.
    Scheduler,
    /// Polling for work.
    Polling,
    /// Idling.
    Idle,
    /// The program's own work: user mode, but none of the above.
    Program,
    /// Other kernel work.
    Kernel,
}

impl CostClass {
    /// All kinds, in the order in which they are listed.
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

    /// Returns the keyword in records and in the list of patterns.
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

    /// Display name.
    pub fn title(self) -> String {
        match self {
            Self::SystemCallEntry => "syscall entry".to_owned(),
            other => other.name().replace('_', " "),
        }
    }
}

impl ProfileReport {
    /// Returns the functions on the call path to a node, outermost caller first.
    pub fn path(&self, node: usize) -> Vec<&FunctionCost> {
        let mut path = Vec::new();
        let mut next = Some(node);
        while let Some((at, node)) = next.and_then(|at| Some((at, self.calls.get(at)?))) {
            path.extend(self.functions.get(node.function as usize));
            // Callers must come first, so that a damaged record cannot cause an infinite loop.
            next = node.caller.map(|caller| caller as usize).filter(|caller| *caller < at);
        }
        path.reverse();
        path
    }

    /// Returns the thread of a node.
    pub fn thread_of(&self, node: &CallNode) -> Option<&SampledThread> {
        self.threads.get(node.thread as usize)
    }

    /// Returns the rank of each function: 1, plus 1 for each function whose share is significantly
    /// larger. Functions of equal rank cannot be ordered.
    pub fn ranks(&self) -> Vec<usize> {
        let ends: Vec<(f64, f64)> = self.functions.iter().map(|one| ends(&one.share)).collect();
        let above = |high: f64| ends.iter().filter(|(low, _)| *low > high).count();
        ends.iter().map(|(_, high)| 1 + above(*high)).collect()
    }

    /// Returns half the width of the interval of the first function's share; `None` if unknown.
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

/// Returns the interval of a share; if it has none, as for functions with very few samples, the
/// share itself as both ends.
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
