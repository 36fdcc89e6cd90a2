// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why an event is not counted, as determined by trying to count it.
//!
//! This module states only facts. `linerate-doctor`, which also reads the kernel's settings,
//! explains them and recommends a command that fixes the problem.

use linerate_linux::perf::{OpenError, Request, Target};

/// Why an event is not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// perf_event_open(2) failed.
    NotOpened(Attempt),
    /// The event was opened but never got a counter, although its target ran.
    NeverScheduled,
    /// The `pmu_user` module holds the counters. Perf is not used while the module is loaded: perf
    /// would open the event but never count it, and on AArch64 it would also revoke user access to
    /// the registers.
    HeldByModule,
    /// The event occurs only in the kernel, but only user mode was requested.
    KernelOnly,
    /// The list of CPUs to count on is empty.
    NoTarget,
    /// The event counts whole units, such as packages, and the CPUs to count on do not determine
    /// which units: several of them may belong to the same unit, which would then be counted
    /// several times.
    WholeUnits {
        /// One CPU for each unit of the machine, ascending.
        unit_cpus: Vec<u32>,
    },
    /// The PMU register that counts the event is unusable.
    Register(RegisterRefusal),
}

/// A refused attempt to open an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The kernel's error.
    pub error: OpenError,
    /// The refused request.
    pub request: Request,
    /// Thread or CPU to count on.
    pub target: Target,
    /// Number of events already in the group that the event was to join; 0 if it was opened alone.
    pub group_len: usize,
}

/// Why a PMU register is not read, although the `pmu_user` module should have made it accessible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterRefusal {
    /// The status file /proc/pmu_user has an unexpected format.
    NotUnderstood {
        /// Number of the first invalid line, counted from 1.
        line: usize,
        /// Problem with the first invalid line.
        reason: &'static str,
    },
    /// The thread may run on several CPUs, but PMU registers are not saved per thread.
    NotOnOneCpu {
        /// CPUs that the thread may run on, ascending.
        allowed: Vec<u32>,
    },
    /// The PMU registers of the thread's CPU are not accessible.
    Closed {
        /// The thread's CPU.
        cpu: u32,
        /// Whether the module had enabled access. If so, another program has revoked it.
        was_opened: bool,
    },
    /// The register cannot be read.
    Unreadable(String),
    /// The event has no number that selects it in a counter register.
    NoNumber,
    /// None of the counters started by the module counts the event.
    NotSelected {
        /// Whether the request was to exclude kernel mode.
        user_only: bool,
    },
    /// The module also counts kernel mode, although the request was to exclude it.
    CountsKernelMode,
    /// The counter has been stopped or reconfigured since the module started it.
    Stopped {
        /// The thread's CPU.
        cpu: u32,
    },
    /// The register does not change, although its event occurs with every instruction.
    StandsStill,
}
