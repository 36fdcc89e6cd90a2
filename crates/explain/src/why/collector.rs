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

/// Prefixes of the names of collector threads that only run while the program is stopped.
const PAUSES: [&str; 4] = ["GC Thread#", "ParGC", "VM Thread", ".NET Server GC"];

/// Times as fractions of the window.
struct Alternation {
    /// Time in which the busiest thread of the program needs a CPU.
    works: f64,
    /// Time in which the collector runs; its threads run at the same time.
    collects: f64,
}

/// Returns the times of a program whose busiest thread sleeps while its collector runs; `None` if
/// it does not, or if the collector has no threads that stop the program.
fn alternating(facts: &Facts<'_>) -> Option<Alternation> {
    /// Minimum time asleep on a futex, relative to the time in which the collector runs.
    const ASLEEP: f64 = 0.7;
    let threads = &facts.observation.threads;
    let pauses = |one: &&ThreadActivity| PAUSES.iter().any(|name| one.name.starts_with(name));
    let on_cpu = threads.iter().filter(pauses).map(|one| one.share_of(ThreadState::is_on_cpu));
    let collects = on_cpu.reduce(f64::max)?;
    let others = threads.iter().filter(|one| !is_collector(one));
    let worker = others.max_by(|a, b| a.demand().total_cmp(&b.demand()))?;
    let in_futex = worker.asleep_on.iter().filter(|sleep| sleep.on == "futex");
    let waits: f64 = in_futex.map(|sleep| sleep.share).sum();
    (waits >= ASLEEP * collects).then(|| Alternation { works: worker.demand(), collects })
}

/// Returns the fraction of time in which either the busiest thread of the program needs a CPU, or
/// the collector runs while that thread sleeps; `None` as for [`alternating`].
pub(super) fn work_or_pause(facts: &Facts<'_>) -> Option<Estimate> {
    let Alternation { works, collects } = alternating(facts)?;
    Some(shared((works + collects).min(1.0)))
}

/// Returns the fraction of that time in which the collector runs.
pub(super) fn pauses(facts: &Facts<'_>) -> Option<Estimate> {
    let Alternation { works, collects } = alternating(facts)?;
    (works + collects > 0.0).then(|| shared(collects / (works + collects)))
}
