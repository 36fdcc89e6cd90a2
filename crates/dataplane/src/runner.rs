// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a job: lays out its path, executes the workers, and collects their readings.

use crate::error::RunError;
use crate::execute::{Executed, execute};
use crate::gather::gather;
use crate::job::{Job, Outcome};
use crate::layout::{Ground, lay_out};
use crate::reconcile;
use linerate_machine::ticks::ticks_per_s;
use linerate_trial::Watch;

/// Runs a job until it ends or is stopped. The calling thread sleeps meanwhile.
///
/// All threads of the job start and end within this call.
///
/// # Errors
/// Returns an error if the job cannot be started or a stage panics. After a panic, the error
/// contains the profile so far. See [`RunError`].
///
/// # Panics
/// Panics if `job.cpus` does not have one CPU per worker of `job.mapping`, if the burst size is not
/// 1 to [`MAX_BURST`](crate::burst::MAX_BURST) packets, or if the ring capacity is not a power of
/// two.
pub fn run(job: &Job<'_>, watch: &Watch<'_>) -> Result<Outcome, RunError> {
    run_metered::<true>(job, watch)
}

/// Like [`run`], but without the meter, for measuring the profiling overhead. The report contains
/// only totals. This is a function rather than a Cargo feature, because a feature would require
/// building this crate and its dependents twice.
///
/// # Errors
/// Returns an error in the same cases as [`run`].
pub fn run_unmetered(job: &Job<'_>, watch: &Watch<'_>) -> Result<Outcome, RunError> {
    run_metered::<false>(job, watch)
}

fn run_metered<const ON: bool>(job: &Job<'_>, watch: &Watch<'_>) -> Result<Outcome, RunError> {
    let mut ground = Ground::new(job, ticks_per_s());
    let (pace, workers) = lay_out(job, &mut ground)?;
    let Executed { mut ended, begun, lost } = execute::<ON>(job, watch, pace, workers)?;
    let live = job.live.zip(begun);
    let interfaces = live.map(|(ports, begun)| reconcile::finish(ports, &begun, &mut ended));
    gather(job, watch, pace, ended, interfaces.unwrap_or_default(), &lost)
}
