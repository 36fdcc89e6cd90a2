// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that have idle time but are held up nevertheless, so they must not be reported as
//! "nothing is wrong".

use crate::example::explain;
use crate::example::{
    cpu, dropped, features, interface, observation, packets, privileged, qdisc, socket, thread,
};
use linerate_record::why::Cause::{CannotTell, FirewallDrop, NothingWrong, SocketBuffer};
use linerate_record::why::ThreadState::{Asleep, Kernel, User, Waiting};
use linerate_record::why::{
    Observation, QdiscCounts, SleepTime, SocketCounts, SocketKind, TcpCounts, Unread,
};

/// Returns an observation of a UDP server at a tenth of its load.
pub(crate) fn server(counts: &[(&str, u64)]) -> Observation {
    let mut server = thread("server", 100, &[(User, 0.05), (Kernel, 0.05), (Asleep, 0.9)]);
    let object = Some("udp 10.0.0.1:53".to_owned());
    server.asleep_on =
        vec![SleepTime { on: "recvfrom".to_owned(), share: 0.9, object, holder: None }];
    Observation {
        sockets: vec![socket(SocketKind::Udp, "10.0.0.1:53", None)],
        protocols: counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect(),
        packets: packets(25_000, 2_500_000),
        ..observation(vec![server])
    }
}

pub(crate) fn assert_doubt(seen: &Observation, words: &str) {
    let finding = &explain(seen)[0];
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains(words), "{}", finding.sentence);
}

#[test]
fn connection_attempts_without_an_answer_are_not_nothing() {
    // Measured with a client that tries an address without a host for 250 ms before another.
    let with = |attempts: u16, reads: u64, segments_in: u64, waits: f64| {
        let mut client = thread("client", 100, &[(User, 0.01), (Asleep, 0.99)]);
        let object = Some("tcp to 10.9.0.77:9301".to_owned());
        client.asleep_on =
            vec![SleepTime { on: "poll".to_owned(), share: waits, object, holder: None }];
        let attempt = |number: u16| SocketCounts {
            reads: Some(reads),
            tcp: Some(TcpCounts { segments_out: 1, segments_in, ..TcpCounts::default() }),
            ..socket(SocketKind::Tcp, &format!("10.9.0.2:{number}"), Some("10.9.0.77:9301"))
        };
        Observation {
            sockets: (0..attempts).map(|number| attempt(42_000 + number)).collect(),
            packets: packets(220, 0),
            slices: 50,
            ..observation(vec![client])
        }
    };
    assert_doubt(
        &with(18, 2, 0, 0.99),
        "if 10.9.0.77:9301 answered: thread client (100) spends 99 %",
    );
    // The last attempt before the window: its segments were not counted.
    let mut earlier = with(18, 2, 0, 0.99);
    earlier.sockets[17].tcp.as_mut().unwrap().segments_out = 0;
    assert_doubt(&earlier, "none of 17 connection attempts");
    let mut answered = with(18, 2, 0, 0.99);
    answered.sockets[17].tcp.as_mut().unwrap().segments_in = 3;
    // Connections whose peer has fallen silent are no attempts.
    let mut open = with(18, 2, 0, 0.99);
    for socket in &mut open.sockets {
        socket.tcp.as_mut().unwrap().rtt_s = 0.001;
    }
    let healthy = [
        // A server that is down is tried now and then.
        with(2, 10, 0, 0.99),
        // Connections that were opening when they were seen, or that are answered.
        with(18, 1, 0, 0.99),
        with(18, 2, 1, 0.99),
        answered,
        open,
        // The program hardly waits for it.
        with(18, 2, 0, 0.1),
    ];
    for seen in healthy {
        let finding = &explain(&seen)[0];
        assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
    }
}

#[test]
fn packets_that_vanish_behind_ip_are_counted() {
    let udp = ("Udp.InDatagrams", 25_000);
    let quiet = server(&[("Ip.InReceives", 25_100), ("Ip.InDelivers", 25_000), udp]);
    assert_eq!(explain(&quiet)[0].cause, NothingWrong);
    let dropped = server(&[("Ip.InReceives", 100_000), ("Ip.InDelivers", 25_000), udp]);
    assert_doubt(&dropped, "75,000 packets");
    // A router delivers nothing locally.
    let counts =
        [("Ip.InReceives", 100_000), ("Ip.InDelivers", 25_000), ("Ip.ForwDatagrams", 75_000)];
    assert_eq!(explain(&server(&counts))[0].cause, NothingWrong);
}

/// Returns the observation as made by root, with kernel drops for the given reason, which are
/// counted over all namespaces.
fn with_drops(seen: Observation, reason: &str, count: u64) -> Observation {
    privileged(Observation { events: vec![dropped(Some(reason), count)], ..seen })
}

#[test]
fn packets_dropped_by_the_firewall_are_named_for_root() {
    let counts =
        [("Ip.InReceives", 100_000), ("Ip.InDelivers", 25_000), ("Udp.InDatagrams", 25_000)];
    let seen = with_drops(server(&counts), "NETFILTER_DROP", 74_900);
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, FirewallDrop, "{}", finding.sentence);
    assert!(
        finding.sentence.contains("74,900 packets (75 % of all received"),
        "{}",
        finding.sentence
    );
    // The drops may be intended, so there may be no gain.
    let gain = &finding.gain.percent;
    assert_eq!((gain.low, gain.high.unwrap() > 290.0), (Some(0.0), true), "{gain:?}");
    // Too few to explain what is missing here; they may be another namespace's drops.
    assert_doubt(&with_drops(server(&counts), "NETFILTER_DROP", 30_000), "75,000 packets");
    // Without missing packets, the drops happened elsewhere.
    let quiet = server(&[("Ip.InReceives", 25_000), ("Ip.InDelivers", 25_000)]);
    let finding = &explain(&with_drops(quiet, "NETFILTER_DROP", 75_000))[0];
    assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
}

#[test]
fn drops_by_the_firewall_may_be_those_of_others() {
    let counts = [("Ip.InReceives", 100_000), ("Ip.InDelivers", 25_000)];
    let mut seen = with_drops(server(&counts), "NETFILTER_DROP", 74_900);
    seen.packets = packets(20, 2_000);
    assert_doubt(&seen, "that firewall rules dropped were meant for the program");
    // A batch job without sockets.
    (seen.packets, seen.sockets) = (None, Vec::new());
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
}

#[test]
fn one_drop_by_the_firewall_explains_one_loss() {
    let with = |received: u64, discards: u64, drops: u64| {
        let counts = [
            ("Ip.InReceives", received),
            ("Ip.InDelivers", 1_000_000),
            ("Ip.OutRequests", 20_000),
            ("Ip.OutDiscards", discards),
            ("Udp.InDatagrams", 1_000_000),
        ];
        let found = explain(&with_drops(server(&counts), "NETFILTER_DROP", drops));
        found.into_iter().find(|finding| finding.cause == FirewallDrop).map(|one| one.sentence)
    };
    assert!(with(1_000_000, 100, 100).unwrap().contains("dropped 100 packets"));
    // 5,000 packets to this host were dropped; those that it discarded had another reason.
    assert_eq!(with(1_005_000, 100, 5_000), None);
    assert!(with(1_005_000, 5_000, 10_000).is_some());
    // Most of the drops were in another namespace, perhaps all.
    assert_eq!(with(1_000_000, 100, 5_000), None);
    assert_eq!(with(1_050_000, 0, 500_000), None);
    assert!(with(1_050_000, 0, 50_000).unwrap().contains("dropped 50,000 packets"));
    // Packets that IP counts as without a route, or cut short.
    for name in ["IpExt.InNoRoutes", "IpExt.InTruncatedPkts"] {
        let counts = [("Ip.InReceives", 100_000), ("Ip.InDelivers", 25_000), (name, 75_000)];
        let found = explain(&with_drops(server(&counts), "NETFILTER_DROP", 75_000));
        assert!(found.iter().all(|finding| finding.cause != FirewallDrop));
    }
}

#[test]
fn a_table_that_may_be_full_is_not_a_firewall_rule() {
    let counts =
        [("Ip.InReceives", 100_000), ("Ip.InDelivers", 25_000), ("Udp.InDatagrams", 25_000)];
    let mut seen = with_drops(server(&counts), "NETFILTER_DROP", 74_900);
    assert_eq!(explain(&seen)[0].cause, FirewallDrop);
    seen.unread.push(Unread {
        what: "conntrack".to_owned(),
        reason: "this kernel does not export its counters".to_owned(),
        fix: None,
    });
    assert_doubt(&seen, "whether firewall_drop is the cause");
    assert!(explain(&seen)[0].fix.as_ref().unwrap().contains("conntrack -S"));
}

#[test]
fn datagrams_that_were_never_sent_are_not_lost() {
    let counts = [
        ("Ip.OutRequests", 100_000),
        ("Ip.OutDiscards", 30_000),
        ("Udp.SndbufErrors", 30_000),
        ("Udp.InDatagrams", 25_000),
        ("Udp.OutDatagrams", 100_000),
    ];
    let seen = server(&counts);
    assert_eq!(explain(&seen)[0].cause, NothingWrong, "{}", explain(&seen)[0].sentence);
    // As many drops elsewhere do not show that firewall rules dropped them here.
    let seen = with_drops(seen, "NETFILTER_DROP", 30_000);
    assert!(explain(&seen).iter().all(|finding| finding.cause != FirewallDrop));
    // Others were discarded too.
    let mut lossy = server(&counts);
    lossy.protocols.insert("Ip.OutDiscards".to_owned(), 40_000);
    assert_doubt(&lossy, "10,000 packets were lost");
}

#[test]
fn datagrams_that_a_socket_filter_rejects_did_not_find_its_buffer_full() {
    let with = |full: u64| {
        let mut seen = server(&[("Udp.InDatagrams", 25_000), ("Udp.RcvbufErrors", full)]);
        seen.sockets[0].drops = Some(15_000);
        seen
    };
    assert_doubt(&with(0), "15,000 datagrams (38 %) that socket 10.0.0.1:53 rejected");
    assert_eq!(explain(&with(15_000))[0].cause, SocketBuffer);
    // Read one after another, the counters differ slightly.
    assert_eq!(explain(&with(14_900))[0].cause, SocketBuffer);
}

#[test]
fn datagrams_to_other_ports_may_be_meant_for_the_program() {
    let with = |missed| server(&[("Udp.InDatagrams", 25_000), ("Udp.NoPorts", missed)]);
    assert_doubt(&with(25_000), "25,000 datagrams to addresses or ports");
    assert_eq!(explain(&with(1_000))[0].cause, NothingWrong);
}

#[test]
fn a_tiny_receive_buffer_is_not_nothing() {
    let with = |buffer: u64, bytes_received: u64| {
        let mut seen = server(&[]);
        let tcp = TcpCounts {
            bytes_received,
            segments_in: bytes_received / 1000,
            ..TcpCounts::default()
        };
        let mut connection = socket(SocketKind::Tcp, "10.0.0.1:80", Some("10.0.0.2:4000"));
        (connection.receive_buffer, connection.tcp) = (Some(buffer), Some(tcp));
        seen.sockets = vec![connection];
        seen
    };
    assert_doubt(&with(16_384, 800_000), "(16 KiB) limits its sender");
    assert_eq!(explain(&with(131_072, 800_000))[0].cause, NothingWrong);
    assert_eq!(explain(&with(16_384, 8_000))[0].cause, NothingWrong);
}

#[test]
fn a_tc_filter_that_drops_packets_is_named() {
    let mut seen = server(&[("Ip.InReceives", 75_000), ("Ip.InDelivers", 75_000)]);
    let mut from = interface("eth0", 100_000);
    from.tx_packets = 0;
    from.qdiscs = vec![QdiscCounts { drops: 25_000, ..qdisc("clsact", 0, 0, 0.0) }];
    seen.interfaces = vec![from];
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, FirewallDrop, "{}", finding.sentence);
    assert!(
        finding.sentence.contains("25,000 packets, 20 % of the packets on that interface"),
        "{}",
        finding.sentence
    );
    assert!(finding.gain.percent.high.unwrap() > 20.0, "{:?}", finding.gain);
    // A policer of a backup, for a program that asks a name server now and then.
    let mut idle = seen.clone();
    idle.packets = packets(100, 10_000);
    assert_doubt(&idle, "Cannot tell whether firewall_drop limits the rate");
    // Drops of a queue are not those of a filter.
    seen.interfaces[0].qdiscs[0].kind = "fq_codel".to_owned();
    assert_ne!(explain(&seen)[0].cause, FirewallDrop);
}

/// Returns the server behind an interface that received 100,000 packets of 242 bytes, of which
/// 75,000 reached IP.
fn behind(reached: u64, bytes: u64, gro: bool) -> Observation {
    let counts = [
        ("Ip.InReceives", reached),
        ("Ip.InDelivers", reached),
        ("IpExt.InOctets", bytes),
        ("Udp.InDatagrams", reached),
    ];
    let mut seen = server(&counts);
    let mut from = interface("eth0", 100_000);
    from.rx_bytes = 100_000 * 242;
    from.features = features(&[("rx-gro", gro)]);
    seen.interfaces = vec![from];
    seen
}

#[test]
fn packets_that_vanish_before_ip_are_counted() {
    for gro in [true, false] {
        let lost = behind(75_000, 75_000 * 228, gro);
        assert_doubt(&lost, "25,000 packets (25 % of all) that eth0 received");
        // As root, the kernel's drop reason distinguishes firewall rules from XDP programs.
        assert_doubt(&with_drops(lost.clone(), "XDP", 25_300), "with drop reason XDP");
        let finding = &explain(&with_drops(lost.clone(), "NETFILTER_DROP", 25_300))[0];
        assert_eq!(finding.cause, FirewallDrop, "{}", finding.sentence);
        assert!(finding.sentence.contains("25,000 packets (25 % of all"), "{}", finding.sentence);
        // Frames for other hosts.
        let finding = &explain(&with_drops(lost.clone(), "OTHERHOST", 25_300))[0];
        assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
        // Kernels before 5.17 count the dropped packets, but give no reasons.
        let old = Observation { events: vec![dropped(None, 25_300)], unread: Vec::new(), ..lost };
        assert_doubt(&old, "25,000 packets (25 % of all) that eth0 received");
    }
    // GRO merged three segments of 228 bytes into one, without the headers of two.
    let merged = behind(33_333, 33_333 * (3 * 228 - 2 * 52), true);
    assert_eq!(explain(&merged)[0].cause, NothingWrong);
    let finding = &explain(&with_drops(merged, "NOT_SPECIFIED", 200_000))[0];
    assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
    // Another interface of the namespace may have passed its packets on.
    let mut bridged = behind(75_000, 75_000 * 228, false);
    bridged.interfaces.push(interface("br0", 75_000));
    assert_eq!(explain(&bridged)[0].cause, NothingWrong);
    // Fewer than 1 %: the counters are read one after another.
    assert_eq!(explain(&behind(99_200, 99_200 * 228, false))[0].cause, NothingWrong);
}

#[test]
fn drops_of_a_limiter_in_another_namespace_are_not_nothing() {
    let quiet = || server(&[("Ip.InReceives", 25_000), ("Ip.InDelivers", 25_000)]);
    assert_doubt(&with_drops(quiet(), "QDISC_DROP", 60_000), "60,000 packets that queueing");
    assert_eq!(explain(&with_drops(quiet(), "QDISC_DROP", 50))[0].cause, NothingWrong);
}

#[test]
fn packets_beyond_the_mtu_are_not_nothing() {
    assert_eq!(explain(&server(&[("Ip.FragFails", 2)]))[0].cause, NothingWrong);
    assert_doubt(&server(&[("Ip.FragFails", 200)]), "200 packets that exceeded the MTU");
    // Path MTU discovery of 200 of a router's connections.
    for sent in ["Ip.OutRequests", "Ip.ForwDatagrams"] {
        let seen = server(&[("Ip.FragFails", 200), (sent, 1_000_000)]);
        assert_eq!(explain(&seen)[0].cause, NothingWrong);
    }
}

#[test]
fn a_server_that_asks_another_may_wait_for_it() {
    let counts = [("Tcp.InSegs", 1_000), ("Udp.InDatagrams", 500), ("Udp.OutDatagrams", 500)];
    let mut seen = server(&counts);
    assert_eq!(explain(&seen)[0].cause, NothingWrong);
    seen.sockets.push(socket(SocketKind::TcpListen, "10.0.0.1:80", None));
    assert_doubt(&seen, "replies to its own");
}

#[test]
fn a_thread_that_waits_for_a_cpu_has_no_time_left() {
    let mut seen = server(&[]);
    seen.threads =
        vec![thread("server", 100, &[(User, 0.2), (Kernel, 0.3), (Waiting, 0.45), (Asleep, 0.05)])];
    assert_ne!(explain(&seen)[0].cause, NothingWrong);
}

#[test]
fn on_a_full_machine_the_peers_may_be_short_of_a_cpu() {
    let mut seen = server(&[]);
    seen.threads = vec![thread("server", 100, &[(User, 0.2), (Kernel, 0.2), (Asleep, 0.6)])];
    seen.cpus = vec![cpu(0, 0.5, 0.49, 0.0), cpu(1, 0.5, 0.49, 0.0)];
    assert_doubt(&seen, "the 2 CPUs are only 1 % idle");
}

/// Returns an nginx that sends long responses on these connections: bytes, share of readings with
/// progress, and requests.
fn responses(connections: &[(u64, f64, u64)]) -> Observation {
    let mut server = thread("nginx", 100, &[(Kernel, 0.01), (Asleep, 0.99)]);
    let object = Some("[eventpoll]".to_owned());
    server.asleep_on =
        vec![SleepTime { on: "epoll_wait".to_owned(), share: 0.99, object, holder: None }];
    let connection = |(at, &(bytes, delivering, requests)): (usize, &(u64, f64, u64))| {
        let tcp = TcpCounts {
            bytes_received: 47 * requests,
            bytes_acked: bytes,
            segments_in: 49,
            segments_out: 48,
            data_segments_in: Some(requests),
            data_segments_out: Some(48),
            busy_s: 0.044,
            needless: Some(0),
            delivering_share: Some(delivering),
            ..TcpCounts::default()
        };
        let remote = format!("10.0.0.2:{}", 4000 + at);
        SocketCounts { tcp: Some(tcp), ..socket(SocketKind::Tcp, "10.0.0.1:80", Some(&remote)) }
    };
    let listen = socket(SocketKind::TcpListen, "10.0.0.1:80", None);
    Observation {
        sockets: [listen]
            .into_iter()
            .chain(connections.iter().enumerate().map(connection))
            .collect(),
        packets: packets(700, 12_000_000),
        ..observation(vec![server])
    }
}

#[test]
fn a_server_that_pauses_within_responses_may_limit_its_rate() {
    let limited = responses(&[(1_541_494, 0.8, 1), (1_541_494, 0.9, 0)]);
    assert_doubt(&limited, "which of rate_limiter and nothing_wrong applies");
    assert!(explain(&limited)[0].sentence.contains("2 connections, at 2.47 Mb/s each"));
    // Several responses in turn, each with progress in several readings: they take long, too.
    let in_turn = |delivering: f64| {
        let mut seen = responses(&[(21_400_000, delivering, 7), (21_400_000, delivering, 7)]);
        seen.sockets.iter_mut().for_each(|socket| socket.reads = Some(68));
        seen
    };
    assert_doubt(&in_turn(0.75), "which of rate_limiter and nothing_wrong applies");
    assert_eq!(explain(&in_turn(0.2))[0].cause, NothingWrong);
    // A client that fetches something now and then, and one that makes many small requests.
    for quiet in [(1_541_494, 0.02, 1), (1_541_494, 1.0, 500)] {
        let finding = &explain(&responses(&[quiet, quiet]))[0];
        assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
    }
    // A proxy passes on what its own server sends.
    let mut proxy = limited;
    let mut opened = proxy.sockets[1].clone();
    (opened.local, opened.remote) = ("10.0.0.1:40000".to_owned(), Some("10.0.0.3:80".to_owned()));
    let tcp = opened.tcp.as_mut().unwrap();
    (tcp.bytes_received, tcp.bytes_acked) = (3_000_000, 100);
    proxy.sockets.push(opened);
    let finding = &explain(&proxy)[0];
    assert!(!finding.sentence.contains("rate_limiter"), "{}", finding.sentence);
}

#[test]
fn a_flood_of_connection_attempts_is_named() {
    let counts = [("TcpExt.SyncookiesSent", 50_000), ("Tcp.PassiveOpens", 200)];
    let with = |counts: &[(&str, u64)]| {
        let mut seen = server(counts);
        seen.sockets.push(socket(SocketKind::TcpListen, "10.0.0.1:80", None));
        seen
    };
    assert_doubt(&with(&counts), "answered 50,000 attempts with SYN cookies");
    let counts = [("TcpExt.SyncookiesSent", 50_000), ("Tcp.PassiveOpens", 40_000)];
    assert_eq!(explain(&with(&counts))[0].cause, NothingWrong);
}

#[test]
fn an_emulated_network_on_the_way_is_named() {
    let with = |netem: QdiscCounts| {
        let mut seen = server(&[]);
        let mut interface = interface("v2", 25_000);
        interface.qdiscs = vec![netem];
        seen.interfaces = vec![interface];
        seen
    };
    let netem = QdiscCounts {
        delay_s: Some(0.02),
        drops: 312,
        rate_bits_per_s: None,
        ..qdisc("netem", 15_000_000, 0, 0.0)
    };
    let sentence = "on v2: its netem qdisc passed on 10,000 packets; it delays each packet by \
                    20 ms, and dropped 312 more";
    assert_doubt(&with(netem.clone()), sentence);
    // An interface that the program hardly uses.
    let other = QdiscCounts { packets: 200, drops: 0, ..netem.clone() };
    assert_eq!(explain(&with(other))[0].cause, NothingWrong);
    // The network of a laboratory without effect.
    let idle = QdiscCounts { delay_s: Some(0.000_1), drops: 0, ..netem };
    assert_eq!(explain(&with(idle))[0].cause, NothingWrong);
}
