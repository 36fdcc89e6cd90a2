// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that sleep most of the time. Whether anything is wrong depends on what they wait for.

use crate::example::explain;
use crate::example::{observation, packets, socket, thread};
use linerate_record::why::Cause::*;
use linerate_record::why::ThreadState::{Asleep, Kernel, User};
use linerate_record::why::{Observation, SleepTime, SocketCounts, SocketKind, TcpCounts};

/// Returns an observation of a server that sleeps 500 times while handling 1000 requests. It is
/// asleep for 0.9 of its time: for `share` of it in the call `on`, and for the rest waiting for
/// requests.
fn server(kind: SocketKind, on: &str, object: Option<&str>, share: f64) -> Observation {
    let mut server = thread("server", 100, &[(User, 0.02), (Kernel, 0.08), (Asleep, 0.9)]);
    let sleep = |on: &str, object: Option<&str>, share: f64| SleepTime {
        on: on.to_owned(),
        share,
        object: object.map(str::to_owned),
        holder: None,
    };
    let input = sleep("recvfrom", Some("tcp 10.0.0.1:80"), 0.9 - share);
    server.asleep_on = vec![sleep(on, object, share), input];
    server.voluntary_switches = 500;
    let tcp = TcpCounts { bytes_received: 50_000, bytes_acked: 50_000, ..TcpCounts::default() };
    let connection = SocketCounts {
        tcp: (kind == SocketKind::Tcp).then_some(tcp),
        ..socket(kind, "10.0.0.1:80", Some("10.0.0.2:4000"))
    };
    Observation {
        sockets: vec![socket(SocketKind::TcpListen, "10.0.0.1:80", None), connection],
        packets: packets(1000, 100_000),
        ..observation(vec![server])
    }
}

#[test]
fn storage_in_the_path_of_a_request_is_named_with_the_call() {
    let finding = &explain(&server(SocketKind::Tcp, "fsync", Some("/var/log/requests"), 0.88))[0];
    assert_eq!(finding.cause, WaitingForStorage, "{}", finding.sentence);
    assert!(finding.sentence.contains("fsync (/var/log/requests)"), "{}", finding.sentence);
    // The server waits for nothing else, so its time asleep is the possible gain.
    let gain = &finding.gain.percent;
    assert!(gain.low.unwrap() > 100.0 && gain.high.unwrap() < 10_000.0, "{gain:?}");
}

#[test]
fn storage_promises_nothing_where_the_program_waits_for_requests_most_of_the_time() {
    let finding = &explain(&server(SocketKind::Tcp, "fsync", Some("/var/log/requests"), 0.2))[0];
    assert_eq!(finding.cause, WaitingForStorage, "{}", finding.sentence);
    assert_eq!(finding.gain.percent.low, Some(0.0));
}

#[test]
fn a_background_thread_may_wait_for_storage() {
    let mut seen = server(SocketKind::Tcp, "fdatasync", Some("/var/lib/wal"), 0.2);
    assert_eq!(explain(&seen)[0].cause, WaitingForStorage);
    // It writes a log, while a worker waits for requests.
    seen.threads[0].asleep_on.truncate(1);
    let mut worker = thread("worker", 101, &[(User, 0.05), (Asleep, 0.95)]);
    worker.asleep_on =
        vec![SleepTime { on: "epoll_wait".to_owned(), share: 0.95, object: None, holder: None }];
    seen.threads.push(worker);
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
}

#[test]
fn a_sleep_per_request_is_named() {
    let finding = &explain(&server(SocketKind::Tcp, "clock_nanosleep", None, 0.88))[0];
    assert_eq!(finding.cause, TimerSleep, "{}", finding.sentence);
}

#[test]
fn a_child_process_per_request_is_named_if_the_children_take_most_of_the_time() {
    let with = |call: &str, children: Option<f64>| {
        let mut seen = server(SocketKind::Tcp, call, None, 0.6);
        seen.ended_children_cpus = children;
        explain(&seen).swap_remove(0)
    };
    for call in ["wait4", "waitid", "vfork", "clone3"] {
        let finding = with(call, Some(0.4));
        assert_eq!(finding.cause, ChildProcesses, "{}", finding.sentence);
        assert!(finding.sentence.contains("60 % of its time waiting"), "{}", finding.sentence);
        assert!(finding.sentence.contains("0.4 CPUs, 80 %"), "{}", finding.sentence);
        assert_eq!(finding.gain.percent.as_number(), None);
    }
    // A parent that waits for the end of its workers, and one whose children hardly run.
    for children in [None, Some(0.0), Some(0.03)] {
        assert_ne!(with("wait4", children).cause, ChildProcesses);
    }
    // Another wait, such as for requests from a pool of workers.
    assert_ne!(with("futex", Some(0.4)).cause, ChildProcesses);
}

/// Returns an observation of a UDP receiver that sleeps after each packet, with a socket that drops
/// three of four.
fn sleeping_receiver() -> Observation {
    let mut receiver = thread("receiver", 100, &[(User, 0.02), (Kernel, 0.08), (Asleep, 0.9)]);
    let sleep =
        |on: &str, share| SleepTime { on: on.to_owned(), share, object: None, holder: None };
    receiver.asleep_on = vec![sleep("clock_nanosleep", 0.89), sleep("recvfrom", 0.01)];
    receiver.voluntary_switches = 10_000;
    let full = SocketCounts {
        receive_queue_mean: 200_000.0,
        receive_queue_max: 212_992,
        receive_queue_share: Some(1.0),
        drops: Some(30_000),
        ..socket(SocketKind::Udp, "0.0.0.0:53", None)
    };
    Observation {
        sockets: vec![full],
        packets: packets(10_000, 1_000_000),
        ..observation(vec![receiver])
    }
}

#[test]
fn a_receiver_that_sleeps_per_packet_is_not_called_one_that_does_not_read() {
    let findings = explain(&sleeping_receiver());
    assert_eq!(findings[0].cause, TimerSleep, "{}", findings[0].sentence);
    assert!(findings.iter().all(|finding| finding.cause != UnreadSocket));
    // The offered load is four times what it reads.
    let gain = &findings[0].gain.percent;
    assert!(gain.low.unwrap() < 300.0 && gain.high.unwrap() > 300.0, "{gain:?}");
    assert!(gain.high.unwrap() < 500.0, "{gain:?}");
}

#[test]
fn a_program_that_looks_for_requests_now_and_then_is_not_held_up_by_its_timer() {
    let mut seen = server(SocketKind::Tcp, "clock_nanosleep", None, 0.88);
    seen.threads[0].voluntary_switches = 50_000;
    assert_eq!(explain(&seen)[0].cause, NothingWrong);
}

#[test]
fn sleep_that_is_not_for_input_is_never_called_time_left() {
    let cases = [
        (SocketKind::Udp, "clock_nanosleep", None, CannotTell, "timer_sleep"),
        (SocketKind::Udp, "write", Some("pipe"), SlowReceiver, "write (pipe)"),
        (SocketKind::Tcp, "write", Some("/dev/pts/0"), SlowReceiver, "write (/dev/pts/0)"),
        (SocketKind::Udp, "ioctl", Some("/dev/queue"), CannotTell, "ioctl (/dev/queue)"),
        (SocketKind::Tcp, "flock", None, CannotTell, "flock"),
    ];
    for (kind, on, object, cause, word) in cases {
        let finding = &explain(&server(kind, on, object, 0.8))[0];
        assert_eq!(finding.cause, cause, "{}", finding.sentence);
        assert!(finding.sentence.contains(word), "{}", finding.sentence);
    }
}

/// The other wait is longer, but a timer takes precedence.
#[test]
fn the_share_of_a_wait_is_that_of_the_wait_named() {
    let mut seen = server(SocketKind::Udp, "clock_nanosleep", None, 0.35);
    seen.threads[0].asleep_on[1] =
        SleepTime { on: "flock".to_owned(), share: 0.55, object: None, holder: None };
    let sentence = &explain(&seen)[0].sentence;
    assert!(sentence.contains("sleeps on a timer 35 % of the time"), "{sentence}");
}

#[test]
fn waiting_for_requests_is_time_left() {
    let seen = server(SocketKind::Tcp, "epoll_wait", None, 0.8);
    assert_eq!(explain(&seen)[0].cause, NothingWrong);
}

/// The thread's socket overflows. It hardly ever sleeps, and when it does, it is waiting for input.
#[test]
fn a_thread_that_blocks_for_input_works_while_it_runs() {
    let mut seen = server(SocketKind::Udp, "recvfrom", Some("udp 10.0.0.1:9"), 0.01);
    let busy = &[(User, 0.9), (Kernel, 0.08), (Asleep, 0.01)];
    seen.threads[0] = linerate_record::why::ThreadActivity {
        asleep_on: vec![SleepTime {
            on: "recvfrom".to_owned(),
            share: 0.01,
            object: Some("udp 10.0.0.1:9".to_owned()),
            holder: None,
        }],
        ..thread("server", 100, busy)
    };
    seen.sockets[1].drops = Some(9000);
    let finding = &explain(&seen)[0];
    assert!(!finding.sentence.contains("is working or busy-polling"), "{}", finding.sentence);
}

/// Returns an observation of a receiver that lost packets and is asleep for 0.2 of its time, in the
/// call `on`.
fn lossy_receiver(on: &str, object: &str) -> Observation {
    let mut receiver = thread("receiver", 100, &[(User, 0.6), (Kernel, 0.2), (Asleep, 0.2)]);
    let object = Some(object.to_owned());
    receiver.asleep_on = vec![SleepTime { on: on.to_owned(), share: 0.2, object, holder: None }];
    let lossy =
        SocketCounts { drops: Some(100_000), ..socket(SocketKind::Udp, "10.0.0.1:53", None) };
    Observation {
        sockets: vec![lossy],
        packets: packets(400_000, 40_000_000),
        ..observation(vec![receiver])
    }
}

#[test]
fn a_larger_buffer_is_advised_to_who_waits_for_packets_only() {
    let waits = explain(&lossy_receiver("recvfrom", "udp 10.0.0.1:53"));
    assert_eq!(waits[0].cause, SocketBuffer, "{}", waits[0].sentence);
    // A thread that receives many packets after each sleep has time for more; one that sleeps once
    // per packet does not.
    let mut timed = lossy_receiver("clock_nanosleep", "timer");
    timed.threads[0].voluntary_switches = 400;
    assert_eq!(explain(&timed)[0].cause, SocketBuffer);
    timed.threads[0].voluntary_switches = 400_000;
    assert!(explain(&timed).iter().all(|finding| finding.cause != SocketBuffer));
    // While a thread waits for another one, it does not empty its buffer, however large that is.
    let locked = explain(&lossy_receiver("futex", "futex 0x7f00"));
    assert!(locked.iter().all(|finding| finding.cause != SocketBuffer), "{}", locked[0].sentence);
}

/// Returns an observation of a UDP server that sleeps for 5 ms before each reply, with 8 clients
/// that wait for it.
fn sleeps_before_each_reply() -> Observation {
    let mut server = thread("server", 100, &[(User, 0.01), (Kernel, 0.01), (Asleep, 0.98)]);
    server.asleep_on = vec![SleepTime {
        on: "clock_nanosleep".to_owned(),
        share: 0.98,
        object: None,
        holder: None,
    }];
    server.voluntary_switches = 950;
    let counts = [("Udp.InDatagrams", 950), ("Udp.OutDatagrams", 950)];
    Observation {
        sockets: vec![SocketCounts {
            receive_queue_mean: 5_400.0,
            receive_queue_max: 5_400,
            receive_queue_share: Some(0.98),
            ..socket(SocketKind::Udp, "10.0.0.1:8305", None)
        }],
        protocols: counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect(),
        ..observation(vec![server])
    }
}

#[test]
fn a_udp_server_that_sleeps_before_each_reply_is_named() {
    let seen = sleeps_before_each_reply();
    let finding = explain(&seen).remove(0);
    assert_eq!(finding.cause, TimerSleep, "{}", finding.sentence);
    assert!(finding.sentence.contains("0.0.1:8305"), "{}", finding.sentence);
    let not = |change: fn(&mut Observation)| {
        let mut other = seen.clone();
        change(&mut other);
        let finding = explain(&other).remove(0);
        assert_ne!(finding.cause, TimerSleep, "{}", finding.sentence);
    };
    // One that sends at fixed times takes what arrived until then: a stream from each of 3 peers.
    not(|other| other.threads[0].voluntary_switches = 317);
    // A stream from one peer arrives within the pause.
    not(|other| other.sockets[0].receive_queue_share = Some(0.5));
    // Datagrams that need no reply.
    not(|other| other.protocols.retain(|name, _| name != "Udp.OutDatagrams"));
}
