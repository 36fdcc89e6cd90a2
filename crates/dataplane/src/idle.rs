// SPDX-License-Identifier: MIT OR Apache-2.0
//! Idle policies, which determine what a worker does while it has no packets: poll, poll slowly, or
//! sleep.
//!
//! ```text
//! empty polls   0 ...        PAUSES ...            break-even ...
//! spin          poll ------------------------------------------->
//! pause         poll, with a pause instruction ----------------->
//! slow          pause ------ wait up to 1 us ------------------->
//! park          pause ------ sleep until packets arrive -------->
//! auto          pause ------ wait up to 1 us ----- sleep ------->
//! ```
//!
//! **Break-even.** Polling through an idle time `t` costs `t`. Sleeping costs `c`, the cost of one
//! wake-up, however long the sleep lasts. If `t` were known in advance, the cost could be as low as
//! `min(t, c)`. `auto` polls for `c` and then sleeps. This costs `t` if `t < c`, and `c + c`
//! otherwise, so at most twice that minimum. No rule that does not know `t` can guarantee less. If
//! a rule sleeps after `x`, and the idle time ends right then, it costs `x + c`: `1 + x / c` times
//! the minimum if `x >= c`, and `1 + c / x` times if `x < c`; both are 2 or more. This is the
//! ski-rental problem, applied to spinning and blocking in Karlin, Li, Manasse, Owicki, "Empirical
//! studies of competitive spinning for a shared-memory multiprocessor", SOSP 1991. `c` is measured
//! before the run ([`cost`]).
//!
//! A worker sleeps only if something will wake it: a push to one of its input rings, a frame on one
//! of its interfaces, the due time of a paced source's next packet, or the end of the run. A worker
//! that waits for buffers or for room in a ring keeps polling, because its neighbour is active.

pub(crate) mod cost;
mod slow;
pub(crate) mod wake;

use linerate_path::model::IdlePolicy;
pub(crate) use slow::wait_slowly;
use std::time::Duration;
use wake::Sleeper;

/// Number of consecutive empty polls after which a worker may poll slowly or sleep. With one pause
/// instruction per poll, they take a few microseconds, about as long as processing a burst of 32
/// packets. On a busy path, packets arrive within that time.
const PAUSES: u32 = 64;

/// Maximum duration of a worker's sleep. After a time-out, the worker checks for events that do not
/// wake it: a state change of an interface, or the packet limit being reached by another worker.
/// Ten wake-ups per second take about 0.01 % of a CPU.
pub(crate) const LONGEST: Duration = Duration::from_millis(100);

/// What a worker does after an empty poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Poll again.
    Spin,
    /// Execute a pause instruction.
    Pause,
    /// Wait up to a microsecond. The value counts the empty polls since slow polling began, from 0.
    Slow(u32),
    /// Sleep.
    Park,
}

/// Decides what a worker does after each empty poll: the longer it has been idle, the more readily
/// it gives up the CPU.
#[derive(Debug)]
pub(crate) struct Ladder {
    policy: IdlePolicy,
    /// Idle time after which a worker with the policy `auto` sleeps, in ticks.
    pub(crate) park_after: u64,
    /// Number of empty polls with a pause instruction before slow polling or sleep.
    pauses: u32,
    polls: u32,
    since: u64,
}

impl Ladder {
    /// Creates the ladder of an idle policy. With `yields`, the worker shares its CPU and yields
    /// after each empty poll. As a yield may last for another thread's whole time slice, the worker
    /// may then poll slowly or sleep after a single empty poll.
    pub(crate) fn new(policy: IdlePolicy, yields: bool) -> Self {
        let pauses = if yields { 1 } else { PAUSES };
        Self { policy, park_after: u64::MAX, pauses, polls: 0, since: 0 }
    }

    /// Returns to the first step of the ladder, because packets have arrived.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.polls = 0;
    }

    /// Returns what to do after an empty poll. `now` reads the clock, in ticks.
    #[inline]
    pub(crate) fn next(&mut self, now: impl Fn() -> u64) -> Step {
        match self.policy {
            IdlePolicy::Spin => return Step::Spin,
            IdlePolicy::Pause => return Step::Pause,
            _ => {}
        }
        let polls = self.polls;
        self.polls = polls.saturating_add(1);
        let is_auto = self.policy == IdlePolicy::Auto;
        if polls == 0 && is_auto {
            self.since = now();
        }
        let over = || now().saturating_sub(self.since) >= self.park_after;
        match self.policy {
            _ if polls < self.pauses => Step::Pause,
            IdlePolicy::Park => Step::Park,
            IdlePolicy::Auto if over() => Step::Park,
            _ => Step::Slow(polls - self.pauses),
        }
    }
}

/// Totals over a worker's sleeps during the measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rested {
    /// Time asleep in ticks, from the decision to sleep until the next poll.
    pub(crate) ticks: u64,
    pub(crate) parks: u64,
    /// Number of sleeps ended by another worker or the kernel rather than by a time-out.
    pub(crate) woken: u64,
}

/// A worker's idle policy and, if it may sleep, what can wake it.
pub(crate) struct Rest {
    pub(crate) policy: IdlePolicy,
    pub(crate) ladder: Ladder,
    pub(crate) sleeper: Option<Sleeper>,
}

impl Rest {
    pub(crate) fn new(policy: IdlePolicy, yields: bool, sleeper: Option<Sleeper>) -> Self {
        Self { policy, ladder: Ladder::new(policy, yields), sleeper }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the idle time, in ticks, after which a worker with this policy sleeps if it polls
    /// once per tick; `None` if it never sleeps.
    fn parks_after(policy: IdlePolicy, park_after: u64) -> Option<u64> {
        let mut ladder = Ladder { park_after, ..Ladder::new(policy, false) };
        (0..10_000).find(|&now| ladder.next(|| now) == Step::Park)
    }

    #[test]
    fn each_policy_climbs_to_its_own_step() {
        let last = |policy| {
            let mut ladder = Ladder { park_after: 1_000, ..Ladder::new(policy, false) };
            (0..2_000).map(|now| ladder.next(|| now)).last()
        };
        assert_eq!(last(IdlePolicy::Spin), Some(Step::Spin));
        assert_eq!(last(IdlePolicy::Pause), Some(Step::Pause));
        assert_eq!(last(IdlePolicy::Slow), Some(Step::Slow(1_999 - PAUSES)));
        assert_eq!(last(IdlePolicy::Park), Some(Step::Park));
        assert_eq!(last(IdlePolicy::Auto), Some(Step::Park));
    }

    #[test]
    fn a_worker_that_yields_parks_after_one_yield() {
        let mut ladder = Ladder::new(IdlePolicy::Park, true);
        assert_eq!([ladder.next(|| 0), ladder.next(|| 0)], [Step::Pause, Step::Park]);
    }

    #[test]
    fn packets_reset_the_ladder() {
        let mut ladder = Ladder { park_after: 100, ..Ladder::new(IdlePolicy::Auto, false) };
        assert!((0..100).all(|now| ladder.next(|| now) != Step::Park));
        assert_eq!(ladder.next(|| 100), Step::Park);
        assert_eq!(ladder.next(|| 300), Step::Park, "a sleep that timed out is resumed");
        ladder.reset();
        assert_eq!(ladder.next(|| 400), Step::Pause);
        assert!((401..500).all(|now| ladder.next(|| now) != Step::Park));
        assert_eq!(ladder.next(|| 500), Step::Park);
    }

    #[test]
    fn parking_at_break_even_costs_at_most_twice_the_minimum() {
        let cost = 500;
        assert_eq!(parks_after(IdlePolicy::Park, cost), Some(PAUSES.into()));
        assert_eq!(parks_after(IdlePolicy::Pause, cost), None);
        // The largest ratio, over all idle times, of the cost of this rule to the lowest cost for a
        // known idle time.
        let worst = |park_after: u64| {
            let paid = |idle: u64| if idle < park_after { idle } else { park_after + cost };
            let ratio = |idle: u64| paid(idle) as f64 / idle.min(cost) as f64;
            (1..5_000).map(ratio).fold(0.0, f64::max)
        };
        let chosen = parks_after(IdlePolicy::Auto, cost).expect("auto parks");
        assert_eq!(chosen, cost);
        assert!(worst(chosen) <= 2.0, "{}", worst(chosen));
        assert!((1..4_000).all(|other| worst(other) >= worst(chosen)));
    }
}
