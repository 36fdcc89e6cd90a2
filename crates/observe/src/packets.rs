// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects the counter of packets handled by the observed threads.

use linerate_record::why::{PacketCount, Unread};

/// Counters at the end of a slice; `None` if unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    /// Time of the read, in seconds. A program that is waiting for a CPU replies late.
    pub(crate) at_s: f64,
    /// Packets that the program reports as received, or as sent if that is more, and the bytes if
    /// it reports them.
    pub(crate) program: Option<(u64, Option<u64>)>,
    /// Segments and bytes on the program's TCP connections.
    pub(crate) tcp: Option<(u64, u64)>,
    /// TCP segments in the namespace, if they all belong to the observed processes.
    pub(crate) tcp_of_namespace: Option<u64>,
    /// Packets and bytes received by the interfaces of the program's packet sockets.
    pub(crate) interface: Option<(u64, u64)>,
    /// Packets dropped by these packet sockets since the start of the window; `None` if a socket
    /// does not report them.
    pub(crate) packet_drops: Option<u64>,
    /// Packets and bytes sent by the interfaces of the program's packet sockets.
    pub(crate) interface_tx: Option<(u64, u64)>,
    /// Packets and bytes that pass the TUN devices that the program has open.
    pub(crate) tunnel: Option<(u64, u64)>,
    /// UDP datagrams in the namespace, if all its UDP sockets are observed.
    pub(crate) udp: Option<u64>,
}

/// A counter's value: packets and bytes.
type Reading = (u64, Option<u64>);

/// Extracts a counter's value.
type Counter<'a> = &'a dyn Fn(&Counts) -> Option<Reading>;

/// Returns the best counter: the program's own, or else the available one with the highest count.
///
/// `interface` and `tunnel` are the names of the packet sockets' interfaces and of the TUN devices.
pub(crate) fn choose(
    reads: &[Counts],
    program: &str,
    interface: &str,
    tunnel: &str,
) -> (Option<PacketCount>, Vec<f64>) {
    let of_program = |counts: &Counts| counts.program;
    let of_tcp = |counts: &Counts| counts.tcp.map(|(packets, bytes)| (packets, Some(bytes)));
    let of_interface = |counts: &Counts| {
        let (packets, bytes) = counts.interface?;
        // The bytes include those of dropped packets.
        let dropped = counts.packet_drops.unwrap_or(0);
        Some((packets.saturating_sub(dropped), (dropped == 0).then_some(bytes)))
    };
    let of_sent =
        |counts: &Counts| counts.interface_tx.map(|(packets, bytes)| (packets, Some(bytes)));
    let of_tunnel = |counts: &Counts| counts.tunnel.map(|(packets, bytes)| (packets, Some(bytes)));
    let of_udp = |counts: &Counts| counts.udp.map(|packets| (packets, None));
    let of_namespace = |counts: &Counts| counts.tcp_of_namespace.map(|packets| (packets, None));
    let is_less = reads.last().is_some_and(|last| last.packet_drops.is_some_and(|n| n > 0));
    let less = if is_less { " minus drops at its packet sockets" } else { "" };
    let others: [(Counter<'_>, String); 6] = [
        (&of_namespace, "TCP segments received and sent in its network namespace".to_owned()),
        (&of_tcp, "segments received and sent on its TCP connections".to_owned()),
        (&of_interface, format!("{interface} rx_packets{less}")),
        (&of_sent, format!("{interface} tx_packets")),
        (&of_tunnel, format!("packets through {tunnel}")),
        (&of_udp, "UDP datagrams in its network namespace".to_owned()),
    ];
    let best = || {
        let counted =
            others.iter().filter_map(|(of, name)| count(reads, of, name).map(|c| (c, *of)));
        counted.filter(|(count, _)| count.packets > 0).max_by_key(|(count, _)| count.packets)
    };
    let own = count(reads, &of_program, program).map(|count| (count, &of_program as Counter<'_>));
    match own.or_else(best) {
        Some((count, of)) => (Some(count), rates(reads, of)),
        None => (None, Vec::new()),
    }
}

/// Explains why the packets of the program's TUN devices are not counted.
pub(crate) fn hidden_tunnels(tunnels: &str) -> Unread {
    Unread {
        what: "tunnel_packets".to_owned(),
        reason: format!(
            "the TUN device {tunnels}, which the program has open, is in another network namespace"
        ),
        fix: None,
    }
}

/// Returns a counter's increase over the window; `None` if it is missing at one end or went
/// backwards.
fn count(
    reads: &[Counts],
    of: &dyn Fn(&Counts) -> Option<Reading>,
    name: &str,
) -> Option<PacketCount> {
    let (first, last) = (of(reads.first()?)?, of(reads.last()?)?);
    let bytes = last.1.zip(first.1).and_then(|(last, first)| last.checked_sub(first));
    let packets = last.0.checked_sub(first.0)?;
    Some(PacketCount { packets, bytes, counter: name.to_owned() })
}

/// Returns packets per second in each slice; 0 for a slice without a reading.
fn rates(reads: &[Counts], of: &dyn Fn(&Counts) -> Option<Reading>) -> Vec<f64> {
    let rate = |pair: &[Counts]| {
        let more = of(&pair[1])?.0.checked_sub(of(&pair[0])?.0)?;
        let seconds = pair[1].at_s - pair[0].at_s;
        (seconds > 0.0).then(|| more as f64 / seconds)
    };
    reads.windows(2).map(|pair| rate(pair).unwrap_or(0.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_counter_is_the_best() {
        let reads = [10, 30].map(|n| Counts {
            at_s: n as f64 / 40.0,
            program: Some((n, None)),
            udp: Some(1000 * n),
            ..Counts::default()
        });
        let (count, rates) = choose(&reads, "telemetry", "v2", "");
        let count = count.unwrap();
        assert_eq!((count.packets, count.counter.as_str(), rates), (20, "telemetry", vec![40.0]));
    }

    #[test]
    fn else_the_one_that_counted_most() {
        let reads = [1, 2].map(|n| Counts {
            tcp: Some((n, 100 * n)),
            interface: Some((50 * n, 3000 * n)),
            ..Counts::default()
        });
        let (count, _) = choose(&reads, "", "v2", "");
        let count = count.unwrap();
        assert_eq!((count.packets, count.bytes), (50, Some(3000)));
        assert_eq!(count.counter, "v2 rx_packets");
    }

    #[test]
    fn packets_that_a_packet_socket_dropped_did_not_reach_the_program() {
        let reads = [1, 2].map(|n| Counts {
            interface: Some((50 * n, 3000 * n)),
            packet_drops: Some(40 * (n - 1)),
            ..Counts::default()
        });
        let (count, _) = choose(&reads, "", "v2", "");
        let count = count.unwrap();
        assert_eq!((count.packets, count.bytes), (10, None));
        assert_eq!(count.counter, "v2 rx_packets minus drops at its packet sockets");
    }

    #[test]
    fn packets_of_a_vpn_pass_its_tun_device() {
        let reads = [1, 2].map(|n| Counts {
            tunnel: Some((300 * n, 9000 * n)),
            udp: Some(280 * n),
            ..Counts::default()
        });
        let (count, _) = choose(&reads, "", "", "tun0");
        let count = count.unwrap();
        assert_eq!((count.packets, count.counter.as_str()), (300, "packets through tun0"));
    }

    #[test]
    fn what_only_sends_is_counted_where_it_sends() {
        let reads = [1, 2].map(|n| Counts {
            interface: Some((n, 70 * n)),
            interface_tx: Some((1000 * n, 64_000 * n)),
            ..Counts::default()
        });
        let (count, _) = choose(&reads, "", "v1", "");
        let count = count.unwrap();
        assert_eq!((count.packets, count.counter.as_str()), (1000, "v1 tx_packets"));
    }

    #[test]
    fn counters_that_go_backwards_or_are_not_there_say_nothing() {
        let backwards = [3, 2].map(|n| Counts { udp: Some(n), ..Counts::default() });
        assert_eq!(choose(&backwards, "", "", ""), (None, vec![]));
        assert_eq!(choose(&[], "", "", ""), (None, vec![]));
        let idle = [Counts { tcp: Some((5, 5)), ..Counts::default() }; 2];
        assert_eq!(choose(&idle, "", "", ""), (None, vec![]));
    }
}
