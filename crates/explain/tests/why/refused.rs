// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets and connections that the program should have got, and that something else refused,
//! closed or received.

use crate::example::explain;
use crate::example::{observation, packets, privileged, socket, thread};
use crate::seeds::protocols;
use linerate_record::why::Cause::{CannotTell, NothingWrong};
use linerate_record::why::ThreadState::{Asleep, Kernel, User};
use linerate_record::why::{
    KernelEvent, Observation, PacketCount, SleepTime, SocketCounts, SocketKind, TcpCounts,
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
    // It runs now and then, or the port is one that programs share.
    seen.threads[0].voluntary_switches = 20;
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
    seen.threads[0].voluntary_switches = 0;
    seen.sockets[0].local = "0.0.0.0:5353".to_owned();
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

#[test]
fn calls_that_send_nothing_are_named() {
    let mut seen = privileged(udp_server(0.06));
    seen.packets = packets(54_803, 0);
    seen.packets.as_mut().unwrap().counter = PacketCount::DATAGRAMS.to_owned();
    seen.protocols = protocols(&[("Udp.InDatagrams", 40_011), ("Udp.OutDatagrams", 14_800)]);
    seen.events.push(KernelEvent {
        event: "raw_syscalls:sys_enter".to_owned(),
        filter: Some("call sendto".to_owned()),
        is_of_watched: true,
        count: 40_147,
    });
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("25,347 of 40,147 calls to send a datagram (63 %)"));
    // All of them leave, within the error of sampling; or there is another socket to send to.
    seen.protocols.insert("Udp.OutDatagrams".to_owned(), 39_500);
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
    seen.protocols.insert("Udp.OutDatagrams".to_owned(), 14_800);
    seen.sockets.push(socket(SocketKind::Unix, "/dev/log", None));
    assert!(!first(&seen).sentence.contains("calls to send"), "{}", first(&seen).sentence);
}

#[test]
fn a_deferred_accept_is_no_loss_on_the_way() {
    let mut seen = observation(vec![thread("server", 100, &[(Kernel, 0.02), (Asleep, 0.98)])]);
    seen.threads[0].asleep_on = vec![sleep("accept4", 0.98)];
    seen.sockets = vec![socket(SocketKind::TcpListen, "0.0.0.0:80", None)];
    let counts = [("Tcp.RetransSegs", 160), ("Tcp.OutSegs", 1_200)];
    seen.protocols = protocols(&counts);
    let lost = first(&seen).sentence;
    assert!(lost.contains("lost in transit"), "{lost}");
    // Requests that follow the handshake at once, and losses.
    seen.protocols.insert("TcpExt.TCPDeferAcceptDrop".to_owned(), 160);
    assert!(first(&seen).sentence.contains("lost in transit"), "{}", first(&seen).sentence);
    seen.protocols.insert("TcpExt.TCPSynRetrans".to_owned(), 160);
    let deferred = first(&seen);
    assert_eq!(deferred.cause, CannotTell, "{}", deferred.sentence);
    assert!(deferred.sentence.contains("the ends of 160 handshakes"), "{}", deferred.sentence);
}
