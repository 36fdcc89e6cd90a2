// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explains what could not be read in the window.

use crate::procfs;
use crate::refusal::as_root;
use crate::sleep::Sleepers;
use crate::threads::Thread;
use crate::watching::Watching;
use linerate_record::why::{RequestCounts, Unread};
use std::collections::BTreeSet;

pub(super) fn note_vanished(unread: &mut Vec<Unread>, names: &[String]) {
    if !names.is_empty() {
        unread.push(Unread {
            what: "interface_counters".to_owned(),
            reason: format!(
                "interfaces that disappeared during the window were not counted: {}",
                names.join(", ")
            ),
            fix: None,
        });
    }
}

/// Reports NICs whose driver counters were not read.
pub(super) fn note_without_driver(unread: &mut Vec<Unread>, names: &[String]) {
    if !names.is_empty() {
        unread.push(Unread {
            what: "driver_counters".to_owned(),
            reason: format!(
                "there are too many interfaces to read the driver counters of all of them; not \
                 read: {}",
                names.join(", ")
            ),
            fix: None,
        });
    }
}

/// Explains why packets dropped at a full connection tracking table are not counted.
pub(super) fn hidden_conntrack() -> Unread {
    Unread {
        what: "conntrack".to_owned(),
        reason: "this kernel does not export the counters of connection tracking in /proc \
                 (CONFIG_NF_CONNTRACK_PROCFS)"
            .to_owned(),
        fix: Some("conntrack -S".to_owned()),
    }
}

pub(super) fn note_unread(unread: &mut Vec<Unread>, sleepers: &Sleepers, threads: &[Thread]) {
    if sleepers.were_refused() {
        unread.push(Unread {
            what: "system_calls_asleep".to_owned(),
            reason:
                "cannot read /proc/PID/syscall for some threads: the process belongs to another \
                     user, is not dumpable, or kernel.yama.ptrace_scope forbids it"
                    .to_owned(),
            fix: Some("run as root".to_owned()),
        });
    }
    if sleepers.left_out() > 0 {
        unread.push(Unread {
            what: "sleeps".to_owned(),
            reason: format!(
                "sleeps were sampled only for the threads that worked most; {} threads were left \
                 out",
                sleepers.left_out()
            ),
            fix: None,
        });
    }
    let has_run = |thread: &Thread| thread.slices.iter().any(|slice| slice.run_ns > 0);
    let has_ticks =
        |thread: &Thread| thread.slices.iter().map(|slice| slice.user_ticks).sum::<u64>() > 5;
    if threads.iter().any(has_ticks) && !threads.iter().any(has_run) {
        unread.push(Unread {
            what: "run_delay".to_owned(),
            reason: "this kernel does not track run time and run delay (CONFIG_SCHED_INFO)"
                .to_owned(),
            fix: None,
        });
    }
}

/// Reports threads whose run time the kernel updates only once per second, because their CPU has no
/// timer interrupt while one thread is alone on it (nohz_full).
pub(super) fn coarse_times(threads: &[Thread], tickless: &[u32]) -> Option<Unread> {
    let ran_on: BTreeSet<u32> = threads.iter().flat_map(Thread::ran_on).collect();
    let cpus: Vec<String> =
        tickless.iter().filter(|cpu| ran_on.contains(cpu)).map(u32::to_string).collect();
    (!cpus.is_empty()).then(|| Unread {
        what: "run_time".to_owned(),
        reason: format!(
            "on CPU {}, which is tickless (nohz_full), the kernel updates a thread's run time only \
             about once per second unless the thread sleeps: its times may be wrong by up to 1 s",
            cpus.join(", ")
        ),
        fix: Some("observe for at least 30 s (--time 30s)".to_owned()),
    })
}

/// Returns the requests, if their connections show whether clients were waiting. Otherwise, notes
/// why not; the error is the number of connections.
pub(super) fn determined(
    requests: Option<Result<RequestCounts, u64>>,
    unread: &mut Vec<Unread>,
) -> Option<RequestCounts> {
    match requests? {
        Ok(requests) => Some(requests),
        Err(0) => None,
        Err(connections) => {
            unread.push(Unread {
                what: "requests".to_owned(),
                reason: format!(
                    "neither segments nor acknowledgments show whether a request or a reply came \
                     last (client connections: {connections})"
                ),
                fix: None,
            });
            None
        }
    }
}

/// Explains why it is not known when packets arrived at an interface.
pub(super) fn refreshed_seldom(interface: &str, seconds: f64) -> Unread {
    Unread {
        what: "arrivals".to_owned(),
        reason: format!(
            "{interface} refreshes its packet counters only about every {seconds:.1} s, too rarely \
             to detect gaps between packets"
        ),
        fix: None,
    }
}

/// Explains why the namespace's datagrams cannot be attributed to the program.
pub(super) fn others_datagrams(watching: &Watching) -> Unread {
    let is_root = procfs::user() == Some(0);
    let who = match is_root {
        true => "may have received some in this window",
        false => "also have UDP sockets, and may have received some in this window",
    };
    let pid = watching.family.pids.first();
    Unread {
        what: "udp_datagrams".to_owned(),
        reason: format!(
            "the kernel counts datagrams per network namespace, and other processes in the same \
             namespace {who}"
        ),
        fix: match (is_root, pid) {
            (false, Some(pid)) => Some(as_root(*pid)),
            _ => Some("run the program in its own network namespace (ip netns exec)".to_owned()),
        },
    }
}

/// Notes that the program's datagrams were counted by its system calls, because the namespace's
/// count could not be used.
pub(super) fn note_counted_by_calls(unread: &mut [Unread]) {
    for one in unread.iter_mut().filter(|one| one.what == "udp_datagrams") {
        one.reason += "; the program's own were counted by its system calls instead";
        one.fix = None;
    }
}
