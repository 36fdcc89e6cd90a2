// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples a thread that is switched in and out constantly, because it and another thread wake each
//! other.

use super::recent;
use crate::procfs::task::SchedStat;
use crate::sampler::polling::Slice;
use crate::sampler::{Sampler, ThreadId};
use std::sync::mpsc::channel;

const SLICES: usize = 12;
/// Messages per slice, each of which makes this thread switch at least once. A slice takes some
/// tens of ms.
const MESSAGES: usize = 3000;

fn own_thread() -> ThreadId {
    ThreadId { pid: std::process::id(), tid: linerate_linux::thread_id() }
}

fn sched_of(id: ThreadId) -> Option<SchedStat> {
    let file = format!("/proc/{}/task/{}/schedstat", id.pid, id.tid);
    SchedStat::parse(&std::fs::read_to_string(file).ok()?)
}

/// Samples this thread while it exchanges messages with another thread, which causes a context
/// switch per message. Returns the CPU time per slice, the scheduler's CPU time over all slices,
/// and the sampler; `None` if sampling is not permitted.
fn exchange(cpus: &[u32]) -> Option<(Vec<u64>, u64, Sampler)> {
    let id = own_thread();
    let (mut sampler, _) = Sampler::start(&[id], cpus);
    if sampler.threads.is_empty() {
        println!("SKIP: sampling is not permitted");
        return None;
    }
    // Keep both threads on the same CPU, so that neither can wait for the other without a switch.
    let cpu = linerate_linux::allowed_cpus().ok()?[0];
    linerate_linux::pin_current_thread(cpu).ok()?;
    let (ask, asked) = channel::<()>();
    let (answer, answered) = channel::<()>();
    std::thread::spawn(move || while asked.recv().is_ok() && answer.send(()).is_ok() {});
    let began = sched_of(id)?;
    for _ in 0..SLICES {
        for _ in 0..MESSAGES {
            ask.send(()).unwrap();
            answered.recv().unwrap();
        }
        sampler.end_slice_with(sched_of);
    }
    let all_ns = sched_of(id)?.run_ns - began.run_ns;
    Some((sampler.run_ns(id), all_ns, sampler))
}

#[test]
fn a_thread_that_switches_often_is_sampled_by_the_events_of_the_cpus() {
    let cpus = linerate_linux::allowed_cpus().unwrap_or_default();
    let Some((run_ns, all_ns, sampler)) = exchange(&cpus) else { return };
    if !sampler.cpus.has_all() {
        return println!("SKIP: CPUs cannot be sampled");
    }
    let thread = &sampler.threads[0];
    assert!(thread.is_by_cpu());
    // The scheduler's times are used from the second slice on.
    let counted: u64 = run_ns[1..].iter().sum();
    assert!(counted <= all_ns && counted > all_ns / 2, "{run_ns:?} of {all_ns} ns");
    let samples: u64 = thread.slices[1..].iter().map(|slice| slice.samples()).sum();
    assert!(samples > 0);
}

#[test]
fn without_them_it_is_sampled_in_some_slices() {
    let Some((run_ns, _, sampler)) = exchange(&[]) else { return };
    assert!(!sampler.threads[0].is_by_cpu());
    let samples: Vec<u64> = sampler.threads[0].slices.iter().map(|s| s.samples()).collect();
    // The first slice is sampled, and at least one in 16 of the others. The CPU time of slices that
    // are not sampled comes from the scheduler.
    assert!(samples[0] > 0 && samples.contains(&0), "{samples:?}");
    assert!(run_ns.iter().all(|ns| *ns > 0), "{run_ns:?}");
}

#[test]
fn slices_without_sampling_are_passed_over() {
    let slice = |run_ns, samples| Slice {
        run_ns,
        packets: None,
        counts: if samples > 0 { vec![(0, samples)] } else { Vec::new() },
    };
    // Every fourth slice is sampled; the thread always runs.
    let history: Vec<Slice> =
        (1..=40).map(|n| slice(250_000_000, if n % 4 == 0 { n } else { 0 })).collect();
    let samples = |history: &[Slice], slices| -> Vec<u64> {
        recent(history, slices).iter().map(|slice| slice.samples()).collect()
    };
    assert_eq!(samples(&history, 3), [40, 36, 32]);
    // A thread that has gone to sleep has no recent samples.
    let mut asleep = history;
    asleep.extend(vec![slice(0, 0); 3]);
    assert_eq!(samples(&asleep, 3), [0, 0, 0]);
}
