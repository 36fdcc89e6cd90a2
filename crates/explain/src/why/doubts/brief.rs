// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads and processes that end before they can be observed.

use super::super::facts::Facts;
use super::super::measure::children_cpus;
use super::super::words::{label, percent};
use super::Doubt;
use linerate_record::units::three_digits;
use linerate_record::why::{ThreadActivity, ThreadState};

/// Detects threads that start and end within the window, such as one per connection, and use a
/// large part of the program's CPU time.
pub(super) fn threads(facts: &Facts<'_>) -> Option<Doubt> {
    let brief = facts.observation.ended_threads_cpus?;
    let observed = facts.used_cpus();
    if !is_much(brief, observed) {
        return None;
    }
    let pid = facts.observation.watched.pids.first().copied().unwrap_or(0);
    Doubt::new(
        format!(
            "Cannot tell what limits the program: threads that start and end within the window, \
             perhaps one per connection, use {} CPUs, and the threads that could be observed use \
             {}.{}",
            three_digits(brief),
            three_digits(observed),
            confined(facts)
        ),
        format!(
            "Sample them with perf, which follows new threads: perf record -g -p {pid} -- sleep 5; \
             perf report"
        ),
    )
}

/// Like [`threads`], for processes that end within the window.
pub(super) fn children(facts: &Facts<'_>) -> Option<Doubt> {
    let brief = children_cpus(facts)?;
    let observed = facts.used_cpus();
    if !is_much(brief, observed) {
        return None;
    }
    let pid = facts.observation.watched.pids.first().copied().unwrap_or(0);
    Doubt::new(
        format!(
            "Cannot tell whether starting processes limits the program (child_processes): \
             processes that ended within the window used {} CPUs, and the threads that could be \
             observed used {}.",
            three_digits(brief),
            three_digits(observed)
        ),
        format!("Count the processes that it starts: strace -f -c -e trace=process -p {pid}"),
    )
}

/// Returns whether threads or processes that could not be observed use a large part of the
/// program's CPU time. Both times are in CPUs.
fn is_much(unseen: f64, observed: f64) -> bool {
    const CPUS: f64 = 0.05;
    const OF_ALL: f64 = 0.3;
    unseen >= CPUS && unseen >= OF_ALL * (unseen + observed)
}

/// Returns a sentence about the thread that waits longest for the only CPU in its affinity mask;
/// empty if no such thread waits for long.
fn confined(facts: &Facts<'_>) -> String {
    /// Minimum fraction of time waiting; exceeds the error of kernel accounting.
    const WAITS: f64 = 0.1;
    let waiting = |thread: &ThreadActivity| thread.share_of(|state| state == ThreadState::Waiting);
    let threads = facts.observation.threads.iter().filter(|thread| thread.allowed.len() == 1);
    match threads.max_by(|a, b| waiting(a).total_cmp(&waiting(b))) {
        Some(thread) if waiting(thread) >= WAITS => format!(
            " Thread {} waits {} % of the time for CPU {}, the only CPU in its affinity mask (to \
             change the mask: taskset -acp CPUS {}).",
            label(thread),
            percent(waiting(thread)),
            thread.allowed[0],
            thread.pid
        ),
        _ => String::new(),
    }
}
