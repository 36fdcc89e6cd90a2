// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clock for timing individual loads: selection, resolution, and read cost.

use super::interval::Clock;
use super::trimmed_mean;
use crate::bench::Bench;
use fastrand::Rng;
use linerate_hierarchy::single;
use linerate_machine::core_clock::core_cycles_per_tick;
use linerate_machine::ticks::{is_invariant, tick_rate};
use linerate_record::memory::Timer;
use linerate_record::stats::{CONFIDENCE, Estimate, median_interval};
use linerate_record::{Figure, Tier};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Number of clock reads used to determine the clock's step.
const READS: usize = 4096;

/// Minimum number of reads, even past the time limit: a thread that was preempted may have made
/// only a few reads when it resumes.
const LEAST_READS: usize = 1024;

/// Time limit for reading a clock that is slow or stopped.
const LONGEST: Duration = Duration::from_millis(20);

/// Lower limit on the longest random wait, in iterations: 20 to 40 ns on a fast core.
const LEAST_WAIT: u32 = 32;

/// Upper limit on the longest random wait, in iterations: a few microseconds.
const MOST_WAIT: u32 = 4096;

/// Coarsest usable resolution in ns. With a coarser clock, even the longest sequence of loads from
/// memory would span only ten clock steps or fewer.
const COARSEST_NS: f64 = 1e5;

/// Number of pairs of reads per batch.
const BATCH: usize = 64;

/// The clock that times individual loads.
#[derive(Clone, Debug)]
pub struct Stopwatch {
    /// Description in record format.
    pub timer: Timer,
    clock: Clock,
    ns_per_unit: f64,
    /// Step in clock units; `None` if the clock did not advance.
    step: Option<f64>,
    /// Maximum iterations of a wait.
    wait: u32,
}

impl Stopwatch {
    /// Determines the clock's resolution and read cost, and the core frequency. Takes 5 to 50 ms.
    pub fn new(bench: &Bench<'_>) -> Self {
        let clock = chosen();
        let rate = rate_of(clock);
        let ns_per_unit = 1e9 / rate.value;
        let mut random = Rng::with_seed(bench.seed);
        let step = single::step(&differences(clock, &mut random));
        let step_ns = step.map_or(0.0, |step| step * ns_per_unit);
        let wait = ((2.0 * step_ns) as u32).clamp(LEAST_WAIT, MOST_WAIT);
        let method = "calibrated against clock_gettime(CLOCK_MONOTONIC_RAW)";
        let timer = Timer {
            source: clock.name().to_owned(),
            invariant: (clock == Clock::Monotonic || is_invariant()).then_some(true),
            rate_ghz: Figure::number("GHz", rate.scale(1e-9), Tier::Sw, method),
            step_ns: step_figure(step, ns_per_unit),
            overhead_ns: overhead(clock, ns_per_unit, step, || pause(random.u32(..wait))),
            core_ghz: core_clock(),
        };
        Self { timer, clock, ns_per_unit, step, wait }
    }

    pub(super) fn clock(&self) -> Clock {
        self.clock
    }

    pub(super) fn ns_per_unit(&self) -> f64 {
        self.ns_per_unit
    }

    /// Returns the resolution in ns; 0 if the clock did not advance.
    pub(super) fn step_ns(&self) -> f64 {
        self.step.map_or(0.0, |step| step * self.ns_per_unit)
    }

    /// Returns whether the resolution is sufficient for individual loads.
    pub(super) fn is_fine_enough(&self) -> bool {
        self.step.is_some_and(|step| step * self.ns_per_unit <= COARSEST_NS)
    }

    /// Waits for a random time of up to about two clock steps. This maximum is clamped to the range
    /// from about 30 ns to a few microseconds.
    #[inline(always)]
    pub(super) fn wait(&self, random: &mut Rng) {
        pause(random.u32(..self.wait));
    }
}

/// Runs `turns` dependent iterations of about a nanosecond each.
#[inline(always)]
fn pause(turns: u32) {
    let mut left = turns;
    while left > 0 {
        left = black_box(left) - 1;
    }
}

/// Chooses the processor's counter if its rate is constant, otherwise the kernel's clock.
fn chosen() -> Clock {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if is_invariant() {
        return Clock::Counter;
    }
    Clock::Monotonic
}

/// Returns the clock's units per second.
fn rate_of(clock: Clock) -> Estimate {
    match clock {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        Clock::Counter => tick_rate(),
        Clock::Monotonic => Estimate { value: 1e9, low: 1e9, high: 1e9, confidence: 1.0, n: 1 },
    }
}

/// Returns how far the clock advances between reads at random intervals. Reads at a constant
/// interval would show that interval instead of the step.
fn differences(clock: Clock, random: &mut Rng) -> Vec<u64> {
    let end = Instant::now() + LONGEST;
    let mut differences = Vec::with_capacity(READS);
    while differences.len() < LEAST_READS || differences.len() < READS && Instant::now() < end {
        let mut last = clock.now();
        for _ in 0..BATCH {
            pause(random.u32(..LEAST_WAIT));
            let now = clock.now();
            differences.push(now.saturating_sub(last));
            last = now;
        }
    }
    without_interruptions(differences)
}

/// Returns the nonzero differences, without those above 16 times the median: the counter may jump
/// when a virtual machine migrates between CPUs.
fn without_interruptions(mut differences: Vec<u64>) -> Vec<u64> {
    differences.retain(|&difference| difference > 0);
    differences.sort_unstable();
    let most = differences.get(differences.len() / 2).map_or(0, |median| median.saturating_mul(16));
    differences.retain(|&difference| difference <= most);
    differences
}

fn step_figure(step: Option<f64>, ns_per_unit: f64) -> Figure {
    let method = "greatest common divisor of the differences between reads";
    match step {
        Some(step) => Figure::exact("ns", step * ns_per_unit, Tier::Sw, method),
        None => Figure::absent(
            "ns",
            Tier::Sw,
            method,
            "the clock did not advance in 20 ms, so chains get longer windows and individual loads \
             cannot be timed",
        ),
    }
}

/// Measures the time between two consecutive reads in ns, as the median of batch means. Averaging
/// over a batch removes the effect of the clock's step.
fn overhead(clock: Clock, ns_per_unit: f64, step: Option<f64>, mut wait: impl FnMut()) -> Figure {
    let method = "median of batch means, with 64 pairs of reads per batch";
    let Some(step) = step else {
        return Figure::absent("ns", Tier::Sw, method, "the clock did not advance in 20 ms");
    };
    let end = Instant::now() + LONGEST;
    let mut means = Vec::new();
    while means.len() * BATCH < READS && Instant::now() < end {
        let mut read = |_| {
            wait();
            clock.empty() as f64
        };
        let batch: Vec<f64> = (0..BATCH).map(&mut read).collect();
        means.extend(trimmed_mean(&batch, step));
    }
    Figure::number("ns", median_interval(&means, CONFIDENCE).scale(ns_per_unit), Tier::Sw, method)
}

/// Measures the core frequency in GHz.
fn core_clock() -> Figure {
    let method = "chain of dependent additions, one per cycle";
    if !is_invariant() {
        let reason = "the counter used to time additions does not run at a constant rate here";
        return Figure::absent("GHz", Tier::Sw, method, reason);
    }
    match core_cycles_per_tick() {
        Ok(cycles) => {
            let rate = tick_rate();
            let ghz = Estimate {
                value: cycles.value * rate.value / 1e9,
                low: cycles.low * rate.low / 1e9,
                high: cycles.high * rate.high / 1e9,
                ..cycles
            };
            Figure::number("GHz", ghz, Tier::Sw, method)
        }
        Err(error) => Figure::absent("GHz", Tier::Sw, method, &error.to_string()),
    }
}
