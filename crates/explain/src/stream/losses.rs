// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams dropped at the receiver's buffer: whether they depend on its size, and whether they
//! limit the stream.
//!
//! If the buffer is too small, fewer datagrams are lost with a larger one. If the receiver is too
//! slow, or does not run for a while, about as many are lost.

use super::measure::{FULL, Facts};
use linerate_record::stream::StreamPoint;

/// Minimum ratio of two buffer sizes that are compared.
const LARGER: u64 = 4;
/// Maximum ratio reported: a higher one would only show that one of the points has hardly any
/// drops.
const MOST: f64 = 100.0;

impl Facts<'_> {
    /// Returns the datagrams received per datagram sent, 0 to 1; 1 for TCP.
    pub(super) fn delivered(&self) -> f64 {
        match self.point.udp {
            Some(udp) if udp.sent > 0 => udp.received as f64 / udp.sent as f64,
            _ => 1.0,
        }
    }

    /// Returns the datagrams received per datagram sent, or 0 if the sender has idle time; `None`
    /// for TCP, and if the sender's CPU time is unknown.
    pub(super) fn delivered_at_full_load(&self) -> Option<f64> {
        self.point.udp?;
        let is_full = self.demand_of(&self.point.sender)? >= FULL;
        Some(if is_full { self.delivered() } else { 0.0 })
    }

    /// Returns the fraction of the drops that a receive buffer four times as large leaves: the
    /// drops of all points with at least such a buffer, relative to this point's; or, if no point
    /// has one, this point's drops relative to those of the points with at most a quarter of its
    /// buffer. 0 if there are no such points either; `None` for TCP, and if this point has no
    /// drops.
    pub(super) fn drops_left(&self) -> Option<f64> {
        let own = share([self.point].into_iter()).filter(|own| *own > 0.0)?;
        let Some(buffer) = self.point.receiver.buffer_bytes else { return Some(0.0) };
        let size = |point: &StreamPoint| point.receiver.buffer_bytes;
        let larger = self.alike().filter(|point| size(point).is_some_and(|s| s >= LARGER * buffer));
        let smaller =
            self.alike().filter(|point| size(point).is_some_and(|s| LARGER * s <= buffer));
        let left = share(larger).map(|there| there / own);
        let left = left.or_else(|| share(smaller).map(|there| own / there.max(f64::MIN_POSITIVE)));
        Some(left.unwrap_or(0.0).min(MOST))
    }
}

/// Returns the datagrams dropped at the receive buffer per datagram sent, over all `points`; `None`
/// without points, or if drops were not read.
fn share<'a>(points: impl Iterator<Item = &'a StreamPoint>) -> Option<f64> {
    let (mut dropped, mut sent) = (0, 0);
    for point in points {
        dropped += point.udp?.buffer_drops?;
        sent += point.udp?.sent;
    }
    (sent > 0).then(|| dropped as f64 / sent as f64)
}
