// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many of the packets that a machine receives are the program's.

use super::super::facts::{Facts, Subject};
use linerate_record::stats::Estimate;
use linerate_record::why::{InterfaceCounts, PacketCount, SocketKind};

/// Returns the packets received by the program, relative to those received by the subject, if it is
/// an interface; by IP in the network namespace, if it is the program as a whole; otherwise by all
/// CPUs. `None` if they were not counted. If other interfaces received packets too, the program's
/// may be among those.
pub(super) fn own_part(facts: &Facts<'_>, subject: Subject<'_>) -> Option<Estimate> {
    let observation = facts.observation;
    if observation.watched.interface.is_some() {
        return Some(Estimate::exactly(1.0));
    }
    if let Subject::Program = subject {
        return Some(of_namespace(facts));
    }
    let own = own(facts)?;
    let part = |packets: u64, of: u64| (packets as f64 / of.max(1) as f64).min(1.0);
    let part = match subject {
        Subject::Interface(interface) => {
            let is_other = |one: &&InterfaceCounts| one.name != interface.name && !is_stacked(one);
            let others = observation.interfaces.iter().filter(is_other);
            let others: u64 = others.map(|one| one.rx_packets).sum();
            let all = interface.rx_packets + others;
            let low = part(own.saturating_sub(others), interface.rx_packets);
            let high = part(own, interface.rx_packets);
            Estimate { low, high, ..Estimate::exactly(part(own, all).clamp(low, high)) }
        }
        _ => {
            let all: u64 = observation.cpus.iter().map(|cpu| cpu.backlog_processed).sum();
            if all == 0 {
                return None;
            }
            Estimate::exactly(part(own, all))
        }
    };
    // Datagrams are missing if other programs receive some too.
    let is_partial = ["udp_datagrams", "other_namespaces", "open_files"];
    let is_partial = is_partial.iter().any(|what| facts.is_unread(what));
    Some(if is_partial { Estimate { high: 1.0, ..part } } else { part })
}

/// Returns whether an interface receives its packets from other interfaces of the machine, which
/// count them too.
fn is_stacked(interface: &InterfaceCounts) -> bool {
    /// Driver names that the kernel reports for interfaces stacked on other interfaces.
    const DRIVERS: [&str; 6] =
        ["802.1Q VLAN Support", "bonding", "bridge", "ipvlan", "macvlan", "team"];
    interface.driver.as_deref().is_some_and(|driver| DRIVERS.contains(&driver))
}

/// Returns the program's part of the packets that reached IP in its network namespace; 1 if
/// unknown.
fn of_namespace(facts: &Facts<'_>) -> Estimate {
    let all = ["Ip.InReceives", "Ip6.InReceives"].map(|name| facts.protocol(name));
    let all: u64 = all.into_iter().flatten().sum();
    let own = own(facts).filter(|_| all > 0 && !facts.is_unread("udp_datagrams"));
    Estimate::exactly(own.map_or(1.0, |own| (own as f64 / all as f64).min(1.0)))
}

/// Returns the packets that the program received; `None` if unknown. 0 if it has no sockets, or if
/// none of the counters of its packets changed.
fn own(facts: &Facts<'_>) -> Option<u64> {
    let observation = facts.observation;
    let tcps = || facts.connections().filter_map(|socket| socket.tcp.as_ref());
    match (&observation.packets, facts.packets()) {
        (Some(count), Some(packets)) if count.counter == PacketCount::CONNECTIONS => {
            // Counted in both directions.
            let received: u64 = tcps().map(|tcp| tcp.segments_in).sum();
            let all: u64 = tcps().map(|tcp| tcp.segments_in + tcp.segments_out).sum();
            Some((packets as f64 * received as f64 / all.max(1) as f64) as u64)
        }
        (_, Some(packets)) => Some(packets),
        (_, None) => {
            const UNREAD: [&str; 7] = [
                "open_files",
                "other_namespaces",
                "sockets_and_drivers",
                "system_calls_asleep",
                "tcp_segments",
                "tunnel_packets",
                "udp_datagrams",
            ];
            let are_hidden = UNREAD.iter().any(|what| facts.is_unread(what));
            let is_past_stack =
                |kind| matches!(kind, SocketKind::Packet | SocketKind::Xdp | SocketKind::Raw);
            let is_uncounted = observation.sockets.iter().any(|one| is_past_stack(one.kind));
            (!are_hidden && !is_uncounted).then_some(0)
        }
    }
}
