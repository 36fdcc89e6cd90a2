// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples and traces the observed threads slice by slice, and adds the results to the threads'
//! records.

use crate::sampler::{CpuProfile, Extent, Sampler, ThreadId, ThreadProfile};
use crate::threads::{Thread, Threads};
use crate::tracing::{Traced, TracedThread, Tracing};
use linerate_linux::{monotonic_ns, system_call_name};
use linerate_machine::Root;
use linerate_record::stats::{CONFIDENCE, Estimate};
use linerate_record::why::{
    KernelEvent, SharedLine, ThreadActivity, ThreadState, ThreadTime, Unread,
};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// Samples and traces of the observed threads.
#[derive(Debug)]
pub(crate) struct Profiling {
    sampler: Sampler,
    /// `None` for consecutive windows.
    tracing: Option<Tracing>,
    /// Number of threads that have been passed to the sampler and the tracer.
    handed: usize,
    /// For the start and the end of each slice, whether counters and samples were read too far
    /// apart. This is true of the start of the first window, because samples are taken while it is
    /// prepared.
    is_late: Vec<bool>,
    unread: Vec<Unread>,
}

/// If there are at most this many threads, all of them are sampled and traced from the start.
/// Otherwise, only the threads that ran most in the first slice are.
const CROWD: usize = 64;
/// Maximum delay between a slice's counters and its samples, in ns.
const LATE_NS: u64 = 3_000_000;

/// Number of recent slices from which the shares of functions are computed in consecutive windows.
/// At one sample every 2 ms, 10 slices of half a second give the share of a function to within ±3
/// percentage points.
const RECENT: usize = 10;
/// Number of recent slices from which work and polling are separated in consecutive windows. The
/// separation needs 16 slices with different loads.
const HISTORY: usize = 120;

impl Profiling {
    /// Starts sampling and tracing. `counts_datagrams` is whether to count the calls that receive a
    /// datagram.
    pub(crate) fn start(root: &Root, threads: &Threads, counts_datagrams: bool) -> Self {
        let ids = if threads.all.len() > CROWD { Vec::new() } else { ids(&threads.all) };
        let cpus = root.cpu_list("sys/devices/system/cpu/online").unwrap_or_default();
        let expected = threads.all.len();
        let (sampler, mut unread) = Sampler::start_with(Extent::WINDOW, &ids, &cpus, expected);
        let (tracing, refused) = Tracing::start(&ids, &cpus, counts_datagrams);
        unread.extend(refused);
        let tracing = Some(tracing);
        Self { sampler, tracing, handed: ids.len(), is_late: vec![true], unread }
    }

    /// Starts sampling for consecutive windows, without tracing: the scheduler tracepoints would
    /// cost more than everything else. The kernel is sampled by CPU if there are no threads.
    pub(crate) fn start_live(root: &Root, threads: &Threads) -> Self {
        let ids = ids(&threads.all);
        let cpus = match ids.is_empty() {
            true => root.cpu_list("sys/devices/system/cpu/online").unwrap_or_default(),
            false => Vec::new(),
        };
        let extent = Extent { has_registers: false, recent: RECENT, history: HISTORY };
        let (sampler, unread) = Sampler::start_with(extent, &ids, &cpus, ids.len());
        Self { sampler, tracing: None, handed: ids.len(), is_late: vec![true], unread }
    }

    /// Begins the first window of the traces.
    pub(crate) fn begin_traces(&mut self) {
        self.tracing.iter_mut().for_each(Tracing::begin);
    }

    /// Ends the window of the traces.
    pub(crate) fn end_traces(&mut self) {
        self.tracing.iter_mut().for_each(Tracing::end_slice);
    }

    /// Returns the CPU time that a sample takes from the sampled thread, in nanoseconds; `None` if
    /// sampling is not permitted.
    pub(crate) fn sample_cost_ns(&self) -> Option<Estimate> {
        self.sampler.cost_ns()
    }

    /// Begins the next window, with `threads`.
    pub(crate) fn begin_window(&mut self, threads: &Threads) {
        self.sampler.forget(|id| threads.has(id.pid, id.tid));
        self.handed = threads.all.len();
        self.is_late = vec![false];
    }

    /// Ends a slice. `counted_ns` is the time at which its packets were counted; `threads` may
    /// include new ones.
    pub(crate) fn end_slice(&mut self, threads: &Threads, counted_ns: u64) {
        self.sampler.end_slice_with(|id| threads.sched_of(id.pid, id.tid));
        self.is_late.push(monotonic_ns().saturating_sub(counted_ns) > LATE_NS);
        if let Some(tracing) = &mut self.tracing {
            tracing.end_slice();
        }
        if threads.all.len() > self.handed {
            let mut new: Vec<&Thread> = threads.all[self.handed..].iter().collect();
            new.sort_by_key(|thread| std::cmp::Reverse(thread.wanted_ns()));
            let ids: Vec<ThreadId> = new.into_iter().map(id).collect();
            self.handed = threads.all.len();
            self.unread.extend(self.sampler.watch(&ids));
            if let Some(tracing) = &mut self.tracing {
                self.unread.extend(tracing.watch(&ids));
            }
        }
    }

    /// Adds the results to the threads and returns the rest. `packets` has the counts per slice and
    /// is empty without a counter.
    pub(crate) fn finish(
        &mut self,
        activities: &mut [ThreadActivity],
        packets: &[f64],
    ) -> Profiled {
        let mut unread = self.unread.clone();
        unread.sort();
        unread.dedup();
        let late = &self.is_late;
        let is_good =
            |slice: usize| late.get(slice..slice + 2).is_some_and(|ends| ends == [false; 2]);
        let packets: Vec<Option<u64>> = packets
            .iter()
            .enumerate()
            .map(|(slice, packets)| is_good(slice).then_some(packets.round() as u64))
            .collect();
        let traced = self.tracing.take().map(|tracing| tracing.finish(call_name));
        let lost = self.sampler.lost();
        if lost > 0 {
            unread.push(lost_records(lost));
        }
        if self.sampler.left_out() > 0 {
            unread.push(too_many(self.sampler.left_out()));
        }
        let asleep: BTreeMap<u32, f64> = activities
            .iter()
            .map(|thread| (thread.tid, share(thread, ThreadState::Asleep)))
            .collect();
        let asleep_of = |id: ThreadId| asleep.get(&id.tid).copied().unwrap_or(0.0);
        let profiles = self.sampler.finish(&packets, asleep_of);
        for profile in profiles.threads {
            let is_it = |thread: &&mut ThreadActivity| thread.tid == profile.id.tid;
            if let Some(thread) = activities.iter_mut().find(is_it) {
                add_profile(thread, profile);
            }
        }
        Profiled {
            events: add_traces(activities, traced.unwrap_or_default()),
            cpus: profiles.cpus,
            shared_lines: profiles.shared_lines,
            unread,
        }
    }
}

/// Results that do not belong to one of the threads.
#[derive(Debug, Default)]
pub(crate) struct Profiled {
    pub(crate) events: Vec<KernelEvent>,
    pub(crate) cpus: Vec<CpuProfile>,
    pub(crate) shared_lines: Vec<SharedLine>,
    /// Data that could not be read.
    pub(crate) unread: Vec<Unread>,
}

fn id(thread: &Thread) -> ThreadId {
    ThreadId { pid: thread.pid, tid: thread.tid }
}

/// Returns the thread IDs by descending run time, so that limits favour the threads that ran most.
fn ids(threads: &[Thread]) -> Vec<ThreadId> {
    let mut threads: Vec<&Thread> = threads.iter().collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.ran_ns()));
    threads.into_iter().map(id).collect()
}

fn call_name(number: i64) -> String {
    let known = u64::try_from(number).ok().and_then(system_call_name);
    known.map_or_else(|| number.to_string(), str::to_owned)
}

fn lost_records(lost: u64) -> Unread {
    Unread {
        what: "samples_lost".to_owned(),
        reason: format!("{lost} samples or events were lost: linerate was not scheduled in time"),
        fix: None,
    }
}

fn too_many(left_out: usize) -> Unread {
    Unread {
        what: "samples".to_owned(),
        reason: format!("{left_out} threads were not sampled: the limit is {CROWD} threads"),
        fix: None,
    }
}

fn share(thread: &ThreadActivity, state: ThreadState) -> f64 {
    let time = thread.time.iter().find(|time| time.state == state);
    time.and_then(|time| time.share.as_number()).unwrap_or(0.0)
}

fn add_traces(activities: &mut [ThreadActivity], mut traced: Traced) -> Vec<KernelEvent> {
    for thread in activities {
        let found = traced.threads.remove(&thread.tid).unwrap_or_default();
        let TracedThread { ran_instead, waits_us_log2, system_calls, lock_wait_s } = found;
        thread.ran_instead = ran_instead;
        thread.waits_us_log2 = waits_us_log2;
        thread.system_calls = system_calls;
        thread.lock_wait = lock_wait_s.map(|seconds| seconds / thread.elapsed_s.max(1e-9));
    }
    traced.events
}

fn add_profile(thread: &mut ThreadActivity, profile: ThreadProfile) {
    thread.samples = profile.samples;
    thread.functions = profile.functions;
    thread.busy = profile.busy;
    thread.cost_ns = profile.cost_ns;
    thread.memory = profile.memory;
    thread.cipher_instructions = profile.cipher_instructions;
    if let Some(in_kernel) = profile.polling_in_kernel {
        divide_user(thread, in_kernel);
    }
}

/// Splits a thread's user-mode time into work and polling. CPU time that is not busy is polling,
/// and a fraction `in_kernel` of it is in the kernel.
fn divide_user(thread: &mut ThreadActivity, in_kernel: f64) {
    let Some(busy) = thread.busy.estimate() else { return };
    let own = share(thread, ThreadState::User) + share(thread, ThreadState::Kernel);
    let Some(at) = thread.time.iter().position(|time| time.state == ThreadState::User) else {
        return;
    };
    let user = share(thread, ThreadState::User);
    let polling_at = |busy: f64| ((1.0 - busy) * own * (1.0 - in_kernel)).clamp(0.0, user);
    let ends = [busy.value, busy.high, busy.low].map(polling_at);
    let part = |state, [value, low, high]: [f64; 3]| {
        let estimate = Estimate { value, low, high, confidence: CONFIDENCE, n: busy.n };
        let method = "user time (schedstat, utime), split by the thread's busy share";
        ThreadTime { state, share: Figure::number("ratio", estimate, Tier::Sw, method) }
    };
    let [value, low, high] = ends;
    let work = part(ThreadState::Work, [user - value, user - high, user - low]);
    thread.time.splice(at..=at, [work, part(ThreadState::Polling, ends)]);
}

#[cfg(test)]
pub(crate) mod tests;
