// SPDX-License-Identifier: MIT OR Apache-2.0
//! What concerns one of many connections, one process of a server, or another program.

use crate::doubts::{assert_doubt, server};
use crate::example::explain;
use crate::example::{client, interface, observation, packets, requests, sender, socket, thread};
use crate::seeds::{protocols, socket_buffer};
use linerate_record::why::Cause::{
    CannotTell, NagleDelay, NothingWrong, PathBandwidth, SlowReceiver, SocketBuffer,
    WaitingForStorage,
};
use linerate_record::why::ThreadState::{Asleep, Kernel, User};
use linerate_record::why::{
    InterfaceCounts, LocalPorts, Observation, SleepTime, SocketCounts, SocketKind, TcpCounts,
    ThreadActivity,
};

fn sleep(on: &str, object: Option<&str>, share: f64) -> SleepTime {
    SleepTime { on: on.to_owned(), share, object: object.map(str::to_owned), holder: None }
}

fn exchanged() -> TcpCounts {
    TcpCounts {
        bytes_received: 5_000,
        bytes_acked: 5_000,
        segments_in: 100,
        segments_out: 100,
        data_segments_in: Some(50),
        data_segments_out: Some(50),
        ..TcpCounts::default()
    }
}

/// Returns a TCP server with idle time and this number of clients.
fn with_clients(number: usize) -> Observation {
    let mut seen = server(&[]);
    seen.threads[0].asleep_on = vec![sleep("epoll_wait", None, 0.9)];
    seen.sockets = vec![socket(SocketKind::TcpListen, "10.0.0.1:80", None)];
    seen.sockets.extend((0..number).map(|number| client(number, exchanged())));
    seen.requests = Some(requests(0.02, 0.0));
    seen
}

#[test]
fn one_connection_that_is_held_back_does_not_hold_up_a_server() {
    let with = |clients: usize, pending: f64| {
        let mut seen = with_clients(clients);
        let tcp = TcpCounts { busy_s: 5.0, held_share: Some(0.95), ..exchanged() };
        let log = socket(SocketKind::Tcp, "10.0.0.1:40000", Some("10.0.0.3:514"));
        seen.sockets.push(SocketCounts { tcp: Some(tcp), ..log });
        seen.requests = Some(requests(pending, 0.0));
        explain(&seen).swap_remove(0)
    };
    let few = with(0, 0.02);
    assert_eq!(few.cause, NagleDelay, "{}", few.sentence);
    let many = with(1_000_000 / 500, 0.02);
    assert_eq!(many.cause, NothingWrong, "{}", many.sentence);
    // All clients may wait for it.
    let waits = with(1_000_000 / 500, 0.9);
    assert_eq!(waits.cause, NagleDelay, "{}", waits.sentence);
    assert!(waits.gain.percent.as_number().is_some_and(|gain| gain > 100.0), "{waits:?}");
}

#[test]
fn a_process_that_writes_in_the_background_holds_up_no_other_process() {
    let process = |pid: u32, on_cpu: f64, asleep_on: Vec<SleepTime>| {
        let shares = [(User, on_cpu), (Asleep, 1.0 - on_cpu)];
        let mut thread: ThreadActivity = thread("postgres", pid, &shares);
        (thread.pid, thread.asleep_on, thread.voluntary_switches) = (pid, asleep_on, 500);
        thread
    };
    let with = |on_cpu: f64| {
        let write =
            vec![sleep("fdatasync", Some("/var/lib/wal"), 0.2), sleep("epoll_wait", None, 0.7)];
        let writer = process(100, 0.06, write);
        let worker = process(101, on_cpu, vec![sleep("epoll_wait", None, 0.95)]);
        let mut seen = server(&[]);
        seen.threads = vec![writer, worker];
        explain(&seen).swap_remove(0)
    };
    assert_eq!(with(0.05).cause, NothingWrong, "{}", with(0.05).sentence);
    // A process that only supervises the other.
    assert_eq!(with(0.0001).cause, WaitingForStorage, "{}", with(0.0001).sentence);
}

/// Returns a TCP sender on a 1 Gb/s interface with driver `driver` that carries `megabits` Mb/s.
fn on_link(driver: &str, megabits: u64) -> Observation {
    let mut client = thread("iperf3", 100, &[(Kernel, 0.05), (Asleep, 0.95)]);
    client.voluntary_switches = 5_000;
    client.asleep_on = vec![sleep("poll", None, 0.95)];
    let bytes = 5 * megabits * 1_000_000 / 8;
    let tcp = TcpCounts {
        busy_s: 5.0,
        cwnd: 500,
        rtt_s: 0.012,
        min_rtt_s: 0.001,
        rtt_variation_s: Some(0.001),
        ..TcpCounts::default()
    };
    let link = InterfaceCounts {
        driver: Some(driver.to_owned()),
        link_bits_per_s: Some(1e9),
        tx_packets: bytes / 1514,
        tx_bytes: bytes,
        ..interface("eth0", 100_000)
    };
    Observation {
        sockets: vec![sender(bytes / 1514 * 1448, tcp)],
        protocols: protocols(&[("Tcp.InSegs", 1_000), ("Tcp.OutSegs", 1_000)]),
        packets: packets(bytes / 1514, bytes),
        interfaces: vec![link],
        ..observation(vec![client])
    }
}

#[test]
fn a_full_link_of_the_machine_itself_is_named() {
    let full = &explain(&on_link("igb", 980))[0];
    assert_eq!(full.cause, NothingWrong, "{}", full.sentence);
    assert!(full.sentence.contains("the link of eth0 (1 Gb/s) is full"), "{}", full.sentence);
    assert_eq!(full.gain.then_limited_by.as_deref(), Some("the link"));
    for (driver, megabits) in [("igb", 500), ("virtio_net", 980), ("igb", 3_000)] {
        let finding = &explain(&on_link(driver, megabits))[0];
        assert!([CannotTell, PathBandwidth].contains(&finding.cause), "{}", finding.sentence);
    }
    // A backup fills the link.
    let mut other = on_link("igb", 980);
    let tcp = other.sockets[0].tcp.as_mut().unwrap();
    (tcp.segments_out, tcp.bytes_acked) = (1_000, 1_000_000);
    assert_ne!(explain(&other)[0].cause, NothingWrong);
    // It fills the link with a few large packets, and the program sends many small ones.
    let mut small = on_link("igb", 980);
    let packets = small.interfaces[0].tx_packets;
    small.interfaces[0].tx_packets = packets + packets / 2;
    let tcp = small.sockets[0].tcp.as_mut().unwrap();
    (tcp.segments_out, tcp.bytes_acked) = (packets / 2, 10 * (packets / 2));
    let finding = &explain(&small)[0];
    assert!(!finding.sentence.contains("the link of eth0"), "{}", finding.sentence);
}

#[test]
fn asynchronous_reads_of_files_are_no_wait_for_packets() {
    let with = |on: &str| {
        let mut seen = server(&[]);
        seen.threads[0].asleep_on = vec![sleep("fdatasync", Some("/var/lib/db"), 0.2)];
        let mut reader = thread("ib_io_rd", 101, &[(User, 0.05), (Asleep, 0.95)]);
        reader.asleep_on = vec![sleep(on, None, 0.95)];
        seen.threads.push(reader);
        explain(&seen).swap_remove(0).cause
    };
    assert_eq!(with("io_getevents"), WaitingForStorage);
    assert_eq!(with("epoll_wait"), NothingWrong);
}

#[test]
fn requests_of_files_in_an_io_uring_are_no_wait_for_packets() {
    let with = |on_disk: f64| {
        let mut seen = socket_buffer();
        seen.threads[0].asleep_on = vec![sleep("io_uring_enter", Some("[io_uring]"), 0.46)];
        let mut worker = thread("iou-wrk-100", 101, &[(Kernel, 0.02), (Asleep, 0.98)]);
        worker.asleep_on = vec![
            sleep("folio_wait_bit_common", None, on_disk),
            sleep("io_wq_worker", None, 0.98 - on_disk),
        ];
        seen.threads.push(worker);
        explain(&seen).swap_remove(0).cause
    };
    assert_eq!(with(0.0), SocketBuffer);
    assert_ne!(with(0.4), SocketBuffer);
}

#[test]
fn a_client_without_local_ports_is_not_called_idle() {
    let with = |server: &str, time_wait: u64, reuse: u8, opens: u64| {
        let mut seen = with_clients(3);
        let opened = socket(SocketKind::Tcp, "10.0.0.1:40000", Some(server));
        seen.sockets.push(SocketCounts { tcp: Some(exchanged()), ..opened });
        seen.protocols = protocols(&[("Tcp.ActiveOpens", opens), ("Tcp.InSegs", 10_000)]);
        let ports = LocalPorts { range: [32_768, 60_999], time_wait, reuse: Some(reuse) };
        seen.local_ports = Some(ports);
        seen
    };
    let used_up = with("10.0.0.3:80", 28_000, 2, 2_350);
    assert_doubt(&used_up, "28,000 connections of the machine are in TIME_WAIT");
    assert_doubt(&used_up, "allows 28,232 connections to each server");
    for other in [
        with("10.0.0.3:80", 15_000, 2, 1_250),
        with("10.0.0.3:80", 28_000, 1, 2_350),
        with("127.0.0.1:80", 28_000, 2, 2_350),
        // The machine's servers closed these.
        with("10.0.0.3:80", 28_000, 2, 20),
    ] {
        let finding = &explain(&other)[0];
        assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
    }
}

#[test]
fn requests_wait_on_other_connections_than_the_one_that_is_sent_to() {
    let with = |unread: usize| {
        let mut seen = with_clients(4);
        let peer = "tcp 10.0.0.1:80 to 10.0.0.2:4000";
        seen.threads[0].asleep_on = vec![sleep("sendto", Some(peer), 0.9)];
        seen.sockets[1 + unread].receive_queue_share = Some(0.95);
        explain(&seen).swap_remove(0)
    };
    assert_eq!(with(1).cause, SlowReceiver, "{}", with(1).sentence);
    assert_ne!(with(0).cause, SlowReceiver, "{}", with(0).sentence);
    // A leaked connection has no replies.
    let mut leaked = with_clients(1);
    leaked.threads[0].asleep_on =
        vec![sleep("sendto", Some("tcp 10.0.0.1:80 to 10.0.0.2:4000"), 0.9)];
    let mut closed = client(7, TcpCounts { bytes_received: 100, ..TcpCounts::default() });
    closed.receive_queue_share = Some(1.0);
    leaked.sockets.push(closed);
    assert_ne!(explain(&leaked)[0].cause, SlowReceiver);
}

#[test]
fn a_peer_that_reads_nothing_stops_all_replies() {
    let with = |unread: usize, acked: u64| {
        let mut seen = with_clients(4);
        seen.threads[0].asleep_on =
            vec![sleep("sendto", Some("tcp 10.0.0.1:80 to 10.0.0.2:4000"), 0.98)];
        for (number, socket) in seen.sockets[1..].iter_mut().enumerate() {
            let acked = if number == 0 { acked } else { 0 };
            socket.tcp = Some(TcpCounts { bytes_acked: acked, ..TcpCounts::default() });
            let is_unread = (1..=unread).contains(&number);
            socket.receive_queue_share = Some(if is_unread { 1.0 } else { 0.0 });
        }
        explain(&seen).swap_remove(0)
    };
    assert_eq!(with(3, 0).cause, SlowReceiver, "{}", with(3, 0).sentence);
    // One leaked connection of three, and a peer that reads.
    assert_ne!(with(1, 0).cause, SlowReceiver, "{}", with(1, 0).sentence);
    assert_ne!(with(3, 5_000_000).cause, SlowReceiver, "{}", with(3, 5_000_000).sentence);
}
