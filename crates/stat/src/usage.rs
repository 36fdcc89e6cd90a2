// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resource usage of finished children as the kernel reports it: the fallback without perf events.
//!
//! wait4(2) gives the processor time, page faults and context switches of a command and of those of
//! its children that were waited for, counted from fork(2), not from execve(2), which adds a few
//! tens of page faults to what perf events report. In containers whose seccomp filter forbids perf
//! events altogether, nothing else is available.

use crate::requested::RequestedEvent;
use crate::run::Run;
use linerate_linux::child::Ended;

/// Method of a count from wait4(2).
pub(crate) const METHOD: &str = "wait4(2), from fork(2) on, including waited-for children";

/// The count of an event, given its portable name.
fn count(name: &str, ended: &Ended) -> Option<u64> {
    Some(match name {
        "task_clock_ns" => ended.user_ns + ended.system_ns,
        "page_faults" => ended.minor_faults + ended.major_faults,
        "minor_faults" => ended.minor_faults,
        "major_faults" => ended.major_faults,
        "context_switches" => ended.voluntary_switches + ended.involuntary_switches,
        _ => return None,
    })
}

/// Fills in the counts that perf events did not provide, or provided for user mode only, and
/// records which events these are.
pub(crate) fn fill(run: &mut Run, asked: &[RequestedEvent]) {
    // Work that a command does after its time limit does not belong in the counts.
    let Some(Ok(ended)) = run.command.filter(|_| !run.is_time_up) else { return };
    for (place, event) in asked.iter().enumerate() {
        let asked_so = event.event.as_ref().is_ok_and(|event| event.is_user_only);
        let is_whole = run.tallies.tally(place).is_some() && (!run.is_user_only[place] || asked_so);
        if is_whole {
            continue;
        }
        if let Some(count) = count(&event.name, &ended) {
            run.tallies.replace(place, count);
            (run.refusals[place], run.is_user_only[place]) = (None, false);
            run.from_usage.push(place);
        }
    }
}
