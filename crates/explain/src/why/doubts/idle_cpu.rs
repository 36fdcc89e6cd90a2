// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread that waits for a CPU that is idle: something holds it back that is not visible.

use super::super::facts::{Facts, Subject};
use super::super::measure::Measure;
use super::super::rules::SHORT_US;
use super::super::words::{label, milliseconds, percent};
use super::Doubt;
use linerate_record::why::ThreadState;

/// Detects a thread that could run but did not, while its CPU was idle. Waking up an idle CPU takes
/// time too, but far less than [`SHORT_US`].
pub(in super::super) fn idle_cpu(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum fraction of time spent waiting, above the error of kernel accounting.
    const WAITS: f64 = 0.1;
    /// Minimum fraction of the wait during which the CPU was idle.
    const IDLE: f64 = 0.5;
    let thread = facts.busiest()?;
    let waiting = thread.share_of(|state| state == ThreadState::Waiting);
    let idle = facts.idle_meanwhile(thread);
    let wait = Measure::MeanWait.of(facts, Subject::Thread(thread))?;
    if waiting < WAITS || idle < IDLE || wait.low < SHORT_US {
        return None;
    }
    let cpus = match thread.ran_on.as_slice() {
        [cpu] => format!("CPU {cpu}, where it ran, was"),
        all => format!("the {} CPUs where it ran were", all.len()),
    };
    Doubt::new(
        format!(
            "Cannot tell what holds back thread {}: it was runnable but not running {} % of the \
             time, {} at a time, although {cpus} idle for at least {} % of that time. A CPU quota \
             of a control group that is not visible here has this effect; in a container, \
             /proc/stat may also leave out what runs in other containers.",
            label(thread),
            percent(waiting),
            milliseconds(wait.value / 1e3),
            percent(idle),
        ),
        format!(
            "On the host, run linerate why for this process (its PID here is {}), or read \
             nr_throttled in cpu.stat of each group that /proc/PID/cgroup names, and of all parent \
             groups",
            thread.pid
        ),
    )
}
