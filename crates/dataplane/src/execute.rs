// SPDX-License-Identifier: MIT OR Apache-2.0
//! Executes the workers of a run, each on a pinned thread, from a common start to the end.

use crate::counting::TurnCounter;
use crate::ended::Ended;
use crate::error::RunError;
use crate::job::Job;
use crate::layout::{Pace, Place, Placed};
use crate::meter::{Meter, Setup, Span, ThisThread};
use crate::replay::{Replayed, replay};
use crate::worker::{Control, Head, Worker};
use linerate_linux as linux;
use linerate_machine::core_clock;
use linerate_machine::ticks::ticks;
use linerate_path::model::RunLength;
use linerate_trial::Watch;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Warm-up time before measuring, in which caches, TLBs and clocks settle.
const WARM_UP: Duration = Duration::from_millis(60);

/// Delay before a paced source starts: a source that starts before its worker would have a backlog.
const START_DELAY: Duration = Duration::from_millis(20);

/// Interval at which the waiting thread checks whether the workers have ended.
const LOOK_UP: Duration = Duration::from_millis(5);

/// Start times of a run.
#[derive(Clone, Copy)]
struct Start {
    /// Due time of a paced source's first packet, in ticks.
    source: u64,
    /// The measured part of the run.
    span: Span,
}

impl Start {
    /// Returns the start times, counted from now. The layout must be complete: a paced source does
    /// not wait for the workers. A run limited by a number of packets is measured from the first
    /// packet.
    fn soon(job: &Job<'_>, pace: Pace<'_>) -> Self {
        let Pace { timetable, ticks_per_s } = pace;
        let now = ticks();
        let after = |delay: Duration| now + (delay.as_secs_f64() * ticks_per_s) as u64;
        let source = if timetable.is_some() { after(START_DELAY) } else { now };
        let (start, end) = match job.options.length {
            RunLength::Seconds(seconds) => {
                let start = after(WARM_UP);
                (start, start + (seconds * ticks_per_s) as u64)
            }
            RunLength::Packets(_) => (source, u64::MAX),
        };
        Self { source, span: Span { start, end, ticks_per_s } }
    }
}

/// Starts the workers, waits for them, and stops them when their time is up.
///
/// # Errors
/// If a thread cannot be started or pinned; all others have ended by the time this returns.
pub(crate) fn execute<'g, const ON: bool>(
    job: &Job<'_>,
    watch: &Watch<'_>,
    pace: Pace<'_>,
    workers: Vec<Placed<'g>>,
) -> Result<Vec<Ended<'g>>, RunError> {
    let (abort, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let control =
        &Control { stop: &stop, abort: &abort, yields: job.oversubscribe, audit: job.audit };
    let start = Start::soon(job, pace);
    std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(workers.len());
        let mut refused = None;
        for (place, worker) in workers {
            let body = move || worker_main::<ON>(job, control, place, worker, start);
            let name = format!("worker {}", place.name());
            match std::thread::Builder::new().name(name).spawn_scoped(scope, body) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    control.abort.store(true, Ordering::Relaxed);
                    refused = Some(no_thread(place, &error));
                    break;
                }
            }
        }
        wait_for(&threads, job.options.length, watch, control);
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("outside its stages a worker does not panic"));
        let ended = ended.collect::<Result<_, _>>()?;
        refused.map_or(Ok(ended), Err)
    })
}

fn no_thread(place: Place, error: &std::io::Error) -> RunError {
    RunError::System(linux::Error::Call {
        call: "clone",
        value: format!("a thread for worker {}", place.name()),
        errno: error.raw_os_error().unwrap_or(0),
        advice: "raise the process limit (ulimit -u, or the container's)",
    })
}

fn wait_for<T>(
    threads: &[ScopedJoinHandle<'_, T>],
    length: RunLength,
    watch: &Watch<'_>,
    control: &Control<'_>,
) {
    let begun = Instant::now();
    let length = match length {
        RunLength::Seconds(seconds) => Some(WARM_UP + Duration::from_secs_f64(seconds)),
        RunLength::Packets(_) => None,
    };
    while !threads.iter().all(ScopedJoinHandle::is_finished) {
        let passed = begun.elapsed();
        let over = length.is_some_and(|length| passed >= length);
        if over || watch.is_stopped() {
            control.stop.store(true, Ordering::Relaxed);
        }
        if let Some(length) = length {
            let share = passed.as_secs_f64() / length.as_secs_f64();
            watch.progress("packets", share.min(1.0));
        }
        std::thread::sleep(LOOK_UP);
    }
}

/// A guard that makes the other workers exit if the worker that holds the guard panics outside its
/// stages.
struct AbortOnPanic<'a>(&'a AtomicBool);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Body of a worker's thread.
fn worker_main<'g, const ON: bool>(
    job: &Job<'_>,
    control: &Control<'_>,
    place: Place,
    mut worker: Worker<'g, 'g>,
    start: Start,
) -> Result<Ended<'g>, RunError> {
    let _abort = AbortOnPanic(control.abort);
    if let Err(error) = linux::pin_current_thread(place.cpu) {
        control.abort.store(true, Ordering::Relaxed);
        return Err(RunError::System(error));
    }
    let core_clock = || match job.oversubscribe {
        false => core_clock::core_cycles_per_tick().ok().map(|clock| clock.value),
        true => None,
    };
    let before = core_clock();
    let seed = 0x9E37_79B9 ^ ((place.segment as u32) << 8) ^ place.replica as u32;
    if let Head::Source(queue) = &mut worker.head {
        queue.start_at(start.source);
    }
    let parts = worker.parts.len() + 2;
    let counting = job.counting.filter(|_| ON && !job.oversubscribe);
    let (counter, counted) =
        counting.map_or_else(|| (None, Vec::new()), |counting| TurnCounter::new(counting, parts));
    let (yields, logs) = (job.oversubscribe, job.replays());
    let setup = Setup { span: start.span, parts, seed, yields, logs, counter };
    let mut meter = Meter::<ON>::new(ThisThread, setup);
    let cpu_ns = linux::thread_cpu_time_ns();
    let result = catch_unwind(AssertUnwindSafe(|| worker.run(&mut meter, control)));
    let panic = result.err().map(|payload| {
        control.abort.store(true, Ordering::Relaxed);
        message(&*payload)
    });
    let cpu_ns = linux::thread_cpu_time_ns() - cpu_ns;
    worker.close();
    let readings = meter.finish();
    let clock = [before, core_clock()];
    let kernels = if job.replays() && panic.is_none() { replays(&worker) } else { Vec::new() };
    Ok(Ended { place, worker, readings, cpu_ns, clock, panic, kernels, counted })
}

/// Replays the logged kernel calls of each part of a worker: head, stages, tail.
fn replays(worker: &Worker<'_, '_>) -> Vec<Option<Vec<Replayed>>> {
    let burst = worker.burst_size;
    let head = match &worker.head {
        Head::Source(queue) => replay(&queue.kernels, burst),
        Head::Rings { .. } => Some(Vec::new()),
    };
    let stages = worker.parts.iter().map(|part| replay(&part.context.kernels, burst));
    std::iter::once(head).chain(stages).chain([Some(Vec::new())]).collect()
}

fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "(no message)".to_owned())
}
