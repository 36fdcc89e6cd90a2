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
    /// Packets received so far and time in ns, at the first and the last read.
    reads: Option<[(u64, u64); 2]>,
    /// Number of reads with a higher count than the read before.
    changes: u64,
    /// Whether the driver of an interface is known to refresh its counters at intervals.
    is_refreshed: bool,
}

/// Drivers that copy the counters from the NIC at intervals of up to a second.
const REFRESHING: [&str; 4] = ["bnx2", "bnx2x", "bnxt_en", "tg3"];

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
        let after = received();
        let ended_ns = monotonic_ns();
        self.read(before, began_ns);
        self.read(after, ended_ns);
        let packets = after.saturating_sub(before);
        self.ns += ended_ns - began_ns;
        self.windows += 1;
        self.silent += u64::from(packets == 0);
        self.packets_max = self.packets_max.max(packets);
    }

    fn read(&mut self, packets: u64, at_ns: u64) {
        let now = (packets, at_ns);
        let [first, last] = self.reads.unwrap_or([now; 2]);
        self.changes += u64::from(packets > last.0);
        self.reads = Some([first, now]);
    }

    /// Sets the drivers of the interfaces. A driver may refresh its counters only at intervals,
    /// which looks like bursts.
    pub(crate) fn set_drivers<'a>(&mut self, mut drivers: impl Iterator<Item = &'a str>) {
        self.is_refreshed = drivers.any(|driver| REFRESHING.contains(&driver));
    }

    /// Returns the mean time in seconds between two changes of a counter that its driver refreshes
    /// at long intervals; `None` for other counters. Such a counter shows neither when packets
    /// arrive nor how many arrive in a slice.
    pub(crate) fn refreshed_every_s(&self) -> Option<f64> {
        /// Minimum time between changes of a refreshed counter. Broadcom NICs (bnxt_en) refresh
        /// their counters every second by default, and no more often than every 0.25 s.
        const SELDOM_S: f64 = 0.2;
        /// Minimum number of packets per change of a refreshed counter, on average. With fewer, the
        /// changes may be single packets.
        const PACKETS: u64 = 64;
        let [first, last] = self.reads?;
        let packets = last.0.saturating_sub(first.0);
        let every_s = (last.1.saturating_sub(first.1)) as f64 / 1e9 / self.changes as f64;
        let is_coarse =
            self.changes > 0 && every_s >= SELDOM_S && packets >= PACKETS * self.changes;
        (self.is_refreshed && is_coarse).then_some(every_s)
    }

    /// Returns how packets arrived; `None` if nothing was read, or if the counter is refreshed too
    /// rarely. Begins the next window.
    pub(crate) fn finish(&mut self) -> Option<Seen> {
        let arrivals = std::mem::take(self);
        if arrivals.refreshed_every_s().is_some() { None } else { arrivals.seen() }
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

    #[test]
    fn a_counter_that_the_nic_refreshes_once_per_second_shows_no_gaps() {
        // 100,000 packets per second over 5 s, read every 8 ms.
        let of = |driver: &str, refreshed: &dyn Fn(u64) -> u64| {
            let mut arrivals = Arrivals { windows: 600, silent: 599, ..Arrivals::default() };
            arrivals.set_drivers(["virtio_net", driver].into_iter());
            for ms in (0..5_000).step_by(8) {
                arrivals.read(refreshed(ms), 1_000_000 * ms);
            }
            arrivals
        };
        let after = |refreshed: &dyn Fn(u64) -> u64| of("bnxt_en", refreshed);
        let mut coarse = after(&|ms| ms / 1000 * 100_000);
        assert!(coarse.refreshed_every_s().is_some_and(|seconds| (1.0..1.5).contains(&seconds)));
        assert_eq!(coarse.finish(), None);
        let mut steady = after(&|ms| ms * 100);
        assert_eq!(steady.refreshed_every_s(), None);
        assert!(steady.finish().is_some());
        // Bursts ten times per second, an occasional packet, and none at all.
        assert!(after(&|ms| ms / 100 * 10_000).finish().is_some());
        assert!(after(&|ms| ms / 1000 * 5).finish().is_some());
        assert!(after(&|_| 7).finish().is_some());
        // A burst per second at a NIC whose counters are always up to date.
        assert!(of("veth", &|ms| ms / 1000 * 100_000).finish().is_some());
    }
}
