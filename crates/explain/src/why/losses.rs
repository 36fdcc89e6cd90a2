// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that are lost without a drop counter at their place: between IP and the sockets, and in
//! the queueing disciplines of other network namespaces.

use super::facts::Facts;

/// Packets that reached IP in the network namespace but did not leave it.
pub(super) struct Vanished {
    /// Packets that reached IP.
    pub(super) received: u64,
    /// Packets that IP delivered, forwarded or counted as dropped.
    pub(super) left: u64,
    /// The part of the missing packets that firewall rules dropped; `None` if that is unknown: the
    /// kernel's drop reasons were not read, or firewall rules dropped too few to explain them.
    pub(super) by_firewall: Option<u64>,
}

impl Vanished {
    /// Number of packets that no counter of IP accounts for.
    pub(super) fn lost(&self) -> u64 {
        self.received.saturating_sub(self.left)
    }
}

/// Returns the packets that vanished between IP and the sockets; `None` if IP's counters were not
/// read.
pub(super) fn vanished(facts: &Facts<'_>) -> Option<Vanished> {
    /// Counters of packets that leave IP. Fragments are received one by one and delivered as one
    /// packet.
    const LEAVE: [&str; 7] = [
        "Ip.InDelivers",
        "Ip.ForwDatagrams",
        "Ip.InDiscards",
        "Ip.InHdrErrors",
        "Ip.InAddrErrors",
        "Ip.InUnknownProtos",
        "Ip.ReasmReqds",
    ];
    /// Minimum share of the missing packets: below it, something else dropped some of them, and the
    /// firewall may have dropped packets of other namespaces only.
    const MOST: f64 = 0.8;
    let received = facts.protocol("Ip.InReceives").filter(|received| *received > 0)?;
    let left = LEAVE.iter().filter_map(|name| facts.protocol(name)).sum();
    // The tracepoint counts the drops of all namespaces: at most those that vanished here are of
    // this one.
    let lost = received.saturating_sub(left);
    let by_firewall = dropped_for(facts, "NETFILTER_DROP")
        .filter(|dropped| lost > 0 && *dropped as f64 >= MOST * lost as f64)
        .map(|dropped| dropped.min(lost));
    Some(Vanished { received, left, by_firewall })
}

/// Returns the number of packets that the kernel dropped in all network namespaces for a reason,
/// such as `QDISC_DROP`; `None` if drop reasons were not read.
pub(super) fn dropped_for(facts: &Facts<'_>, reason: &str) -> Option<u64> {
    let is_reason = |filter: &str| filter.strip_prefix("reason ") == Some(reason);
    let drops = facts.observation.events.iter().filter(|event| event.event == "skb:kfree_skb");
    let of_reason = drops.filter(|event| event.filter.as_deref().is_some_and(is_reason));
    let count = of_reason.map(|event| event.count).sum();
    (!facts.is_unread("drop_reasons")).then_some(count)
}
