// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how long a waiting worker takes to notice a packet, with each idle policy. For a worker
//! that sleeps, this is the cost of a wake-up, after which `auto` stops polling by default.

use super::wake::{Sleeper, Waker};
use super::{Ladder, Step, wait_slowly};
use linerate_linux as linux;
use linerate_machine::ticks::{ticks, ticks_per_s};
use linerate_path::model::IdlePolicy;
use std::collections::BTreeSet;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Number of wake-ups to time before a run. Their median is outside the middle half of the
/// distribution in one of 10^4 measurements (binomial). Together, they take some 15 ms.
const WAKE_UPS: usize = 51;

/// Pause before each push, so that a worker that may sleep is asleep by then.
const PAUSE: Duration = Duration::from_micros(200);

/// Range of plausible wake-up costs in ns, from the cost of a system call and a context switch to
/// the cost of a wake-up on a machine whose CPUs are busy with other programs.
const PLAUSIBLE_NS: [f64; 2] = [1e3, 1e6];

/// Times from a push on one CPU to the next poll of a waiting thread on another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Responses {
    /// The times in ns, in the order in which they were measured. Each includes the cost on both
    /// sides: for a thread asleep, two system calls and the scheduler.
    pub ns: Vec<f64>,
    /// Number of pushes left out because one of the two threads was preempted during the push or
    /// the wait. A thread that waits for its CPU after a wake-up does not count as preempted.
    pub preempted: u64,
}

impl Responses {
    /// Returns the time in ns within which this fraction of the responses came; `None` without
    /// responses.
    pub fn quantile_ns(&self, fraction: f64) -> Option<f64> {
        linerate_record::stats::quantile(&self.ns, fraction)
    }
}

/// Measures, `pushes` times, how long a thread on `cpu` that waits with `policy` takes to notice a
/// push on `waker_cpu`. The pauses between the pushes are longer than a wake-up, so `park` and
/// `auto` are asleep; `auto` sleeps after `park_after_ns`. Takes about 0.3 ms per push.
///
/// # Errors
/// Returns an error if the limit on open files or threads is reached, or if a thread cannot be
/// pinned.
pub fn responses(
    policy: IdlePolicy,
    park_after_ns: f64,
    [cpu, waker_cpu]: [u32; 2],
    pushes: usize,
) -> Result<Responses, linux::Error> {
    let waker = Arc::new(Waker::new()?);
    let exchange = Exchange::default();
    let per_ns = ticks_per_s() / 1e9;
    let (took, disturbed) = std::thread::scope(|scope| -> Result<_, linux::Error> {
        let ladder = Ladder {
            park_after: (park_after_ns * per_ns) as u64,
            ..Ladder::new(policy, cpu == waker_cpu)
        };
        let sleeper = Sleeper::new(&waker, std::iter::empty());
        let (exchange, waker) = (&exchange, &waker);
        let waits = scope.spawn(move || {
            let took = linux::pin_current_thread(cpu).map(|()| exchange.wait(ladder, sleeper));
            // Without this thread, the other one must not wait for answers.
            exchange.is_over.store(true, Ordering::Release);
            took
        });
        let pushes = scope.spawn(move || {
            let pinned = linux::pin_current_thread(waker_cpu);
            let disturbed = exchange.push(waker, pushes);
            pinned.map(|()| disturbed)
        });
        let disturbed = pushes.join().expect("the pushing thread does not panic")?;
        Ok((waits.join().expect("the waiting thread does not panic")?, disturbed))
    })?;
    let total = took.len();
    let kept = took.into_iter().filter(|(sent, took)| took.is_some() && !disturbed.contains(sent));
    let ns: Vec<f64> = kept.filter_map(|(_, took)| Some(took? as f64 / per_ns)).collect();
    Ok(Responses { preempted: (total - ns.len()) as u64, ns })
}

/// A ring for one packet, which is the time at which it was pushed.
#[derive(Default)]
struct Exchange {
    /// Time of the last push, in ticks; 0 before the first.
    sent: AtomicU64,
    /// Time of the last push that was noticed, in ticks; 0 before the first.
    seen: AtomicU64,
    is_over: AtomicBool,
}

impl Exchange {
    /// Waits for pushes until the exchange is over. Returns the time of each push and how long it
    /// took to notice it, in ticks; `None` if the thread was preempted meanwhile.
    fn wait(&self, mut ladder: Ladder, mut sleeper: Sleeper) -> Vec<(u64, Option<u64>)> {
        let (mut all, mut seen) = (Vec::new(), 0);
        let mut switches = linux::involuntary_switches();
        loop {
            let sent = self.sent.load(Ordering::Acquire);
            if sent != seen {
                let took = ticks().saturating_sub(sent);
                let before = std::mem::replace(&mut switches, linux::involuntary_switches());
                all.push((sent, (switches == before).then_some(took)));
                seen = sent;
                self.seen.store(sent, Ordering::Release);
                ladder.reset();
                continue;
            }
            if self.is_over.load(Ordering::Acquire) {
                return all;
            }
            match ladder.next(ticks) {
                Step::Spin => {}
                Step::Pause => spin_loop(),
                Step::Slow(step) => wait_slowly(step),
                Step::Park => {
                    let is_ready = || {
                        self.sent.load(Ordering::Acquire) != seen
                            || self.is_over.load(Ordering::Acquire)
                    };
                    sleeper.sleep(is_ready, super::LONGEST);
                }
            }
        }
    }

    /// Pushes `pushes` times, each time after the previous push was noticed, and then ends the
    /// exchange. Returns the times, in ticks, of the pushes during which the thread was preempted.
    fn push(&self, waker: &Waker, pushes: usize) -> BTreeSet<u64> {
        let mut disturbed = BTreeSet::new();
        for _ in 0..pushes {
            std::thread::sleep(PAUSE);
            let switches = linux::involuntary_switches();
            let now = ticks();
            self.sent.store(now, Ordering::Release);
            waker.notify();
            if linux::involuntary_switches() != switches {
                disturbed.insert(now);
            }
            while self.seen.load(Ordering::Acquire) != now && !self.is_over.load(Ordering::Acquire)
            {
                std::thread::sleep(PAUSE / 10);
            }
        }
        self.is_over.store(true, Ordering::Release);
        waker.notify();
        disturbed
    }
}

/// Returns the median time, in ticks, from a wake-up sent on `waker_cpu` to the next poll of the
/// woken thread on `cpu`.
///
/// # Errors
/// Returns an error in the same cases as [`responses`].
pub(crate) fn wake_up_ticks(
    cpu: u32,
    waker_cpu: u32,
    ticks_per_s: f64,
) -> Result<u64, linux::Error> {
    let all = responses(IdlePolicy::Park, 0.0, [cpu, waker_cpu], WAKE_UPS)?;
    let [least, most] = PLAUSIBLE_NS;
    let ns = all.quantile_ns(0.5).map_or(most, |ns| ns.clamp(least, most));
    Ok((ns * ticks_per_s / 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_cpus() -> [u32; 2] {
        let cpus = linux::allowed_cpus().unwrap();
        [cpus[0], cpus[cpus.len() - 1]]
    }

    #[test]
    fn the_cost_is_plausible() {
        let [first, last] = two_cpus();
        let ticks_per_s = ticks_per_s();
        let ns = wake_up_ticks(first, last, ticks_per_s).unwrap() as f64 * 1e9 / ticks_per_s;
        assert!((PLAUSIBLE_NS[0] * 0.99..=PLAUSIBLE_NS[1]).contains(&ns), "{ns}");
    }

    /// A push that is noticed late must not be timed from the push after it.
    #[test]
    fn every_push_is_answered_once_with_every_policy() {
        for policy in IdlePolicy::ALL {
            let all = responses(policy, 20e3, two_cpus(), 20).unwrap();
            assert_eq!(all.ns.len() as u64 + all.preempted, 20, "{policy:?}");
            assert!(all.ns.iter().all(|ns| *ns > 0.0), "{policy:?}: {all:?}");
        }
    }

    /// If both threads share a CPU, the waiting thread must give it up.
    #[test]
    fn one_cpu_is_enough() {
        let [cpu, _] = two_cpus();
        let all = responses(IdlePolicy::Park, 0.0, [cpu, cpu], 5).unwrap();
        assert_eq!(all.ns.len() as u64 + all.preempted, 5);
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_an_error_and_not_an_endless_wait() {
        let [cpu, _] = two_cpus();
        assert!(responses(IdlePolicy::Park, 0.0, [4_000, cpu], 5).is_err());
        assert!(responses(IdlePolicy::Park, 0.0, [cpu, 4_000], 5).is_err());
    }
}
