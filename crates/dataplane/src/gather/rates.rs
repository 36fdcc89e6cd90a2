// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the packet rates of a path from the windows of its workers.

use super::estimate::{WINDOWS_MIN, few_windows, mean_of, series};
use crate::meter::Readings;
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// Minimum number of bursts per rate sample. With 50 bursts, one burst more or less changes the
/// sample by 2 %.
const BURSTS_TOGETHER: f64 = 50.0;

/// A worker is assumed to catch up after each preemption if its starved time is at least this
/// multiple of its lost time.
const CAUGHT_UP: u64 = 2;

/// Clean windows are not representative if their rate, times the share of time that the workers
/// ran, exceeds this multiple of the rate over all windows. The two agree on a saturated path. But
/// if packets arrive at a rate of their own, they queue up while a worker is off its CPU, and its
/// clean windows may contain little else than the processing of this backlog.
const BACKLOG: f64 = 2.0;

/// Minimum number of rate samples that the merging of windows must leave.
const TOGETHER_MIN: usize = 8;

/// Packet rates of the path in each usable window.
///
/// On a saturated path, throughput is lower in interrupted windows, so only windows that are clean
/// on every worker are used. A path with idle time catches up after an interruption, so all of its
/// windows are used. With only the clean ones, its rate would be biased, because periodic packets
/// and periodic interruptions may coincide always, or never. All windows are also used if the clean
/// ones only show how fast the path works off a backlog ([`BACKLOG`]).
///
/// If workers share a CPU, the time that a worker loses to other programs cannot be distinguished
/// from the time that it loses to another worker. The argument `tells_lost` of
/// [`from_readings`](Self::from_readings) is then false, and only clean windows are used.
#[derive(Default)]
pub(super) struct Rates {
    /// Whether all windows are used, rather than only clean ones.
    all: bool,
    /// Rate of packets delivered to the sinks, in packets per ms, by window.
    pub(super) delivered: Vec<f64>,
    /// Rate of packets taken from the source and not lost to overflows, in packets per ms, by
    /// window.
    pub(super) processed: Vec<f64>,
    /// Largest mean burst size of any worker, in packets.
    burst: f64,
}

impl Rates {
    /// Computes the rates from the workers' readings. `has_rate` is whether packets arrive at a
    /// rate of their own, rather than as fast as the path takes them.
    pub(super) fn from_readings(
        workers: &[&Readings],
        ticks_per_s: f64,
        tells_lost: bool,
        has_rate: bool,
    ) -> Self {
        let all = tells_lost && workers.iter().all(|readings| has_caught_up(readings));
        let rates = Self::of_windows(workers, ticks_per_s, all);
        if all || !tells_lost || !has_rate {
            return rates;
        }
        let whole = Self::of_windows(workers, ticks_per_s, true);
        let ran = workers.iter().map(|readings| running_share(readings)).fold(1.0, f64::min);
        match rates.mean() * ran > BACKLOG * whole.mean() {
            true => whole,
            false => rates,
        }
    }

    /// Adds up the rates of all workers, window by window. Uses all windows if `all`, otherwise
    /// only clean ones.
    fn of_windows(workers: &[&Readings], ticks_per_s: f64, all: bool) -> Self {
        let mut joined: BTreeMap<u64, (usize, f64, f64)> = BTreeMap::new();
        let stride = workers.iter().map(|readings| readings.stride).max().unwrap_or(1);
        for readings in workers {
            for window in readings.windows.iter().filter(|w| all || w.clean) {
                // A worker that slept or was preempted has one window for a time in which others
                // have several, and its length need not be a multiple of theirs. So add rates, not
                // counts.
                let ticks = window.ticks + if all { window.crossing } else { 0 };
                let per_ms = |count: f64| count / (ticks.max(1) as f64 / ticks_per_s * 1e3);
                for cell in window.kept_cells(stride) {
                    let entry = joined.entry(cell).or_default();
                    entry.0 += 1;
                    entry.1 += per_ms(window.delivered as f64);
                    entry.2 += per_ms(window.taken as f64 - window.overflowed as f64);
                }
            }
        }
        let mut rates = Self { all, burst: largest_mean_burst(workers), ..Self::default() };
        for (present, delivered, processed) in joined.into_values() {
            // Skip windows in which a worker is missing: it began later, ended earlier, or its
            // window was not clean.
            if present == workers.len() {
                rates.delivered.push(delivered);
                rates.processed.push(processed);
            }
        }
        rates
    }

    /// Returns the mean rate of processed packets over the windows, in packets per ms; 0 without
    /// windows.
    fn mean(&self) -> f64 {
        self.processed.iter().sum::<f64>() / self.processed.len().max(1) as f64
    }

    /// Returns the mean rate if all windows are used, and the median of clean windows otherwise.
    ///
    /// Packets may pause for most of the time, so only the mean over all windows is the rate at
    /// which they were processed. Over clean windows, it would be biased, because a worker that
    /// catches up after a preemption does so in clean windows, which raises their rate.
    ///
    /// Packets arrive in whole bursts, so clean windows are merged until one burst more or less
    /// makes little difference. Otherwise, the median could be 0, for example with one packet in
    /// every third window.
    pub(super) fn figure(&self, packets: &[f64], what: &str) -> Figure {
        let windows = packets.len();
        let which = match self.all {
            true => "mean of all windows, including catch-up time",
            false => "windows without preemption",
        };
        let method = format!("{what}, {which}");
        if windows < WINDOWS_MIN {
            return Figure::absent("kpps", Tier::Sw, &method, &few_windows(windows));
        }
        if self.all {
            return Figure::number("kpps", mean_of(packets), Tier::Sw, &method);
        }
        let mean = packets.iter().sum::<f64>() / windows as f64;
        let wanted = (BURSTS_TOGETHER * self.burst / mean).ceil() as usize;
        let together = wanted.clamp(1, (windows / TOGETHER_MIN).max(1));
        let merged = packets.chunks_exact(together);
        let rates: Vec<f64> =
            merged.map(|chunk| chunk.iter().sum::<f64>() / together as f64).collect();
        Figure::number("kpps", series(&rates), Tier::Sw, &method)
    }
}

fn has_caught_up(readings: &Readings) -> bool {
    readings.starved > 0 && readings.starved >= CAUGHT_UP * readings.lost
}

/// Returns the fraction of its time that a worker was running on its CPU.
fn running_share(readings: &Readings) -> f64 {
    let running = (readings.busy + readings.starved + readings.blocked) as f64;
    running / (running + readings.lost as f64).max(1.0)
}

/// Returns the largest mean burst size of any worker, in packets.
fn largest_mean_burst(workers: &[&Readings]) -> f64 {
    let bursts = workers.iter().map(|readings| {
        readings.packets as f64 / readings.burst_sizes.iter().sum::<u64>().max(1) as f64
    });
    bursts.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
