// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resource usage of finished children, as reported by the kernel: the fallback if perf events are
//! not available.
//!
//! wait4(2) returns the CPU time, page faults and context switches of a command and of the children
//! it has reaped. Its counts start at fork(2) rather than execve(2), which adds a few dozen page
//! faults compared with perf events. In containers whose seccomp filter blocks perf events
//! altogether, wait4(2) is the only source.

use crate::requested::RequestedEvent;
use crate::run::Run;
use linerate_linux::child::Ended;

/// Method for counts from wait4(2).
pub(crate) const METHOD: &str = "wait4(2), which counts from fork(2) and includes reaped children";

/// Returns the count of the event with this portable name.
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
    // wait4(2) also counts what the command does after its time limit, which must not be included.
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
