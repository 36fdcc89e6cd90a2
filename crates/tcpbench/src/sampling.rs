// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples which routine is running, at random times and from a thread on another CPU.
//!
//! ```text
//! while sampling: wait 2 to 12 us, drawn at random; count a sample of the current activity
//! ```
//!
//! The thread waits in a loop, which would slow down a measured thread on the same core. It
//! therefore runs on another core if there is one, and sleeps while no samples are taken.
//!
//! Random times avoid aliasing with the segment period. While the measured thread is preempted, its
//! last activity keeps being counted. The caller therefore reads the counts before and after each
//! slice, and drops slices in which the thread was preempted.

use crate::routines::Activity;
use linerate_linux::{monotonic_ns, pin_current_thread};
use linerate_machine::topology::{Cpu, Topology};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Range in ns from which the time between two samples is drawn.
const WAIT_NS: std::ops::Range<u64> = 2_000..12_000;

/// Number of samples per activity, indexed by the activity's number.
pub(crate) type Counts = [u64; 5];

/// A sampling thread, stopped on drop.
pub(crate) struct Sampler {
    activity: Arc<AtomicU8>,
    counts: Arc<[AtomicU64; 5]>,
    state: Arc<AtomicU8>,
    thread: Option<JoinHandle<()>>,
}

/// State of the sampling thread while it takes no samples.
const ASLEEP: u8 = 0;
const SAMPLING: u8 = 1;
const ENDED: u8 = 2;

/// A period in which samples are taken. It ends when this value is dropped.
pub(crate) struct Sampling<'a>(&'a Sampler);

impl Drop for Sampling<'_> {
    fn drop(&mut self) {
        self.0.enter(ASLEEP);
    }
}

/// Returns the CPU for the sampling thread of a run on the CPU `measured`: the first CPU on another
/// core or, failing that, the first other CPU on the same core. `None` if no other CPU is allowed.
pub(crate) fn sampler_cpu(allowed: &Topology, measured: u32) -> Option<u32> {
    let others = || allowed.cpus.iter().filter(|cpu| cpu.number != measured);
    let is_sibling =
        |cpu: &&Cpu| cpu.siblings.as_ref().is_ok_and(|siblings| siblings.contains(&measured));
    let apart = others().find(|cpu| !is_sibling(cpu));
    apart.or_else(|| others().next()).map(|cpu| cpu.number)
}

impl Sampler {
    /// Starts a thread on this CPU, which must not be the CPU that is measured; `None` if no thread
    /// can be started. The thread sleeps until [`Sampler::sample`].
    pub(crate) fn new(cpu: u32, seed: u64) -> Option<Self> {
        let activity = Arc::new(AtomicU8::new(Activity::Comparing as u8));
        let counts: Arc<[AtomicU64; 5]> = Arc::default();
        let state = Arc::new(AtomicU8::new(ASLEEP));
        let (seen, tally, now) = (Arc::clone(&activity), Arc::clone(&counts), Arc::clone(&state));
        let look = move || {
            // If pinning fails, the sampler may share the run's CPU. Slices that it preempts are
            // dropped.
            let _ = pin_current_thread(cpu);
            let mut random = fastrand::Rng::with_seed(seed);
            loop {
                match now.load(Ordering::Relaxed) {
                    SAMPLING => {}
                    ENDED => return,
                    _ => {
                        std::thread::park();
                        continue;
                    }
                }
                let next = monotonic_ns() + random.u64(WAIT_NS);
                while monotonic_ns() < next {
                    std::hint::spin_loop();
                }
                let what = usize::from(seen.load(Ordering::Relaxed));
                tally[what.min(4)].fetch_add(1, Ordering::Relaxed);
            }
        };
        let thread = std::thread::Builder::new().spawn(look).ok()?;
        Some(Self { activity, counts, state, thread: Some(thread) })
    }

    /// Takes samples until the returned value is dropped.
    pub(crate) fn sample(&self) -> Sampling<'_> {
        self.enter(SAMPLING);
        Sampling(self)
    }

    fn enter(&self, state: u8) {
        self.state.store(state, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            // Returning from `park` makes the new state visible to the thread.
            thread.thread().unpark();
        }
    }

    /// Returns the memory location in which the measured thread stores its current activity.
    pub(crate) fn activity(&self) -> &Arc<AtomicU8> {
        &self.activity
    }

    /// Returns the number of samples per activity so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.enter(ENDED);
        if let Some(thread) = self.thread.take() {
            // The thread panics only in case of a bug.
            thread.join().expect("the sampler thread does not panic");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_what_ran() {
        let sampler = Sampler::new(0, 1).expect("a thread");
        let _sampling = sampler.sample();
        let ran = [Activity::Copy, Activity::Stack];
        for what in ran {
            sampler.activity().store(what as u8, Ordering::Relaxed);
            let before = sampler.counts();
            let seen = |at: usize| sampler.counts()[at] - before[at];
            while seen(what as usize) < 20 {
                std::thread::yield_now();
            }
        }
        let counts = sampler.counts();
        assert_eq!(
            counts[Activity::Checksum as usize] + counts[Activity::CopyChecksum as usize],
            0
        );
    }

    #[test]
    fn nothing_runs_while_no_samples_are_taken() {
        let sampler = Sampler::new(0, 1).expect("a thread");
        let total = || sampler.counts().iter().sum::<u64>();
        let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
        pause();
        assert_eq!(total(), 0);
        let sampling = sampler.sample();
        while total() == 0 {
            std::thread::yield_now();
        }
        drop(sampling);
        pause();
        let then = total();
        pause();
        assert_eq!(total(), then);
    }

    #[test]
    fn samples_are_taken_from_another_core() {
        let absent = || {
            let reason = String::new();
            Err(linerate_machine::Error::File { path: String::new(), reason })
        };
        let cpu = |(number, siblings): &(u32, &[u32])| Cpu {
            number: *number,
            core: Ok(0),
            package: Ok(0),
            siblings: if siblings.is_empty() { absent() } else { Ok(siblings.to_vec()) },
            caches: Ok(Vec::new()),
        };
        let chosen = |cpus: &[(u32, &[u32])], measured| {
            sampler_cpu(&Topology { cpus: cpus.iter().map(cpu).collect() }, measured)
        };
        // Siblings are adjacent.
        let four: [(u32, &[u32]); 4] = [(0, &[0, 1]), (1, &[0, 1]), (2, &[2, 3]), (3, &[2, 3])];
        assert_eq!([0, 1, 2, 3].map(|measured| chosen(&four, measured)), [2, 2, 0, 0].map(Some));
        assert_eq!(chosen(&four[..2], 0), Some(1), "there is only one core");
        assert_eq!(chosen(&four[..1], 0), None);
        // The kernel does not say which CPUs share a core.
        assert_eq!(chosen(&[(0, &[]), (1, &[])], 0), Some(1));
    }
}
