// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurement windows of a meter: closes them, determines whether they were clean, and keeps a
//! selection.

use super::{Clock, Meter, Phase, Window};
use linerate_trial::Account;

/// Window length in nanoseconds: long enough that the two system calls per window take less than
/// 0.1 % of it, and short enough that most windows are free of preemptions on a busy machine.
pub(super) const WINDOW_NS: u64 = 1_000_000;

/// Maximum number of windows in memory. When it is reached, every second one of them is discarded.
pub(super) const KEPT: usize = 4_096;

impl<const ON: bool, C: Clock> Meter<ON, C> {
    /// Ends the iteration and, if due, the window. The time spent on closing the window is not
    /// attributed to any iteration or window.
    #[inline]
    pub(super) fn turn_over(&mut self, now: u64) {
        self.last = now;
        if now >= self.boundary {
            self.cross(now);
            self.last = self.clock.ticks();
            self.window_start = self.last;
            let elapsed = self.last.saturating_sub(now);
            self.window.crossing = elapsed;
            if elapsed > self.away_ticks && self.phase == Phase::During {
                self.readings.lost += elapsed;
            }
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn cross(&mut self, now: u64) {
        let account = Account::now(&self.clock);
        match self.phase {
            Phase::Before => {
                self.phase = Phase::During;
                self.edge = Some(0);
                self.switches_start = account.switches;
                self.delay_start_ns = self.clock.run_delay_ns();
                self.wall_start_ns = self.clock.wall_ns();
                self.open_window(now, account);
            }
            Phase::During => {
                self.close_window(now, account);
                if now >= self.span.end {
                    self.end();
                } else {
                    self.open_window(now, account);
                }
            }
            Phase::After => {}
        }
    }

    pub(super) fn open_window(&mut self, now: u64, account: Account) {
        let index = self.cell(now);
        self.window = Window { index, cells: 1, ..Window::default() };
        self.boundary = self.span.start + (index + 1) * self.window_ticks;
        self.interrupted = false;
        self.asleep = 0;
        self.account = account;
    }

    /// Returns the index of the time-grid cell that contains `now`.
    fn cell(&self, now: u64) -> u64 {
        (now - self.span.start) / self.window_ticks
    }

    pub(super) fn close_window(&mut self, now: u64, account: Account) {
        self.window.cells = (self.cell(now) - self.window.index).max(1);
        self.window.ticks = now.saturating_sub(self.window_start);
        let mut account = account.since(self.account);
        // Count time asleep as CPU time, because a worker that sleeps was not preempted.
        account.cpu_ns += (self.asleep as f64 * 1e9 / self.span.ticks_per_s) as u64;
        let verdict = account.judge(self.clock.cpu_step_ns());
        self.window.clean = !self.interrupted && verdict.is_ok();
        self.readings.windows_total += 1;
        self.readings.windows_lost += u64::from(!self.window.clean);
        self.keep();
    }

    /// Keeps the window if it covers a cell whose index is a multiple of the stride. If there are
    /// too many windows, first doubles the stride, which discards about every second one. All
    /// workers thus keep the same cells, except for differences in stride.
    pub(super) fn keep(&mut self) {
        let windows = &mut self.readings.windows;
        let stride = &mut self.readings.stride;
        while windows.len() == KEPT {
            *stride *= 2;
            windows.retain(|window| window.kept_cells(*stride).next().is_some());
        }
        if self.window.kept_cells(*stride).next().is_some() {
            windows.push(self.window);
        }
    }

    pub(super) fn end(&mut self) {
        self.phase = Phase::After;
        self.boundary = u64::MAX;
        self.edge = Some(1);
        self.readings.wall_ns = self.clock.wall_ns() - self.wall_start_ns;
        self.readings.switches = self.clock.involuntary_switches() - self.switches_start;
        self.readings.run_delay_ns = match (self.delay_start_ns, self.clock.run_delay_ns()) {
            (Some(start), Some(end)) => Some(end.saturating_sub(start)),
            _ => None,
        };
    }
}
