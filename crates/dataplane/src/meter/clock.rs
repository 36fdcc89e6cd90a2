// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clocks that a meter reads.

use linerate_linux as linux;
pub(crate) use linerate_trial::ThisThread;

/// What a meter asks about time. A type parameter of everything that asks: a test brings a time of
/// its own, and a run calls [`ThisThread`] as if there were nothing in between.
pub(crate) trait Clock: linerate_trial::Clock {
    /// How long this thread has waited for a processor; `None` where the kernel does not say.
    fn run_delay_ns(&self) -> Option<u64>;
}

impl Clock for ThisThread {
    fn run_delay_ns(&self) -> Option<u64> {
        linux::run_delay_ns().ok()
    }
}
