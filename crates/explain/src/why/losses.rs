// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds packets that were lost without showing up in a drop counter, between IP and the sockets or
//! in queueing disciplines of other network namespaces.

use super::facts::Facts;
use linerate_record::why::SocketKind;

/// Packets that reached IP in the network namespace but did not leave it.
pub(super) struct Vanished {
    /// Packets that reached IP.
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
    const LEAVE: [&str; 8] = [
        "Ip.InDelivers",
        "Ip.ForwDatagrams",
        "Ip.InDiscards",
        "Ip.InHdrErrors",
        "Ip.InAddrErrors",
        "Ip.InUnknownProtos",
        "Ip.ReasmReqds",
        "TcpExt.IPReversePathFilter",
    ];
    /// Minimum fraction of missing packets that firewall drops must explain. Below it, something
    /// else dropped some of them, and the firewall may have dropped only packets of other
    /// namespaces.
    const MOST: f64 = 0.8;
    let received = facts.protocol("Ip.InReceives").filter(|received| *received > 0)?;
    let left = LEAVE.iter().filter_map(|name| facts.protocol(name)).sum();
    // The tracepoint counts drops in all namespaces. At most as many belong to this one as vanished
    // here.
    let lost = received.saturating_sub(left);
    let by_firewall = dropped_for(facts, "NETFILTER_DROP")
        .filter(|dropped| lost > 0 && *dropped as f64 >= MOST * lost as f64)
        .map(|dropped| dropped.min(lost));
    Some(Vanished { received, left, by_firewall })
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
    /// As for [`vanished`].
    const MOST: f64 = 0.8;
    let qdiscs = facts.observation.interfaces.iter().flat_map(|interface| &interface.qdiscs);
    let by_qdiscs: u64 = qdiscs.map(|qdisc| qdisc.drops).sum();
    let lost = facts.protocol("Ip.OutDiscards")?.saturating_sub(by_qdiscs);
    let sent = facts.protocol("Ip.OutRequests")?.max(lost);
    let by_firewall = dropped_for(facts, "NETFILTER_DROP")
        .filter(|dropped| lost > 0 && *dropped as f64 >= MOST * lost as f64)
        .map(|dropped| dropped.min(lost));
    Some(Discarded { sent, by_firewall })
}

/// Datagrams that arrive in fragments.
pub(super) struct Fragmented {
    /// Reassembled datagrams.
    pub(super) complete: u64,
    /// Failures: incomplete datagrams, or single fragments that were rejected.
    pub(super) failures: u64,
    /// Failures because a fragment did not arrive in time.
    pub(super) late: u64,
}

/// Returns what became of fragments; `None` if IP counters were not read.
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
    let udp = has(&[SocketKind::Udp]).then_some(("Udp.InCsumErrors", "Udp.InDatagrams"));
    let tcp = has(&[SocketKind::Tcp, SocketKind::TcpListen])
        .then_some(("Tcp.InCsumErrors", "Tcp.InSegs"));
    let counts = udp.into_iter().chain(tcp);
    let counts = counts.filter_map(|(bad, all)| Some((facts.protocol(bad)?, facts.protocol(all)?)));
    counts.reduce(|a, b| (a.0 + b.0, a.1 + b.1))
}

/// Returns how many packets the kernel dropped for a reason, such as `QDISC_DROP`, in all network
/// namespaces; `None` if drop reasons were not read.
pub(super) fn dropped_for(facts: &Facts<'_>, reason: &str) -> Option<u64> {
    let is_reason = |filter: &str| filter.strip_prefix("reason ") == Some(reason);
    let drops = facts.observation.events.iter().filter(|event| event.event == "skb:kfree_skb");
    let of_reason = drops.filter(|event| event.filter.as_deref().is_some_and(is_reason));
    let count = of_reason.map(|event| event.count).sum();
    (!facts.is_unread("drop_reasons")).then_some(count)
}
