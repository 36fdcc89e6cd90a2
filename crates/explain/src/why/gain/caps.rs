// SPDX-License-Identifier: MIT OR Apache-2.0
//! Upper bounds of gains: the requested line rate, and the offered load.

use super::super::facts::Facts;
use super::super::losses::vanished;
use super::returned;

/// Returns the gain in percent at which the requested line rate is reached.
pub(super) fn line_cap(facts: &Facts<'_>) -> Option<f64> {
    let line = facts.observation.watched.line_bits_per_s?;
    let bytes = facts.observation.packets.as_ref()?.bytes?;
    let rate = 8.0 * bytes as f64 / facts.elapsed();
    (rate > 0.0).then(|| (100.0 * (line / rate - 1.0)).max(0.0))
}

/// Returns the gain in percent at which a receiver of datagrams or frames receives everything that
/// is sent to it; `None` if that is not known.
pub(super) fn offered_cap(facts: &Facts<'_>) -> Option<f64> {
    /// Minimum fraction of packets lost. Below it, the senders may be waiting for replies.
    const LOST: f64 = 0.05;
    /// Factor that allows for the error of the counts and for a load that differs between runs.
    const ERROR: f64 = 1.2;
    let has_streams = facts.connections().next().is_some();
    let lost = facts.receive_loss().filter(|_| !has_streams)?;
    match lost {
        // A receiver that sends no replies and misses nothing gets all that is sent to it.
        lost if lost.high <= 0.0 && facts.only_receives_datagrams() && reaches_it(facts) => {
            Some(0.0)
        }
        lost if lost.low >= LOST => Some(ERROR * returned(lost.high)),
        _ => None,
    }
}

/// Returns whether hardly any packets are lost between IP and the sockets.
fn reaches_it(facts: &Facts<'_>) -> bool {
    /// Maximum fraction of packets, which may be skew between counter reads.
    const SKEW: f64 = 0.01;
    let is_small = |lost: u64, received: u64| (lost as f64) < SKEW * received as f64;
    vanished(facts).is_some_and(|vanished| is_small(vanished.lost(), vanished.received))
        && facts.protocol("Conntrack.drop") == Some(0)
}
