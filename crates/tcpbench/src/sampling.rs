// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples which routine is running, at random times and from a thread on another CPU.
//!
//! ```text
//! until stopped: wait 2 to 12 us, drawn at random; count a sample of the current activity
//! ```
//!
//! Random times avoid aliasing with the segment period. While the measured thread is preempted, its
//! last activity keeps being counted. The caller therefore reads the counts before and after each
//! slice, and drops slices in which the thread was preempted.

use crate::routines::Activity;
use linerate_linux::{monotonic_ns, pin_current_thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Range in ns from which the time between two samples is drawn.
const WAIT_NS: std::ops::Range<u64> = 2_000..12_000;

/// Number of samples per activity, indexed by the activity's number.
pub(crate) type Counts = [u64; 5];

/// A sampling thread, stopped on drop.
pub(crate) struct Sampler {
    activity: Arc<AtomicU8>,
    counts: Arc<[AtomicU64; 5]>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts sampling from a thread on this CPU, which must not be the CPU that is measured;
    /// `None` if no thread can be started.
    pub(crate) fn new(cpu: u32, seed: u64) -> Option<Self> {
        let activity = Arc::new(AtomicU8::new(Activity::Comparing as u8));
        let counts: Arc<[AtomicU64; 5]> = Arc::default();
        let end = Arc::new(AtomicBool::new(false));
        let (seen, tally, stop) = (Arc::clone(&activity), Arc::clone(&counts), Arc::clone(&end));
        let look = move || {
            // If pinning fails, the sampler may share the run's CPU. Slices that it preempts are
            // dropped.
            let _ = pin_current_thread(cpu);
            let mut random = fastrand::Rng::with_seed(seed);
            while !stop.load(Ordering::Relaxed) {
                let next = monotonic_ns() + random.u64(WAIT_NS);
                while monotonic_ns() < next {
                    std::hint::spin_loop();
                }
                let what = usize::from(seen.load(Ordering::Relaxed));
                tally[what.min(4)].fetch_add(1, Ordering::Relaxed);
            }
        };
        let thread = std::thread::Builder::new().spawn(look).ok()?;
        Some(Self { activity, counts, end, thread: Some(thread) })
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
        self.end.store(true, Ordering::Relaxed);
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
}
