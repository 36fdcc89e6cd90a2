// SPDX-License-Identifier: MIT OR Apache-2.0
//! Separates work from polling for each thread, based on samples and packets from the same slices.

use super::meter::{Meter, Metered};
use super::stacks::{NOT_SAMPLED, Resolved, ThreadSamples};
use crate::sampler::names::{FunctionName, KERNEL};
use crate::sampler::polling::{CannotTell, Place, Separated, Slice, separate};
use linerate_record::stats::{Estimate, share_interval};
use linerate_record::{Figure, Tier};
use std::collections::BTreeMap;

/// Results, indexed by thread number.
pub(super) struct Polling {
    threads: Vec<Thread>,
    places: Vec<Place>,
    /// Share of the CPU time taken by sampling itself, which produces no samples.
    overhead: f64,
    /// Function to which unsampled time is attributed.
    unsampled: Option<u32>,
}

struct Thread {
    /// The result, or why there is none.
    separated: Result<Separated, String>,
    slices: Vec<Slice>,
    /// CPU time divided by wall time.
    running: f64,
}

/// Time not covered by a thread's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Nothing,
    /// The thread's kernel time. The number of missing samples follows from its CPU time.
    Kernel,
    /// The thread's kernel time, of unknown amount because cycles are not a measure of time.
    Unknown,
}

/// A thread's busy share, CPU time per packet, and capacity.
pub(super) struct ThreadFigures {
    pub(super) busy: Figure,
    pub(super) ns_per_packet: Figure,
    pub(super) capacity: Figure,
}

const METHOD: &str = "linear fit of samples per slice against packets per slice";
/// Reason if all packet counts are unusable.
const LATE: &str =
    "samples were read too long after packets were counted: linerate was not scheduled in time";
const SEED: u64 = 0x706f_6c6c;

impl Polling {
    pub(super) fn new(resolved: &Resolved, meter: &Meter, missing: Missing, overhead: f64) -> Self {
        let mut polling = Self { overhead, ..Self::of_places(resolved) };
        let of = |(number, thread): (u32, &ThreadSamples)| {
            let Some(metered) = meter.of_thread(thread.tid).filter(|_| meter.has_packets()) else {
                let why = match meter.has_packets() {
                    true => CannotTell::NoCpuTime,
                    false => CannotTell::NoPacketCounter,
                };
                let separated = Err(why.to_string());
                return Thread { separated, slices: Vec::new(), running: 0.0 };
            };
            let slices = polling.slices(resolved, number, &metered, missing);
            let seed = SEED ^ u64::from(number);
            let separated = match (missing, meter.is_always_late()) {
                (Missing::Unknown, _) => Err(CannotTell::KernelNotSampled.to_string()),
                (_, true) => Err(LATE.to_owned()),
                _ => separate(&slices, &polling.places, metered.asleep, seed)
                    .map_err(|why| why.to_string()),
            };
            Thread { separated, slices, running: metered.running }
        };
        let threads = (0..).zip(&resolved.threads).map(of).collect();
        polling.threads = threads;
        polling
    }

    fn of_places(resolved: &Resolved) -> Self {
        let names = &resolved.names;
        let is_it = |one: &FunctionName| one.name == NOT_SAMPLED && one.file == KERNEL;
        let unsampled = names.functions.iter().position(is_it).map(|number| number as u32);
        // Unsampled kernel time gets its own place.
        let mut places = names.places.clone();
        let function = unsampled.unwrap_or(names.functions.len() as u32);
        places.push(Place { function, is_kernel: true });
        Self { threads: Vec::new(), places, overhead: 0.0, unsampled }
    }

    fn slices(
        &self,
        resolved: &Resolved,
        thread: u32,
        metered: &Metered,
        missing: Missing,
    ) -> Vec<Slice> {
        let unsampled = self.places.len() as u32 - 1;
        let slice = |(at, &(run_ns, packets)): (usize, &(u64, Option<u64>))| {
            let mut counts = BTreeMap::<u32, u32>::new();
            let at = metered.first + at;
            let of_slice = resolved.of_threads.get(at).into_iter().flatten();
            for (&(_, spot), &samples) in of_slice.filter(|((of, _), _)| *of == thread) {
                let place = resolved.names.of_spots[spot as usize];
                *counts.entry(place).or_default() += samples as u32;
            }
            let period_ns = resolved.periods_ns.get(at).filter(|_| missing == Missing::Kernel);
            if let Some(&period_ns) = period_ns {
                let due = (run_ns as f64 / period_ns.max(1) as f64).round() as u32;
                counts.insert(unsampled, due.saturating_sub(counts.values().sum()));
            }
            let run_ns = (run_ns as f64 * (1.0 - self.overhead)) as u64;
            Slice { run_ns, packets, counts: counts.into_iter().collect() }
        };
        metered.slices.iter().enumerate().map(slice).collect()
    }

    pub(super) fn figures(&self, thread: u32) -> ThreadFigures {
        let Thread { separated, running, .. } = &self.threads[thread as usize];
        let figure = |unit: &str, of: &dyn Fn(&Separated) -> Estimate| match separated {
            Ok(found) => Figure::number(unit, of(found), Tier::Sw, METHOD),
            Err(why) => Figure::absent(unit, Tier::Sw, METHOD, why),
        };
        let capacity = |found: &Separated| {
            let Estimate { value, low, high, .. } = found.cost_ns;
            let rate = |ns: f64| 1e9 / ns * running;
            Estimate { value: rate(value), low: rate(high), high: rate(low), ..found.cost_ns }
        };
        ThreadFigures {
            busy: figure("ratio", &|found| found.busy),
            ns_per_packet: figure("ns/packet", &|found| found.cost_ns),
            capacity: figure("packets/s", &capacity),
        }
    }

    /// Returns whether work and polling were separated for this thread.
    pub(super) fn is_separated(&self, thread: u32) -> bool {
        self.threads[thread as usize].separated.is_ok()
    }

    /// Returns the CPU time per packet in the functions selected by `is_it`, in nanoseconds, over
    /// threads with a known poll loop; `None` if no such thread ran these functions.
    pub(super) fn work_ns(&self, is_it: impl Fn(u32) -> bool) -> Option<Estimate> {
        let of_thread = |(number, thread): (u64, &Thread)| {
            let separated = thread.separated.as_ref().ok()?;
            let samples = self.samples(thread, &is_it);
            let found = separated.work_ns(&thread.slices, &self.places, &is_it, SEED ^ number);
            found.or_else(|| (samples > 0).then(|| few(thread, separated, samples)))
        };
        (0..).zip(&self.threads).filter_map(of_thread).reduce(Estimate::plus_independent)
    }

    fn samples(&self, thread: &Thread, is_it: impl Fn(u32) -> bool) -> u64 {
        let counts = thread.slices.iter().flat_map(|slice| &slice.counts);
        let of_them = counts.filter(|(place, _)| is_it(self.places[*place as usize].function));
        of_them.map(|&(_, count)| u64::from(count)).sum()
    }

    /// Returns the number of samples missing for the kernel time of threads with a known poll loop;
    /// 0 unless `is_it` selects the function to which this time is attributed.
    pub(super) fn unsampled(&self, is_it: impl Fn(u32) -> bool) -> u64 {
        let Some(unsampled) = self.unsampled.filter(|&function| is_it(function)) else { return 0 };
        let separated = self.threads.iter().filter(|thread| thread.separated.is_ok());
        separated.map(|thread| self.samples(thread, |function| function == unsampled)).sum()
    }

    /// Returns whether a function belongs to a poll loop; `None` if unknown.
    pub(super) fn is_polling(&self, function: u32) -> Option<bool> {
        let separated = self.threads.iter().filter_map(|thread| thread.separated.as_ref().ok());
        let mut known = separated.filter_map(|one| one.is_polling.get(&function).copied());
        let first = known.next()?;
        Some(first || known.any(|is_polling| is_polling))
    }
}

/// Estimates the per-packet cost of functions with too few samples for a fit. The interval covers
/// every case, from none of their time being work to all of it.
fn few(thread: &Thread, separated: &Separated, samples: u64) -> Estimate {
    let counts = thread.slices.iter().flat_map(|slice| &slice.counts);
    let all: u64 = counts.map(|&(_, count)| u64::from(count)).sum();
    let (hits, all) = ([samples as f64], [all as f64]);
    // CPU time per packet, including its share of the poll loop.
    let ns = separated.cost_ns.value / separated.busy.value.max(f64::MIN_POSITIVE);
    let share = share_interval(&hits, &all, SEED).scale(ns);
    Estimate { value: share.value * separated.busy.value, low: 0.0, ..share }
}
