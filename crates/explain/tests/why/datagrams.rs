// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP over IPv6, which the kernel counts separately: most datagrams of a server on both.

use crate::example::{observation, packets, socket, thread};
use crate::seeds::{protocols, socket_buffer};
use linerate_explain::why::explain;
use linerate_record::why::Cause::{BadChecksum, CannotTell, NothingWrong, SocketBuffer};
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
