// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs contestants in rounds, each in a new random order.
//!
//! ```text
//! until enough rounds are done, the time is up, or a stop is requested
//!     for each contestant, in a new random order
//!         a window of its work, on the placement of this round
//! ```
//!
//! A clock frequency change, a busy SMT sibling or a time slice of the host's scheduler lasts
//! longer than a round and therefore affects all contestants alike: times change, but their ratios
//! do not. Because the order is random, no contestant always runs after the same other one.
//!
//! A *placement* is the location of a contestant's memory, which affects its speed by a few
//! percent. The effect lasts as long as the memory is allocated, so more rounds do not average it
//! out. A contestant with several placements rotates through them, one per round.

use crate::clean::Dropped;
use crate::clock::Clock;
use crate::samples::Samples;
use crate::watch::{Beat, Watch, guard};
use std::sync::mpsc::Sender;

/// What a race measures, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Name of the measurement, for progress reports.
    pub what: &'a str,
    /// Names of the contestants, for reporting one that hangs.
    pub contestants: &'a [&'a str],
    /// Placements (memory locations) per contestant, at least 1.
    pub placements: u32,
    /// When the race ends.
    pub length: Length,
    /// Seed for the order of contestants.
    pub seed: u64,
}

/// When a race ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// The race ends after this many rounds. A 95 % interval needs at least 6.
    Rounds(u32),
    /// The race ends after the given time, at the end of a round. If a contestant's placement has
    /// too few valid windows by then, the race continues for up to half as long again. Each
    /// placement runs at least `kept` windows.
    Time {
        /// Nominal duration, in nanoseconds.
        ns: u64,
        /// Number of valid windows that each placement of each contestant should have.
        kept: u32,
    },
}

/// Maximum duration of a time-limited race that lacks valid windows, as a multiple of its nominal
/// duration.
const OVERTIME: f64 = 1.5;

/// One window of a race: which contestant runs, in which round and on which placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Index of the contestant that runs.
    pub contestant: usize,
    /// Index of the contestant's placement.
    pub placement: u32,
    /// Number of the round, counted from 0.
    pub round: u32,
    /// Whether this is the first window of the round.
    pub is_first: bool,
}

/// Returns a generator of random orders: each call of it returns all contestants' indices in a new
/// order. `seed` determines the sequence.
pub fn orders(contestants: usize, seed: u64) -> impl FnMut() -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut order: Vec<usize> = (0..contestants).collect();
    move || {
        random.shuffle(&mut order);
        order.clone()
    }
}

/// Runs a race. `sample` runs one window of a contestant's work and returns its time, or why it is
/// invalid. A round that is stopped midway is discarded.
///
/// # Errors
/// Returns the first error from `sample`.
pub fn rounds<T, E>(
    rules: &Rules<'_>,
    clock: &impl Clock,
    watch: &Watch<'_>,
    sample: impl FnMut(Turn) -> Result<Result<T, Dropped>, E>,
) -> Result<Samples<T>, E> {
    let beat = Beat::default();
    std::thread::scope(|scope| {
        // Stops the watchdog on drop, even on a panic.
        let _guard: Option<Sender<()>> = guard(scope, watch, &beat, rules.contestants);
        run(rules, clock, watch, &beat, sample)
    })
}

fn run<T, E>(
    rules: &Rules<'_>,
    clock: &impl Clock,
    watch: &Watch<'_>,
    beat: &Beat,
    mut sample: impl FnMut(Turn) -> Result<Result<T, Dropped>, E>,
) -> Result<Samples<T>, E> {
    let mut next = orders(rules.contestants.len(), rules.seed);
    let mut samples = Samples::none(rules.contestants.len(), rules.placements, rules.seed);
    let start = clock.wall_ns();
    let mut windows = 0;
    for round in 0.. {
        let passed = clock.wall_ns().saturating_sub(start);
        watch.progress(rules.what, rules.length.share(round, passed));
        if rules.length.is_over(round, passed, &samples) {
            break;
        }
        let mut of_round: Vec<Option<Result<T, Dropped>>> = Vec::new();
        of_round.resize_with(rules.contestants.len(), || None);
        for (place, contestant) in next().into_iter().enumerate() {
            if watch.is_stopped() {
                return Ok(samples);
            }
            windows += 1;
            beat.begin(windows, contestant);
            let placement = round % rules.placements.max(1);
            let turn = Turn { contestant, placement, round, is_first: place == 0 };
            of_round[contestant] = Some(sample(turn)?);
            beat.end();
        }
        samples.push(of_round.into_iter().flatten());
    }
    Ok(samples)
}

impl Length {
    fn is_over<T>(self, round: u32, passed: u64, samples: &Samples<T>) -> bool {
        match self {
            Self::Rounds(rounds) => round >= rounds,
            Self::Time { ns, kept } => {
                let has_time = passed <= ns;
                let has_overtime = passed as f64 <= OVERTIME * ns as f64;
                let is_enough = samples.has_kept(kept);
                round >= samples.placements() * kept && !has_time && (is_enough || !has_overtime)
            }
        }
    }

    /// Returns how much of the race is complete, from 0 to 1.
    fn share(self, round: u32, passed: u64) -> f64 {
        let share = match self {
            Self::Rounds(rounds) => f64::from(round) / f64::from(rounds.max(1)),
            Self::Time { ns, .. } => passed as f64 / ns.max(1) as f64,
        };
        share.min(1.0)
    }
}

#[cfg(test)]
mod tests;
