// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples and traces the watched threads slice by slice, and adds the results to the threads.

use crate::sampler::{CpuProfile, Sampler, ThreadId, ThreadProfile};
use crate::threads::{Thread, Threads};
use crate::tracing::{Traced, TracedThread, Tracing};
use linerate_linux::{monotonic_ns, system_call};
use linerate_machine::Root;
use linerate_record::stats::{CONFIDENCE, Estimate};
use linerate_record::why::{
    KernelEvent, SharedLine, ThreadActivity, ThreadState, ThreadTime, Unread,
};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// Samples and traces of the watched threads.
#[derive(Debug)]
pub(crate) struct Profiling {
    sampler: Sampler,
    tracing: Tracing,
    /// Number of threads passed to both sampler and tracing.
    handed: usize,
    /// For the start and each slice end, whether the counters were read too late to match the
    /// samples.
    is_late: Vec<bool>,
    unread: Vec<Unread>,
}

/// Number of threads above which those that ran most in the first slice are chosen, rather than all
/// threads at the start.
const CROWD: usize = 64;
/// Maximum delay between a slice's counters and its samples, ns.
const LATE_NS: u64 = 3_000_000;

impl Profiling {
    pub(crate) fn start(root: &Root, threads: &Threads) -> Self {
        let ids = if threads.all.len() > CROWD { Vec::new() } else { ids(&threads.all) };
        let cpus = root.cpu_list("sys/devices/system/cpu/online").unwrap_or_default();
        let (sampler, mut unread) = Sampler::start(&ids, &cpus);
        let (tracing, refused) = Tracing::start(&ids, &cpus);
        unread.extend(refused);
        Self { sampler, tracing, handed: ids.len(), is_late: vec![false], unread }
    }

    /// Ends a slice whose packets were counted from `counted_ns` on; `threads` may include new
    /// ones.
    pub(crate) fn end_slice(&mut self, threads: &Threads, counted_ns: u64) {
        self.sampler.end_slice();
        self.is_late.push(monotonic_ns().saturating_sub(counted_ns) > LATE_NS);
        self.tracing.end_slice();
        if threads.all.len() > self.handed {
            let mut new: Vec<&Thread> = threads.all[self.handed..].iter().collect();
            new.sort_by_key(|thread| std::cmp::Reverse(thread.wanted_ns()));
            let ids: Vec<ThreadId> = new.into_iter().map(id).collect();
            self.handed = threads.all.len();
            self.unread.extend(self.sampler.watch(&ids));
            self.unread.extend(self.tracing.watch(&ids));
        }
    }

    /// Adds the results to the threads and returns the rest. `packets` are counts per slice; empty
    /// without a counter.
    pub(crate) fn finish(self, activities: &mut [ThreadActivity], packets: &[f64]) -> Profiled {
        let mut unread = self.unread;
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
        let traced = self.tracing.finish(call_name);
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
            events: add_traces(activities, traced),
            cpus: profiles.cpus,
            shared_lines: profiles.shared_lines,
            unread,
        }
    }
}

/// Results that do not belong to a thread.
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

/// Threads by run time: limits favour those that ran most.
fn ids(threads: &[Thread]) -> Vec<ThreadId> {
    let mut threads: Vec<&Thread> = threads.iter().collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(thread.ran_ns()));
    threads.into_iter().map(id).collect()
}

fn call_name(number: i64) -> String {
    let known = u64::try_from(number).ok().and_then(system_call);
    known.map_or_else(|| number.to_string(), |(name, _)| name.to_owned())
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
        reason: format!("{left_out} threads were not sampled: there are more than {CROWD}"),
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

/// Splits the user-mode time of a thread into work and polling: the part of its own CPU time that
/// is not busy is polling, and the share `in_kernel` of that polling is in the kernel.
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
        let method = "time in its own code (schedstat, utime), split by its busy share";
        ThreadTime { state, share: Figure::number("ratio", estimate, Tier::Sw, method) }
    };
    let [value, low, high] = ends;
    let work = part(ThreadState::Work, [user - value, user - high, user - low]);
    thread.time.splice(at..=at, [work, part(ThreadState::Polling, ends)]);
}

#[cfg(test)]
pub(crate) mod tests;
