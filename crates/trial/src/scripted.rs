// SPDX-License-Identifier: MIT OR Apache-2.0
//! A clock whose time is scripted by a test.

use crate::clock::Clock;
use std::cell::Cell;

/// Clocks of a synthetic machine, which advance only through the methods below.
#[derive(Debug)]
pub struct Scripted {
    wall_ns: Cell<u64>,
    cpu_ns: Cell<u64>,
    switches: Cell<u64>,
    slowness: Cell<f64>,
    ticks_per_ns: u64,
    read_ns: u64,
}

impl Default for Scripted {
    fn default() -> Self {
        Self::new()
    }
}

impl Scripted {
    /// Creates clocks with ticks of one nanosecond that take no time to read.
    pub fn new() -> Self {
        Self {
            wall_ns: Cell::new(1_000_000),
            cpu_ns: Cell::new(1_000),
            switches: Cell::new(3),
            slowness: Cell::new(1.0),
            ticks_per_ns: 1,
            read_ns: 0,
        }
    }

    /// Sets the number of ticks per nanosecond.
    pub fn ticking(self, ticks_per_ns: u64) -> Self {
        Self { ticks_per_ns, ..self }
    }

    /// Sets how long reading any of the clocks takes.
    pub fn reading(self, read_ns: u64) -> Self {
        Self { read_ns, ..self }
    }

    /// Simulates work that takes `ns` nanoseconds at full speed.
    pub fn work(&self, ns: u64) {
        self.run((ns as f64 * self.slowness.get()).round() as u64);
    }

    /// Makes work take `slowness` times as long from now on, as at a lower clock frequency.
    pub fn slow_down(&self, slowness: f64) {
        self.slowness.set(slowness);
    }

    /// Simulates a preemption of `ns` nanoseconds, which counts as an involuntary switch.
    pub fn preempt(&self, ns: u64) {
        self.sleep(ns);
        self.switches.set(self.switches.get() + 1);
    }

    /// Simulates a voluntary wait of `ns` nanoseconds, during which the thread is off its CPU.
    pub fn sleep(&self, ns: u64) {
        self.wall_ns.set(self.wall_ns.get() + ns);
    }

    /// Simulates a hypervisor that takes the CPU for `ns` nanoseconds, which the guest kernel
    /// charges to the thread.
    pub fn steal(&self, ns: u64) {
        self.run(ns);
    }

    fn run(&self, ns: u64) {
        self.sleep(ns);
        self.cpu_ns.set(self.cpu_ns.get() + ns);
    }

    /// Returns a clock's value at the start of the read, then advances time by the duration of the
    /// read.
    fn read(&self, clock: &Cell<u64>) -> u64 {
        let now = clock.get();
        self.run(self.read_ns);
        now
    }
}

impl Clock for Scripted {
    fn ticks(&self) -> u64 {
        self.read(&self.wall_ns) * self.ticks_per_ns
    }

    fn ns_per_tick(&self) -> f64 {
        1.0 / self.ticks_per_ns as f64
    }

    fn wall_ns(&self) -> u64 {
        self.read(&self.wall_ns)
    }

    fn cpu_ns(&self) -> u64 {
        self.read(&self.cpu_ns)
    }

    fn cpu_step_ns(&self) -> u64 {
        0
    }

    fn involuntary_switches(&self) -> u64 {
        self.read(&self.switches)
    }
}
