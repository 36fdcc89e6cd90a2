// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flows that the program could distribute over threads.
//!
//! A flow is not split, so the largest one limits what is gained: `n` flows of which the largest
//! carries the fraction `s` of the packets count as `1 / s` flows, which is `n` if all are equal.

use super::super::facts::Facts;
use super::opened::own_opened;
use linerate_record::stats::Estimate;
use linerate_record::why::{SocketCounts, SocketKind, TcpCounts};
use std::collections::BTreeSet;

/// Returns the number of flows, weighted by packets; `None` for packet rings, and without flows.
pub(super) fn flows(facts: &Facts<'_>) -> Option<Estimate> {
    /// Fraction of the other protocol's packets below which a protocol does not matter.
    const FEW: f64 = 0.1;
    /// Minimum number of segments of a connection, both ways: to open it, for a request and its
    /// reply, and to close it.
    const SHORTEST: f64 = 6.0;
    let sockets = &facts.observation.sockets;
    if sockets.iter().any(|s| matches!(s.kind, SocketKind::Packet | SocketKind::Xdp)) {
        return None;
    }
    let connections = facts.connections().filter_map(|socket| socket.tcp.as_ref());
    let segments = |tcp: &TcpCounts| (tcp.segments_in + tcp.segments_out).max(1) as f64;
    let each: Vec<f64> = connections.map(segments).collect();
    let (all, largest) = (each.iter().sum::<f64>(), each.iter().copied().fold(0.0, f64::max));
    // Most connections that are closed after one request are never listed.
    let brief = own_opened(facts).unwrap_or(0) as f64;
    let (all, largest) = match brief >= 1.0 {
        true => (all + brief * SHORTEST, largest.max(SHORTEST)),
        false => (all, largest),
    };
    let of_tcp = (largest > 0.0).then(|| Estimate::exactly(all / largest));
    let udp: Vec<_> = sockets.iter().filter(|one| one.kind == SocketKind::Udp).collect();
    let (Some(of_udp), Some(of_tcp)) = (of_sockets(&udp), of_tcp) else {
        return of_sockets(&udp).or(of_tcp);
    };
    // Other programs may have received some of the datagrams.
    let known = facts.datagrams("InDatagrams").zip(facts.datagrams("OutDatagrams"));
    let most = known.map(|(received, sent)| (received + sent) as f64);
    Some(match most {
        Some(most) if most <= FEW * all => of_tcp,
        Some(most) if all <= FEW * most => of_udp,
        _ => {
            let as_one_flow = most.map_or(1.0, |most| (all + most) / largest.max(most));
            let value = of_tcp.value + of_udp.value;
            let high = of_tcp.high + of_udp.high;
            Estimate { low: of_tcp.low.min(as_one_flow), high, ..Estimate::exactly(value) }
        }
    })
}

/// Returns the flows on UDP sockets, whose packets are not counted one by one. A socket that often
/// has unread data carries a flow; others may carry next to nothing, such as those of a resolver.
fn of_sockets(udp: &[&SocketCounts]) -> Option<Estimate> {
    /// Minimum fraction of readings with unread data, relative to the socket that has it most
    /// often.
    const OFTEN: f64 = 0.1;
    let share = |socket: &SocketCounts| socket.receive_queue_share.unwrap_or(0.0);
    let most = udp.iter().map(|socket| share(socket)).fold(0.0, f64::max);
    let is_active = |socket: &&&SocketCounts| most > 0.0 && share(socket) >= OFTEN * most;
    let (connected, open): (Vec<_>, Vec<_>) = udp.iter().partition(|one| one.remote.is_some());
    let port = |socket: &&SocketCounts| socket.local.rsplit(':').next().map(str::to_owned);
    let ports: BTreeSet<_> = open.iter().filter(is_active).map(port).collect();
    let active = connected.iter().filter(is_active).count() + ports.len();
    // A socket that receives from any peer probably carries several flows.
    let value = (connected.len() + 2 * open.len()) as f64;
    let high = if open.is_empty() { value } else { f64::INFINITY };
    let low = (active as f64).max(1.0);
    (!udp.is_empty()).then(|| Estimate { low, high, ..Estimate::exactly(value) })
}
