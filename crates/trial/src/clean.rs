// SPDX-License-Identifier: MIT OR Apache-2.0
//! A clean window is a period of work during which the thread kept its CPU.
//!
//! All measurements in linerate use the same criterion: the kernel counted no involuntary context
//! switch of the thread, and charged it CPU time for at least [`CPU_SHARE_MIN`] of the wall time.
//! The former detects preemption, the latter sleeping and page faults that wait for I/O.
//!
//! A hypervisor can take the CPU without the guest kernel noticing, so such windows pass as clean.
//! With many windows of the same work, [`Samples::drop_far_slower`] drops them.
//!
//! [`Samples::drop_far_slower`]: crate::samples::Samples::drop_far_slower

use crate::clock::Clock;

/// Minimum fraction of a window's wall time that the thread must have been on a CPU.
pub const CPU_SHARE_MIN: f64 = 0.96;

/// Why a window or sample is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The kernel preempted the thread.
    Switched,
    /// The thread was on a CPU for less than [`CPU_SHARE_MIN`] of the time.
    Away,
    /// The window took several times as long as the fastest of its kind, although the kernel
    /// recorded no preemption. Most likely, a hypervisor took the CPU.
    FarSlower,
    /// The sample consists of several windows, none of which is valid.
    NoneKept,
}

/// The calling thread's wall time, CPU time and context switches, as accounted by the kernel:
/// running totals, or the differences between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Wall time, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// Number of involuntary context switches.
    pub switches: u64,
}

impl Account {
    /// Returns the calling thread's current totals. Takes two system calls.
    #[inline]
    pub fn now(clock: &impl Clock) -> Self {
        let (switches, cpu_ns) = (clock.involuntary_switches(), clock.cpu_ns());
        Self { wall_ns: clock.wall_ns(), cpu_ns, switches }
    }

    /// Like [`now`](Self::now), but reads in reverse order. Between `now` and `at_end`, the
    /// CPU-time interval encloses the wall-time interval, so the system calls for reading do not
    /// count as off-CPU time.
    #[inline]
    fn at_end(clock: &impl Clock) -> Self {
        let (wall_ns, cpu_ns) = (clock.wall_ns(), clock.cpu_ns());
        Self { wall_ns, cpu_ns, switches: clock.involuntary_switches() }
    }

    /// Returns what was accounted between `earlier` and this reading.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            wall_ns: self.wall_ns.saturating_sub(earlier.wall_ns),
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            switches: self.switches.saturating_sub(earlier.switches),
        }
    }

    /// Checks whether a window with this accounting is clean. Tolerates a CPU time deficit of one
    /// step of the CPU-time clock ([`Clock::cpu_step_ns`]).
    ///
    /// # Errors
    /// Returns the reason if the window is not clean.
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

/// A window that is still open.
#[derive(Debug)]
pub struct Window<'c, C> {
    clock: &'c C,
    account: Account,
    ticks: u64,
}

/// Duration of a closed window, and whether it is clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Duration in ticks of the window's clock.
    pub ticks: u64,
    /// The thread's CPU accounting during the window.
    pub charged: Account,
    /// `Ok` if the window is clean, or why it is not.
    pub verdict: Result<(), Dropped>,
}

impl<'c, C: Clock> Window<'c, C> {
    /// Opens a window. The tick counter is read last, so that reading the kernel's accounting is
    /// not timed.
    #[inline]
    pub fn open(clock: &'c C) -> Self {
        let account = Account::now(clock);
        Self { clock, account, ticks: clock.ticks() }
    }

    /// Starts counting ticks, making the time since the window was opened a lead-in. The lead-in
    /// must be free of preemption too, but is not included in the ticks.
    ///
    /// Opening a window takes two system calls, after which some processors have lost their
    /// branch-predictor state: in a 25 us window, copies of 128 bytes then take a third longer. A
    /// lead-in of a quarter of the work avoids this.
    #[inline]
    pub fn start(&mut self) {
        self.ticks = self.clock.ticks();
    }

    /// Closes the window. The tick counter is read first, so that reading the kernel's accounting
    /// is not timed.
    #[inline]
    pub fn close(self) -> Timed {
        // Saturating, because the thread may have migrated to a CPU whose counter is behind.
        let ticks = self.clock.ticks().saturating_sub(self.ticks);
        let charged = Account::at_end(self.clock).since(self.account);
        Timed { ticks, charged, verdict: charged.judge(self.clock.cpu_step_ns()) }
    }
}

impl Timed {
    /// Returns `figure`, a value measured in this window, if the window is clean; otherwise the
    /// reason.
    pub fn keep<T>(&self, figure: T) -> Result<T, Dropped> {
        self.verdict.map(|()| figure)
    }
}

/// Times a single call to `work` as a window.
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

    /// Tests both conditions just below and above their limits. A deficit of one step of the CPU
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

    /// A lead-in counts towards the verdict but is not timed.
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

    /// Reading the accounting takes up to a fifth of a short window, mostly in system calls. None
    /// of that time counts as off-CPU time or is included in the ticks.
    #[test]
    fn reading_the_accounts_is_not_time_away() {
        let clock = Scripted::new().reading(1000);
        for _ in 0..10 {
            let timed = time(&clock, || clock.work(5000));
            // Both ticks, opening and closing, are read before the clock advances.
            assert_eq!((timed.ticks, timed.verdict), (6000, Ok(())), "{timed:?}");
        }
    }
}
