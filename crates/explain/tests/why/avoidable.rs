// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that packets do not need: system calls for other purposes, optional parts of the kernel,
//! threads that end at once, and segments or windows that are smaller than need be. The numbers are
//! those of servers that were made slow in these ways.

use crate::example::explain;
use crate::example::{cpu, functions, interface, observation, packets, privileged, socket, thread};
use crate::seeds::protocols;
use linerate_record::why::Cause::{
    BriefThreads, CongestionWindow, ConnectionSetup, InterruptLoad, KernelOverhead, PageFaults,
    ProcessingCost, SmallSegments, SystemCalls,
};
use linerate_record::why::ThreadState::{Asleep, Interrupts, Kernel, User, Waiting};
use linerate_record::why::{
    Cause, InterfaceCounts, KernelEvent, Observation, SleepTime, SocketCounts, SocketKind,
    TcpCounts, WhyFinding,
};

fn first(seen: &Observation) -> WhyFinding {
    explain(seen).swap_remove(0)
}

fn causes(seen: &Observation) -> Vec<Cause> {
    explain(seen).iter().map(|finding| finding.cause).collect()
}

/// Returns a UDP server that answers this many datagrams in 5 s and is always busy.
fn echo(datagrams: u64, functions_of: &[(&str, &str, f64)]) -> Observation {
    let shares = [(User, 0.04), (Kernel, 0.76), (Interrupts, 0.18), (Asleep, 0.01)];
    let mut server = thread("server", 100, &shares);
    server.samples = 1_500;
    server.functions = functions(functions_of);
    let object = Some("udp 0.0.0.0:9301".to_owned());
    server.asleep_on =
        vec![SleepTime { on: "recvfrom".to_owned(), share: 0.01, object, holder: None }];
    Observation {
        sockets: vec![socket(SocketKind::Udp, "0.0.0.0:9301", None)],
        protocols: protocols(&[("Udp.InDatagrams", datagrams), ("Udp.OutDatagrams", datagrams)]),
        packets: packets(2 * datagrams, 200 * datagrams),
        cpus: vec![cpu(0, 0.1, 0.8, 0.1), cpu(1, 0.04, 0.77, 0.18)],
        ..observation(vec![server])
    }
}

/// Adds counts of system calls, of which `calls` are listed by name.
fn with_calls(seen: Observation, all: u64, calls: &[(&str, u64)]) -> Observation {
    let mut seen = privileged(seen);
    seen.threads[0].system_calls = Some(all);
    let event = |filter: Option<String>, count| KernelEvent {
        event: "raw_syscalls:sys_enter".to_owned(),
        filter,
        is_of_watched: true,
        count,
    };
    seen.events.push(event(None, all));
    let of_call = |(name, count): &(&str, u64)| event(Some(format!("call {name}")), *count);
    seen.events.extend(calls.iter().map(of_call));
    seen
}

const PLAIN: &[(&str, &str, f64)] =
    &[("kernel", "udp_sendmsg", 0.1), ("kernel", "do_syscall_64", 0.1)];

#[test]
fn calls_for_another_purpose_are_named_with_how_often_they_are_made() {
    let signals = [("rt_sigreturn", 228_757), ("recvfrom", 40_476), ("sendto", 35_776)];
    let finding = first(&with_calls(echo(43_381, PLAIN), 305_009, &signals));
    assert_eq!(finding.cause, SystemCalls, "{}", finding.sentence);
    for part in ["interrupted by signals 45,751 times per second", "75 % of its system calls"] {
        assert!(finding.sentence.contains(part), "{}", finding.sentence);
    }
    assert!(finding.fix.is_some_and(|fix| fix.contains("timer_create")));
    let gain = finding.gain.percent.estimate().unwrap();
    assert!(gain.low < 2300.0 && gain.high > 2300.0, "{gain:?}");

    let files = ["ioctl", "read", "close", "openat", "newfstatat", "sendto", "recvfrom"];
    let files = files.map(|name| (name, 185_000));
    let finding = first(&with_calls(echo(193_000, PLAIN), 1_297_000, &files));
    assert_eq!(finding.cause, SystemCalls, "{}", finding.sentence);
    assert!(finding.sentence.contains("opens and closes files"), "{}", finding.sentence);
    let gain = finding.gain.percent.estimate().unwrap();
    assert!(gain.low < 320.0 && gain.high > 320.0, "{gain:?}");

    let clock = [("clock_gettime", 12_800_000), ("recvfrom", 213_000), ("sendto", 213_000)];
    let finding = first(&with_calls(echo(213_000, PLAIN), 13_226_000, &clock));
    assert!(finding.sentence.contains("reads the clock"), "{}", finding.sentence);
    // Another thread makes most of the calls.
    let mut seen = with_calls(echo(213_000, PLAIN), 13_226_000, &clock);
    seen.threads[0].system_calls = Some(500_000);
    let said = |one: &WhyFinding| one.sentence.contains("reads the clock");
    assert!(!explain(&seen).iter().any(said), "{}", first(&seen).sentence);
}

#[test]
fn batches_save_only_the_calls_that_pass_packets() {
    let gain = |seen: &Observation| {
        let findings = explain(seen);
        let found = findings.iter().find(|finding| finding.cause == SystemCalls).unwrap();
        (found.gain.percent.as_number(), found.sentence.clone())
    };
    let passing = [("recvfrom", 600_000), ("sendto", 600_000)];
    let (all, sentence) = gain(&with_calls(echo(600_000, PLAIN), 1_200_000, &passing));
    assert!(!sentence.contains("Batches can save only"), "{sentence}");
    let mixed = [("recvfrom", 600_000), ("sendto", 600_000), ("clock_gettime", 800_000)];
    let (part, sentence) = gain(&with_calls(echo(600_000, PLAIN), 2_000_000, &mixed));
    assert!(sentence.contains("save only 60 % of these calls"), "{sentence}");
    assert!(sentence.contains("reads the clock with system calls (1.33 per packet)"), "{sentence}");
    let (all, part) = (all.unwrap(), part.unwrap());
    assert!((part - all).abs() < 0.1 * all, "{part} {all}");
    // The two most frequent kinds of other calls are named.
    let two = [&mixed[..], &[("newfstatat", 700_000)]].concat();
    let (_, sentence) = gain(&with_calls(echo(600_000, PLAIN), 2_700_000, &two));
    assert!(sentence.contains("(1.33 per packet), and looks files up by name"), "{sentence}");
}

#[test]
fn calls_that_are_counted_in_part_are_a_lower_bound_and_predict_no_gain() {
    let mut seen = echo(400_000, &[]);
    seen.threads[0].io_calls = Some(900_000);
    // The calls may pass datagrams: the socket is connected.
    seen.sockets[0].remote = Some("10.0.0.2:4000".to_owned());
    let finding = first(&seen);
    assert_eq!(finding.cause, SystemCalls, "{}", finding.sentence);
    assert!(finding.sentence.contains("at least 2.25 system calls"), "{}", finding.sentence);
    assert_eq!(finding.gain.percent.as_number(), None);
    // They cannot: it receives with recvfrom.
    seen.sockets[0].remote = None;
    let finding = first(&seen);
    assert!(finding.sentence.contains("as well as its sockets"), "{}", finding.sentence);
    assert!(finding.fix.is_some_and(|fix| fix.contains("strace -f -c -p 100")));
}

#[test]
fn a_part_of_the_kernel_that_packets_do_not_need_is_named_with_what_removes_it() {
    let with = |names: &[(&str, &str, f64)], sockets: usize| {
        let mut seen = privileged(echo(200_000, names));
        let idle = socket(SocketKind::Udp, "0.0.0.0:9302", None);
        seen.sockets.extend(std::iter::repeat_n(idle, sockets - 1));
        seen
    };
    let of = |names: &[(&str, &str, f64)]| first(&with(names, 40));
    let rules = of(&[("kernel", "fib_rules_lookup", 0.65), ("kernel", "fib4_rule_match", 0.08)]);
    let taps = of(&[("kernel", "packet_rcv", 0.19), ("kernel", "dev_queue_xmit_nit", 0.05)]);
    let select = of(&[
        ("kernel", "sock_poll", 0.19),
        ("kernel", "tcp_poll", 0.12),
        ("kernel", "do_select", 0.04),
    ]);
    let random = of(&[("kernel", "chacha_permute", 0.3), ("kernel", "crng_make_state", 0.02)]);
    for (finding, part, fix) in [
        (rules, "policy routing", "ip rule"),
        (taps, "packet sockets of other programs", "ss -0p"),
        (select, "select or poll", "epoll"),
        (random, "random number generator", "getrandom"),
    ] {
        assert_eq!(finding.cause, KernelOverhead, "{}", finding.sentence);
        assert!(finding.sentence.contains(part), "{}", finding.sentence);
        assert!(finding.fix.is_some_and(|text| text.contains(fix)));
    }
    // WireGuard's cipher, and polls of epoll.
    for names in [("chacha_permute", 0.4), ("sock_poll", 0.3)] {
        let other = of(&[("kernel", names.0, names.1)]);
        assert_ne!(other.cause, KernelOverhead, "{}", other.sentence);
    }
    // Calls that examine few descriptors, and calls that take long because of many.
    let select = [("kernel", "do_select", 0.2), ("kernel", "sock_poll", 0.15)];
    assert!(!causes(&with(&select, 8)).contains(&KernelOverhead));
    for (calls, is_named) in [(1_000_000, false), (200_000, true)] {
        let seen = with_calls(with(&select, 8), 3_000_000, &[("select", calls)]);
        assert_eq!(causes(&seen).contains(&KernelOverhead), is_named, "{calls}");
    }
    // A capture program sees every packet by intention.
    let mut capture = privileged(echo(200_000, &[("kernel", "packet_rcv", 0.3)]));
    capture.sockets.push(socket(SocketKind::Packet, "v0", None));
    assert!(!causes(&capture).contains(&KernelOverhead));
}

#[test]
fn copies_of_its_own_frames_are_not_packets_for_other_programs() {
    let bridge = [("kernel", "br_forward_finish", 0.12), ("kernel", "br_nf_post_routing", 0.1)];
    let mut seen = privileged(echo(66_000, &bridge));
    let shares = [(Kernel, 0.15), (Interrupts, 0.82), (Waiting, 0.02), (Asleep, 0.01)];
    seen.threads[0].time = thread("server", 100, &shares).time;
    seen.cpus[1].backlog_processed = 5_000_000;
    seen.cpus[1].net_rx = 200_000;
    let finding = first(&seen);
    assert_eq!(finding.cause, KernelOverhead, "{}", finding.sentence);
    assert!(finding.sentence.contains("perhaps it floods"), "{}", finding.sentence);
    assert!(!causes(&seen).contains(&InterruptLoad));
    // The work that copies cause is at most the kernel's.
    seen.threads[0].functions = functions(&[("kernel", "br_handle_frame", 0.4)]);
    let gain = first(&seen).gain.percent.estimate().unwrap();
    assert!(gain.low < 80.0 && (500.0..901.0).contains(&gain.value), "{gain:?}");
    assert!(gain.high < 1_901.0, "{gain:?}");
    seen.threads[0].functions = functions(PLAIN);
    assert!(!causes(&seen).contains(&KernelOverhead));
}

#[test]
fn a_function_of_the_program_is_named_even_if_the_kernel_takes_more() {
    let with = |file: &str, name: &str, share: f64| {
        let mut seen = echo(560_000, &[(file, name, share), ("kernel", "udp_sendmsg", 0.1)]);
        let shares = [(User, 0.34), (Kernel, 0.46), (Interrupts, 0.18), (Waiting, 0.01)];
        seen.threads[0].time = thread("server", 100, &shares).time;
        seen.cpus[0] = cpu(0, 0.3, 0.68, 0.02);
        causes(&seen)
    };
    assert_eq!(with("server", "flow_lookup", 0.3)[0], ProcessingCost);
    for (file, name, share) in [
        ("server", "flow_lookup", 0.15),
        ("libc.so.6", "recvfrom", 0.3),
        ("server", "server+0x1234", 0.3),
    ] {
        assert!(!with(file, name, share).contains(&ProcessingCost), "{name}");
    }
}

#[test]
fn threads_that_end_at_once_explain_the_page_faults_of_their_stacks() {
    let mut seen = echo(150_000, &[]);
    let shares =
        [(User, 0.02), (Kernel, 0.85), (Interrupts, 0.03), (Waiting, 0.01), (Asleep, 0.08)];
    seen.threads[0].time = thread("server", 100, &shares).time;
    seen.threads[0].minor_faults = 120_000;
    seen.ended_threads_cpus = Some(0.02);
    assert!(causes(&seen).contains(&PageFaults), "{:?}", causes(&seen));
    seen.ended_threads_cpus = Some(0.67);
    let finding = first(&seen);
    assert_eq!(finding.cause, BriefThreads, "{}", finding.sentence);
    assert!(!causes(&seen).contains(&PageFaults));
    assert!(finding.sentence.contains("0.67 CPUs"), "{}", finding.sentence);
    // The work for each request remains, and may be all of it.
    let gain = finding.gain.percent.estimate().unwrap();
    assert!(gain.low == 0.0 && gain.value > 0.0, "{gain:?}");
    let shares = [(User, 0.7), (Kernel, 0.2), (Waiting, 0.02), (Asleep, 0.08)];
    seen.threads[0].time = thread("server", 100, &shares).time;
    let findings = explain(&seen);
    let finding = findings.iter().find(|one| one.cause == BriefThreads).unwrap();
    assert!(finding.gain.percent.as_number().unwrap() < gain.value, "{:?}", finding.gain);
}

/// Returns a sender that always has data on one connection, through an interface of 1500 bytes.
fn sender(tcp: TcpCounts) -> Observation {
    let mut connection = socket(SocketKind::Tcp, "10.9.0.1:9401", Some("10.9.0.2:40220"));
    connection.send_queue_mean = 70_000.0;
    let mut server = thread("nginx", 100, &[(Kernel, 0.01), (Asleep, 0.99)]);
    let object = Some("[eventpoll]".to_owned());
    server.asleep_on =
        vec![SleepTime { on: "epoll_wait".to_owned(), share: 0.99, object, holder: None }];
    let segments = tcp.segments_out;
    let sent = InterfaceCounts {
        mtu: Some(1500),
        tx_bytes: tcp.bytes_acked + 66 * segments,
        ..interface("v0", 1_000)
    };
    connection.tcp = Some(tcp);
    Observation {
        sockets: vec![connection],
        protocols: protocols(&[("Tcp.OutSegs", segments)]),
        interfaces: vec![sent],
        packets: packets(segments, 1_000 * segments),
        cpus: vec![cpu(0, 0.01, 0.01, 0.0), cpu(1, 0.0, 0.02, 0.0)],
        ..observation(vec![server])
    }
}

/// Returns a connection with a congestion window of 8 segments and a round trip of 20 ms.
fn clamped() -> TcpCounts {
    TcpCounts {
        bytes_acked: 2_835_174,
        segments_in: 980,
        segments_out: 1_958,
        needless: Some(0),
        busy_s: 5.0,
        rtt_s: 0.0203,
        min_rtt_s: 0.0201,
        rtt_variation_s: Some(0.00002),
        cwnd: 8,
        mss: 1448,
        delivery_bytes_per_s: 571_513.0,
        peer_window_max: Some(86_000),
        ..TcpCounts::default()
    }
}

#[test]
fn a_congestion_window_that_does_not_grow_without_losses_is_clamped() {
    let finding = first(&sender(clamped()));
    assert_eq!(finding.cause, CongestionWindow, "{}", finding.sentence);
    assert!(finding.sentence.contains("8 segments per round trip"), "{}", finding.sentence);
    assert!(finding.sentence.contains("probably clamped"), "{}", finding.sentence);
    // Routers mark packets instead of dropping them.
    let mut marked = sender(clamped());
    marked.protocols.insert("TcpExt.TCPDeliveredCE".to_owned(), 30);
    assert!(!causes(&marked).contains(&CongestionWindow), "{}", first(&marked).sentence);
    // Another connection carries most of the bytes, or another with the same window does.
    for (cwnd, is_clamped) in [(90, false), (8, true)] {
        let mut seen = sender(clamped());
        let mut other = seen.sockets[0].clone();
        let bytes_acked = 3 * clamped().bytes_acked;
        other.tcp = Some(TcpCounts { cwnd, bytes_acked, busy_s: 1.0, ..clamped() });
        seen.sockets.push(other);
        assert_eq!(causes(&seen).contains(&CongestionWindow), is_clamped, "{cwnd}");
    }
    // Short downloads one after another.
    let mut short = sender(TcpCounts { busy_s: 0.25, ..clamped() });
    for socket in (0..12).map(|_| short.sockets[0].clone()).collect::<Vec<_>>() {
        short.sockets.push(socket);
    }
    short.sockets.iter_mut().for_each(|socket| socket.reads = Some(4));
    let listen = socket(SocketKind::TcpListen, "10.9.0.1:9401", None);
    short.sockets.push(listen);
    assert!(!causes(&short).contains(&CongestionWindow), "{}", first(&short).sentence);
    for other in [
        TcpCounts { retransmitted: 1, ..clamped() },
        TcpCounts { rtt_s: 0.03, ..clamped() },
        TcpCounts { app_limited_share: 0.4, ..clamped() },
        TcpCounts { cwnd: 200, delivery_bytes_per_s: 14.3e6, ..clamped() },
        TcpCounts { delivery_bytes_per_s: 300_000.0, ..clamped() },
    ] {
        let seen = sender(other);
        assert!(!causes(&seen).contains(&CongestionWindow), "{}", first(&seen).sentence);
    }
}

#[test]
fn segments_far_below_the_mtu_are_named() {
    let small = TcpCounts {
        bytes_acked: 1_305_958_976,
        segments_out: 4_544_031,
        mss: 288,
        cwnd: 1_300,
        rtt_s: 0.0003,
        min_rtt_s: 0.000_01,
        delivery_bytes_per_s: 166e6,
        ..clamped()
    };
    let busy = |tcp: TcpCounts| {
        let mut seen = sender(tcp);
        seen.threads[0].time = thread("nginx", 100, &[(Kernel, 0.87), (Asleep, 0.13)]).time;
        seen
    };
    let finding = first(&busy(small.clone()));
    assert_eq!(finding.cause, SmallSegments, "{}", finding.sentence);
    for part in ["288 bytes", "room for 1,428"] {
        assert!(finding.sentence.contains(part), "{}", finding.sentence);
    }
    let gain = finding.gain.percent.estimate().unwrap();
    assert!(gain.low < 270.0 && gain.high > 270.0, "{gain:?}");
    // A tunnel's, and loopback's, which are bounded by half of the receiver's window.
    let tunnel = busy(TcpCounts { mss: 1_300, ..small.clone() });
    assert!(!causes(&tunnel).contains(&SmallSegments));
    let mut loopback = busy(TcpCounts { mss: 21_888, ..small.clone() });
    loopback.interfaces[0].mtu = Some(65_536);
    assert!(!causes(&loopback).contains(&SmallSegments));
    // An interface with jumbo frames, on a path without.
    for (mss, is_small) in [(1_448, false), (288, true)] {
        let mut jumbo = busy(TcpCounts { mss, ..small.clone() });
        jumbo.interfaces[0].mtu = Some(9_001);
        assert_eq!(causes(&jumbo).contains(&SmallSegments), is_small, "{mss}");
    }
    // A slow path, and one of several clients.
    assert!(!causes(&sender(small.clone())).contains(&SmallSegments));
    let mut clients = busy(small.clone());
    let tcp = TcpCounts { mss: 1_448, bytes_acked: small.bytes_acked / 2, ..small };
    let client = SocketCounts { tcp: Some(tcp), ..clients.sockets[0].clone() };
    clients.sockets.extend([client.clone(), client.clone(), client]);
    assert!(!causes(&clients).contains(&SmallSegments));
}

/// Returns a server of requests and replies that reads this many times.
fn by_reads(reads: u64, bytes: u64) -> Observation {
    let shares = [(User, 0.02), (Kernel, 0.41), (Waiting, 0.43), (Asleep, 0.13)];
    let mut server = thread("server", 100, &shares);
    server.samples = 500;
    let mut client = socket(SocketKind::Tcp, "10.0.0.1:9301", Some("10.0.0.2:49144"));
    client.tcp = Some(TcpCounts {
        bytes_received: bytes,
        bytes_acked: bytes,
        segments_in: 55_000,
        segments_out: 55_000,
        ..TcpCounts::default()
    });
    let seen = Observation {
        sockets: vec![socket(SocketKind::TcpListen, "10.0.0.1:9301", None), client],
        packets: packets(111_000, 200 * 111_000),
        cpus: vec![cpu(0, 0.1, 0.89, 0.01), cpu(1, 0.1, 0.89, 0.01)],
        ..observation(vec![server])
    };
    with_calls(seen, reads + 40_000, &[("read", reads), ("write", 40_000)])
}

#[test]
fn reads_of_single_bytes_are_named_on_connections_with_replies() {
    let finding = first(&by_reads(9_409_647, 11_000_000));
    assert_eq!(finding.cause, SystemCalls, "{}", finding.sentence);
    assert!(finding.sentence.contains("returns 1.17 bytes"), "{}", finding.sentence);
    // Reads that find nothing, and reads of whole requests.
    assert!(!causes(&by_reads(9_409_647, 1_000_000)).contains(&SystemCalls));
    assert!(!causes(&by_reads(55_000, 11_000_000)).contains(&SystemCalls));
    // Files that are opened for each request, and a pipe.
    let mut files = by_reads(9_409_647, 11_000_000);
    files.events.push(KernelEvent {
        filter: Some("call openat".to_owned()),
        count: 400_000,
        ..files.events[1].clone()
    });
    assert!(!causes(&files).contains(&SystemCalls), "{}", first(&files).sentence);
    let mut piped = by_reads(9_409_647, 11_000_000);
    let object = Some("pipe".to_owned());
    piped.threads[0].asleep_on =
        vec![SleepTime { on: "read".to_owned(), share: 0.13, object, holder: None }];
    assert!(!causes(&piped).contains(&SystemCalls), "{}", first(&piped).sentence);
}

#[test]
fn full_handshakes_are_named_although_the_client_takes_the_other_half_of_the_time() {
    let with = |connections: u64, name: &str, crypto: f64| {
        let mut seen = by_reads(9_300, 4_000_000);
        let shares = [(User, 0.43), (Kernel, 0.02), (Asleep, 0.55)];
        seen.threads[0].time = thread("nginx", 100, &shares).time;
        seen.threads[0].functions = functions(&[("libcrypto.so.3", name, crypto)]);
        seen.protocols = protocols(&[
            ("Tcp.InSegs", 10 * connections),
            ("Tcp.OutSegs", 10 * connections),
            ("Tcp.PassiveOpens", connections),
            ("Tcp.ActiveOpens", connections),
            ("TcpExt.TCPAbortOnData", connections),
        ]);
        first(&seen)
    };
    let finding = with(930, "BN_usub", 0.85);
    assert_eq!(finding.cause, ConnectionSetup, "{}", finding.sentence);
    for part in ["186 connections", "ms of CPU time", "as with full TLS handshakes"] {
        assert!(finding.sentence.contains(part), "{}", finding.sentence);
    }
    assert_ne!(with(17_547, "BN_usub", 0.85).cause, ConnectionSetup);
    assert_ne!(with(930, "BN_usub", 0.3).cause, ConnectionSetup);
    // A login service.
    assert_ne!(with(930, "SHA256_Transform", 0.85).cause, ConnectionSetup);
    let nameless = with(930, "libcrypto.so.3+0x12fce0", 0.85);
    assert_eq!(nameless.cause, ConnectionSetup, "{}", nameless.sentence);
    assert!(nameless.sentence.contains("or with password hashes"), "{}", nameless.sentence);
}
