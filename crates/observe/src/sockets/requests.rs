// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long requests on the program's TCP connections wait for replies, by sampling.

use super::turns::{Asks, Turns};
use super::watched::Watched;
use linerate_record::why::{RequestCounts, SocketKind};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum ratio of the bytes that one end sends to those of the other. Beyond it, the connection
/// carries a stream, not requests and replies.
const ONE_WAY: u64 = 1000;

/// Requests without a reply in one reading of all connections.
#[derive(Clone, Debug, Default)]
struct Pending {
    is_read: bool,
    /// Number of clients that wait for a reply.
    of_clients: u32,
    /// Whether one of them has been waiting for 4 ms or longer.
    is_late: bool,
    at_servers: BTreeSet<String>,
    /// Number of connections on which the program waits for a server.
    awaiting: u32,
}

/// Returns the requests on a program's connections over a window of `elapsed_s`; `None` if it
/// accepted no connections.
pub(super) fn requests<'a>(
    sockets: impl Iterator<Item = &'a Watched>,
    elapsed_s: f64,
) -> Option<RequestCounts> {
    let mut sockets: Vec<&Watched> = sockets.collect();
    // A request without a reply on a connection that carries nothing else is a long poll, unless no
    // other request is answered either.
    let has_traffic =
        |socket: &&Watched| socket.tcp().bytes_received + socket.tcp().bytes_acked > 0;
    let listening = sockets.iter().filter(|socket| socket.kind == SocketKind::TcpListen);
    let ports: BTreeSet<u16> = listening.filter_map(|socket| socket.port()).collect();
    let is_accepted = |socket: &Watched| socket.port().is_some_and(|port| ports.contains(&port));
    let mut silent = 0;
    if sockets.iter().any(has_traffic) {
        let (active, quiet): (Vec<_>, Vec<_>) = sockets
            .into_iter()
            .partition(|socket| socket.kind != SocketKind::Tcp || has_traffic(socket));
        (sockets, silent) = (active, count_waiting(&quiet, is_accepted));
    }
    let mut ticks = BTreeMap::<u32, Pending>::new();
    let (mut connections, mut requests, mut waited_s) = (0, 0, 0.0);
    for socket in sockets.iter().filter(|s| s.kind == SocketKind::Tcp && !is_stream(s)) {
        let is_accepted = is_accepted(socket);
        let turns = socket.turns(if is_accepted { Asks::Peer } else { Asks::Program });
        note(&mut ticks, &turns, socket, is_accepted);
        connections += u64::from(is_accepted);
        if let Some(exchanges) = turns.exchanges.filter(|_| is_accepted && socket.is_whole()) {
            requests += u64::from(exchanges);
            waited_s += turns.share() * elapsed_s;
        }
    }
    ticks.retain(|_, pending| pending.is_read);
    let readings = ticks.len() as u64;
    let share = |count: usize| count as f64 / readings.max(1) as f64;
    let mean = |of: fn(&Pending) -> u32| {
        ticks.values().map(|at| f64::from(of(at))).sum::<f64>() / readings.max(1) as f64
    };
    let awaiting = || ticks.values().filter(|at| at.of_clients > 0 && !at.at_servers.is_empty());
    let mut servers = BTreeMap::<&String, u64>::new();
    awaiting().flat_map(|at| &at.at_servers).for_each(|one| *servers.entry(one).or_default() += 1);
    (connections > 0).then(|| RequestCounts {
        readings,
        connections,
        pending_share: share(ticks.values().filter(|at| at.of_clients > 0).count()),
        pending_mean: mean(|at| at.of_clients),
        late_share: share(ticks.values().filter(|at| at.is_late).count()),
        awaiting_share: share(awaiting().count()),
        awaiting_mean: mean(|at| at.awaiting),
        server: servers.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name.clone()),
        silent,
        requests,
        reply_s: (requests > 0).then(|| waited_s / requests as f64),
    })
}

/// Counts accepted connections on which a request had no reply in any reading.
fn count_waiting(sockets: &[&Watched], is_accepted: impl Fn(&Watched) -> bool) -> u64 {
    let waits = |socket: &&&Watched| is_accepted(socket) && socket.turns(Asks::Peer).share() > 0.95;
    sockets.iter().filter(waits).count() as u64
}

fn note(ticks: &mut BTreeMap<u32, Pending>, turns: &Turns, socket: &Watched, is_accepted: bool) {
    for turn in &turns.all {
        let at = ticks.entry(turn.tick).or_default();
        at.is_read |= is_accepted;
        at.of_clients += u32::from(is_accepted && turn.is_pending);
        at.is_late |= is_accepted && turn.is_late;
        if let Some(server) = socket.remote.as_ref().filter(|_| turn.is_pending && !is_accepted) {
            at.at_servers.insert(server.clone());
            at.awaiting += 1;
        }
    }
}

/// Returns whether a connection carries data in one direction only. The first request of a
/// connection has no reply yet.
fn is_stream(socket: &Watched) -> bool {
    /// Bytes of a large first request.
    const REQUEST: u64 = 65_536;
    let tcp = socket.tcp();
    let (less, more) =
        (tcp.bytes_received.min(tcp.bytes_acked), tcp.bytes_received.max(tcp.bytes_acked));
    socket.is_one_way() || more > REQUEST && more > ONE_WAY * less
}
