// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the threads of an observed program spend their time.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// Activity of one thread during the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadActivity {
    /// ID of the thread's process.
    pub pid: u32,
    /// Thread ID.
    pub tid: u32,
    /// Thread name, at most 15 bytes.
    pub name: String,
    /// The CPUs on which the thread was seen, most frequent first.
    pub ran_on: Vec<u32>,
    /// The CPUs in the thread's affinity mask.
    pub allowed: Vec<u32>,
    /// Seconds of the window during which the thread existed.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// Time budget of the thread: shares of `elapsed_s` that sum to 1, with `unaccounted` as the
    /// remainder. States that could not be distinguished share one entry (see
    /// [`ThreadState::User`]).
    pub time: Vec<ThreadTime>,
    /// System calls and objects on which the thread slept, longest first; shares of `elapsed_s`.
    pub asleep_on: Vec<SleepTime>,
    /// Threads that ran on this thread's CPU while it waited for one, longest first; empty if the
    /// scheduler tracepoints are unreadable.
    pub ran_instead: Vec<RanInstead>,
    /// Histogram of waits for a CPU: entry `k` counts waits of 2^k to 2^(k+1) microseconds; the
    /// first entry also counts shorter waits. Empty if the scheduler tracepoints are unreadable.
    pub waits_us_log2: Vec<u64>,
    /// Number of voluntary context switches: the thread went to sleep.
    pub voluntary_switches: u64,
    /// Number of involuntary context switches: the thread was preempted.
    pub involuntary_switches: u64,
    /// Number of page faults that needed no I/O.
    pub minor_faults: u64,
    /// Number of page faults that needed I/O.
    pub major_faults: u64,
    /// Number of system calls; `null` if counting is not permitted.
    pub system_calls: Option<u64>,
    /// The functions in which the thread was sampled, most frequent first; at most 32.
    pub functions: Vec<FunctionTime>,
    /// Number of samples from which `functions` was computed.
    pub samples: u64,
    /// Share of the thread's CPU time spent on packets, excluding polling, 0 to 1; absent if
    /// undetermined, or if the thread does not poll.
    pub busy: Figure,
    /// CPU time per packet in nanoseconds, excluding polling.
    pub cost_ns: Figure,
    /// Number of read(2), write(2) and similar calls (/proc/PID/task/TID/io): a lower bound on the
    /// thread's system calls. `null` if unreadable.
    #[serde(default)]
    pub io_calls: Option<u64>,
    /// Share of the thread's time spent waiting for kernel locks, spinning or asleep, in its own
    /// calls or in interrupts; `null` if tracing is not permitted.
    #[serde(default)]
    pub lock_wait: Option<f64>,
    /// Memory use, derived from the operands of sampled instructions; `null` if there are too few
    /// such samples.
    #[serde(default)]
    pub memory: Option<MemoryUse>,
    /// Share of the thread's samples at instructions meant for ciphers and hashes (AES, SHA,
    /// carry-less multiplication), 0 to 1; `null` if instructions are not decoded.
    #[serde(default)]
    pub cipher_instructions: Option<f64>,
}

/// Memory that a thread's own code uses, excluding its stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryUse {
    /// Number of memory accesses that sampled instructions made.
    pub samples: u64,
    /// Memory accesses divided by all samples of the thread, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Number of distinct 64-byte cache lines accessed.
    pub lines: u64,
    /// Share of the accesses that go to cache lines seen only once, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub once_share: f64,
    /// Working set in bytes, estimated from the number of 4 KiB pages that were seen once and
    /// twice.
    pub working_set_bytes: Figure,
}

/// A cache line that several threads use and at least one of them writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedLine {
    /// Address of the line, or its offset in shared memory.
    pub address: String,
    /// Whether a thread uses the same bytes that another thread writes (true sharing). Otherwise,
    /// the threads use different bytes of the line (false sharing).
    pub has_common_bytes: bool,
    /// The threads that use the line, with the bytes that each uses.
    pub threads: Vec<LineUse>,
}

/// One thread's use of a shared cache line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineUse {
    /// ID of the thread.
    pub tid: u32,
    /// Share of the thread's samples at instructions that access the line, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Whether the thread writes to the line.
    pub is_written: bool,
    /// First byte of the cache line that the thread uses, 0 to 63.
    pub first_byte: u8,
    /// Last byte of the cache line that the thread uses, 0 to 63.
    pub last_byte: u8,
    /// The function with most of the thread's samples at instructions that access the line.
    pub function: String,
}

/// What a thread is doing at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// On a CPU in its own code; work and polling could not be distinguished.
    User,
    /// On a CPU in its own code, working on packets.
    Work,
    /// On a CPU in its own code, polling empty inputs.
    Polling,
    /// On a CPU in the kernel, on its own behalf: system calls, page faults.
    Kernel,
    /// On a CPU according to the scheduler, but interrupted by interrupts and softirqs, for its own
    /// and other packets.
    Interrupts,
    /// Runnable, waiting for a CPU.
    Waiting,
    /// Runnable, but throttled by a CPU quota.
    Throttled,
    /// On a vCPU that the hypervisor did not schedule.
    Stolen,
    /// Asleep: blocked in a system call, or stopped.
    Asleep,
    /// Time in none of the other states. Negative if the other states add up to more than the
    /// window.
    Unaccounted,
}

/// Share of a thread's time that it spent in one state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadTime {
    /// The state of the thread.
    pub state: ThreadState,
    /// Share of the time during which the thread existed, 0 to 1.
    pub share: Figure,
}

/// Time that a thread slept in one system call on one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SleepTime {
    /// The system call: `epoll_wait`, `futex`, `recvmsg`; or the kernel function if the call is
    /// unknown: `do_nanosleep`.
    pub on: String,
    /// Share of the time during which the thread existed, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Object on which the call waits: `udp 0.0.0.0:53`, `futex 0x7f…`, `pipe`; `null` if
    /// unreadable.
    pub object: Option<String>,
}

/// A thread that ran on a CPU while an observed thread waited for that CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RanInstead {
    /// Thread name, at most 15 bytes.
    pub name: String,
    /// Thread ID; `null` if several threads of this name are summed.
    pub tid: Option<u32>,
    /// Process ID; `null` if the thread ended before the process ID was read.
    #[serde(default)]
    pub pid: Option<u32>,
    /// Time that the thread ran while the observed thread waited, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub seconds: f64,
    /// Number of times that the thread ran while the observed thread waited.
    pub times: u64,
    /// Longest time that the thread ran without interruption, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub longest_s: f64,
}

/// A function in which a thread was sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionTime {
    /// Function name, or file and offset if it has none: `dpdk-testpmd+0x7cd00`.
    pub name: String,
    /// File that contains the function; `kernel` for functions of the kernel.
    pub file: String,
    /// Share of the thread's samples, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Whether the function's share falls as the packet rate rises, which means that it belongs to
    /// the poll loop. `null` if undetermined.
    pub is_polling: Option<bool>,
}

/// The CPU quota of a control group, and how often it throttled the group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quota {
    /// The control group's directory: `/sys/fs/cgroup/a`.
    pub group: String,
    /// The observed processes under this quota.
    pub pids: Vec<u32>,
    /// CPUs that the group may use: quota divided by period.
    #[serde(serialize_with = "crate::finite")]
    pub cpus: f64,
    /// Number of the quota's periods in the window.
    pub periods: u64,
    /// Number of periods in which the group was throttled.
    pub throttled_periods: u64,
    /// Time during which the group was throttled, in seconds. Some kernels sum this time over CPUs,
    /// so it may exceed the window.
    #[serde(serialize_with = "crate::finite")]
    pub throttled_s: f64,
    /// The command that removes the quota. `null` in records that lack it.
    #[serde(default)]
    pub removal: Option<String>,
}

impl ThreadState {
    /// All states, in the order in which a time budget lists them.
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

    /// Returns the keyword of the state in JSON.
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

    /// Returns whether the thread is on a CPU in this state, according to the scheduler.
    pub fn is_on_cpu(self) -> bool {
        matches!(self, Self::User | Self::Work | Self::Polling | Self::Kernel | Self::Interrupts)
    }
}

impl ThreadActivity {
    /// Returns the share of the thread's time in this state; `None` if the state could not be
    /// separated from others, or was unreadable.
    pub fn share(&self, state: ThreadState) -> Option<&Figure> {
        self.time.iter().find(|time| time.state == state).map(|time| &time.share)
    }

    /// Returns the share of the thread's time in all states for which `of` returns true, 0 to 1,
    /// excluding unknown shares.
    pub fn share_of(&self, of: impl Fn(ThreadState) -> bool) -> f64 {
        let of_state = self.time.iter().filter(|time| of(time.state));
        of_state.filter_map(|time| time.share.as_number()).sum()
    }

    /// Returns the thread's demand for CPU time: the share of its time spent running, waiting for a
    /// CPU, throttled, or stolen.
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
