// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures of waiting requests, of waiting threads, and of delays of the program as a whole.

use super::super::facts::{Facts, sampled, share_of};
use super::super::roles::is_accepted;
use super::super::waits::is_to_peer;
use super::super::{collector, locks, requests};
use super::Measure;
use super::workers::storage_per_client;
use linerate_record::stats::Estimate;
use linerate_record::why::{SocketCounts, SocketKind, ThreadActivity, ThreadState};

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
            Self::WorkOrPause => collector::work_or_pause(facts),
            Self::Pauses => collector::pauses(facts),
            Self::LateReplies => requests::late(facts),
            _ => None,
        }
    }
}

/// Returns the largest fraction of readings with unread data over the TCP connections that carry
/// requests and replies, excluding those on which a thread sleeps while sending; `None` without
/// such connections. A connection without replies may be leaked, or a stream that nothing reads,
/// unless no client gets a reply.
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
    let blocked = unanswered(facts, &sends);
    let shares = others
        .chain(blocked)
        .filter_map(|socket| Some(sampled(socket.receive_queue_share?, Facts::readings(socket)?)));
    shares.max_by(|a, b| a.value.total_cmp(&b.value))
}

/// Returns the clients' connections with unread data if a thread sleeps all the time while sending
/// to the peers in `sends`, which acknowledge nothing. Empty if less than half of the other
/// connections have unread data, because those connections may be leaked.
fn unanswered<'a>(facts: &Facts<'a>, sends: &[&str]) -> Vec<&'a SocketCounts> {
    /// Minimum fraction of time in send calls, and of readings with unread data.
    const ALWAYS: f64 = 0.9;
    let sending = |thread: &ThreadActivity| -> f64 {
        thread.asleep_on.iter().filter(|sleep| is_to_peer(sleep)).map(|sleep| sleep.share).sum()
    };
    let is_client =
        |socket: &&SocketCounts| socket.kind == SocketKind::Tcp && is_accepted(facts, socket);
    let clients = facts.observation.sockets.iter().filter(is_client);
    let (to, others): (Vec<&SocketCounts>, Vec<&SocketCounts>) =
        clients.partition(|socket| sends.iter().any(|object| is_object(object, socket)));
    let stands = |socket: &&SocketCounts| socket.tcp.as_ref().is_some_and(|it| it.bytes_acked == 0);
    let is_blocked = facts.observation.threads.iter().any(|thread| sending(thread) >= ALWAYS);
    let all = others.len();
    let mut unread = others;
    unread.retain(|socket| socket.receive_queue_share.is_some_and(|share| share >= ALWAYS));
    let is_most = is_blocked && !to.is_empty() && to.iter().all(stands) && 2 * unread.len() >= all;
    if is_most { unread } else { Vec::new() }
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
