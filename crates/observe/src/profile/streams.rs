// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects streams in sampled addresses: instructions that walk through memory at a constant speed.
//! Performs no I/O.
//!
//! Samples are equally spaced in CPU time. Consecutive samples of a stream are therefore equally
//! spaced in memory, and their distance gives its speed. The addresses of a pointer chase or a hash
//! table are scattered.
//!
//! ```text
//! for each thread and instruction with enough samples:
//!     steps = differences of consecutive addresses, divided by the samples in between
//!     it streams if most steps go in one direction, and most of these are close to their median,
//!         which is not small; the other steps lead from the end of an array back to its beginning
//! speed of a thread = speed of one stream × memory of all its streams / memory of that stream
//! rate = mean speed of the streaming threads × how many of them run at the same time
//! ```
//!
//! The line before the last holds because the streams of a loop begin and end together: a loop over
//! three arrays takes the same time to pass through each.

use linerate_record::stats::{CONFIDENCE, Estimate, quantile};
use std::collections::BTreeMap;

/// An access by one instruction in one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    /// Number of the thread's samples before this one.
    pub(super) ordinal: u64,
    pub(super) at: u64,
}

/// The accesses of one instruction in one thread, in time order.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    /// Number of the thread.
    pub(super) thread: u32,
    pub(super) visits: Vec<Visit>,
}

/// Streams of a program or function.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Streams {
    /// Number of steps of streaming instructions, and of all instructions.
    pub(super) steps: (u64, u64),
    /// Threads that stream, with their bytes per sample.
    pub(super) threads: Vec<(u32, Estimate)>,
}

impl Streams {
    /// Returns the bytes per second of all streaming threads together, while at least one of them
    /// runs; `None` without a stream. `samples` has the number of samples of each thread, which are
    /// `period_s` seconds of CPU time apart. `elapsed_s` is the length of the window in seconds.
    pub(super) fn rate(
        &self,
        samples: impl Fn(u32) -> u64,
        period_s: f64,
        elapsed_s: f64,
    ) -> Option<Estimate> {
        let all: f64 = self.threads.iter().map(|(thread, _)| samples(*thread) as f64).sum();
        let part =
            |(thread, speed): &(u32, Estimate)| speed.scale(samples(*thread) as f64 / all.max(1.0));
        let mean = self.threads.iter().map(part).reduce(Estimate::plus)?;
        // Threads that share a CPU do not stream at the same time. A single thread counts as one
        // even if it is often asleep or interrupted.
        let running = (all * period_s / elapsed_s).max(1.0);
        Some(mean.scale(running / period_s))
    }
}

/// Minimum number of steps for an instruction to be classified.
const MIN_STEPS: usize = 20;
/// Maximum relative deviation of a step from the median. Generous, because other programs slow a
/// stream down.
const DEVIATION: f64 = 0.6;
/// Minimum step of a stream in bytes per sample: at 1000 samples per second, 4 MB/s.
const MIN_STEP: f64 = 4096.0;
/// Minimum share of a streaming instruction's steps in one direction. With random addresses, half
/// of the steps go in each direction.
const MIN_FORWARD: f64 = 0.6;
/// Minimum share of a streaming instruction's forward steps that are within [`DEVIATION`] of the
/// median forward step. With random addresses, half of the forward steps are.
const MIN_CLOSE: f64 = 0.65;
/// Maximum number of samples from one access to the next. Over more samples, a stream may reach its
/// end.
const MAX_SAMPLES: u64 = 2;

/// The streams of a thread.
#[derive(Default)]
struct OfThread {
    /// Number of steps, speed and bytes of the instruction with the most steps.
    best: Option<(usize, Estimate, u64)>,
    ranges: Vec<(u64, u64)>,
}

/// Finds streams in the accesses of each instruction in each thread.
pub(super) fn streams(instructions: &[Instruction]) -> Streams {
    let mut found = Streams { steps: (0, 0), threads: Vec::new() };
    let mut threads = BTreeMap::<u32, OfThread>::new();
    for Instruction { thread, visits } in instructions {
        let steps: Vec<f64> = visits.windows(2).filter_map(step).collect();
        if steps.len() < MIN_STEPS {
            continue;
        }
        found.steps.1 += steps.len() as u64;
        let Some(close) = stream(&steps) else { continue };
        found.steps.0 += steps.len() as u64;
        let range = range_of(visits);
        let of_thread = threads.entry(*thread).or_default();
        of_thread.ranges.push(range);
        if of_thread.best.as_ref().is_none_or(|(most, ..)| close.len() > *most) {
            of_thread.best = Some((close.len(), speed(&close), range.1 - range.0));
        }
    }
    for (thread, OfThread { best, ranges }) in threads {
        let all = length(ranges) as f64;
        found
            .threads
            .extend(best.map(|(_, speed, own)| (thread, speed.scale(all / own.max(1) as f64))));
    }
    found
}

/// Returns the distance between two consecutive accesses, divided by the samples in between.
fn step(pair: &[Visit]) -> Option<f64> {
    let samples = pair[1].ordinal.checked_sub(pair[0].ordinal)?;
    let distance = pair[1].at.wrapping_sub(pair[0].at) as i64 as f64;
    (1..=MAX_SAMPLES).contains(&samples).then(|| distance / samples as f64)
}

/// Returns the lengths of the steps close to their median; `None` if the instruction does not
/// stream.
fn stream(steps: &[f64]) -> Option<Vec<f64>> {
    let sign = quantile(steps, 0.5)?.signum();
    let forward: Vec<f64> =
        steps.iter().map(|step| step * sign).filter(|step| *step > 0.0).collect();
    let middle = quantile(&forward, 0.5)?;
    let is_close = |step: &f64| (step - middle).abs() <= DEVIATION * middle;
    let close: Vec<f64> = forward.iter().copied().filter(is_close).collect();
    let is_stream = middle >= MIN_STEP
        && forward.len() as f64 >= MIN_FORWARD * steps.len() as f64
        && close.len() as f64 >= MIN_CLOSE * forward.len() as f64;
    is_stream.then_some(close)
}

/// Returns the median speed. Its interval is the interquartile range of the steps rather than the
/// confidence interval of the median, because the machine's bandwidth varies as much as the steps
/// do.
fn speed(steps: &[f64]) -> Estimate {
    let at = |q| quantile(steps, q).unwrap_or(f64::NAN);
    let (value, low, high) = (at(0.5), at(0.25), at(0.75));
    Estimate { value, low, high, confidence: CONFIDENCE, n: steps.len() as u64 }
}

fn range_of(visits: &[Visit]) -> (u64, u64) {
    let least = visits.iter().map(|visit| visit.at).min().unwrap_or(0);
    let most = visits.iter().map(|visit| visit.at).max().unwrap_or(0);
    (least, most)
}

/// Returns the number of bytes in the union of ranges.
fn length(mut ranges: Vec<(u64, u64)>) -> u64 {
    ranges.sort_unstable();
    let (mut all, mut end) = (0, 0);
    for (from, to) in ranges {
        let from = from.max(end);
        all += to.saturating_sub(from);
        end = end.max(to);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::random::Random;

    const LENGTH: f64 = 1e8;

    /// Returns a noisy walk through `LENGTH` bytes from `start` at `speed` bytes per sample,
    /// observed in a third of the samples.
    fn walk(start: u64, speed: f64, random: &mut Random) -> Vec<Visit> {
        let mut at = 0.0;
        let mut visits = Vec::new();
        for ordinal in 0..600 {
            at = (at + speed * (0.8 + 0.4 * random.uniform())) % LENGTH;
            if random.below(3) == 0 {
                visits.push(Visit { ordinal, at: start + at as u64 });
            }
        }
        visits
    }

    #[test]
    fn the_speed_of_three_arrays_is_that_of_their_sum() {
        let mut random = Random::new(5);
        let arrays = [0, 1 << 30, 1 << 31].map(|start| walk(start, 1e6, &mut random));
        let found = streams(&arrays.map(of_thread(0)));
        let (_, speed) = found.threads[0];
        assert!((2.6e6..3.4e6).contains(&speed.value), "{speed:?}");
        assert!(found.steps.0 as f64 > 0.9 * found.steps.1 as f64);
        // Two instructions on one array are one stream.
        let unrolled = [walk(0, 1e6, &mut random), walk(16, 1e6, &mut random)];
        let (_, speed) = streams(&unrolled.map(of_thread(0))).threads[0];
        assert!((0.9e6..1.1e6).contains(&speed.value), "{speed:?}");
    }

    fn of_thread(thread: u32) -> impl Fn(Vec<Visit>) -> Instruction {
        move |visits| Instruction { thread, visits }
    }

    #[test]
    fn threads_stream_at_the_same_time_only_if_they_run_at_the_same_time() {
        let mut random = Random::new(5);
        let walks: Vec<Instruction> = (0..8)
            .map(|thread| of_thread(thread)(walk(u64::from(thread) << 30, 1e6, &mut random)))
            .collect();
        let found = streams(&walks);
        assert_eq!(found.threads.len(), 8);
        // Samples are 1 ms apart. In a window of 1 s, 2 CPUs have 2000 samples of 8 threads.
        let rate = |samples: u64, of: &Streams| of.rate(|_| samples, 1e-3, 1.0).unwrap().value;
        assert!((1.8e9..2.2e9).contains(&rate(250, &found)), "{}", rate(250, &found));
        assert!((7.2e9..8.8e9).contains(&rate(1000, &found)), "{}", rate(1000, &found));
        // A thread that runs half of the time streams at its full speed while it runs.
        let one = streams(&walks[..1]);
        assert!((0.9e9..1.1e9).contains(&rate(500, &one)), "{}", rate(500, &one));
    }

    #[test]
    fn random_and_repeated_addresses_are_no_streams() {
        let mut random = Random::new(6);
        let visit = |ordinal, at| Visit { ordinal, at };
        let anywhere: Vec<Visit> =
            (0..500).map(|n| visit(n, random.below(1 << 28) as u64)).collect();
        let small: Vec<Visit> = (0..500).map(|n| visit(n, random.below(4096) as u64)).collect();
        let same: Vec<Visit> = (0..500).map(|n| visit(n, 64)).collect();
        let found = streams(&[anywhere, small, same].map(of_thread(0)));
        assert_eq!((found.steps.0, found.rate(|_| 500, 1e-3, 1.0)), (0, None));
        assert_eq!(streams(&[]).steps, (0, 0));
    }
}
