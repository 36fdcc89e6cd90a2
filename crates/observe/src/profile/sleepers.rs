// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time in which the sampled threads do not run: asleep in system calls or waiting for a CPU.

use crate::sleep::{Sleepers, describe};
use crate::threads::{Thread, Threads};
use linerate_linux::monotonic_ns;
use linerate_machine::Root;
use linerate_record::profile::{BoundMeasure, MeasuredValue};
use linerate_record::stats::{Estimate, share_interval};
use linerate_record::why::SleepTime;
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// Minimum share of the window that a thread must run to count as working.
const WORKING: f64 = 0.05;
/// Maximum number of system calls and objects to list.
const MAX_SLEEPS: usize = 8;
const SEED: u64 = 0x736c_6565;
const TIMES: &str = "run time and run delay (schedstat)";
const CALLS: &str = "time asleep, split by sampled system call (/proc/PID/syscall)";

/// Sleep and run times of the threads of the sampled processes.
#[derive(Default)]
pub(super) struct Asleep {
    threads: Threads,
    sleepers: Sleepers,
    slices: u32,
}

/// Returns what a call waits for, without the addresses of futexes and mutexes, of which a program
/// may have many.
fn without_address(object: String) -> Option<String> {
    match object.split_once(' ') {
        Some(("futex", _)) => None,
        Some(("mutex", _)) => Some("mutex".to_owned()),
        _ => Some(object),
    }
}

fn sleep_time(on: String, object: Option<String>, share: f64) -> SleepTime {
    SleepTime { on, share, object, holder: None }
}

/// Returns whether `call` is futex(2) or one of its variants.
fn is_futex(call: &str) -> bool {
    call.starts_with("futex")
}

impl Asleep {
    /// Finds new threads and ends a slice.
    pub(super) fn read(&mut self, root: &Root, pids: impl Iterator<Item = u32>) {
        let pids: Vec<u32> = pids.collect();
        let now_ns = monotonic_ns();
        if self.slices > 0 {
            self.threads.read(root, self.slices, now_ns);
        }
        self.threads.look(root, &pids, self.slices, now_ns);
        if self.slices == 1 {
            self.threads.choose(root, self.slices, now_ns);
        }
        self.slices += 1;
    }

    /// Samples the system calls in which threads sleep.
    pub(super) fn tick(&mut self, root: &Root) {
        self.sleepers.tick(root, &self.threads);
    }

    /// Takes the final readings; the threads must still exist.
    pub(super) fn finish(&mut self, root: &Root) {
        self.threads.finish(root, self.slices, monotonic_ns());
    }

    /// Returns the fraction of time asleep in each system call, averaged over all threads.
    pub(super) fn asleep_on(&self) -> Vec<SleepTime> {
        let mut sums = BTreeMap::<(String, Option<String>), f64>::new();
        let threads: Vec<&Thread> = self.with_slices().collect();
        for thread in &threads {
            for one in self.sleeps(thread) {
                let place = (one.on, one.object.and_then(without_address));
                *sums.entry(place).or_default() += one.share / threads.len() as f64;
            }
        }
        let mut sleeps: Vec<SleepTime> =
            sums.into_iter().map(|((on, object), share)| sleep_time(on, object, share)).collect();
        sleeps.sort_by(|a, b| b.share.total_cmp(&a.share));
        sleeps.truncate(MAX_SLEEPS);
        sleeps
    }

    /// Returns the measures that follow from the threads' run and sleep times.
    pub(super) fn measures(&self) -> Vec<MeasuredValue> {
        let number = |measure, unit: &str, estimate, method: &str| MeasuredValue {
            measure,
            figure: Figure::number(unit, estimate, Tier::Sw, method),
        };
        let saturation = self.with_slices().map(saturation);
        let busiest = saturation.max_by(|a, b| a.value.total_cmp(&b.value));
        let working: Vec<&Thread> = self.with_slices().filter(|one| is_working(one)).collect();
        let futex = working.iter().map(|thread| {
            let sleeps = self.sleeps(thread).into_iter().filter(|one| is_futex(&one.on));
            sleeps.map(|one| one.share).sum::<f64>()
        });
        let futex: f64 = futex.sum::<f64>() / working.len().max(1) as f64;
        // Sampled states are correlated: double the error of independent samples.
        let error = (futex * (1.0 - futex).max(0.0) / f64::from(self.slices.max(1))).sqrt();
        let futex = Estimate {
            low: (futex - 2.0 * error).max(0.0),
            high: futex + 2.0 * error,
            ..Estimate::exactly(futex)
        };
        let count = Estimate::exactly(working.len() as f64);
        let mut found = vec![
            number(BoundMeasure::AsleepOnFutex, "ratio", futex, CALLS),
            number(BoundMeasure::WorkingThreads, "threads", count, TIMES),
        ];
        found.extend(busiest.map(|one| number(BoundMeasure::Saturation, "ratio", one, TIMES)));
        found
    }

    fn with_slices(&self) -> impl Iterator<Item = &Thread> {
        self.threads.all.iter().filter(|thread| thread.slices.len() >= 4)
    }

    fn sleeps(&self, thread: &Thread) -> Vec<SleepTime> {
        let asleep = 1.0 - thread.wanted_ns() as f64 / 1e9 / thread.elapsed_s().max(1e-9);
        self.sleepers.of(thread, asleep.max(0.0), describe)
    }
}

/// Returns the share of the window in which a thread ran or waited for a CPU. The kernel adds the
/// length of a wait only when the wait ends, so time in excess of a slice's length is attributed to
/// the preceding slices.
fn saturation(thread: &Thread) -> Estimate {
    // A wait that has not ended is not accounted for at all.
    if thread.is_followed() && thread.never_slept() {
        return Estimate::exactly(1.0);
    }
    let wall: Vec<f64> = thread.slices.iter().map(|one| one.wall_ns as f64).collect();
    let mut carry = 0.0;
    let mut wanted: Vec<f64> = Vec::new();
    for slice in thread.slices.iter().rev() {
        let all = (slice.run_ns + slice.delay_ns) as f64 + carry;
        let own = all.min(slice.wall_ns as f64);
        carry = all - own;
        wanted.push(own);
    }
    wanted.reverse();
    share_interval(&wanted, &wall, SEED)
}

fn is_working(thread: &Thread) -> bool {
    let ran: u64 = thread.slices.iter().map(|slice| slice.run_ns).sum();
    ran as f64 / 1e9 >= WORKING * thread.elapsed_s()
}
