// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that is queued while the program has time left: data that is not acknowledged, connections
//! that are not accepted, input that is not read. Nothing else reveals such a program, since it
//! sleeps and hardly any packets pass.

use super::doubts::{Doubt, follow};
use super::facts::Facts;
use super::words::{label, percent};
use linerate_record::why::{SocketCounts, SocketKind, TcpCounts};

/// A queue that is read as input arrives is empty at most readings.
const MOST: f64 = 0.9;

/// The first queue found to hold work.
pub(super) fn queued(facts: &Facts<'_>) -> Option<Doubt> {
    stalled_connection(facts).or_else(|| unaccepted(facts)).or_else(|| unread(facts))
}

/// A connection with data to send, none of which was acknowledged.
fn stalled_connection(facts: &Facts<'_>) -> Option<Doubt> {
    /// Of the window.
    const HALF: f64 = 0.5;
    let half = HALF * facts.elapsed();
    // A closed window is the receiver's doing, and has a sentence of its own.
    let is_stalled = |tcp: &TcpCounts| {
        tcp.bytes_acked == 0
            && tcp.rwnd_limited_s < half
            && (tcp.busy_s >= half || tcp.retransmitted > 0)
    };
    let sockets = facts.observation.sockets.iter().filter(|s| s.send_queue_mean > 0.0);
    let with_tcp = sockets.filter_map(|socket| Some((socket, socket.tcp.as_ref()?)));
    let (socket, tcp) = with_tcp
        .filter(|(_, tcp)| is_stalled(tcp))
        .max_by(|(a, _), (b, _)| a.send_queue_mean.total_cmp(&b.send_queue_mean))?;
    let peer = socket.remote.as_deref().unwrap_or("its peer");
    Doubt::new(
        format!(
            "Cannot tell why {peer} does not answer: connection {} has {:.0} bytes to send, and \
             none were acknowledged in {:.1} s ({} segments were retransmitted).",
            socket.local,
            socket.send_queue_mean.max(1.0),
            facts.elapsed(),
            tcp.retransmitted
        ),
        "Check the path and the peer: ping, nft list ruleset and ip -s link at both ends, and \
         whether the peer's process is stopped",
    )
}

/// A listening socket whose accept queue is hardly ever empty.
fn unaccepted(facts: &Facts<'_>) -> Option<Doubt> {
    let listeners = facts.observation.sockets.iter().filter(|s| s.kind == SocketKind::TcpListen);
    let (socket, share) = fullest(listeners)?;
    let waiting = format!(
        "Cannot tell why connections wait to be accepted: the accept queue of {} was not empty in \
         {} % of readings ({:.1} connections on average)",
        socket.local,
        percent(share),
        socket.receive_queue_mean
    );
    while_idle(facts, socket, waiting)
}

/// A socket on which input waits although the program has time left.
fn unread(facts: &Facts<'_>) -> Option<Doubt> {
    let of_kind = |kind| facts.observation.sockets.iter().filter(move |s| s.kind == kind);
    // A single unread connection is a leak; half of all connections are the workload.
    let tcp = of_kind(SocketKind::Tcp).count();
    let waiting = of_kind(SocketKind::Tcp).filter(|socket| waits(socket).is_some()).count();
    let connections = of_kind(SocketKind::Tcp).filter(|_| 2 * waiting >= tcp);
    let (socket, share) = fullest(of_kind(SocketKind::Udp).chain(connections))?;
    let waiting = format!(
        "Cannot tell why the program does not read {} {} sooner: data waited in its receive queue \
         in {} % of readings ({:.0} bytes on average)",
        match socket.kind {
            SocketKind::Tcp => "TCP connection",
            _ => "UDP socket",
        },
        socket.local,
        percent(share),
        socket.receive_queue_mean
    );
    while_idle(facts, socket, waiting)
}

/// The socket that holds something most often, where that is nearly always.
fn fullest<'a>(sockets: impl Iterator<Item = &'a SocketCounts>) -> Option<(&'a SocketCounts, f64)> {
    let sockets = sockets.filter_map(|socket| Some((socket, waits(socket)?)));
    sockets.max_by(|(a, _), (b, _)| a.receive_queue_mean.total_cmp(&b.receive_queue_mean))
}

/// The share of readings at which something waited in a receive queue, if that is nearly all of
/// them.
fn waits(socket: &SocketCounts) -> Option<f64> {
    Facts::readings(socket)?;
    socket.receive_queue_share.filter(|share| *share >= MOST)
}

fn while_idle(facts: &Facts<'_>, socket: &SocketCounts, waiting: String) -> Option<Doubt> {
    /// A thread that works more than this reads as fast as it can.
    const WORKS: f64 = 0.5;
    let thread = facts.thread(super::facts::Subject::Socket(socket))?;
    if thread.demand() > WORKS {
        return None;
    }
    Doubt::new(
        format!(
            "{waiting}, while thread {} is on a CPU or waiting for one {} % of the time.",
            label(thread),
            percent(thread.demand())
        ),
        follow(thread),
    )
}
