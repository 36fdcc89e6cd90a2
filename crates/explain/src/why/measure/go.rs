// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognizes programs with the Go runtime, and the thread that monitors it.

use super::super::facts::Facts;
use super::super::waits::{Wait, time_in};
use linerate_record::why::ThreadActivity;

/// Returns whether the process of a thread has the Go runtime, judging by sampled functions. A
/// goroutine that waits for a lock or a timer occupies no thread, so that no system call shows it.
pub(in super::super) fn is_go(facts: &Facts<'_>, thread: &ThreadActivity) -> bool {
    let is_of_go = |other: &ThreadActivity| {
        other.pid == thread.pid && other.functions.iter().any(|f| f.name.starts_with("runtime."))
    };
    facts.observation.threads.iter().any(is_of_go)
}

/// Returns whether a thread is the monitor of the Go runtime, which sleeps on a timer, or on a
/// futex while no goroutine runs, and has no part in the program's work.
pub(in super::super) fn is_go_monitor(facts: &Facts<'_>, thread: &ThreadActivity) -> bool {
    /// Minimum fractions of time asleep on timers, and on timers or futexes.
    const SOME: f64 = 0.3;
    const MOST: f64 = 0.8;
    /// Like `SOME`, for a thread that makes no I/O calls. Other threads of the runtime sleep in its
    /// timer only for moments.
    const SOME_WITHOUT_CALLS: f64 = 0.05;
    let some = match thread.io_calls {
        Some(0) => SOME_WITHOUT_CALLS,
        _ => SOME,
    };
    let futexes = thread.asleep_on.iter().filter(|sleep| sleep.on == "futex");
    let idle: f64 = futexes.map(|sleep| sleep.share).sum();
    time_in(thread, Wait::Timer).is_some_and(|timer| timer >= some && timer + idle >= MOST)
        && is_go(facts, thread)
}
