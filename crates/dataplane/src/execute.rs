// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the workers on pinned threads: starts them together, waits for them, and stops them.

use crate::counting::TurnCounter;
use crate::ended::Ended;
use crate::error::RunError;
use crate::foreign::ForeignFailure;
use crate::idle::cost::wake_up_ticks;
use crate::idle::wake::Waker;
use crate::job::Job;
use crate::layout::{Pace, Place, Placed};
use crate::live::start::{Ticket, line_up};
use crate::meter::{Meter, Setup, Span, ThisThread};
use crate::reconcile::{self, Begun};
use crate::replay::{Replayed, replay};
use crate::worker::{Control, Head, Worker};
use linerate_linux as linux;
use linerate_machine::lost_time::LostTime;
use linerate_machine::ticks::ticks;
use linerate_machine::{Root, core_clock};
use linerate_path::model::{IdlePolicy, RunLength};
use linerate_record::run::FailureKind;
use linerate_trial::Watch;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Time for which the path runs before the measurement, so that caches and TLBs are warm and clocks
/// have settled.
pub const WARM_UP: Duration = Duration::from_millis(60);

/// Time until the first packet of a paced source is due. Without this delay, a backlog would build
/// up before the source's worker starts.
const START_DELAY: Duration = Duration::from_millis(20);

/// Interval at which the calling thread checks whether the workers have ended.
const LOOK_UP: Duration = Duration::from_millis(5);

/// Interval at which the calling thread checks whether the workers have ended, in runs whose
/// workers may sleep. Checks every [`LOOK_UP`] would cost more CPU time than the workers.
const RARE_LOOK_UP: Duration = Duration::from_millis(25);

/// When the source and the measurement start.
#[derive(Clone, Copy)]
struct Start {
    /// Time at which a paced source's first packet is due, in ticks.
    source: u64,
    /// Start and end of the measurement.
    span: Span,
}

/// What is left of a run after its threads have ended.
pub(crate) struct Executed<'g> {
    /// The workers.
    pub(crate) ended: Vec<Ended<'g>>,
    /// The interfaces' counters at the start of reception, if the path has interfaces.
    pub(crate) begun: Option<Begun>,
    /// The kernel's counters of lost time, read at the start and at the end of the measurement.
    pub(crate) lost: [LostTime; 2],
}

impl Start {
    /// Computes the start times from the current time. Call once all workers are laid out, because
    /// the packets of a paced source are due from its start on, even if a worker is not ready. If
    /// the run ends after a number of packets, the measurement begins with the first packet.
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
/// Returns an error if a thread cannot be started or pinned, after all other threads have ended.
pub(crate) fn execute<'g, const ON: bool>(
    job: &Job<'_>,
    watch: &Watch<'_>,
    pace: Pace<'_>,
    mut workers: Vec<Placed<'g>>,
) -> Result<Executed<'g>, RunError> {
    let (abort, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let control = &Control {
        stop: &stop,
        abort: &abort,
        yields: job.oversubscribe,
        ticks_per_s: pace.ticks_per_s,
        audit: job.audit,
    };
    set_break_even(job, pace.ticks_per_s, &mut workers)?;
    let sleepers = workers.iter().filter_map(|(_, worker)| worker.rest.sleeper.as_ref());
    let wakers: Vec<Arc<Waker>> = sleepers.map(|sleeper| Arc::clone(&sleeper.waker)).collect();
    let start = Start::soon(job, pace);
    let gate = OnceLock::new();
    std::thread::scope(|scope| {
        let (line, ticket) = line_up(&gate);
        // Reception needs a common start. Workers that only send wait for it as well: the first
        // reading of an interface's counters must precede the first packet.
        let ticket = job.live.is_some().then_some(ticket);
        let mut threads = Vec::with_capacity(workers.len());
        let mut refused = None;
        for (place, worker) in workers {
            let ticket = ticket.clone();
            let body = move || worker_main::<ON>(job, control, place, worker, start, ticket);
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
        drop(ticket);
        let begun = job.live.map(|ports| reconcile::begin(ports, line));
        let lost = wait_for(&threads, job.options.length, watch, control, &wakers);
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("a worker does not panic outside its stages"));
        let ended = ended.collect::<Result<_, _>>()?;
        refused.map_or(Ok(Executed { ended, begun, lost }), Err)
    })
}

/// Sets the idle time after which workers with the policy `auto` sleep. This is the time given in
/// the path or, by default, the cost of a wake-up, which is measured on the CPU of the first worker
/// with this policy.
fn set_break_even(
    job: &Job<'_>,
    ticks_per_s: f64,
    workers: &mut [Placed<'_>],
) -> Result<(), RunError> {
    let is_auto = |(_, worker): &&mut Placed<'_>| worker.rest.policy == IdlePolicy::Auto;
    let mut measured = None;
    for (place, worker) in workers.iter_mut().filter(is_auto) {
        worker.rest.ladder.park_after = match (job.idle.park_after_s, measured) {
            (Some(seconds), _) => (seconds * ticks_per_s) as u64,
            (None, Some(ticks)) => ticks,
            (None, None) => {
                // In the run, a neighbour on another CPU wakes the worker, so measure from another
                // CPU if there is one.
                let other = job.cpus.iter().copied().find(|cpu| *cpu != place.cpu);
                let ticks = wake_up_ticks(place.cpu, other.unwrap_or(place.cpu), ticks_per_s)
                    .map_err(RunError::System)?;
                *measured.insert(ticks)
            }
        };
    }
    Ok(())
}

fn no_thread(place: Place, error: &std::io::Error) -> RunError {
    RunError::System(linux::Error::Call {
        call: "clone",
        value: format!("thread of worker {}", place.name()),
        errno: error.raw_os_error().unwrap_or(0),
        advice: "raise the process limit (ulimit -u or the container's limit)",
    })
}

/// Waits for the threads, and makes them end when their time is up. Returns the kernel's counters
/// of lost time, as read at the start and at the end of the measurement. The calling thread reads
/// them, so that the workers need not.
fn wait_for<T>(
    threads: &[ScopedJoinHandle<'_, T>],
    length: RunLength,
    watch: &Watch<'_>,
    control: &Control<'_>,
    wakers: &[Arc<Waker>],
) -> [LostTime; 2] {
    let look_up = if wakers.is_empty() { LOOK_UP } else { RARE_LOOK_UP };
    let begun = Instant::now();
    let (warm_up, length) = match length {
        RunLength::Seconds(seconds) => (WARM_UP, Some(WARM_UP + Duration::from_secs_f64(seconds))),
        RunLength::Packets(_) => (Duration::ZERO, None),
    };
    let read = || LostTime::read(&Root::new(Path::new("/")));
    let (mut first, mut last) = (None, None);
    while !threads.iter().all(ScopedJoinHandle::is_finished) {
        let passed = begun.elapsed();
        if passed >= warm_up {
            first.get_or_insert_with(read);
        }
        let over = length.is_some_and(|length| passed >= length);
        if over || watch.is_stopped() {
            control.stop.store(true, Ordering::Relaxed);
        }
        if control.is_ending() {
            last.get_or_insert_with(read);
            wakers.iter().for_each(|waker| waker.notify());
        }
        if let Some(length) = length {
            let share = passed.as_secs_f64() / length.as_secs_f64();
            watch.progress("packets", share.min(1.0));
        }
        let next = if first.is_none() { Some(warm_up) } else { length };
        let left = next.map_or(look_up, |next| next.saturating_sub(passed));
        std::thread::sleep(if over { LOOK_UP } else { look_up.min(left) });
    }
    let last = last.unwrap_or_else(read);
    [first.unwrap_or_else(|| last.clone()), last]
}

/// Guard held by a worker's thread. If a panic outside the stages unwinds the thread, dropping the
/// guard makes the other workers exit.
struct AbortOnPanic<'a>(&'a AtomicBool);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Body of a worker's thread. With a `ticket`, the worker waits for the others, so that all start
/// receiving at the same time.
fn worker_main<'g, const ON: bool>(
    job: &Job<'_>,
    control: &Control<'_>,
    place: Place,
    mut worker: Worker<'g, 'g>,
    start: Start,
    ticket: Option<Ticket<'_>>,
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
    if worker.rest.policy.parks() {
        linux::use_precise_timers();
    }
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
    let started = ticket.map_or(Ok(()), |ticket| ticket.start(|| reconcile::start(&mut worker)));
    if let Err(error) = started {
        control.abort.store(true, Ordering::Relaxed);
        return Err(RunError::System(error));
    }
    let cpu_ns = linux::thread_cpu_time_ns();
    let result = catch_unwind(AssertUnwindSafe(|| worker.run(&mut meter, control)));
    let failure = result.err().map(|payload| {
        control.abort.store(true, Ordering::Relaxed);
        described(&*payload)
    });
    let cpu_ns = linux::thread_cpu_time_ns() - cpu_ns;
    let readings = meter.finish();
    worker.close();
    let clock = [before, core_clock()];
    let kernels = if job.replays() && failure.is_none() { replays(&worker) } else { Vec::new() };
    Ok(Ended { place, worker, readings, cpu_ns, clock, failure, kernels, counted })
}

/// Replays the kernel calls logged by each part of a worker: head, stages, tail.
fn replays(worker: &Worker<'_, '_>) -> Vec<Option<Vec<Replayed>>> {
    let burst = worker.burst_size;
    let head = match &worker.head {
        Head::Source(queue) => replay(&queue.stock.kernels, burst),
        Head::Rings { .. } => Some(Vec::new()),
    };
    let stages = worker.parts.iter().map(|part| replay(&part.context.kernels, burst));
    std::iter::once(head).chain(stages).chain([Some(Vec::new())]).collect()
}

/// Returns how a stage failed, and its message, from the payload of its panic.
fn described(payload: &(dyn std::any::Any + Send)) -> (FailureKind, String) {
    if let Some(ForeignFailure { kind, message }) = payload.downcast_ref() {
        return (*kind, message.clone());
    }
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    (FailureKind::Panic, text.unwrap_or_else(|| "(no message)".to_owned()))
}
