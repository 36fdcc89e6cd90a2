// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data that only tracepoints provide: which threads ran while an observed thread waited for a CPU,
//! its system calls, drop reasons, and lock contention. Requires root, or CAP_PERFMON and a
//! readable tracefs; for root, tracefs need not be mounted.
//!
//! Some kernels omit events on an idle CPU (seen on 6.18 in a guest, on one of two CPUs, in a third
//! of the runs). Waits that end on such a CPU are not counted, and the thread that runs there next
//! is not named.
//!
//! Tracepoints are always on while events are rare. Above a few hundred events per slice, they are
//! on only in some slices and counts are scaled, which bounds their cost.

mod format;
mod locks;
mod scheduler;
mod tally;
mod waits;

use crate::procfs::{self, task::Status};
use crate::refusal::{as_root, explain};
use crate::sampler::ThreadId;
use format::Format;
use linerate_counters::catalog::tracepoint;
use linerate_linux::perf::Target;
use linerate_linux::{RECEIVE_CALLS, monotonic_ns};
use linerate_record::why::{KernelEvent, RanInstead, Unread};
use locks::Locks;
use scheduler::Scheduler;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tally::{Filter, Tally, Wanted};

/// The counted tracepoints.
const WANTED: [Wanted; 6] = [
    Wanted { field: Some(("reason", "reason")), ..Wanted::all("skb:kfree_skb") },
    Wanted::all("lock:contention_begin"),
    Wanted { is_of_watched: true, ..Wanted::all("lock:contention_begin") },
    Wanted::all("napi:napi_poll"),
    Wanted {
        field: Some(("id", "call")),
        period: CALL_PERIOD,
        is_of_watched: true,
        ..Wanted::all(SYSTEM_CALLS)
    },
    Wanted {
        is_of_watched: true,
        filter: Some(Filter { name: KernelEvent::RECEIVED, expression: received }),
        ..Wanted::all("raw_syscalls:sys_exit")
    },
];
/// One in this many system calls is sampled. Programs make calls in loops, and a period that is a
/// multiple of the loop's length, as 16 is of 4, would always hit the same call. The period is
/// therefore a prime number, and differs from common batch sizes plus one call for waiting (17,
/// 33).
const CALL_PERIOD: u64 = 19;
const SYSTEM_CALLS: &str = "raw_syscalls:sys_enter";
/// The host's PID namespace: `PROC_PID_INIT_INO`, the same on all kernels since 3.8.
pub(crate) const HOST_PID_NAMESPACE: &str = "pid:[4026531836]";
/// Maximum number of CPUs on which events are counted.
const MAX_CPUS: usize = 64;
/// Maximum number of threads for which events are counted.
pub(crate) const MAX_THREADS: usize = 64;

/// Returns the filter for system calls that have received a datagram or data; empty if they have no
/// numbers of their own on this architecture.
fn received() -> String {
    let calls = RECEIVE_CALLS.iter().map(|number| format!("(id == {number} && ret >= 0)"));
    calls.collect::<Vec<_>>().join(" || ")
}

/// Results for a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TracedThread {
    /// Threads that ran on this thread's CPU while it waited, longest first.
    pub ran_instead: Vec<RanInstead>,
    /// Histogram of waits for a CPU, as in `ThreadActivity`.
    pub waits_us_log2: Vec<u64>,
    /// Number of system calls; `None` if counting is not permitted.
    pub system_calls: Option<u64>,
    /// Seconds spent waiting for kernel locks; `None` if tracing is not permitted.
    pub lock_wait_s: Option<f64>,
}

/// Results of tracing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traced {
    /// Results by thread ID.
    pub threads: BTreeMap<u32, TracedThread>,
    /// Counted kernel events.
    pub events: Vec<KernelEvent>,
    /// Whether scheduler events were read.
    pub has_scheduler: bool,
}

/// Traces threads and CPUs until [`Tracing::finish`].
#[derive(Debug)]
pub struct Tracing {
    folder: Option<PathBuf>,
    scheduler: Option<Scheduler>,
    locks: Option<Locks>,
    tallies: Vec<Tally>,
    threads: Vec<ThreadId>,
}

impl Tracing {
    /// Starts tracing `threads` and the events on `cpus`. `counts_datagrams` is whether to count
    /// the calls that receive a datagram. Also returns what cannot be traced.
    pub fn start(
        threads: &[ThreadId],
        cpus: &[u32],
        counts_datagrams: bool,
    ) -> (Self, Vec<Unread>) {
        let mut tracing = Self {
            folder: None,
            scheduler: None,
            locks: None,
            tallies: Vec::new(),
            threads: Vec::new(),
        };
        let folder = match tracepoint::events(Path::new("/sys")) {
            Ok(folder) => folder,
            Err((reason, fix)) => {
                let what = "tracepoints".to_owned();
                let fix = match (procfs::user(), threads.first()) {
                    // As root, linerate mounts tracefs privately. For another user, mounting it
                    // would not suffice.
                    (Some(user), Some(thread)) if user != 0 => as_root(thread.pid),
                    _ => format!("sudo {fix}"),
                };
                let fix = Some(fix);
                return (tracing, vec![Unread { what, reason, fix }]);
            }
        };
        tracing.folder = Some(folder);
        let opened = tracing.open(&cpus[..cpus.len().min(MAX_CPUS)], counts_datagrams);
        let unread = match opened {
            Ok(not_opened) => {
                let mut unread = tracing.watch(threads);
                unread.extend(not_opened);
                unread.extend(not_traced(cpus.len()));
                unread
            }
            Err(refused) => vec![refused],
        };
        (tracing, unread)
    }

    /// Opens the events of all CPUs. Returns what cannot be read; the error is a refusal that
    /// applies to all tracepoints.
    fn open(&mut self, cpus: &[u32], counts_datagrams: bool) -> Result<Option<Unread>, Unread> {
        let now_ns = monotonic_ns();
        let formats = ["sched:sched_switch", "sched:sched_wakeup"].map(|name| self.format(name));
        let foreign = in_pid_namespace(std::fs::read_link("/proc/self/ns/pid").ok().as_deref());
        if let ([Some(switch), Some(wakeup)], None) = (formats, &foreign) {
            self.scheduler = Some(Scheduler::open(switch, wakeup, cpus, now_ns)?);
        }
        self.locks = Locks::new(|name| self.format(name), now_ns);
        for wanted in WANTED {
            // A tracepoint missing from this kernel is not counted.
            let Some(format) = self.format(wanted.name) else { continue };
            let is_left_out =
                |filter: Filter| !counts_datagrams || (filter.expression)().is_empty();
            if wanted.filter.is_some_and(is_left_out) {
                continue;
            }
            let mut tally = Tally::new(wanted, format, now_ns);
            for &cpu in cpus.iter().filter(|_| !wanted.is_of_watched) {
                let target = Target::Cpu(cpu);
                if let Err(error) = tally.open(target) {
                    let request = tally.request();
                    return Err(explain("tracepoints", wanted.name, request, target, error));
                }
            }
            self.tallies.push(tally);
        }
        Ok(foreign)
    }

    fn format(&self, name: &str) -> Option<Format> {
        let path = self.folder.as_ref()?.join(name.replace(':', "/")).join("format");
        let format = Format::parse(&std::fs::read_to_string(path).ok()?);
        (format.id != 0).then_some(format)
    }

    /// Adds threads to trace from now on.
    pub fn watch(&mut self, threads: &[ThreadId]) -> Vec<Unread> {
        let mut unread = Vec::new();
        for &id in threads {
            if self.threads.contains(&id) || self.threads.len() >= MAX_THREADS {
                continue;
            }
            self.threads.push(id);
            if let Some(scheduler) = &mut self.scheduler {
                scheduler.watch(id.tid);
            }
            if let Some(Err(refused)) = self.locks.as_mut().map(|locks| locks.watch(id.tid)) {
                unread.push(refused);
            }
            for tally in self.tallies.iter_mut().filter(|tally| tally.wanted.is_of_watched) {
                let target = Target::Thread(id.tid);
                match tally.open(target) {
                    // The thread has ended in the meantime.
                    Err(error) if error.errno == linerate_linux::errno::ESRCH => {}
                    Err(error) => {
                        let (name, request) = (tally.wanted.name, tally.request());
                        unread.push(explain("tracepoints", name, request, target, error));
                    }
                    Ok(()) => {}
                }
            }
        }
        unread.sort();
        unread.dedup();
        unread
    }

    /// Begins the window: what was counted since [`Tracing::start`] is not in it.
    pub fn begin(&mut self) {
        let now_ns = monotonic_ns();
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.begin(now_ns);
        }
        if let Some(locks) = &mut self.locks {
            locks.begin(now_ns);
        }
        self.tallies.iter_mut().for_each(|tally| tally.begin(now_ns));
    }

    /// Ends a slice: reads all events. Call at least once per second.
    pub fn end_slice(&mut self) {
        let now_ns = monotonic_ns();
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.end_slice(now_ns);
        }
        if let Some(locks) = &mut self.locks {
            locks.end_slice(now_ns);
        }
        self.tallies.iter_mut().for_each(|tally| tally.end_slice(now_ns));
    }

    /// Stops tracing and returns the results up to the end of the last slice. `call_name` returns
    /// the name of a system call.
    pub fn finish(self, call_name: impl Fn(i64) -> String) -> Traced {
        let mut traced = Traced { has_scheduler: self.scheduler.is_some(), ..Traced::default() };
        for id in &self.threads {
            let thread = traced.threads.entry(id.tid).or_default();
            if let Some(scheduler) = &self.scheduler {
                thread.ran_instead = scheduler.instead_of(id.tid);
                thread.ran_instead.iter_mut().for_each(|one| one.pid = process_of(one.tid));
                thread.waits_us_log2 = scheduler.waits(id.tid);
            }
        }
        for (tid, seconds) in self.locks.iter().flat_map(|locks| locks.waited_s()) {
            traced.threads.entry(tid).or_default().lock_wait_s = Some(seconds);
        }
        for tally in &self.tallies {
            let is_call = tally.wanted.name == SYSTEM_CALLS;
            let name_of = |value: i64| if is_call { call_name(value) } else { value.to_string() };
            traced.events.extend(tally.events(name_of));
            if is_call {
                for (tid, calls) in tally.by_thread() {
                    traced.threads.entry(tid).or_default().system_calls = Some(calls);
                }
            }
        }
        traced
    }
}

/// Returns what cannot be read in a PID namespace other than the host's. `link` is the target of
/// `/proc/self/ns/pid`. Scheduler events carry the host's thread IDs in their payload, where the
/// kernel does not translate them, and the same number may be another thread in the namespace.
/// Events opened for one thread are not affected.
fn in_pid_namespace(link: Option<&Path>) -> Option<Unread> {
    link.filter(|link| *link != Path::new(HOST_PID_NAMESPACE)).map(|_| Unread {
        what: "scheduler_of_host".to_owned(),
        reason: "scheduler events have the thread IDs of the host, which are not those of this \
                 PID namespace"
            .to_owned(),
        fix: Some("run linerate on the host, or in a container started with --pid=host".to_owned()),
    })
}

/// Returns what is not known if there are more CPUs than are traced: which threads ran on the
/// others, and which packets were dropped there.
fn not_traced(cpus: usize) -> Vec<Unread> {
    let unread = |what: &str| Unread {
        what: what.to_owned(),
        reason: format!("only the first {MAX_CPUS} of {cpus} CPUs were traced"),
        fix: None,
    };
    if cpus > MAX_CPUS {
        ["scheduler_of_other_cpus", "drop_reasons"].map(unread).into()
    } else {
        Vec::new()
    }
}

/// Returns the process of a thread that still exists.
fn process_of(tid: Option<u32>) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", tid?)).ok()?;
    Some(Status::parse(&text).process).filter(|pid| *pid != 0)
}

#[cfg(test)]
mod tests;
