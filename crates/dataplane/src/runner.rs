// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a job: lays out its path, executes the workers, gathers their readings.

use crate::error::RunError;
use crate::execute::execute;
use crate::gather::gather;
use crate::job::{Job, Outcome};
use crate::layout::{Ground, lay_out};
use linerate_machine::ticks::ticks_per_s;
use linerate_trial::Watch;

/// Runs a job to its end, or until it is stopped.
///
/// The calling thread sleeps during the run. All threads that the job needs start and end within
/// this call.
///
/// # Errors
/// See [`RunError`]. A panic in a stage ends the run and is an error that carries the profile.
///
/// # Panics
/// If `job.cpus` does not have one CPU per worker of `job.mapping`, if the burst size is not 1 to
/// [`MAX_BURST`](crate::burst::MAX_BURST) packets, or if the capacity of the rings is not a power
/// of two.
pub fn run(job: &Job<'_>, watch: &Watch<'_>) -> Result<Outcome, RunError> {
    run_metered::<true>(job, watch)
}

/// Like [`run`], but without the profile: for benchmarks of the profiling overhead. The report's
/// totals are correct; everything else in it is empty. This is not a Cargo feature, because that
/// would require building this crate and its dependents twice.
///
/// # Errors
/// See [`run`].
pub fn run_unmetered(job: &Job<'_>, watch: &Watch<'_>) -> Result<Outcome, RunError> {
    run_metered::<false>(job, watch)
}

fn run_metered<const ON: bool>(job: &Job<'_>, watch: &Watch<'_>) -> Result<Outcome, RunError> {
    let mut ground = Ground::new(job, ticks_per_s());
    let (pace, workers) = lay_out(job, &mut ground)?;
    let ended = execute::<ON>(job, watch, pace, workers)?;
    gather(job, watch, pace, ended)
}
