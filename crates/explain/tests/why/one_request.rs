// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections and sockets that last for one request, of which the readings show few.

use crate::example::explain;
use crate::example::{cpu, observation, packets, requests, socket, thread};
use crate::seeds::{protocols, socket_buffer};
use linerate_record::why::Cause::*;
use linerate_record::why::ThreadState::{Asleep, Kernel, User};
use linerate_record::why::{
    Observation, PeerActivity, RequestCounts, SleepTime, SocketCounts, SocketKind, TcpCounts,
    WhyFinding,
};

fn first(seen: &Observation) -> WhyFinding {
    explain(seen).swap_remove(0)
}

fn sleep(on: &str, object: Option<&str>, share: f64) -> SleepTime {
    SleepTime { on: on.to_owned(), share, object: object.map(str::to_owned), holder: None }
}

/// Returns a connection that was read once.
fn brief(local: &str, remote: &str, peer_pid: Option<u32>) -> SocketCounts {
    let tcp = TcpCounts { bytes_received: 80, bytes_acked: 60, ..TcpCounts::default() };
    SocketCounts {
        reads: Some(1),
        peer_pid,
        tcp: Some(tcp),
        ..socket(SocketKind::Tcp, local, Some(remote))
    }
}

/// Returns an event-driven server that works for this fraction of the time and serves a request per
/// connection. Of seven readings, all found `pending` of ten clients waiting.
fn server(works: f64, pending: f64, opened: u64) -> Observation {
    let mut server =
        thread("node", 100, &[(User, works / 2.0), (Kernel, works / 2.0), (Asleep, 1.0 - works)]);
    server.asleep_on = vec![sleep("epoll_wait", Some("[eventpoll]"), 1.0 - works)];
    server.voluntary_switches = 2 * opened;
    let mut sockets = vec![socket(SocketKind::TcpListen, "10.0.0.1:80", None)];
    sockets.extend((0..70).map(|n| brief("10.0.0.1:80", &format!("10.0.0.2:{}", 4000 + n), None)));
    let counts = RequestCounts { readings: 7, requests: 0, ..requests(pending, 0.0) };
    Observation {
        sockets,
        requests: Some(counts),
        protocols: protocols(&[("Tcp.PassiveOpens", opened), ("Tcp.InSegs", 5 * opened)]),
        packets: packets(10 * opened, 1000 * opened),
        ..observation(vec![server])
    }
}

#[test]
fn a_reply_that_waits_on_a_brief_connection_is_no_offered_load() {
    // A reply takes 50 ms, for which the program sleeps.
    let finding = first(&server(0.05, 10.0, 1000));
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("a client is waiting"), "{}", finding.sentence);
    // Of few readings, some may find a client by chance.
    for (readings, share) in [(4, 1.0), (7, 0.4)] {
        let mut seen = server(0.05, 10.0, 1000);
        let counts = seen.requests.as_mut().unwrap();
        (counts.readings, counts.pending_share, counts.pending_mean) = (readings, share, share);
        let finding = first(&seen);
        assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
    }
}

#[test]
fn the_moments_between_request_and_reply_are_no_delay() {
    // 8,000 requests per second, each of which waits for tens of microseconds.
    let mut seen = server(0.3, 10.0, 40_000);
    let finding = first(&seen);
    assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
    // The same with a health check on a connection that lasts.
    seen.requests.as_mut().unwrap().requests = 25;
    let finding = first(&seen);
    assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
}

/// Returns a proxy with a connection per request on both sides. Its clients are process 200, and
/// its server is process 300, which uses this much of CPU 0.
fn proxy(server_cpus: f64) -> Observation {
    let mut seen = server(0.15, 8.0, 1500);
    seen.requests = None;
    for socket in seen.sockets.iter_mut().filter(|socket| socket.remote.is_some()) {
        socket.peer_pid = Some(200);
    }
    let opened = |n: u32| {
        let tcp = TcpCounts { bytes_received: 900, bytes_acked: 80, ..TcpCounts::default() };
        let local = format!("127.0.0.1:{}", 5000 + n);
        let one = brief(&local, "127.0.0.1:8080", Some(300));
        SocketCounts { tcp: Some(tcp), ..one }
    };
    seen.sockets.extend((0..30).map(opened));
    let peer = |pid, name: &str, cpus| PeerActivity {
        pid,
        name: name.to_owned(),
        cpus,
        cpu: Some(u32::from(pid == 200)),
    };
    seen.peers = vec![peer(300, "python3", server_cpus), peer(200, "wrk", 0.2)];
    seen.cpus = vec![cpu(0, server_cpus, 0.01, 0.0), cpu(1, 0.25, 0.15, 0.0)];
    seen
}

#[test]
fn the_server_of_a_proxy_is_not_the_generator() {
    let finding = first(&proxy(0.98));
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("python3 (300) uses 98 %"), "{}", finding.sentence);
    assert_eq!(finding.fix.as_deref().map(|fix| fix.ends_with("linerate why 300")), Some(true));
    // Its clients are in another network namespace.
    let mut seen = proxy(0.98);
    for socket in seen.sockets.iter_mut().filter(|socket| socket.peer_pid == Some(200)) {
        socket.peer_pid = None;
    }
    assert_ne!(first(&seen).cause, GeneratorLimit);
    // A server with room, and clients that saturate their CPU.
    let finding = first(&proxy(0.4));
    assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
    let mut seen = proxy(0.2);
    (seen.peers[1].cpus, seen.cpus[1]) = (0.95, cpu(1, 0.6, 0.38, 0.0));
    seen.threads[0].ran_on = vec![0];
    let finding = first(&seen);
    assert_eq!(finding.cause, GeneratorLimit, "{}", finding.sentence);
    assert!(finding.sentence.contains("wrk (200)"), "{}", finding.sentence);
}

#[test]
fn a_server_on_a_brief_connection_that_holds_up_the_replies_is_named() {
    let mut seen = proxy(0.98);
    let counts = RequestCounts { readings: 15, requests: 0, ..requests(8.0, 7.0) };
    seen.requests = Some(counts);
    let finding = first(&seen);
    assert_eq!(finding.cause, WaitingForPeer, "{}", finding.sentence);
}

/// Returns a UDP server whose receive buffer overflows while it sleeps on this object for most of
/// the time.
fn asks_per_datagram(object: &str) -> Observation {
    let mut seen = socket_buffer();
    let mut server = thread("logger", 100, &[(User, 0.05), (Kernel, 0.05), (Asleep, 0.9)]);
    server.asleep_on =
        vec![sleep("poll", Some(object), 0.88), sleep("recvfrom", Some("udp 0.0.0.0:514"), 0.02)];
    server.voluntary_switches = 2000;
    seen.threads = vec![server];
    seen.sockets = vec![SocketCounts {
        drops: Some(30_000),
        receive_queue_mean: 200_000.0,
        receive_queue_max: 212_992,
        receive_queue_share: Some(1.0),
        ..socket(SocketKind::Udp, "0.0.0.0:514", None)
    }];
    seen.packets = packets(2000, 200_000);
    seen
}

#[test]
fn a_server_that_asks_for_each_datagram_reads_its_socket() {
    // No list showed the sockets of the lookups.
    let finding = first(&asks_per_datagram("socket"));
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    let finding = first(&asks_per_datagram("udp to 10.0.0.2:53"));
    assert_eq!(finding.cause, WaitingForPeer, "{}", finding.sentence);
    assert!(finding.sentence.contains("10.0.0.2:53"), "{}", finding.sentence);
    // The same sleep on its own socket.
    let mut seen = asks_per_datagram("udp 0.0.0.0:514");
    seen.sockets[0].receive_queue_mean = 50_000.0;
    let finding = first(&seen);
    assert_eq!(finding.cause, SocketBuffer, "{}", finding.sentence);
}

/// Returns a server with an acceptor and `count` handlers, each of which sleeps in the call `on`
/// for the fraction `share` of the time and on its client for the rest.
fn handlers(count: u32, on: &str, object: Option<&str>, share: f64) -> Observation {
    let mut acceptor = thread("python3", 100, &[(User, 0.01), (Asleep, 0.99)]);
    acceptor.asleep_on = vec![sleep("poll", Some("tcp 10.0.0.1:80"), 0.99)];
    let handler = |n: u32| {
        let mut one = thread("handler", 101 + n, &[(User, 0.03), (Kernel, 0.02), (Asleep, 0.95)]);
        let client = format!("tcp 10.0.0.1:80 to 10.0.0.2:{}", 4000 + n);
        one.asleep_on =
            vec![sleep(on, object, share), sleep("recvfrom", Some(&client), 0.95 - share)];
        one.voluntary_switches = 500;
        one
    };
    let connection = |n: u32| {
        let tcp = TcpCounts {
            bytes_received: 50_000,
            bytes_acked: 50_000,
            segments_in: 250,
            segments_out: 250,
            app_limited_share: 1.0,
            ..TcpCounts::default()
        };
        let remote = format!("10.0.0.2:{}", 4000 + n);
        SocketCounts { tcp: Some(tcp), ..socket(SocketKind::Tcp, "10.0.0.1:80", Some(&remote)) }
    };
    let clients = if share >= 0.8 { count } else { 2 };
    let mut sockets = vec![socket(SocketKind::TcpListen, "10.0.0.1:80", None)];
    sockets.extend((0..clients).map(connection));
    let threads: Vec<_> = std::iter::once(acceptor).chain((0..count).map(handler)).collect();
    let pending = f64::from(clients) * 0.98;
    Observation {
        sockets,
        requests: Some(requests(pending, 0.0)),
        packets: packets(500 * u64::from(clients), 100_000),
        ..observation(threads)
    }
}

#[test]
fn an_acceptor_does_not_wait_for_requests_while_clients_wait() {
    let log = Some("/var/log/requests");
    let cases = [("fsync", log, WaitingForStorage), ("clock_nanosleep", None, TimerSleep)];
    for (on, object, cause) in cases {
        let mut seen = handlers(1, on, object, 0.9);
        let finding = first(&seen);
        assert_eq!(finding.cause, cause, "{on}: {}", finding.sentence);
        // No client waits, so that the thread that sleeps may be a background thread.
        seen.requests = Some(requests(0.02, 0.0));
        assert_ne!(first(&seen).cause, cause, "{on}: {}", first(&seen).sentence);
        // Clients wait for another server.
        seen.requests = Some(requests(1.0, 1.0));
        assert_ne!(first(&seen).cause, cause, "{on}: {}", first(&seen).sentence);
        // The sleeps account for little of the delay.
        let mut seen = handlers(1, on, object, 0.2);
        seen.requests = Some(requests(1.0, 0.0));
        assert_ne!(first(&seen).cause, cause, "{on}: {}", first(&seen).sentence);
    }
}

#[test]
fn threads_of_a_pool_wait_for_storage_in_turn() {
    // Two clients keep two of eight threads waiting.
    let log = Some("/var/log/requests");
    let finding = first(&handlers(8, "fsync", log, 0.24));
    assert_eq!(finding.cause, WaitingForStorage, "{}", finding.sentence);
    assert!(finding.sentence.contains("fsync (/var/log/requests)"), "{}", finding.sentence);
    // Something else delays most replies.
    let finding = first(&handlers(8, "fsync", log, 0.08));
    assert_ne!(finding.cause, WaitingForStorage, "{}", finding.sentence);
}
