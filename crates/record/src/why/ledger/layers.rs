// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the rows of the packet ledger, layer by layer.

use super::{Layer, LedgerRow, Loss, Whose, is_same_unit, tapped};
use crate::why::{InterfaceCounts, Observation, ProgramCounts, SocketCounts, SocketKind};

/// Creates a loss; `None` if `packets` is 0.
fn loss(packets: u64, reason: &str, counter: &str, whose: Whose) -> Option<Loss> {
    let loss = || Loss { packets, reason: reason.to_owned(), counter: counter.to_owned(), whose };
    (packets > 0).then(loss)
}

fn row(
    layer: Layer,
    of: &str,
    packets: Option<u64>,
    counter: &str,
    losses: Vec<Loss>,
) -> LedgerRow {
    LedgerRow {
        layer,
        of: of.to_owned(),
        packets,
        counter: counter.to_owned(),
        losses,
        unaccounted: None,
    }
}

/// Returns, for each interface, how many of its receive and transmit drops are also in the
/// backlog's counter. If a packet does not fit into a CPU's backlog, the kernel also counts a
/// receive drop, and veth a transmit drop at the sending end. The interfaces that the packets came
/// from are unknown, so drops are attributed first to the interfaces with the most drops.
pub(super) fn in_backlog(
    observation: &Observation,
    interfaces: &[&InterfaceCounts],
) -> Vec<[u64; 2]> {
    let of_veth = |of: &InterfaceCounts| match of.driver.as_deref() {
        Some("veth") => of.tx_dropped,
        _ => 0,
    };
    let mut parts: Vec<[u64; 2]> =
        interfaces.iter().map(|of| [of.rx_dropped, of_veth(of)]).collect();
    for side in 0..2 {
        let mut rest = backlog_dropped(observation);
        let mut order: Vec<usize> = (0..parts.len()).collect();
        order.sort_by_key(|&place| std::cmp::Reverse(parts[place][side]));
        for place in order {
            let part = &mut parts[place][side];
            *part = rest.min(*part);
            rest -= *part;
        }
    }
    parts
}

/// Returns the packets dropped at full backlogs of all CPUs.
fn backlog_dropped(observation: &Observation) -> u64 {
    observation.cpus.iter().map(|cpu| cpu.backlog_dropped).sum()
}

const BACKLOG: &str = "backlog full";

pub(super) fn interface_rx(interface: &InterfaceCounts, in_backlog: u64) -> LedgerRow {
    let dropped = interface.rx_dropped.saturating_sub(in_backlog);
    let losses = [
        loss(interface.rx_missed, "NIC receive ring full", "rx_missed_errors", Whose::Shared),
        loss(dropped, "dropped on receive", "rx_dropped", Whose::Shared),
        loss(in_backlog, BACKLOG, "rx_dropped", Whose::CountedElsewhere),
        loss(interface.rx_errors, "receive errors", "rx_errors", Whose::Shared),
        loss(
            interface.rx_no_handler,
            "arrived on an inactive backup link",
            "rx_nohandler",
            Whose::NoProgram,
        ),
    ];
    let losses = losses.into_iter().flatten().collect();
    let packets = Some(interface.rx_packets);
    row(Layer::InterfaceRx, &interface.name, packets, "rx_packets", losses)
}

/// Substrings of driver counter names that identify loss counters.
const DRIVER_LOSSES: [&str; 5] = ["drop", "discard", "no_buf", "nobuf", "allowance_exceeded"];

/// Returns a row with the driver's loss counters. Most of these losses are also in the interface's
/// counters, so they serve only as explanations.
pub(super) fn driver(interface: &InterfaceCounts) -> Option<LedgerRow> {
    let is_loss = |name: &str| DRIVER_LOSSES.iter().any(|word| name.contains(word));
    let counters = interface.driver_counters.iter().filter(|(name, _)| is_loss(name));
    let losses: Vec<Loss> = counters
        .filter_map(|(name, count)| loss(*count, "driver counter", name, Whose::CountedElsewhere))
        .collect();
    let driver = interface.driver.as_deref().unwrap_or("driver");
    let of = format!("{} ({driver})", interface.name);
    let none = "ethtool -S has no counter for delivered packets";
    (!losses.is_empty()).then(|| row(Layer::Driver, &of, None, none, losses))
}

pub(super) fn backlog(observation: &Observation) -> Option<LedgerRow> {
    let processed: u64 = observation.cpus.iter().map(|cpu| cpu.backlog_processed).sum();
    let dropped = backlog_dropped(observation);
    let losses = loss(dropped, BACKLOG, "softnet_stat, column 2", Whose::Shared);
    (processed + dropped > 0).then(|| {
        let counter = "softnet_stat, column 1: all interfaces and namespaces";
        row(Layer::Backlog, "all CPUs", Some(processed), counter, losses.into_iter().collect())
    })
}

const LISTEN_DROPS: &str = "TcpExt.ListenDrops";
const OUT_DISCARDS: &str = "Ip.OutDiscards";
const UDP_MEMORY: &str = "UDP memory limit";

/// Counters of packets lost at the protocol layer, with the reason and whose packets they were.
const PROTOCOL_LOSSES: [(&str, &str, Whose); 19] = [
    ("Ip.InDiscards", "discarded by IP", Whose::Shared),
    ("Ip.InHdrErrors", "bad IP header", Whose::NoProgram),
    ("Ip.InAddrErrors", "not addressed to this machine", Whose::NoProgram),
    ("TcpExt.IPReversePathFilter", "no route back to the source (rp_filter)", Whose::Shared),
    ("Ip.ReasmFails", "fragments not reassembled", Whose::Shared),
    ("Ip6.ReasmFails", "fragments not reassembled", Whose::Shared),
    (OUT_DISCARDS, "discarded by IP on output, for example by a firewall rule", Whose::Shared),
    ("Conntrack.drop", "dropped by connection tracking", Whose::Shared),
    ("Conntrack.chainlength", "too many connections with one hash", Whose::Shared),
    ("Ip.OutNoRoutes", "no route", Whose::NoProgram),
    ("Udp.NoPorts", "no socket on the port", Whose::NoProgram),
    ("Udp6.NoPorts", "no socket on the port", Whose::NoProgram),
    ("Udp.InCsumErrors", "bad checksum", Whose::Shared),
    ("Udp6.InCsumErrors", "bad checksum", Whose::Shared),
    ("Tcp.InCsumErrors", "bad checksum", Whose::Shared),
    ("Udp.MemErrors", UDP_MEMORY, Whose::Shared),
    ("Udp6.MemErrors", UDP_MEMORY, Whose::Shared),
    (LISTEN_DROPS, "connection attempts dropped", Whose::Shared),
    ("TcpExt.TCPBacklogDrop", "socket backlog full", Whose::Shared),
];

pub(super) fn protocol(observation: &Observation) -> Option<LedgerRow> {
    let count = |name: &str| observation.protocols.get(name).copied();
    let received = [count("Udp.InDatagrams"), count("Udp6.InDatagrams"), count("Tcp.InSegs")];
    let packets = received.iter().flatten().copied().reduce(|a, b| a + b);
    // If the program's sockets report these drops themselves, do not count them here too.
    let report = |kind| {
        let reports = |one: &SocketCounts| one.kind == kind && one.drops.is_some();
        observation.sockets.iter().any(reports)
    };
    let [listens, has_udp] = [SocketKind::TcpListen, SocketKind::Udp].map(report);
    let mut losses: Vec<Loss> = PROTOCOL_LOSSES
        .iter()
        .filter_map(|(name, reason, whose)| {
            let is_known = *name == LISTEN_DROPS && listens || *reason == UDP_MEMORY && has_udp;
            let is_of_tcp = *name == LISTEN_DROPS || name.contains("Tcp.") || name.contains(".TCP");
            let whose = match (is_known, is_of_tcp) {
                (true, _) => Whose::CountedElsewhere,
                (false, true) if !observation.may_use_tcp() => Whose::OtherPrograms,
                _ => *whose,
            };
            let packets = match *name {
                OUT_DISCARDS => observation.discarded_on_output(),
                name => count(name),
            };
            loss(packets?, reason, name, whose)
        })
        .collect();
    losses.extend(drop_reasons(observation));
    let counter = "Udp.InDatagrams + Udp6.InDatagrams + Tcp.InSegs in the network namespace";
    let is_there = packets.is_some() || !losses.is_empty();
    is_there.then(|| row(Layer::Protocol, "UDP and TCP", packets, counter, losses))
}

/// Drop reasons of packets that are not lost: queues emptied when a socket closes, duplicates.
const NOT_LOST: [&str; 3] = ["QUEUE_PURGE", "TCP_OLD_DATA", "SKB_CONSUMED"];

/// Returns the drop reasons counted by the tracepoint. Most of these packets are also in other
/// layers' counters, so the reasons serve only as explanations.
fn drop_reasons(observation: &Observation) -> Vec<Loss> {
    let drops = observation.events.iter().filter(|event| event.event == "skb:kfree_skb");
    drops
        .filter_map(|event| {
            let reason = event.filter.as_deref()?;
            if NOT_LOST.iter().any(|word| reason.ends_with(word)) {
                return None;
            }
            let counter = format!("skb:kfree_skb {reason}");
            if reason.ends_with(NO_NEIGHBOUR) {
                let lost = event.count.min(without_neighbour(observation));
                let rest = event.count - lost;
                let elsewhere = loss(rest, "kernel drop reason", &counter, Whose::CountedElsewhere);
                return Some([
                    loss(lost, "neighbour table full", &counter, Whose::Shared),
                    elsewhere,
                ]);
            }
            Some([loss(event.count, "kernel drop reason", &counter, Whose::CountedElsewhere), None])
        })
        .flatten()
        .flatten()
        .collect()
}

/// Drop reason of packets for which no entry could be added to the neighbour table.
const NO_NEIGHBOUR: &str = "NEIGH_CREATEFAIL";

/// Returns an upper bound on the number of the namespace's packets that were dropped for
/// [`NO_NEIGHBOUR`] and are not in any other loss. IP counts such packets as discarded, and UDP
/// counts them as if a send buffer had been full.
fn without_neighbour(observation: &Observation) -> u64 {
    let discards = observation.protocols.get(OUT_DISCARDS).copied().unwrap_or(0);
    let counted = observation.discarded_on_output().unwrap_or(0);
    discards.saturating_sub(counted).saturating_sub(observation.qdisc_drops())
}

/// Returns a row for each of the program's sockets that lost packets or does not report losses.
pub(super) fn sockets(observation: &Observation) -> Vec<LedgerRow> {
    let counts = observation.sockets.iter().filter(|socket| is_counted(socket));
    counts.map(|socket| of_socket(observation, socket)).collect()
}

/// Returns whether a socket lost packets, or is a packet socket whose losses only its owner can
/// read.
fn is_counted(socket: &SocketCounts) -> bool {
    match socket.kind {
        SocketKind::Packet | SocketKind::Xdp => socket.drops != Some(0),
        // TCP drops are mostly duplicates, and TCP retransmits lost segments.
        SocketKind::Tcp => false,
        _ => socket.drops.is_some_and(|drops| drops > 0),
    }
}

/// Returns whether the tracepoint for dropped packets was read, which may give the reasons for
/// drops.
fn has_drops(observation: &Observation) -> bool {
    observation.events.iter().any(|event| event.event == "skb:kfree_skb")
}

fn of_socket(observation: &Observation, socket: &SocketCounts) -> LedgerRow {
    let of = format!("{} {}", socket.kind.label(), socket.local);
    let drops = socket.buffer_drops(observation).unwrap_or(0);
    let rejected = socket.drops.unwrap_or(0).saturating_sub(drops);
    let (reason, other, counter) = match socket.kind {
        SocketKind::TcpListen => (
            "connection attempts dropped",
            "rejected before the accept queue",
            "sock_diag drops beyond ListenOverflows",
        ),
        kind => (
            match socket.out_of_memory(observation) >= 0.5 {
                true => "memory limit of all UDP sockets (net.ipv4.udp_mem)",
                false => "receive buffer full",
            },
            match kind == SocketKind::Udp && !has_drops(observation) {
                true => "rejected by the socket's filter, wrong checksum, or UDP memory limit",
                false => "rejected by the socket's filter, or wrong checksum",
            },
            "sock_diag drops beyond RcvbufErrors and MemErrors",
        ),
    };
    let full = loss(drops, reason, "sock_diag drops", Whose::Program);
    let rejected = loss(rejected, other, counter, Whose::NoProgram);
    let losses = full.into_iter().chain(rejected);
    let counter = match socket.drops {
        Some(_) => "sockets do not count delivered packets",
        None => "drops: readable only by the socket's owner",
    };
    row(Layer::Socket, &of, None, counter, losses.collect())
}

pub(super) fn program(observation: &Observation) -> Option<LedgerRow> {
    let name = &observation.watched.name;
    let Some(program) = observation.program.as_ref().and_then(ProgramCounts::of_packets) else {
        let count = observation.packets.as_ref()?;
        if observation.leaves_packets_unread() {
            let why = format!(
                "the program used too little CPU time to have read the packets in {}",
                count.counter
            );
            return Some(row(Layer::Program, name, None, &why, Vec::new()));
        }
        return Some(row(Layer::Program, name, Some(count.packets), &count.counter, Vec::new()));
    };
    let unit = &program.unit;
    let counter = match program.received {
        Some(_) => format!("{} {unit} received", program.adapter),
        None => format!("{}: received {unit} are not counted", program.adapter),
    };
    let missed = program.missed.and_then(|missed| {
        loss(
            missed,
            "the program did not keep up",
            &format!("{} missed", program.adapter),
            Whose::Program,
        )
    });
    let losses: Vec<Loss> = missed.into_iter().collect();
    let unaccounted = rest(observation, program.received, &losses);
    let row = row(Layer::Program, name, program.received, &counter, losses);
    Some(LedgerRow { unaccounted, ..row })
}

/// Returns how many packets were received by the interface of the program's packet sockets but
/// neither reached the program nor appear in a loss counter; `None` if the counts are not
/// comparable.
fn rest(observation: &Observation, received: Option<u64>, missed: &[Loss]) -> Option<u64> {
    let interface = tapped(observation).filter(|of| is_same_unit(observation, of))?;
    let is_tap = |kind| matches!(kind, SocketKind::Packet | SocketKind::Xdp);
    let taps = observation.sockets.iter().filter(|socket| is_tap(socket.kind));
    let dropped: u64 = taps.filter_map(|socket| socket.drops).sum();
    let missed: u64 = missed.iter().map(|loss| loss.packets).sum();
    let known = received?.saturating_add(dropped).saturating_add(missed);
    Some(interface.rx_packets.saturating_sub(known))
}

pub(super) fn program_tx(observation: &Observation) -> Option<LedgerRow> {
    let program = observation.program.as_ref()?.of_packets()?;
    let sent = program.sent?;
    let counter = format!("{} {} sent", program.adapter, program.unit);
    Some(row(Layer::ProgramTx, &observation.watched.name, Some(sent), &counter, Vec::new()))
}

pub(super) fn qdiscs(observation: &Observation) -> Vec<LedgerRow> {
    let of_interface = |interface: &InterfaceCounts| {
        let counted = interface.qdiscs.iter().filter(|qdisc| qdisc.packets + qdisc.drops > 0);
        let row_of = |qdisc: &crate::why::QdiscCounts| {
            let of = format!("{} {} {}", interface.name, qdisc.kind, qdisc.handle);
            let own = interface.own_drops(qdisc);
            let drops = loss(own, "dropped by the qdisc", "qdisc drops", Whose::Shared);
            let counter = "qdisc packets: one may hold several segments (GSO)";
            let losses = drops.into_iter().collect();
            row(Layer::Qdisc, of.trim_end(), Some(qdisc.packets), counter, losses)
        };
        counted.map(row_of).collect::<Vec<_>>()
    };
    observation.interfaces.iter().flat_map(of_interface).collect()
}

pub(super) fn interface_tx(interface: &InterfaceCounts, in_backlog: u64) -> LedgerRow {
    let reason = match interface.driver.as_deref() {
        Some("tun") => "queue of the TUN device full, or no program attached",
        _ => "dropped on transmit",
    };
    let dropped = interface.tx_dropped.saturating_sub(in_backlog);
    let losses = [
        loss(dropped, reason, "tx_dropped", Whose::Shared),
        loss(in_backlog, BACKLOG, "tx_dropped", Whose::CountedElsewhere),
        loss(interface.tx_errors, "transmit errors", "tx_errors", Whose::Shared),
    ];
    let losses = losses.into_iter().flatten().collect();
    row(Layer::InterfaceTx, &interface.name, Some(interface.tx_packets), "tx_packets", losses)
}
