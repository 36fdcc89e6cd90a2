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
    /// Segments and bytes on all of the program's TCP connections, read after the last slice;
    /// `None` within the window.
    pub(crate) tcp_at_end: Option<(u64, u64)>,
    /// TCP segments in the namespace, if they all belong to the observed processes.
    pub(crate) tcp_of_namespace: Option<u64>,
    /// Packets and bytes received by the interfaces of the program's packet sockets.
    pub(crate) interface: Option<(u64, u64)>,
    /// Packets dropped by the program's packet sockets since the start of the window; `None` if a
    /// socket does not report its drops.
    pub(crate) packet_drops: Option<u64>,
    /// Packets and bytes sent by the interfaces of the program's packet sockets.
    pub(crate) interface_tx: Option<(u64, u64)>,
    /// Counters of the TUN devices that the program has open.
    pub(crate) tunnels: Option<Tunnels>,
    /// UDP datagrams in the namespace, if all its UDP sockets are observed.
    pub(crate) udp: Option<u64>,
}

/// Counters of TUN devices, since they were created: packets and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tunnels {
    /// Number of devices.
    pub(crate) devices: usize,
    /// Packets and bytes written by the program.
    pub(crate) written: (u64, u64),
    /// Packets and bytes read by the program.
    pub(crate) read: (u64, u64),
}

/// A counter's value: packets and bytes.
type Reading = (u64, Option<u64>);

/// Extracts a counter's value.
type Counter<'a> = &'a dyn Fn(&Counts) -> Option<Reading>;

/// The counters of the program's connections are preferred if they reach this fraction of the
/// highest count: they include bytes, and exclude other programs' traffic.
const OF_MOST: f64 = 0.95;

/// Returns the best counter: the program's own counter or, without one, the available counter with
/// the highest count.
///
/// `interface` and `tunnel` are the names of the packet sockets' interfaces and of the TUN devices.
pub(crate) fn choose(
    reads: &[Counts],
    program: &str,
    interface: &str,
    tunnel: &str,
) -> (Option<PacketCount>, Vec<f64>) {
    let of_program = |counts: &Counts| counts.program;
    let in_slices = |counts: &Counts| counts.tcp.map(|(packets, bytes)| (packets, Some(bytes)));
    let of_tcp = |counts: &Counts| {
        counts.tcp?;
        let (packets, bytes) = counts.tcp_at_end.or(counts.tcp)?;
        Some((packets, Some(bytes)))
    };
    let received = |counts: &Counts| counts.interface.map(|(packets, _)| packets);
    let first_received = reads.first().and_then(received).unwrap_or(0);
    let of_interface = |counts: &Counts| {
        let (packets, bytes) = counts.interface?;
        let dropped = counts.packet_drops.unwrap_or(0).min(packets.checked_sub(first_received)?);
        // The bytes include those of dropped packets.
        Some((packets - dropped, (dropped == 0).then_some(bytes)))
    };
    let of_sent =
        |counts: &Counts| counts.interface_tx.map(|(packets, bytes)| (packets, Some(bytes)));
    let devices = reads.last().and_then(|last| last.tunnels).map_or(0, |last| last.devices);
    let tunnels = |counts: &Counts| counts.tunnels.filter(|found| found.devices == devices);
    // A packet forwarded from one TUN device to another is counted by both.
    let of_tunnel = |counts: &Counts| {
        let Tunnels { written, read, .. } = tunnels(counts).filter(|_| devices == 1)?;
        Some((written.0 + read.0, Some(written.1 + read.1)))
    };
    let of_written =
        |counts: &Counts| tunnels(counts).map(|found| (found.written.0, Some(found.written.1)));
    let of_read = |counts: &Counts| tunnels(counts).map(|found| (found.read.0, Some(found.read.1)));
    let of_udp = |counts: &Counts| counts.udp.map(|packets| (packets, None));
    let of_namespace = |counts: &Counts| counts.tcp_of_namespace.map(|packets| (packets, None));
    let is_less = reads.last().is_some_and(|last| last.packet_drops.is_some_and(|n| n > 0));
    let less = if is_less { " minus drops at its packet sockets" } else { "" };
    let others: [(Counter<'_>, String); 8] = [
        (&of_namespace, "TCP segments received and sent in its network namespace".to_owned()),
        (&of_tcp, PacketCount::CONNECTIONS.to_owned()),
        (&of_interface, format!("{interface} rx_packets{less}")),
        (&of_sent, format!("{interface} tx_packets")),
        (&of_tunnel, format!("packets through {tunnel}")),
        (&of_written, format!("packets written to {tunnel}")),
        (&of_read, format!("packets read from {tunnel}")),
        (&of_udp, PacketCount::DATAGRAMS.to_owned()),
    ];
    let best = || {
        let counted =
            others.iter().filter_map(|(of, name)| count(reads, of, name).map(|c| (c, *of)));
        let counted: Vec<_> = counted.filter(|(count, _)| count.packets > 0).collect();
        let most = counted.iter().map(|(count, _)| count.packets).max()?;
        let is_near = |count: &PacketCount| {
            count.counter == PacketCount::CONNECTIONS
                && count.packets as f64 >= OF_MOST * most as f64
        };
        let near = counted.iter().find(|(count, _)| is_near(count));
        near.or_else(|| counted.iter().max_by_key(|(count, _)| count.packets)).cloned()
    };
    let own = count(reads, &of_program, program).map(|count| (count, &of_program as Counter<'_>));
    match own.or_else(best) {
        // What was counted after the last slice is not in its rate.
        Some((count, _)) if count.counter == PacketCount::CONNECTIONS => {
            (Some(count), rates(reads, &in_slices))
        }
        Some((count, of)) => (Some(count), rates(reads, of)),
        None => (None, Vec::new()),
    }
}

/// Explains why the packets of the program's TUN devices are not counted.
pub(crate) fn hidden_tunnels(tunnels: &str) -> Unread {
    Unread {
        what: "tunnel_packets".to_owned(),
        reason: format!(
            "the program has TUN devices open ({tunnels}), at least one of which is in another \
             network namespace"
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

/// Returns packets per second in each slice: the rate of segments that the namespace counted,
/// scaled so that the window has `packets` in total. Empty if the namespace counted none.
pub(crate) fn rates_of_namespace(reads: &[Counts], packets: u64) -> Vec<f64> {
    let of_namespace = |counts: &Counts| counts.tcp_of_namespace.map(|packets| (packets, None));
    let all = count(reads, &of_namespace, "").map_or(0, |count| count.packets);
    if all == 0 {
        return Vec::new();
    }
    let scale = packets as f64 / all as f64;
    rates(reads, &of_namespace).into_iter().map(|rate| rate * scale).collect()
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
    fn the_programs_connections_are_preferred_if_they_count_nearly_as_much() {
        let chosen = |of_connections: u64| {
            let reads = [0, 1].map(|n| Counts {
                tcp: Some((of_connections * n, 2000 * n)),
                tcp_of_namespace: Some(1000 * n),
                ..Counts::default()
            });
            let count = choose(&reads, "", "", "").0.unwrap();
            (count.packets, count.bytes)
        };
        assert_eq!(chosen(960), (960, Some(2000)));
        assert_eq!(chosen(940), (1000, None));
    }

    #[test]
    fn what_came_after_the_last_slice_is_in_the_count_but_not_in_a_rate() {
        let mut reads = [0, 1, 2].map(|n| Counts {
            at_s: n as f64,
            tcp: Some((100 * n, 200 * n)),
            tcp_of_namespace: Some(1000 + 240 * n),
            ..Counts::default()
        });
        reads[2].tcp_at_end = Some((250, 500));
        reads[2].tcp_of_namespace = Some(1360);
        let connections = reads.map(|one| Counts { tcp_of_namespace: None, ..one });
        let (count, rates) = choose(&connections, "", "", "");
        let count = count.unwrap();
        assert_eq!((count.packets, count.bytes), (250, Some(500)));
        assert_eq!(rates, [100.0, 100.0]);
        // The namespace counted 240 of 360 segments in the first slice.
        let rates = rates_of_namespace(&reads, 300);
        assert!((rates[0] - 200.0).abs() < 1e-9 && (rates[1] - 100.0).abs() < 1e-9, "{rates:?}");
        assert!(rates_of_namespace(&connections, 300).is_empty());
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
        let of = |devices: usize, written: u64, read: u64| Counts {
            tunnels: Some(Tunnels { devices, written: (written, 0), read: (read, 0) }),
            ..Counts::default()
        };
        let chosen = |reads: &[Counts]| {
            let (count, _) = choose(reads, "", "", "tun0");
            count.map(|count| (count.packets, count.counter))
        };
        let one = chosen(&[of(1, 10, 20), of(1, 40, 290)]);
        assert_eq!(one, Some((300, "packets through tun0".to_owned())));
        // The totals since the devices were created do not matter.
        let forwarder = chosen(&[of(2, 900, 10), of(2, 900, 290)]);
        assert_eq!(forwarder, Some((280, "packets read from tun0".to_owned())));
        assert_eq!(chosen(&[of(1, 10, 20), of(2, 900, 290)]), None);
    }

    #[test]
    fn more_drops_than_packets_leave_none() {
        let reads = [0, 100].map(|n| Counts {
            interface: Some((1000 + n, 0)),
            packet_drops: Some(2 * n),
            ..Counts::default()
        });
        assert_eq!(choose(&reads, "", "v2", ""), (None, vec![]));
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
