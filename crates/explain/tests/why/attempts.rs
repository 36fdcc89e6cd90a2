// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attempts that fail or find nothing: queries without a reply, connects without a local port,
//! polls that return at once, and datagrams that a program is too slow for.

use crate::doubts::assert_doubt;
use crate::example::explain;
use crate::example::{
    client, cpu, functions, interface, observation, packets, requests, socket, thread,
};
use crate::seeds::{protocols, socket_buffer};
use linerate_record::why::Cause::{
    ChildProcesses, NothingWrong, SocketBuffer, TimerSleep, WaitingForPeer,
};
use linerate_record::why::ThreadState::{Asleep, Kernel, User};
use linerate_record::why::{
    LocalPorts, Observation, RequestCounts, SleepTime, SocketKind, TcpCounts,
};

fn sleep(on: &str, object: Option<&str>, share: f64) -> SleepTime {
    SleepTime { on: on.to_owned(), share, object: object.map(str::to_owned), holder: None }
}

/// Returns a server that asks the first of two name servers for each request, on a socket of its
/// own. Each of its 8 threads sleeps `sleeps` times, and `answers` of 160 queries have a reply.
fn resolving(sleeps: u64, answers: u64) -> Observation {
    let one = |number: u32| {
        let mut one = thread("server", 101 + number, &[(User, 0.001), (Asleep, 0.999)]);
        let client = format!("tcp 10.0.0.1:80 to 10.0.0.2:{}", 4000 + number);
        one.asleep_on = vec![
            sleep("poll", Some("udp to 10.0.0.9:53"), 0.88),
            sleep("poll", Some("udp 10.0.0.1:59097 to 10.0.0.9:53"), 0.08),
            sleep("recvfrom", Some(&client), 0.03),
        ];
        one.voluntary_switches = sleeps;
        one
    };
    let mut seen = observation((0..8).map(one).collect());
    let tcp = TcpCounts {
        bytes_received: 400,
        bytes_acked: 900,
        segments_in: 15,
        segments_out: 15,
        data_segments_in: Some(5),
        data_segments_out: Some(10),
        ..TcpCounts::default()
    };
    seen.sockets = vec![
        socket(SocketKind::TcpListen, "10.0.0.1:80", None),
        socket(SocketKind::Udp, "10.0.0.1:59097", Some("10.0.0.9:53")),
    ];
    seen.sockets.extend((0..8).map(|number| client(number, tcp.clone())));
    seen.protocols =
        protocols(&[("Udp.InDatagrams", answers), ("Udp.OutDatagrams", 160), ("Tcp.InSegs", 120)]);
    seen.packets = packets(240, 6_000);
    seen.requests = Some(RequestCounts { connections: 8, requests: 0, ..requests(0.1, 0.0) });
    seen
}

#[test]
fn queries_that_a_second_server_answers_have_a_dead_first_one() {
    // Each request waits for a second, in which both queries have no reply, and sleeps about 7
    // times.
    let finding = explain(&resolving(37, 80)).swap_remove(0);
    assert_eq!(finding.cause, WaitingForPeer, "{}", finding.sentence);
    assert!(finding.sentence.contains("10.0.0.9:53, which does not seem to"), "{finding:?}");
    let fix = finding.fix.unwrap();
    assert!(fix.contains("remove it from /etc/resolv.conf"), "{fix}");
    // Its CPU limits nothing.
    assert!(finding.gain.percent.high.is_none_or(|high| high > 2_000.0), "{:?}", finding.gain);
    // A server that answers all of them, slowly.
    let slow = explain(&resolving(37, 160)).swap_remove(0);
    assert!(!slow.sentence.contains("does not seem to answer"), "{}", slow.sentence);
}

/// Returns a client that tries to connect a hundred times per second, of which `opened` attempts
/// succeed.
fn connecting(ports: Option<LocalPorts>, searching: f64, opened: u64) -> Observation {
    let mut one = thread("client", 100, &[(User, 0.01), (Kernel, 0.01), (Asleep, 0.98)]);
    one.asleep_on = vec![sleep("clock_nanosleep", None, 0.98)];
    (one.voluntary_switches, one.samples) = (490, 50);
    one.functions = functions(&[("kernel", "__inet_hash_connect", searching)]);
    let mut seen = observation(vec![one]);
    seen.protocols = protocols(&[("Ip.InReceives", 10), ("Tcp.ActiveOpens", opened)]);
    seen.local_ports = ports;
    seen
}

#[test]
fn connects_without_a_local_port_are_the_likely_cause() {
    let ports = |time_wait, reuse| {
        Some(LocalPorts { range: [40_000, 40_200], time_wait, reuse: Some(reuse) })
    };
    let words = "fail for lack of local ports (EADDRNOTAVAIL)";
    for seen in [
        connecting(ports(200, 0), 0.2, 0),
        // Without samples of the kernel, or without its ports.
        connecting(ports(200, 0), 0.0, 0),
        connecting(None, 0.2, 0),
    ] {
        assert_doubt(&seen, words);
        let next = explain(&seen).swap_remove(0).fix.unwrap();
        assert!(next.contains("tcp_tw_reuse") && next.contains("ip_local_port_range"), "{next}");
    }
    for other in [
        connecting(ports(200, 1), 0.2, 0),
        connecting(ports(50, 0), 0.2, 0),
        connecting(ports(200, 0), 0.2, 490),
        connecting(None, 0.0, 0),
    ] {
        let finding = explain(&other).swap_remove(0);
        assert!(!finding.sentence.contains("EADDRNOTAVAIL"), "{}", finding.sentence);
    }
    assert_doubt(&connecting(None, 0.2, 0), "connections probably fail");
    // A program with traffic, on the machine of a server that closes its connections first.
    let mut streams = connecting(ports(200, 0), 0.0, 0);
    streams.packets = packets(490, 49_000);
    let finding = explain(&streams).swap_remove(0);
    assert!(!finding.sentence.contains("EADDRNOTAVAIL"), "{}", finding.sentence);
}

/// Returns a server whose only busy thread never sleeps, with this fraction of its time in the
/// kernel. Requests are pending in hardly any reading.
fn spinning(kernel: f64) -> Observation {
    let spins = thread("server", 100, &[(User, 1.0 - kernel), (Kernel, kernel)]);
    let tcp = TcpCounts {
        bytes_received: 30_000,
        bytes_acked: 30_000,
        segments_in: 2_300,
        segments_out: 2_300,
        data_segments_in: Some(2_300),
        data_segments_out: Some(2_300),
        ..TcpCounts::default()
    };
    let mut seen = observation(vec![spins]);
    seen.sockets = vec![socket(SocketKind::TcpListen, "10.0.0.1:80", None)];
    seen.sockets.extend((0..8).map(|number| client(number, tcp.clone())));
    seen.requests = Some(RequestCounts { connections: 8, requests: 18_400, ..requests(0.0, 0.0) });
    seen.protocols = protocols(&[("Tcp.InSegs", 18_400), ("Tcp.OutSegs", 18_400)]);
    seen.packets = packets(36_800, 55_000);
    seen.cpus = vec![cpu(0, 0.02, 0.03, 0.0), cpu(1, 0.04, 0.96, 0.0)];
    seen
}

#[test]
fn the_only_thread_of_a_server_does_not_work_in_the_background() {
    for kernel in [0.95, 0.5] {
        let seen = spinning(kernel);
        assert_doubt(&seen, "it probably spins");
        let finding = explain(&seen).swap_remove(0);
        assert!(!finding.sentence.contains("snapshot"), "{}", finding.sentence);
        assert!(finding.fix.as_deref().unwrap().contains("EPOLLOUT"), "{:?}", finding.fix);
    }
    // With another thread that works, it may.
    let mut other = spinning(0.5);
    let mut serves = thread("server", 101, &[(User, 0.1), (Asleep, 0.9)]);
    (serves.voluntary_switches, serves.asleep_on) =
        (18_000, vec![sleep("epoll_wait", Some("[eventpoll]"), 0.9)]);
    other.threads.push(serves);
    assert_doubt(&other, "or it works in the background");
}

/// Returns a receiver with this mean queue, whose child processes use this many CPUs.
fn overloaded(queue: f64, children: f64, brief: u32) -> Observation {
    let mut seen = socket_buffer();
    seen.sockets[0].drops = Some(10_087);
    seen.protocols = protocols(&[("Udp.InDatagrams", 10_093), ("Udp.RcvbufErrors", 9_927)]);
    seen.packets = packets(10_093, 2_000_000);
    seen.sockets[0].receive_queue_mean = queue;
    seen.sockets[0].receive_queue_max = 16_384;
    seen.sockets[0].receive_queue_share = Some(1.0);
    seen.threads[0].time.clear();
    let shares = [(User, 0.02), (Kernel, 0.08), (Asleep, 0.9)];
    seen.threads[0].time = thread("server", 100, &shares).time;
    seen.threads[0].asleep_on = vec![sleep("pselect6", None, 0.9)];
    seen.ended_children_cpus = Some(children);
    seen.watched.pids.extend(2_000..2_000 + brief);
    seen
}

#[test]
fn a_buffer_that_is_always_full_is_not_too_small() {
    let bursts = explain(&overloaded(8_000.0, 0.0, 0)).swap_remove(0);
    assert_eq!(bursts.cause, SocketBuffer, "{}", bursts.sentence);
    assert!(bursts.workaround.unwrap().contains("recvmmsg"));
    let steady = explain(&overloaded(15_500.0, 0.0, 0));
    assert!(steady.iter().all(|one| one.cause != SocketBuffer), "{steady:?}");
    // A process for each packet, each of which the program waits for, on idle CPUs.
    let forks = explain(&overloaded(15_500.0, 0.23, 14)).swap_remove(0);
    assert_eq!(forks.cause, ChildProcesses, "{}", forks.sentence);
    assert!(forks.sentence.contains("70 % of its CPU time (0.23 CPUs)"), "{}", forks.sentence);
    // A receiver that forks gets no advice that only one process can follow.
    let both = explain(&overloaded(8_000.0, 0.23, 0)).swap_remove(0);
    assert_eq!(both.cause, SocketBuffer, "{}", both.sentence);
    assert!(!both.workaround.as_deref().unwrap().contains("recvmmsg"), "{:?}", both.workaround);
}

/// Returns a receiver that sleeps on a timer between batches, and gets this many of 20,000
/// datagrams.
fn between_naps(received: u64) -> Observation {
    let mut one = thread("server", 100, &[(Kernel, 0.02), (Asleep, 0.98)]);
    one.asleep_on =
        vec![sleep("clock_nanosleep", None, 0.8), sleep("poll", Some("udp 0.0.0.0:9000"), 0.18)];
    one.voluntary_switches = 2_010;
    let mut seen = observation(vec![one]);
    seen.sockets = vec![socket(SocketKind::Udp, "0.0.0.0:9000", None)];
    seen.sockets[0].drops = Some(0);
    seen.interfaces = vec![interface("eth0", 20_000)];
    seen.protocols = protocols(&[
        ("Udp.InDatagrams", received),
        ("Ip.InReceives", 20_000),
        ("Ip.InDelivers", received),
        ("Conntrack.drop", 0),
    ]);
    seen.packets = packets(received, 500 * received);
    seen.cpus = vec![cpu(0, 0.02, 0.03, 0.02), cpu(1, 0.01, 0.02, 0.0)];
    seen
}

#[test]
fn naps_of_a_receiver_that_gets_everything_cost_nothing() {
    let all = explain(&between_naps(20_000)).swap_remove(0);
    assert_eq!(all.cause, NothingWrong, "{}", all.sentence);
    let lossy = explain(&between_naps(15_000)).swap_remove(0);
    assert_ne!(lossy.cause, NothingWrong, "{}", lossy.sentence);
    // A server that replies may keep its clients waiting.
    let mut replies = between_naps(20_000);
    replies.protocols.insert("Udp.OutDatagrams".to_owned(), 20_000);
    let finding = explain(&replies).swap_remove(0);
    let is_named = finding.cause == TimerSleep || finding.sentence.contains("timer_sleep");
    assert!(is_named, "{}", finding.sentence);
}
