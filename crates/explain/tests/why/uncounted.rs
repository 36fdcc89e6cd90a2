// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traffic that no counter attributes to the program: closed connections, datagrams, and sockets
//! that are in no list.

use crate::connections::{assert_first, first};
use crate::example::{interface, observation, privileged, socket, thread};
use crate::seeds::rate_limiter;
use linerate_record::why::Cause::{CannotTell, NothingWrong, RateLimiter};
use linerate_record::why::ThreadState::{Asleep, Kernel, User};
use linerate_record::why::{Observation, SleepTime, SocketCounts, SocketKind};

#[test]
fn a_queue_is_the_programs_if_uncounted_bytes_may_be() {
    let filled = |set: fn(&mut Observation)| {
        let mut seen = rate_limiter();
        seen.sockets[0].tcp.as_mut().unwrap().bytes_acked = 2_000_000;
        seen.protocols.insert("Tcp.ActiveOpens".to_owned(), 0);
        seen.protocols.insert("Tcp.PassiveOpens".to_owned(), 500);
        seen.ended_threads_cpus = Some(0.0);
        set(&mut seen);
        assert_first(&seen, RateLimiter).sentence
    };
    let by_program = |set| filled(set).contains("traffic through it");
    let by_others = |set| filled(set).starts_with("Other programs fill the tbf qdisc on v1");
    let listen = |seen: &mut Observation| {
        seen.sockets.push(socket(SocketKind::TcpListen, "10.0.0.1:80", None));
    };
    // The bytes of connections that have ended are not known.
    assert!(by_program(listen), "{}", filled(listen));
    // A program that has no time for them, or does not listen, did not open them.
    let idle = |seen: &mut Observation| {
        seen.sockets.push(socket(SocketKind::TcpListen, "10.0.0.1:5432", None));
        seen.threads = vec![thread("postgres", 100, &[(Kernel, 0.000_5), (Asleep, 0.999_5)])];
    };
    assert!(by_others(idle), "{}", filled(idle));
    assert!(by_others(|_| ()), "{}", filled(|_| ()));
    // The socket of a resolver sends few datagrams.
    let resolves = |seen: &mut Observation| {
        seen.protocols.insert("Udp.OutDatagrams".to_owned(), 50);
        let resolver = socket(SocketKind::Udp, "10.0.0.1:4000", Some("10.0.0.2:53"));
        seen.sockets.push(SocketCounts { reads: Some(50), ..resolver });
    };
    assert!(by_others(resolves), "{}", filled(resolves));
    // Where others send datagrams too, those of the program wait in its socket's send queue.
    let sends = |waiting: f64| {
        let mut seen = rate_limiter();
        seen.sockets[0].tcp.as_mut().unwrap().bytes_acked = 2_000_000;
        seen.protocols.insert("Udp.OutDatagrams".to_owned(), 100_000);
        seen.interfaces[0].qdiscs[0].queued_bytes = 150_000;
        let sender = socket(SocketKind::Udp, "10.0.0.1:4000", Some("10.0.0.2:8125"));
        let sender = SocketCounts { reads: Some(50), send_queue_mean: waiting, ..sender };
        seen.sockets.push(sender);
        assert_first(&seen, RateLimiter).sentence
    };
    assert!(sends(800.0).starts_with("Other programs fill"), "{}", sends(800.0));
    assert!(sends(140_000.0).contains("traffic through it"), "{}", sends(140_000.0));
}

/// Returns a program that sleeps in this call on a socket of no list, and reads 200,000 packets per
/// second from it.
fn sleeps_on(call: &str, object: &str) -> Observation {
    let mut reader = thread("reader", 100, &[(User, 0.1), (Kernel, 0.1), (Asleep, 0.8)]);
    let sleep = SleepTime {
        on: call.to_owned(),
        share: 0.8,
        object: Some(object.to_owned()),
        holder: None,
    };
    (reader.asleep_on, reader.voluntary_switches) = (vec![sleep], 20_000);
    let mut seen = observation(vec![reader]);
    seen.interfaces = vec![interface("eth0", 1_000_000)];
    seen.protocols.insert("Ip.InReceives".to_owned(), 100);
    seen.protocols.insert("Ip.InDelivers".to_owned(), 100);
    seen
}

#[test]
fn packets_at_an_xdp_socket_have_not_vanished() {
    let with = |drops| {
        let mut seen = privileged(sleeps_on("poll", "xdp eth0"));
        seen.sockets = vec![SocketCounts { drops, ..socket(SocketKind::Xdp, "eth0", None) }];
        first(&seen)
    };
    let finding = with(None);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("lost at its XDP socket on eth0"), "{}", finding.sentence);
    // Where the kernel lists the socket, its drops are known.
    assert_eq!(with(Some(0)).cause, NothingWrong, "{}", with(Some(0)).sentence);
    let finding = with(Some(50_000));
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(
        finding.sentence.contains("50,000 packets were lost at xdp eth0"),
        "{}",
        finding.sentence
    );
}

#[test]
fn a_socket_in_no_list_may_lose_packets() {
    let mut seen = sleeps_on("recvmsg", "socket");
    seen.interfaces.clear();
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("not a TCP, UDP, packet or Unix"), "{}", finding.sentence);
    // Connections that last for a request are in no list, either.
    let mut brief = seen.clone();
    brief.sockets = vec![socket(SocketKind::TcpListen, "10.0.0.1:80", None)];
    assert_eq!(first(&brief).cause, CannotTell);
    brief.protocols.insert("Tcp.PassiveOpens".to_owned(), 20_000);
    assert_eq!(first(&brief).cause, NothingWrong, "{}", first(&brief).sentence);
    // Threads that hardly ever wake up have little to do there.
    let mut main = thread("main", 99, &[(User, 0.3), (Asleep, 0.7)]);
    let object = Some("[eventpoll]".to_owned());
    main.asleep_on =
        vec![SleepTime { on: "epoll_wait".to_owned(), share: 0.7, object, holder: None }];
    seen.threads[0].voluntary_switches = 5;
    seen.threads.push(main);
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
}
