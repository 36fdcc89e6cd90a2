// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packet ledger counts each lost packet once.

use crate::example::{cpu, interface, observation, socket};
use crate::seeds::protocols;
use linerate_record::why::ledger::{Layer, PacketLedger, Whose, ledger};
use linerate_record::why::{CpuCounts, InterfaceCounts, Observation, SocketKind};

#[test]
fn the_ledger_lists_losses_over_ipv6() {
    let mut seen = observation(Vec::new());
    let counts = [
        ("Udp.InDatagrams", 100),
        ("Udp6.InDatagrams", 1_000),
        ("Udp6.InCsumErrors", 5),
        ("Udp6.MemErrors", 7),
        ("Udp6.NoPorts", 9),
    ];
    seen.protocols = protocols(&counts);
    let of_protocols = |rows: PacketLedger| {
        rows.rows.into_iter().find(|row| row.layer == Layer::Protocol).unwrap()
    };
    let row = of_protocols(ledger(&seen));
    assert_eq!((row.packets, ledger(&seen).lost()), (Some(1_100), Some(12)));
    // The program's own socket counts datagrams that the memory limit rejected.
    let mut own = socket(SocketKind::Udp, "[::]:53", None);
    own.drops = Some(7);
    seen.sockets = vec![own];
    let row = of_protocols(ledger(&seen));
    let memory = row.losses.iter().find(|loss| loss.counter == "Udp6.MemErrors").unwrap();
    assert_eq!((memory.whose, ledger(&seen).lost()), (Whose::CountedElsewhere, Some(12)));
}

#[test]
fn a_drop_at_a_backlog_is_counted_once() {
    let lost = |received: [u64; 2], sent: u64, driver: &str, backlog: u64| {
        let [left, right] = received.map(|rx_dropped| InterfaceCounts {
            driver: Some(driver.to_owned()),
            rx_dropped,
            ..interface("v1", 100_000)
        });
        let left = InterfaceCounts { tx_dropped: sent, ..left };
        let cpus = vec![CpuCounts { backlog_dropped: backlog, ..cpu(0, 0.5, 0.1, 0.3) }];
        let seen = Observation { interfaces: vec![left, right], cpus, ..observation(Vec::new()) };
        ledger(&seen).lost()
    };
    assert_eq!(lost([0, 50_000], 0, "virtio_net", 50_000), Some(50_000));
    // Both ends of a veth pair are in the namespace.
    assert_eq!(lost([0, 50_000], 50_000, "veth", 50_000), Some(50_000));
    // A full transmit queue of a NIC is another loss, as are drops of an unknown protocol.
    assert_eq!(lost([0, 50_000], 700, "virtio_net", 50_000), Some(50_700));
    assert_eq!(lost([300, 50_000], 0, "virtio_net", 50_000), Some(50_300));
    // The backlog overflowed in another namespace.
    assert_eq!(lost([0, 0], 0, "veth", 50_000), Some(50_000));
}

#[test]
fn connection_attempts_that_did_not_reach_the_queue_are_not_lost() {
    let with = |overflows: u64| {
        let mut listening = socket(SocketKind::TcpListen, "0.0.0.0:80", None);
        listening.drops = Some(700);
        let counts = [("Tcp.InSegs", 20_000), ("TcpExt.ListenOverflows", overflows)];
        let mut seen = observation(Vec::new());
        (seen.sockets, seen.protocols) = (vec![listening], protocols(&counts));
        ledger(&seen).lost()
    };
    assert_eq!([with(700), with(70), with(0)], [Some(700), Some(70), Some(0)]);
}
