// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds packets that were lost without showing up in a drop counter: between an interface and IP,
//! between IP and the sockets, or in queueing disciplines of other network namespaces.

use super::facts::Facts;
use linerate_record::why::{InterfaceCounts, KernelEvent, SocketCounts, SocketKind};

/// Minimum fraction of the missing packets that the drops with one drop reason must explain. Below
/// it, something else dropped packets too, and the counted drops may be from other namespaces.
const MOST: f64 = 0.8;

/// The kernel's drop reason for packets dropped by firewall rules.
const FIREWALL: &str = "NETFILTER_DROP";

/// Returns whether a loss, out of a number of packets, is larger than what can result from reading
/// the counters one after another: at least 1 % and at least 100 packets.
pub(super) fn is_much(lost: u64, packets: u64) -> bool {
    const SHARE: f64 = 0.01;
    const LEAST: u64 = 100;
    lost >= LEAST && lost as f64 >= SHARE * packets as f64
}

/// Packets that an interface received but that did not reach IP: dropped by an XDP program, a tc
/// filter or an nft netdev chain. They may also be frames for other hosts.
pub(super) struct BeforeIp<'a> {
    pub(super) interface: &'a str,
    pub(super) received: u64,
    /// Missing packets that no counter of the interface or of the backlog accounts for.
    pub(super) lost: u64,
    /// The kernel's drop reason for at least the fraction [`MOST`] of the missing packets; `None`
    /// if unknown.
    pub(super) reason: Option<&'static str>,
}

/// Returns the packets that vanished between an interface and IP; `None` if they are few, if the
/// difference may be due to GRO, or if the interface that received them is unknown.
pub(super) fn before_ip<'a>(facts: &Facts<'a>) -> Option<BeforeIp<'a>> {
    /// Minimum mean size of a missing packet, in bytes. GRO merges segments and drops all headers
    /// but one: up to 60 bytes of IP and TCP each.
    const SIZE: f64 = 100.0;
    /// Assumed Ethernet overhead per frame in bytes: the header, and the FCS, a VLAN tag or
    /// padding.
    const FRAMING: u64 = 20;
    /// The kernel's drop reasons between the interface and IP.
    const REASONS: [&str; 4] = [FIREWALL, "XDP", "TC_INGRESS", "NOT_SPECIFIED"];
    /// Maximum ratio of the drops counted under a reason to the missing packets. If it is higher,
    /// any match is a coincidence.
    const AT_MOST: f64 = 1.25;
    let of_ip = |names: [&str; 2]| names.iter().filter_map(|name| facts.protocol(name)).sum();
    facts.protocol("Ip.InReceives")?;
    let (interface, [lo_packets, lo_bytes]) = only_active(facts)?;
    let reached: u64 = of_ip(["Ip.InReceives", "Ip6.InReceives"]);
    let ip_bytes: u64 = of_ip(["IpExt.InOctets", "Ip6.InOctets"]);
    let received = interface.rx_packets;
    let filters = interface.qdiscs.iter().filter(|qdisc| qdisc.is_filter());
    let filtered: u64 = filters.map(|qdisc| qdisc.drops).sum();
    let backlog: u64 = facts.observation.cpus.iter().map(|cpu| cpu.backlog_dropped).sum();
    // The kernel includes backlog drops in the drop counter of the interface.
    let counted = filtered + interface.rx_dropped.max(backlog);
    let lost = (received + lo_packets).saturating_sub(reached + counted);
    if !is_much(lost, received) {
        return None;
    }
    let missing_bytes = (interface.rx_bytes + lo_bytes) as f64
        - ip_bytes as f64
        - (FRAMING * (received + lo_packets)) as f64
        - counted as f64 * interface.rx_bytes as f64 / received as f64;
    let is_merged = missing_bytes < SIZE * lost as f64;
    let explains = |dropped: u64| (MOST..=AT_MOST).contains(&(dropped as f64 / lost as f64));
    let reason =
        REASONS.into_iter().find(|reason| dropped_for(facts, reason).is_some_and(explains));
    let is_lost = reason.is_some() || !has_drop_reasons(facts) && !is_merged;
    is_lost.then_some(BeforeIp { interface: &interface.name, received, lost, reason })
}

/// Returns the interface that received nearly all packets of the namespace, and the packets and
/// bytes of the loopback interface; `None` if several interfaces are active, because one may pass
/// its packets to another, or if a packet or AF_XDP socket may take them.
fn only_active<'a>(facts: &Facts<'a>) -> Option<(&'a InterfaceCounts, [u64; 2])> {
    /// Maximum fraction of packets received by other interfaces.
    const OTHERS: f64 = 0.001;
    let is_tap = |kind| matches!(kind, SocketKind::Xdp | SocketKind::Packet);
    if facts.observation.sockets.iter().any(|socket| is_tap(socket.kind)) {
        return None;
    }
    let (lo, others): (Vec<_>, Vec<_>) =
        facts.observation.interfaces.iter().partition(|interface| interface.name == "lo");
    let all: u64 = others.iter().map(|one| one.rx_packets).sum();
    let most = others.into_iter().max_by_key(|one| one.rx_packets)?;
    let lo = lo.first().map_or([0, 0], |lo| [lo.rx_packets, lo.rx_bytes]);
    ((all - most.rx_packets) as f64 <= OTHERS * all as f64).then_some((most, lo))
}

/// Packets that disappeared in the IP layer of the network namespace, including packets that
/// firewall rules dropped before IP.
pub(super) struct Vanished {
    /// Packets that reached IP, or that firewall rules dropped before IP.
    pub(super) received: u64,
    /// Packets that IP delivered, forwarded or counted as dropped.
    pub(super) left: u64,
    /// Missing packets that firewall rules dropped; `None` if unknown: the kernel's drop reasons
    /// were not read, or firewall rules dropped too few packets to explain the loss.
    pub(super) by_firewall: Option<u64>,
}

impl Vanished {
    /// Returns the number of packets that no IP counter accounts for.
    pub(super) fn lost(&self) -> u64 {
        self.received.saturating_sub(self.left)
    }
}

/// Returns the packets that vanished between IP and the sockets; `None` if IP counters were not
/// read.
pub(super) fn vanished(facts: &Facts<'_>) -> Option<Vanished> {
    /// Counters of packets that leave IP. Fragments arrive separately and are delivered as one
    /// packet.
    const LEAVE: [&str; 10] = [
        "Ip.InDelivers",
        "Ip.ForwDatagrams",
        "Ip.InDiscards",
        "Ip.InHdrErrors",
        "Ip.InAddrErrors",
        "Ip.InUnknownProtos",
        "Ip.ReasmReqds",
        "IpExt.InNoRoutes",
        "IpExt.InTruncatedPkts",
        "TcpExt.IPReversePathFilter",
    ];
    let received = facts.protocol("Ip.InReceives")?;
    let before = before_ip(facts).filter(|before| before.reason == Some(FIREWALL));
    let received = received + before.map_or(0, |before| before.lost);
    let left = LEAVE.iter().filter_map(|name| facts.protocol(name)).sum();
    let lost = received.saturating_sub(left);
    let by_firewall = by_firewall(facts, lost, discarded_on_output(facts));
    (received > 0).then_some(Vanished { received, left, by_firewall })
}

/// Returns a lower bound on how many of `lost` packets firewall rules dropped; `None` if their
/// drops do not explain the loss. The tracepoint counts their drops in all network namespaces, and
/// in both directions: the drops may also explain `others`, the packets of this namespace that were
/// lost in the other direction. A full connection tracking table drops packets for the same reason;
/// these are subtracted. If there are more drops than packets lost here, firewall rules dropped
/// packets elsewhere, perhaps all of them.
fn by_firewall(facts: &Facts<'_>, lost: u64, others: u64) -> Option<u64> {
    /// Maximum ratio of drops to packets lost here; above 1, because the counters are read one
    /// after another.
    const AT_MOST: f64 = 1.25;
    let dropped = dropped_for(facts, FIREWALL)?;
    let by_table = table_full(facts).map_or(0, |[_, most]| most);
    let here = dropped.saturating_sub(by_table).saturating_sub(others).min(lost);
    let are_here = dropped as f64 <= AT_MOST * (lost + others) as f64;
    (are_here && here > 0 && here as f64 >= MOST * lost as f64).then_some(here)
}

/// Returns the packets that IP discarded on output; 0 if they were not counted.
fn discarded_on_output(facts: &Facts<'_>) -> u64 {
    facts.observation.discarded_on_output().unwrap_or(0)
}

/// Packets sent by programs in the network namespace but discarded by the IP layer.
pub(super) struct Discarded {
    /// Packets passed to IP.
    pub(super) sent: u64,
    /// Discarded packets that firewall rules dropped; `None` if unknown, as for
    /// [`Vanished::by_firewall`].
    pub(super) by_firewall: Option<u64>,
}

/// Returns the packets that IP discarded on output; `None` if IP counters were not read.
pub(super) fn discarded(facts: &Facts<'_>) -> Option<Discarded> {
    facts.protocol("Ip.OutDiscards")?;
    let lost = discarded_on_output(facts);
    let sent = facts.protocol("Ip.OutRequests")?.max(lost);
    let vanished = vanished(facts).map_or(0, |vanished| vanished.lost());
    let by_firewall = by_firewall(facts, lost, vanished);
    Some(Discarded { sent, by_firewall })
}

/// Returns the number of packets that firewall rules dropped outside the IPv4 path of this network
/// namespace: in another namespace, or on a bridge. `None` if drop reasons or IP counters were not
/// read.
pub(super) fn firewall_dropped_elsewhere(facts: &Facts<'_>) -> Option<u64> {
    let here = vanished(facts)?.lost() + facts.protocol("Ip.OutDiscards")?;
    Some(dropped_for(facts, FIREWALL)?.saturating_sub(here))
}

/// Returns the number of datagrams dropped at full receive buffers of other programs in the network
/// namespace, if the program uses UDP and the number is large. If both ends are on one machine,
/// these may be the datagrams that the program sends.
pub(super) fn dropped_by_receivers(facts: &Facts<'_>) -> Option<u64> {
    let is_udp = |socket: &&SocketCounts| socket.kind == SocketKind::Udp;
    let udp: Vec<_> = facts.observation.sockets.iter().filter(is_udp).collect();
    udp.first()?;
    let own: u64 = udp.iter().filter_map(|socket| socket.drops).sum();
    let all = facts.observation.full_udp_buffers().saturating_sub(own);
    is_much(all, facts.datagrams("OutDatagrams")?).then_some(all)
}

/// Returns the minimum and maximum number of packets of new connections that were dropped because
/// the connection tracking table was full; `None` if its counters were not read. A packet whose
/// connection is added by another packet at the same time (two DNS queries from one port) counts as
/// a failed insertion, and also as dropped if it cannot be assigned to that connection
/// (nf_ct_resolve_clash).
///
/// Since Linux 5.15, packets of new connections are also dropped if too many connections have the
/// same hash; these are in both bounds.
pub(super) fn table_full(facts: &Facts<'_>) -> Option<[u64; 2]> {
    let long_chains = long_chains(facts)?;
    let clashes = facts.protocol("Conntrack.insert_failed")?.saturating_sub(long_chains);
    let drops = facts.protocol("Conntrack.drop")?;
    Some([drops.saturating_sub(clashes), drops].map(|count| count + long_chains))
}

/// Returns the number of packets of new connections that were dropped because too many connections
/// had the same hash in the connection tracking table; `None` if its counters were not read.
pub(super) fn long_chains(facts: &Facts<'_>) -> Option<u64> {
    facts.protocol("Conntrack.chainlength")
}

/// Datagrams that arrive in fragments.
pub(super) struct Fragmented {
    /// Reassembled datagrams.
    pub(super) complete: u64,
    /// Reassembly failures: incomplete datagrams, or single fragments that were rejected.
    pub(super) failures: u64,
    /// Reassembly failures because a fragment did not arrive in time.
    pub(super) late: u64,
}

/// Returns the reassembly counters; `None` if IP counters were not read.
pub(super) fn fragmented(facts: &Facts<'_>) -> Option<Fragmented> {
    let of_both = |name: &str| {
        let counts = ["Ip", "Ip6"].map(|protocol| facts.protocol(&format!("{protocol}.{name}")));
        counts.into_iter().flatten().reduce(|a, b| a + b)
    };
    Some(Fragmented {
        complete: of_both("ReasmOKs")?,
        failures: of_both("ReasmFails")?,
        late: of_both("ReasmTimeout")?,
    })
}

/// Returns how many packets of the program's protocols had a wrong checksum, and how many arrived;
/// `None` if the counters were not read.
pub(super) fn bad_checksums(facts: &Facts<'_>) -> Option<(u64, u64)> {
    let has = |kinds: &[SocketKind]| {
        facts.observation.sockets.iter().any(|socket| kinds.contains(&socket.kind))
    };
    let udp = has(&[SocketKind::Udp])
        .then(|| Some((facts.datagrams("InCsumErrors")?, facts.datagrams("InDatagrams")?)));
    let tcp = has(&[SocketKind::Tcp, SocketKind::TcpListen])
        .then(|| Some((facts.protocol("Tcp.InCsumErrors")?, facts.protocol("Tcp.InSegs")?)));
    let counts = udp.into_iter().chain(tcp).flatten();
    counts.reduce(|a, b| (a.0 + b.0, a.1 + b.1))
}

/// Returns how many packets the kernel dropped for a reason, such as `QDISC_DROP`, in all network
/// namespaces; `None` if drop reasons were not read.
pub(super) fn dropped_for(facts: &Facts<'_>, reason: &str) -> Option<u64> {
    let is_reason = |filter: &str| filter.strip_prefix("reason ") == Some(reason);
    let of_reason = drops(facts).filter(|event| event.filter.as_deref().is_some_and(is_reason));
    let count = of_reason.map(|event| event.count).sum();
    has_drop_reasons(facts).then_some(count)
}

/// Returns whether drop reasons were read on all CPUs. Without permission, no drops are counted;
/// kernels before 5.17 count them, but give no reasons.
pub(super) fn has_drop_reasons(facts: &Facts<'_>) -> bool {
    if facts.is_unread("drop_reasons") {
        return false;
    }
    let has_reasons = drops(facts).any(|event| event.filter.is_some());
    drops(facts).any(|event| event.filter.is_none() && (has_reasons || event.count == 0))
}

/// Iterates over the counts of dropped packets: all of them, and those for each reason.
fn drops<'a>(facts: &Facts<'a>) -> impl Iterator<Item = &'a KernelEvent> {
    facts.observation.events.iter().filter(|event| event.event == "skb:kfree_skb")
}
