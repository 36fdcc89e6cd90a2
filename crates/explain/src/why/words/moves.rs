// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that give a thread its CPU back.

use super::super::facts::Facts;
use linerate_record::units::ranges;
use linerate_record::why::{RanInstead, ThreadActivity};

/// Name prefixes of kernel threads that are bound to a CPU and cannot be moved.
const BOUND: [&str; 5] = ["ksoftirqd/", "kworker/", "migration/", "napi/", "rcu_"];

/// Returns the command that keeps others off a thread's CPU: it moves the thread that ran there
/// longest, if that is known and may be moved.
pub(super) fn command(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    let Some(to) = other_cpus(facts, *thread.ran_on.first()?) else {
        return Some("the machine has no other CPU to move those threads to".to_owned());
    };
    let can_move = |one: &&RanInstead| {
        one.pid.is_some() && !BOUND.iter().any(|kernel| one.name.starts_with(kernel))
    };
    let others = thread.ran_instead.iter().filter(can_move);
    let most = others.max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let family = &facts.observation.watched.pids;
    Some(match most.and_then(|one| Some((one, one.pid?))) {
        Some((one, pid)) if family.contains(&pid) && has_room(facts) => {
            let tid = one.tid.unwrap_or(pid);
            format!("taskset -cp {to} {tid} moves {}, a thread of the program", one.name)
        }
        Some((one, pid)) if family.contains(&pid) => format!(
            "the program's own threads, such as {}, compete for all CPUs: use fewer of them, give \
             them less work (garbage collection, logging), or more CPUs",
            one.name
        ),
        Some((one, pid)) => format!("sudo taskset -acp {to} {pid} moves {}", one.name),
        None => format!(
            "find them (ps -eLo psr,pcpu,pid,comm --sort -pcpu) and move them (sudo taskset -acp \
             {to} PID)"
        ),
    })
}

/// Returns whether there is idle CPU time for a thread that is moved.
fn has_room(facts: &Facts<'_>) -> bool {
    /// Idle CPUs.
    const ROOM: f64 = 0.5;
    facts.idle_cpus().is_none_or(|idle| idle >= ROOM)
}

/// Returns the CPUs other than this one, as a list for `taskset`; `None` if there are none.
fn other_cpus(facts: &Facts<'_>, cpu: u32) -> Option<String> {
    let cpus = facts.observation.cpus.iter().map(|one| one.cpu).filter(|one| *one != cpu);
    let cpus: Vec<u32> = cpus.collect();
    (!cpus.is_empty()).then(|| ranges(&cpus, ","))
}
