// SPDX-License-Identifier: MIT OR Apache-2.0
//! Duty cycle of perf events, which bounds their cost: the more frequent an event is, the fewer
//! slices it is enabled in. Rare events are enabled in every slice. Performs no I/O.

/// Decides in which slices events are on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duty {
    /// If a slice has at least this many events, events are disabled in the slices that follow.
    limit: u64,
    /// Number of remaining slices with events off.
    off_for: u64,
    began_ns: u64,
    /// End of the last slice and start of the current one.
    on_since_ns: u64,
    /// Total length of the finished slices in which events were on.
    covered_ns: u64,
}

/// Maximum number of consecutive slices with events off.
const MAX_OFF: u64 = 15;

impl Duty {
    pub(crate) fn new(limit: u64, now_ns: u64) -> Self {
        Self { limit, off_for: 0, began_ns: now_ns, on_since_ns: now_ns, covered_ns: 0 }
    }

    /// Begins the window: forgets the time and the events before it. Events are on in its first
    /// slice, since a short window has few others. Returns whether they were off.
    #[must_use]
    pub(crate) fn begin_window(&mut self, now_ns: u64) -> bool {
        (self.began_ns, self.on_since_ns, self.covered_ns) = (now_ns, now_ns, 0);
        std::mem::take(&mut self.off_for) > 0
    }

    pub(crate) fn is_on(&self) -> bool {
        self.off_for == 0
    }

    /// Ends a slice, in which `events` events arrived. [`Duty::is_on`] then returns whether to
    /// enable events in the next slice.
    pub(crate) fn end_slice(&mut self, events: u64, now_ns: u64) {
        if self.is_on() {
            self.covered_ns += now_ns.saturating_sub(self.on_since_ns);
            self.off_for = (events / self.limit.max(1)).min(MAX_OFF);
        } else {
            self.off_for -= 1;
        }
        self.on_since_ns = now_ns;
    }

    /// Returns the ratio of the total time to the time with events on, both up to the end of the
    /// last slice.
    pub(crate) fn scale(&self) -> f64 {
        let elapsed = self.on_since_ns.saturating_sub(self.began_ns) as f64;
        if self.covered_ns == 0 { 1.0 } else { (elapsed / self.covered_ns as f64).max(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_events_are_on_all_the_time() {
        let mut duty = Duty::new(1000, 0);
        for slice in 1..=50 {
            assert!(duty.is_on());
            duty.end_slice(999, slice * 100);
        }
        assert_eq!(duty.scale(), 1.0);
    }

    #[test]
    fn what_came_before_the_window_does_not_count() {
        let mut duty = Duty::new(1000, 0);
        duty.end_slice(2000, 1000);
        assert!(!duty.is_on() && duty.begin_window(1000));
        assert!(duty.is_on());
        assert_eq!(duty.scale(), 1.0, "nothing is known yet");
        for (events, now) in [(2000, 1100), (0, 1200), (0, 1300)] {
            duty.end_slice(events, now);
        }
        assert_eq!(duty.scale(), 3.0);
        assert!(duty.is_on() && !duty.begin_window(1300));
    }

    #[test]
    fn frequent_events_are_on_in_some_slices_and_scaled() {
        let mut duty = Duty::new(1000, 0);
        let mut on = 0;
        for slice in 1..=48 {
            on += u64::from(duty.is_on());
            duty.end_slice(3000, slice * 100);
        }
        // One slice in four is on.
        assert_eq!((on, duty.scale()), (12, 4.0));
    }
}
