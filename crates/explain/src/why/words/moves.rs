// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that keep other threads off a thread's CPU.

use super::super::facts::Facts;
use linerate_record::units::ranges;
use linerate_record::why::{RanInstead, SchedulingPolicy, ThreadActivity, ThreadState};
use std::collections::BTreeSet;

/// Name prefixes of kernel threads that are bound to a CPU and cannot be moved.
const BOUND: [&str; 5] = ["ksoftirqd/", "kworker/", "migration/", "napi/", "rcu_"];

/// Idle CPU time, in CPUs, that accounting cannot distinguish from zero.
const NO_ROOM: f64 = 0.1;

/// Placeholders of this module.
#[cfg(test)]
pub(super) const NAMES: &[&str] =
    &["move_others", "reserve_cpu", "confined", "prefer", "prefer_and"];

pub(super) fn value(name: &str, facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    match name {
        "move_others" => command(facts, thread),
        "reserve_cpu" => Some(reserve(facts, thread).unwrap_or_default()),
        "confined" => Some(confined(facts, thread)),
        "prefer" => Some(prefer(facts, thread)),
        "prefer_and" => Some(match prefer(facts, thread) {
            none if none.is_empty() => none,
            some => some + "; ",
        }),
        _ => None,
    }
}

/// Returns advice on giving a thread a CPU of its own; `None` if its priority or the affinity of
/// the program's threads makes it wait.
fn reserve(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    let is_full = facts.idle_cpus().is_some_and(|idle| idle < NO_ROOM);
    if is_full || yielding(facts, thread).or_else(|| pinned(facts, thread)).is_some() {
        return None;
    }
    let cpu = thread.ran_on.first()?;
    Some(format!(
        ". To reserve the CPU, boot with isolcpus={cpu} and pin the thread there (taskset -cp \
         {cpu} {})",
        thread.tid
    ))
}

/// Returns the command that gives a thread priority over others on its CPU; empty if the others are
/// mostly the program's own threads, which would then wait instead.
fn prefer(facts: &Facts<'_>, thread: &ThreadActivity) -> String {
    /// Minimum fraction of time asleep, larger than the error of kernel accounting.
    const SLEEPS: f64 = 0.05;
    let tid = thread.tid;
    if are_own(facts, &thread.ran_instead) {
        return String::new();
    }
    match thread.share_of(|state| state == ThreadState::Asleep) >= SLEEPS {
        true => format!(
            "sudo chrt -f -p 1 {tid} gives the thread priority over ordinary threads, which then \
             wait"
        ),
        false => {
            let (command, who) = match facts.observation.sched_autogroup {
                // A nice value only counts within a session.
                Some(true) => {
                    (format!("echo -10 | sudo tee /proc/{}/autogroup", thread.pid), "session")
                }
                _ => (format!("sudo renice -n -10 -p {tid}"), "thread"),
            };
            format!(
                "{command} gives the {who} a larger share of the CPU, though not against \
                 real-time threads (do not use SCHED_FIFO: a thread that never sleeps would starve \
                 the kernel threads on that CPU)"
            )
        }
    }
}

/// Returns whether most of the CPU time of the threads in `instead` was used by the program's own
/// threads.
fn are_own(facts: &Facts<'_>, instead: &[RanInstead]) -> bool {
    let family = &facts.observation.watched.pids;
    let is_own = |one: &&RanInstead| one.pid.is_some_and(|pid| family.contains(&pid));
    let all: f64 = instead.iter().map(|one| one.seconds).sum();
    let own: f64 = instead.iter().filter(is_own).map(|one| one.seconds).sum();
    2.0 * own > all
}

/// Returns the command that keeps other threads off a thread's CPU. The command moves the thread
/// that ran there longest, if that thread is known and may be moved. `None` if it is unknown on
/// which CPU the thread ran.
pub(super) fn command(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    let cpu = *thread.ran_on.first()?;
    let Some(to) = list(all_cpus(facts).into_iter().filter(|other| *other != cpu)) else {
        return Some("the machine has no other CPU to move those threads to".to_owned());
    };
    let is_own = thread.ran_instead.is_empty() || are_own(facts, &thread.ran_instead);
    let pinned = || pinned(facts, thread).filter(|_| is_own);
    if let Some(other) = yielding(facts, thread).or_else(pinned) {
        return Some(other);
    }
    let is_full = facts.idle_cpus().is_some_and(|idle| idle < NO_ROOM);
    let can_move = |one: &&RanInstead| {
        one.pid.is_some() && !BOUND.iter().any(|kernel| one.name.starts_with(kernel))
    };
    let others = thread.ran_instead.iter().filter(can_move);
    let most = others.max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let family = &facts.observation.watched.pids;
    Some(match most.and_then(|one| Some((one, one.pid?))) {
        Some((one, pid)) if family.contains(&pid) => own(facts, thread, one, pid),
        Some((one, pid)) if is_full => {
            format!(
                "no CPU is idle, so moving {0} (PID {pid}) makes other threads wait: stop it, \
                 let it yield (sudo renice -n 19 -p {pid}, or a lower CPU weight of its cgroup), \
                 or add CPUs",
                one.name
            )
        }
        Some((one, pid)) => format!("sudo taskset -acp {to} {pid} moves {}", one.name),
        None if is_full => "no CPU is idle, so moving them makes others wait: find them (ps -eLo \
             psr,pcpu,ni,pid,comm --sort -pcpu), stop them or let them yield (sudo renice -n 19 -p \
             PID), raise the CPU weight of the program's cgroup (cpu.weight, or cpu.shares) if it \
             is low, or add CPUs"
            .to_owned(),
        None => format!(
            "find them (ps -eLo psr,pcpu,pid,comm --sort -pcpu) and move them (sudo taskset -acp \
             {to} PID)"
        ),
    })
}

/// Returns the command if a thread of the program itself, `one`, ran instead.
fn own(facts: &Facts<'_>, thread: &ThreadActivity, one: &RanInstead, pid: u32) -> String {
    let tid = one.tid.unwrap_or(pid);
    let threads = &facts.observation.threads;
    let other = threads.iter().find(|other| other.tid == tid).unwrap_or(thread);
    let may_use = all_cpus(facts).into_iter().filter(|cpu| {
        !thread.ran_on.starts_with(&[*cpu])
            && (other.allowed.is_empty() || other.allowed.contains(cpu))
    });
    match list(may_use) {
        Some(to) if has_room(facts.idle_allowed(other)) => {
            format!("taskset -cp {to} {tid} moves {}, a thread of the program", one.name)
        }
        _ if has_room(facts.idle_cpus()) && !other.allowed.is_empty() => {
            let all = list(all_cpus(facts)).unwrap_or_default();
            format!(
                "the program's own threads, such as {}, compete for the CPUs that their affinity \
                 mask or cpuset allows ({}), while other CPUs are idle: {}",
                one.name,
                ranges(&other.allowed, ","),
                widen(&all, other.pid)
            )
        }
        _ => format!(
            "the program's own threads, such as {}, compete for all CPUs: use fewer of them, \
             reduce their work (garbage collection, logging), or add CPUs",
            one.name
        ),
    }
}

/// Returns the command that lets the threads of a process use the CPUs in the list `cpus`.
fn widen(cpus: &str, pid: u32) -> String {
    format!(
        "taskset -acp {cpus} {pid} widens an affinity mask; widen a cpuset where it was set \
         (--cpuset-cpus for a container, AllowedCPUs= in a systemd unit)"
    )
}

/// Returns advice for a program whose threads may run only on CPUs that are full; empty if they
/// have room there, or if no other CPU has room either.
fn confined(facts: &Facts<'_>, thread: &ThreadActivity) -> String {
    let threads = facts.observation.threads.iter().filter(|other| other.pid == thread.pid);
    let may_use: BTreeSet<u32> = threads.flat_map(|other| other.allowed.iter().copied()).collect();
    let idle = facts.observation.cpus.iter().filter(|cpu| may_use.contains(&cpu.cpu));
    let idle: f64 = idle.map(|cpu| cpu.idle).sum();
    if may_use.is_empty() || has_room(Some(idle)) || !has_room(facts.idle_cpus()) {
        return String::new();
    }
    let all = list(all_cpus(facts)).unwrap_or_default();
    format!(
        ". First allow the program's threads more CPUs than {}, which are full: {}",
        ranges(&may_use.into_iter().collect::<Vec<_>>(), ","),
        widen(&all, thread.pid)
    )
}

/// Returns the command that stops a thread from yielding to others because of its policy or nice
/// value; `None` for other threads.
fn yielding(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<String> {
    let tid = thread.tid;
    let within = match facts.observation.sched_autogroup {
        Some(true) => format!(
            " (kernel.sched_autogroup_enabled is 1, so this has an effect only against threads of \
             the same session; for an effect against others: echo -10 | sudo tee \
             /proc/{}/autogroup)",
            thread.pid
        ),
        _ => String::new(),
    };
    match (thread.policy?, thread.nice?) {
        (SchedulingPolicy::Idle, _) => Some(format!(
            "chrt -o -p 0 {tid} gives the thread the normal policy; its present policy is \
             SCHED_IDLE, with which it runs only when no other thread wants the CPU{within}"
        )),
        (SchedulingPolicy::Normal | SchedulingPolicy::Batch, nice @ 1..) => Some(format!(
            "sudo renice -n 0 -p {tid} lets the thread compete on equal terms; its present nice \
             value is {nice}{within}"
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
    let (threads, all) = (same.count(), list(all_cpus(facts))?);
    (threads >= 2 && has_room(facts.idle_cpus())).then(|| {
        format!(
            "{threads} of the program's own threads may only run on that CPU: {}",
            widen(&all, thread.pid)
        )
    })
}

/// Returns whether `idle` CPU time, in CPUs, is enough for a thread that is moved; false if
/// unknown.
fn has_room(idle: Option<f64>) -> bool {
    /// Minimum idle CPU time, in CPUs.
    const ROOM: f64 = 0.5;
    idle.is_none_or(|idle| idle >= ROOM)
}

fn all_cpus(facts: &Facts<'_>) -> Vec<u32> {
    facts.observation.cpus.iter().map(|one| one.cpu).collect()
}

/// Returns CPUs as a list for `taskset`; `None` if there are none.
fn list(cpus: impl IntoIterator<Item = u32>) -> Option<String> {
    let cpus: Vec<u32> = cpus.into_iter().collect();
    (!cpus.is_empty()).then(|| ranges(&cpus, ","))
}
