// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clean window: a stretch of work during which the thread kept its CPU.
//!
//! The same criterion holds for everything that linerate measures: the kernel counted no
//! involuntary context switch of the thread, and charged it CPU time for at least [`CPU_SHARE_MIN`]
//! of the wall time. The first condition catches a thread that was preempted, the second a thread
//! that slept or waited for a page.
//!
//! A hypervisor can take the CPU without the guest kernel noticing: such windows pass. Where many
//! windows of the same work are compared, [`Samples::drop_far_slower`] finds them.
//!
//! [`Samples::drop_far_slower`]: crate::samples::Samples::drop_far_slower

use crate::clock::Clock;

/// Minimum share of a window's wall time that the thread must have spent on a CPU.
pub const CPU_SHARE_MIN: f64 = 0.96;

/// Reasons why a window is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The kernel preempted the thread.
    Switched,
    /// The thread was on a CPU for less than [`CPU_SHARE_MIN`] of the time.
    Away,
    /// The window took several times as long as the fastest of its kind, without a reason visible
    /// to the kernel: most probably a hypervisor took the CPU.
    FarSlower,
    /// The sample is composed of several windows, none of which is valid.
    NoneKept,
}

/// The kernel's CPU accounting for the calling thread, as running totals or as a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Wall-clock time in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the thread in nanoseconds.
    pub cpu_ns: u64,
    /// Number of involuntary context switches of the thread.
    pub switches: u64,
}

impl Account {
    /// Returns the current totals of the calling thread. Costs two system calls.
    #[inline]
    pub fn now(clock: &impl Clock) -> Self {
        let (switches, cpu_ns) = (clock.involuntary_switches(), clock.cpu_ns());
        Self { wall_ns: clock.wall_ns(), cpu_ns, switches }
    }

    /// Like [`now`](Self::now), with the reads in reverse order: from `now` to `at_end` the
    /// CPU-time reads enclose the wall-time reads, so that the system calls in between do not count
    /// as off-CPU time.
    #[inline]
    fn at_end(clock: &impl Clock) -> Self {
        let (wall_ns, cpu_ns) = (clock.wall_ns(), clock.cpu_ns());
        Self { wall_ns, cpu_ns, switches: clock.involuntary_switches() }
    }

    /// Returns the difference from an earlier reading.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            wall_ns: self.wall_ns.saturating_sub(earlier.wall_ns),
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            switches: self.switches.saturating_sub(earlier.switches),
        }
    }

    /// Checks whether a window with this accounting is clean. CPU time may fall short by one step
    /// of its clock ([`Clock::cpu_step_ns`]).
    ///
    /// # Errors
    /// The reason why the window is not clean.
    pub fn judge(&self, cpu_step_ns: u64) -> Result<(), Dropped> {
        if self.switches > 0 {
            return Err(Dropped::Switched);
        }
        let cpu_ns = self.cpu_ns.saturating_add(cpu_step_ns) as f64;
        if cpu_ns < CPU_SHARE_MIN * self.wall_ns as f64 {
            return Err(Dropped::Away);
        }
        Ok(())
    }
}

/// A window in progress.
#[derive(Debug)]
pub struct Window<'c, C> {
    clock: &'c C,
    account: Account,
    ticks: u64,
}

/// A completed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Duration in ticks of the window's clock.
    pub ticks: u64,
    /// CPU accounting of the thread during the window.
    pub charged: Account,
    /// `Ok` if the window is clean; otherwise the reason why it is not.
    pub verdict: Result<(), Dropped>,
}

impl<'c, C: Clock> Window<'c, C> {
    /// Opens a window; reads the tick counter last.
    #[inline]
    pub fn open(clock: &'c C) -> Self {
        let account = Account::now(clock);
        Self { clock, account, ticks: clock.ticks() }
    }

    /// Starts counting ticks: the time since the window was opened becomes a lead-in. The lead-in
    /// must be undisturbed too, but is not included in the ticks.
    ///
    /// Opening a window takes two system calls, after which some processors have lost their
    /// branch-predictor state: copies of 128 bytes take a third longer over a window of 25 us. A
    /// lead-in of a quarter of the work fixes that.
    #[inline]
    pub fn start(&mut self) {
        self.ticks = self.clock.ticks();
    }

    /// Closes the window; reads the tick counter first.
    #[inline]
    pub fn close(self) -> Timed {
        // Saturating, because a migrated thread may read a counter that is behind.
        let ticks = self.clock.ticks().saturating_sub(self.ticks);
        let charged = Account::at_end(self.clock).since(self.account);
        Timed { ticks, charged, verdict: charged.judge(self.clock.cpu_step_ns()) }
    }
}

impl Timed {
    /// Returns `figure` if the window is valid.
    pub fn keep<T>(&self, figure: T) -> Result<T, Dropped> {
        self.verdict.map(|()| figure)
    }
}

/// Times `work` once.
#[inline]
pub fn time(clock: &impl Clock, work: impl FnOnce()) -> Timed {
    let window = Window::open(clock);
    work();
    window.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Scripted;

    const fn charged(wall_ns: u64, cpu_ns: u64, switches: u64) -> Account {
        Account { wall_ns, cpu_ns, switches }
    }

    /// Tests both conditions on either side of their limits; a shortfall of one step of the CPU
    /// clock does not count as off-CPU time.
    #[test]
    fn a_window_is_clean_without_a_switch_and_with_96_percent_of_the_cpu() {
        let cases = [
            (charged(1_000_000, 1_000_000, 0), 0, Ok(())),
            (charged(1_000_000, 960_000, 0), 0, Ok(())),
            (charged(1_000_000, 959_999, 0), 0, Err(Dropped::Away)),
            (charged(1_000_000, 1_000_000, 1), 0, Err(Dropped::Switched)),
            (charged(1_000_000, 0, 2), 0, Err(Dropped::Switched)),
            (charged(25_000, 0, 0), 4_000_000, Ok(())),
            (charged(25_000, 0, 0), 23_999, Err(Dropped::Away)),
            (charged(25_000, 0, 1), 4_000_000, Err(Dropped::Switched)),
            (charged(0, 0, 0), 0, Ok(())),
        ];
        for (charged, step, verdict) in cases {
            assert_eq!(charged.judge(step), verdict, "{charged:?} {step}");
        }
    }

    #[test]
    fn windows_are_timed_in_ticks_and_judged_by_the_kernel() {
        let clock = Scripted::new().ticking(3);
        let plain = time(&clock, || clock.work(1000));
        assert_eq!((plain.ticks, plain.verdict), (3000, Ok(())));
        assert_eq!(plain.charged, charged(1000, 1000, 0));
        let preempted = time(&clock, || {
            clock.work(100_000);
            clock.preempt(1);
        });
        assert_eq!(preempted.verdict, Err(Dropped::Switched));
        let slept = time(&clock, || {
            clock.work(959);
            clock.sleep(41);
        });
        assert_eq!((slept.ticks, slept.verdict), (3000, Err(Dropped::Away)));
        let stolen = time(&clock, || clock.steal(1000));
        assert_eq!((stolen.ticks, stolen.keep(7)), (3000, Ok(7)));
    }

    /// A lead-in counts for the verdict but is not timed.
    #[test]
    fn a_lead_in_is_in_the_verdict_and_not_in_the_ticks() {
        let clock = Scripted::new();
        let led_in = |disturb: &dyn Fn()| {
            let mut window = Window::open(&clock);
            clock.work(250);
            disturb();
            window.start();
            clock.work(1000);
            window.close()
        };
        assert_eq!(led_in(&|| {}).keep(()), Ok(()));
        assert_eq!(led_in(&|| {}).ticks, 1000);
        let preempted = led_in(&|| clock.preempt(0));
        assert_eq!((preempted.ticks, preempted.verdict), (1000, Err(Dropped::Switched)));
        assert_eq!(led_in(&|| clock.sleep(53)).verdict, Err(Dropped::Away));
    }

    /// Events before or after a window are not part of it.
    #[test]
    fn a_window_is_judged_by_what_happens_within() {
        let clock = Scripted::new();
        clock.preempt(1000);
        let window = Window::open(&clock);
        clock.work(10);
        let timed = window.close();
        clock.preempt(1000);
        assert_eq!((timed.ticks, timed.verdict), (10, Ok(())));
    }

    /// Reading the accounting takes a while, mostly in system calls: as much as a fifth of a short
    /// window. None of it counts as off-CPU time, nor is it included in the ticks.
    #[test]
    fn reading_the_accounts_is_not_time_away() {
        let clock = Scripted::new().reading(1000);
        for _ in 0..10 {
            let timed = time(&clock, || clock.work(5000));
            // Both the opening and the closing tick are read before the clock advances.
            assert_eq!((timed.ticks, timed.verdict), (6000, Ok(())), "{timed:?}");
        }
    }
}
