// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPU time of garbage collectors: dedicated threads of the runtime (Java, .NET), and functions
//! that run in any thread (Go, V8).

use super::facts::{Facts, sampled, share as shared};
use super::functions::Group;
use linerate_record::stats::Estimate;
use linerate_record::why::{ThreadActivity, ThreadState};

/// Prefixes of the names of collector threads in HotSpot ("VM Thread" runs the serial collector and
/// the pauses of the other collectors) and .NET. The kernel truncates thread names to 15
/// characters.
const THREADS: [&str; 10] = [
    "GC Thread#",
    "G1 ",
    "ParGC",
    "VM Thread",
    "XWorker#",
    "ZWorker",
    "ZDriver",
    "Shenandoah",
    ".NET Server GC",
    ".NET BGC",
];

fn is_collector(thread: &ThreadActivity) -> bool {
    THREADS.iter().any(|name| thread.name.starts_with(name))
}

/// Returns the fraction of the program's CPU time that its garbage collector takes; `None` without
/// CPU time or samples.
pub(super) fn share(facts: &Facts<'_>) -> Option<Estimate> {
    let (mut all, mut collecting, mut samples) = (0.0, 0.0, 0);
    for thread in &facts.observation.threads {
        let on_cpu = thread.share_of(ThreadState::is_on_cpu);
        let functions = thread.functions.iter().filter(|one| Group::GarbageCollection.holds(one));
        let of_thread = match is_collector(thread) {
            true => 1.0,
            false => functions.map(|one| one.share).sum::<f64>().min(1.0),
        };
        all += on_cpu;
        collecting += on_cpu * of_thread;
        samples += thread.samples;
    }
    (all > 0.0 && samples > 0).then(|| sampled(collecting / all, samples))
}

/// Returns the CPU time of the garbage collector, in CPUs; `None` as for [`share`].
pub(super) fn cpus(facts: &Facts<'_>) -> Option<Estimate> {
    share(facts).map(|share| share.scale(facts.used_cpus()))
}

/// Returns the fraction of time in which either the busiest thread of the program needs a CPU, or
/// the collector runs while that thread sleeps until it may go on; 0 if the thread seldom sleeps
/// while the collector runs. `None` without the collector's threads.
pub(super) fn alternation(facts: &Facts<'_>) -> Option<Estimate> {
    /// Minimum time asleep on a futex, relative to the time in which the collector runs.
    const ASLEEP: f64 = 0.7;
    let threads = &facts.observation.threads;
    let (collectors, others): (Vec<_>, Vec<_>) = threads.iter().partition(|one| is_collector(one));
    let on_cpu = collectors.iter().map(|one| one.share_of(ThreadState::is_on_cpu));
    // The threads of a parallel collector run at the same time.
    let collects = on_cpu.reduce(f64::max)?;
    let worker = others.into_iter().max_by(|a, b| a.demand().total_cmp(&b.demand()))?;
    let in_futex = worker.asleep_on.iter().filter(|sleep| sleep.on == "futex");
    let waits: f64 = in_futex.map(|sleep| sleep.share).sum();
    let alternates = waits >= ASLEEP * collects;
    Some(shared(if alternates { worker.demand() + collects } else { 0.0 }))
}
