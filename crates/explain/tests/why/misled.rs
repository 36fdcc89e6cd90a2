// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose symptoms are those of another cause.

use crate::example::explain;
use crate::example::{cpu, interface, observation, packets, socket, thread};
use crate::seeds::{
    connection_setup, cpu_contention, interrupt_load, receive_window, single_thread, socket_buffer,
};
use linerate_record::why::Cause::*;
use linerate_record::why::ThreadState::{Asleep, Kernel, User, Waiting};
use linerate_record::why::{
    CpuCounts, InterfaceCounts, Observation, PeerActivity, SleepTime, SocketCounts, SocketKind,
    TcpCounts, Unread,
};

fn sleep(on: &str, object: Option<&str>, share: f64) -> SleepTime {
    SleepTime { on: on.to_owned(), share, object: object.map(str::to_owned), holder: None }
}

fn unread(what: &str) -> Unread {
    Unread { what: what.to_owned(), reason: "not permitted".to_owned(), fix: None }
}

/// Returns a UDP server that loses datagrams while it waits for `share` of the time for the reply
/// of a TCP server.
fn asks_a_server(share: f64) -> Observation {
    let mut seen = socket_buffer();
    let server = &mut seen.threads[0];
    server.asleep_on = vec![
        sleep("recvfrom", Some("tcp 10.0.0.1:4000 to 10.0.0.3:80"), share),
        sleep("recvfrom", Some("udp 0.0.0.0:5201"), 0.46 - share),
    ];
    let tcp = TcpCounts { bytes_received: 50_000, bytes_acked: 50_000, ..TcpCounts::default() };
    let mut connection = socket(SocketKind::Tcp, "10.0.0.1:4000", Some("10.0.0.3:80"));
    connection.tcp = Some(tcp);
    seen.sockets.push(connection);
    seen
}

#[test]
fn a_thread_that_waits_for_a_server_does_not_lack_buffer_space() {
    let causes = |share| explain(&asks_a_server(share)).into_iter().map(|finding| finding.cause);
    assert!(causes(0.0).any(|cause| cause == SocketBuffer));
    assert!(causes(0.46).all(|cause| cause != SocketBuffer));
}

#[test]
fn a_peer_at_its_limit_bounds_the_gain_of_more_requests() {
    let mut client = thread("client", 100, &[(User, 0.01), (Kernel, 0.02), (Asleep, 0.97)]);
    client.asleep_on = vec![sleep("recvfrom", Some("tcp 10.0.0.1:4000 to 10.0.0.3:80"), 0.96)];
    let tcp = TcpCounts { bytes_received: 50_000, bytes_acked: 50_000, ..TcpCounts::default() };
    let mut connection = socket(SocketKind::Tcp, "10.0.0.1:4000", Some("10.0.0.3:80"));
    connection.tcp = Some(tcp);
    connection.peer_pid = Some(200);
    let mut seen = Observation {
        sockets: vec![connection],
        packets: packets(1000, 100_000),
        ..observation(vec![client])
    };
    let gain = |seen: &Observation| {
        let finding = explain(seen).remove(0);
        assert_eq!(finding.cause, WaitingForPeer, "{}", finding.sentence);
        assert_eq!(finding.gain.percent.low, Some(0.0), "the peer may take one at a time");
        finding.gain.percent
    };
    assert!(
        gain(&seen).as_number().unwrap() > 1000.0,
        "its own headroom, as the peer is not known"
    );
    let peer = |pid, cpus| PeerActivity { pid, name: "peer".to_owned(), cpus, cpu: Some(0) };
    // A client that uses CPU time is not the server that the program waits for.
    seen.peers = vec![peer(300, 1.0)];
    assert!(gain(&seen).as_number().unwrap() > 1000.0);
    seen.peers = vec![peer(300, 1.0), peer(200, 0.8)];
    let bounded = gain(&seen);
    assert!((bounded.as_number().unwrap() - 25.0).abs() < 1e-9, "{bounded:?}");
    // Two CPUs, half the cost per request.
    assert!((bounded.high.unwrap() - 400.0).abs() < 1e-9, "{bounded:?}");
}

#[test]
fn hidden_sockets_are_not_taken_for_no_packets() {
    let mut seen = interrupt_load();
    assert_eq!(explain(&seen)[0].cause, InterruptLoad);
    seen.unread.push(unread("system_calls_asleep"));
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.fix.as_ref().unwrap().contains("linerate why 100"), "{:?}", finding.fix);
}

#[test]
fn a_sender_on_loopback_is_not_disturbed_by_its_own_datagrams() {
    let mut seen = interrupt_load();
    seen.threads[0].pid = 100;
    seen.sockets = vec![
        socket(SocketKind::Udp, "127.0.0.1:4000", Some("127.0.0.1:5201")),
        socket(SocketKind::Tcp, "127.0.0.1:4001", Some("127.0.0.1:5201")),
    ];
    seen.packets = packets(15, 1000);
    let counts = [("Udp.OutDatagrams", 2_400_000), ("Udp.RcvbufErrors", 1_100_000)];
    seen.protocols = counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    assert_eq!(explain(&seen)[0].cause, InterruptLoad);
    seen.unread.push(Unread { fix: Some("ip netns exec".to_owned()), ..unread("udp_datagrams") });
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    // The finding states where the datagrams were lost.
    assert!(finding.sentence.contains("dropped 1,100,000 datagrams"), "{}", finding.sentence);
}

#[test]
fn datagrams_of_other_programs_do_not_dilute_a_loss() {
    let mut seen = socket_buffer();
    seen.sockets[0].drops = Some(500);
    let counts = [("Udp.InDatagrams", 1_000_000), ("Udp.RcvbufErrors", 500)];
    seen.protocols = counts.map(|(name, count)| (name.to_owned(), count)).into();
    seen.packets = None;
    assert_eq!(explain(&seen)[0].cause, NothingWrong);
    seen.unread.push(unread("udp_datagrams"));
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("500 packets were lost"), "{}", finding.sentence);
    // A program without TCP sockets handles none of the namespace's segments.
    seen.unread.pop();
    seen.protocols.insert("Udp.InDatagrams".to_owned(), 5_000);
    seen.protocols.insert("Tcp.InSegs".to_owned(), 10_000_000);
    assert_eq!(explain(&seen)[0].cause, SocketBuffer);
}

#[test]
fn connections_that_other_programs_open_are_not_the_programs() {
    let first = |change: fn(&mut Observation)| {
        let mut seen = connection_setup();
        seen.ended_threads_cpus = Some(0.0);
        change(&mut seen);
        explain(&seen).remove(0).cause
    };
    assert_eq!(first(|_| ()), ConnectionSetup);
    // Neither a listening socket nor a connection that ended within the window.
    assert_ne!(first(|seen| seen.sockets.retain(|s| s.kind == SocketKind::Tcp)), ConnectionSetup);
    assert_ne!(first(|seen| seen.sockets.clear()), ConnectionSetup);
    // Too few system calls, or too little time in the kernel.
    assert_ne!(first(|seen| seen.threads[0].system_calls = Some(9_000)), ConnectionSetup);
    assert_ne!(
        first(|seen| {
            let worker = thread("solver", 100, &[(User, 0.93), (Kernel, 0.02), (Asleep, 0.05)]);
            seen.threads = vec![worker];
        }),
        ConnectionSetup
    );
}

#[test]
fn waits_that_could_not_be_read_are_not_taken_for_no_wait_for_input() {
    let mut server = thread("server", 100, &[(User, 0.03), (Kernel, 0.04), (Asleep, 0.93)]);
    server.asleep_on = vec![sleep("not known", None, 0.93)];
    let finding = explain(&observation(vec![server])).remove(0);
    assert!(
        !finding.sentence.contains("waiting for something other than input"),
        "{}",
        finding.sentence
    );
}

#[test]
fn processes_too_brief_to_observe_are_not_other_programs() {
    let mut seen = cpu_contention();
    assert_eq!(explain(&seen)[0].cause, CpuContention);
    seen.watched.pids.extend(200..240);
    assert!(explain(&seen).iter().all(|finding| finding.cause != CpuContention));
}

#[test]
fn a_socket_that_drops_packets_of_an_interface_is_named() {
    let mut seen = socket_buffer();
    seen.threads = Vec::new();
    seen.watched.interface = Some("eth0".to_owned());
    seen.sockets[0].pid = 0;
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, CannotTell);
    let sentence = &finding.sentence;
    assert!(sentence.contains("0.0.0.0:5201") && sentence.contains("300,740"), "{sentence}");
    assert!(finding.fix.as_ref().unwrap().contains("ss -ulpn sport = :5201"), "{:?}", finding.fix);
}

#[test]
fn a_fifo_is_not_storage_and_a_page_fault_is_not_a_write() {
    let held = |on: &str, object: Option<&str>| {
        let mut server = thread("server", 100, &[(User, 0.02), (Kernel, 0.08), (Asleep, 0.9)]);
        server.asleep_on = vec![sleep(on, object, 0.88)];
        server.voluntary_switches = 500;
        let seen = Observation { packets: packets(1000, 100_000), ..observation(vec![server]) };
        explain(&seen).remove(0)
    };
    let fifo = held("write", Some("fifo /run/log"));
    assert_eq!(fifo.cause, SlowReceiver, "{}", fifo.sentence);
    assert!(fifo.sentence.contains("write (fifo /run/log)"), "{}", fifo.sentence);
    let file = held("write", Some("/var/log/requests"));
    assert_eq!(file.cause, WaitingForStorage);
    assert!(file.fix.unwrap().starts_with("Move the write"));
    let fault = held("folio_wait_bit_common", None);
    assert_eq!(fault.cause, WaitingForStorage);
    assert!(fault.fix.unwrap().starts_with("Keep the pages in memory"));
}

#[test]
fn successive_connections_that_always_have_data_are_not_idle() {
    let mut server = thread("server", 100, &[(Kernel, 0.02), (Asleep, 0.98)]);
    server.asleep_on = vec![sleep("epoll_wait", Some("[eventpoll]"), 0.98)];
    let connection = |(port, busy_s, reads)| {
        let tcp = TcpCounts {
            bytes_received: 80,
            bytes_acked: 50_000_000,
            segments_out: 35_000,
            app_limited_share: 0.3,
            busy_s,
            needless: Some(0),
            ..TcpCounts::default()
        };
        let remote = format!("10.0.0.2:{port}");
        let socket = socket(SocketKind::Tcp, "10.0.0.1:80", Some(&remote));
        SocketCounts { tcp: Some(tcp), reads: Some(reads), ..socket }
    };
    let seen = |reads: [u64; 3]| {
        let listen =
            SocketCounts { reads: Some(57), ..socket(SocketKind::TcpListen, "10.0.0.1:80", None) };
        let [a, b, c] = reads;
        let connections = [(4000, 2.4, a), (4001, 1.5, b), (4002, 0.8, c)].map(connection);
        Observation {
            sockets: [listen].into_iter().chain(connections).collect(),
            packets: packets(90_000, 130_000_000),
            ..observation(vec![server.clone()])
        }
    };
    let finding = &explain(&seen([20, 17, 10]))[0];
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("always has data to send"), "{}", finding.sentence);
    // Three at the same time, each of which waits half of its time for more data.
    let finding = &explain(&seen([57, 57, 57]))[0];
    assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
}

/// Returns two threads of a process that share a CPU, and sleep now and then on these futexes.
fn share_a_cpu(futexes: [&str; 2]) -> Observation {
    let of = |(tid, futex): (u32, &str)| {
        let mut thread = thread("server", tid, &[(User, 0.49), (Waiting, 0.48), (Asleep, 0.03)]);
        thread.involuntary_switches = 5_000;
        thread.asleep_on = vec![sleep("futex", Some(futex), 0.03)];
        thread
    };
    let threads = vec![of((100, futexes[0])), of((101, futexes[1]))];
    let cpus = vec![cpu(0, 0.1, 0.05, 0.01), cpu(1, 0.98, 0.0, 0.01)];
    Observation { cpus, packets: packets(100_000, 10_000_000), ..observation(threads) }
}

#[test]
fn threads_behind_a_lock_gain_nothing_from_another_cpu() {
    let apart = share_a_cpu(["futex 0x1000", "futex 0x2000"]);
    assert_eq!(explain(&apart)[0].cause, CpuContention);
    let behind_a_lock = share_a_cpu(["futex 0x1000", "futex 0x1000"]);
    let finding = &explain(&behind_a_lock)[0];
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("cpu_contention or user_lock"));
    // Another process has a futex of its own at the same address.
    let mut processes = behind_a_lock;
    processes.threads[1].pid = 101;
    processes.watched.pids.push(101);
    assert_eq!(explain(&processes)[0].cause, CpuContention);
}

#[test]
fn a_window_below_a_segment_may_be_a_small_buffer_or_a_slow_reader() {
    let with_window = |window| {
        let mut seen = receive_window();
        let tcp = seen.sockets.iter_mut().find_map(|socket| socket.tcp.as_mut());
        let tcp = tcp.expect("a connection");
        (tcp.mss, tcp.peer_window_max) = (1448, Some(window));
        explain(&seen).remove(0)
    };
    assert_eq!(with_window(16_384).cause, ReceiveWindow);
    assert_eq!(with_window(6_000_000).cause, SlowReceiver);
    let finding = with_window(1024);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    for cause in ["receive_window", "slow_receiver"] {
        assert!(finding.sentence.contains(cause), "{}", finding.sentence);
    }
}

/// Returns a receiver at 5 % of its CPU on an interface that loses a fifth of its packets, next to
/// a CPU that spends the fraction `interrupts` of its time receiving.
fn full_card(interrupts: f64) -> Observation {
    let mut seen = socket_buffer();
    seen.sockets.clear();
    seen.threads = vec![thread("sink", 100, &[(User, 0.05), (Asleep, 0.95)])];
    let eth0 = interface("eth0", 800_000);
    seen.interfaces = vec![InterfaceCounts { rx_missed: 200_000, ..eth0 }];
    let receiver = cpu(0, 0.0, 0.0, interrupts);
    seen.cpus = vec![CpuCounts { net_rx: 300_000, ..receiver }, cpu(1, 0.05, 0.0, 0.0)];
    seen
}

#[test]
fn a_full_cpu_that_receives_explains_a_full_ring_of_the_card() {
    assert_eq!(explain(&full_card(0.3))[0].cause, RingOverflow);
    assert_ne!(explain(&full_card(0.97))[0].cause, RingOverflow);
    // An interface is observed without threads.
    let of_interface = |interrupts| {
        let mut seen = full_card(interrupts);
        seen.threads.clear();
        seen.watched.interface = Some("eth0".to_owned());
        explain(&seen).remove(0).cause
    };
    assert_eq!(of_interface(0.3), RingOverflow);
    assert_ne!(of_interface(0.97), RingOverflow);
}

#[test]
fn one_udp_socket_may_carry_a_single_flow() {
    let mut seen = single_thread();
    seen.threads = vec![thread("openvpn", 100, &[(User, 0.95), (Kernel, 0.03), (Waiting, 0.02)])];
    seen.sockets = vec![socket(SocketKind::Udp, "0.0.0.0:1194", None)];
    seen.protocols = [("Udp.InDatagrams".to_owned(), 400_000)].into();
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("by packets 1 flows or more"), "{}", finding.sentence);
    seen.sockets.push(socket(SocketKind::Udp, "0.0.0.0:1194", Some("10.0.0.2:1194")));
    seen.sockets.iter_mut().for_each(|socket| socket.receive_queue_share = Some(0.8));
    assert_eq!(explain(&seen)[0].cause, SingleThread);
}
