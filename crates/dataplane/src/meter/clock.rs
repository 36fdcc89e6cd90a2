// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks for meters.

use linerate_linux as linux;
pub(crate) use linerate_trial::ThisThread;

/// Time source of a meter. A type parameter, so that tests can supply a clock and a run can use
/// [`ThisThread`] at no cost.
pub(crate) trait Clock: linerate_trial::Clock {
    /// Returns this thread's run-queue delay; `None` if the kernel does not report it.
    fn run_delay_ns(&self) -> Option<u64>;
}

impl Clock for ThisThread {
    fn run_delay_ns(&self) -> Option<u64> {
        linux::run_delay_ns().ok()
    }
}
