// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets and connections that the program should have got, and that something else refused,
//! closed or received.

use crate::example::{observation, packets, socket, thread};
use crate::seeds::protocols;
use linerate_explain::why::explain;
use linerate_record::why::Cause::{CannotTell, ConntrackFull, NothingWrong};
use linerate_record::why::ThreadState::{Asleep, Kernel, User};
use linerate_record::why::{
    Observation, PacketCount, SleepTime, SocketCounts, SocketKind, TcpCounts,
};

fn first(seen: &Observation) -> linerate_record::why::WhyFinding {
    explain(seen).remove(0)
}

fn sleep(on: &str, share: f64) -> SleepTime {
    SleepTime { on: on.to_owned(), share, object: None, holder: None }
}

/// Returns a UDP server on port 9301 that is on a CPU for this share of the time.
fn udp_server(on_cpu: f64) -> Observation {
    let mut server = thread("server", 100, &[(Kernel, on_cpu), (Asleep, 1.0 - on_cpu)]);
    server.asleep_on = vec![sleep("recvfrom", 1.0 - on_cpu)];
    server.voluntary_switches = if on_cpu > 0.0 { 40_000 } else { 0 };
    let mut seen = observation(vec![server]);
    seen.sockets = vec![SocketCounts {
        port_sharers: Some(0),
        ..socket(SocketKind::Udp, "0.0.0.0:9301", None)
    }];
    seen
}

#[test]
fn a_socket_that_shares_its_port_and_receives_nothing_is_named() {
    let mut seen = udp_server(0.0);
    seen.protocols = protocols(&[("Udp.InDatagrams", 25_000), ("Udp.OutDatagrams", 25_000)]);
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
    seen.sockets[0].port_sharers = Some(1);
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("1 socket of other programs is bound to its port 9301"));
    // It receives something.
    seen.sockets[0].receive_queue_max = 2304;
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
}

#[test]
fn a_server_that_answers_only_part_of_its_datagrams_is_not_called_healthy_without_a_remark() {
    let mut seen = udp_server(0.06);
    seen.packets = packets(54_803, 0);
    seen.packets.as_mut().unwrap().counter = PacketCount::DATAGRAMS.to_owned();
    let mut with = |sent| {
        seen.protocols = protocols(&[("Udp.InDatagrams", 40_011), ("Udp.OutDatagrams", sent)]);
        first(&seen)
    };
    let finding = with(14_800);
    assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
    assert!(finding.sentence.contains("sent 37 % as many datagrams"), "{}", finding.sentence);
    // It answers all, or is not a server.
    for sent in [40_000, 100] {
        assert!(!with(sent).sentence.contains("as many datagrams"), "{sent}");
    }
}

#[test]
fn hash_chains_of_connection_tracking_differ_from_a_full_table() {
    let mut seen = udp_server(0.06);
    seen.packets = packets(54_803, 0);
    let counts = [
        ("Ip.InReceives", 40_000),
        ("Ip.InDelivers", 39_744),
        ("Udp.InDatagrams", 39_744),
        ("Conntrack.insert_failed", 256),
        ("Conntrack.chainlength", 256),
    ];
    seen.protocols = protocols(&counts);
    let finding = first(&seen);
    assert_eq!(finding.cause, ConntrackFull, "{}", finding.sentence);
    assert!(finding.sentence.contains("too few buckets for its entries: 256 packets"));
    assert!(finding.fix.as_ref().unwrap().contains("nf_conntrack_buckets"), "{:?}", finding.fix);
    let counts = [
        ("Ip.InReceives", 40_000),
        ("Ip.InDelivers", 39_744),
        ("Udp.InDatagrams", 39_744),
        ("Conntrack.drop", 256),
    ];
    seen.protocols = protocols(&counts);
    let finding = first(&seen);
    assert!(finding.sentence.contains("is full: 256 packets"), "{}", finding.sentence);
    assert!(finding.fix.as_ref().unwrap().contains("nf_conntrack_max"), "{:?}", finding.fix);
}

#[test]
fn connections_from_this_machine_that_are_closed_without_data_are_not_work() {
    let mut server = thread("nginx", 100, &[(User, 0.03), (Kernel, 0.48), (Asleep, 0.49)]);
    server.asleep_on = vec![sleep("epoll_wait", 0.49)];
    let mut seen = observation(vec![server]);
    let accepted = |number: u32, bytes| SocketCounts {
        reads: Some(1),
        tcp: Some(TcpCounts { bytes_received: bytes, bytes_acked: bytes, ..TcpCounts::default() }),
        ..socket(SocketKind::Tcp, "127.0.0.1:80", Some(&format!("127.0.0.1:{}", 40_000 + number)))
    };
    let with = |bytes| {
        let listening = socket(SocketKind::TcpListen, "0.0.0.0:80", None);
        [listening].into_iter().chain((0..20).map(|number| accepted(number, bytes))).collect()
    };
    seen.protocols = protocols(&[
        ("Tcp.ActiveOpens", 100_915),
        ("Tcp.PassiveOpens", 100_914),
        ("Tcp.OutSegs", 848_464),
        ("TcpExt.TCPAbortOnData", 39_721),
    ]);
    seen.sockets = with(0);
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("39,721 were reset"), "{}", finding.sentence);
    // Clients on this machine reset connections on which they got their reply.
    seen.sockets = with(500);
    assert!(!first(&seen).sentence.contains("were reset"), "{}", first(&seen).sentence);
}
