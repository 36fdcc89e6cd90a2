// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether requests wait for a busy thread. A thread that writes a snapshot, compacts a database or
//! compiles code keeps a CPU busy, too, but nothing that the program serves waits for it.

use super::super::facts::{Facts, sampled};
use super::super::requests;
use super::super::roles::clients;
use linerate_record::stats::Estimate;
use linerate_record::why::{
    RequestCounts, SocketCounts, SocketKind, TcpCounts, ThreadActivity, ThreadState,
};

/// Fraction of readings with a pending request at and above which the program may be saturated.
pub(in super::super) const PENDING: f64 = 0.5;

/// Returns the fraction of readings with a pending request. If requests are not counted, returns 1,
/// or `None` if other threads handle most packets and this one takes no part in it: whether
/// anything waits for it is then unknown.
pub(super) fn pending(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
    match of_readings(facts) {
        Some(pending) => Some(pending),
        None if facts.others_handle_packets(thread) => None,
        None => Some(Estimate::exactly(1.0)),
    }
}

/// Returns the CPU time of a thread relative to that of all threads.
pub(super) fn of_work(facts: &Facts<'_>, thread: &ThreadActivity) -> Estimate {
    let own = facts.part_of_window(thread) * thread.share_of(ThreadState::is_on_cpu);
    Estimate::exactly((own / facts.used_cpus().max(1e-9)).min(1.0))
}

/// Returns the fraction of readings with a pending request or, if that is larger, with unread data
/// on a client's connection; `None` if it is small but may be a lower bound.
fn of_readings(facts: &Facts<'_>) -> Option<Estimate> {
    /// Maximum number of connections at which each reading covers all of them.
    const CONNECTIONS: u64 = 32;
    let counts = requests::counts(facts)?;
    let unread = clients(facts).filter(|socket| Facts::readings(socket).is_some());
    let unread = unread.filter_map(|socket| socket.receive_queue_share).fold(0.0, f64::max);
    let pending = sampled(counts.pending_share.max(unread), counts.readings);
    let are_all = counts.connections <= CONNECTIONS
        && counts.undetermined.unwrap_or(0) == 0
        && are_regular(facts, counts)
        && are_the_traffic(facts);
    (pending.low >= PENDING || are_all).then_some(pending)
}

/// Returns whether most requests were on connections whose segments show each pending request. On
/// others, only waits of several milliseconds are seen.
fn are_regular(facts: &Facts<'_>, counts: &RequestCounts) -> bool {
    let tcps = clients(facts).filter_map(|socket| socket.tcp.as_ref());
    let segments: Option<u64> = tcps.map(|tcp| tcp.data_segments_in).sum();
    segments.is_some_and(|segments| segments > 0 && 2 * counts.requests >= segments)
}

/// Returns whether the clients' requests on TCP connections are most of the program's traffic. A
/// proxy has as many segments on its connections to servers.
fn are_the_traffic(facts: &Facts<'_>) -> bool {
    /// Minimum fraction of the segments on the program's TCP connections.
    const OF_SEGMENTS: f64 = 0.4;
    /// Maximum number of datagrams, relative to the clients' segments.
    const DATAGRAMS: f64 = 0.1;
    let segments = |tcp: &TcpCounts| tcp.segments_in + tcp.segments_out;
    let sum = |sockets: &mut dyn Iterator<Item = &SocketCounts>| -> f64 {
        sockets.filter_map(|socket| socket.tcp.as_ref()).map(segments).sum::<u64>() as f64
    };
    let of_clients = sum(&mut clients(facts));
    let has = |kinds: &[SocketKind]| {
        facts.observation.sockets.iter().any(|socket| kinds.contains(&socket.kind))
    };
    let datagrams = ["InDatagrams", "OutDatagrams"].map(|name| facts.datagrams(name).unwrap_or(0));
    let has_datagrams =
        has(&[SocketKind::Udp]) && datagrams.iter().sum::<u64>() as f64 > DATAGRAMS * of_clients;
    of_clients >= OF_SEGMENTS * sum(&mut facts.connections())
        && !has_datagrams
        && !has(&[SocketKind::Packet, SocketKind::Xdp, SocketKind::Raw])
        && facts.observation.unix_clients.is_none_or(|clients| clients == 0)
}
