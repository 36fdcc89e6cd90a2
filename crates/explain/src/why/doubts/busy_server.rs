// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server that the program queries on behalf of its clients, and that may be the bottleneck.

use super::super::facts::Facts;
use super::super::requests;
use super::super::roles::is_accepted;
use super::super::words::percent;
use super::Doubt;
use linerate_record::why::{PeerActivity, SocketCounts, SocketKind};

/// Detects a server on this machine that keeps a CPU busy, while the program that queries it has
/// idle time.
pub(super) fn busy_server(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum CPU time of a server whose only thread may be busy all the time, in CPUs.
    const BUSY: f64 = 0.85;
    /// Maximum CPU time of a server with one thread, with the error of accounting, in CPUs.
    const ONE_THREAD: f64 = 1.1;
    /// Fraction of time with requests at servers below which they do not matter.
    const SELDOM: f64 = 0.1;
    let server = busiest_server(facts).filter(|server| server.cpus >= BUSY)?;
    let delayed = requests::delayed(facts).filter(|delayed| delayed.low >= requests::DELAYED);
    let is_asked = requests::awaiting_servers(facts).is_none_or(|awaiting| awaiting.high >= SELDOM);
    // A server with several busy threads may have room for more.
    if !is_asked || (server.cpus > ONE_THREAD && delayed.is_none()) {
        return None;
    }
    let delayed = delayed.map_or_else(String::new, |delayed| {
        format!(
            " {} % of the time, a client is waiting for a reply while all threads of the program \
             are asleep.",
            percent(delayed.value)
        )
    });
    let (name, pid) = (&server.name, server.pid);
    let doubt = Doubt::new(
        format!(
            "Cannot tell whether clients are waiting for a server that the program queries \
             (waiting_for_peer): {name} ({pid}) uses {} % of a CPU.{delayed}",
            percent(server.cpus)
        ),
        format!("Find out what limits that server: linerate why {pid}"),
    )?;
    Some(doubt.with("CPU time of the server", server.cpus, "CPUs"))
}

/// Returns the busiest of the processes to which the program opened connections, if it has clients
/// of its own.
fn busiest_server<'a>(facts: &Facts<'a>) -> Option<&'a PeerActivity> {
    let serves = |kind| matches!(kind, SocketKind::TcpListen | SocketKind::UnixListen);
    if !facts.observation.sockets.iter().any(|socket| serves(socket.kind)) {
        return None;
    }
    let own = &facts.observation.watched.pids;
    let of_clients = facts.observation.sockets.iter().filter(|socket| is_accepted(facts, socket));
    let clients: Vec<u32> = of_clients.filter_map(|socket| socket.peer_pid).collect();
    let opened = facts.connections().filter(|socket| !is_accepted(facts, socket));
    let is_unix = |one: &&SocketCounts| one.kind == SocketKind::Unix && one.remote.is_some();
    let unix = facts.observation.sockets.iter().filter(is_unix);
    let servers: Vec<u32> = opened.chain(unix).filter_map(|socket| socket.peer_pid).collect();
    let is_server = |peer: &&PeerActivity| {
        servers.contains(&peer.pid) && !clients.contains(&peer.pid) && !own.contains(&peer.pid)
    };
    let peers = facts.observation.peers.iter().filter(is_server);
    peers.max_by(|a, b| a.cpus.total_cmp(&b.cpus).then(b.pid.cmp(&a.pid)))
}
