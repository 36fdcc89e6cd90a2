// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words about what the program waits for: peers, servers, locks.

use super::super::facts::Facts;
use super::super::{locks, requests};
use linerate_record::why::{SocketCounts, TcpCounts};

/// Returns the command that diagnoses the peer that stalls the program.
pub(super) fn watch_peer(facts: &Facts<'_>) -> String {
    let stalled = |tcp: &TcpCounts| tcp.rwnd_limited_s;
    let sockets = facts.connections().filter(|socket| socket.tcp.is_some());
    let order = |socket: &&SocketCounts| socket.tcp.as_ref().map_or(0.0, stalled);
    let most = sockets.max_by(|a, b| order(a).total_cmp(&order(b)));
    match most.and_then(|socket| socket.peer_pid) {
        Some(pid) => format!("linerate why {pid}"),
        None => "linerate why PID, on the peer's machine".to_owned(),
    }
}

/// Describes what the thread that holds a lock does meanwhile; empty if that is not known.
pub(super) fn lock_holder(facts: &Facts<'_>) -> String {
    match locks::queue(facts).and_then(|queue| queue.holder) {
        Some(call) => format!(", while one at a time sleeps in {call}"),
        None => String::new(),
    }
}

/// Returns the command that diagnoses the server that the program asks.
pub(super) fn watch_server(facts: &Facts<'_>) -> String {
    let server = requests::server(facts);
    let mut there = facts.connections().filter(|socket| socket.remote.as_deref() == server);
    match there.find_map(|socket| socket.peer_pid) {
        Some(pid) => format!("linerate why {pid}"),
        None => "linerate why PID, on its machine".to_owned(),
    }
}
