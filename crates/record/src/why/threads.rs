// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where an observed program's threads spend their time: on a CPU, waiting for one, or asleep.

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
    /// CPUs on which the thread was seen, most frequent first.
    pub ran_on: Vec<u32>,
    /// CPUs in the thread's affinity mask.
    pub allowed: Vec<u32>,
    /// How long the thread existed during the window, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub elapsed_s: f64,
    /// The thread's time budget: fractions of `elapsed_s` that sum to 1, with `unaccounted` as the
    /// remainder. States that could not be separated share an entry (see [`ThreadState::User`]).
    pub time: Vec<ThreadTime>,
    /// System calls and objects that the thread slept on, longest first, as fractions of
    /// `elapsed_s`.
    pub asleep_on: Vec<SleepTime>,
    /// Threads that ran on this thread's CPU while it waited, longest first; empty if the scheduler
    /// tracepoints are unreadable.
    pub ran_instead: Vec<RanInstead>,
    /// Histogram of waits for a CPU: entry `k` counts waits of 2^k to 2^(k+1) microseconds; the
    /// first entry also counts shorter ones. Empty if the scheduler tracepoints are unreadable.
    pub waits_us_log2: Vec<u64>,
    /// Voluntary context switches: the thread went to sleep.
    pub voluntary_switches: u64,
    /// Involuntary context switches: the thread was preempted.
    pub involuntary_switches: u64,
    /// Page faults that needed no I/O.
    pub minor_faults: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Number of system calls; `null` if counting them is not permitted.
    pub system_calls: Option<u64>,
    /// Functions in which the thread was sampled, most frequent first; at most 32.
    pub functions: Vec<FunctionTime>,
    /// Number of samples behind `functions`.
    pub samples: u64,
    /// Fraction of the thread's CPU time spent on packets rather than polling, 0 to 1; absent if
    /// undetermined or the thread does not poll.
    pub busy: Figure,
    /// CPU time per packet in nanoseconds, excluding polling.
    pub cost_ns: Figure,
    /// Number of read(2), write(2) and similar calls (/proc/PID/task/TID/io), a lower bound on
    /// system calls; `null` if unreadable.
    #[serde(default)]
    pub io_calls: Option<u64>,
    /// Fraction of the thread's time spent waiting for kernel locks (spinning or asleep), whether
    /// in its own calls or in interrupts; `null` if tracing is not permitted.
    #[serde(default)]
    pub lock_wait: Option<f64>,
    /// Memory use, inferred from the operands of sampled instructions; `null` if there are too few
    /// operands.
    #[serde(default)]
    pub memory: Option<MemoryUse>,
    /// Fraction of the thread's samples on cipher and hash instructions (AES, SHA, carry-less
    /// multiplication), 0 to 1; `null` if instructions are not decoded.
    #[serde(default)]
    pub cipher_instructions: Option<f64>,
    /// Nice value, -20 to 19, which takes effect only under the policies `normal` and `batch`;
    /// `null` if unreadable.
    #[serde(default)]
    pub nice: Option<i32>,
    /// Scheduling policy; `null` if unreadable.
    #[serde(default)]
    pub policy: Option<SchedulingPolicy>,
    /// ID of the process that traces the thread with ptrace(2); `null` if none does.
    #[serde(default)]
    pub tracer: Option<u32>,
    /// Number of readings at which the thread's process was found to have called execve since the
    /// previous reading; a lower bound on the number of calls. `null` in older records.
    #[serde(default)]
    pub execs: Option<u64>,
    /// Number of samples in which the thread was asleep, from which `asleep_on` is computed; `null`
    /// in older records.
    #[serde(default)]
    pub sleep_samples: Option<u64>,
}

/// Scheduling policy of a thread, sched(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SchedulingPolicy {
    /// SCHED_OTHER.
    Normal,
    /// SCHED_FIFO: preempts all SCHED_OTHER, SCHED_BATCH and SCHED_IDLE threads.
    Fifo,
    /// SCHED_RR.
    RoundRobin,
    /// SCHED_BATCH.
    Batch,
    /// SCHED_IDLE: runs when no other thread wants the CPU.
    Idle,
    /// SCHED_DEADLINE.
    Deadline,
}

/// Memory used by a thread's own code, excluding its stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryUse {
    /// Number of memory accesses in sampled instructions.
    pub samples: u64,
    /// Memory accesses as a fraction of all the thread's samples, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Number of distinct 64-byte cache lines accessed.
    pub lines: u64,
    /// Fraction of accesses to cache lines that were seen only once, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub once_share: f64,
    /// Working set in bytes, estimated from the numbers of 4 KiB pages seen exactly once and
    /// exactly twice.
    pub working_set_bytes: Figure,
}

/// A cache line that several threads use and at least one writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedLine {
    /// Address of the line, or its offset in shared memory.
    pub address: String,
    /// Whether a thread uses bytes that another thread writes (true sharing). If not, the threads
    /// use different bytes of the line (false sharing).
    pub has_common_bytes: bool,
    /// Threads that use the line, and which bytes they use.
    pub threads: Vec<LineUse>,
}

/// One thread's use of a shared cache line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineUse {
    /// ID of the thread.
    pub tid: u32,
    /// Fraction of the thread's samples on instructions that access the line, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Whether the thread writes the line.
    pub is_written: bool,
    /// First byte of the line that the thread uses, 0 to 63.
    pub first_byte: u8,
    /// Last byte of the line that the thread uses, 0 to 63.
    pub last_byte: u8,
    /// Function with most of the thread's samples on instructions that access the line.
    pub function: String,
}

/// State of a thread at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// Running its own code; work and polling could not be separated.
    User,
    /// Running its own code, working on packets.
    Work,
    /// Running its own code, polling empty inputs.
    Polling,
    /// Running in the kernel on its own behalf: system calls, page faults.
    Kernel,
    /// On a CPU according to the scheduler, but preempted by interrupts and softirqs, for its own
    /// or other packets.
    Interrupts,
    /// Runnable, waiting for a CPU.
    Waiting,
    /// Runnable, but throttled by a CPU quota.
    Throttled,
    /// On a vCPU descheduled by the hypervisor.
    Stolen,
    /// Asleep: blocked in a system call, or stopped.
    Asleep,
    /// Remainder; negative if the other states add up to more than the window.
    Unaccounted,
}

/// How much of its time a thread spent in one state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadTime {
    /// The state.
    pub state: ThreadState,
    /// Fraction of the thread's lifetime within the window, 0 to 1.
    pub share: Figure,
}

/// How long a thread slept in one system call on one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SleepTime {
    /// System call (`epoll_wait`, `futex`, `recvmsg`), or kernel function if the call is unknown
    /// (`do_nanosleep`); `pthread_join` for a futex on which a thread waits for another thread to
    /// end; `stopped`, `frozen` or `not known` instead of a call.
    pub on: String,
    /// Fraction of the thread's lifetime within the window, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Object that the call waits for: `udp 0.0.0.0:53`, `futex 0x7f…`, `pipe`; `null` if
    /// unreadable. `mutex 0x7f…` is a futex that is known to be a lock.
    pub object: Option<String>,
    /// If the object is a mutex: ID of the thread that held it in at least half of the samples;
    /// `null` if no thread did, or if the object is not a mutex.
    pub holder: Option<u32>,
}

impl SleepTime {
    /// Value of [`Self::on`] for a thread that a signal or a tracer has stopped.
    pub const STOPPED: &str = "stopped";
    /// Value of [`Self::on`] for a thread that the cgroup freezer has stopped.
    pub const FROZEN: &str = "frozen";
    /// Values of [`Self::on`] for calls that return when input has arrived, and for the kernel
    /// functions in which they sleep. With a timeout, they may also return without input; which of
    /// the two happened is unknown.
    pub const INPUT: &'static [&'static str] = &[
        "accept",
        "accept4",
        "do_epoll_wait",
        "do_poll",
        "do_select",
        "do_sys_poll",
        "ep_poll",
        "epoll_pwait",
        "epoll_pwait2",
        "epoll_wait",
        "io_uring_enter",
        "pause",
        "poll",
        "poll_schedule_timeout",
        "ppoll",
        "pselect6",
        "recvfrom",
        "recvmmsg",
        "recvmsg",
        "rt_sigsuspend",
        "rt_sigtimedwait",
        "select",
    ];
    /// Values of [`Self::on`] for kernel functions in which a thread waits because memory is short
    /// or its control group is above `memory.high`. The thread may be in any system call.
    pub const MEMORY: &'static [&'static str] = &[
        "__mem_cgroup_handle_over_high",
        "mem_cgroup_handle_over_high",
        "reclaim_throttle",
        "throttle_direct_reclaim",
    ];
    /// Value of [`Self::on`] for a thread that waits for another thread to end.
    pub const JOIN: &str = "pthread_join";
    /// Value of [`Self::on`] for a thread whose system call could not be read.
    pub const NOT_KNOWN: &str = "not known";
}

/// A thread that ran on a CPU while an observed thread waited for that CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RanInstead {
    /// Thread name, at most 15 bytes.
    pub name: String,
    /// Thread ID; `null` if several threads with this name were summed.
    pub tid: Option<u32>,
    /// Process ID; `null` if the thread ended before it was read.
    #[serde(default)]
    pub pid: Option<u32>,
    /// How long the thread ran while the observed one waited, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub seconds: f64,
    /// How often the thread ran while the observed one waited.
    pub times: u64,
    /// Longest uninterrupted run of the thread, in seconds.
    #[serde(serialize_with = "crate::finite")]
    pub longest_s: f64,
}

/// A function in which a thread was sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionTime {
    /// Function name, or file and offset if it has none: `dpdk-testpmd+0x7cd00`.
    pub name: String,
    /// Binary or shared library that contains the function; `kernel` for kernel functions.
    pub file: String,
    /// Fraction of the thread's samples, 0 to 1.
    #[serde(serialize_with = "crate::finite")]
    pub share: f64,
    /// Whether the function belongs to the poll loop, inferred from whether its share falls as the
    /// packet rate rises; `null` if undetermined.
    pub is_polling: Option<bool>,
}

/// A cgroup's CPU quota, and how often it throttled the group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quota {
    /// Directory of the cgroup: `/sys/fs/cgroup/a`.
    pub group: String,
    /// IDs of the observed processes under this quota.
    pub pids: Vec<u32>,
    /// Quota divided by period, in CPUs.
    #[serde(serialize_with = "crate::finite")]
    pub cpus: f64,
    /// Number of quota periods in the window.
    pub periods: u64,
    /// Number of periods with throttling.
    pub throttled_periods: u64,
    /// Total throttled time in seconds. Some kernels sum over CPUs, so it may exceed the window.
    #[serde(serialize_with = "crate::finite")]
    pub throttled_s: f64,
    /// Command that removes the quota; `null` in older records.
    #[serde(default)]
    pub removal: Option<String>,
}

impl ThreadState {
    /// All states, in the order of the time budget.
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

    /// Returns the state's keyword in JSON.
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

    /// Returns whether a thread in this state is on a CPU, according to the scheduler.
    pub fn is_on_cpu(self) -> bool {
        matches!(self, Self::User | Self::Work | Self::Polling | Self::Kernel | Self::Interrupts)
    }
}

impl ThreadActivity {
    /// Returns the fraction of time spent in a state; `None` if the state could not be separated
    /// from others or was unreadable.
    pub fn share(&self, state: ThreadState) -> Option<&Figure> {
        self.time.iter().find(|time| time.state == state).map(|time| &time.share)
    }

    /// Returns the total fraction of time spent in states for which `of` returns true, 0 to 1.
    /// Unknown fractions are left out.
    pub fn share_of(&self, of: impl Fn(ThreadState) -> bool) -> f64 {
        let of_state = self.time.iter().filter(|time| of(time.state));
        of_state.filter_map(|time| time.share.as_number()).sum()
    }

    /// Returns the thread's demand for CPU time: the fraction of time that it was running, waiting
    /// for a CPU, throttled, or on a vCPU descheduled by the hypervisor.
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
