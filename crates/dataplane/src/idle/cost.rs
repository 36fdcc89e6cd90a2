// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures what one wake-up costs on this machine. By default, `auto` stops polling after this
//! time.

use super::wake::{Sleeper, Slept, Waker};
use linerate_linux as linux;
use linerate_machine::ticks::ticks;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Number of wake-ups to time. Their median is outside the middle half of the distribution in one
/// of 10^4 measurements (binomial). Together, they take some 15 ms.
const WAKE_UPS: usize = 51;

/// Pause before each wake-up, so that the other thread is asleep by then.
const PAUSE: Duration = Duration::from_micros(200);

/// Range of plausible wake-up costs in ns, from the cost of a system call and a context switch to
/// the cost of a wake-up on a machine whose CPUs are busy with other programs.
const PLAUSIBLE_NS: [f64; 2] = [1e3, 1e6];

/// Returns the median time, in ticks, from a wake-up sent on `waker_cpu` to the next poll of the
/// woken thread on `cpu`. This includes the cost on both sides: two system calls and the scheduler.
///
/// # Errors
/// Returns an error if the limit on open files or threads is reached, or if a thread cannot be
/// pinned.
pub(crate) fn wake_up_ticks(
    cpu: u32,
    waker_cpu: u32,
    ticks_per_s: f64,
) -> Result<u64, linux::Error> {
    let waker = Arc::new(Waker::new()?);
    let (sent, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut times = std::thread::scope(|scope| -> Result<_, linux::Error> {
        let mut sleeper = Sleeper::new(&waker, std::iter::empty());
        let (sent, is_over) = (&sent, &is_over);
        let thread = scope.spawn(move || {
            linux::pin_current_thread(cpu)?;
            let mut times = Vec::with_capacity(WAKE_UPS);
            // Relaxed ordering suffices: the flag only requests an exit, and the event orders the
            // accesses to `sent`.
            while !is_over.load(Ordering::Relaxed) {
                let slept = sleeper.sleep(|| false, super::LONGEST);
                let now = ticks();
                if slept == Slept::Woken {
                    times.push(now.saturating_sub(sent.load(Ordering::Relaxed)));
                }
            }
            Ok(times)
        });
        let wakes = scope.spawn(move || {
            let pinned = linux::pin_current_thread(waker_cpu);
            for _ in 0..WAKE_UPS {
                std::thread::sleep(PAUSE);
                sent.store(ticks(), Ordering::Relaxed);
                waker.notify();
            }
            is_over.store(true, Ordering::Relaxed);
            waker.notify();
            pinned
        });
        wakes.join().expect("the waker does not panic")?;
        thread.join().expect("the sleeper does not panic")
    })?;
    times.sort_unstable();
    let plausible = PLAUSIBLE_NS.map(|ns| (ns * ticks_per_s / 1e9) as u64);
    Ok(times.get(times.len() / 2).map_or(plausible[1], |t| (*t).clamp(plausible[0], plausible[1])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_plausible() {
        let cpus = linux::allowed_cpus().unwrap();
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        let ticks_per_s = linerate_machine::ticks::ticks_per_s();
        let ns = wake_up_ticks(first, last, ticks_per_s).unwrap() as f64 * 1e9 / ticks_per_s;
        assert!((PLAUSIBLE_NS[0] * 0.99..=PLAUSIBLE_NS[1]).contains(&ns), "{ns}");
    }
}
