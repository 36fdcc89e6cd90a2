// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why an event is not counted, as far as trying to count it shows.
//!
//! These are findings, not advice: what each means on this machine, in a sentence and with the
//! command that changes it, is said by `linerate-doctor`, which reads the kernel's settings too.

use linerate_linux::perf::{OpenError, Request, Target};

/// An event that is not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// perf_event_open(2) refused it.
    NotOpened(Attempt),
    /// It was opened and never got a counter, although its target ran.
    NeverScheduled,
    /// The module `pmu_user` holds the counters. Perf is not asked meanwhile: it would open the
    /// event, never count it, and on AArch64 close the registers to those who read them.
    HeldByModule,
    /// It happens in the kernel only, and user mode alone is to be counted.
    KernelOnly,
    /// There is nothing to count on: no processor was named.
    NoTarget,
    /// It is not read by its register.
    Register(RegisterRefusal),
}

/// An attempt to open an event that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The kernel's answer.
    pub error: OpenError,
    /// The request.
    pub request: Request,
    /// On what.
    pub target: Target,
    /// Number of events in the group it was to join; 0 if it was opened alone.
    pub group_len: usize,
}

/// Why a register that `pmu_user` should have opened is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterRefusal {
    /// /proc/pmu_user does not say what the module writes.
    NotUnderstood {
        /// The first wrong line, from 1.
        line: usize,
        /// Description of the defect.
        reason: &'static str,
    },
    /// The thread may run on several CPUs, and no system saves registers for a thread.
    NotOnOneCpu {
        /// Those it may run on, ascending.
        allowed: Vec<u32>,
    },
    /// The registers of the thread's CPU are closed.
    Closed {
        /// The CPU.
        cpu: u32,
        /// Whether the module had opened it, so that another program closed it since.
        was_opened: bool,
    },
    /// Reading failed.
    Unreadable(String),
    /// The event has no number that a counter's register takes.
    NoNumber,
    /// The module has no counter select the event.
    NotSelected {
        /// Whether kernel mode was to be left out.
        user_only: bool,
    },
    /// The module counts kernel mode too, which was to be left out.
    CountsKernelMode,
    /// The counter was stopped or slowed since the module started it.
    Stopped {
        /// On which CPU.
        cpu: u32,
    },
    /// The register of an event that occurs with every instruction does not change.
    StandsStill,
}
