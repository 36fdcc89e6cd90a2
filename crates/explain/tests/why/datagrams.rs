// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP over IPv6, which the kernel counts separately: most datagrams of a server on both.

use crate::example::explain;
use crate::example::{dropped, observation, packets, socket, thread};
use crate::seeds::{protocols, socket_buffer};
use linerate_record::why::Cause::{
    BadChecksum, CannotTell, NothingWrong, SocketBuffer, WaitingForPeer,
};
use linerate_record::why::SocketKind;
use linerate_record::why::ThreadState::{Asleep, Kernel, User};

#[test]
fn drops_are_compared_with_the_datagrams_of_both_versions_of_ip() {
    let with = |v6: u64| {
        let mut seen = socket_buffer();
        seen.sockets[0].drops = Some(1_000);
        let counts = [
            ("Udp.InDatagrams", 100),
            ("Udp6.InDatagrams", v6),
            ("Udp.RcvbufErrors", 100),
            ("Udp6.RcvbufErrors", 900),
        ];
        (seen.protocols, seen.packets) = (protocols(&counts), None);
        explain(&seen).remove(0)
    };
    // 1,000 of 2,000,100 datagrams.
    let few = with(2_000_000);
    assert_eq!(few.cause, NothingWrong, "{}", few.sentence);
    // 1,000 of 101,100 datagrams: about 1 %, not nine tenths.
    let many = with(100_000);
    assert_eq!(many.cause, SocketBuffer, "{}", many.sentence);
    let gain = many.gain.percent.as_number().unwrap();
    assert!((0.5..2.0).contains(&gain), "{:?}", many.gain);
}

#[test]
fn checksums_of_both_versions_of_ip_count() {
    let mut seen = socket_buffer();
    seen.sockets[0].drops = Some(0);
    let counts = [("Udp.InDatagrams", 100), ("Udp6.InDatagrams", 100_000)];
    seen.protocols = protocols(&counts);
    seen.protocols.insert("Udp.InCsumErrors".to_owned(), 50);
    let few = explain(&seen).remove(0);
    assert_ne!(few.cause, BadChecksum, "{}", few.sentence);
    seen.protocols.insert("Udp6.InCsumErrors".to_owned(), 5_000);
    let many = explain(&seen).remove(0);
    assert_eq!(many.cause, BadChecksum, "{}", many.sentence);
    assert!(many.sentence.contains("5,050 packets"), "{}", many.sentence);
}

#[test]
fn a_resolver_over_ipv6_asks_too() {
    let mut server = thread("server", 100, &[(User, 0.05), (Kernel, 0.05), (Asleep, 0.9)]);
    server.asleep_on = vec![linerate_record::why::SleepTime {
        on: "recvfrom".to_owned(),
        share: 0.9,
        object: Some("udp [2001:db8::1]:40001".to_owned()),
        holder: None,
    }];
    let mut seen = observation(vec![server]);
    seen.sockets = vec![
        socket(SocketKind::Udp, "[2001:db8::1]:40001", None),
        socket(SocketKind::TcpListen, "[::]:80", None),
    ];
    let counts = [("Tcp.InSegs", 1_000), ("Udp6.InDatagrams", 500), ("Udp6.OutDatagrams", 500)];
    (seen.protocols, seen.packets) = (protocols(&counts), packets(25_000, 2_500_000));
    let finding = explain(&seen).remove(0);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("500 datagrams arrived"), "{}", finding.sentence);
}

#[test]
fn a_name_server_that_does_not_answer_is_no_busy_peer() {
    // python's gethostbyname with a first name server that is down, and tcpdump without -n.
    let waiting = |object: &str, sleeps: u64, arrived: u64, sent: u64| {
        let mut client = thread("client", 100, &[(User, 0.001), (Kernel, 0.001), (Asleep, 0.998)]);
        client.voluntary_switches = sleeps;
        client.asleep_on = vec![linerate_record::why::SleepTime {
            on: "poll".to_owned(),
            share: 0.96,
            object: Some(format!("{object} to 10.0.0.9:53")),
            holder: None,
        }];
        let mut seen = observation(vec![client]);
        seen.sockets = vec![
            socket(SocketKind::Packet, "eth0", None),
            socket(SocketKind::Udp, "10.0.0.1:56746", Some("10.0.0.9:53")),
        ];
        seen.protocols = protocols(&[("Udp.InDatagrams", arrived), ("Udp.OutDatagrams", sent)]);
        explain(&seen).remove(0)
    };
    for (object, sleeps, arrived, sent) in
        [("udp", 20, 10, 20), ("udp", 2000, 10, 20), ("udp 10.0.0.1:56746", 1, 0, 1)]
    {
        let silent = waiting(object, sleeps, arrived, sent);
        assert_eq!(silent.cause, WaitingForPeer, "{}", silent.sentence);
        assert!(silent.sentence.contains("10.0.0.9:53, which does not"), "{}", silent.sentence);
        let gain = silent.gain.percent.estimate().unwrap();
        assert!(gain.high > 2000.0, "{gain:?}");
        assert!(!silent.fix.as_ref().unwrap().contains("in flight"), "{:?}", silent.fix);
    }
    // One that answers, while other datagrams are sent that need no reply (statsd, syslog).
    let mixed = waiting("udp", 2000, 10, 30);
    assert!(!mixed.sentence.contains("does not"), "{}", mixed.sentence);
    // One that answers each query, at once or after a second.
    for sleeps in [20, 2000] {
        let answering = waiting("udp", sleeps, 20, 20);
        assert!(!answering.sentence.contains("does not"), "{}", answering.sentence);
    }
}

#[test]
fn the_memory_of_all_udp_sockets_may_be_the_limit() {
    let mut seen = crate::example::privileged(socket_buffer());
    seen.sockets[0].drops = Some(8_176);
    seen.protocols = protocols(&[("Udp.InDatagrams", 12_000)]);
    seen.packets = packets(12_000, 6_000_000);
    seen.events = vec![dropped(None, 8_181), dropped(Some("PROTO_MEM"), 8_181)];
    let finding = explain(&seen).remove(0);
    assert_eq!(finding.cause, SocketBuffer, "{}", finding.sentence);
    assert!(finding.sentence.contains("net.ipv4.udp_mem"), "{}", finding.sentence);
    assert!(finding.fix.as_ref().unwrap().contains("udp_mem"), "{:?}", finding.fix);
    let gain = finding.gain.percent.as_number().unwrap();
    assert!((60.0..75.0).contains(&gain), "{:?}", finding.gain);
    let ledger = linerate_record::why::ledger::ledger(&seen);
    assert_eq!(ledger.lost(), Some(8_176));
    // Counted by the protocol, as older kernels do, without drop reasons.
    seen.events.clear();
    seen.protocols.insert("Udp.MemErrors".to_owned(), 8_176);
    assert!(explain(&seen)[0].sentence.contains("net.ipv4.udp_mem"));
    // Neither counted nor traced.
    seen.protocols.remove("Udp.MemErrors");
    let unknown = explain(&seen).remove(0);
    assert_eq!(unknown.cause, CannotTell, "{}", unknown.sentence);
    assert!(unknown.sentence.contains("net.ipv4.udp_mem"), "{}", unknown.sentence);
    // A full receive buffer.
    seen.protocols.insert("Udp.RcvbufErrors".to_owned(), 8_176);
    assert!(explain(&seen)[0].sentence.contains("receive buffer"));
}

#[test]
fn memory_that_tcp_lacks_is_not_that_of_udp() {
    let with = |full: u64| {
        let mut seen = crate::example::privileged(socket_buffer());
        seen.sockets[0].drops = Some(1_000);
        seen.protocols = protocols(&[("Udp.InDatagrams", 12_000), ("Udp.RcvbufErrors", full)]);
        seen.packets = packets(12_000, 6_000_000);
        seen.events = vec![dropped(None, 1_600), dropped(Some("PROTO_MEM"), 600)];
        explain(&seen).remove(0)
    };
    for full in [1_000, 950, 600] {
        let finding = with(full);
        assert_eq!(finding.cause, SocketBuffer, "{}", finding.sentence);
        assert!(finding.sentence.contains("its receive buffer"), "{}", finding.sentence);
    }
    assert!(with(0).sentence.contains("net.ipv4.udp_mem"), "{}", with(0).sentence);
}

#[test]
fn datagrams_of_others_make_no_server_silent() {
    let with = |server: &str, sent: u64, sleeps: u64, is_shared: bool| {
        let mut client = thread("client", 100, &[(User, 0.001), (Kernel, 0.001), (Asleep, 0.998)]);
        client.voluntary_switches = sleeps;
        client.asleep_on = vec![linerate_record::why::SleepTime {
            on: "recvfrom".to_owned(),
            share: 0.99,
            object: Some(format!("udp 10.0.0.1:4500 to {server}")),
            holder: None,
        }];
        let mut seen = observation(vec![client]);
        seen.sockets = vec![socket(SocketKind::Udp, "10.0.0.1:4500", Some(server))];
        seen.protocols = protocols(&[("Udp.InDatagrams", sent / 10), ("Udp.OutDatagrams", sent)]);
        if is_shared {
            seen.unread.push(linerate_record::why::Unread {
                what: "udp_datagrams".to_owned(),
                reason: "other programs have UDP sockets".to_owned(),
                fix: None,
            });
        }
        explain(&seen).remove(0)
    };
    // A tunnel without traffic, next to an upload by another program or by its other threads.
    for (sent, is_shared) in [(50_000, true), (50_000, false), (20, true)] {
        let idle = with("192.0.2.9:4500", sent, 10, is_shared);
        assert_ne!(idle.cause, WaitingForPeer, "{}", idle.sentence);
    }
    // Its own queries, and those of any program to a name server.
    for (server, sent, is_shared) in
        [("192.0.2.9:4500", 20, false), ("192.0.2.9:53", 20, true), ("192.0.2.9:53", 5_000, true)]
    {
        let silent = with(server, sent, 10, is_shared);
        assert_eq!(silent.cause, WaitingForPeer, "{}", silent.sentence);
    }
}
