// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes an upper bound on how busy a polling thread is, from the gaps between the bursts that
//! reach its ring.

use super::{Facts, sampled};
use linerate_record::stats::{Estimate, quantile};
use linerate_record::why::{SocketKind, ThreadActivity, ThreadState};

impl Facts<'_> {
    /// Returns an upper bound on the busy fraction of a thread that polls a ring. During
    /// milliseconds without arrivals, the thread is idle once it has drained the ring. Draining
    /// takes at most the CPU time per packet times the number of packets that the ring can hold.
    /// `None` if arrivals were not measured, or if draining takes too long for such a bound to
    /// hold.
    pub(super) fn busy_at_most(&self, thread: &ThreadActivity) -> Option<Estimate> {
        /// Smallest AF_PACKET ring frame that holds a 1500-byte packet, in bytes.
        const FRAME: f64 = 2048.0;
        /// Maximum time to drain a full ring, in windows of the arrival measurement. Beyond it, a
        /// window without arrivals does not prove that the thread is idle.
        const WINDOWS: f64 = 2.0;
        /// Minimum number of windows of the arrival measurement.
        const WINDOWS_MIN: u64 = 10;
        let arrivals = self.observation.arrivals.as_ref()?;
        let sockets = self.observation.sockets.iter();
        let rings = sockets.filter(|socket| socket.kind == SocketKind::Packet);
        let frames = rings.filter_map(|ring| ring.receive_buffer).max()? as f64 / FRAME;
        let ran = thread.share_of(ThreadState::is_on_cpu);
        let per_packet = ran / self.best_rate().filter(|rate| *rate > 0.0)?;
        let empties = frames * per_packet <= WINDOWS * arrivals.window_s;
        if arrivals.windows < WINDOWS_MIN || !empties {
            return None;
        }
        let silent = sampled(arrivals.silent as f64 / arrivals.windows as f64, arrivals.windows);
        let busy = ran * (1.0 - silent.value);
        let high = ran * (1.0 - silent.low).min(1.0);
        Some(Estimate { value: busy, low: 0.0, high, ..silent })
    }

    /// Returns a packet rate that the program has been observed to reach: the 90th percentile over
    /// slices, assuming that packets cost the same in all slices. If there are too few slices,
    /// returns the mean rate.
    fn best_rate(&self) -> Option<f64> {
        /// Minimum number of slices for the 90th percentile: a tenth of them is at least one slice.
        const SLICES_MIN: usize = 10;
        let rates = &self.observation.packets_per_s;
        match rates.len() >= SLICES_MIN {
            true => quantile(rates, 0.9),
            false => self.packet_rate(),
        }
    }
}
