// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures of waiting requests, of waiting threads, and of delays of the program as a whole.

use super::super::facts::{Facts, sampled, share_of};
use super::super::waits::is_to_peer;
use super::super::{collector, locks, requests};
use super::Measure;
use super::workers::storage_per_client;
use linerate_record::stats::Estimate;
use linerate_record::why::{SocketCounts, ThreadActivity, ThreadState};

impl Measure {
    pub(super) fn of_delays(self, facts: &Facts<'_>) -> Option<Estimate> {
        match self {
            Self::RepliesDelayed => requests::delayed(facts),
            Self::AwaitingServers => requests::awaiting_servers(facts),
            Self::OpeningToServers => requests::opening_to_servers(facts),
            Self::PendingAtServers => requests::pending_at_servers(facts),
            Self::StoragePerClient => storage_per_client(facts),
            Self::LockQueue => locks::waiting(facts),
            Self::RequestsUnread => requests_unread(facts),
            Self::GarbageShare => collector::share(facts),
            Self::GarbageCpus => collector::cpus(facts),
            Self::LateReplies => requests::late(facts),
            _ => None,
        }
    }
}

/// Returns the largest fraction of readings with unread data over the TCP connections that carry
/// requests and replies, without those on which a thread sleeps while sending; `None` without such
/// connections. A connection without replies may be leaked, or a stream that nothing reads.
fn requests_unread(facts: &Facts<'_>) -> Option<Estimate> {
    let sleeps = facts.observation.threads.iter().flat_map(|thread| &thread.asleep_on);
    let sends: Vec<&str> =
        sleeps.filter(|sleep| is_to_peer(sleep)).filter_map(|it| it.object.as_deref()).collect();
    let is_other = |socket: &&SocketCounts| {
        let answers =
            socket.tcp.as_ref().is_some_and(|it| it.bytes_received > 0 && it.bytes_acked > 0);
        answers && !sends.iter().any(|object| is_object(object, socket))
    };
    let others = facts.connections().filter(is_other);
    let shares = others
        .filter_map(|socket| Some(sampled(socket.receive_queue_share?, Facts::readings(socket)?)));
    shares.max_by(|a, b| a.value.total_cmp(&b.value))
}

/// Returns whether the object of a sleep, such as `tcp 10.0.0.1:80 to 10.0.0.2:4000`, is a
/// connection. Brief connections to a server are named without their own address.
fn is_object(object: &str, socket: &SocketCounts) -> bool {
    let remote = socket.remote.as_deref().unwrap_or_default();
    let whole = format!("tcp {} to {remote}", socket.local);
    object == whole || object.strip_prefix("tcp to ") == Some(remote)
}

/// Returns the fraction of time for which a thread works or waits for a CPU.
pub(super) fn saturation(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
    let waiting = thread.share(ThreadState::Waiting).and_then(share_of);
    let waiting = waiting.unwrap_or(Estimate::exactly(0.0));
    let Estimate { value, low, high, .. } = facts.busy(thread)?.plus(waiting);
    let [value, low, high] = [value, low, high].map(|share| share.min(1.0));
    Some(Estimate { value, low, high, ..waiting })
}
