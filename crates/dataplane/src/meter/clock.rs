// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clocks that a meter reads.

use linerate_linux as linux;
use linerate_machine::ticks::ticks;

/// State of the scheduler's accounts at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accounts {
    /// Processor time of the thread.
    pub(crate) cpu_ns: u64,
    /// Involuntary switches of the thread.
    pub(crate) switches: u64,
}

/// What a meter asks about time. A type parameter of everything that asks: a test brings a time of
/// its own, and a run calls [`ThisThread`] as if there were nothing in between.
pub(crate) trait Clock {
    /// The timestamp counter.
    fn ticks(&self) -> u64;

    /// The scheduler's accounts of this thread.
    fn accounts(&self) -> Accounts;

    /// How long this thread has waited for a processor; `None` where the kernel does not say.
    fn run_delay_ns(&self) -> Option<u64>;

    /// The wall clock.
    fn wall_ns(&self) -> u64;
}

/// The clocks of the calling thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThisThread;

impl Clock for ThisThread {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        ticks()
    }

    fn accounts(&self) -> Accounts {
        Accounts { cpu_ns: linux::thread_cpu_time_ns(), switches: linux::involuntary_switches() }
    }

    fn run_delay_ns(&self) -> Option<u64> {
        linux::run_delay_ns().ok()
    }

    fn wall_ns(&self) -> u64 {
        linux::monotonic_ns()
    }
}
