// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums over the observation, from which measures are derived.

use super::super::facts::{Facts, share, share_of};
use super::super::waits::{Wait, wait_of};
use linerate_record::stats::Estimate;
use linerate_record::why::{
    InterfaceCounts, SocketCounts, SocketKind, ThreadActivity, ThreadState,
};

/// Mean packet size in bytes: from the packet counter or, failing that, from the interface with the
/// most packets.
pub(super) fn bytes_per_packet(facts: &Facts<'_>) -> Option<f64> {
    let count = facts.observation.packets.as_ref().filter(|count| count.packets > 0)?;
    if let Some(bytes) = count.bytes {
        return Some(bytes as f64 / count.packets as f64);
    }
    let most =
        facts.observation.interfaces.iter().max_by_key(|i| i.rx_packets.max(i.tx_packets))?;
    let (packets, bytes) = match most.rx_packets >= most.tx_packets {
        true => (most.rx_packets, most.rx_bytes),
        false => (most.tx_packets, most.tx_bytes),
    };
    // Other programs may use the interface, too.
    (2 * packets >= count.packets && packets > 0).then(|| bytes as f64 / packets as f64)
}

/// Bytes per transmitted packet of the busiest interface, before segmentation.
pub(super) fn bytes_per_transmit(facts: &Facts<'_>) -> Option<f64> {
    let most = facts.observation.interfaces.iter().max_by_key(|i| i.tx_bytes)?;
    (most.tx_packets > 0).then(|| most.tx_bytes as f64 / most.tx_packets as f64)
}

/// Number of waits for a CPU: from the scheduler's tracepoints or, failing that, from context
/// switches.
pub(super) fn waits(thread: &ThreadActivity) -> u64 {
    let counted: u64 = thread.waits_us_log2.iter().sum();
    match counted {
        0 => thread.involuntary_switches + thread.voluntary_switches,
        counted => counted,
    }
}

/// Throttled time: the thread's own, or that of the group divided among its threads.
pub(super) fn throttled(facts: &Facts<'_>, thread: &ThreadActivity) -> Estimate {
    if let Some(own) = thread.share(ThreadState::Throttled).and_then(share_of) {
        return own;
    }
    let quotas = facts.observation.quotas.iter().filter(|q| q.pids.contains(&thread.pid));
    let throttled = quotas.map(|quota| match quota.periods {
        0 => 0.0,
        periods => quota.throttled_periods as f64 / periods as f64,
    });
    share(throttled.fold(0.0, f64::max))
}

/// System calls of all threads: a lower bound, and an upper bound if all of them were counted.
pub(super) fn system_calls(facts: &Facts<'_>) -> Option<(u64, Option<u64>)> {
    let threads = &facts.observation.threads;
    let calls: Option<u64> = threads.iter().map(|thread| thread.system_calls).sum();
    // The calls that any user may count are a subset.
    let some: Option<u64> = threads.iter().map(|thread| thread.io_calls).sum();
    match (calls, some) {
        (Some(calls), some) => {
            let calls = calls.max(some.unwrap_or(0));
            Some((calls, Some(calls)))
        }
        (None, some) => Some((some?, None)),
    }
}

/// Largest receive window of the peers of sending connections, relative to the bandwidth-delay
/// product of the connection's rate and its shortest round trip; of all connections, the one with
/// the most bytes counts.
pub(super) fn peer_window(facts: &Facts<'_>) -> Option<Estimate> {
    /// Minimum round trip under load, in seconds: 23 to 36 us were measured over a veth pair, of
    /// which 3 to 5 us are due to the path.
    const SHORTEST_S: f64 = 50e-6;
    /// Larger than any ratio that can occur.
    const ALWAYS_FULL: f64 = 1e9;
    /// Error of the ratio: the round trip is longer under load, and the window at the time of a
    /// reading may be smaller.
    const FACTOR: f64 = 2.0;
    let stopped = facts.connections().filter_map(|socket| Some((socket, socket.tcp.as_ref()?)));
    let stopped = stopped.filter(|(_, tcp)| tcp.rwnd_limited_s > 0.0);
    let (socket, most) = stopped.max_by_key(|(_, tcp)| tcp.bytes_acked)?;
    // A small buffer is empty now and then; a buffer that is full at every reading is not being
    // read.
    if most.peer_window_max == Some(0) {
        return Facts::readings(socket).map(|_| Estimate::exactly(ALWAYS_FULL));
    }
    let needed = most.bytes_acked as f64 / facts.elapsed() * most.min_rtt_s.max(SHORTEST_S);
    let over = most.peer_window_max? as f64 / needed.max(1.0);
    Some(Estimate { low: over / FACTOR, high: over * FACTOR, ..Estimate::exactly(over) })
}

/// Time in calls that wait on connections that the program opened: TCP, or UDP with one reply per
/// request.
pub(super) fn asleep_on_server(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
    let tcp = facts.connections().filter(|socket| !is_accepted(facts, socket));
    let udp = facts.asks_by_udp().then(|| asking_sockets(facts)).into_iter().flatten();
    let opened: Vec<&str> = tcp.chain(udp).map(|socket| socket.local.as_str()).collect();
    let waits = |object: &str| opened.iter().any(|local| object.contains(local));
    // A call that sends is waiting for buffer space.
    let inputs = thread.asleep_on.iter().filter(|sleep| wait_of(sleep) == Wait::Input);
    let of_server = inputs.filter(|sleep| sleep.object.as_deref().is_some_and(waits));
    (!thread.asleep_on.is_empty()).then(|| share(of_server.map(|sleep| sleep.share).sum()))
}

/// UDP sockets connected to a server, unless another socket of the program at the same address
/// receives from any peer.
fn asking_sockets<'a>(facts: &Facts<'a>) -> impl Iterator<Item = &'a SocketCounts> {
    let sockets = &facts.observation.sockets;
    let udp = move || sockets.iter().filter(|socket| socket.kind == SocketKind::Udp);
    let serves = move |own: &SocketCounts| {
        udp().any(|other| other.remote.is_none() && other.local == own.local)
    };
    udp().filter(move |socket| socket.remote.is_some() && !serves(socket))
}

/// Whether a connection was accepted: the program listens on its local port.
pub(super) fn is_accepted(facts: &Facts<'_>, socket: &SocketCounts) -> bool {
    let port = |address: &str| address.rsplit(':').next().map(str::to_owned);
    let listening = facts.observation.sockets.iter().filter(|s| s.kind == SocketKind::TcpListen);
    let own = port(&socket.local);
    listening.map(|listen| port(&listen.local)).any(|listen| listen == own)
}

/// Page faults of all threads.
pub(super) fn faults(facts: &Facts<'_>) -> u64 {
    facts.observation.threads.iter().map(|thread| thread.minor_faults + thread.major_faults).sum()
}

/// Bytes in the program's packets, or on its connections.
pub(super) fn bytes(facts: &Facts<'_>) -> Option<u64> {
    let counted = facts.observation.packets.as_ref().and_then(|count| count.bytes);
    let tcps = facts.connections().filter_map(|socket| socket.tcp.as_ref());
    let of_tcp = tcps.map(|tcp| tcp.bytes_received + tcp.bytes_acked).reduce(|a, b| a + b);
    of_tcp.or(counted)
}

/// TCP connections established in the network namespace, by either side.
pub(super) fn opened(facts: &Facts<'_>) -> Option<u64> {
    let [passive, active] = ["Tcp.PassiveOpens", "Tcp.ActiveOpens"].map(|n| facts.protocol(n));
    Some(passive?.max(active?))
}

/// Number of flows that the program could distribute to threads: its connections; at least two for
/// a socket that receives from any peer. Unknown for packet rings.
pub(super) fn flows(facts: &Facts<'_>) -> Option<usize> {
    let sockets = &facts.observation.sockets;
    if sockets.iter().any(|s| matches!(s.kind, SocketKind::Packet | SocketKind::Xdp)) {
        return None;
    }
    let is_open = |s: &&SocketCounts| s.kind == SocketKind::Udp && s.remote.is_none();
    let connections = facts.connections().count();
    let connected =
        sockets.iter().filter(|s| s.kind == SocketKind::Udp && s.remote.is_some()).count();
    let flows = connections + connected + 2 * sockets.iter().filter(is_open).count();
    (flows > 0).then_some(flows)
}

/// Whether all of these offloads are off on an interface; `None` if the interface does not report
/// them.
pub(super) fn is_off(interface: &InterfaceCounts, names: &[&str]) -> Option<bool> {
    let states: Vec<bool> =
        names.iter().filter_map(|name| interface.features.get(*name).copied()).collect();
    (!states.is_empty()).then(|| states.iter().all(|is_on| !is_on))
}

/// Time for which a thread waited while threads of other programs ran on its CPU, excluding kernel
/// threads that handle its packets.
pub(super) fn others_instead(facts: &Facts<'_>, thread: &ThreadActivity) -> Option<Estimate> {
    if facts.is_unread("tracepoints") || facts.is_unread("scheduler") {
        return None;
    }
    let threads = &facts.observation.threads;
    let is_own = |tid: u32| threads.iter().any(|thread| thread.tid == tid);
    let others = thread.ran_instead.iter().filter(|one| {
        !one.tid.is_some_and(is_own) && !SOFTIRQ_THREADS.iter().any(|n| one.name.starts_with(n))
    });
    let seconds: f64 = others.map(|one| one.seconds).sum();
    Some(share(seconds / thread.elapsed_s.max(1e-9)))
}

/// Kernel threads that pass packets from an interface to sockets.
const SOFTIRQ_THREADS: [&str; 2] = ["ksoftirqd/", "napi/"];
