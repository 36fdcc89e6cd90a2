// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clocks that a meter reads.

use linerate_linux as linux;
pub(crate) use linerate_trial::ThisThread;

/// Source of time for a meter. A type parameter of its users: a test supplies its own clock, and a
/// run calls [`ThisThread`] at no cost.
pub(crate) trait Clock: linerate_trial::Clock {
    /// Time this thread has waited for a CPU; `None` if the kernel does not report it.
    fn run_delay_ns(&self) -> Option<u64>;
}

impl Clock for ThisThread {
    fn run_delay_ns(&self) -> Option<u64> {
        linux::run_delay_ns().ok()
    }
}
