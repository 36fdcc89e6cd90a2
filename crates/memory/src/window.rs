// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows: stretches of time so short that most of them are left alone, and the fastest of
//! several.
//!
//! A thread that shares its processor is put aside every few milliseconds. So nothing is timed for
//! longer than 2 ms, a window in which the thread was put aside does not count, and of those that
//! do the fastest does: what disturbs only ever adds.

use crate::Watch;
use linerate_linux::{involuntary_switches, monotonic_ns, thread_cpu_time_ns};
use linerate_machine::ticks::{is_invariant, ticks, ticks_per_second};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Measures in windows, and counts them. One thread's.
pub struct Windows<'a> {
    /// Who watches.
    pub watch: &'a Watch<'a>,
    started: Instant,
    /// The time that all of it is to take.
    total: Duration,
    clock: Clock,
    kept: Cell<u64>,
    dropped: Cell<u64>,
}

/// What windows are timed by: the processor's counter where it runs at one rate, else the kernel's
/// clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Now, in its units.
    pub(crate) now: fn() -> u64,
    /// Nanoseconds of a unit.
    pub(crate) ns_per_unit: f64,
}

impl Clock {
    /// Takes 20 ms the first time in a process, to learn how long a tick is.
    pub(crate) fn of_this_machine() -> Self {
        Self::of(is_invariant())
    }

    fn of(is_invariant: bool) -> Self {
        match is_invariant {
            true => Self { now: ticks, ns_per_unit: 1e9 / ticks_per_second() },
            false => Self { now: monotonic_ns, ns_per_unit: 1.0 },
        }
    }

    /// What `work` takes, in ns.
    fn time(&self, work: impl FnOnce()) -> f64 {
        let start = (self.now)();
        work();
        // Not a plain difference: a thread that was moved may read an earlier counter.
        (self.now)().saturating_sub(start) as f64 * self.ns_per_unit
    }
}

/// GHz of a core that makes `cycles_per_tick` cycles in a tick of the counter; `None` where that
/// does not run at one rate, so that a tick has no length.
pub(crate) fn core_ghz(cycles_per_tick: f64) -> Option<f64> {
    let is_told = is_invariant() && cycles_per_tick > 0.0;
    is_told.then(|| cycles_per_tick * ticks_per_second() / 1e9)
}

/// What to measure until when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Length of a window in ns: 0.1 to 2 ms.
    pub window_ns: f64,
    /// Windows in a row that are to be no faster than the fastest.
    pub wanted: u32,
    /// When to stop, whether there are as many or not.
    pub deadline: Instant,
}

/// The fastest of some windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// ns per piece of work, in the fastest window.
    pub ns: f64,
    /// Pieces of work in all windows that were kept.
    pub work: u64,
    /// The time of these in ns.
    pub total_ns: f64,
    /// Windows that were kept.
    pub windows: u32,
    /// Windows that were dropped.
    pub dropped: u32,
}

/// One window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// How long it took, in ns.
    pub ns: f64,
    /// Whether the thread had its processor all the time.
    pub kept: bool,
}

impl<'a> Windows<'a> {
    /// For a measurement that begins now and is to take `total`. Takes 20 ms the first time in a
    /// process, to learn how long a tick is.
    pub fn new(watch: &'a Watch<'a>, total: Duration) -> Self {
        let (started, clock) = (Instant::now(), Clock::of_this_machine());
        Self { watch, started, total, clock, kept: Cell::new(0), dropped: Cell::new(0) }
    }

    /// What windows are timed by.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Tells whoever watches what is measured now. The share that is done is that of the time.
    pub fn progress(&self, what: &str) {
        let share = self.started.elapsed().as_secs_f64() / self.total.as_secs_f64();
        (self.watch.progress)(what, share.min(1.0));
    }

    /// Whether someone asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.watch.stop.load(Ordering::Relaxed)
    }

    /// What to do for more time: words that end a sentence.
    pub(crate) fn more_time(&self) -> &'static str {
        if self.total >= MOST_TIME { "measure again when nothing else runs" } else { "use --full" }
    }

    /// Counts windows of another thread: those that were kept and that were dropped.
    pub(crate) fn add(&self, (kept, dropped): (u64, u64)) {
        self.kept.set(self.kept.get() + kept);
        self.dropped.set(self.dropped.get() + dropped);
    }

    /// Windows that were kept and that were dropped until now.
    pub fn counts(&self) -> (u64, u64) {
        (self.kept.get(), self.dropped.get())
    }

    /// Times `work` once, whatever its length.
    pub fn time(&self, work: impl FnOnce()) -> Window {
        let (switches, processor) = (involuntary_switches(), thread_cpu_time_ns());
        let ns = self.clock.time(work);
        let processor = (thread_cpu_time_ns() - processor) as f64;
        let kept = switches == involuntary_switches() && processor >= 0.96 * ns;
        let count = if kept { &self.kept } else { &self.dropped };
        count.set(count.get() + 1);
        Window { ns, kept }
    }

    /// The fastest window, once `plan.wanted` others in a row were no faster by more than 1 %:
    /// until then caches may still be filling, after the thread was put aside; fewer where the
    /// thread is put aside often, for there are more passes. `work` does about as many
    /// pieces of work as it is told to, and says how many it did. `None` when no window was kept
    /// until the deadline, or someone asked to stop.
    ///
    /// How many pieces fill a window is learnt from a first short one, which does not count, and
    /// from the fastest one after that.
    pub fn best_of(&self, plan: &Plan, work: impl FnMut(u64) -> u64) -> Option<Best> {
        self.best_beside(plan, work, || {})
    }

    /// As [`best_of`](Self::best_of), with a call of `beside` after each window: for what is to be
    /// known of the same time.
    pub fn best_beside(
        &self,
        plan: &Plan,
        mut work: impl FnMut(u64) -> u64,
        mut beside: impl FnMut(),
    ) -> Option<Best> {
        let mut best = Best { ns: f64::INFINITY, work: 0, total_ns: 0.0, windows: 0, dropped: 0 };
        let (mut pace, mut in_vain) = (self.pace(&mut work), 0);
        let has_more = |best: &Best| match best.windows {
            0 | 1 => best.dropped < MOST_DROPPED * plan.wanted,
            kept => kept < MOST_KEPT * plan.wanted && best.dropped < plan.wanted,
        };
        while in_vain < plan.wanted && has_more(&best) {
            if self.is_stopped() || Instant::now() >= plan.deadline {
                break;
            }
            let pieces = (plan.window_ns / pace).ceil() as u64;
            let mut done = 0;
            let window = self.time(|| done = work(pieces));
            beside();
            let ns = window.ns / done.max(1) as f64;
            pace = pace.min(ns).max(SHORTEST_PIECE_NS);
            if window.kept {
                in_vain = if ns < 0.99 * best.ns { 0 } else { in_vain + 1 };
                best.ns = best.ns.min(ns);
                best.work += done;
                best.total_ns += window.ns;
                best.windows += 1;
            } else {
                best.dropped += 1;
            }
        }
        (best.windows > 0).then_some(best)
    }

    /// ns per piece of work, roughly: the faster of two short stretches.
    fn pace(&self, work: &mut impl FnMut(u64) -> u64) -> f64 {
        let mut stretch = || {
            let mut done = 0;
            let ns = self.clock.time(|| done = work(PROBE));
            ns / done.max(1) as f64
        };
        stretch().min(stretch()).max(SHORTEST_PIECE_NS)
    }
}

/// What is to take so long cannot be told to take longer: `--full`.
const MOST_TIME: Duration = Duration::from_secs(60);

/// Times the wanted windows after which the fastest counts, however it came about.
const MOST_KEPT: u32 = 4;

/// Times the wanted windows that may be dropped before two are kept. With two, as many as are
/// wanted may: each costs a turn of whoever has the processor meanwhile, some ms.
const MOST_DROPPED: u32 = 4;

/// Pieces of work in the stretch from which the length of the others is told.
const PROBE: u64 = 128;

/// No piece of work takes less than this; keeps a clock that stands still from making windows
/// endless. A hundredth of the time in which a core copies an octet.
const SHORTEST_PIECE_NS: f64 = 1e-4;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    fn with_windows<T>(is_stopped: bool, look: impl FnOnce(&Windows<'_>) -> T) -> T {
        let stop = AtomicBool::new(is_stopped);
        let watch = Watch { stop: &stop, progress: &|_, _| {} };
        look(&Windows::new(&watch, Duration::from_secs(1)))
    }

    /// Work whose length is known: a piece is 1 us of the thread's clock.
    fn wait(pieces: u64) -> u64 {
        let start = linerate_linux::monotonic_ns();
        while linerate_linux::monotonic_ns() - start < 1000 * pieces {}
        pieces
    }

    fn plan(wanted: u32, within: Duration) -> Plan {
        Plan { window_ns: 200_000.0, wanted, deadline: Instant::now() + within }
    }

    #[test]
    fn the_fastest_window_takes_as_long_as_its_work() {
        with_windows(false, |windows| {
            let best = windows.best_of(&plan(20, Duration::from_secs(20)), wait).unwrap();
            assert!((999.0..1500.0).contains(&best.ns), "{best:?}");
            assert!((21..=80).contains(&best.windows), "{best:?}");
            assert!(best.total_ns >= best.work as f64 * 999.0, "{best:?}");
            let windows_kept = u64::from(best.windows);
            assert!((windows_kept * 100..=windows_kept * 201).contains(&best.work), "{best:?}");
            assert_eq!(windows.counts(), (windows_kept, best.dropped.into()));
        });
    }

    #[test]
    fn both_clocks_tell_the_same_time() {
        for is_invariant in [true, false] {
            let clock = Clock::of(is_invariant);
            let ns = clock.time(|| std::thread::sleep(Duration::from_millis(5)));
            assert!(ns >= 4.9e6, "{clock:?} {ns}");
            let start = linerate_linux::monotonic_ns();
            let ns = clock.time(|| assert_eq!(wait(1000), 1000));
            let most = (linerate_linux::monotonic_ns() - start) as f64;
            assert!((0.99e6..=1.01 * most).contains(&ns), "{clock:?} {ns} {most}");
        }
    }

    /// A sleeping thread has no processor, whatever the load of the machine.
    #[test]
    fn windows_without_the_processor_are_dropped() {
        let sleep = |pieces: u64| {
            std::thread::sleep(Duration::from_millis(2));
            pieces
        };
        with_windows(false, |windows| {
            let best = windows.best_of(&plan(3, Duration::from_millis(60)), sleep);
            assert_eq!(best, None);
            let (kept, dropped) = windows.counts();
            assert!(kept == 0 && dropped > 1, "{kept} {dropped}");
        });
    }

    #[test]
    fn a_stop_and_a_deadline_are_heeded() {
        with_windows(true, |windows| {
            assert_eq!(windows.best_of(&plan(3, Duration::from_secs(9)), wait), None);
        });
        with_windows(false, |windows| {
            assert_eq!(windows.best_of(&plan(3, Duration::ZERO), wait), None);
            assert!(!windows.is_stopped());
        });
    }
}
