// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synthetic loads with known totals, and their multiplexed counts.
//!
//! A load is a sequence of 0.1 ms steps with packets, instructions and misses. Misses occur mostly
//! with packets; instructions also occur during idle polling. All random numbers are derived from a
//! seed.

use linerate_counters::rotation::{Counts, Plan, Slice, Slices, Turns, Whole};
use std::f64::consts::TAU;
use std::time::Duration;

/// Steps per millisecond.
pub(crate) const STEPS_PER_MS: usize = 10;

/// A synthetic load that can be generated for any number of steps.
pub(crate) struct Load {
    /// Short name for tables.
    pub(crate) name: &'static str,
    /// What the load does, in a few words.
    pub(crate) prose: &'static str,
    draw: fn(&mut Draw<'_>),
}

/// Event rates in one step.
#[derive(Clone, Copy)]
struct Rates {
    packets: f64,
    misses_per_packet: f64,
    instructions_per_packet: f64,
    idle_instructions: f64,
}

/// Ordinary work: 10 packets per 0.1 ms, with 300 instructions and 4 misses each.
const WORK: Rates = Rates {
    packets: 10.0,
    misses_per_packet: 4.0,
    instructions_per_packet: 300.0,
    idle_instructions: 0.0,
};

/// Idle polling: instructions, but no packets.
const IDLE: Rates = Rates { packets: 0.0, idle_instructions: 8000.0, ..WORK };

/// Trace generator.
struct Draw<'a> {
    random: &'a mut fastrand::Rng,
    steps: usize,
    trace: Trace,
}

/// Cumulative sums from the start to each step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// Cumulative packets.
    pub(crate) packets: Vec<f64>,
    /// Cumulative instructions and misses, in this order.
    pub(crate) events: [Vec<f64>; 2],
}

impl Draw<'_> {
    fn ms(&self, at: usize) -> f64 {
        at as f64 / STEPS_PER_MS as f64
    }

    /// Returns an approximately standard normal random number: the scaled sum of four uniform
    /// numbers from a single draw.
    fn noise(&mut self) -> f64 {
        let bits = self.random.u64(..);
        let sum: u64 = (0..4).map(|i| bits >> (16 * i) & 0xffff).sum();
        (sum as f64 / 65536.0 - 2.0) * 3f64.sqrt()
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.random.f64() < probability
    }

    /// Draws one step. Packets vary by 15 %, instructions per packet by 10 % and misses per packet
    /// by 30 %; idle polling occasionally misses the cache.
    fn step(&mut self, rates: Rates) {
        let packets = rates.packets * (1.0 + 0.15 * self.noise()).max(0.0);
        let instructions = packets * rates.instructions_per_packet * (1.0 + 0.1 * self.noise())
            + rates.idle_instructions;
        let misses = packets * rates.misses_per_packet * (1.0 + 0.3 * self.noise()).max(0.0)
            + rates.idle_instructions * 2e-5;
        let Trace { packets: sums, events } = &mut self.trace;
        sums.push(sums.last().unwrap_or(&0.0) + packets);
        for (sums, count) in events.iter_mut().zip([instructions, misses]) {
            sums.push(sums.last().unwrap_or(&0.0) + count);
        }
    }

    /// Draws all steps for rates given as a function of time in ms.
    fn by_time(&mut self, rates: impl Fn(f64) -> Rates) {
        for at in 0..self.steps {
            self.step(rates(self.ms(at)));
        }
    }

    /// Draws a periodic load: work for the first `share` of every `period` ms, then idle polling,
    /// with a random phase.
    fn periodic(&mut self, period: f64, share: f64) {
        let phase = self.random.f64();
        self.by_time(|ms| if (ms / period + phase).fract() < share { WORK } else { IDLE });
    }

    /// Draws work alternating with idle polling, both with exponentially distributed durations
    /// whose means are given in ms.
    fn bursts(&mut self, work_ms: f64, idle_ms: f64) {
        let mut works = self.chance(work_ms / (work_ms + idle_ms));
        for _ in 0..self.steps {
            let mean = if works { work_ms } else { idle_ms };
            works ^= self.chance(1.0 / (mean * STEPS_PER_MS as f64));
            self.step(if works { WORK } else { IDLE });
        }
    }

    /// Draws work whose misses per packet are multiplied by `times` during spikes of `length_ms`, a
    /// Poisson process with one spike every `every_ms` on average.
    fn spikes(&mut self, every_ms: f64, length_ms: f64, times: f64) {
        let mut left = 0;
        for _ in 0..self.steps {
            if self.chance(1.0 / (every_ms * STEPS_PER_MS as f64)) {
                left = (length_ms * STEPS_PER_MS as f64) as usize;
            }
            let factor = if left > 0 { times } else { 1.0 };
            left = left.saturating_sub(1);
            self.step(Rates { misses_per_packet: WORK.misses_per_packet * factor, ..WORK });
        }
    }

    /// Draws work with a lognormal packet rate: the logarithm of its ratio to the ordinary rate is
    /// a random process around 0, with correlation time `memory_ms` and standard deviation
    /// `spread`.
    fn wander(&mut self, memory_ms: f64, spread: f64) {
        let keep = (-1.0 / (memory_ms * STEPS_PER_MS as f64)).exp();
        let mut x = spread * self.noise();
        for _ in 0..self.steps {
            x = keep * x + spread * (1.0 - keep * keep).sqrt() * self.noise();
            self.step(Rates { packets: WORK.packets * x.exp(), ..WORK });
        }
    }
}

/// All synthetic loads. With four event sets and 2 ms slices, a rotation round takes 16 ms on
/// average.
pub(crate) const LOADS: [Load; 18] = [
    Load { name: "steady", prose: "the same work all the time", draw: |d| d.by_time(|_| WORK) },
    Load {
        name: "phases",
        prose: "three phases of different work, which change at random times",
        draw: |d| {
            let cut = |d: &mut Draw<'_>| d.random.f64() * d.ms(d.steps);
            let (a, b) = (cut(d), cut(d));
            let phase = |packets, misses_per_packet, instructions_per_packet| Rates {
                packets,
                misses_per_packet,
                instructions_per_packet,
                idle_instructions: 0.0,
            };
            let phases = [phase(10.0, 0.5, 300.0), phase(6.0, 6.0, 500.0), phase(14.0, 2.0, 250.0)];
            d.by_time(|ms| phases[usize::from(ms > a) + usize::from(ms > b)]);
        },
    },
    Load {
        name: "ramp",
        prose: "the packet rate triples from start to end, and misses per packet double",
        draw: |d| {
            let whole = d.ms(d.steps);
            d.by_time(|ms| Rates {
                packets: 5.0 + 10.0 * ms / whole,
                misses_per_packet: 2.0 + 2.0 * ms / whole,
                ..WORK
            });
        },
    },
    Load {
        name: "warm-up",
        prose: "10 times the misses at first; the excess halves every 30 ms",
        draw: |d| {
            d.by_time(|ms| Rates {
                misses_per_packet: 4.0 * (1.0 + 9.0 * (-ms / 43.0).exp()),
                ..WORK
            });
        },
    },
    Load { name: "bursts 20/10", prose: "work 20 ms, idle 10 ms", draw: |d| d.bursts(20.0, 10.0) },
    Load { name: "bursts 2/6", prose: "work 2 ms, idle 6 ms", draw: |d| d.bursts(2.0, 6.0) },
    Load { name: "bursts 0.5/2", prose: "work 0.5 ms, idle 2 ms", draw: |d| d.bursts(0.5, 2.0) },
    Load { name: "period 2 ms", prose: "one slice: 1/4 work", draw: |d| d.periodic(2.0, 0.25) },
    Load { name: "period 4 ms", prose: "two slices: 1/2 work", draw: |d| d.periodic(4.0, 0.5) },
    Load { name: "period 8 ms", prose: "half a round: 1/4 work", draw: |d| d.periodic(8.0, 0.25) },
    Load { name: "period 16 ms", prose: "one round: 1/4 work", draw: |d| d.periodic(16.0, 0.25) },
    Load { name: "period 32 ms", prose: "two rounds: 1/4 work", draw: |d| d.periodic(32.0, 0.25) },
    Load {
        name: "period 400 ms",
        prose: "one rpistat round: 1/4 work",
        draw: |d| d.periodic(400.0, 0.25),
    },
    Load {
        name: "sine 20 ms",
        prose: "the packet rate swings up and down by 80 % at 50 Hz",
        draw: |d| {
            let phase = d.random.f64() * TAU;
            d.by_time(|ms| Rates {
                packets: 10.0 * (1.0 + 0.8 * (TAU * ms / 20.0 + phase).sin()),
                ..WORK
            });
        },
    },
    Load {
        name: "spikes",
        prose: "6 times the misses for 0.2 ms, every 2.5 ms on average",
        draw: |d| d.spikes(2.5, 0.2, 6.0),
    },
    Load {
        name: "rare spikes",
        prose: "30 times the misses for 0.5 ms, every 25 ms on average",
        draw: |d| d.spikes(25.0, 0.5, 30.0),
    },
    Load {
        name: "wander 1 ms",
        prose: "lognormal packet rate, correlated over 1 ms",
        draw: |d| d.wander(1.0, 0.8),
    },
    Load {
        name: "wander 50 ms",
        prose: "lognormal packet rate, correlated over 50 ms",
        draw: |d| d.wander(50.0, 0.8),
    },
];

impl Load {
    /// Draws a trace of `ms` milliseconds.
    pub(crate) fn trace(&self, ms: usize, random: &mut fastrand::Rng) -> Trace {
        let mut draw = Draw { random, steps: ms * STEPS_PER_MS, trace: Trace::default() };
        (self.draw)(&mut draw);
        draw.trace
    }
}

/// Scaling base for multiplexed counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// CPU time.
    Time,
    /// Packets, which are counted all the time.
    Packets,
}

/// Returns the cumulative sum after `step` steps; 0 before the first step.
fn sum_at(sums: &[f64], step: usize) -> f64 {
    if step == 0 { 0.0 } else { sums[step - 1] }
}

fn between(sums: &[f64], from: usize, to: usize) -> f64 {
    sum_at(sums, to) - sum_at(sums, from)
}

/// Returns the count between two steps as a hardware counter would report it, as an integer.
fn counted(sums: &[f64], from: usize, to: usize) -> u64 {
    sum_at(sums, to).round() as u64 - sum_at(sums, from).round() as u64
}

const NS_PER_STEP: u64 = 1_000_000 / STEPS_PER_MS as u64;

impl Trace {
    fn steps(&self) -> usize {
        self.packets.len()
    }

    /// Returns an event's true total.
    pub(crate) fn total(&self, event: usize) -> f64 {
        sum_at(&self.events[event], self.steps())
    }

    fn base(&self, base: Base, from: usize, to: usize) -> f64 {
        match base {
            Base::Time => (to - from) as f64,
            Base::Packets => between(&self.packets, from, to),
        }
    }

    /// Counts the load with multiplexed event sets: set 0 counts the instructions, all others the
    /// misses. Each switch between sets is up to 0.2 ms late, and sometimes much later, mostly
    /// under load.
    pub(crate) fn rotate(
        &self,
        sets: usize,
        slice_ms: f64,
        base: Base,
        random: &mut fastrand::Rng,
    ) -> Counts {
        let plan = Plan {
            always: Vec::new(),
            sets: (0..sets).map(|set| vec![set]).collect(),
            slice: Duration::from_secs_f64(slice_ms / 1000.0),
        };
        let mut turns = Turns::new(&plan, random.u64(..));
        let mut slices = Slices::new(&plan);
        let mut from = 0;
        while from < self.steps() {
            let turn = turns.next_turn();
            let mut to = from + (turn.length.as_secs_f64() * 1000.0 * STEPS_PER_MS as f64) as usize;
            to += random.usize(0..=2 * STEPS_PER_MS / 10);
            let is_working = to < self.steps() && between(&self.packets, to, to + 1) > 1.0;
            if is_working && random.f64() < 0.02 {
                to += random.usize(0..5 * STEPS_PER_MS);
            }
            let to = to.max(from + 1).min(self.steps());
            slices.add(&Slice {
                set: turn.set,
                counts: &[counted(&self.events[usize::from(turn.set > 0)], from, to)],
                base: self.base(base, from, to),
                enabled_ns: (to - from) as u64 * NS_PER_STEP,
                running_ns: (to - from) as u64 * NS_PER_STEP,
            });
            from = to;
        }
        let whole = Whole {
            always: &[],
            base: self.base(base, 0, self.steps()),
            enabled_ns: self.steps() as u64 * NS_PER_STEP,
        };
        slices.counts(sets, &plan, &whole)
    }

    /// Emulates the tool rpistat, which counts four sets for 100 ms each in a fixed order and
    /// scales by time. One of the sets counts misses. Returns the estimated number of misses, and
    /// the half-width that its interval would have if slices were independent samples (infinite for
    /// a single slice); `None` if the run ends before the set with the misses is counted.
    pub(crate) fn round_robin(&self, random: &mut fastrand::Rng) -> Option<(f64, f64)> {
        let (sets, length) = (4, 100 * STEPS_PER_MS);
        let starts = (random.usize(0..sets) * length..self.steps()).step_by(sets * length);
        let samples: Vec<(f64, f64)> = starts
            .map(|from| (from, (from + length).min(self.steps())))
            .map(|(from, to)| (between(&self.events[1], from, to), (to - from) as f64))
            .collect();
        let sum = |(a, b): (f64, f64), (c, d): &(f64, f64)| (a + c, b + d);
        let (count, time) = samples.iter().fold((0.0, 0.0), sum);
        let (n, rate, all) = (samples.len(), count / time, self.steps() as f64);
        if n < 2 {
            return (n == 1).then_some((rate * all, f64::INFINITY));
        }
        let squares: f64 = samples.iter().map(|(c, d)| (c - rate * d).powi(2)).sum();
        let variance = n as f64 * squares / (n - 1) as f64 * (1.0 - time / all);
        // Student's t quantiles for 2 to 6 slices.
        let student = [12.71, 4.30, 3.18, 2.78, 2.57][(n - 2).min(4)];
        Some((rate * all, student * variance.sqrt() * all / time))
    }
}
