// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts about the samples of a thread, and about idle threads.

use super::super::facts::Facts;
use super::super::functions::{file_name, is_nameless};
use super::super::waits::{self, Wait};
use super::percent;
use crate::classes::class_of_file;
use linerate_record::why::{FunctionTime, LineUse, SharedLine, ThreadActivity};

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
    let is_work = |function: &&FunctionTime| function.is_polling != Some(true);
    let mut places = Vec::<(String, f64)>::new();
    for function in thread.functions.iter().filter(is_work) {
        let place = place(function);
        match places.iter_mut().find(|(name, _)| *name == place) {
            Some((_, share)) => *share += function.share,
            None => places.push((place, function.share)),
        }
    }
    places.sort_by(|a, b| b.1.total_cmp(&a.1));
    let most = places.iter().take(2);
    let names: Vec<String> =
        most.map(|(name, share)| format!("{name} {} %", percent(*share))).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" Most samples are in {}.", names.join(", ")),
    }
}

/// Returns the name of a function; if it has none, its file, and what the file does, if known.
fn place(function: &FunctionTime) -> String {
    let file = file_name(function);
    match class_of_file(file) {
        _ if !is_nameless(function) => function.name.clone(),
        Some(class) => format!("{file} ({})", class.title()),
        None => file.to_owned(),
    }
}

/// Returns a sentence about idle threads with the same name as a busy thread; empty if there are
/// none. In a server, they indicate that connections or flows are spread unevenly over the threads.
/// Threads that wait for signals do not count, because they supervise others; nor do those of node,
/// which help the only thread that runs the program.
pub(super) fn idle_twins(facts: &Facts<'_>, thread: &ThreadActivity) -> String {
    /// Minimum fraction of time asleep waiting for input.
    const IDLE: f64 = 0.9;
    const HELPED: [&str; 2] = ["node", "MainThread"];
    if HELPED.contains(&thread.name.as_str()) {
        return String::new();
    }
    let supervises =
        |other: &ThreadActivity| other.asleep_on.iter().any(|sleep| sleep.on.contains("sig"));
    let is_idle = |other: &&ThreadActivity| {
        other.name == thread.name
            && !supervises(other)
            && waits::time_in(other, Wait::Input).is_some_and(|share| share >= IDLE)
    };
    match facts.observation.threads.iter().filter(is_idle).count() {
        0 => String::new(),
        1 => {
            format!(" Another thread named {} is idle: are all flows on the busy one?", thread.name)
        }
        count => format!(
            " {count} other threads named {} are idle: are all flows on the busy one?",
            thread.name
        ),
    }
}
