// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples the functions in which threads spend CPU time, and determines how much of the CPU time
//! of polling threads is work.
//!
//! Any user can sample their own threads in user mode. Without kernel samples, unsampled time
//! appears as a kernel function, `[not in user mode]`, so that shares are relative to all CPU time.

pub(crate) mod accesses;
pub(crate) mod cost;
mod cpus;
pub(crate) mod functions;
mod kernel;
pub(crate) mod maps;
pub(crate) mod names;
pub mod polling;
mod profile;
mod thread;

pub use cpus::CpuProfile;
pub use profile::ThreadProfile;

#[cfg(target_arch = "x86_64")]
pub(crate) use accesses::number_of as register_number;

use crate::procfs::task::SchedStat;
use crate::refusal::explain;
use crate::sparing::Sparing;
use accesses::Decoder;
use cost::{affordable, sample_cost_ns};
use cpus::SampledCpus;
use linerate_linux::monotonic_ns;
use linerate_linux::perf::{OpenError, Request, SOFTWARE, Selector, Target};
use linerate_linux::sample::{self, Fields, Ring, Sampling};
use linerate_record::stats::Estimate;
use linerate_record::why::{SharedLine, Unread};
use names::{Resolver, Spots};
use std::collections::HashMap;
use thread::Sampled;

/// A thread, by process and thread ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// Process ID.
    pub pid: u32,
    /// Thread ID.
    pub tid: u32,
}

pub(crate) const CPU_CLOCK_NAME: &str = "cpu-clock";
/// `PERF_COUNT_SW_CPU_CLOCK`.
pub(crate) const CPU_CLOCK: Selector = Selector::new(SOFTWARE, 0);
/// Samples per second while a thread is running, unless they cost more than [`THREAD_SHARE`]. Not a
/// multiple of timer rates.
const RATE: u64 = 499;
/// Maximum share of a thread's time that its samples may take, unless that leaves fewer than
/// [`RATE_MIN`] per second, too few to measure a function's share.
const THREAD_SHARE: f64 = 0.01;
const RATE_MIN: u64 = 97;
/// Maximum number of samples per second, summed over all threads.
const MAX_RATE: u64 = 4000;
/// Maximum number of sampled threads.
const MAX_THREADS: usize = 64;
/// Maximum number of threads sampled with registers, in the order in which they were added.
const MAX_WITH_REGISTERS: usize = 8;
/// Size in bytes of a sample in the ring, without registers.
const SAMPLE_BYTES: u64 = 40;
/// Size in bytes of a sample's registers in the ring.
const REGISTERS_BYTES: u64 = 144;
/// Longest slice that the ring can hold, in seconds. With registers, it holds half of that, because
/// the kernel limits the memory that users may lock.
const MAX_SLICE_S: u64 = 1;
/// Maximum share of a CPU's time to spend on separating work from polling in consecutive windows.
const SEPARATING_SHARE: f64 = 0.002;

/// Extent of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Whether registers are sampled, for memory accesses.
    pub(crate) has_registers: bool,
    /// Number of most recent slices from which the shares of functions are computed.
    pub(crate) recent: usize,
    /// Number of most recent slices from which work and polling are separated.
    pub(crate) history: usize,
}

impl Extent {
    /// A single window, from which everything is computed.
    pub(crate) const WINDOW: Self =
        Self { has_registers: true, recent: usize::MAX, history: usize::MAX };
}

/// Samples threads, window by window. Each [`Sampler::finish`] begins the next window.
#[derive(Debug)]
pub struct Sampler {
    threads: Vec<Sampled>,
    cpus: SampledCpus,
    spots: Spots,
    resolver: Resolver,
    decoder: Decoder,
    extent: Extent,
    separating: Sparing,
    /// CPU time between two samples of a thread, in nanoseconds.
    period_ns: u64,
    /// CPU time that a sample takes, in nanoseconds; `None` if not measured.
    cost_ns: Option<Estimate>,
    has_kernel: bool,
    slices: usize,
    left_out: usize,
}

/// Result of sampling.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    /// Profiles by thread.
    pub threads: Vec<ThreadProfile>,
    /// Profiles by CPU, if kernel functions can be sampled.
    pub cpus: Vec<CpuProfile>,
    /// Cache lines that several threads use and at least one writes.
    pub shared_lines: Vec<SharedLine>,
}

/// Returns the maximum number of samples per second of each of `threads` threads on `cpus` CPUs.
fn rate_of(threads: usize, cpus: usize) -> u64 {
    let at_once = threads.clamp(1, cpus.clamp(1, MAX_THREADS)) as u64;
    RATE.min(MAX_RATE / at_once).max(1)
}

impl Sampler {
    /// Starts sampling threads (the first ones in the list if there are too many), and the kernel
    /// on `sampled_cpus`. Also returns what cannot be sampled.
    pub fn start(threads: &[ThreadId], sampled_cpus: &[u32]) -> (Self, Vec<Unread>) {
        Self::start_with(Extent::WINDOW, threads, sampled_cpus, threads.len())
    }

    /// Like [`Self::start`], but with an `extent`. `expected` is the total number of threads, some
    /// of which may be added later.
    pub(crate) fn start_with(
        extent: Extent,
        threads: &[ThreadId],
        sampled_cpus: &[u32],
        expected: usize,
    ) -> (Self, Vec<Unread>) {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let cost_ns = sample_cost_ns();
        let most = rate_of(expected, cpus);
        let rate = affordable(cost_ns, THREAD_SHARE, RATE_MIN.min(most), most);
        let mut sampler = Self {
            threads: Vec::new(),
            cpus: SampledCpus::default(),
            spots: Spots::default(),
            resolver: Resolver::default(),
            decoder: Decoder::default(),
            extent,
            separating: Sparing::new(SEPARATING_SHARE),
            period_ns: 1_000_000_000 / rate,
            cost_ns,
            has_kernel: true,
            slices: 0,
            left_out: 0,
        };
        let mut unread = sampler.watch(threads);
        let has_registers = extent.has_registers && accesses::IS_POSSIBLE;
        let fields = Fields { has_registers, ..Fields::default() };
        unread.extend(sampler.cpus.open(sampled_cpus, fields, cost_ns));
        (sampler, unread)
    }

    /// Returns the CPU time that a sample takes from the sampled thread, in nanoseconds; `None` if
    /// sampling is not permitted.
    pub(crate) fn cost_ns(&self) -> Option<Estimate> {
        self.cost_ns
    }

    /// Adds threads, which are sampled from the current slice on. Skips those that are already
    /// sampled.
    pub fn watch(&mut self, threads: &[ThreadId]) -> Vec<Unread> {
        let mut unread = Vec::new();
        for &id in threads {
            if self.threads.iter().any(|thread| thread.id == id) {
                continue;
            }
            if self.threads.len() >= MAX_THREADS {
                self.left_out += 1;
                continue;
            }
            match self.open(id) {
                Ok(None) => {}
                Ok(Some(refused)) => unread.push(refused),
                // Threads that have ended are not reported.
                Err(refused) => unread.extend(refused),
            }
        }
        unread.sort();
        unread.dedup();
        unread
    }

    /// Opens a thread's event. It is not an error if only kernel samples are refused.
    fn open(&mut self, id: ThreadId) -> Result<Option<Unread>, Option<Unread>> {
        let target = Target::Thread(id.tid);
        let request =
            |exclude_kernel| Request { exclude_kernel, disabled: false, ..Request::new(CPU_CLOCK) };
        let has_registers = self.extent.has_registers
            && accesses::IS_POSSIBLE
            && self.threads.len() < MAX_WITH_REGISTERS;
        let fields = Fields { has_registers, ..Fields::default() };
        let sampling = Sampling { period: self.period_ns, fields, skips_idle: false };
        let mut refused = None;
        let mut opened = Err(OpenError { errno: linerate_linux::errno::EACCES });
        if self.has_kernel {
            opened = sample::open(&request(false), &sampling, target);
            if let Err(error) = opened.as_ref() {
                refused =
                    Some(explain("kernel_samples", CPU_CLOCK_NAME, request(false), target, *error));
            }
        }
        let has_kernel = opened.is_ok();
        let opened = opened.or_else(|_| sample::open(&request(true), &sampling, target));
        let event = opened.map_err(|error| {
            let has_ended = error.errno == linerate_linux::errno::ESRCH;
            (!has_ended).then(|| explain("samples", CPU_CLOCK_NAME, request(true), target, error))
        })?;
        let per_slice = MAX_SLICE_S * 1_000_000_000 / self.period_ns;
        let pages = match has_registers {
            true => per_slice / 2 * (SAMPLE_BYTES + REGISTERS_BYTES),
            false => per_slice * SAMPLE_BYTES,
        };
        let pages = pages.div_ceil(linerate_linux::page_bytes() as u64).max(1);
        let ring = Ring::map(&event, pages as usize, fields).map_err(|error| {
            Some(Unread {
                what: "samples".to_owned(),
                reason: format!(
                    "cannot lock memory for the sample buffer of thread {}: {error}",
                    id.tid
                ),
                fix: Some("sudo sysctl kernel.perf_event_mlock_kb=4096".to_owned()),
            })
        })?;
        self.has_kernel &= has_kernel;
        self.spots.learn(id.pid);
        self.threads.push(Sampled::new(id, (event, ring), has_registers, self.slices));
        Ok(refused)
    }

    /// Ends a slice: reads the samples of all threads. Call at least once per second.
    pub fn end_slice(&mut self) {
        self.end_slice_with(|_| None);
    }

    /// Like [`Self::end_slice`], but also uses each thread's scheduler statistics to choose how to
    /// sample it.
    pub(crate) fn end_slice_with(&mut self, sched_of: impl Fn(ThreadId) -> Option<SchedStat>) {
        let now_ns = monotonic_ns();
        let Self { threads, cpus, spots, decoder, .. } = self;
        spots.begin_slice();
        let by_cpu = threads.iter().enumerate().filter(|(_, thread)| thread.is_by_cpu());
        let by_cpu: HashMap<u32, usize> = by_cpu.map(|(at, thread)| (thread.id.tid, at)).collect();
        cpus.end_slice(spots, |spots, sample| {
            if let Some(&at) = by_cpu.get(&sample.tid) {
                threads[at].take(sample, (spots, decoder));
            }
        });
        for thread in threads {
            let sched = sched_of(thread.id);
            thread.end_slice((spots, decoder), self.has_kernel, self.period_ns, sched);
            thread.choose(sched, cpus.has_all(), now_ns);
        }
        self.slices += 1;
    }

    /// Returns a thread's CPU time in each slice since it was first observed, in nanoseconds.
    pub fn run_ns(&self, id: ThreadId) -> Vec<u64> {
        let of_id = self.threads.iter().filter(|thread| thread.id == id);
        of_id.flat_map(|thread| &thread.slices).map(|slice| slice.run_ns).collect()
    }

    /// Returns how many threads were not sampled because there were too many.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns how many samples were lost because rings were not read in time.
    pub fn lost(&self) -> u64 {
        self.threads.iter().map(|thread| thread.lost).sum()
    }

    /// Ends a window. `packets` are counts per slice, if known; `asleep` is the share of the window
    /// that a thread slept.
    pub fn finish(
        &mut self,
        packets: &[Option<u64>],
        asleep: impl Fn(ThreadId) -> f64,
    ) -> Profiles {
        self.spots.resolve(&mut self.resolver);
        let names = &self.resolver.names;
        let parts = self.threads.iter().map(|thread| accesses::Sampled {
            tid: thread.id.tid,
            samples: thread.samples,
            accesses: &thread.accesses,
        });
        let parts: Vec<_> = parts.collect();
        let shared_lines = accesses::shared_lines(&parts, |spot| names.name_of(spot).to_owned());
        let is_due = self.separating.is_due();
        let began_ns = self.separating.begin();
        let (extent, slices) = (self.extent, std::mem::take(&mut self.slices));
        let profile = |thread: &mut Sampled| {
            thread.end_window(packets, names, extent);
            let window = thread.history.len().min(slices - thread.first);
            let ids = (thread.id, asleep(thread.id));
            thread.first = 0;
            thread.profile(ids, names, (extent, window), is_due)
        };
        let threads = self.threads.iter_mut().map(profile).collect();
        if is_due {
            self.separating.end(began_ns);
        }
        Profiles { threads, cpus: self.cpus.finish(names), shared_lines }
    }

    /// Stops sampling threads that no longer exist.
    pub(crate) fn forget(&mut self, is_there: impl Fn(ThreadId) -> bool) {
        self.threads.retain(|thread| is_there(thread.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_of_all_threads_together_are_limited() {
        assert_eq!([rate_of(0, 8), rate_of(1, 128), rate_of(500, 2)], [RATE; 3]);
        for (threads, cpus) in [(64, 64), (500, 128)] {
            assert!(rate_of(threads, cpus) * MAX_THREADS as u64 <= MAX_RATE);
        }
    }
}
