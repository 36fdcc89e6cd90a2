// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures of waiting requests, and of delays of the program as a whole.

use super::super::facts::{Facts, sampled};
use super::super::{collector, locks, requests};
use super::Measure;
use super::workers::storage_per_client;
use linerate_record::stats::Estimate;
use linerate_record::why::SocketKind;

impl Measure {
    pub(super) fn of_delays(self, facts: &Facts<'_>) -> Option<Estimate> {
        let observation = facts.observation;
        match self {
            Self::RepliesDelayed => requests::delayed(facts),
            Self::AwaitingServers => requests::awaiting_servers(facts),
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
