// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that sleep while work is queued for them.

use crate::example::explain;
use crate::example::{cpu, functions, interface, observation, packets, privileged, socket, thread};
use linerate_explain::why::{Facts, Measure, Subject};
use linerate_record::why::Cause::{AcceptQueue, CannotTell, NothingWrong, SystemCalls};
use linerate_record::why::ThreadState::{Asleep, Kernel, User, Waiting};
use linerate_record::why::{
    Observation, OutputPipe, SleepTime, SocketCounts, SocketKind, TcpCounts,
};

/// Returns an observation of a server that sleeps and has this socket.
fn server(with: SocketCounts) -> Observation {
    let overflows = with.drops.unwrap_or(0);
    let counts = [("Tcp.PassiveOpens", 100), ("TcpExt.ListenOverflows", overflows)];
    let protocols = counts.map(|(name, count)| (name.to_owned(), count)).into();
    Observation {
        sockets: vec![with],
        protocols,
        ..observation(vec![thread("server", 100, &[(User, 0.02), (Asleep, 0.98)])])
    }
}

fn assert_doubt(with: SocketCounts, words: &str) {
    let finding = &explain(&server(with))[0];
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains(words), "{}", finding.sentence);
}

fn assert_nothing_wrong(with: SocketCounts) {
    let finding = &explain(&server(with))[0];
    assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
}

fn listener(waiting: f64, share: f64, drops: u64) -> SocketCounts {
    SocketCounts {
        receive_queue_mean: waiting,
        receive_queue_share: Some(share),
        send_queue_mean: 16.0,
        drops: Some(drops),
        ..socket(SocketKind::TcpListen, "10.0.0.1:80", None)
    }
}

#[test]
fn connections_that_wait_to_be_accepted_are_not_nothing() {
    assert_nothing_wrong(listener(2.0, 0.3, 0));
    assert_doubt(listener(2.0, 1.0, 0), "10.0.0.1:80 was not empty in 100 % of the readings");
}

#[test]
fn an_accept_queue_that_is_always_full_is_not_called_too_short() {
    assert_eq!(explain(&server(listener(3.0, 0.3, 50)))[0].cause, AcceptQueue);
    assert_doubt(listener(16.0, 1.0, 50), "are waiting to be accepted");
}

#[test]
fn datagrams_that_are_not_read_are_not_nothing() {
    let udp = |share| SocketCounts {
        receive_queue_mean: 4_000.0,
        receive_queue_share: Some(share),
        ..socket(SocketKind::Udp, "10.0.0.1:53", None)
    };
    assert_nothing_wrong(udp(0.2));
    assert_doubt(udp(0.98), "does not read UDP socket 10.0.0.1:53 sooner");
    // A few readings prove nothing.
    assert_nothing_wrong(SocketCounts { reads: Some(3), ..udp(1.0) });
}

#[test]
fn of_connections_one_may_be_left_unread() {
    let connection = |peer: &str, share| SocketCounts {
        receive_queue_mean: 100.0,
        receive_queue_share: Some(share),
        tcp: Some(TcpCounts { bytes_received: 9, bytes_acked: 9, ..TcpCounts::default() }),
        ..socket(SocketKind::Tcp, "10.0.0.1:80", Some(peer))
    };
    let with = |shares: &[f64]| {
        let mut seen = server(connection("10.0.0.2:1", shares[0]));
        seen.sockets.extend(shares[1..].iter().map(|share| connection("10.0.0.2:2", *share)));
        explain(&seen)[0].cause
    };
    assert_eq!(with(&[1.0, 0.1, 0.1]), NothingWrong);
    assert_eq!(with(&[1.0, 1.0, 0.1]), CannotTell);
}

#[test]
fn a_peer_that_acknowledges_nothing_is_named() {
    let sending = |tcp| SocketCounts {
        send_queue_mean: 5_000.0,
        tcp: Some(tcp),
        ..socket(SocketKind::Tcp, "10.0.0.1:4000", Some("10.0.0.2:80"))
    };
    let waits = TcpCounts { busy_s: 5.0, retransmitted: 4, ..TcpCounts::default() };
    assert_doubt(sending(waits.clone()), "why 10.0.0.2:80 does not answer");
    let moves = TcpCounts { bytes_acked: 1_000, app_limited_share: 1.0, ..waits.clone() };
    assert_nothing_wrong(sending(moves));
    // The receiver is responsible for a closed window.
    assert_doubt(sending(TcpCounts { rwnd_limited_s: 5.0, ..waits }), "is not reading");
}

/// Returns an observation of a relay that copies byte by byte; data waited in the fraction `share`
/// of the readings.
fn relay(share: f64) -> Observation {
    let carries = |received, acked, share| SocketCounts {
        receive_queue_mean: 50_000.0,
        receive_queue_max: 60_000,
        receive_queue_share: Some(share),
        tcp: Some(TcpCounts {
            bytes_received: received,
            bytes_acked: acked,
            ..TcpCounts::default()
        }),
        ..socket(SocketKind::Tcp, "10.0.0.1:80", Some("10.0.0.2:4000"))
    };
    let mut seen = server(carries(1_500_000, 0, share));
    seen.sockets.push(carries(0, 1_500_000, 0.0));
    seen.threads = vec![thread("relay", 100, &[(User, 0.2), (Kernel, 0.8)])];
    seen.threads[0].system_calls = Some(4_500_000);
    seen.packets = packets(75_000, 3_000_000);
    privileged(seen)
}

#[test]
fn a_thread_that_always_has_input_has_no_empty_polls() {
    let finding = &explain(&relay(1.0))[0];
    assert_eq!(finding.cause, SystemCalls, "{}", finding.sentence);
    // Sixty calls per packet may be polling if input is rare.
    assert_eq!(explain(&relay(0.3))[0].cause, CannotTell);
}

/// Models a pool of processes, each of which waits for the next request on idle connections.
#[test]
fn workers_that_wait_on_several_connections_wait_for_input() {
    let mut seen = server(listener(8.0, 1.0, 0));
    let sleep = |on: &str, object: &str, share: f64| SleepTime {
        on: on.to_owned(),
        share,
        object: Some(object.to_owned()),
        holder: None,
    };
    seen.threads[0].asleep_on = vec![sleep("pselect6", "-", 0.98)];
    for pid in 101..105 {
        let mut worker = thread("server", pid, &[(User, 0.01), (Asleep, 0.99)]);
        worker.pid = pid;
        let connection = |port: u32| format!("tcp 10.0.0.1:80 to 10.0.0.2:{port}");
        worker.asleep_on = (0..3).map(|n| sleep("poll", &connection(4000 + n), 0.33)).collect();
        seen.threads.push(worker);
    }
    let finding = explain(&seen).remove(0);
    assert!(finding.sentence.contains("4 other processes sleep in poll"), "{}", finding.sentence);
    assert!(finding.fix.unwrap().contains("keep-alive"), "{}", finding.sentence);
}

/// Returns an observation of a reader of frames that never sleeps, whose packet socket has this
/// mean queue and drops in a buffer of 212,992 bytes.
fn frame_reader(queue: f64, drops: u64) -> Observation {
    let reader = SocketCounts {
        receive_queue_mean: queue,
        receive_queue_max: 212_600,
        receive_queue_share: Some(1.0),
        drops: Some(drops),
        ..socket(SocketKind::Packet, "v2", None)
    };
    Observation {
        interfaces: vec![interface("v2", 150_000)],
        sockets: vec![reader],
        packets: packets(150_000 - drops, 0),
        ..observation(vec![thread("reader", 100, &[(User, 0.99), (Kernel, 0.01)])])
    }
}

#[test]
fn a_full_packet_socket_that_is_read_shows_a_busy_reader() {
    let is_busy = |queue, drops| {
        let seen = frame_reader(queue, drops);
        let busy = Measure::Busy.of(&Facts::new(&seen), Subject::Thread(&seen.threads[0]));
        busy.is_some_and(|busy| busy.value > 0.9)
    };
    assert!(is_busy(211_000.0, 55_000));
    // Not full, without losses, and not read at all: the queue stays the same.
    assert!(!is_busy(100_000.0, 55_000));
    assert!(!is_busy(211_000.0, 0));
    assert!(!is_busy(212_600.0, 55_000));
}

#[test]
fn a_pipe_to_a_slow_reader_may_be_what_poll_waits_for() {
    let connection = SocketCounts {
        receive_queue_mean: 362_632.0,
        receive_queue_share: Some(1.0),
        drops: Some(9),
        tcp: Some(TcpCounts { bytes_received: 104_969_249, ..TcpCounts::default() }),
        ..socket(SocketKind::Tcp, "127.0.0.1:9101", Some("127.0.0.1:4000"))
    };
    let mut seen = server(connection);
    let polls = SleepTime { on: "poll".to_owned(), share: 0.97, object: None, holder: None };
    seen.threads[0].asleep_on = vec![polls];
    let pipe = |descriptor, name: &str| OutputPipe { pid: 100, descriptor, name: name.to_owned() };
    // Standard error is hardly ever full, and TCP repairs losses itself.
    seen.output_pipes = vec![pipe(2, "pipe")];
    let unknown = explain(&seen).remove(0);
    assert_eq!(unknown.cause, CannotTell, "{}", unknown.sentence);
    assert!(!unknown.sentence.contains("pipe"), "{}", unknown.sentence);
    assert!(!unknown.sentence.contains("were dropped"), "{}", unknown.sentence);
    seen.output_pipes.push(pipe(1, "fifo /run/out"));
    let finding = explain(&seen).remove(0);
    let of_pipe = "descriptor 1 is a pipe (fifo /run/out)";
    assert!(finding.sentence.contains(of_pipe), "{}", finding.sentence);
    assert!(finding.fix.unwrap().contains("lsof +E -p 100"));
    // It is known what the call waits for.
    seen.threads[0].asleep_on[0].object = Some("tcp 127.0.0.1:9101".to_owned());
    assert!(!explain(&seen)[0].sentence.contains("is a pipe"));
}

#[test]
fn a_datagram_on_its_way_to_a_woken_thread_is_no_backlog() {
    // Measured with an echo server at 20,000 datagrams per second and a buffer of 8 MiB.
    let with = |queued: f64, drops: u64| SocketCounts {
        receive_queue_mean: queued,
        receive_queue_share: Some(0.98),
        receive_buffer: Some(8 << 20),
        drops: Some(drops),
        ..socket(SocketKind::Udp, "0.0.0.0:9301", None)
    };
    let in_call = |socket: SocketCounts, on: &str, object: &str| {
        let mut seen = server(socket);
        let (on, object) = (on.to_owned(), Some(object.to_owned()));
        seen.threads[0].asleep_on = vec![SleepTime { on, share: 0.9, object, holder: None }];
        explain(&seen).remove(0)
    };
    let reads = |socket| in_call(socket, "recvfrom", "udp 0.0.0.0:9301");
    assert_eq!(reads(with(3_472.0, 0)).cause, NothingWrong);
    // A backlog, losses, and clients that wait while the thread waits for something else.
    let locked = in_call(with(3_472.0, 0), "futex", "futex 0x5660460");
    for finding in [reads(with(1_000_000.0, 0)), reads(with(3_472.0, 100)), locked] {
        assert_ne!(finding.cause, NothingWrong, "{}", finding.sentence);
    }
}

#[test]
fn a_client_needs_no_more_workers() {
    // `timeout 20 curl --limit-rate`: the parent waits for a signal.
    let connection = SocketCounts {
        receive_queue_mean: 749_178.0,
        receive_queue_share: Some(1.0),
        tcp: Some(TcpCounts { bytes_received: 29_270_901, ..TcpCounts::default() }),
        ..socket(SocketKind::Tcp, "127.0.0.1:57684", Some("127.0.0.1:80"))
    };
    let mut seen = server(connection);
    let sleep = |on: &str, object: Option<&str>| SleepTime {
        on: on.to_owned(),
        share: 0.99,
        object: object.map(str::to_owned),
        holder: None,
    };
    seen.threads[0].asleep_on = vec![sleep("poll", Some("unix"))];
    let mut parent = thread("timeout", 99, &[(Asleep, 1.0)]);
    (parent.pid, parent.asleep_on) = (99, vec![sleep("rt_sigsuspend", None)]);
    seen.threads.push(parent);
    let client = explain(&seen).remove(0);
    assert!(!client.fix.as_ref().unwrap().contains("workers"), "{client:?}");
    assert!(!client.sentence.contains("rt_sigsuspend"), "{}", client.sentence);
    seen.sockets.push(listener(0.0, 0.0, 0));
    let server = explain(&seen).remove(0);
    assert!(server.fix.unwrap().contains("more worker processes"), "{}", server.sentence);
}

#[test]
fn fragments_of_its_own_datagrams_are_not_packets_of_other_programs() {
    // 140,000 datagrams of 8 KB with an MTU of 576, 15 fragments each.
    let with = |kind: SocketKind, fragments: u64| {
        let mut seen = server(socket(kind, "0.0.0.0:9301", None));
        seen.packets = packets(280_000, 0);
        seen.cpus = vec![cpu(0, 0.3, 0.3, 0.35)];
        seen.cpus[0].backlog_processed = 2_240_000;
        seen.threads[0].ran_on = vec![0];
        let counts = [("Ip.ReasmReqds", fragments), ("Ip.ReasmOKs", 140_000)];
        seen.protocols.extend(counts.map(|(name, count)| (name.to_owned(), count)));
        let facts = Facts::new(&seen);
        let thread = Subject::Thread(&seen.threads[0]);
        Measure::ForeignPackets.of(&facts, thread).expect("it was read").value
    };
    assert!(with(SocketKind::Udp, 2_100_000) < 0.01);
    // Whole datagrams, and a program that has none.
    assert!(with(SocketKind::Udp, 140_000) > 0.8);
    assert!(with(SocketKind::Tcp, 2_100_000) > 0.8);
}

#[test]
fn what_stands_out_in_a_thread_that_lacks_a_cpu_is_named() {
    let with = |shares: &[(&str, &str, f64)], calls: u64| {
        let lacking = (0..8).map(|number| {
            let times = [(User, 0.25), (Waiting, 0.71), (Asleep, 0.04)];
            let mut one = thread("server", 100 + number, &times);
            one.functions = functions(shares);
            (one.system_calls, one.ran_on) = (Some(calls), vec![number % 2]);
            one
        });
        let mut seen = server(socket(SocketKind::Udp, "0.0.0.0:9301", None));
        seen.threads = lacking.collect();
        seen.cpus = [0, 1].map(|number| cpu(number, 0.98, 0.02, 0.0)).into();
        seen.packets = packets(100_000, 0);
        explain(&seen).remove(0).sentence
    };
    let spins = with(&[("/opt/app", "table_lock", 0.92)], 100_000);
    assert!(spins.contains(" 92 % of its samples are in table_lock."), "{spins}");
    assert!(!spins.contains("system calls per packet"), "{spins}");
    let calls = with(&[("kernel", "read", 0.9)], 8_400_000);
    assert!(calls.contains("system calls per packet"), "{calls}");
    assert!(!calls.contains("samples are in"), "{calls}");
}
