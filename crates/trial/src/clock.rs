// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clocks of a machine, as far as measurements need them.

use linerate_linux::{involuntary_switches, monotonic_ns, thread_cpu_time_ns};
use linerate_machine::ticks::{is_invariant, ticks, ticks_per_s};
use std::sync::OnceLock;

/// The machine interface of a measurement. Counts and times are those of the calling thread.
pub trait Clock {
    /// Returns the time of the finest clock, in ticks.
    fn ticks(&self) -> u64;

    /// Returns the length of a tick in nanoseconds.
    fn ns_per_tick(&self) -> f64;

    /// Returns the time of the kernel's monotonic clock, in nanoseconds.
    fn wall_ns(&self) -> u64;

    /// Returns the CPU time of the thread, in nanoseconds.
    fn cpu_ns(&self) -> u64;

    /// Returns the resolution of [`cpu_ns`](Self::cpu_ns): below a microsecond if the scheduler
    /// reads a counter, milliseconds if it counts timer interrupts.
    fn cpu_step_ns(&self) -> u64;

    /// Returns the number of involuntary context switches of the thread.
    fn involuntary_switches(&self) -> u64;
}

/// The clocks of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Whether ticks are those of the timestamp counter; otherwise those of the kernel's clock.
    reads_counter: bool,
    ns_per_tick: f64,
    cpu_step_ns: u64,
}

impl Machine {
    /// Uses ticks of the timestamp counter, whether or not it guarantees a constant rate. Takes 20
    /// ms on the first call in a process, to calibrate the length of a tick.
    pub fn counter() -> Self {
        let ns_per_tick = 1e9 / ticks_per_s();
        Self { reads_counter: true, ns_per_tick, cpu_step_ns: cpu_step_ns() }
    }

    /// Uses ticks of the timestamp counter if it guarantees a constant rate, otherwise nanoseconds
    /// of the kernel's clock. Takes 20 ms on the first call in a process.
    pub fn steady() -> Self {
        match is_invariant() {
            true => Self::counter(),
            false => Self::kernel(),
        }
    }

    /// Uses nanoseconds of the kernel's clock as ticks.
    pub fn kernel() -> Self {
        Self { reads_counter: false, ns_per_tick: 1.0, cpu_step_ns: cpu_step_ns() }
    }
}

impl Clock for Machine {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        if self.reads_counter { ticks() } else { monotonic_ns() }
    }

    fn ns_per_tick(&self) -> f64 {
        self.ns_per_tick
    }

    #[inline]
    fn wall_ns(&self) -> u64 {
        monotonic_ns()
    }

    #[inline]
    fn cpu_ns(&self) -> u64 {
        thread_cpu_time_ns()
    }

    fn cpu_step_ns(&self) -> u64 {
        self.cpu_step_ns
    }

    #[inline]
    fn involuntary_switches(&self) -> u64 {
        involuntary_switches()
    }
}

/// The clocks of this machine, with timestamp-counter ticks, as a zero-sized type: for hot paths,
/// where only the counter read itself remains.
#[derive(Clone, Copy, Debug)]
pub struct ThisThread;

impl Clock for ThisThread {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        ticks()
    }

    fn ns_per_tick(&self) -> f64 {
        1e9 / ticks_per_s()
    }

    #[inline]
    fn wall_ns(&self) -> u64 {
        monotonic_ns()
    }

    #[inline]
    fn cpu_ns(&self) -> u64 {
        thread_cpu_time_ns()
    }

    fn cpu_step_ns(&self) -> u64 {
        cpu_step_ns()
    }

    #[inline]
    fn involuntary_switches(&self) -> u64 {
        involuntary_switches()
    }
}

/// Number of steps of the CPU-time clock that are measured; the smallest one is used.
const STEPS: usize = 8;

/// Returns the smallest step of the CPU-time clock, determined once per process: `clock_getres`
/// reports a nanosecond regardless of what the scheduler counts with. Takes microseconds, or up to
/// 80 ms where a step is a timer interrupt.
fn cpu_step_ns() -> u64 {
    static STEP: OnceLock<u64> = OnceLock::new();
    *STEP.get_or_init(|| least_step(thread_cpu_time_ns))
}

/// Returns the smallest of several steps of a clock that advances while it is read.
fn least_step(mut now: impl FnMut() -> u64) -> u64 {
    let mut last = now();
    let mut step = || loop {
        let next = now();
        if next != last {
            return next.saturating_sub(std::mem::replace(&mut last, next));
        }
    };
    (0..STEPS).map(|_| step()).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_of_a_clock_is_found_however_often_it_is_read() {
        let mut reads = 0;
        let step = least_step(|| {
            reads += 1;
            reads / 100 * 4_000_000
        });
        assert_eq!(step, 4_000_000);
    }

    #[test]
    fn all_clocks_of_the_machine_advance() {
        for clock in [Machine::counter(), Machine::steady(), Machine::kernel()] {
            let now = || [clock.ticks(), clock.wall_ns(), clock.cpu_ns()];
            let before = now();
            let work = 2 * clock.cpu_step_ns() + 1000;
            while clock.cpu_ns() - before[2] < work {}
            let after = now();
            assert!(before.iter().zip(after).all(|(before, after)| *before < after));
            assert!(clock.ns_per_tick() > 0.0);
        }
    }
}
