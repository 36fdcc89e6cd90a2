// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs with connections to other servers: which of them wait for replies.

use crate::example::explain;
use crate::example::{observation, packets, requests, socket, thread};
use crate::seeds::{protocols, waiting_for_peer};
use linerate_record::why::Cause::{CannotTell, NothingWrong, WaitingForPeer};
use linerate_record::why::ThreadState::{Asleep, Kernel, User};
use linerate_record::why::{
    Observation, PeerActivity, RequestCounts, SleepTime, SocketCounts, SocketKind, TcpCounts,
    WhyFinding,
};

fn first(seen: &Observation) -> WhyFinding {
    explain(seen).swap_remove(0)
}

#[test]
fn an_idle_proxy_with_pooled_connections_has_no_queue() {
    let with = |requests: Option<RequestCounts>| Observation { requests, ..waiting_for_peer() };
    let finding = first(&with(Some(requests(30.0, 4.0))));
    assert_eq!(finding.cause, WaitingForPeer, "{}", finding.sentence);
    assert!(finding.sentence.contains("on average, 26 requests wait"), "{}", finding.sentence);
    // Hardly any reply is pending: 32 clients share 4 connections, and seldom need them.
    let idle = first(&with(Some(requests(0.1, 0.1))));
    assert_eq!(idle.cause, NothingWrong, "{}", idle.sentence);
    // Something other than the servers, which are seldom asked, delays the replies.
    let other = first(&with(Some(requests(10.0, 0.1))));
    assert_eq!(other.cause, CannotTell, "{}", other.sentence);
    // A real proxy: replies arrive in two parts, 40 ms apart, which hides pending requests.
    let real = first(&with(Some(requests(29.3, 0.25))));
    assert_eq!(real.cause, WaitingForPeer, "{}", real.sentence);
    // Few requests need a server.
    let mut few = with(Some(requests(30.0, 1.0)));
    for tcp in few.sockets[33..].iter_mut().filter_map(|socket| socket.tcp.as_mut()) {
        tcp.segments_out = 400;
    }
    assert_eq!(first(&few).cause, CannotTell, "{}", first(&few).sentence);
    // Requests were not counted.
    let unread = first(&with(None));
    assert_eq!(unread.cause, CannotTell, "{}", unread.sentence);
    assert!(unread.sentence.contains("whether waiting_for_peer"), "{}", unread.sentence);
}

#[test]
fn clients_with_pauses_gain_no_more_than_their_requests_allow() {
    let mut seen = waiting_for_peer();
    seen.requests = Some(requests(10.0, 4.0));
    let gain = first(&seen).gain.percent;
    assert!((gain.as_number().unwrap() - 150.0).abs() < 1.0, "{gain:?}");
    assert!(gain.high.unwrap() > 500.0, "{gain:?}");
}

#[test]
fn connections_that_carry_streams_queue_no_requests() {
    let mut seen = waiting_for_peer();
    seen.requests = None;
    for tcp in seen.sockets.iter_mut().filter_map(|socket| socket.tcp.as_mut()) {
        (tcp.data_segments_in, tcp.data_segments_out) = (Some(2), Some(398));
    }
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
}

/// Returns a client that sleeps in reads from a server, with `received` data segments received and
/// `sent` sent.
fn reader(received: u64, sent: u64) -> Observation {
    let object = Some("tcp 10.0.0.1:4000 to 10.0.0.3:80".to_owned());
    let mut client = thread("client", 100, &[(User, 0.02), (Kernel, 0.05), (Asleep, 0.93)]);
    client.asleep_on =
        vec![SleepTime { on: "recvfrom".to_owned(), share: 0.9, object, holder: None }];
    let tcp = TcpCounts {
        bytes_received: 500 * received,
        bytes_acked: 50 * sent,
        segments_in: received,
        segments_out: received,
        data_segments_in: Some(received),
        data_segments_out: Some(sent),
        app_limited_share: 1.0,
        ..TcpCounts::default()
    };
    let to_server = socket(SocketKind::Tcp, "10.0.0.1:4000", Some("10.0.0.3:80"));
    Observation {
        sockets: vec![SocketCounts { tcp: Some(tcp), ..to_server }],
        packets: packets(2 * received, 600 * received),
        ..observation(vec![client])
    }
}

#[test]
fn a_client_that_connects_for_each_request_is_advised_to_keep_connections_open() {
    let mut seen = reader(2000, 2000);
    let finding = first(&seen);
    assert!(finding.fix.as_ref().unwrap().starts_with("Keep more requests"), "{:?}", finding.fix);
    // Each connection is seen once or twice.
    seen.sockets[0].reads = Some(1);
    let next = |number: u32| SocketCounts {
        local: format!("10.0.0.1:{}", 4000 + number),
        ..seen.sockets[0].clone()
    };
    let others: Vec<SocketCounts> = (1..5).map(next).collect();
    seen.sockets.extend(others);
    seen.protocols.insert("Tcp.ActiveOpens".to_owned(), 800);
    seen.threads[0].voluntary_switches = 4000;
    let finding = first(&seen);
    assert_eq!(finding.cause, WaitingForPeer, "{}", finding.sentence);
    assert!(
        finding.sentence.contains("160 connections per second are opened"),
        "{}",
        finding.sentence
    );
    assert!(finding.fix.as_ref().unwrap().starts_with("Keep connections open"));
}

#[test]
fn the_receiver_of_a_stream_waits_for_no_replies() {
    assert_eq!(first(&reader(2000, 2000)).cause, WaitingForPeer);
    assert_eq!(first(&reader(2000, 400)).cause, WaitingForPeer);
    // A feed with a heartbeat now and then, one without, and a subscription that carries little.
    for (received, sent) in [(20_000, 5), (20_000, 0), (100, 1), (5, 0)] {
        let feed = first(&reader(received, sent));
        assert_eq!(feed.cause, NothingWrong, "{received} {sent}: {}", feed.sentence);
    }
    // An older record without these counts: the bytes decide.
    let older = |received: u64, sent: u64| {
        let mut seen = reader(received, sent);
        let tcp = seen.sockets[0].tcp.as_mut().unwrap();
        (tcp.data_segments_in, tcp.data_segments_out) = (None, None);
        first(&seen).cause
    };
    assert_eq!(older(2000, 2000), WaitingForPeer);
    assert_eq!(older(200_000, 5), NothingWrong);
}

#[test]
fn messages_on_a_unix_socket_may_be_replies() {
    let mut seen = reader(2000, 2000);
    seen.sockets.clear();
    seen.packets = None;
    seen.threads[0].asleep_on[0].object = Some("unix to /run/backend".to_owned());
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("unix to /run/backend"), "{}", finding.sentence);
    assert!(finding.sentence.contains("(waiting_for_peer)"), "{}", finding.sentence);
    // The same in a thread that hardly ever wakes up, while others do the work.
    let listener = seen.threads[0].clone();
    let mut busier = thread("server", 101, &[(User, 0.1), (Asleep, 0.9)]);
    busier.asleep_on =
        vec![SleepTime { on: "epoll_wait".to_owned(), share: 0.9, object: None, holder: None }];
    seen.threads = vec![busier, listener];
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
}

#[test]
fn a_reply_that_takes_long_may_be_the_next_job() {
    // A request per second, as in a long poll.
    let finding = first(&reader(5, 5));
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("or has nothing to do"), "{}", finding.sentence);
    // The server works on it.
    let mut works = reader(5, 5);
    works.sockets[0].peer_pid = Some(300);
    let server = |cpus| PeerActivity { pid: 300, name: "api".to_owned(), cpus, cpu: Some(0) };
    works.peers = vec![server(0.9)];
    assert_eq!(first(&works).cause, WaitingForPeer, "{}", first(&works).sentence);
    works.peers = vec![server(0.01)];
    assert_eq!(first(&works).cause, CannotTell);
    // A database takes queries, not polls.
    let mut query = reader(5, 5);
    query.sockets[0].remote = Some("10.0.0.3:5432".to_owned());
    query.threads[0].asleep_on[0].object = Some("tcp 10.0.0.1:4000 to 10.0.0.3:5432".to_owned());
    assert_eq!(first(&query).cause, WaitingForPeer, "{}", first(&query).sentence);
    // Clients wait meanwhile.
    let mut due = reader(5, 5);
    due.requests = Some(requests(1.0, 1.0));
    assert_eq!(first(&due).cause, WaitingForPeer, "{}", first(&due).sentence);
}

#[test]
fn a_helper_that_asks_a_server_holds_up_no_clients() {
    let helper = |awaiting: f64| {
        let mut seen = reader(2000, 2000);
        seen.threads[0].name = "metrics".to_owned();
        let mut main = thread("server", 101, &[(User, 0.2), (Kernel, 0.2), (Asleep, 0.6)]);
        let object = Some("[eventpoll]".to_owned());
        main.asleep_on =
            vec![SleepTime { on: "epoll_wait".to_owned(), share: 0.6, object, holder: None }];
        main.voluntary_switches = 5_000;
        seen.threads.push(main);
        seen.requests = Some(requests(0.2, awaiting));
        first(&seen).cause
    };
    assert_ne!(helper(0.0), WaitingForPeer);
    assert_eq!(helper(0.6), WaitingForPeer);
}

#[test]
fn a_connection_per_request_is_no_long_poll() {
    let with = |opened: u64, sleeps: u64, reads: u64| {
        let mut seen = reader(1, 1);
        seen.sockets[0].reads = Some(reads);
        seen.threads[0].asleep_on[0].object = Some("tcp to 10.0.0.3:80".to_owned());
        seen.threads[0].voluntary_switches = sleeps;
        seen.protocols = protocols(&[("Tcp.ActiveOpens", opened), ("Tcp.InSegs", 3000)]);
        first(&seen)
    };
    // 100 requests per second.
    let often = with(500, 1000, 1);
    assert_eq!(often.cause, WaitingForPeer, "{}", often.sentence);
    assert!(often.sentence.contains("10.0.0.3:80"), "{}", often.sentence);
    // A poll per second, other programs' connections, and a connection that lasts.
    for (opened, sleeps, reads) in [(5, 10, 5), (500, 10, 5), (500, 1000, 50)] {
        let seldom = with(opened, sleeps, reads);
        assert_eq!(seldom.cause, CannotTell, "{}", seldom.sentence);
    }
}

#[test]
fn a_proxy_that_opens_a_connection_per_request_waits_for_replies() {
    // 30 clients, and servers 20 ms away: half of the time, a connection is being opened.
    let with = |round_trip_s: f64, reads: u64| {
        let mut seen = waiting_for_peer();
        let server = seen.sockets[33].clone();
        seen.sockets.truncate(33);
        seen.sockets.extend((0..32).map(|n| SocketCounts {
            local: format!("10.0.0.1:{}", 40_000 + n),
            reads: Some(reads),
            tcp: Some(TcpCounts {
                bytes_received: 1_000,
                bytes_acked: 100,
                segments_in: 3,
                segments_out: 3,
                min_rtt_s: round_trip_s,
                ..TcpCounts::default()
            }),
            ..server.clone()
        }));
        seen.protocols = protocols(&[
            ("Tcp.ActiveOpens", 3_650),
            ("Tcp.PassiveOpens", 0),
            ("Tcp.InSegs", 30_000),
        ]);
        seen.requests = Some(requests(30.0, 15.0));
        first(&seen)
    };
    let proxy = with(0.02, 1);
    assert_eq!(proxy.cause, WaitingForPeer, "{}", proxy.sentence);
    assert!(proxy.sentence.contains("waits for replies from server"), "{}", proxy.sentence);
    assert!(!proxy.sentence.contains("SYN"), "{}", proxy.sentence);
    // Requests wait for something else: connections are opened at once, or last.
    for (round_trip_s, reads) in [(0.0002, 1), (0.02, 50)] {
        let other = with(round_trip_s, reads);
        assert_ne!(other.cause, WaitingForPeer, "{}", other.sentence);
    }
}

#[test]
fn a_request_with_many_queries_is_advised_to_combine_them() {
    let with = |queries: u64| {
        let mut seen = waiting_for_peer();
        // As many connections to the server as clients, each of which waits for a reply there.
        let server = seen.sockets[33].clone();
        seen.sockets.truncate(33);
        seen.sockets.extend((0..32).map(|_| server.clone()));
        for (n, socket) in seen.sockets.iter_mut().enumerate() {
            let Some(tcp) = &mut socket.tcp else { continue };
            let each = if n >= 33 { 1_000 * queries } else { 1_000 };
            (tcp.data_segments_in, tcp.data_segments_out) = (Some(each), Some(each));
        }
        seen.requests = Some(requests(30.0, 29.0));
        first(&seen)
    };
    let one = with(1);
    assert_eq!(one.cause, WaitingForPeer, "{}", one.sentence);
    assert!(one.fix.unwrap().starts_with("Find out why the server is slow"));
    let many = with(30);
    assert!(many.sentence.contains("sends 30 segments with data"), "{}", many.sentence);
    assert!(many.fix.unwrap().starts_with("Combine the queries"));
}
