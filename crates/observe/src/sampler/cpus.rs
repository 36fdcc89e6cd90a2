// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples CPUs. Kernel functions are counted in any context, since packets are received in
//! softirqs, which run in the context of whichever thread is current. Samples of threads without an
//! event of their own are passed to the caller. Requires root or CAP_PERFMON.

use super::cost::affordable;
use super::names::{KERNEL, Names, Spots};
use super::{CPU_CLOCK, CPU_CLOCK_NAME};
use crate::refusal::explain;
use linerate_linux::monotonic_ns;
use linerate_linux::perf::{Event, Request, Target};
use linerate_linux::sample::{self, Fields, Record, Ring, Sample, Sampling};
use linerate_record::stats::Estimate;
use linerate_record::why::{FunctionTime, Unread};
use std::collections::{BTreeMap, HashMap};

/// Samples per second and CPU, unless they cost more than [`CPU_SHARE`]. Fewer than for threads,
/// because all CPUs are sampled.
const RATE: u64 = 199;
/// Maximum share of a CPU's time that its samples may take, unless that leaves fewer than
/// [`RATE_MIN`] per second.
const CPU_SHARE: f64 = 0.004;
const RATE_MIN: u64 = 47;
/// Maximum number of sampled CPUs.
const MAX_CPUS: usize = 64;
/// Maximum number of functions to list.
const MAX_FUNCTIONS: usize = 32;
/// Size of a ring, enough for more than a second of samples with registers.
const RING_BYTES: usize = 64 << 10;

/// A CPU's kernel time by function.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuProfile {
    /// Logical CPU number.
    pub cpu: u32,
    /// Number of kernel samples.
    pub samples: u64,
    /// Functions, with shares relative to the window.
    pub functions: Vec<FunctionTime>,
}

/// CPUs whose kernel code is sampled.
#[derive(Debug, Default)]
pub(super) struct SampledCpus {
    cpus: Vec<SampledCpu>,
    /// Whether all CPUs are sampled, so that no sample of a thread is missed wherever it runs.
    has_all: bool,
    /// Samples per second of each CPU.
    rate: u64,
    began_ns: u64,
}

#[derive(Debug)]
struct SampledCpu {
    cpu: u32,
    /// Event that takes the samples for as long as it is open.
    _event: Event,
    ring: Ring,
    counts: HashMap<u32, u64>,
}

impl SampledCpus {
    /// Starts sampling CPUs. Stops at the first CPU for which the kernel refuses, and returns the
    /// reason.
    pub(super) fn open(
        &mut self,
        cpus: &[u32],
        fields: Fields,
        cost_ns: Option<Estimate>,
    ) -> Option<Unread> {
        self.rate = affordable(cost_ns, CPU_SHARE, RATE_MIN, RATE);
        self.began_ns = monotonic_ns();
        let request = Request { disabled: false, ..Request::new(CPU_CLOCK) };
        let sampling = Sampling { period: 1_000_000_000 / self.rate, fields, skips_idle: true };
        self.has_all = !cpus.is_empty() && cpus.len() <= MAX_CPUS;
        for &cpu in cpus.iter().take(MAX_CPUS) {
            let target = Target::Cpu(cpu);
            let event = match sample::open(&request, &sampling, target) {
                Ok(event) => event,
                Err(error) => {
                    self.has_all = false;
                    return Some(explain("cpu_samples", CPU_CLOCK_NAME, request, target, error));
                }
            };
            let Ok(ring) = Ring::map_bytes(&event, RING_BYTES, fields) else {
                self.has_all = false;
                continue;
            };
            self.cpus.push(SampledCpu { cpu, _event: event, ring, counts: HashMap::new() });
        }
        (cpus.len() > MAX_CPUS).then(|| Unread {
            what: "cpu_samples".to_owned(),
            reason: format!("only the first {MAX_CPUS} of {} CPUs were sampled", cpus.len()),
            fix: None,
        })
    }

    /// Returns whether all CPUs passed to [`Self::open`] are sampled.
    pub(super) fn has_all(&self) -> bool {
        self.has_all
    }

    /// Reads the samples, and passes each of them to `take`.
    pub(super) fn end_slice(
        &mut self,
        spots: &mut Spots,
        mut take: impl FnMut(&mut Spots, &Sample<'_>),
    ) {
        for cpu in &mut self.cpus {
            let counts = &mut cpu.counts;
            cpu.ring.drain(|record| {
                let Record::Sample(sample) = record else { return };
                if sample.is_kernel {
                    *counts.entry(spots.spot(0, sample.ip, true)).or_default() += 1;
                }
                take(spots, &sample);
            });
        }
    }

    /// Returns the profiles of the window and begins the next window.
    pub(super) fn finish(&mut self, names: &Names) -> Vec<CpuProfile> {
        let now_ns = monotonic_ns();
        let window_ns = now_ns.saturating_sub(self.began_ns).max(1);
        self.began_ns = now_ns;
        let per_sample = 1e9 / self.rate.max(1) as f64 / window_ns as f64;
        let profile = |cpu: &mut SampledCpu| {
            let mut counts = BTreeMap::<&str, u64>::new();
            for (spot, count) in cpu.counts.drain() {
                *counts.entry(names.name_of(spot)).or_default() += count;
            }
            let samples = counts.values().sum();
            let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
            counts.sort_by_key(|&(name, count)| (std::cmp::Reverse(count), name));
            counts.truncate(MAX_FUNCTIONS);
            let time = |(name, count): (&str, u64)| FunctionTime {
                name: name.to_owned(),
                file: KERNEL.to_owned(),
                share: count as f64 * per_sample,
                is_polling: None,
            };
            let functions = counts.into_iter().map(time).collect();
            CpuProfile { cpu: cpu.cpu, samples, functions }
        };
        self.cpus.iter_mut().map(profile).collect()
    }
}
