// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates how many requests are pending on all connections if only some of them are read at a
//! time.

use super::turns::Turns;
use super::watched::Watched;

/// Readings of the connections that the program accepted, or of those that it opened.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// Number of readings of a connection.
    readings: u64,
    /// Number of readings in which a request was pending.
    pending: u64,
    /// Numbers of the first and last reading of each connection; the first is `None` if the
    /// connection was open before the window, the last if it was still open after the window.
    open: Vec<(Option<u32>, Option<u32>)>,
}

impl Side {
    /// Adds the readings of a connection.
    pub(super) fn add(&mut self, turns: &Turns, socket: &Watched) {
        self.readings += turns.all.len() as u64;
        self.pending += turns.all.iter().filter(|turn| turn.is_pending).count() as u64;
        let first = turns.all.first().map(|turn| turn.tick);
        let last = turns.all.last().map(|turn| turn.tick);
        let ends = (first.filter(|_| socket.first.is_none()), last.filter(|_| socket.is_closed));
        self.open.push(ends);
    }

    /// Returns the mean number of pending requests: the share of the readings in which one was
    /// pending, times the mean number of open connections. `begin` and `end` are the numbers of the
    /// first and last reading in the window. `None` without readings.
    pub(super) fn mean(&self, begin: u32, end: u32) -> Option<f64> {
        let ticks = |(first, last): &(Option<u32>, Option<u32>)| {
            1 + u64::from(last.unwrap_or(end).saturating_sub(first.unwrap_or(begin)))
        };
        let open = self.open.iter().map(ticks).sum::<u64>() as f64;
        let share = self.pending as f64 / self.readings as f64;
        let all = 1 + u64::from(end.saturating_sub(begin));
        (self.readings > 0).then(|| share * open / all as f64)
    }
}
