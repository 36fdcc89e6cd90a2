// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time of threads.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// A thread over the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadActivity {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// The CPUs it was seen on, the most frequent first.
    pub ran_on: Vec<u32>,
    /// The CPUs it may use.
    pub allowed: Vec<u32>,
    /// Seconds of the window in which it existed.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Its time budget: shares of `elapsed_s` that sum to 1, `unaccounted` being the rest. States
    /// that could not be distinguished are one entry (see [`ThreadState::User`]).
    pub time: Vec<ThreadTime>,
    /// On what it slept, the longest first; shares of `elapsed_s`.
    pub asleep_on: Vec<SleepTime>,
    /// Threads that ran on its CPU while it waited for one, the longest first; empty if the
    /// scheduler's tracepoints may not be read.
    pub ran_instead: Vec<RanInstead>,
    /// Number of waits for a CPU, by length: entry `k` counts waits of 2^k to 2^(k+1) microseconds,
    /// the first also shorter ones. Empty if the scheduler's tracepoints may not be read.
    pub waits_us_log2: Vec<u64>,
    /// Context switches it asked for: it slept.
    pub voluntary_switches: u64,
    /// Context switches it did not ask for: it was preempted.
    pub involuntary_switches: u64,
    /// Page faults that needed no I/O.
    pub minor_faults: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// System calls; `null` where they may not be counted.
    pub system_calls: Option<u64>,
    /// The functions it was sampled in, the most frequent first, at most 32.
    pub functions: Vec<FunctionTime>,
    /// Samples behind `functions`.
    pub samples: u64,
    /// Share of its time on a CPU spent on packets, polling taken out, 0 to 1; a figure without a
    /// value where that could not be determined, or where it does not poll.
    pub busy: Figure,
    /// CPU time of one packet, polling taken out, nanoseconds.
    pub cost_ns: Figure,
    /// Calls of read(2), write(2) and their kin (/proc/PID/task/TID/io): fewer than all its system
    /// calls. `null` where they may not be read.
    #[serde(default)]
    pub io_calls: Option<u64>,
    /// Share of its time for which it waited for locks of the kernel, spinning or asleep, in its
    /// own calls or in interrupts in its time; `null` where that may not be traced.
    #[serde(default)]
    pub lock_wait: Option<f64>,
    /// What it uses of memory, by the operands of sampled instructions; `null` where too few of its
    /// samples show that.
    #[serde(default)]
    pub memory: Option<MemoryUse>,
    /// Share of its samples at instructions made for ciphers and hashes (AES, SHA, carry-less
    /// multiplication), 0 to 1; `null` where instructions are not decoded.
    #[serde(default)]
    pub cipher_instructions: Option<f64>,
}

/// What a thread uses of memory beyond its stack, in its own code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryUse {
    /// Accesses of sampled instructions.
    pub samples: u64,
    /// The same per sample of the thread, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Cache lines of 64 bytes that they were to.
    pub lines: u64,
    /// Share of the accesses to lines that were met once.
    #[serde(serialize_with = "crate::finite")]
    pub once_share: f64,
    /// Memory that it uses, in pages of 4 KiB, estimated from those met once and twice.
    pub working_set_bytes: Figure,
}

/// A cache line that several threads use and at least one writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedLine {
    /// Its address, or its position in memory that processes share.
    pub address: String,
    /// Whether a thread uses bytes that another one writes; else they only are next to each other.
    pub has_common_bytes: bool,
    /// The threads that use it.
    pub threads: Vec<LineUse>,
}

/// A thread's use of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineUse {
    /// The thread.
    pub tid: u32,
    /// Share of its samples at instructions that access the line, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Whether it writes there.
    pub is_written: bool,
    /// First byte of the line that it uses, 0 to 63.
    pub first_byte: u8,
    /// The last one.
    pub last_byte: u8,
    /// The function with most of these samples.
    pub function: String,
}

/// Activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// On a CPU in its own code, work and polling not separated.
    User,
    /// On a CPU in its own code, working on packets.
    Work,
    /// On a CPU in its own code, asking for packets where there are none.
    Polling,
    /// On a CPU in the kernel, on its own behalf: system calls, page faults.
    Kernel,
    /// On a CPU as far as the scheduler knows, while interrupts and softirqs ran: packets of others
    /// as well as its own.
    Interrupts,
    /// Ready to run, and waiting for a CPU.
    Waiting,
    /// Ready to run, and stopped by a CPU quota.
    Throttled,
    /// On a virtual CPU that the hypervisor did not run.
    Stolen,
    /// Asleep: in a system call that waits, or stopped.
    Asleep,
    /// The remainder. Negative if the others add up to more than the window.
    Unaccounted,
}

/// A share of a thread's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadTime {
    /// Which part.
    pub state: ThreadState,
    /// Share of the time in which the thread existed, 0 to 1.
    pub share: Figure,
}

/// Something a thread slept on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SleepTime {
    /// The system call it was in: `epoll_wait`, `futex`, `recvmsg`; the kernel's function where the
    /// call is not known: `do_nanosleep`.
    pub on: String,
    /// Share of the time in which the thread existed, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Object that the call waits for, if readable: `udp 0.0.0.0:53`, `futex 0x7f…`, `pipe`.
    pub object: Option<String>,
}

/// A thread that ran on a CPU while a watched thread waited for that CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RanInstead {
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Its number; `null` where several of this name are summed.
    pub tid: Option<u32>,
    /// Seconds that it ran while the watched thread waited.
    #[serde(serialize_with = "crate::finite")]
    pub seconds: f64,
    /// Count.
    pub times: u64,
    /// The longest at once, seconds.
    #[serde(serialize_with = "crate::finite")]
    pub longest_s: f64,
}

/// A function that a thread was sampled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionTime {
    /// Its name, or its file and offset where it has none: `dpdk-testpmd+0x7cd00`.
    pub name: String,
    /// The file it is in; `kernel` for the kernel.
    pub file: String,
    /// Share of the thread's samples, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Whether its share falls as packets rise: it belongs to the poll loop. `null` where that
    /// could not be determined.
    pub is_polling: Option<bool>,
}

/// A CPU quota of a control group, and how often it stopped the group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quota {
    /// The control group: its folder, `/sys/fs/cgroup/a`.
    pub group: String,
    /// Processes of the watched ones that it holds for.
    pub pids: Vec<u32>,
    /// CPUs that the group may use: quota over period.
    #[serde(serialize_with = "crate::finite")]
    pub cpus: f64,
    /// Periods in the window.
    pub periods: u64,
    /// Periods in which it was stopped.
    pub throttled_periods: u64,
    /// Seconds for which it was stopped: of each CPU where the kernel counts them so, hence more
    /// than the window is possible.
    #[serde(serialize_with = "crate::finite")]
    pub throttled_s: f64,
}

impl ThreadState {
    /// All of them, in the order of a time budget.
    pub const ALL: [Self; 10] = [
        Self::User,
        Self::Work,
        Self::Polling,
        Self::Kernel,
        Self::Interrupts,
        Self::Waiting,
        Self::Throttled,
        Self::Stolen,
        Self::Asleep,
        Self::Unaccounted,
    ];

    /// The word for it in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Work => "work",
            Self::Polling => "polling",
            Self::Kernel => "kernel",
            Self::Interrupts => "interrupts",
            Self::Waiting => "waiting",
            Self::Throttled => "throttled",
            Self::Stolen => "stolen",
            Self::Asleep => "asleep",
            Self::Unaccounted => "unaccounted",
        }
    }

    /// Whether the thread is on a CPU in it, as far as the scheduler knows.
    pub fn is_on_cpu(self) -> bool {
        matches!(self, Self::User | Self::Work | Self::Polling | Self::Kernel | Self::Interrupts)
    }
}

impl ThreadActivity {
    /// The share of its time in this state; `None` if it was not separated from others, or could
    /// not be read.
    pub fn share(&self, state: ThreadState) -> Option<&Figure> {
        self.time.iter().find(|time| time.state == state).map(|time| &time.share)
    }

    /// The share of its time in states for which `of` holds, 0 to 1; without those not read.
    pub fn share_of(&self, of: impl Fn(ThreadState) -> bool) -> f64 {
        let of_state = self.time.iter().filter(|time| of(time.state));
        of_state.filter_map(|time| time.share.as_number()).sum()
    }

    /// The share of its time in which it ran or wanted to: on a CPU, waiting for one, throttled, or
    /// stolen.
    pub fn demand(&self) -> f64 {
        self.share_of(|state| {
            state.is_on_cpu()
                || matches!(
                    state,
                    ThreadState::Waiting | ThreadState::Throttled | ThreadState::Stolen
                )
        })
    }
}
