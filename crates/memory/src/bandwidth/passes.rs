// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the windows of one thread, pass by pass, and selects those that are valid for all
//! threads.

use super::Job;
use super::sweep::{LOT, Piece, Sweeper};
use crate::window::Windows;
use linerate_linux::monotonic_ns;
use linerate_trial::{Clock, orders};
use std::time::Instant;

/// Minimum number of passes over all jobs.
const PASSES: u32 = 6;

/// Maximum number of passes when windows are dropped.
const MOST_PASSES: u32 = 4 * PASSES;

/// Windows per level, operation and pass.
const WINDOWS: u32 = 3;

/// Window length in ns. Threads that start a few us apart still overlap for nearly the whole
/// window.
const WINDOW_NS: f64 = 300_000.0;

/// Minimum fraction of a window during which all threads must be sweeping.
const TOGETHER: f64 = 0.9;

/// Sweeps before a job's first window, limited to [`WARM_NS`]. Some caches keep a line only after
/// it has been fetched several times.
const WARM_SWEEPS: u64 = 3;

const WARM_NS: f64 = 3.0 * WINDOW_NS;

/// Lower limit on the estimated ns per [`LOT`], so that a stopped clock cannot make windows
/// endless; equivalent to 1 TB/s.
const LEAST_NS_PER_LOT: f64 = 1.0;

/// One thread's measurement of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pass: u32,
    begin: u64,
    end: u64,
    lots: u64,
    ns: f64,
    kept: bool,
}

/// The work that all threads do: the same job at the same time, one job after the other.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) jobs: &'a [Job],
    /// Seed for the job order, which changes from pass to pass. Threads with the same seed use the
    /// same order.
    pub(super) seed: u64,
    pub(super) deadline: Instant,
}

/// Measures one thread's windows and returns them by job. Before each window, `ready` is called
/// with whether this thread would continue, and returns whether all threads do.
pub(super) fn rounds(
    windows: &Windows<'_>,
    mut piece: Piece<'_>,
    plan: &Plan<'_>,
    ready: &mut dyn FnMut(bool) -> bool,
) -> Vec<Vec<Sample>> {
    let Plan { jobs, seed, deadline } = *plan;
    let mut samples = vec![Vec::new(); jobs.len()];
    let mut next = orders(jobs.len(), seed);
    for pass in 0..MOST_PASSES {
        let is_enough = pass >= PASSES && has_enough(jobs, &samples);
        for k in next() {
            let job = &jobs[k];
            let Ok(bytes) = job.bytes else { continue };
            let sweeper = Sweeper::new(job.operation, piece.again(), bytes);
            let Some(mut sweeper) = sweeper else { continue };
            let mut ns_per_lot = warm(&mut sweeper);
            for _ in 0..WINDOWS {
                if !ready(!is_enough && !windows.is_stopped() && Instant::now() < deadline) {
                    return samples;
                }
                let sample = window(windows, &mut sweeper, pass, ns_per_lot);
                ns_per_lot = ns_per_lot.min(sample.ns / sample.lots as f64);
                samples[k].push(sample);
            }
        }
    }
    samples
}

/// Returns whether this thread has, for each job, at least 80 % of the valid windows that
/// [`PASSES`] passes yield on a quiet machine.
fn has_enough(jobs: &[Job], samples: &[Vec<Sample>]) -> bool {
    let kept = |samples: &Vec<Sample>| samples.iter().filter(|sample| sample.kept).count();
    let wanted = (PASSES * WINDOWS) as usize * 4 / 5;
    jobs.iter().zip(samples).all(|(job, samples)| job.bytes.is_err() || kept(samples) >= wanted)
}

/// Sweeps until the lines have settled in their cache level. Returns the minimum time per [`LOT`],
/// in ns.
fn warm(sweeper: &mut Sweeper<'_>) -> f64 {
    let in_side = (sweeper.side() / LOT) as u64;
    let mut pace = f64::INFINITY;
    let (mut total, mut lots) = (0.0, 0);
    while total < WARM_NS && (lots < WARM_SWEEPS * in_side || total < WARM_NS / 10.0) {
        let some = in_side.clamp(64, 1024);
        let start = monotonic_ns();
        lots += sweeper.advance(some);
        let ns = (monotonic_ns() - start) as f64;
        pace = pace.min(ns / some as f64);
        total += ns;
    }
    pace
}

/// Measures a window of about [`WINDOW_NS`].
fn window(windows: &Windows<'_>, sweeper: &mut Sweeper<'_>, pass: u32, ns_per_lot: f64) -> Sample {
    let mut lots = (WINDOW_NS / ns_per_lot.max(LEAST_NS_PER_LOT)).ceil() as u64;
    let (mut begin, mut end) = (0, 0);
    let clock = windows.clock();
    let window = windows.time(|| {
        begin = clock.ticks();
        lots = sweeper.advance(lots);
        end = clock.ticks();
    });
    Sample { pass, begin, end, lots, ns: window.ns, kept: window.kept }
}

/// Returns ns per byte over all threads combined for the fastest window of each pass. `samples` is
/// indexed by thread, then by window.
pub(super) fn passes(samples: &[&[Sample]]) -> Vec<f64> {
    let windows = samples.iter().map(|samples| samples.len()).min().unwrap_or(0);
    let mut best = [f64::INFINITY; MOST_PASSES as usize];
    for at in 0..windows {
        let window: Vec<Sample> = samples.iter().map(|samples| samples[at]).collect();
        if let Some(ns) = together(&window) {
            let best = &mut best[window[0].pass as usize];
            *best = best.min(ns);
        }
    }
    best.into_iter().filter(|ns| ns.is_finite()).collect()
}

/// Returns ns per byte over all threads for one window; `None` if the window is invalid.
fn together(window: &[Sample]) -> Option<f64> {
    let ends = |part: fn(&Sample) -> u64| {
        let all = || window.iter().map(part);
        Some((all().min()?, all().max()?))
    };
    let ((first, begin), (end, last)) = (ends(|s| s.begin)?, ends(|s| s.end)?);
    let common = end.saturating_sub(begin) as f64;
    let is_common = common > 0.0 && common >= TOGETHER * last.saturating_sub(first) as f64;
    let rate: f64 = window.iter().map(|s| (s.lots * LOT as u64) as f64 / s.ns).sum();
    (is_common && window.iter().all(|s| s.kept)).then_some(1.0 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(begin: u64, end: u64, lots: u64, kept: bool) -> Sample {
        Sample { pass: 0, begin, end, lots, ns: (end - begin) as f64, kept }
    }

    #[test]
    fn rates_add_up_where_all_were_at_work() {
        let window = [sample(0, 1000, 10, true), sample(50, 1050, 30, true)];
        let ns_per_byte = together(&window).unwrap();
        assert!((1.0 / ns_per_byte - 40.0 * LOT as f64 / 1000.0).abs() < 1e-9);
        let late = [sample(0, 1000, 10, true), sample(200, 1200, 30, true)];
        assert_eq!(together(&late), None, "80 % is not enough");
        let apart = [sample(0, 1000, 10, true), sample(2000, 3000, 30, true)];
        assert_eq!(together(&apart), None);
        let away = [sample(0, 1000, 10, true), sample(0, 1000, 30, false)];
        assert_eq!(together(&away), None);
    }

    /// The result is each pass's fastest valid window. Evaluation stops when the first thread runs
    /// out of windows.
    #[test]
    fn a_pass_is_its_fastest_window() {
        let of = |pass, lots| Sample { pass, ..sample(0, LOT as u64, lots, true) };
        let windows = [of(0, 1), of(0, 4), of(1, 2), of(1, 1), of(2, 9)];
        assert_eq!(passes(&[&windows, &windows[..4]]), [1.0 / 8.0, 1.0 / 4.0]);
        assert!(passes(&[&windows, &[]]).is_empty());
    }
}
