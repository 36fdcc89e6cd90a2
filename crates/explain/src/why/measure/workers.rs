// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distinguishes threads that hold up requests from background threads.

use super::super::facts::{Facts, share};
use super::super::requests;
use super::super::waits::{Wait, time_in};
use linerate_record::stats::Estimate;
use linerate_record::why::{ThreadActivity, ThreadState};

/// Returns the largest fraction of time that another thread of the program waits for requests: one
/// of the same process, or of another process of a server that has several. A thread that accepts
/// connections or watches a timer also waits for input, but not for requests if clients wait for
/// replies meanwhile.
pub(super) fn others_await_input(facts: &Facts<'_>, thread: &ThreadActivity) -> f64 {
    /// Minimum CPU time of a thread of another process, relative to that of `thread`: a process
    /// that only supervises others hardly runs.
    const OF_OTHERS: f64 = 0.2;
    if holds_up_replies(facts, thread) {
        return 0.0;
    }
    let on_cpu = |thread: &ThreadActivity| thread.share_of(ThreadState::is_on_cpu);
    let others = facts.observation.threads.iter().filter(|other| other.tid != thread.tid);
    let works = others.filter(|other| {
        on_cpu(other) > 0.0
            && (other.pid == thread.pid || on_cpu(other) >= OF_OTHERS * on_cpu(thread))
    });
    works.filter_map(|other| time_in(other, Wait::Input)).fold(0.0, f64::max)
}

/// Returns whether clients wait for replies while all threads sleep, and the thread sleeps on
/// something other than input for most of that time.
fn holds_up_replies(facts: &Facts<'_>, thread: &ThreadActivity) -> bool {
    /// Minimum time asleep, relative to the time with a delayed reply. A background thread that
    /// writes to disk now and then does not account for the delays.
    const MOST: f64 = 0.5;
    /// Maximum fraction of time in which the program waits for the reply of another server.
    const AWAITING: f64 = 0.3;
    let Some(delayed) = requests::delayed(facts).filter(|delayed| delayed.low >= requests::DELAYED)
    else {
        return false;
    };
    let waits = [Wait::Timer, Wait::Storage, Wait::Lock, Wait::Other];
    let held: f64 = waits.into_iter().filter_map(|wait| time_in(thread, wait)).sum();
    let is_at_servers =
        requests::awaiting_servers(facts).is_some_and(|awaiting| awaiting.value > AWAITING);
    held >= MOST * delayed.value && !is_at_servers
}

/// Returns the mean number of threads that wait for storage, relative to the mean number of clients
/// that wait for a reply; 0 if only one thread waits, because it may be a background thread. `None`
/// without waiting clients.
pub(super) fn storage_per_client(facts: &Facts<'_>) -> Option<Estimate> {
    /// Minimum fraction of time in which a thread waits for storage to count.
    const WAITS: f64 = 0.05;
    let clients = requests::counts(facts)?.pending_mean;
    let threads = facts.observation.threads.iter();
    let waits = threads
        .filter_map(|thread| Some(facts.part_of_window(thread) * time_in(thread, Wait::Storage)?));
    let waits: Vec<f64> = waits.filter(|share| *share >= WAITS).collect();
    let sum = if waits.len() < 2 { 0.0 } else { waits.iter().sum() };
    (clients > 0.0).then(|| share(sum).scale(1.0 / clients))
}

/// Returns the CPU time of the busiest other thread of the program that also waits for a CPU and
/// has a lower nice value, relative to the CPU time of `thread`. A thread with a high nice value
/// that waits longest is a helper that waits by design.
pub(super) fn higher_priority(facts: &Facts<'_>, thread: &ThreadActivity) -> Estimate {
    /// Minimum fraction of time that the other thread waits; exceeds the error of accounting.
    const WAITS: f64 = 0.05;
    /// Minimum CPU time that kernel accounting can distinguish from zero, in CPUs.
    const LEAST: f64 = 0.01;
    let on_cpu = |thread: &ThreadActivity| thread.share_of(ThreadState::is_on_cpu);
    let is_higher = |other: &&ThreadActivity| {
        let nices = other.nice.zip(thread.nice);
        nices.is_some_and(|(other, own)| other < own)
            && other.share_of(|state| state == ThreadState::Waiting) >= WAITS
    };
    let others = facts.observation.threads.iter().filter(is_higher).map(on_cpu);
    share(others.fold(0.0, f64::max) / on_cpu(thread).max(LEAST))
}
