// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes that stall a connection: evidence that distinguishes each from similar ones.

use crate::calls::system_calls_of_write;
use crate::example::explain;
use crate::example::{
    cpu, functions, in_kernel, observation, packets, privileged, requests, sender, socket, thread,
};
use crate::seeds::software_crypto;
use crate::seeds::{copying_unprivileged, nothing_to_send, receive_window, socket_buffer};
use linerate_record::stats::Estimate;
use linerate_record::why::Cause::{
    self, AcceptQueue, CannotTell, NagleDelay, NothingWrong, PathBandwidth, RateLimiter,
    ReceiveWindow, SlowReceiver, SocketBuffer, SoftwareCrypto, SystemCalls, TcpLoss, UnreadSocket,
    WaitingForPeer,
};
use linerate_record::why::ThreadState::{Asleep, Kernel, User};
use linerate_record::why::{
    Observation, SleepTime, SocketCounts, SocketKind, TcpCounts, ThreadTime, Unread, WhyFinding,
};
use linerate_record::{Figure, Tier};

pub(crate) fn first(seen: &Observation) -> WhyFinding {
    explain(seen).swap_remove(0)
}

pub(crate) fn assert_first(seen: &Observation, cause: Cause) -> WhyFinding {
    let finding = first(seen);
    assert_eq!(finding.cause, cause, "{}", finding.sentence);
    finding
}

fn tcp(seen: &mut Observation) -> &mut TcpCounts {
    seen.sockets[0].tcp.as_mut().unwrap()
}

/// Returns an observation of a program that sends on one connection and sleeps most of the time.
pub(crate) fn idle_sender(bytes: u64, tcp: TcpCounts) -> Observation {
    let mut client = thread("client", 100, &[(User, 0.02), (Kernel, 0.08), (Asleep, 0.9)]);
    let object = Some("tcp 10.0.0.1:40000 to 10.0.0.2:5201".to_owned());
    client.asleep_on = vec![SleepTime { on: "write".to_owned(), share: 0.9, object, holder: None }];
    Observation {
        sockets: vec![sender(bytes, tcp)],
        cpus: vec![cpu(0, 0.1, 0.1, 0.0), cpu(1, 0.02, 0.08, 0.0)],
        packets: packets(bytes / 1448, bytes),
        ..observation(vec![client])
    }
}

#[test]
fn a_large_window_that_is_full_is_the_readers_fault() {
    let mut seen = receive_window();
    assert_first(&seen, ReceiveWindow);
    // The same stalls with a window of 3 MB, 180 times what the path needs.
    tcp(&mut seen).peer_window_max = Some(3_000_000);
    let finding = assert_first(&seen, SlowReceiver);
    assert!(finding.sentence.contains("2.86 MiB"), "{}", finding.sentence);
    // The window is that of the connection that stalls.
    let mut others = seen.clone();
    others.sockets.push(sender(
        1_000,
        TcpCounts { peer_window_max: Some(6_000_000), ..TcpCounts::default() },
    ));
    let sentence = assert_first(&others, SlowReceiver).sentence;
    assert!(sentence.contains("2.86 MiB"), "{sentence}");
    tcp(&mut seen).peer_window_max = Some(0);
    assert!(assert_first(&seen, SlowReceiver).sentence.contains("zero in every reading"));
    seen.sockets[0].reads = Some(1);
    assert_first(&seen, CannotTell);
    seen.sockets[0].reads = Some(50);
    seen.sockets[0].peer_pid = Some(4711);
    assert!(first(&seen).fix.unwrap().contains("linerate why 4711"));
    // With a window in between, or if the kernel does not report it, neither cause is claimed.
    for window in [Some(130_000), None] {
        tcp(&mut seen).peer_window_max = window;
        assert_first(&seen, CannotTell);
    }
    // A path with a round trip of 40 ms needs a larger window.
    tcp(&mut seen).min_rtt_s = 0.04;
    tcp(&mut seen).peer_window_max = Some(3_000_000);
    assert_first(&seen, ReceiveWindow);
}

#[test]
fn a_small_buffer_that_is_never_full_holds_no_sender_up() {
    let with = |bytes_per_s: u64, min_rtt_s: f64| {
        let mut reader = thread("reader", 100, &[(User, 0.02), (Kernel, 0.08), (Asleep, 0.9)]);
        let object = Some("tcp 10.0.0.1:80 to 10.0.0.2:4000".to_owned());
        reader.asleep_on =
            vec![SleepTime { on: "read".to_owned(), share: 0.9, object, holder: None }];
        let bytes_received = 5 * bytes_per_s;
        let tcp = TcpCounts {
            bytes_received,
            segments_in: bytes_received / 1448,
            min_rtt_s,
            ..TcpCounts::default()
        };
        let mut connection = socket(SocketKind::Tcp, "10.0.0.1:80", Some("10.0.0.2:4000"));
        (connection.receive_buffer, connection.tcp) = (Some(65_536), Some(tcp));
        let seen = observation(vec![reader]);
        let packets = packets(bytes_received / 1448, bytes_received);
        let sockets = vec![socket(SocketKind::TcpListen, "10.0.0.1:80", None), connection];
        first(&Observation { sockets, packets, ..seen }).cause
    };
    // Over a veth pair, and over a path with a round trip of 20 ms.
    assert_eq!(with(400_000_000, 30e-6), ReceiveWindow);
    assert_eq!(with(1_500_000, 0.02), ReceiveWindow);
    // A paced stream of 12 Mb/s on a LAN: the window allows 160 MB/s.
    assert_eq!(with(1_500_000, 2e-4), NothingWrong);
}

#[test]
fn the_programs_own_pacing_is_a_limiter() {
    let limited = |limit| TcpCounts {
        busy_s: 5.0,
        app_limited_share: 1.0,
        pacing_limit_bytes_per_s: limit,
        ..TcpCounts::default()
    };
    assert_first(&idle_sender(125_000_000, limited(None)), NothingWrong);
    let mut paced = idle_sender(125_000_000, limited(Some(26e6)));
    let finding = assert_first(&paced, RateLimiter);
    assert!(finding.sentence.contains("208 Mb/s"), "{}", finding.sentence);
    // The limit is the requested line rate.
    paced.watched.line_bits_per_s = Some(200e6);
    assert_first(&paced, NothingWrong);
    // Far below the limit, something else is holding the connection back.
    assert_first(&idle_sender(125_000_000, limited(Some(260e6))), NothingWrong);
}

#[test]
fn lost_segments_of_a_sender_with_more_to_send_are_a_cause() {
    let lossy = |app_limited_share| TcpCounts {
        busy_s: 5.0,
        retransmitted: 2_000,
        needless: Some(0),
        app_limited_share,
        ..TcpCounts::default()
    };
    let finding = assert_first(&idle_sender(125_000_000, lossy(0.1)), TcpLoss);
    assert!(finding.sentence.contains("2 %"), "{}", finding.sentence);
    assert_eq!(finding.gain.percent.low, Some(0.0));
    // A connection with nothing more to send loses time, not rate.
    assert_ne!(first(&idle_sender(125_000_000, lossy(1.0))).cause, TcpLoss);
    // Most segments were late, not lost; if the kernel does not report this, it is unknown.
    for needless in [Some(1_900), None] {
        let late = TcpCounts { needless, ..lossy(0.1) };
        assert_first(&idle_sender(125_000_000, late), CannotTell);
    }
    let few =
        TcpCounts { busy_s: 5.0, retransmitted: 30, needless: Some(0), ..TcpCounts::default() };
    assert_ne!(first(&idle_sender(125_000_000, few)).cause, TcpLoss);
}

#[test]
fn a_queue_filled_by_other_programs_names_them() {
    let with = |acked: u64, opened: u64| {
        let mut seen = crate::seeds::rate_limiter();
        tcp(&mut seen).bytes_acked = acked;
        seen.protocols.insert("Tcp.ActiveOpens".to_owned(), opened);
        seen.protocols.insert("Tcp.PassiveOpens".to_owned(), 0);
        assert_first(&seen, RateLimiter).sentence
    };
    assert!(with(180_000_000, 1).contains("traffic through it"), "{}", with(180_000_000, 1));
    assert!(with(2_000_000, 1).starts_with("Other programs fill the tbf qdisc on v1"));
}

#[test]
fn a_round_trip_that_grows_under_load_is_a_full_queue_on_the_path() {
    let path = |rtt_s, min_rtt_s| TcpCounts {
        busy_s: 5.0,
        rtt_s,
        min_rtt_s,
        rtt_variation_s: Some(0.001),
        needless: Some(0),
        ..TcpCounts::default()
    };
    let full = |tcp| first(&idle_sender(12_500_000, tcp));
    let finding = assert_first(&idle_sender(12_500_000, path(0.227, 0.010)), PathBandwidth);
    for words in ["227 ms instead of 10 ms", "20 Mb/s", "10.0.0.1:40000 to 10.0.0.2:5201"] {
        assert!(finding.sentence.contains(words), "{}", finding.sentence);
    }
    assert!(finding.fix.unwrap().contains("mtr 10.0.0.2 "));
    assert_eq!(finding.gain.percent.as_number(), None);
    // TCP finds the limit by filling the queue, which then loses segments.
    let losses = TcpCounts { retransmitted: 200, ..path(0.227, 0.010) };
    assert_eq!(full(losses).cause, PathBandwidth);
    // With a short queue, losses are the cause, or the cause is not visible.
    let losses = TcpCounts { retransmitted: 200, ..path(0.012, 0.010) };
    assert_eq!(full(losses).cause, TcpLoss);
    assert_eq!(full(path(0.012, 0.010)).cause, CannotTell);
    // A few milliseconds may be due to the hosts; a minimum that was not measured shows nothing.
    assert_eq!(full(path(0.004, 0.000_1)).cause, CannotTell);
    assert_eq!(full(path(0.227, 0.0)).cause, CannotTell);
    // The round-trip time varies by itself, or its variation was not read.
    for rtt_variation_s in [Some(0.06), None] {
        let radio = TcpCounts { rtt_variation_s, ..path(0.227, 0.010) };
        assert_eq!(full(radio).cause, CannotTell);
    }
    // A connection that has nothing to send does not fill a queue.
    assert_ne!(
        full(TcpCounts { app_limited_share: 1.0, ..path(0.227, 0.010) }).cause,
        PathBandwidth
    );
}

#[test]
fn a_cause_that_fits_on_average_is_named_but_not_claimed() {
    // The sender stalls for whole slices at a time, so its CPU demand is uncertain.
    let tcp = TcpCounts {
        busy_s: 5.0,
        retransmitted: 2_000,
        needless: Some(0),
        app_limited_share: 0.1,
        ..TcpCounts::default()
    };
    let mut seen = idle_sender(125_000_000, tcp);
    let wide = |value: f64| {
        let estimate = Estimate { value, low: 0.05, high: 0.95, confidence: 0.95, n: 50 };
        Figure::number("ratio", estimate, Tier::Sw, "by hand")
    };
    seen.threads[0].time = [(Kernel, 0.6), (Asleep, 0.4)]
        .map(|(state, value)| ThreadTime { state, share: wide(value) })
        .to_vec();
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("whether tcp_loss limits the rate"), "{}", finding.sentence);
    assert!(finding.sentence.contains("at most 90 % is required"), "{}", finding.sentence);
    assert_eq!(finding.gain.percent.as_number(), None);
}

#[test]
fn a_connection_that_nothing_visible_stops_is_not_called_right() {
    let tcp = |busy_s, app_limited_share| TcpCounts {
        busy_s,
        app_limited_share,
        cwnd: 40,
        rtt_s: 0.012,
        ..TcpCounts::default()
    };
    let finding = assert_first(&idle_sender(125_000_000, tcp(4.9, 0.0)), CannotTell);
    assert!(finding.sentence.contains("its throughput is 200 Mb/s"), "{}", finding.sentence);
    assert_first(&idle_sender(125_000_000, tcp(0.3, 0.0)), NothingWrong);
    assert_first(&idle_sender(125_000_000, tcp(4.9, 1.0)), NothingWrong);
}

#[test]
fn small_writes_that_wait_for_acknowledgements_are_named() {
    let held = |share| TcpCounts { busy_s: 5.0, held_share: Some(share), ..TcpCounts::default() };
    let mut seen = idle_sender(10_000, held(0.95));
    assert_first(&seen, NagleDelay);
    // A short-lived connection was read only once.
    seen.sockets[0].reads = Some(1);
    assert_ne!(first(&seen).cause, NagleDelay);
    seen.sockets[0].reads = Some(50);
    // The thread also waits for the peer: the reply cannot come before the request.
    tcp(&mut seen).bytes_received = 10_000;
    seen.threads[0].asleep_on[0].on = "recvfrom".to_owned();
    assert_first(&seen, NagleDelay);
    tcp(&mut seen).held_share = Some(0.1);
    assert_first(&seen, WaitingForPeer);
}

#[test]
fn a_socket_that_is_not_read_needs_no_larger_buffer() {
    let mut seen = socket_buffer();
    let buffer = seen.sockets[0].receive_buffer.unwrap();
    seen.sockets[0].receive_queue_mean = 0.4 * buffer as f64;
    assert_first(&seen, SocketBuffer);
    seen.sockets[0].receive_queue_mean = buffer as f64;
    assert_ne!(first(&seen).cause, UnreadSocket, "its thread works");
    seen.threads[0].time = thread("iperf3", 100, &[(User, 0.1), (Asleep, 0.9)]).time;
    assert_first(&seen, UnreadSocket);
    seen.sockets[0].reads = Some(1);
    assert_ne!(first(&seen).cause, UnreadSocket, "one reading is not always");
}

#[test]
fn small_writes_of_a_stream_are_system_calls() {
    let mut seen = copying_unprivileged();
    let bytes = seen.sockets[0].tcp.as_ref().unwrap().bytes_acked;
    assert_first(&seen, CannotTell);
    // 100 bytes per call, counting only calls that any user may count.
    seen.threads[0].io_calls = Some(bytes / 100);
    let finding = assert_first(&seen, SystemCalls);
    assert!(finding.sentence.contains("each for 100 bytes"), "{}", finding.sentence);
    // Requests and their replies cannot be combined.
    tcp(&mut seen).bytes_received = bytes;
    assert_ne!(first(&seen).cause, SystemCalls);
    assert_first(&system_calls_of_write(), SystemCalls);
    // Larger calls indicate copying.
    let mut large = copying_unprivileged();
    large.threads[0].io_calls = Some(bytes / 100_000);
    assert_first(&large, CannotTell);
}

#[test]
fn hashing_with_the_cpus_instructions_is_work() {
    let mut seen = software_crypto();
    assert_first(&seen, SoftwareCrypto);
    seen.threads[0].cipher_instructions = Some(0.3);
    assert_ne!(first(&seen).cause, SoftwareCrypto);
    // If instructions are not decoded, the cause is unknown.
    seen.threads[0].cipher_instructions = None;
    let finding = assert_first(&seen, CannotTell);
    assert!(finding.sentence.contains("software_crypto"), "{}", finding.sentence);
}

/// Returns an observation of a program that queries a server through a UDP socket of its own.
fn asker(remote: &str) -> Observation {
    let mut asker = thread("resolver", 100, &[(User, 0.02), (Kernel, 0.03), (Asleep, 0.95)]);
    let object = Some(format!("udp 10.0.0.1:40001 to {remote}"));
    asker.asleep_on =
        vec![SleepTime { on: "recvfrom".to_owned(), share: 0.9, object, holder: None }];
    let counts = [("Udp.InDatagrams", 500), ("Udp.OutDatagrams", 500)];
    Observation {
        sockets: vec![socket(SocketKind::Udp, "10.0.0.1:40001", Some(remote))],
        protocols: counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect(),
        packets: packets(1000, 100_000),
        ..observation(vec![asker])
    }
}

#[test]
fn a_program_that_asks_by_udp_waits_for_its_peer() {
    let mut seen = asker("10.0.0.2:53");
    assert_first(&seen, WaitingForPeer);
    // Packets without requests are input.
    seen.protocols.insert("Udp.OutDatagrams".to_owned(), 3);
    assert_first(&seen, NothingWrong);
    // Packets from clients are input too; a server may connect sockets to its clients.
    let mut server = asker("10.0.0.2:53");
    server.sockets.push(socket(SocketKind::Udp, "10.0.0.1:40001", None));
    assert_first(&server, NothingWrong);
}

#[test]
fn a_stream_of_datagrams_both_ways_is_no_wait_for_replies() {
    // A call, with 50 packets per second each way.
    let call = asker("10.0.0.2:5004");
    let finding = assert_first(&call, CannotTell);
    assert!(finding.sentence.contains("waiting_for_peer"), "{}", finding.sentence);
    // A server whose clients wait for replies meanwhile, and one whose clients do not.
    let server = |pending| Observation {
        requests: Some(requests(pending, 0.0)),
        sockets: [socket(SocketKind::TcpListen, "10.0.0.1:80", None)]
            .into_iter()
            .chain(call.sockets.clone())
            .collect(),
        ..call.clone()
    };
    let finding = assert_first(&server(1.0), WaitingForPeer);
    assert!(finding.sentence.contains("10.0.0.2:5004"), "{}", finding.sentence);
    assert_first(&server(0.0), CannotTell);
    // One datagram for each request on a connection whose listening socket is closed.
    let mut asks = call.clone();
    asks.sockets.push(SocketCounts {
        tcp: Some(TcpCounts {
            bytes_received: 25_000,
            bytes_acked: 25_000,
            data_segments_in: Some(500),
            data_segments_out: Some(500),
            ..TcpCounts::default()
        }),
        ..socket(SocketKind::Tcp, "10.0.0.1:80", Some("10.0.0.3:4000"))
    });
    assert_first(&asks, WaitingForPeer);
    asks.sockets[1].tcp.as_mut().unwrap().data_segments_in = Some(20);
    assert_first(&asks, CannotTell);
    // Other programs in the network namespace may have sent and received the datagrams.
    let mut shared = server(1.0);
    shared.unread.push(Unread {
        what: "udp_datagrams".to_owned(),
        reason: "other processes have UDP sockets".to_owned(),
        fix: None,
    });
    assert_first(&shared, CannotTell);
}

#[test]
fn a_thread_on_a_full_cpu_has_no_time_left() {
    let mut seen = nothing_to_send();
    seen.threads = vec![thread("server", 100, &[(User, 0.2), (Kernel, 0.25), (Asleep, 0.55)])];
    seen.cpus = vec![cpu(0, 0.1, 0.0, 0.0), cpu(1, 0.1, 0.45, 0.0)];
    assert_first(&seen, NothingWrong);
    seen.cpus = vec![cpu(0, 0.1, 0.0, 0.0), cpu(1, 0.5, 0.49, 0.0)];
    let finding = assert_first(&seen, CannotTell);
    assert!(finding.sentence.contains("54 % of that CPU"), "{}", finding.sentence);
    let copies = functions(&[("kernel", "_copy_from_iter", 0.55)]);
    let mut full = privileged(copying_unprivileged());
    full.threads = vec![in_kernel(0.9)];
    full.threads[0].functions = copies;
    assert_first(&full, Cause::Copying);
}

#[test]
fn an_accept_queue_overflows_while_its_thread_has_time() {
    let mut server = thread("server", 100, &[(User, 0.05), (Kernel, 0.05), (Asleep, 0.9)]);
    server.asleep_on =
        vec![SleepTime { on: "accept4".to_owned(), share: 0.9, object: None, holder: None }];
    let listening = socket(SocketKind::TcpListen, "0.0.0.0:8222", None);
    let seen = |drops, overflows, thread| Observation {
        sockets: vec![SocketCounts {
            drops: Some(drops),
            send_queue_mean: 16.0,
            ..listening.clone()
        }],
        protocols: [
            ("Tcp.PassiveOpens", 5000),
            ("Tcp.InSegs", 20_000),
            ("TcpExt.ListenOverflows", overflows),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into(),
        packets: packets(20_000, 2_000_000),
        ..privileged(observation(vec![thread]))
    };
    let finding = assert_first(&seen(700, 700, server.clone()), AcceptQueue);
    assert!(finding.sentence.contains("holds 16"), "{}", finding.sentence);
    assert_ne!(first(&seen(1, 1, server.clone())).cause, AcceptQueue, "one connection of 5000");
    // A BPF program rejects the connections that it should, or other ones.
    let rejected = assert_first(&seen(700, 0, server.clone()), CannotTell);
    let words = "700 connection attempts (12 %) that socket 0.0.0.0:8222 rejected";
    assert!(rejected.sentence.contains(words), "{}", rejected.sentence);
    assert_first(&seen(40, 0, server.clone()), NothingWrong);
    let some = assert_first(&seen(700, 70, server), AcceptQueue);
    assert!(some.sentence.contains("dropped 70 connection"), "{}", some.sentence);
    let full = thread("server", 100, &[(User, 0.6), (Kernel, 0.4)]);
    assert_ne!(first(&seen(700, 700, full)).cause, AcceptQueue, "it accepts as fast as it can");
}

#[test]
fn a_corked_connection_does_not_wait_for_its_peer() {
    let object = Some("tcp 10.0.0.1:4000 to 10.0.0.2:80".to_owned());
    let mut client = thread("client", 100, &[(User, 0.01), (Asleep, 0.99)]);
    client.asleep_on = vec![SleepTime { on: "read".to_owned(), share: 0.98, object, holder: None }];
    let tcp = TcpCounts {
        bytes_acked: 12_500,
        bytes_received: 12_500,
        segments_out: 50,
        segments_in: 50,
        corked_share: Some(0.98),
        ..TcpCounts::default()
    };
    let mut seen = observation(vec![client]);
    seen.packets = packets(50, 25_000);
    seen.sockets = vec![SocketCounts {
        tcp: Some(tcp),
        ..socket(SocketKind::Tcp, "10.0.0.1:4000", Some("10.0.0.2:80"))
    }];
    let finding = explain(&seen).remove(0);
    assert_eq!(finding.cause, NagleDelay, "{}", finding.sentence);
    assert!(finding.sentence.contains("TCP_CORK"), "{}", finding.sentence);
    // With more exchanges than the kernel's 200 ms allow, something else ends each wait.
    seen.sockets[0].tcp.as_mut().unwrap().segments_out = 400;
    assert_ne!(explain(&seen)[0].cause, NagleDelay);
}

/// A proxy holds back the header of a reply until its server has sent the rest.
#[test]
fn a_proxy_corks_while_its_server_works() {
    let tcp = |corked| {
        Some(TcpCounts {
            bytes_acked: 6000,
            bytes_received: 3000,
            segments_out: 60,
            segments_in: 60,
            corked_share: Some(corked),
            ..TcpCounts::default()
        })
    };
    let of = |local: &str, remote: &str, corked| SocketCounts {
        tcp: tcp(corked),
        ..socket(SocketKind::Tcp, local, Some(remote))
    };
    let mut proxy = thread("proxy", 100, &[(User, 0.01), (Asleep, 0.99)]);
    proxy.asleep_on =
        vec![SleepTime { on: "epoll_wait".to_owned(), share: 0.98, object: None, holder: None }];
    let mut seen = observation(vec![proxy]);
    seen.packets = packets(240, 25_000);
    seen.sockets = vec![
        socket(SocketKind::TcpListen, "10.0.0.1:80", None),
        of("10.0.0.1:80", "10.0.0.2:4000", 0.8),
        of("10.0.0.1:5000", "10.0.0.9:8080", 0.0),
    ];
    assert_ne!(explain(&seen)[0].cause, NagleDelay, "{}", explain(&seen)[0].sentence);
}
