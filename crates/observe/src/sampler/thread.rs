// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sampled thread.
//!
//! A thread's own event costs little while the thread stays on its CPU. At each context switch,
//! however, the kernel stops and restarts the event's timer, which takes about 30 us in a virtual
//! machine: nginx, with 4,000 switches per second, loses 10 % or more of its throughput. The
//! method is therefore chosen by how many times the thread was switched in during a slice of the
//! observation:
//!
//! ```text
//! up to SWITCHES times                the thread's own event
//! more often, with per-CPU events     the samples of this thread from the per-CPU events, for the
//!                                     rest of the observation
//! more often, without per-CPU events  the thread's own event, in some of the slices (see `Duty`)
//! ```

use super::accesses::{self, Access, Decoder};
use super::names::{self, KERNEL, Spots};
use super::polling::{self, CannotTell, Separated, Slice};
use super::profile::{self, ThreadProfile};
use super::{Extent, ThreadId};
use crate::duty::Duty;
use crate::procfs::task::SchedStat;
use linerate_linux::monotonic_ns;
use linerate_linux::perf::Event;
use linerate_linux::sample::{Record, Ring, Sample};
use std::collections::HashMap;

/// Maximum number of accesses to keep per thread.
const MAX_ACCESSES: usize = 20_000;
/// Maximum number of times per [`SLICE_NS`] that the scheduler may switch to a thread that is
/// sampled by its own event in every slice. This is 500 times per second, which costs 1.5 % of the
/// thread's time.
const SWITCHES: u64 = 50;
const SLICE_NS: u128 = 100_000_000;

/// A sampled thread.
#[derive(Debug)]
pub(super) struct Sampled {
    pub(super) id: ThreadId,
    event: Event,
    /// Ring of the thread's own event; `None` only while it is being read.
    ring: Option<Ring>,
    duty: Duty,
    /// Whether samples come from per-CPU events rather than the thread's own event.
    is_by_cpu: bool,
    /// Scheduler statistics at the end of the last slice, and the time of that reading.
    sched: Option<SchedStat>,
    ended_ns: u64,
    /// CPU time counted by the thread's own event up to the end of the last slice.
    run_ns: u64,
    /// Number of samples in the current slice, by code location.
    counts: HashMap<u32, u32>,
    /// Number of samples taken.
    pub(super) samples: u64,
    /// Number of samples lost.
    pub(super) lost: u64,
    /// Number of samples added for CPU time that could not be sampled.
    unsampled: u64,
    /// First slice in which the thread was observed.
    pub(super) first: usize,
    /// Slices of the window, with counts by code location.
    pub(super) slices: Vec<Slice>,
    /// Last slices of earlier windows, with counts by code block.
    pub(super) history: Vec<Slice>,
    pub(super) separated: Option<Result<Separated, CannotTell>>,
    has_registers: bool,
    /// Number of samples that hit a cipher or hash instruction.
    ciphers: u64,
    pub(super) accesses: Vec<Access>,
}

impl Sampled {
    /// Creates a thread that is observed from slice `first` on, with its event and the event's
    /// ring.
    pub(super) fn new(
        id: ThreadId,
        (event, ring): (Event, Ring),
        has_registers: bool,
        first: usize,
    ) -> Self {
        let ended_ns = monotonic_ns();
        Self {
            id,
            event,
            ring: Some(ring),
            duty: Duty::new(SWITCHES, ended_ns),
            is_by_cpu: false,
            sched: None,
            ended_ns,
            run_ns: 0,
            counts: HashMap::new(),
            samples: 0,
            lost: 0,
            unsampled: 0,
            first,
            slices: Vec::new(),
            history: Vec::new(),
            separated: None,
            has_registers,
            ciphers: 0,
            accesses: Vec::new(),
        }
    }

    fn cipher_instructions(&self) -> Option<f64> {
        (self.has_registers && self.samples > 0).then(|| self.ciphers as f64 / self.samples as f64)
    }

    /// Adds the slices of the window to the history.
    pub(super) fn end_window(
        &mut self,
        packets: &[Option<u64>],
        names: &names::Names,
        extent: Extent,
    ) {
        for (number, mut slice) in std::mem::take(&mut self.slices).into_iter().enumerate() {
            slice.counts = by_place(&slice.counts, &names.of_spots);
            slice.packets = packets.get(self.first + number).copied().flatten();
            self.history.push(slice);
        }
        let old = self.history.len().saturating_sub(extent.history.max(extent.recent));
        self.history.drain(..old);
    }

    /// Returns the profile of the window, which consists of the last `window` slices of the
    /// history.
    pub(super) fn profile(
        &mut self,
        (id, asleep): (ThreadId, f64),
        names: &names::Names,
        (extent, window): (Extent, usize),
        is_due: bool,
    ) -> ThreadProfile {
        let last = |slices: usize| &self.history[self.history.len().saturating_sub(slices)..];
        let (history, window) = (last(extent.history), last(window));
        let recent = recent(&self.history, extent.recent);
        let seed = profile::SEED ^ u64::from(id.tid);
        let separated = match (&self.separated, asleep > polling::MAX_ASLEEP) {
            (_, true) => Err(CannotTell::Sleeps(asleep)),
            (Some(known), false) if !is_due => known.clone(),
            _ => polling::separate(history, &names.places, asleep, seed),
        };
        let busy = match (&separated, history.len() == window.len()) {
            (Ok(separated), false) => separated.busy_over(window),
            (separated, _) => separated.as_ref().map(|separated| separated.busy).map_err(|e| *e),
        };
        let profile = ThreadProfile {
            memory: accesses::memory_use(&self.accesses, self.samples),
            cipher_instructions: self.cipher_instructions(),
            ..profile::profile(id, &recent, names, (&separated, busy))
        };
        if asleep <= polling::MAX_ASLEEP {
            self.separated = Some(separated);
        }
        self.accesses.clear();
        profile
    }

    /// Counts a sample in this thread.
    pub(super) fn take(&mut self, sample: &Sample<'_>, known: (&mut Spots, &mut Decoder)) {
        let (spots, decoder) = known;
        let pid = self.id.pid;
        self.samples += 1;
        let spot = spots.spot(pid, sample.ip, sample.is_kernel);
        *self.counts.entry(spot).or_default() += 1;
        let Some(registers) = sample.registers.as_ref() else { return };
        if self.has_registers && !sample.is_kernel {
            let room = MAX_ACCESSES.saturating_sub(self.accesses.len());
            let found = decoder.accesses(spots, pid, (sample.ip, registers), spot);
            self.accesses.extend(found.take(room));
            self.ciphers += u64::from(decoder.is_cipher(pid, sample.ip));
        }
    }

    /// Ends a slice: reads the samples of the thread's own event.
    pub(super) fn end_slice(
        &mut self,
        known: (&mut Spots, &mut Decoder),
        has_kernel: bool,
        period_ns: u64,
        sched: Option<SchedStat>,
    ) {
        let (spots, decoder) = known;
        let run_ns = self.event.read().map_or(self.run_ns, |reading| reading.values()[0]);
        let mut ring = self.ring.take();
        ring.iter_mut().for_each(|ring| {
            ring.drain(|record| match record {
                Record::Sample(sample) => self.take(&sample, (&mut *spots, &mut *decoder)),
                Record::Lost(records) => self.lost += records,
                Record::Throttled | Record::Process(_) | Record::Other(_) => {}
            })
        });
        self.ring = ring;
        if !has_kernel {
            let due = run_ns / period_ns;
            let missing = due.saturating_sub(self.samples + self.lost + self.unsampled);
            self.unsampled += missing;
            if missing > 0 {
                self.counts.insert(spots.named("[not in user mode]", KERNEL), missing as u32);
            }
        }
        // The thread's own event counts time only while it is enabled.
        let was_off = self.is_by_cpu || !self.duty.is_on();
        let of_scheduler = sched.zip(self.sched).filter(|_| was_off);
        let run_ns_of_slice = match of_scheduler {
            Some((now, last)) => now.run_ns.saturating_sub(last.run_ns),
            None => run_ns.saturating_sub(self.run_ns),
        };
        self.run_ns = run_ns;
        let counts = sorted(std::mem::take(&mut self.counts));
        self.slices.push(Slice { run_ns: run_ns_of_slice, packets: None, counts });
    }

    /// Returns whether samples come from per-CPU events rather than the thread's own event.
    pub(super) fn is_by_cpu(&self) -> bool {
        self.is_by_cpu
    }

    /// Chooses how the next slice is sampled. `has_cpus` states whether CPUs are sampled.
    pub(super) fn choose(&mut self, sched: Option<SchedStat>, has_cpus: bool, now_ns: u64) {
        let slice_ns = now_ns.saturating_sub(self.ended_ns).max(1);
        let times =
            sched.zip(self.sched).map_or(0, |(now, last)| now.times.saturating_sub(last.times));
        self.sched = sched;
        self.ended_ns = now_ns;
        if self.is_by_cpu {
            return;
        }
        let per_slice = (u128::from(times) * SLICE_NS / u128::from(slice_ns)) as u64;
        let was_on = self.duty.is_on();
        if has_cpus && per_slice > SWITCHES {
            self.is_by_cpu = true;
        } else {
            self.duty.end_slice(per_slice, now_ns);
        }
        let is_on = self.duty.is_on() && !self.is_by_cpu;
        // Enabling or disabling the event fails if the thread has ended.
        let _ = match (was_on, is_on) {
            (true, false) => self.event.disable(),
            (false, true) => self.event.enable(),
            _ => Ok(()),
        };
    }
}

/// Returns the last `slices` slices in which a thread was sampled or hardly ran, latest first.
fn recent(history: &[Slice], slices: usize) -> Vec<&Slice> {
    /// Minimum CPU time, in ns, of a slice that is certain to have samples if the thread's event
    /// was on.
    const SAMPLED_NS: u64 = 30_000_000;
    let was_on = |slice: &&Slice| !slice.counts.is_empty() || slice.run_ns < SAMPLED_NS;
    history.iter().rev().filter(was_on).take(slices).collect()
}

/// Converts counts by code location to counts by code block.
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

#[cfg(test)]
mod tests;
