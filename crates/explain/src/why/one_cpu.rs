// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose threads take turns, so that they use one CPU in total.

use super::facts::Facts;
use super::requests;

/// Returns a sentence if several threads together use one CPU although another CPU is partly idle,
/// which may be a coincidence; otherwise an empty string.
pub(super) fn one_cpu(facts: &Facts<'_>) -> String {
    /// Total CPU time of all threads, in CPUs, that counts as one CPU. Allows for accounting errors
    /// and the time that it takes to switch threads.
    const ONE: std::ops::RangeInclusive<f64> = 0.9..=1.05;
    /// Minimum idle CPU time, in CPUs.
    const IDLE: f64 = 0.2;
    /// Minimum CPU demand of a thread that counts as working.
    const WORKS: f64 = 0.1;
    /// Minimum fraction of readings in which a request was pending.
    const PENDING: f64 = 0.9;
    let is_pending = requests::counts(facts).is_none_or(|counts| counts.pending_share >= PENDING);
    let has_room = facts.idle_cpus().is_some_and(|idle| idle >= IDLE);
    let threads = facts.observation.threads.iter().filter(|one| one.demand() >= WORKS);
    match threads.count() {
        2.. if ONE.contains(&facts.used_cpus()) && has_room && is_pending => {
            " All threads together use one CPU, although another one is partly idle: perhaps only \
             one of them can run at a time (GOMAXPROCS=1, Python's interpreter lock, a lock or a \
             stage that all requests pass through)."
                .to_owned()
        }
        _ => String::new(),
    }
}
