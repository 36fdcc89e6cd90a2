// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timeline of a profile: samples in bins of a few milliseconds, gaps in which a thread did not
//! run, and the functions of slices with gaps or losses.
//!
//! ```text
//! a running thread is sampled once per (jittered) period of CPU time
//! if two of its samples are d apart, it was therefore not running for at least d - longest period
//! ```
//!
//! This holds only if the timer runs exactly while the thread does, in user and kernel mode, and no
//! sample is lost. Otherwise, gaps are not determined.

use super::stacks::Resolved;
use linerate_record::profile::{
    FunctionThen, Gap, SamplingMethod, ThreadTimeline, TimeSlice, Timeline,
};
use linerate_record::stats::{Estimate, share_interval};
use linerate_record::{Figure, Tier};
use std::collections::{BTreeSet, HashMap};

/// Minimum bin length.
const BIN_MIN_S: f64 = 1e-3;
/// Maximum number of bins.
const MOST_BINS: f64 = 2000.0;
const MOST_THREADS: usize = 8;
const MOST_GAPS: usize = 50;
const MOST_FUNCTIONS: usize = 10;
/// Minimum number of samples for a thread's gaps to be reported.
const LEAST_SAMPLES: usize = 50;
/// Longest period between two samples of a running thread, relative to the sampling period: 10 %
/// jitter, plus the few microseconds that the kernel takes to deliver a sample.
const LONGEST_PERIOD: f64 = 1.15;
/// Minimum share of the samples for the shares of a function to be compared.
const LEAST_SHARE: f64 = 0.01;
const SEED: u64 = 0x7469_6d65;
const METHOD: &str = "samples in the function / all samples, in disturbed or in other slices";

/// The sampling window and its slices.
pub(super) struct Around {
    pub(super) began_ns: u64,
    pub(super) elapsed_s: f64,
    /// Sampling period in nanoseconds of CPU time.
    pub(super) period_ns: u64,
    pub(super) tier: Tier,
    pub(super) slices: Vec<TimeSlice>,
    pub(super) losses: Option<String>,
    /// Why samples do not show when a thread was not running; `None` if they do.
    pub(super) no_gaps: Option<String>,
}

/// Returns why gaps between samples do not show that a thread was not running; `None` if they do.
pub(super) fn no_gaps(sampling: &SamplingMethod, is_clock: bool, lost: u64) -> Option<String> {
    let reason = match (is_clock, sampling.is_by_cpu, sampling.has_kernel, lost) {
        (false, ..) => "cycles are sampled, and the duration of a cycle varies with the frequency",
        (_, true, ..) => "sampling is per CPU, so threads that run only briefly get few samples",
        (_, _, false, _) => "the kernel is not sampled, so system calls look like gaps",
        (.., 1..) => "samples were lost, which looks like gaps",
        (true, false, true, 0) => return None,
    };
    Some(reason.to_owned())
}

/// Computes the timeline. `place` maps thread numbers to indices in the report; `indices` does the
/// same for function numbers.
pub(super) fn timeline(
    resolved: &Resolved,
    around: Around,
    place: &[u32],
    indices: &HashMap<u32, u32>,
) -> Option<Timeline> {
    let times = resolved.times.as_ref()?;
    let bin_s = (around.elapsed_s / MOST_BINS).max(BIN_MIN_S);
    let bins = (around.elapsed_s / bin_s).ceil().max(1.0) as usize;
    let mut by_thread = HashMap::<u32, Vec<f64>>::new();
    for (time_ns, thread) in times {
        let at_s = time_ns.saturating_sub(around.began_ns) as f64 / 1e9;
        by_thread.entry(place[*thread as usize]).or_default().push(at_s);
    }
    let period_s = around.period_ns as f64 / 1e9;
    let mut threads = Vec::new();
    let mut gaps = Vec::new();
    let mut order: Vec<u32> = by_thread.keys().copied().collect();
    order.sort_unstable();
    for thread in order {
        let Some(at_s) = by_thread.get_mut(&thread) else { continue };
        at_s.sort_by(f64::total_cmp);
        if around.no_gaps.is_none() && at_s.len() >= LEAST_SAMPLES {
            gaps.extend(gaps_of(thread, at_s, period_s));
        }
        if threads.len() < MOST_THREADS {
            let mut samples = vec![0; bins];
            for at_s in at_s.iter() {
                samples[((at_s / bin_s) as usize).min(bins - 1)] += 1;
            }
            threads.push(ThreadTimeline { thread, samples });
        }
    }
    gaps.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    gaps.truncate(MOST_GAPS);
    gaps.sort_by(|a, b| a.begins_s.total_cmp(&b.begins_s));
    let Around { slices, losses, no_gaps, .. } = around;
    let functions = Vec::new();
    let mut timeline = Timeline { bin_s, threads, slices, losses, gaps, no_gaps, functions };
    timeline.functions = functions_then(&timeline, resolved, indices, around.tier);
    Some(timeline)
}

/// Returns the gaps of a thread. `at_s` are the times of its samples, ascending.
fn gaps_of(thread: u32, at_s: &[f64], period_s: f64) -> Vec<Gap> {
    let gap = |ends: &[f64]| {
        let seconds = ends[1] - ends[0] - LONGEST_PERIOD * period_s;
        (seconds >= period_s).then_some(Gap { thread, begins_s: ends[0], seconds })
    };
    at_s.windows(2).filter_map(gap).collect()
}

/// Compares each function's share of the samples in disturbed slices (with gaps or losses) with its
/// share in the other slices. Returns the functions whose shares differ by more than their errors.
fn functions_then(
    timeline: &Timeline,
    resolved: &Resolved,
    indices: &HashMap<u32, u32>,
    tier: Tier,
) -> Vec<FunctionThen> {
    // Samples by function in each slice: undisturbed slices, then disturbed ones.
    let mut parts: [Vec<HashMap<u32, f64>>; 2] = [Vec::new(), Vec::new()];
    for (slice, samples) in timeline.slices.iter().zip(&resolved.of_threads) {
        let mut counts = HashMap::<u32, f64>::new();
        for ((_, spot), n) in samples {
            let function = resolved.names.function_of(*spot);
            if let Some(index) = indices.get(&function) {
                *counts.entry(*index).or_default() += *n as f64;
            }
        }
        parts[usize::from(timeline.is_disturbed(slice))].push(counts);
    }
    let all = parts
        .each_ref()
        .map(|part| part.iter().map(|counts| counts.values().sum::<f64>()).collect::<Vec<f64>>());
    if all.iter().any(|samples| samples.iter().sum::<f64>() == 0.0) {
        return Vec::new();
    }
    let functions: BTreeSet<u32> =
        parts.iter().flatten().flat_map(|counts| counts.keys().copied()).collect();
    let share = |part: usize, function: u32| {
        let hits: Vec<f64> = parts[part]
            .iter()
            .map(|counts| counts.get(&function).copied().unwrap_or(0.0))
            .collect();
        share_interval(&hits, &all[part], SEED)
    };
    let then = |function: u32| {
        let (otherwise, then) = (share(0, function), share(1, function));
        let figure = |estimate| Figure::number("ratio", estimate, tier, METHOD);
        let is_large = otherwise.value.max(then.value) >= LEAST_SHARE;
        (is_large && differ(&then, &otherwise)).then(|| {
            let difference = (then.value - otherwise.value).abs();
            let (then, otherwise) = (figure(then), figure(otherwise));
            (difference, FunctionThen { function, then, otherwise })
        })
    };
    // Functions are ordered by samples, so those left out cannot differ by much.
    let candidates = functions.into_iter().take(8 * MOST_FUNCTIONS);
    let mut found: Vec<(f64, FunctionThen)> = candidates.filter_map(then).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.truncate(MOST_FUNCTIONS);
    found.into_iter().map(|(_, then)| then).collect()
}

/// Returns whether two shares differ by more than their errors.
fn differ(one: &Estimate, other: &Estimate) -> bool {
    one.low > other.high || one.high < other.low
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_record::random::Random;

    /// Returns jittered samples of a thread that always runs except during `pauses` (start and
    /// length).
    fn sampled(period_s: f64, until_s: f64, pauses: &[(f64, f64)]) -> Vec<f64> {
        let mut random = Random::new(3);
        let (mut ran_s, mut at_s) = (0.0, Vec::new());
        loop {
            ran_s += period_s * (0.98 + 0.04 * random.uniform());
            // The wall time at which this much CPU time has been used.
            let mut wall_s = ran_s;
            for (begins_s, seconds) in pauses {
                if wall_s >= *begins_s {
                    wall_s += seconds;
                }
            }
            if wall_s >= until_s {
                return at_s;
            }
            at_s.push(wall_s);
        }
    }

    #[test]
    fn gaps_are_never_longer_than_the_pause_and_hardly_shorter() {
        let pauses = [(0.5, 0.010), (1.2, 0.100), (2.0, 0.0005)];
        let gaps = gaps_of(4, &sampled(1e-3, 3.0, &pauses), 1e-3);
        assert_eq!(gaps.len(), 2, "{gaps:?}");
        for (gap, (begins_s, seconds)) in gaps.iter().zip(pauses) {
            assert_eq!(gap.thread, 4);
            assert!((gap.begins_s - begins_s).abs() <= 1.2e-3, "{gap:?}");
            assert!(gap.seconds <= seconds && gap.seconds >= seconds - 0.5e-3, "{gap:?}");
        }
    }

    #[test]
    fn gaps_are_determined_only_where_every_running_thread_is_sampled() {
        let exact = SamplingMethod {
            is_by_cpu: false,
            has_kernel: true,
            ..linerate_record::fixtures::profile().sampling
        };
        assert_eq!(no_gaps(&exact, true, 0), None);
        let of_cpus = SamplingMethod { is_by_cpu: true, ..exact.clone() };
        let of_user = SamplingMethod { has_kernel: false, ..exact.clone() };
        for (sampling, is_clock, lost) in
            [(&exact, false, 0), (&exact, true, 1), (&of_cpus, true, 0), (&of_user, true, 0)]
        {
            assert!(no_gaps(sampling, is_clock, lost).is_some(), "{is_clock} {lost}");
        }
    }

    #[test]
    fn shares_differ_only_by_more_than_their_errors() {
        let share = |hits: f64| share_interval(&[hits; 20], &[100.0; 20], SEED);
        assert!(!differ(&share(10.0), &share(10.5)));
        assert!(differ(&share(10.0), &share(20.0)) && differ(&share(20.0), &share(10.0)));
    }

    #[test]
    fn a_thread_that_always_runs_has_no_gaps() {
        assert_eq!(gaps_of(0, &sampled(1e-3, 20.0, &[]), 1e-3), []);
    }
}
