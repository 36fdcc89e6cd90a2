// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that keep other threads off a thread's CPU.

use super::super::facts::Facts;
use linerate_record::units::ranges;
use linerate_record::why::{RanInstead, SchedulingPolicy, ThreadActivity};

/// Name prefixes of kernel threads that are bound to a CPU and cannot be moved.
const BOUND: [&str; 5] = ["ksoftirqd/", "kworker/", "migration/", "napi/", "rcu_"];

/// Placeholders that this module fills in.
pub(super) const NAMES: &[&str] = &["move_others", "reserve_cpu"];

pub(super) fn value(name: &str, facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    match name {
        "move_others" => command(facts, thread),
        "reserve_cpu" => Some(reserve(facts, thread).unwrap_or_default()),
        _ => None,
    }
}

/// Returns advice on giving a thread a CPU of its own; `None` if its priority or the affinity of
/// the program's threads makes it wait.
fn reserve(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    if yielding(thread).or_else(|| pinned(facts, thread)).is_some() {
        return None;
    }
    let cpu = thread.ran_on.first()?;
    Some(format!(
        ". To reserve the CPU, boot with isolcpus={cpu} and pin the thread there (taskset -cp \
         {cpu} {})",
        thread.tid
    ))
}

/// Returns the command that keeps other threads off a thread's CPU. The command moves the thread
/// that ran there longest, if that thread is known and may be moved.
pub(super) fn command(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    let Some(to) = other_cpus(facts, *thread.ran_on.first()?) else {
        return Some("the machine has no other CPU to move those threads to".to_owned());
    };
    if let Some(other) = yielding(thread).or_else(|| pinned(facts, thread)) {
        return Some(other);
    }
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

/// Returns the command for a thread that yields to others by its policy or nice value.
fn yielding(thread: &ThreadActivity) -> Option<String> {
    let tid = thread.tid;
    match (thread.policy?, thread.nice?) {
        (SchedulingPolicy::Idle, _) => Some(format!(
            "chrt -o -p 0 {tid} gives the thread the normal policy; it has SCHED_IDLE, and runs \
             only when no other thread wants the CPU"
        )),
        (SchedulingPolicy::Normal | SchedulingPolicy::Batch, nice @ 1..) => Some(format!(
            "sudo renice -n 0 -p {tid} lets the thread compete on equal terms; its nice value is \
             {nice}"
        )),
        _ => None,
    }
}

/// Returns the command that lets the threads of the program use all CPUs, if several of them may
/// run only on the same CPU and compete for it.
fn pinned(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    /// Minimum CPU demand, in CPUs, of a thread that competes for a CPU.
    const WORKS: f64 = 0.05;
    if thread.allowed.len() != 1 {
        return None;
    }
    let same = facts.observation.threads.iter().filter(|other| {
        other.pid == thread.pid && other.allowed == thread.allowed && other.demand() >= WORKS
    });
    let (threads, cpus) = (same.count(), facts.observation.cpus.iter().map(|one| one.cpu));
    (threads >= 2 && has_room(facts)).then(|| {
        format!(
            "{threads} of the program's own threads may only run on that CPU; taskset -acp {} {} \
             lets them use all CPUs",
            ranges(&cpus.collect::<Vec<_>>(), ","),
            thread.pid
        )
    })
}

/// Returns whether there is enough idle CPU time to move a thread to another CPU.
fn has_room(facts: &Facts<'_>) -> bool {
    /// Minimum idle CPU time, in CPUs.
    const ROOM: f64 = 0.5;
    facts.idle_cpus().is_none_or(|idle| idle >= ROOM)
}

/// Returns all CPUs except `cpu`, as a list for `taskset`; `None` if there is no other CPU.
fn other_cpus(facts: &Facts<'_>, cpu: u32) -> Option<String> {
    let cpus = facts.observation.cpus.iter().map(|one| one.cpu).filter(|one| *one != cpu);
    let cpus: Vec<u32> = cpus.collect();
    (!cpus.is_empty()).then(|| ranges(&cpus, ","))
}
