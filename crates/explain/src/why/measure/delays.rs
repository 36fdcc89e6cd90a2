// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures of waiting requests, of waiting threads, and of delays of the program as a whole.

use super::super::facts::{Facts, sampled, share_of};
use super::super::{collector, locks, requests};
use super::Measure;
use super::workers::storage_per_client;
use linerate_record::stats::Estimate;
use linerate_record::why::{SocketKind, ThreadActivity, ThreadState};

impl Measure {
    pub(super) fn of_delays(self, facts: &Facts<'_>) -> Option<Estimate> {
        let observation = facts.observation;
        match self {
            Self::RepliesDelayed => requests::delayed(facts),
            Self::AwaitingServers => requests::awaiting_servers(facts),
            Self::OpeningToServers => requests::opening_to_servers(facts),
            Self::PendingAtServers => requests::pending_at_servers(facts),
            Self::StoragePerClient => storage_per_client(facts),
            Self::LockQueue => locks::waiting(facts),
            Self::RequestsUnread => {
                let tcp = observation.sockets.iter().filter(|one| one.kind == SocketKind::Tcp);
                let shares = tcp.filter_map(|socket| {
                    Some(sampled(socket.receive_queue_share?, Facts::readings(socket)?))
                });
                shares.max_by(|a, b| a.value.total_cmp(&b.value))
            }
            Self::GarbageShare => collector::share(facts),
            Self::GarbageCpus => collector::cpus(facts),
            Self::LateReplies => requests::late(facts),
            _ => None,
        }
    }
}

/// Returns the fraction of time for which a thread works or waits for a CPU.
pub(super) fn saturation(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
    let waiting = thread.share(ThreadState::Waiting).and_then(share_of);
    let waiting = waiting.unwrap_or(Estimate::exactly(0.0));
    let Estimate { value, low, high, .. } = facts.busy(thread)?.plus(waiting);
    let [value, low, high] = [value, low, high].map(|share| share.min(1.0));
    Some(Estimate { value, low, high, ..waiting })
}
