// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons why an event is not counted, found by trying to count the event.
//!
//! These are facts, not advice: `linerate-doctor`, which also reads the kernel's settings, explains
//! the reasons and names the command that fixes them.

use linerate_linux::perf::{OpenError, Request, Target};

/// Reason why an event is not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// perf_event_open(2) refused the event.
    NotOpened(Attempt),
    /// The event was opened but never got a counter, although its target ran.
    NeverScheduled,
    /// The module `pmu_user` holds the counters. Perf is not used while the module is loaded: it
    /// would open the event but never count it, and on AArch64 it would also revoke user access to
    /// the registers.
    HeldByModule,
    /// The event occurs only in the kernel, but only user mode is to be counted.
    KernelOnly,
    /// There is no target to count on: the list of CPUs is empty.
    NoTarget,
    /// The PMU register that counts the event cannot be used, for the given reason.
    Register(RegisterRefusal),
}

/// An attempt to open an event that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Error that the kernel returned.
    pub error: OpenError,
    /// Request that the kernel refused.
    pub request: Request,
    /// Thread or CPU on which the event was to be counted.
    pub target: Target,
    /// Number of events in the group that the event was to join; 0 if it was opened alone.
    pub group_len: usize,
}

/// Reason why a PMU register that the module `pmu_user` should have made accessible is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterRefusal {
    /// The module's status file /proc/pmu_user has an unexpected format.
    NotUnderstood {
        /// Number of the first invalid line, from 1.
        line: usize,
        /// Description of what is wrong with that line.
        reason: &'static str,
    },
    /// The thread may run on several CPUs, but the PMU registers are not saved per thread.
    NotOnOneCpu {
        /// Numbers of the CPUs that the thread may run on, ascending.
        allowed: Vec<u32>,
    },
    /// The PMU registers of the thread's CPU are not accessible.
    Closed {
        /// Number of the CPU.
        cpu: u32,
        /// Whether the module had enabled access, in which case another program must have revoked
        /// it.
        was_opened: bool,
    },
    /// The register cannot be read, for the given reason.
    Unreadable(String),
    /// The event has no number that selects it in a counter register.
    NoNumber,
    /// None of the counters that the module started counts the event.
    NotSelected {
        /// Whether kernel mode was to be excluded from the count.
        user_only: bool,
    },
    /// The module also counts kernel mode, which was to be excluded.
    CountsKernelMode,
    /// The counter has been stopped or reconfigured since the module started it.
    Stopped {
        /// Number of the thread's CPU.
        cpu: u32,
    },
    /// The register does not change, although its event occurs with every instruction.
    StandsStill,
}
