// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows of a memory measurement. They are at most 2 ms long, so that most are not preempted.
//! Only clean windows ([`linerate_trial::clean`]) are kept, and the fastest of several is used
//! ([`linerate_trial::best`]). Kept and dropped windows are counted.

use linerate_machine::ticks::{is_invariant, ticks_per_s};
use linerate_trial::best::{self, best_of};
use linerate_trial::{Clock, Machine, Watch, time};
use std::cell::Cell;
use std::time::{Duration, Instant};

pub use linerate_trial::best::Best;

/// Measures in windows and counts them. Each thread has its own instance.
pub struct Windows<'a> {
    /// Observer that receives progress reports.
    pub watch: Watch<'a>,
    started: Instant,
    /// Planned duration of the whole measurement.
    total: Duration,
    clock: Machine,
    kept: Cell<u64>,
    dropped: Cell<u64>,
}

/// Returns the core frequency in GHz for `cycles_per_tick` core cycles per counter tick; `None` if
/// the counter's rate varies, because a tick then has no fixed length.
pub(crate) fn core_ghz(cycles_per_tick: f64) -> Option<f64> {
    let is_told = is_invariant() && cycles_per_tick > 0.0;
    is_told.then(|| cycles_per_tick * ticks_per_s() / 1e9)
}

/// Window length, stop criterion and deadline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Window length in ns, at most 2 ms.
    pub window_ns: f64,
    /// Measuring ends after this many consecutive windows slower than the fastest.
    pub wanted: u32,
    /// Deadline, at which measuring ends even if there are not enough windows.
    pub deadline: Instant,
}

/// Result of one timing window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Duration in ns.
    pub ns: f64,
    /// Whether the window was clean.
    pub kept: bool,
}

impl<'a> Windows<'a> {
    /// Creates the windows for a measurement that starts now and should take `total`. The first
    /// call in a process takes 20 ms to calibrate the tick.
    pub fn new(watch: &Watch<'a>, total: Duration) -> Self {
        let (started, clock) = (Instant::now(), Machine::steady());
        Self { watch: *watch, started, total, clock, kept: Cell::new(0), dropped: Cell::new(0) }
    }

    /// Returns the clock that times the windows.
    pub(crate) fn clock(&self) -> Machine {
        self.clock
    }

    /// Returns when the measurement started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Reports the current part to the observer. Progress is the elapsed fraction of the planned
    /// time.
    pub fn progress(&self, what: &str) {
        let share = self.started.elapsed().as_secs_f64() / self.total.as_secs_f64();
        self.watch.progress(what, share.min(1.0));
    }

    /// Returns whether a stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.watch.is_stopped()
    }

    /// Returns advice on how to allow more measuring time, phrased to complete a sentence.
    pub(crate) fn more_time(&self) -> &'static str {
        if self.total >= MOST_TIME { "measure again when nothing else runs" } else { "use --full" }
    }

    /// Adds another thread's counts of kept and dropped windows.
    pub(crate) fn add(&self, (kept, dropped): (u64, u64)) {
        self.kept.set(self.kept.get() + kept);
        self.dropped.set(self.dropped.get() + dropped);
    }

    /// Returns how many windows were kept and dropped so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.kept.get(), self.dropped.get())
    }

    /// Times `work` once, regardless of how long it takes.
    pub fn time(&self, work: impl FnOnce()) -> Window {
        let window = time(&self.clock, work);
        let kept = window.verdict.is_ok();
        self.count(kept);
        Window { ns: window.ticks as f64 * self.clock.ns_per_tick(), kept }
    }

    fn count(&self, kept: bool) {
        let count = if kept { &self.kept } else { &self.dropped };
        count.set(count.get() + 1);
    }

    /// Returns the fastest window of `work` ([`best_of`]); `None` if no window was kept before the
    /// deadline or a stop request.
    pub fn best_of(&self, plan: &Plan, work: impl FnMut(u64) -> u64) -> Option<Best> {
        self.best_with(plan, work, || {})
    }

    /// Like [`best_of`](Self::best_of), but calls `beside` after each window, to sample other
    /// quantities at the same time.
    pub fn best_with(
        &self,
        plan: &Plan,
        work: impl FnMut(u64) -> u64,
        mut beside: impl FnMut(),
    ) -> Option<Best> {
        let windows = best::Plan { window_ns: plan.window_ns, wanted: plan.wanted };
        let is_over = || self.is_stopped() || Instant::now() >= plan.deadline;
        best_of(
            &self.clock,
            &windows,
            work,
            |window| {
                self.count(window.verdict.is_ok());
                beside();
            },
            is_over,
        )
    }
}

/// Planned duration at or above which `--full` is already in use, so it is not suggested.
const MOST_TIME: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn with_windows<T>(is_stopped: bool, look: impl FnOnce(&Windows<'_>) -> T) -> T {
        let stop = AtomicBool::new(is_stopped);
        look(&Windows::new(&Watch::new(&stop, &|_, _| {}), Duration::from_secs(1)))
    }

    /// Work of known duration: each piece busy-waits for 1 us by the kernel clock.
    fn wait(pieces: u64) -> u64 {
        let start = linerate_linux::monotonic_ns();
        while linerate_linux::monotonic_ns() - start < 1000 * pieces {}
        pieces
    }

    fn plan(wanted: u32, within: Duration) -> Plan {
        Plan { window_ns: 200_000.0, wanted, deadline: Instant::now() + within }
    }

    #[test]
    fn both_clocks_agree() {
        for clock in [Machine::counter(), Machine::kernel()] {
            let ns = |work: &dyn Fn()| time(&clock, work).ticks as f64 * clock.ns_per_tick();
            let slept = ns(&|| std::thread::sleep(Duration::from_millis(5)));
            assert!(slept >= 4.9e6, "{clock:?} {slept}");
            let start = linerate_linux::monotonic_ns();
            let waited = ns(&|| assert_eq!(wait(1000), 1000));
            let most = (linerate_linux::monotonic_ns() - start) as f64;
            assert!((0.99e6..=1.01 * most).contains(&waited), "{clock:?} {waited} {most}");
        }
    }

    /// A sleeping thread has no CPU, so its windows are never clean, regardless of system load.
    #[test]
    fn windows_are_counted_by_whether_they_are_clean() {
        let sleep = |pieces: u64| {
            std::thread::sleep(Duration::from_millis(2));
            pieces
        };
        with_windows(false, |windows| {
            let best = windows.best_of(&plan(3, Duration::from_secs(20)), sleep);
            assert_eq!((best, windows.counts()), (None, (0, 12)));
            assert!(!windows.time(|| _ = sleep(1)).kept);
            assert_eq!(windows.counts(), (0, 13));
        });
    }

    #[test]
    fn respects_a_stop_and_a_deadline() {
        with_windows(true, |windows| {
            assert_eq!(windows.best_of(&plan(3, Duration::from_secs(9)), wait), None);
        });
        with_windows(false, |windows| {
            assert_eq!(windows.best_of(&plan(3, Duration::ZERO), wait), None);
            assert!(!windows.is_stopped());
        });
    }
}
