// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts samples by call chain.

use super::ProfileRequest;
use super::depths::Depths;
use super::events::{Events, Item, UserState, What};
use super::unwind::Unwinders;
use crate::sampler::names::{KERNEL, Names, Resolver, Spots};
use linerate_linux::sample::Registers;
use std::collections::{BTreeSet, HashMap};

/// A sampled thread.
#[derive(Clone, Debug)]
pub(super) struct ThreadSamples {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) name: String,
    pub(super) samples: u64,
}

/// A user-mode sample with its registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserSample {
    pub(super) thread: u32,
    pub(super) spot: u32,
    pub(super) ip: u64,
    pub(super) registers: Registers,
    pub(super) slice: u32,
    /// Number of the thread's samples before this one.
    pub(super) ordinal: u64,
}

/// Maximum number of samples kept with their registers (160 bytes each). Only slices whose samples
/// were all kept are examined for operands.
const MAX_USER_SAMPLES: usize = 200_000;

/// Sampled call chains of all threads.
pub(super) struct Stacks {
    spots: Spots,
    unwinders: Unwinders,
    /// Whether samples contain copies of the stack.
    has_copies: bool,
    /// Whether there are samples of other programs, which must be filtered out.
    has_others: bool,
    user_samples: Vec<UserSample>,
    /// First slice with samples that were not kept.
    kept_until: Option<usize>,
    /// How much of the stack the chains needed.
    depths: Depths,
    threads: Vec<ThreadSamples>,
    thread_numbers: HashMap<(u32, u32), u32>,
    names: HashMap<u32, String>,
    /// Sampled processes and their descendants.
    pids: BTreeSet<u32>,
    /// Chain numbers, by thread and by the code locations (spots) of the chain, outermost caller
    /// first.
    chains: HashMap<(u32, Vec<u32>), u32>,
    /// Samples per chain in each slice. The last slice is incomplete.
    slices: Vec<HashMap<u32, u64>>,
    samples: u64,
    /// Unsampled CPU time, as a number of samples.
    unsampled: u64,
    /// Sampling period in each slice, in nanoseconds of CPU time.
    periods_ns: Vec<u64>,
    /// Time (in nanoseconds) and thread of each sample, if requested.
    times: Option<Vec<(u64, u32)>>,
}

/// Maximum number of samples whose times are kept.
const MAX_TIMES: usize = 4_000_000;

/// Chains, threads and slices with resolved names.
pub(super) struct Resolved {
    pub(super) names: Names,
    pub(super) threads: Vec<ThreadSamples>,
    pub(super) pids: Vec<u32>,
    /// Thread, code locations (spots, outermost caller first) and sample count of each chain.
    pub(super) chains: Vec<(u32, Vec<u32>, u64)>,
    /// Samples by thread and innermost code location, per slice of the window, including slices
    /// without samples.
    pub(super) of_threads: Vec<HashMap<(u32, u32), u64>>,
    /// Sampling period in each slice, in nanoseconds of CPU time.
    pub(super) periods_ns: Vec<u64>,
    /// Samples by innermost code location, per slice with samples.
    pub(super) slices: Vec<HashMap<u32, u64>>,
    /// Samples by chain number, per slice of the window.
    pub(super) by_chain: Vec<HashMap<u32, u64>>,
    /// Samples in user mode.
    pub(super) user_samples: Vec<UserSample>,
    /// Number of slices, counted from the first, whose user-mode samples are all in `user_samples`.
    pub(super) kept_until: usize,
    pub(super) samples: u64,
    /// Number of samples whose stack copy could not be unwound to the thread's first function.
    pub(super) incomplete: u64,
    /// Region and offset of each numbered code location.
    pub(super) spots: Spots,
    pub(super) resolver: Resolver,
    /// Time (in nanoseconds) and thread of each sample, if requested.
    pub(super) times: Option<Vec<(u64, u32)>>,
}

/// Name for kernel time if the kernel cannot be sampled.
pub(super) const NOT_SAMPLED: &str = "[not in user mode]";

/// Functions that re-enable interrupts. A sampling interrupt that occurs while interrupts are off
/// is delivered in these functions, but the time was spent in their caller.
const ALLOW_INTERRUPTS: [&str; 2] = ["_raw_spin_unlock_irqrestore", "_raw_spin_unlock_irq"];

impl Stacks {
    pub(super) fn new(
        request: &ProfileRequest,
        pids: &[u32],
        has_copies: bool,
        has_others: bool,
    ) -> Self {
        let mut spots = Spots::of_bytes();
        pids.iter().for_each(|&pid| spots.learn(pid));
        Self {
            spots,
            unwinders: Unwinders::default(),
            has_copies,
            has_others,
            user_samples: Vec::new(),
            kept_until: None,
            depths: Depths::default(),
            threads: Vec::new(),
            thread_numbers: HashMap::new(),
            names: HashMap::new(),
            pids: pids.iter().copied().collect(),
            chains: HashMap::new(),
            slices: vec![HashMap::new()],
            samples: 0,
            unsampled: 0,
            periods_ns: Vec::new(),
            times: request.has_timeline.then(Vec::new),
        }
    }

    pub(super) fn take(&mut self, item: Item) {
        /// Process ID in the samples of a thread that has almost exited.
        const NO_PID: u32 = u32::MAX;
        let (pid, time_ns) = (item.pid, item.time_ns);
        if pid == NO_PID || (self.has_others && !self.is_of_program(&item)) {
            return;
        }
        match item.what {
            What::Sample { tid, mut chain, user } => {
                if let (Some(user), true) = (&user, self.has_copies) {
                    self.unwind(pid, &mut chain, user);
                }
                let (thread, spot) = self.sample(pid, tid, &chain);
                let is_user = chain.first().is_some_and(|(_, is_kernel)| !is_kernel);
                if let (Some(user), true) = (user, is_user) {
                    self.keep(thread, spot, &user);
                }
                if let Some(times) = self.times.as_mut().filter(|times| times.len() < MAX_TIMES) {
                    times.push((time_ns, thread));
                }
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

    /// Returns whether an item belongs to a sampled process or to a new child of one.
    fn is_of_program(&self, item: &Item) -> bool {
        let pid = if let What::Started { parent } = item.what { parent } else { item.pid };
        self.pids.contains(&pid)
    }

    /// Replaces the user-mode part of a chain with the callers found in the stack copy.
    fn unwind(&mut self, pid: u32, chain: &mut Vec<(u64, bool)>, user: &UserState) {
        let found = self.unwinders.chain(&mut self.spots, pid, user);
        chain.retain(|&(_, is_kernel)| is_kernel);
        chain.extend(found.addresses.into_iter().map(|address| (address, false)));
        self.depths.add(found.bytes);
    }

    /// Keeps a sample with its registers, if there is room.
    fn keep(&mut self, thread: u32, spot: u32, user: &UserState) {
        if self.user_samples.len() >= MAX_USER_SAMPLES {
            self.kept_until.get_or_insert(self.slices.len() - 1);
        } else {
            self.user_samples.push(UserSample {
                thread,
                spot,
                ip: user.ip,
                registers: user.registers,
                slice: self.slices.len() as u32 - 1,
                ordinal: self.threads[thread as usize].samples,
            });
        }
    }

    /// Counts a sample; returns its thread and innermost code location.
    fn sample(&mut self, pid: u32, tid: u32, chain: &[(u64, bool)]) -> (u32, u32) {
        let thread = self.thread(pid, tid);
        let mut spots = Vec::with_capacity(chain.len());
        let mut was_kernel = false;
        for (depth, &(address, is_kernel)) in chain.iter().enumerate() {
            // A caller is at its call instruction, not at the return address. The user-mode address
            // at which the kernel was entered is the interrupted instruction itself, or one behind
            // `syscall`.
            let is_return = depth > 0 && was_kernel == is_kernel;
            let address = if is_return { address.saturating_sub(1) } else { address };
            was_kernel = is_kernel;
            // Without frame pointers, the rest of a chain may be garbage.
            if depth > 0 && !is_kernel && !self.spots.is_code(pid, address) {
                break;
            }
            spots.push(self.spots.spot(pid, address, is_kernel));
        }
        spots.reverse();
        let innermost = spots.last().copied().unwrap_or(0);
        self.count(thread, spots, 1);
        self.samples += 1;
        (thread, innermost)
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

    /// Ends a slice: reads its last samples and accounts for unsampled time.
    pub(super) fn end_slice(&mut self, events: &mut Events) {
        events.drain(|item| self.take(item));
        self.periods_ns.push(events.period_ns());
        events.vary();
        self.add_unsampled(events, false);
        self.spots.begin_slice();
        self.slices.push(HashMap::new());
    }

    /// Ends the window: reads the last samples and accounts for the rest of the unsampled time.
    pub(super) fn end_window(&mut self, events: &mut Events) {
        events.drain(|item| self.take(item));
        self.add_unsampled(events, true);
    }

    fn add_unsampled(&mut self, events: &mut Events, is_last: bool) {
        if let Some(due) = events.samples_due(is_last) {
            let missing = due.saturating_sub(self.samples + self.unsampled + events.lost());
            if missing > 0 {
                let thread = self.of_kernel();
                let spot = self.spots.named(NOT_SAMPLED, KERNEL);
                self.count(thread, vec![spot], missing);
                self.unsampled += missing;
            }
        }
    }

    /// Returns the pseudo-thread that kernel time of all threads is attributed to.
    fn of_kernel(&mut self) -> u32 {
        let pid = self.pids.first().copied().unwrap_or(0);
        self.names.insert(0, "[all threads]".to_owned());
        self.thread(pid, 0)
    }

    /// Returns how much of the stack the chains needed so far.
    pub(super) fn depths(&self) -> Depths {
        self.depths
    }

    /// Returns process and thread IDs of the sampled threads.
    pub(super) fn thread_ids(&self) -> impl Iterator<Item = (u32, u32)> {
        self.threads.iter().map(|thread| (thread.pid, thread.tid))
    }

    /// Returns the sampled processes and their descendants.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.pids.iter().copied()
    }

    /// Returns the current name of a process.
    pub(super) fn name(&self, pid: u32) -> Option<&str> {
        self.names.get(&pid).map(String::as_str)
    }

    /// Resolves names. If the sampling interrupt is maskable, samples that came due while
    /// interrupts were off are attributed to the function that was running.
    pub(super) fn resolve(self, is_maskable: bool) -> Resolved {
        let mut resolver = Resolver::default();
        let mut spots = self.spots;
        spots.resolve(&mut resolver);
        let names = std::mem::take(&mut resolver.names);
        let mut chains = vec![(0, Vec::new(), 0); self.chains.len()];
        for ((thread, mut spots), number) in self.chains {
            if is_maskable {
                leave_to_caller(&mut spots, &names);
            }
            chains[number as usize] = (thread, spots, 0);
        }
        let (mut slices, mut of_threads) = (Vec::new(), Vec::new());
        let by_chain = self.slices;
        for slice in &by_chain {
            let mut by_spot = HashMap::<u32, u64>::new();
            let mut by_thread = HashMap::<(u32, u32), u64>::new();
            for (&number, &samples) in slice {
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
        let kept_until = self.kept_until.unwrap_or(by_chain.len());
        Resolved {
            kept_until,
            names,
            threads: self.threads,
            pids: self.pids.into_iter().collect(),
            chains,
            of_threads,
            periods_ns: self.periods_ns,
            slices,
            by_chain,
            user_samples: self.user_samples,
            samples: self.samples + self.unsampled,
            incomplete: self.depths.incomplete,
            spots,
            resolver,
            times: self.times,
        }
    }
}

/// Attributes a sample taken when interrupts are re-enabled to the function that ran with
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

#[cfg(test)]
pub(super) mod tests;
