// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons why an event is not counted, as found by trying to count it.
//!
//! These are facts, not advice: `linerate-doctor`, which also reads the kernel's settings, explains
//! them and names the command that fixes them.

use linerate_linux::perf::{OpenError, Request, Target};

/// Why an event is not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// perf_event_open(2) refused it.
    NotOpened(Attempt),
    /// The event was opened but never got a counter, although its target ran.
    NeverScheduled,
    /// The module `pmu_user` holds the counters. Perf is not used meanwhile: it would open the
    /// event, never count it, and on AArch64 revoke user access to the registers.
    HeldByModule,
    /// The event occurs only in the kernel, but only user mode is to be counted.
    KernelOnly,
    /// No target: no CPU was named.
    NoTarget,
    /// The event's register is not read.
    Register(RegisterRefusal),
}

/// An attempt to open an event, which the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The kernel's answer.
    pub error: OpenError,
    /// The request.
    pub request: Request,
    /// The target.
    pub target: Target,
    /// Number of events in the group that the event was to join; 0 if it was opened alone.
    pub group_len: usize,
}

/// Reason why a register that `pmu_user` should have made accessible is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterRefusal {
    /// /proc/pmu_user has an unexpected format.
    NotUnderstood {
        /// Number of the first invalid line, from 1.
        line: usize,
        /// Description of the defect.
        reason: &'static str,
    },
    /// The thread may run on several CPUs, but registers are not saved per thread.
    NotOnOneCpu {
        /// CPUs the thread may run on, ascending.
        allowed: Vec<u32>,
    },
    /// The registers of the thread's CPU are not accessible.
    Closed {
        /// The CPU.
        cpu: u32,
        /// Whether the module had enabled access, so that another program must have revoked it.
        was_opened: bool,
    },
    /// Reading failed.
    Unreadable(String),
    /// The event has no number that selects it in a counter register.
    NoNumber,
    /// None of the module's counters selects the event.
    NotSelected {
        /// Whether kernel mode was to be excluded from the count.
        user_only: bool,
    },
    /// The module also counts kernel mode, which was to be excluded.
    CountsKernelMode,
    /// The counter has been stopped or reconfigured since the module started it.
    Stopped {
        /// The CPU.
        cpu: u32,
    },
    /// The register of an event that occurs with every instruction does not change.
    StandsStill,
}
