// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock interface of a worker's meter.

use crate::idle::wait_slowly;
use linerate_linux as linux;
pub(crate) use linerate_trial::ThisThread;

/// The clock of a meter. It is a type parameter of the meter, so tests can simulate time, and real
/// runs, which use [`ThisThread`], have no overhead.
pub(crate) trait Clock: linerate_trial::Clock {
    /// Returns this thread's run-queue delay (time spent runnable but not running) in nanoseconds;
    /// `None` if the kernel does not report it.
    fn run_delay_ns(&self) -> Option<u64>;

    /// Executes a pause instruction.
    #[inline]
    fn pause(&self) {
        std::hint::spin_loop();
    }

    /// Performs one step of slow polling, which takes up to about a microsecond. `step` counts the
    /// empty polls since slow polling began, from 0.
    #[inline]
    fn wait_slowly(&self, step: u32) {
        wait_slowly(step);
    }
}

impl Clock for ThisThread {
    fn run_delay_ns(&self) -> Option<u64> {
        linux::run_delay_ns().ok()
    }
}
