// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills in placeholders about what stops a thread: a tracer, a signal, the cgroup freezer.

use super::super::waits::{self, Wait};
use linerate_record::why::{SleepTime, ThreadActivity};

/// Placeholders that this module fills in.
#[cfg(test)]
pub(super) const NAMES: &[&str] = &["tracer", "end_tracer", "stopped_by", "resume"];

pub(super) fn value(name: &str, thread: &ThreadActivity) -> Option<String> {
    let tracer = || thread.tracer.map(|pid| pid.to_string());
    let is_frozen =
        waits::longest_in(thread, Wait::Stopped).is_some_and(|on| on == SleepTime::FROZEN);
    Some(match name {
        "tracer" => format!("Process {}", tracer()?),
        "end_tracer" => format!("Stop the tracer (ps -p {} shows which program it is)", tracer()?),
        "stopped_by" if is_frozen => "by the cgroup freezer, which docker pause, systemctl freeze \
                                      and job schedulers use"
            .to_owned(),
        "stopped_by" => "by a signal (SIGSTOP), for example from cpulimit or a shell".to_owned(),
        "resume" if is_frozen => format!(
            "Find out what writes to cgroup.freeze (v2) or freezer.state (v1) in the group of the \
             process (cat /proc/{}/cgroup), and give the group a CPU quota instead (cpu.max)",
            thread.pid
        ),
        "resume" => format!(
            "Find the process that sends the signal (sudo bpftrace -e \
             'tracepoint:signal:signal_generate /args->sig == 19/ {{ print(comm) }}'), and resume \
             the program (kill -CONT {})",
            thread.pid
        ),
        _ => return None,
    })
}
