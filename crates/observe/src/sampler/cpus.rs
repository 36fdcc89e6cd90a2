// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples kernel functions per CPU, in any context: packets are received in softirqs, on the time
//! of any thread. Needs root or CAP_PERFMON.

use super::names::{KERNEL, Names, Spots};
use super::{CPU_CLOCK, CPU_CLOCK_NAME};
use crate::refusal::explain;
use linerate_linux::monotonic_ns;
use linerate_linux::perf::{Event, Request, Target};
use linerate_linux::sample::{self, Fields, Record, Ring, Sampling};
use linerate_record::why::{FunctionTime, Unread};
use std::collections::{BTreeMap, HashMap};

/// Samples per second of each CPU: fewer than for threads, because all CPUs are sampled.
const RATE: u64 = 199;
/// Maximum number of sampled CPUs.
const MAX_CPUS: usize = 64;
/// Maximum number of functions listed.
const MAX_FUNCTIONS: usize = 32;
/// Pages per ring: room for more than a second of samples.
const RING_PAGES: usize = 4;

/// Kernel time of a CPU by function.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuProfile {
    /// Its number.
    pub cpu: u32,
    /// Number of kernel samples.
    pub samples: u64,
    /// Functions, as shares of the window.
    pub functions: Vec<FunctionTime>,
}

/// CPUs whose kernel is sampled.
#[derive(Debug, Default)]
pub(super) struct SampledCpus {
    cpus: Vec<SampledCpu>,
    began_ns: u64,
}

#[derive(Debug)]
struct SampledCpu {
    cpu: u32,
    event: Event,
    ring: Ring,
    counts: HashMap<u32, u64>,
}

impl SampledCpus {
    /// Starts sampling CPUs; if one CPU is refused, all are.
    pub(super) fn open(&mut self, cpus: &[u32]) -> Option<Unread> {
        self.began_ns = monotonic_ns();
        let request = Request { exclude_user: true, disabled: false, ..Request::new(CPU_CLOCK) };
        let fields = Fields::default();
        let sampling = Sampling { period: 1_000_000_000 / RATE, fields, skips_idle: true };
        for &cpu in cpus.iter().take(MAX_CPUS) {
            let target = Target::Cpu(cpu);
            let event = match sample::open(&request, &sampling, target) {
                Ok(event) => event,
                Err(error) => {
                    return Some(explain("cpu_samples", CPU_CLOCK_NAME, request, target, error));
                }
            };
            let Ok(ring) = Ring::map(&event, RING_PAGES, fields) else { continue };
            self.cpus.push(SampledCpu { cpu, event, ring, counts: HashMap::new() });
        }
        None
    }

    pub(super) fn end_slice(&mut self, spots: &mut Spots) {
        for cpu in &mut self.cpus {
            let counts = &mut cpu.counts;
            cpu.ring.drain(|record| {
                if let Record::Sample(sample) = record {
                    *counts.entry(spots.spot(0, sample.ip, true)).or_default() += 1;
                }
            });
        }
    }

    pub(super) fn finish(self, names: &Names) -> Vec<CpuProfile> {
        let window_ns = monotonic_ns().saturating_sub(self.began_ns).max(1);
        let per_sample = 1e9 / RATE as f64 / window_ns as f64;
        let profile = |cpu: SampledCpu| {
            // No sample is taken from now on.
            drop(cpu.event);
            let mut counts = BTreeMap::<&str, u64>::new();
            for (&spot, &count) in &cpu.counts {
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
        self.cpus.into_iter().map(profile).collect()
    }
}
