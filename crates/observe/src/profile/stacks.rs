// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts samples by call chain.

use super::events::{Events, Item, UserState, What};
use super::unwind::Unwinders;
use crate::sampler::names::{KERNEL, Names, Spots};
use std::collections::{BTreeSet, HashMap};

/// A sampled thread.
#[derive(Clone, Debug)]
pub(super) struct ThreadSamples {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) name: String,
    pub(super) samples: u64,
}

/// Sampled call chains of all threads.
pub(super) struct Stacks {
    spots: Spots,
    unwinders: Unwinders,
    /// Samples with a stack copy whose chain ends before the thread's first function.
    incomplete: u64,
    threads: Vec<ThreadSamples>,
    thread_numbers: HashMap<(u32, u32), u32>,
    names: HashMap<u32, String>,
    /// The sampled processes and their descendants.
    pids: BTreeSet<u32>,
    /// Chains by thread and spots, outermost caller first.
    chains: HashMap<(u32, Vec<u32>), u32>,
    /// Samples per chain in each slice; the last slice is incomplete.
    slices: Vec<HashMap<u32, u64>>,
    samples: u64,
    /// Number of samples equivalent to time that cannot be sampled.
    unsampled: u64,
    /// Sampling period in CPU time in each slice, nanoseconds.
    periods_ns: Vec<u64>,
}

/// Chains, threads and slices with resolved names.
pub(super) struct Resolved {
    pub(super) names: Names,
    pub(super) threads: Vec<ThreadSamples>,
    pub(super) pids: Vec<u32>,
    /// Thread, spots and sample count of each chain.
    pub(super) chains: Vec<(u32, Vec<u32>, u64)>,
    /// Samples by thread and innermost spot, per slice of the window, including slices without
    /// samples.
    pub(super) of_threads: Vec<HashMap<(u32, u32), u64>>,
    /// Sampling period in CPU time in each slice, nanoseconds.
    pub(super) periods_ns: Vec<u64>,
    /// Samples by innermost spot, per slice with samples.
    pub(super) slices: Vec<HashMap<u32, u64>>,
    pub(super) samples: u64,
    /// Samples with a stack copy whose chain ends early.
    pub(super) incomplete: u64,
}

/// Name for kernel time, if the kernel cannot be sampled.
pub(super) const NOT_SAMPLED: &str = "[not in user mode]";

/// Functions that enable interrupts. A sample due while interrupts were off is taken here, although
/// the time belongs to the caller.
const ALLOW_INTERRUPTS: [&str; 2] = ["_raw_spin_unlock_irqrestore", "_raw_spin_unlock_irq"];

impl Stacks {
    pub(super) fn new(pids: &[u32]) -> Self {
        let mut spots = Spots::of_bytes();
        pids.iter().for_each(|&pid| spots.learn(pid));
        Self {
            spots,
            unwinders: Unwinders::default(),
            incomplete: 0,
            threads: Vec::new(),
            thread_numbers: HashMap::new(),
            names: HashMap::new(),
            pids: pids.iter().copied().collect(),
            chains: HashMap::new(),
            slices: vec![HashMap::new()],
            samples: 0,
            unsampled: 0,
            periods_ns: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, item: Item) {
        let pid = item.pid;
        match item.what {
            What::Sample { tid, mut chain, user } => {
                if let Some(user) = user {
                    self.unwind(pid, &mut chain, &user);
                }
                self.sample(pid, tid, &chain);
            }
            What::Mapped(mapping) => {
                self.unwinders.forget(pid);
                self.spots.map(pid, mapping);
            }
            What::Named { tid, name, is_exec } => {
                if is_exec {
                    self.unwinders.forget(pid);
                    self.spots.begin_program(pid);
                }
                if let Some(&number) = self.thread_numbers.get(&(pid, tid)) {
                    self.threads[number as usize].name.clone_from(&name);
                }
                self.names.insert(tid, name);
            }
            What::Started { parent } if parent != pid => {
                self.pids.insert(pid);
                self.spots.fork(parent, pid);
            }
            What::Started { .. } => {}
        }
    }

    /// Replaces the user-mode part of a chain with the callers found in the copy of the stack.
    fn unwind(&mut self, pid: u32, chain: &mut Vec<(u64, bool)>, user: &UserState) {
        let (callers, is_complete) = self.unwinders.chain(&mut self.spots, pid, user);
        chain.retain(|&(_, is_kernel)| is_kernel);
        chain.extend(callers.into_iter().map(|address| (address, false)));
        self.incomplete += u64::from(!is_complete);
    }

    fn sample(&mut self, pid: u32, tid: u32, chain: &[(u64, bool)]) {
        let thread = self.thread(pid, tid);
        let mut spots = Vec::with_capacity(chain.len());
        for (depth, &(address, is_kernel)) in chain.iter().enumerate() {
            // A caller is located at its call, not at the return address.
            let address = if depth == 0 { address } else { address.saturating_sub(1) };
            // Without frame pointers, the rest of a chain may be garbage.
            if depth > 0 && !is_kernel && !self.spots.is_code(pid, address) {
                break;
            }
            spots.push(self.spots.spot(pid, address, is_kernel));
        }
        spots.reverse();
        self.count(thread, spots, 1);
        self.samples += 1;
    }

    fn count(&mut self, thread: u32, spots: Vec<u32>, samples: u64) {
        self.threads[thread as usize].samples += samples;
        let next = self.chains.len() as u32;
        let chain = *self.chains.entry((thread, spots)).or_insert(next);
        if let Some(slice) = self.slices.last_mut() {
            *slice.entry(chain).or_default() += samples;
        }
    }

    fn thread(&mut self, pid: u32, tid: u32) -> u32 {
        let next = self.threads.len() as u32;
        let number = *self.thread_numbers.entry((pid, tid)).or_insert(next);
        if number == next {
            self.pids.insert(pid);
            let known = self.names.get(&tid).cloned();
            let read = || std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok();
            let name = known.or_else(read).or_else(|| self.names.get(&pid).cloned());
            let name = name.map_or_else(|| tid.to_string(), |name| name.trim_end().to_owned());
            self.threads.push(ThreadSamples { pid, tid, name, samples: 0 });
        }
        number
    }

    /// Ends a slice: reads its last samples, and accounts for time without samples.
    pub(super) fn end_slice(&mut self, events: &mut Events) {
        events.drain(|item| self.take(item));
        self.periods_ns.push(events.period_ns());
        events.vary();
        if let Some(due) = events.samples_due() {
            let missing = due.saturating_sub(self.samples + self.unsampled + events.lost());
            if missing > 0 {
                let thread = self.of_kernel();
                let spot = self.spots.named(NOT_SAMPLED, KERNEL);
                self.count(thread, vec![spot], missing);
                self.unsampled += missing;
            }
        }
        self.spots.begin_slice();
        self.slices.push(HashMap::new());
    }

    /// Spot for the kernel time of all threads.
    fn of_kernel(&mut self) -> u32 {
        let pid = self.pids.first().copied().unwrap_or(0);
        self.names.insert(0, "[all threads]".to_owned());
        self.thread(pid, 0)
    }

    /// PID and TID of each sampled thread.
    pub(super) fn thread_ids(&self) -> impl Iterator<Item = (u32, u32)> {
        self.threads.iter().map(|thread| (thread.pid, thread.tid))
    }

    /// The sampled processes and their descendants.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.pids.iter().copied()
    }

    /// Current name of a process.
    pub(super) fn name(&self, pid: u32) -> Option<&str> {
        self.names.get(&pid).map(String::as_str)
    }

    /// Resolves names. `is_clock`: samples are delayed while interrupts are off.
    pub(super) fn resolve(self, is_clock: bool) -> Resolved {
        let names = self.spots.resolve();
        let mut chains = vec![(0, Vec::new(), 0); self.chains.len()];
        for ((thread, mut spots), number) in self.chains {
            if is_clock {
                leave_to_caller(&mut spots, &names);
            }
            chains[number as usize] = (thread, spots, 0);
        }
        let (mut slices, mut of_threads) = (Vec::new(), Vec::new());
        for slice in self.slices {
            let mut by_spot = HashMap::<u32, u64>::new();
            let mut by_thread = HashMap::<(u32, u32), u64>::new();
            for (number, samples) in slice {
                let (thread, spots, all) = &mut chains[number as usize];
                *all += samples;
                if let Some(&leaf) = spots.last() {
                    *by_spot.entry(leaf).or_default() += samples;
                    *by_thread.entry((*thread, leaf)).or_default() += samples;
                }
            }
            of_threads.push(by_thread);
            slices.push(by_spot);
        }
        slices.retain(|slice| !slice.is_empty());
        Resolved {
            names,
            threads: self.threads,
            pids: self.pids.into_iter().collect(),
            chains,
            of_threads,
            periods_ns: self.periods_ns,
            slices,
            samples: self.samples + self.unsampled,
            incomplete: self.incomplete,
        }
    }
}

/// Attributes a sample taken where interrupts are re-enabled to the function that ran with
/// interrupts off.
fn leave_to_caller(spots: &mut Vec<u32>, names: &Names) {
    let is_left = |spot: &u32| {
        let name = &names.functions[names.function_of(*spot) as usize];
        name.file == KERNEL && ALLOW_INTERRUPTS.contains(&name.name.as_str())
    };
    if spots.len() > 1 && spots.last().is_some_and(is_left) {
        spots.pop();
    }
}
