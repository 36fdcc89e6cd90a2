// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks used by measurements.

use linerate_linux::{involuntary_switches, monotonic_ns, thread_cpu_time_ns};
use linerate_machine::ticks::{is_invariant, ticks, ticks_per_s};
use std::sync::OnceLock;

/// Clocks and scheduler counts that measurements read. CPU times and counts are those of the
/// calling thread.
pub trait Clock {
    /// Returns the highest-resolution clock, in ticks.
    fn ticks(&self) -> u64;

    /// Returns the length of a tick in nanoseconds.
    fn ns_per_tick(&self) -> f64;

    /// Returns the kernel's monotonic clock, in nanoseconds.
    fn wall_ns(&self) -> u64;

    /// Returns the thread's CPU time, in nanoseconds.
    fn cpu_ns(&self) -> u64;

    /// Returns the resolution of [`cpu_ns`](Self::cpu_ns): less than a microsecond if the scheduler
    /// reads a counter, milliseconds if it counts timer interrupts.
    fn cpu_step_ns(&self) -> u64;

    /// Returns how often the thread has been preempted (involuntary context switches).
    fn involuntary_switches(&self) -> u64;
}

/// The clocks of this machine, as opposed to those scripted by a test.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Whether ticks are from the timestamp counter rather than the kernel's clock.
    reads_counter: bool,
    ns_per_tick: f64,
    cpu_step_ns: u64,
}

impl Machine {
    /// Creates clocks whose ticks are those of the timestamp counter, even if its rate may vary.
    /// The first call in a process takes 20 ms to calibrate the length of a tick.
    pub fn counter() -> Self {
        let ns_per_tick = 1e9 / ticks_per_s();
        Self { reads_counter: true, ns_per_tick, cpu_step_ns: cpu_step_ns() }
    }

    /// Creates clocks whose ticks are those of the timestamp counter if its rate is constant, and
    /// otherwise nanoseconds of the kernel's clock. The first call in a process takes 20 ms.
    pub fn steady() -> Self {
        match is_invariant() {
            true => Self::counter(),
            false => Self::kernel(),
        }
    }

    /// Creates clocks whose ticks are nanoseconds of the kernel's clock.
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

/// A zero-sized type for the clocks of this machine, with ticks of the timestamp counter. Use it on
/// hot paths that can afford only the counter read itself.
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

/// Number of steps of the CPU-time clock to observe. The smallest of them is the result.
const STEPS: usize = 8;

/// Returns the smallest step of the CPU-time clock. It is measured once per process, because
/// `clock_getres` reports a nanosecond regardless of the scheduler's clock. This takes
/// microseconds, or up to 80 ms if the clock advances only with timer interrupts.
fn cpu_step_ns() -> u64 {
    static STEP: OnceLock<u64> = OnceLock::new();
    *STEP.get_or_init(|| least_step(thread_cpu_time_ns))
}

/// Returns the smallest of several steps of a clock that advances while being read.
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
