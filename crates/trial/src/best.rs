// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes the fastest of several clean windows, because interference can only slow the work down.
//!
//! Use this for work with a single true duration that is not compared with other work. For
//! comparisons, use [`rounds`](mod@crate::rounds).

use crate::clean::{Timed, time};
use crate::clock::Clock;

/// How long a window lasts, and when to stop measuring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Window length in ns: 0.1 to 2 ms.
    pub window_ns: f64,
    /// Number of consecutive windows without improvement after which the search stops.
    pub wanted: u32,
}

/// The fastest window, and totals over all windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// Time per unit of work in the fastest window, in ns.
    pub ns: f64,
    /// Units of work done in all kept windows together.
    pub work: u64,
    /// Total duration of all kept windows, in ns.
    pub total_ns: f64,
    /// Number of windows kept because they were clean.
    pub windows: u32,
    /// Number of windows dropped because they were not clean.
    pub dropped: u32,
}

/// Maximum number of kept windows, as a multiple of [`Plan::wanted`]. The search then ends, even if
/// the times are still improving.
const MOST_KEPT: u32 = 4;

/// Maximum number of dropped windows while fewer than two are kept, as a multiple of
/// [`Plan::wanted`]. Once two are kept, the maximum is [`Plan::wanted`] itself, because each
/// dropped window costs a few ms: a time slice of the thread that preempted it.
const MOST_DROPPED: u32 = 4;

/// Units of work in the short trial runs that determine the number of units per window.
const PROBE: u64 = 128;

/// Minimum time per unit of work, in ns: about 1 % of the time that a core takes to copy a byte.
/// Keeps windows finite if the clock is stopped.
const SHORTEST_PIECE_NS: f64 = 1e-4;

/// Measures `work` in windows until `plan.wanted` consecutive ones have not improved on the fastest
/// by more than 1 %, and returns the fastest; times may improve at first because caches warm up
/// after a preemption. If the thread is preempted often, the search ends after fewer windows, so
/// callers make several passes. `work` does approximately the requested number of units of work and
/// returns the actual number; `after` is called with each window. `is_over` is checked before each
/// window, and ends the search if it returns true. Returns `None` if no window was kept.
///
/// The number of units per window is derived from two short trial runs at first, and from the
/// fastest window later.
pub fn best_of(
    clock: &impl Clock,
    plan: &Plan,
    mut work: impl FnMut(u64) -> u64,
    mut after: impl FnMut(&Timed),
    is_over: impl Fn() -> bool,
) -> Option<Best> {
    let mut best = Best { ns: f64::INFINITY, work: 0, total_ns: 0.0, windows: 0, dropped: 0 };
    let (mut pace, mut in_vain) = (pace(clock, &mut work), 0);
    let has_more = |best: &Best| match best.windows {
        0 | 1 => best.dropped < MOST_DROPPED * plan.wanted,
        kept => kept < MOST_KEPT * plan.wanted && best.dropped < plan.wanted,
    };
    while in_vain < plan.wanted && has_more(&best) && !is_over() {
        let pieces = (plan.window_ns / pace).ceil() as u64;
        let mut done = 0;
        let window = time(clock, || done = work(pieces));
        after(&window);
        let window_ns = window.ticks as f64 * clock.ns_per_tick();
        let ns = window_ns / done.max(1) as f64;
        pace = pace.min(ns).max(SHORTEST_PIECE_NS);
        if window.verdict.is_ok() {
            in_vain = if ns < 0.99 * best.ns { 0 } else { in_vain + 1 };
            best.ns = best.ns.min(ns);
            best.work += done;
            best.total_ns += window_ns;
            best.windows += 1;
        } else {
            best.dropped += 1;
        }
    }
    (best.windows > 0).then_some(best)
}

/// Returns the approximate time per unit of work in ns, taken from the faster of two short trial
/// runs.
fn pace(clock: &impl Clock, work: &mut impl FnMut(u64) -> u64) -> f64 {
    let mut stretch = || {
        let (mut done, start) = (0, clock.ticks());
        done += work(PROBE);
        let ticks = clock.ticks().saturating_sub(start);
        ticks as f64 * clock.ns_per_tick() / done.max(1) as f64
    };
    stretch().min(stretch()).max(SHORTEST_PIECE_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Scripted;
    use std::cell::Cell;

    const PLAN: Plan = Plan { window_ns: 200_000.0, wanted: 20 };

    /// Measures work of 1000 ns per unit, with scripted events in each window.
    fn best(plan: &Plan, clock: &Scripted, besides: impl Fn(u32)) -> Option<Best> {
        let calls = Cell::new(0);
        let work = |pieces| {
            clock.work(1000 * pieces);
            // The first two calls determine the pace.
            if calls.get() >= 2 {
                besides(calls.get() - 2);
            }
            calls.set(calls.get() + 1);
            pieces
        };
        best_of(clock, plan, work, |_| {}, || false)
    }

    #[test]
    fn the_fastest_window_takes_as_long_as_its_work() {
        let clock = Scripted::new().ticking(2);
        let found = best(&PLAN, &clock, |_| {}).expect("windows");
        let expected = Best {
            ns: 1000.0,
            work: 21 * 200,
            total_ns: 21.0 * 200_000.0,
            windows: 21,
            dropped: 0,
        };
        assert_eq!(found, expected);
    }

    /// Caches warm up during the first ten windows. The twenty windows without improvement are
    /// counted from there.
    #[test]
    fn a_window_that_is_faster_begins_the_count_again() {
        let clock = Scripted::new();
        clock.slow_down(2.0);
        let found =
            best(&PLAN, &clock, |window| clock.slow_down(2.0 - f64::from(window.min(10)) / 10.0));
        let found = found.expect("windows");
        assert_eq!((found.ns, found.windows), (1000.0, 11 + 21));
    }

    #[test]
    fn disturbed_windows_are_dropped_and_bounded() {
        let clock = Scripted::new();
        let each_third = best(&PLAN, &clock, |window| {
            if window % 3 == 0 {
                clock.preempt(1_000_000);
            }
        });
        let each_third = each_third.expect("windows");
        assert_eq!((each_third.ns, each_third.windows, each_third.dropped), (1000.0, 21, 11));
        assert_eq!(best(&PLAN, &clock, |_| clock.sleep(1_000_000)), None);
        let calls = Cell::new(0);
        let one = best(&PLAN, &clock, |_| {
            calls.set(calls.get() + 1);
            if calls.get() != 30 {
                clock.preempt(1);
            }
        });
        let one = one.expect("one window");
        assert_eq!((one.windows, one.dropped), (1, MOST_DROPPED * PLAN.wanted));
    }

    /// A core that gets faster with each window never settles, but the search must still end.
    #[test]
    fn windows_that_become_faster_and_faster_end_too() {
        let (clock, speed) = (Scripted::new(), Cell::new(1.0));
        let found = best(&PLAN, &clock, |_| {
            speed.set(speed.get() * 0.98);
            clock.slow_down(speed.get());
        });
        assert_eq!(found.map(|best| best.windows), Some(MOST_KEPT * PLAN.wanted));
    }

    #[test]
    fn it_is_over_when_the_caller_says_so() {
        let (clock, windows) = (Scripted::new(), Cell::new(0));
        let work = |pieces| {
            clock.work(pieces);
            pieces
        };
        let count = |_: &Timed| windows.set(windows.get() + 1);
        assert_eq!(best_of(&clock, &PLAN, work, count, || true), None);
        assert_eq!(windows.get(), 0);
        let found = best_of(&clock, &PLAN, work, count, || windows.get() == 3);
        assert_eq!(found.map(|best| best.windows), Some(3));
    }

    /// A stopped clock does not make a window endless.
    #[test]
    fn work_that_takes_no_time_ends() {
        let pieces = Cell::new(0);
        let work = |wanted: u64| {
            pieces.set(wanted);
            wanted
        };
        let found = best_of(&Scripted::new(), &PLAN, work, |_| {}, || false);
        assert_eq!(found.map(|best| best.ns), Some(0.0));
        assert_eq!(pieces.get(), (PLAN.window_ns / SHORTEST_PIECE_NS) as u64);
    }
}
