// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks for meters, which measure the workers.

use linerate_linux as linux;
pub(crate) use linerate_trial::ThisThread;

/// Time source of a meter. It is a type parameter, so that tests can supply a clock and a run can
/// use [`ThisThread`] at no cost.
pub(crate) trait Clock: linerate_trial::Clock {
    /// Returns this thread's run-queue delay (the time it has been runnable without running), in
    /// nanoseconds; `None` if the kernel does not report it.
    fn run_delay_ns(&self) -> Option<u64>;
}

impl Clock for ThisThread {
    fn run_delay_ns(&self) -> Option<u64> {
        linux::run_delay_ns().ok()
    }
}
