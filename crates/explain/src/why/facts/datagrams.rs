// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts datagrams. IPv4 and IPv6 have separate UDP counters, and a server that uses both is
//! mostly reached over one of them, so all numbers here are sums.

use super::Facts;
use linerate_record::why::{ProgramCounts, SocketKind};

impl Facts<'_> {
    /// Returns a UDP counter such as `InDatagrams`, summed over IPv4 and IPv6; `None` if protocol
    /// counters were not read.
    pub fn datagrams(&self, name: &str) -> Option<u64> {
        let of = |protocol| self.protocol(&format!("{protocol}.{name}"));
        Some(of("Udp")?.saturating_add(of("Udp6")?))
    }

    /// Returns how many packets the program received. For a program that only uses UDP and has no
    /// counters, these are the datagrams of its network namespace, unless other programs receive
    /// datagrams there too; for others, the packets it handled. `None` if they were not counted.
    pub fn packets(&self) -> Option<u64> {
        let program = self.observation.program.as_ref();
        let takes = |kind| self.observation.sockets.iter().any(|socket| socket.kind == kind);
        let is_udp = takes(SocketKind::Udp) && self.connections().next().is_none();
        let is_udp = is_udp && !self.is_unread("udp_datagrams");
        let datagrams = self.datagrams("InDatagrams").filter(|count| is_udp && *count > 0);
        let program = program.and_then(ProgramCounts::of_packets);
        let received = program.and_then(|program| program.received).or(datagrams);
        received.or_else(|| self.observation.packets.as_ref().map(|count| count.packets))
    }

    /// Returns the number of packets in the direction in which the program passes more packets.
    /// System calls per packet are relative to this number: a server that sends each datagram to
    /// many receivers makes many calls per datagram received, and a program that sends in batches
    /// makes few per datagram sent. `None` as for [`Self::packets`].
    pub(in super::super) fn packets_one_way(&self) -> Option<u64> {
        let packets = self.packets()?;
        let is_of_udp = self.datagrams("InDatagrams") == Some(packets);
        let sent = self.datagrams("OutDatagrams").filter(|_| is_of_udp);
        Some(packets.max(sent.unwrap_or(0)))
    }

    /// Returns the datagrams of the network namespace if it is unknown how many of them the program
    /// received, because other programs receive datagrams there too; otherwise `None`.
    pub fn shared_datagrams(&self) -> Option<u64> {
        self.datagrams("InDatagrams").filter(|_| self.is_unread("udp_datagrams"))
    }

    /// Returns whether about as many datagrams were sent as received, as is typical of requests and
    /// replies.
    pub fn asks_by_udp(&self) -> bool {
        let counts = ["InDatagrams", "OutDatagrams"].map(|name| self.datagrams(name));
        let [Some(received), Some(sent)] = counts else { return false };
        received > 0 && sent <= 2 * received && received <= 2 * sent
    }

    /// Returns whether the program has UDP sockets, and hardly any datagrams are sent in its
    /// network namespace.
    pub fn only_receives_datagrams(&self) -> bool {
        /// Maximum ratio of datagrams sent to datagrams received.
        const ANSWERS: f64 = 0.05;
        let has_udp = self.observation.sockets.iter().any(|socket| socket.kind == SocketKind::Udp);
        let counts = ["InDatagrams", "OutDatagrams"].map(|name| self.datagrams(name));
        let [Some(received), Some(sent)] = counts else { return false };
        has_udp && received > 0 && sent as f64 <= ANSWERS * received as f64
    }
}
