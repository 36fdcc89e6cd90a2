// SPDX-License-Identifier: MIT OR Apache-2.0
//! How packets arrive at the interfaces of packet sockets: evenly spread or in bursts. A polling
//! thread is idle in the gaps although it looks busy.

use linerate_linux::monotonic_ns;
use linerate_record::why::Arrivals as Seen;
use std::time::Duration;

/// Window length: shorter than bursts of several milliseconds, but longer than a read.
const WINDOW: Duration = Duration::from_millis(1);
/// Number of ticks from the start of one window to the start of the next. Reading all interfaces
/// twice takes about 0.2 ms.
const EVERY: u64 = 4;

/// Counts over the windows so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    ticks: u64,
    windows: u64,
    silent: u64,
    packets_max: u64,
    ns: u64,
}

impl Arrivals {
    /// Measures another window on every [`EVERY`]-th tick. `received` returns the number of packets
    /// received so far.
    pub(crate) fn tick(&mut self, mut received: impl FnMut() -> u64) {
        self.ticks += 1;
        if !self.ticks.is_multiple_of(EVERY) {
            return;
        }
        let (began_ns, before) = (monotonic_ns(), received());
        linerate_linux::child::sleep(WINDOW);
        let packets = received().saturating_sub(before);
        self.ns += monotonic_ns() - began_ns;
        self.windows += 1;
        self.silent += u64::from(packets == 0);
        self.packets_max = self.packets_max.max(packets);
    }

    /// Returns the arrival pattern; `None` if nothing was read. Begins the next window.
    pub(crate) fn finish(&mut self) -> Option<Seen> {
        std::mem::take(self).seen()
    }

    fn seen(self) -> Option<Seen> {
        let windows = Some(self.windows).filter(|windows| *windows > 0)?;
        Some(Seen {
            windows,
            window_s: self.ns as f64 / 1e9 / windows as f64,
            silent: self.silent,
            packets_max: self.packets_max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_without_a_packet_are_silent() {
        let mut reads = [0, 0, 5, 105, 105, 105].into_iter();
        let mut arrivals = Arrivals::default();
        (0..3 * EVERY).for_each(|_| arrivals.tick(|| reads.next().unwrap()));
        let seen = arrivals.finish().unwrap();
        assert_eq!((seen.windows, seen.silent, seen.packets_max), (3, 2, 100));
        assert!(seen.window_s >= 1e-3);
        assert_eq!(Arrivals::default().finish(), None);
    }
}
