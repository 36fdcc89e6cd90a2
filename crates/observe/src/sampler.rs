// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples the functions in which threads spend CPU time, and how much of it is work if they poll.
//!
//! Any user can sample the user mode of their own threads. Without kernel samples, the unsampled
//! time appears as one kernel function, `[not in user mode]`, so that shares refer to all CPU time.

mod accesses;
mod cpus;
pub(crate) mod functions;
mod kernel;
pub(crate) mod maps;
pub(crate) mod names;
pub mod polling;
mod profile;

pub use cpus::CpuProfile;
pub use profile::ThreadProfile;

use crate::refusal::explain;
use accesses::{Access, Decoder};
use cpus::SampledCpus;
use linerate_linux::perf::{Event, OpenError, Request, SOFTWARE, Selector, Target};
use linerate_linux::sample::{self, Fields, Record, Ring, Sampling};
use linerate_record::why::{SharedLine, Unread};
use names::{KERNEL, Spots};
use polling::Slice;
use std::collections::HashMap;

/// A thread by process and thread ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// Its process.
    pub pid: u32,
    /// Its thread ID.
    pub tid: u32,
}

pub(crate) const CPU_CLOCK_NAME: &str = "cpu-clock";
/// `PERF_COUNT_SW_CPU_CLOCK`.
pub(crate) const CPU_CLOCK: Selector = Selector::new(SOFTWARE, 0);
/// Samples per second of a running thread: not a multiple of timer rates. In a virtual machine, a
/// sample takes 16 us, most of it outside the guest: 0.8 % of the thread's time.
const RATE: u64 = 499;
/// Maximum samples per second over all threads.
const MAX_RATE: u64 = 4000;
/// Maximum number of sampled threads.
const MAX_THREADS: usize = 64;
/// Maximum number of threads sampled with registers: the first ones watched.
const MAX_WITH_REGISTERS: usize = 8;
/// Size in bytes of a sample in the ring, and of its registers.
const SAMPLE_BYTES: u64 = 40;
const REGISTERS_BYTES: u64 = 144;
/// Longest slice that the ring can hold, seconds; half of that with registers, because users can
/// lock little memory.
const MAX_SLICE_S: u64 = 1;
/// Maximum number of accesses kept per thread.
const MAX_ACCESSES: usize = 20_000;

/// Samples threads until [`Sampler::finish`].
#[derive(Debug)]
pub struct Sampler {
    threads: Vec<Sampled>,
    cpus: SampledCpus,
    spots: Spots,
    decoder: Decoder,
    /// CPU time between two samples of a thread, nanoseconds.
    period_ns: u64,
    has_kernel: bool,
    slices: usize,
    left_out: usize,
}

/// A sampled thread.
#[derive(Debug)]
struct Sampled {
    id: ThreadId,
    event: Event,
    ring: Ring,
    /// CPU time at the end of the last slice.
    run_ns: u64,
    /// Number of samples taken, lost, and substituted for time that cannot be sampled.
    samples: u64,
    lost: u64,
    unsampled: u64,
    /// Slice in which it was first watched.
    first: usize,
    slices: Vec<Slice>,
    has_registers: bool,
    /// Samples at cipher and hash instructions.
    ciphers: u64,
    accesses: Vec<Access>,
}

impl Sampled {
    fn cipher_instructions(&self) -> Option<f64> {
        (self.has_registers && self.samples > 0).then(|| self.ciphers as f64 / self.samples as f64)
    }
}

/// Result of sampling.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    /// Profile of each thread.
    pub threads: Vec<ThreadProfile>,
    /// Profile of each CPU, if its kernel functions can be sampled.
    pub cpus: Vec<CpuProfile>,
    /// Cache lines that several threads use and one writes.
    pub shared_lines: Vec<SharedLine>,
}

impl Sampler {
    /// Starts sampling threads (the first ones in the list if there are too many), and the kernel
    /// on `sampled_cpus`. The second value lists what cannot be sampled.
    pub fn start(threads: &[ThreadId], sampled_cpus: &[u32]) -> (Self, Vec<Unread>) {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let at_once = threads.len().clamp(1, cpus) as u64;
        let rate = RATE.min(MAX_RATE / at_once).max(1);
        let mut sampler = Self {
            threads: Vec::new(),
            cpus: SampledCpus::default(),
            spots: Spots::default(),
            decoder: Decoder::default(),
            period_ns: 1_000_000_000 / rate,
            has_kernel: true,
            slices: 0,
            left_out: 0,
        };
        let mut unread = sampler.watch(threads);
        unread.extend(sampler.cpus.open(sampled_cpus));
        (sampler, unread)
    }

    /// Samples further threads from the current slice on. Threads that are already sampled stay so.
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
                // A thread that has ended is not reported.
                Err(refused) => unread.extend(refused),
            }
        }
        unread.sort();
        unread.dedup();
        unread
    }

    /// Opens the event of a thread. Refusal of kernel samples alone is not an error.
    fn open(&mut self, id: ThreadId) -> Result<Option<Unread>, Option<Unread>> {
        let target = Target::Thread(id.tid);
        let request =
            |exclude_kernel| Request { exclude_kernel, disabled: false, ..Request::new(CPU_CLOCK) };
        let has_registers = accesses::IS_POSSIBLE && self.threads.len() < MAX_WITH_REGISTERS;
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
                reason: format!("cannot lock memory for samples of thread {}: {error}", id.tid),
                fix: Some("sudo sysctl kernel.perf_event_mlock_kb=4096".to_owned()),
            })
        })?;
        self.has_kernel &= has_kernel;
        self.spots.learn(id.pid);
        self.threads.push(Sampled {
            id,
            event,
            ring,
            run_ns: 0,
            samples: 0,
            lost: 0,
            unsampled: 0,
            first: self.slices,
            slices: Vec::new(),
            has_registers,
            ciphers: 0,
            accesses: Vec::new(),
        });
        Ok(refused)
    }

    /// Ends a slice: reads the samples of all threads. Call at least once per second.
    pub fn end_slice(&mut self) {
        self.spots.begin_slice();
        for thread in &mut self.threads {
            let known = (&mut self.spots, &mut self.decoder);
            let slice = thread.end_slice(known, self.has_kernel, self.period_ns);
            thread.slices.push(slice);
        }
        self.cpus.end_slice(&mut self.spots);
        self.slices += 1;
    }

    /// CPU time of a thread in each slice since it was first watched, nanoseconds.
    pub fn run_ns(&self, id: ThreadId) -> Vec<u64> {
        let of_id = self.threads.iter().filter(|thread| thread.id == id);
        of_id.flat_map(|thread| &thread.slices).map(|slice| slice.run_ns).collect()
    }

    /// Threads that were not sampled because there were too many.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Samples lost because the rings were not read in time.
    pub fn lost(&self) -> u64 {
        self.threads.iter().map(|thread| thread.lost).sum()
    }

    /// Ends sampling. `packets` are counts per slice, if known; `asleep` is the share of the window
    /// that a thread slept.
    pub fn finish(self, packets: &[Option<u64>], asleep: impl Fn(ThreadId) -> f64) -> Profiles {
        let names = &self.spots.resolve();
        let parts = self.threads.iter().map(|thread| accesses::Sampled {
            tid: thread.id.tid,
            samples: thread.samples,
            accesses: &thread.accesses,
        });
        let parts: Vec<_> = parts.collect();
        let shared_lines = accesses::shared_lines(&parts, |spot| names.name_of(spot).to_owned());
        let profile = |thread: Sampled| {
            let ciphers = thread.cipher_instructions();
            let mut slices = thread.slices;
            for (number, slice) in slices.iter_mut().enumerate() {
                slice.counts = by_place(&slice.counts, &names.of_spots);
                slice.packets = packets.get(thread.first + number).copied().flatten();
            }
            let memory = accesses::memory_use(&thread.accesses, thread.samples);
            let asleep = asleep(thread.id);
            profile::profile(thread.id, thread.samples, &slices, names, asleep, (memory, ciphers))
        };
        Profiles {
            threads: self.threads.into_iter().map(profile).collect(),
            cpus: self.cpus.finish(names),
            shared_lines,
        }
    }
}

impl Sampled {
    fn end_slice(
        &mut self,
        (spots, decoder): (&mut Spots, &mut Decoder),
        has_kernel: bool,
        period_ns: u64,
    ) -> Slice {
        let run_ns = self.event.read().map_or(self.run_ns, |reading| reading.values()[0]);
        let mut counts = HashMap::<u32, u32>::new();
        let (mut samples, mut lost) = (0, 0);
        let pid = self.id.pid;
        let (accesses, ciphers) = (&mut self.accesses, &mut self.ciphers);
        self.ring.drain(|record| match record {
            Record::Sample(sample) => {
                samples += 1;
                let spot = spots.spot(pid, sample.ip, sample.is_kernel);
                *counts.entry(spot).or_default() += 1;
                if let (Some(registers), false) = (&sample.registers, sample.is_kernel) {
                    let room = MAX_ACCESSES.saturating_sub(accesses.len());
                    let found = decoder.accesses(spots, pid, (sample.ip, registers), spot);
                    accesses.extend(found.take(room));
                    *ciphers += u64::from(decoder.is_cipher(pid, sample.ip));
                }
            }
            Record::Lost(records) => lost += records,
            Record::Throttled | Record::Process(_) | Record::Other(_) => {}
        });
        self.samples += samples;
        self.lost += lost;
        if !has_kernel {
            let due = run_ns / period_ns;
            let missing = due.saturating_sub(self.samples + self.lost + self.unsampled);
            self.unsampled += missing;
            if missing > 0 {
                counts.insert(spots.named("[not in user mode]", KERNEL), missing as u32);
            }
        }
        let slice = Slice {
            run_ns: run_ns.saturating_sub(self.run_ns),
            packets: None,
            counts: sorted(counts),
        };
        self.run_ns = run_ns;
        slice
    }
}

/// Converts counts by spot to counts by place.
fn by_place(counts: &[(u32, u32)], of_spots: &[u32]) -> Vec<(u32, u32)> {
    let mut places = HashMap::<u32, u32>::new();
    for &(spot, count) in counts {
        *places.entry(of_spots[spot as usize]).or_default() += count;
    }
    sorted(places)
}

fn sorted(counts: HashMap<u32, u32>) -> Vec<(u32, u32)> {
    let mut counts: Vec<(u32, u32)> = counts.into_iter().collect();
    counts.sort_unstable();
    counts
}
