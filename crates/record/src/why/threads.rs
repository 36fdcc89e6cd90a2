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
    /// Its thread ID.
    pub tid: u32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// The CPUs it was seen on, the most frequent first.
    pub ran_on: Vec<u32>,
    /// The CPUs in its affinity mask.
    pub allowed: Vec<u32>,
    /// Seconds of the window in which it existed.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Its time budget: shares of `elapsed_s` that sum to 1, `unaccounted` being the rest. States
    /// that could not be distinguished are one entry (see [`ThreadState::User`]).
    pub time: Vec<ThreadTime>,
    /// What it slept on, longest first; shares of `elapsed_s`.
    pub asleep_on: Vec<SleepTime>,
    /// Threads that ran on its CPU while it waited for one, longest first; empty if the scheduler's
    /// tracepoints are not readable.
    pub ran_instead: Vec<RanInstead>,
    /// Waits for a CPU by length: entry `k` counts waits of 2^k to 2^(k+1) microseconds, the first
    /// also shorter ones. Empty if the scheduler's tracepoints are not readable.
    pub waits_us_log2: Vec<u64>,
    /// Voluntary context switches: it slept.
    pub voluntary_switches: u64,
    /// Involuntary context switches: it was preempted.
    pub involuntary_switches: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// System calls; `null` if counting is not permitted.
    pub system_calls: Option<u64>,
    /// The functions it was sampled in, the most frequent first, at most 32.
    pub functions: Vec<FunctionTime>,
    /// Samples behind `functions`.
    pub samples: u64,
    /// Share of its CPU time spent on packets, excluding polling, 0 to 1; absent if undetermined,
    /// or if it does not poll.
    pub busy: Figure,
    /// CPU time per packet, excluding polling, nanoseconds.
    pub cost_ns: Figure,
    /// read(2), write(2) and similar calls (/proc/PID/task/TID/io): a lower bound of its system
    /// calls. `null` if unreadable.
    #[serde(default)]
    pub io_calls: Option<u64>,
    /// Share of its time spent waiting for kernel locks, spinning or asleep, in its own calls or in
    /// interrupts; `null` if tracing is not permitted.
    #[serde(default)]
    pub lock_wait: Option<f64>,
    /// Memory use, from the operands of sampled instructions; `null` with too few such samples.
    #[serde(default)]
    pub memory: Option<MemoryUse>,
    /// Share of its samples at instructions made for ciphers and hashes (AES, SHA, carry-less
    /// multiplication), 0 to 1; `null` where instructions are not decoded.
    #[serde(default)]
    pub cipher_instructions: Option<f64>,
}

/// Memory use of a thread's own code, without its stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryUse {
    /// Accesses of sampled instructions.
    pub samples: u64,
    /// Accesses per sample of the thread, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Number of distinct 64-byte cache lines accessed.
    pub lines: u64,
    /// Share of the accesses to lines seen only once.
    #[serde(serialize_with = "crate::finite")]
    pub once_share: f64,
    /// Working set in pages of 4 KiB, estimated from the pages seen once and twice.
    pub working_set_bytes: Figure,
}

/// A cache line used by several threads and written by at least one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedLine {
    /// Its address, or its offset in shared memory.
    pub address: String,
    /// Whether a thread uses bytes that another one writes (true sharing), rather than adjacent
    /// bytes.
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
    /// Whether it writes to the line.
    pub is_written: bool,
    /// First byte of the line that it uses, 0 to 63.
    pub first_byte: u8,
    /// Last byte of the line that it uses.
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
    /// On a CPU in its own code, polling without packets.
    Polling,
    /// On a CPU in the kernel, on its own behalf: system calls, page faults.
    Kernel,
    /// On a CPU according to the scheduler, while interrupts and softirqs ran, for its own and
    /// other packets.
    Interrupts,
    /// Runnable, waiting for a CPU.
    Waiting,
    /// Runnable, but throttled by a CPU quota.
    Throttled,
    /// On a virtual CPU that the hypervisor did not schedule.
    Stolen,
    /// Asleep: blocked in a system call, or stopped.
    Asleep,
    /// Remaining time. Negative if the others add up to more than the window.
    Unaccounted,
}

/// A share of a thread's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadTime {
    /// Thread state.
    pub state: ThreadState,
    /// Share of the time in which the thread existed, 0 to 1.
    pub share: Figure,
}

/// Time asleep on one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SleepTime {
    /// The system call: `epoll_wait`, `futex`, `recvmsg`; the kernel function if the call is
    /// unknown: `do_nanosleep`.
    pub on: String,
    /// Share of the time in which the thread existed, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Object of the call, if readable: `udp 0.0.0.0:53`, `futex 0x7f…`, `pipe`.
    pub object: Option<String>,
}

/// A thread that ran on a CPU while a watched thread waited for that CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RanInstead {
    /// Its name, at most 15 bytes.
    pub name: String,
    /// Its ID; `null` if several threads of this name are summed.
    pub tid: Option<u32>,
    /// Its process; `null` where it ended before that was read.
    #[serde(default)]
    pub pid: Option<u32>,
    /// Seconds that it ran while the watched thread waited.
    #[serde(serialize_with = "crate::finite")]
    pub seconds: f64,
    /// Number of times that it ran.
    pub times: u64,
    /// Longest continuous time, seconds.
    #[serde(serialize_with = "crate::finite")]
    pub longest_s: f64,
}

/// A function that a thread was sampled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionTime {
    /// Its name, or file and offset if it has none: `dpdk-testpmd+0x7cd00`.
    pub name: String,
    /// Its file; `kernel` for the kernel.
    pub file: String,
    /// Share of the thread's samples, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Whether its share falls as packets rise: it belongs to the poll loop. `null` if
    /// undetermined.
    pub is_polling: Option<bool>,
}

/// A CPU quota of a control group, and its throttling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quota {
    /// The control group's directory: `/sys/fs/cgroup/a`.
    pub group: String,
    /// The watched processes under this quota.
    pub pids: Vec<u32>,
    /// CPUs that the group may use: quota over period.
    #[serde(serialize_with = "crate::finite")]
    pub cpus: f64,
    /// Periods in the window.
    pub periods: u64,
    /// Periods in which it was throttled.
    pub throttled_periods: u64,
    /// Throttled time in seconds: summed over CPUs on kernels that count it so, hence possibly more
    /// than the window.
    #[serde(serialize_with = "crate::finite")]
    pub throttled_s: f64,
    /// The command that removes it. `null` in records that lack it.
    #[serde(default)]
    pub removal: Option<String>,
}

impl ThreadState {
    /// All states, in the order of a time budget.
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

    /// Its keyword in JSON.
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

    /// Whether the thread is on a CPU in this state, according to the scheduler.
    pub fn is_on_cpu(self) -> bool {
        matches!(self, Self::User | Self::Work | Self::Polling | Self::Kernel | Self::Interrupts)
    }
}

impl ThreadActivity {
    /// Share of its time in this state; `None` if it was not separated from others, or is
    /// unreadable.
    pub fn share(&self, state: ThreadState) -> Option<&Figure> {
        self.time.iter().find(|time| time.state == state).map(|time| &time.share)
    }

    /// Share of its time in the states selected by `of`, 0 to 1; without unknown ones.
    pub fn share_of(&self, of: impl Fn(ThreadState) -> bool) -> f64 {
        let of_state = self.time.iter().filter(|time| of(time.state));
        of_state.filter_map(|time| time.share.as_number()).sum()
    }

    /// Demand for CPU time: running, waiting for a CPU, throttled, or stolen.
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
