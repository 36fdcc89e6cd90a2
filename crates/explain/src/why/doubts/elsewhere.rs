// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doubts that do not concern the busiest thread: a network namespace that was not read, a full
//! neighbour table, a second socket on the same port that gets no packets.

use super::super::facts::Facts;
use super::super::losses;
use super::super::waits::{self, Wait};
use super::super::words::{label, percent};
use super::segments::{gaps, resent};
use super::{Doubt, read_by_root, too_large, unseen};
use linerate_record::units::grouped;
use linerate_record::why::{SocketCounts, SocketKind, ThreadActivity, ThreadState};

/// Detects a program whose network namespace is not readable. A limiter, a full queue or a slow
/// peer there would go unnoticed. The protocol counters of the namespace are readable by its users,
/// and may show more.
pub(in super::super) fn unread_network(facts: &Facts<'_>) -> Option<Doubt> {
    if !facts.is_unread("sockets_and_drivers") {
        return None;
    }
    let counted = resent(facts)
        .or_else(|| too_large(facts))
        .or_else(|| gaps(facts))
        .or_else(|| unseen::turns_away(facts));
    if let Some(doubt) = counted {
        let root = read_by_root(facts);
        let next = match doubt.next.starts_with(&root) {
            true => doubt.next,
            false => format!("{root}; {}", doubt.next),
        };
        return Doubt::new(doubt.sentence + &doing(facts), next);
    }
    Doubt::new(
        format!(
            "Cannot tell whether something in the program's network namespace is the bottleneck: \
             sockets, interfaces and queueing disciplines there are not readable.{}",
            doing(facts)
        ),
        read_by_root(facts),
    )
}

/// Returns a sentence about the busiest thread; empty if there are no threads.
fn doing(facts: &Facts<'_>) -> String {
    facts.busiest().map_or_else(String::new, |thread| {
        let on_cpu = percent(thread.share_of(ThreadState::is_on_cpu));
        format!(" Thread {} is on a CPU {on_cpu} % of the time.", label(thread))
    })
}

/// Detects a program some of whose processes have sockets in a network namespace that was not read.
pub(in super::super) fn other_namespaces(facts: &Facts<'_>) -> Option<Doubt> {
    let mut unread = facts.observation.unread.iter();
    let unread = unread.find(|unread| unread.what == "other_namespaces")?;
    let next = match (&unread.fix, facts.observation.watched.is_command) {
        (Some(fix), false) => fix.clone(),
        // A command that enters a namespace does so after it was started, and ends with the window.
        _ => "Start the command first, then watch its process in that namespace: linerate why PID"
            .to_owned(),
    };
    Doubt::new(
        format!("Cannot tell what limits the program: {}.{}", unread.reason, doing(facts)),
        next,
    )
}

/// Kernel drop reasons of packets to hosts that have no usable neighbour entry, and what they mean.
const NEIGHBOURS: [(&str, &str); 4] = [
    ("NEIGH_CREATEFAIL", "the neighbour table is full"),
    ("NEIGH_QUEUEFULL", "too many packets were waiting for an address to be resolved"),
    ("NEIGH_FAILED", "no host answered for the address (ARP or neighbour discovery)"),
    ("NEIGH_DEAD", "the neighbour entry was removed meanwhile"),
];

/// Detects outgoing packets that were dropped because the link address of the next hop was not
/// known, for which UDP returns no error. `is_known` selects packets that the program's network
/// namespace counted as discarded, or packets that may have been sent in any namespace.
pub(in super::super) fn neighbours(facts: &Facts<'_>, is_known: bool) -> Option<Doubt> {
    let counts = NEIGHBOURS.map(|(reason, meaning)| {
        (losses::dropped_for(facts, reason).unwrap_or(0), reason, meaning)
    });
    let (dropped, reason, meaning) = counts.into_iter().max_by_key(|(dropped, ..)| *dropped)?;
    let sent = facts.protocol("Ip.OutRequests").or(facts.packets()).unwrap_or(0);
    // IP counts the packets without an entry as discarded, in the namespace that sent them.
    let is_here = reason == "NEIGH_CREATEFAIL"
        && facts.protocol("Ip.OutDiscards").is_some_and(|here| 2 * here >= dropped);
    let all = sent + facts.protocol("Ip6.OutRequests").unwrap_or(0);
    // The drops are counted over all namespaces: the program cannot have sent more than it sent.
    if !losses::is_much(dropped, sent) || is_here != is_known || (!is_here && all < dropped) {
        return None;
    }
    let (claim, whose) = match is_here {
        true => ("what else limits the rate", "sent in the program's network namespace "),
        false => ("whether the program's packets were among those dropped", ""),
    };
    let share = percent(dropped as f64 / sent.max(dropped) as f64);
    let of = if is_here { format!(" ({share} % of all)") } else { String::new() };
    let next = match reason {
        "NEIGH_CREATEFAIL" => {
            "Raise the limits above the number of hosts on all links: sudo sysctl \
             net.ipv4.neigh.default.gc_thresh3=16384 net.ipv4.neigh.default.gc_thresh2=8192 \
             (net.ipv6.neigh for IPv6). All network namespaces share the table, so for a \
             container, run this on the host"
        }
        _ => {
            "Find out which hosts do not answer (ip neigh show nud failed); if they exist, look \
             for lost ARP requests, or route the packets through a gateway"
        }
    };
    Doubt::new(
        format!(
            "Cannot tell {claim}: {} packets {whose}were dropped{of} because {meaning} (drop \
             reason {reason}). Programs that send datagrams do not notice such drops.",
            grouped(dropped)
        ),
        next,
    )
}

/// Detects processes that share a port (SO_REUSEPORT), of which one is busy while another gets no
/// packets: the kernel chooses the socket by the addresses and ports of the flow.
pub(in super::super) fn twin(facts: &Facts<'_>) -> Option<Doubt> {
    /// Minimum CPU demand of the busy thread.
    const BUSY: f64 = 0.7;
    /// Maximum CPU demand of the idle thread.
    const IDLE: f64 = 0.05;
    /// Minimum fraction of time that the idle thread waits for input.
    const WAITS: f64 = 0.9;
    let thread = facts.busiest().filter(|thread| thread.demand() >= BUSY)?;
    let is_shared = |kind| matches!(kind, SocketKind::Udp | SocketKind::TcpListen);
    let sockets = || facts.observation.sockets.iter().filter(|one| is_shared(one.kind));
    let of_thread = sockets().filter(|one| one.pid == thread.pid && one.remote.is_none());
    let is_idle = |socket: &SocketCounts| {
        let mut threads = facts.observation.threads.iter().filter(|one| one.pid == socket.pid);
        let waits = |one: &ThreadActivity| {
            one.demand() <= IDLE && waits::time_in(one, Wait::Input).unwrap_or(0.0) >= WAITS
        };
        threads.clone().any(waits) && threads.all(|one| one.demand() <= IDLE)
    };
    let twins = of_thread.map(|own| {
        let is_twin = |other: &&SocketCounts| {
            (other.kind, other.local.as_str()) == (own.kind, own.local.as_str())
                && other.inode != own.inode
                && other.pid != own.pid
        };
        (own, sockets().filter(is_twin).filter(|other| is_idle(other)).collect::<Vec<_>>())
    });
    let (own, idle) = twins.max_by_key(|(_, idle)| idle.len()).filter(|(_, i)| !i.is_empty())?;
    let others = match idle.as_slice() {
        [one] => format!("process {} with a socket on the same port is", one.pid),
        all => format!("{} processes with sockets on the same port are", all.len()),
    };
    Doubt::new(
        format!(
            "Cannot tell how many flows arrive at {} {}: thread {} needs a CPU {} % of the time, \
             while {others} idle. The kernel chooses the socket by the addresses and ports of a \
             flow (SO_REUSEPORT), so a single flow always reaches the same one.",
            own.kind.label(),
            own.local,
            label(thread),
            percent(thread.demand())
        ),
        format!(
            "Count the clients' addresses and ports (tcpdump -nn -c 1000 -i any port {}): with few \
             flows, use more of them, or attach a program that spreads packets \
             (SO_ATTACH_REUSEPORT_EBPF), or share one socket among the processes",
            own.local.rsplit(':').next().unwrap_or_default()
        ),
    )
}
