// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packet limit of a live run, shared by all of its queues.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of packets that the queues of a run may still deliver. It never increases, so a queue
/// that reads 0 is finished. Relaxed ordering suffices, because no other data depends on it.
pub(crate) struct Limit(AtomicU64);

impl Limit {
    pub(crate) fn new(packets: u64) -> Self {
        Self(AtomicU64::new(packets))
    }

    #[inline]
    pub(crate) fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Claims `packets` packets, or as many as are left, and returns their number.
    #[inline]
    pub(crate) fn claim(&self, packets: u64) -> u64 {
        let take = |left: u64| Some(left.saturating_sub(packets));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.unwrap_or_else(|left| left).min(packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_together_claim_exactly_the_limit() {
        const PACKETS: u64 = 10_001;
        let limit = Limit::new(PACKETS);
        let queue = || {
            let mut claimed = 0;
            while limit.left() > 0 {
                claimed += limit.claim(7);
            }
            claimed
        };
        let claimed: u64 = std::thread::scope(|scope| {
            let queues = [scope.spawn(queue), scope.spawn(queue)];
            queues.into_iter().map(|queue| queue.join().unwrap()).sum()
        });
        assert_eq!((claimed, limit.claim(1)), (PACKETS, 0));
    }
}
