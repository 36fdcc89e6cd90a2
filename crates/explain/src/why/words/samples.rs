// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts about the samples of a thread, and about idle threads.

use super::super::facts::Facts;
use super::super::waits::{self, Wait};
use super::percent;
use linerate_record::why::{LineUse, SharedLine, ThreadActivity};

/// Describes the shared cache line on which a thread has the most samples: which threads use which
/// bytes.
pub(super) fn line(facts: &Facts<'_>, thread: &ThreadActivity) -> String {
    let share = |line: &&SharedLine| {
        let own = line.threads.iter().filter(|used| used.tid == thread.tid);
        own.map(|used| used.share).sum::<f64>()
    };
    let lines = facts.observation.shared_lines.iter();
    let Some(line) = lines.max_by(|a, b| share(a).total_cmp(&share(b))) else {
        return "-".to_owned();
    };
    let user = |used: &LineUse| {
        let does = if used.is_written { "writes" } else { "reads" };
        let LineUse { tid, first_byte, last_byte, function, .. } = used;
        format!("thread {tid} {does} bytes {first_byte} to {last_byte} in {function}")
    };
    let users: Vec<String> = line.threads.iter().take(3).map(user).collect();
    format!("{}, {}", line.address, users.join(", "))
}

/// Returns a sentence that names the functions with the most samples.
pub(super) fn functions(thread: &ThreadActivity) -> String {
    let is_work =
        |function: &&linerate_record::why::FunctionTime| function.is_polling != Some(true);
    let named = thread.functions.iter().filter(is_work).take(2);
    let names: Vec<String> = named.map(|f| format!("{} {} %", f.name, percent(f.share))).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" Most samples are in {}.", names.join(", ")),
    }
}

/// Returns a sentence about idle threads with the same name as a busy thread; empty if there are
/// none. In a server, they indicate that connections or flows are spread unevenly over the threads.
pub(super) fn idle_twins(facts: &Facts<'_>, thread: &ThreadActivity) -> String {
    /// Minimum fraction of time asleep waiting for input.
    const IDLE: f64 = 0.9;
    let is_idle = |other: &&ThreadActivity| {
        other.name == thread.name
            && waits::time_in(other, Wait::Input).is_some_and(|share| share >= IDLE)
    };
    match facts.observation.threads.iter().filter(is_idle).count() {
        0 => String::new(),
        1 => format!(" Another thread named {} is idle: are all flows on this one?", thread.name),
        count => format!(
            " {count} other threads named {} are idle: are all flows on this one?",
            thread.name
        ),
    }
}
