// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a `profile` record: in which functions the threads of a program spend their time on
//! a CPU, by samples.
//!
//! A share is that of all samples of the program, and as each sample stands for the same time, of
//! its time on a CPU. Time asleep or waiting for a CPU is in none of them.

use crate::figure::Figure;
use crate::why::{PacketCount, Unread};
use serde::{Deserialize, Serialize};

/// A profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileReport {
    /// The sampled program.
    pub sampled: SampledProgram,
    /// Length of the window, seconds of wall time.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// How the samples were taken.
    pub sampling: SamplingMethod,
    /// CPU time of all threads in the window, seconds.
    #[serde(serialize_with = "crate::finite")]
    pub cpu_s: f64,
    /// Samples.
    pub samples: u64,
    /// Samples that were lost because the ring between kernel and tool was full.
    pub lost_samples: u64,
    /// Threads that were sampled, the one with the most samples first.
    pub threads: Vec<SampledThread>,
    /// Functions, the one with the most samples of its own first.
    pub functions: Vec<FunctionCost>,
    /// Kinds of work, the one with the most samples first.
    pub classes: Vec<ClassCost>,
    /// The call chains, as a tree: callers before those they call.
    pub calls: Vec<CallNode>,
    /// Packets of the interface that was named, or else those that the program counts itself;
    /// `null` without either.
    pub packets: Option<PacketCount>,
    /// CPU time of the profiler itself over `elapsed_s`: a share of one CPU.
    pub observer: Figure,
    /// What could not be sampled, each with its reason.
    pub unread: Vec<Unread>,
}

/// The sampled program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledProgram {
    /// Its name, as the kernel has it (at most 15 bytes).
    pub name: String,
    /// The processes, those that were started in the window included.
    pub pids: Vec<u32>,
    /// Whether it was a command that `profile` started.
    pub is_command: bool,
    /// How it ended within the window: `exit status 1`, `SIGKILL`; `null` if it did not.
    pub ended: Option<String>,
    /// Whether the user ended the window before its time.
    pub interrupted: bool,
}

/// How samples were taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SamplingMethod {
    /// The event: `cycles`, or `cpu-clock` where there is no PMU.
    pub event: String,
    /// Samples per second of a thread that runs.
    #[serde(serialize_with = "crate::finite")]
    pub rate_hz: f64,
    /// Whether the kernel was sampled, too. Where not, its time is one function,
    /// `[not in user mode]`.
    pub has_kernel: bool,
    /// Parts of the window whose samples were counted apart: the samples of each interval.
    pub slices: u32,
    /// Bytes of the stack that each sample carried, from which callers were found by `.eh_frame`;
    /// `null` where they were found by frame pointers.
    pub stack_bytes: Option<u32>,
    /// Samples whose call chain ends before the first function of its thread: the stack was deeper
    /// than its copy, or rows of unwinding are missing. `null` with frame pointers, which do not
    /// say.
    pub incomplete_chains: Option<u64>,
}

/// A sampled thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampledThread {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// Its name at its last sample.
    pub name: String,
    /// Samples of it.
    pub samples: u64,
    /// Share of its time on a CPU that it spent on packets, the rest in its poll loop: by the
    /// samples of each slice over its packets.
    pub busy: Figure,
    /// CPU time of a packet of the program in this thread, without the poll loop.
    pub ns_per_packet: Figure,
    /// Packets per second at which it would be busy all of the time that it has a CPU.
    pub capacity: Figure,
}

/// A function and its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionCost {
    /// Its name, or its file and offset where it has none: `dpdk-testpmd+0x7cd00`.
    pub name: String,
    /// The file it is in; `kernel` for the kernel.
    pub module: String,
    /// The kind of work, by its name and file.
    pub class: CostClass,
    /// Samples in the function itself.
    pub samples: u64,
    /// Share of all samples that are in the function itself.
    pub share: Figure,
    /// Samples in it or in what it called.
    pub samples_with_callees: u64,
    /// CPU time per packet in the function itself. Of threads that poll, without the poll loop if
    /// their `busy` is known; else all of it.
    pub ns_per_packet: Figure,
    /// Whether its share of a thread that polls falls as packets rise: it belongs to the poll loop.
    /// `null` if undetermined.
    pub is_polling: Option<bool>,
}

/// A kind of work and its time.
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

/// A function called along one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallNode {
    /// Index in `calls` of what called it, always a smaller one; `null` for the first of a thread.
    pub caller: Option<u32>,
    /// Index of its thread in `threads`.
    pub thread: u32,
    /// Index of its function in `functions`.
    pub function: u32,
    /// Samples in the function itself, called along this path.
    pub samples: u64,
}

/// Kinds of work that a packet program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CostClass {
    /// Copying bytes, within the program or between it and the kernel.
    Copy,
    /// Checksums.
    Checksum,
    /// Allocating and freeing memory and buffers.
    Allocation,
    /// Taking, waiting for and releasing locks.
    Lock,
    /// Entering and leaving the kernel.
    SystemCallEntry,
    /// Page faults, and what maps and unmaps memory.
    PageFault,
    /// Connection tracking and packet filters.
    Filter,
    /// Segmentation and its reverse (GSO, GRO).
    Segmentation,
    /// Ciphers and hashes.
    Crypto,
    /// Drivers of interfaces, and the layer that calls them.
    Driver,
    /// Choosing what runs next, waking and switching.
    Scheduler,
    /// Asking whether there is something to do.
    Polling,
    /// Having nothing to do.
    Idle,
    /// The program's own work: user mode, and none of the above.
    Program,
    /// What else the kernel does.
    Kernel,
}

impl CostClass {
    /// All of them, in the order in which they are listed.
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

    /// The word for it, in records and in the list of patterns.
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

    /// What people call it.
    pub fn title(self) -> String {
        match self {
            Self::SystemCallEntry => "syscall entry".to_owned(),
            other => other.name().replace('_', " "),
        }
    }
}

impl ProfileReport {
    /// The functions of a node, the outermost caller first.
    pub fn path(&self, node: usize) -> Vec<&FunctionCost> {
        let mut path = Vec::new();
        let mut next = Some(node);
        while let Some((at, node)) = next.and_then(|at| Some((at, self.calls.get(at)?))) {
            path.extend(self.functions.get(node.function as usize));
            // Callers come first, so that a damaged record has no circle.
            next = node.caller.map(|caller| caller as usize).filter(|caller| *caller < at);
        }
        path.reverse();
        path
    }

    /// The thread of a node.
    pub fn thread_of(&self, node: &CallNode) -> Option<&SampledThread> {
        self.threads.get(node.thread as usize)
    }

    /// The rank of each function: 1, and 1 more for each whose share is larger beyond its interval
    /// and that of the function. Functions of one rank cannot be put in order.
    pub fn ranks(&self) -> Vec<usize> {
        let ends: Vec<(f64, f64)> = self.functions.iter().map(|one| ends(&one.share)).collect();
        let above = |high: f64| ends.iter().filter(|(low, _)| *low > high).count();
        ends.iter().map(|(_, high)| 1 + above(*high)).collect()
    }

    /// Half the interval of the share of the first function; `None` where it is unknown.
    pub fn margin(&self) -> Option<f64> {
        let share = &self.functions.first()?.share;
        Some((share.high? - share.low?) / 2.0)
    }

    /// Samples after which the share of the first function is known to within `margin` either way,
    /// if the program goes on as it did; `None` where its interval is unknown.
    pub fn samples_for(&self, margin: f64) -> Option<u64> {
        let factor = (self.margin()? / margin).powi(2);
        (margin > 0.0).then(|| (self.samples as f64 * factor).round() as u64)
    }
}

/// The interval of a share; itself where it has none, as of functions with hardly a sample.
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
