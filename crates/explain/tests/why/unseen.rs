// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose observation shows too little to conclude that nothing is wrong. A user who knew
//! the causes found them.

use crate::example::explain;
use crate::example::{
    cpu, dropped, observation, packets, poller, privileged, socket, testpmd, thread,
};
use linerate_record::why::Cause::*;
use linerate_record::why::ThreadState::{Asleep, Kernel, User, Waiting};
use linerate_record::why::{
    FullDescriptors, Observation, PeerActivity, RanInstead, RequestCounts, SleepTime, SocketCounts,
    SocketKind, TcpCounts, ThreadActivity, WhyFinding,
};
use linerate_record::{Figure, Tier};

fn first(seen: &Observation) -> WhyFinding {
    explain(seen).remove(0)
}

fn sleep(on: &str, share: f64) -> SleepTime {
    SleepTime { on: on.to_owned(), share, object: None, holder: None }
}

#[test]
fn losses_that_only_the_program_can_read_are_not_ruled_out() {
    let mut sniffer = thread("tcpdump", 100, &[(User, 0.02), (Kernel, 0.12), (Asleep, 0.86)]);
    sniffer.asleep_on = vec![sleep("poll", 0.86)];
    let mut seen = testpmd(poller(0.0, None), 100_000, 100_000);
    seen.threads = vec![sniffer];
    seen.program = None;
    seen.packets.as_mut().unwrap().counter = "v2 rx_packets".to_owned();
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("PACKET_STATISTICS"), "{}", finding.sentence);
    seen.sockets[0].drops = Some(0);
    assert_eq!(first(&seen).cause, NothingWrong);
}

/// Returns a server whose thread waits for requests most of the time.
fn idle_server() -> Observation {
    let mut server = thread("server", 100, &[(User, 0.01), (Kernel, 0.01), (Asleep, 0.98)]);
    server.asleep_on = vec![sleep("epoll_wait", 0.98)];
    server.voluntary_switches = 2000;
    let connection = |number: u32| SocketCounts {
        tcp: Some(TcpCounts {
            bytes_received: 50_000,
            bytes_acked: 50_000,
            segments_in: 1000,
            segments_out: 1000,
            app_limited_share: 1.0,
            ..TcpCounts::default()
        }),
        ..socket(SocketKind::Tcp, "10.0.0.1:80", Some(&format!("10.0.0.2:{}", 4000 + number)))
    };
    let sockets = [socket(SocketKind::TcpListen, "10.0.0.1:80", None)]
        .into_iter()
        .chain((0..4).map(connection));
    Observation {
        sockets: sockets.collect(),
        packets: packets(8000, 800_000),
        ..observation(vec![server])
    }
}

/// Returns requests whose replies are due in this fraction of 50 readings, and replies of another
/// server in the second fraction.
fn requests(pending_share: f64, awaiting_share: f64) -> Option<RequestCounts> {
    Some(RequestCounts {
        readings: 50,
        connections: 4,
        pending_share,
        pending_mean: 4.0 * pending_share,
        late_share: 0.0,
        awaiting_share,
        awaiting_mean: 4.0 * awaiting_share,
        opening_share: Some(0.0),
        server_readings: None,
        server: (awaiting_share > 0.0).then(|| "10.0.0.9:5432".to_owned()),
        silent: 0,
        undetermined: None,
        undetermined_at_servers: None,
        requests: 2000,
        reply_time: Figure::exact("s", 0.0015, Tier::Sw, "known"),
    })
}

#[test]
fn requests_that_wait_for_replies_are_not_called_an_offered_load() {
    let mut seen = idle_server();
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
    seen.requests = requests(0.9, 0.0);
    let mut worker = thread("worker", 102, &[(User, 0.01), (Asleep, 0.99)]);
    worker.asleep_on = vec![sleep("futex", 0.9)];
    worker.voluntary_switches = 2000;
    seen.threads.push(worker);
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("87 % of the time"), "{}", finding.sentence);
    assert!(finding.sentence.contains("1.5 ms on average. One thread sleeps in futex"));
    // The threads work on the requests.
    for thread in &mut seen.threads {
        thread.time.clone_from(&idle_worker(0.3).time);
    }
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
}

/// Returns a thread that works this fraction of the time.
fn idle_worker(works: f64) -> ThreadActivity {
    thread("worker", 102, &[(User, works), (Asleep, 1.0 - works)])
}

#[test]
fn the_time_that_it_takes_to_wake_up_is_no_delay() {
    let mut seen = idle_server();
    seen.requests = requests(0.9, 0.0);
    seen.requests.as_mut().unwrap().requests = 100_000;
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
    // Too few readings.
    seen.requests = requests(0.9, 0.0);
    seen.requests.as_mut().unwrap().readings = 4;
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
}

#[test]
fn a_server_that_waits_for_another_names_it() {
    let mut seen = idle_server();
    seen.requests = requests(0.9, 0.86);
    let finding = first(&seen);
    assert_eq!(finding.cause, WaitingForPeer, "{}", finding.sentence);
    assert!(finding.sentence.contains("10.0.0.9:5432"), "{}", finding.sentence);
    // The server does not answer SYNs.
    seen.requests.as_mut().unwrap().opening_share = Some(0.8);
    let finding = first(&seen);
    assert_eq!(finding.cause, WaitingForPeer, "{}", finding.sentence);
    assert!(finding.sentence.contains("a SYN to a server was unanswered"), "{finding:?}");
    // The replies are due for another reason most of the time.
    seen.requests = requests(0.9, 0.3);
    assert_eq!(first(&seen).cause, CannotTell, "{}", first(&seen).sentence);
}

#[test]
fn threads_that_end_before_they_are_read_are_missed() {
    let mut seen = idle_server();
    seen.ended_threads_cpus = Some(0.02);
    assert_eq!(first(&seen).cause, NothingWrong);
    seen.ended_threads_cpus = Some(0.8);
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("use 0.8 CPUs"), "{}", finding.sentence);
    assert!(!finding.sentence.contains("affinity mask"), "{}", finding.sentence);
    // All of the threads are on one CPU.
    let mut waits = thread("server", 101, &[(User, 0.05), (Waiting, 0.2), (Asleep, 0.75)]);
    waits.allowed = vec![0];
    seen.threads.push(waits);
    let finding = first(&seen);
    assert!(finding.sentence.contains("the only CPU in its affinity mask"), "{}", finding.sentence);
}

#[test]
fn a_timer_in_the_background_delays_no_reply() {
    let mut seen = idle_server();
    let mut timer = thread("maintenance", 101, &[(User, 0.02), (Asleep, 0.98)]);
    timer.asleep_on = vec![sleep("clock_nanosleep", 0.98)];
    timer.voluntary_switches = 5000;
    seen.threads.insert(0, timer);
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
    // Without a thread that waits for requests, the timer thread must be the one that handles them.
    seen.threads.truncate(1);
    assert_eq!(first(&seen).cause, TimerSleep, "{}", first(&seen).sentence);
}

#[test]
fn memory_that_is_read_back_from_disk_is_named() {
    let mut seen = idle_server();
    let mut reader = thread("server", 100, &[(User, 0.1), (Kernel, 0.4), (Asleep, 0.5)]);
    (reader.major_faults, reader.voluntary_switches) = (80_000, 82_000);
    seen.threads = vec![reader];
    let finding = first(&seen);
    assert_eq!(finding.cause, WaitingForStorage, "{}", finding.sentence);
    assert!(finding.sentence.contains("(16,000 per second)"), "{}", finding.sentence);
    // Its sleeps were seen, and hardly any was outside of epoll_wait.
    let mut mapped = seen.clone();
    mapped.threads[0].asleep_on =
        vec![sleep("epoll_wait", 0.49), sleep("folio_wait_bit_common", 0.01)];
    assert_ne!(first(&mapped).cause, WaitingForStorage, "{}", first(&mapped).sentence);
    mapped.threads[0].asleep_on =
        vec![sleep("epoll_wait", 0.05), sleep("folio_wait_bit_common", 0.45)];
    assert_eq!(first(&mapped).cause, WaitingForStorage, "{}", first(&mapped).sentence);
    seen.threads[0].major_faults = 80;
    assert_ne!(first(&seen).cause, WaitingForStorage);
}

/// Returns a thread that waits half of the time for a CPU on which this process runs instead, in
/// short time slices.
fn preempted(pid: u32) -> ThreadActivity {
    let mut thread =
        thread("server", 100, &[(User, 0.05), (Kernel, 0.4), (Waiting, 0.47), (Asleep, 0.08)]);
    thread.asleep_on = vec![sleep("epoll_wait", 0.08)];
    thread.ran_instead = vec![RanInstead {
        name: "other".to_owned(),
        pid: Some(pid),
        tid: Some(pid),
        seconds: 2.3,
        times: 11_000,
        longest_s: 0.004,
    }];
    (thread.voluntary_switches, thread.involuntary_switches) = (9000, 2000);
    thread.waits_us_log2 = vec![0, 0, 0, 0, 0, 0, 0, 11_000];
    thread
}

#[test]
fn an_unrelated_program_in_short_time_slices_is_contention() {
    let mut seen = privileged(idle_server());
    seen.cpus = vec![cpu(0, 0.5, 0.4, 0.05), cpu(1, 0.5, 0.4, 0.05)];
    seen.threads = vec![preempted(900)];
    let finding = first(&seen);
    assert_eq!(finding.cause, CpuContention, "{}", finding.sentence);
    assert!(finding.gain.percent.as_number().unwrap() > 50.0, "{:?}", finding.gain.percent);
    // The program's clients need that CPU time too.
    seen.threads = vec![preempted(200)];
    seen.sockets.iter_mut().for_each(|socket| socket.peer_pid = Some(200));
    let gain = first(&seen).gain.percent.as_number().unwrap_or(0.0);
    assert!(gain < 20.0, "{gain}");
}

/// Of a program's 2000 threads, only some are observed.
#[test]
fn threads_of_the_program_that_were_not_observed_are_not_strangers() {
    let mut seen = privileged(idle_server());
    seen.cpus = vec![cpu(0, 0.5, 0.4, 0.05), cpu(1, 0.5, 0.4, 0.05)];
    let found = |seen: &Observation| explain(seen).iter().any(|one| one.cause == CpuContention);
    let instead = |pid: Option<u32>| {
        let mut thread = preempted(100);
        (thread.ran_instead[0].tid, thread.ran_instead[0].pid) = (Some(5000), pid);
        vec![thread]
    };
    seen.threads = instead(Some(900));
    assert!(found(&seen));
    seen.threads = instead(Some(100));
    assert!(!found(&seen));
    // A thread that has ended was one of them at most as far as such threads used CPU time.
    seen.threads = instead(None);
    assert!(found(&seen));
    seen.ended_threads_cpus = Some(0.5);
    assert!(!found(&seen));
    (seen.ended_threads_cpus, seen.threads_left_out) = (None, 1900);
    assert!(!found(&seen));
}

#[test]
fn the_clients_of_a_server_are_the_generator() {
    let mut seen = idle_server();
    for socket in &mut seen.sockets {
        socket.peer_pid = Some(200);
        if let Some(tcp) = &mut socket.tcp {
            tcp.bytes_acked = 100_000;
        }
    }
    seen.packets = packets(100_000, 10_000_000);
    seen.cpus = vec![cpu(0, 0.5, 0.5, 0.0), cpu(1, 0.1, 0.2, 0.05)];
    seen.peers = vec![PeerActivity { pid: 200, name: "client".to_owned(), cpus: 0.97, cpu: None }];
    assert_eq!(first(&seen).cause, GeneratorLimit, "{}", first(&seen).sentence);
}

#[test]
fn a_client_has_no_offered_load() {
    let mut seen = idle_server();
    seen.sockets.remove(0);
    let finding = first(&seen);
    assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
    assert!(finding.sentence.contains("it is a client"), "{}", finding.sentence);
}

#[test]
fn a_connection_that_sends_many_segments_is_not_stalled_by_nagle() {
    let mut seen = idle_server();
    let hold = |seen: &mut Observation, segments_out: u64| {
        for tcp in seen.sockets.iter_mut().filter_map(|socket| socket.tcp.as_mut()) {
            (tcp.held_share, tcp.segments_out) = (Some(0.95), segments_out);
        }
    };
    hold(&mut seen, 200);
    assert_eq!(first(&seen).cause, NagleDelay, "{}", first(&seen).sentence);
    hold(&mut seen, 60_000);
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
}

/// Returns eight server threads that sleep in this call, on the same object, except for an eighth
/// of the time, in which they wait for another server.
fn behind_a_lock(call: &str) -> Observation {
    let mut seen = idle_server();
    let worker = |number: u32| {
        let mut worker = thread("worker", 200 + number, &[(User, 0.005), (Asleep, 0.995)]);
        let object = |text: &str| Some(text.to_owned());
        worker.asleep_on = vec![
            SleepTime { object: object("futex 0x7f00"), ..sleep(call, 0.87) },
            SleepTime {
                object: object("tcp 10.0.0.1:9000 to 10.0.0.9:5432"),
                ..sleep("read", 0.125)
            },
        ];
        worker.voluntary_switches = 1000;
        worker
    };
    seen.threads = (0..8).map(worker).collect();
    let server = SocketCounts {
        tcp: seen.sockets[1].tcp.clone(),
        ..socket(SocketKind::Tcp, "10.0.0.1:9000", Some("10.0.0.9:5432"))
    };
    seen.sockets.push(server);
    seen.requests = requests(1.0, 1.0);
    let counts = seen.requests.as_mut().unwrap();
    (counts.pending_mean, counts.awaiting_mean, counts.connections) = (8.0, 1.0, 8);
    seen
}

#[test]
fn threads_behind_a_lock_are_not_taken_for_idle_ones() {
    let finding = first(&behind_a_lock("futex"));
    assert_eq!(finding.cause, UserLock, "{}", finding.sentence);
    assert!(finding.sentence.contains("6.96 of them sleep in futex"), "{}", finding.sentence);
    assert!(finding.sentence.contains("sleeps in read (tcp 10.0.0.1:9000"), "{}", finding.sentence);
    assert_eq!(first(&behind_a_lock("flock")).cause, UserLock);
    // As many requests are pending as threads handle them: the others have nothing to do.
    let mut idle = behind_a_lock("futex");
    idle.requests.as_mut().unwrap().pending_mean = 1.0;
    assert_ne!(first(&idle).cause, UserLock, "{}", first(&idle).sentence);
    // The threads do not wake up for each request, so they belong to an idle pool.
    let mut idle = behind_a_lock("futex");
    idle.threads.iter_mut().for_each(|thread| thread.voluntary_switches = 3);
    assert_ne!(first(&idle).cause, UserLock, "{}", first(&idle).sentence);
}

#[test]
fn without_counted_requests_a_lock_is_only_suspected() {
    let mut seen = behind_a_lock("futex");
    (seen.requests, seen.sockets, seen.packets) = (None, Vec::new(), None);
    for thread in &mut seen.threads {
        thread.asleep_on[1].object = Some("unix to /run/backend".to_owned());
    }
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("at any time, all but one"), "{}", finding.sentence);
}

#[test]
fn requests_on_unix_sockets_are_not_called_an_offered_load() {
    let mut seen = idle_server();
    assert_eq!(first(&seen).cause, NothingWrong);
    seen.unix_clients = Some(8);
    seen.packets = packets(160, 16_000);
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("(8 connections)"), "{}", finding.sentence);
    // A thread that reads a single connection has answered all requests.
    seen.threads[0].asleep_on =
        vec![SleepTime { object: Some("unix /run/server".to_owned()), ..sleep("read", 0.98) }];
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
}

#[test]
fn clients_that_wait_for_the_whole_window_are_reported() {
    let mut seen = idle_server();
    seen.requests = requests(0.1, 0.0);
    seen.requests.as_mut().unwrap().silent = 1;
    assert_eq!(first(&seen).cause, NothingWrong);
    assert!(first(&seen).sentence.contains("On 1 other connection"), "{}", first(&seen).sentence);
    seen.requests.as_mut().unwrap().silent = 8;
    assert_eq!(first(&seen).cause, CannotTell, "{}", first(&seen).sentence);
}

#[test]
fn work_in_long_pieces_delays_other_requests() {
    let mut seen = idle_server();
    seen.requests = requests(0.4, 0.0);
    seen.requests.as_mut().unwrap().late_share = 0.35;
    seen.threads[0].time.clone_from(&idle_worker(0.4).time);
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("long stretches"), "{}", finding.sentence);
}

#[test]
fn a_program_that_cannot_open_more_descriptors_spins() {
    let mut seen = idle_server();
    seen.threads = vec![thread("server", 100, &[(User, 0.4), (Kernel, 0.6)])];
    seen.full_descriptors = vec![FullDescriptors { pid: 100, limit: 12, reads: 7, share: 1.0 }];
    let finding = first(&seen);
    assert_eq!(finding.cause, DescriptorLimit, "{}", finding.sentence);
    // The limit is that of the process that is full.
    let other = FullDescriptors { pid: 99, limit: 1024, reads: 7, share: 0.05 };
    seen.full_descriptors.insert(0, other);
    assert!(first(&seen).sentence.contains("(12)"), "{}", first(&seen).sentence);
    seen.full_descriptors.remove(0);
    seen.full_descriptors[0].share = 0.1;
    assert_ne!(first(&seen).cause, DescriptorLimit);
}

#[test]
fn packets_lost_on_output_or_without_a_free_entry_are_named() {
    let mut seen = idle_server();
    for (name, count) in
        [("Ip.InReceives", 4000), ("Ip.InDelivers", 4000), ("Ip.OutRequests", 4000)]
    {
        seen.protocols.insert(name.to_owned(), count);
    }
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
    seen.protocols.insert("Conntrack.drop".to_owned(), 20);
    assert_eq!(first(&seen).cause, ConntrackFull, "{}", first(&seen).sentence);
    assert!(first(&seen).sentence.contains("is full: 20 packets"), "{}", first(&seen).sentence);
    // Pairs of packets of one new connection, while the table has room.
    seen.protocols.insert("Conntrack.insert_failed".to_owned(), 20);
    assert_ne!(first(&seen).cause, ConntrackFull, "{}", first(&seen).sentence);
    // Too many connections have the same hash.
    seen.protocols.insert("Conntrack.drop".to_owned(), 0);
    seen.protocols.insert("Conntrack.chainlength".to_owned(), 20);
    let buckets = first(&seen);
    assert_eq!(buckets.cause, ConntrackFull, "{}", buckets.sentence);
    assert!(buckets.sentence.contains("too few buckets for its entries: 20 packets"));
    assert!(buckets.fix.as_ref().unwrap().contains("nf_conntrack_buckets"), "{:?}", buckets.fix);
    for name in ["chainlength", "insert_failed", "drop"] {
        seen.protocols.remove(&format!("Conntrack.{name}"));
    }
    seen.protocols.insert("Ip.OutDiscards".to_owned(), 120);
    assert_eq!(first(&seen).cause, CannotTell, "{}", first(&seen).sentence);
    seen.events = vec![dropped(Some("NETFILTER_DROP"), 120)];
    let seen = privileged(seen);
    assert_eq!(first(&seen).cause, FirewallDrop, "{}", first(&seen).sentence);
}

#[test]
fn a_timer_of_the_runtime_is_not_in_the_path_of_requests() {
    let mut seen = idle_server();
    let mut monitor = thread("server", 100, &[(User, 0.02), (Kernel, 0.08), (Asleep, 0.9)]);
    monitor.asleep_on = vec![sleep("nanosleep", 0.9)];
    monitor.voluntary_switches = 8000;
    let mut worker = thread("server", 101, &[(User, 0.05), (Kernel, 0.03), (Asleep, 0.92)]);
    worker.asleep_on = vec![sleep("futex", 0.6), sleep("epoll_pwait", 0.3)];
    (worker.pid, worker.voluntary_switches) = (monitor.pid, 9000);
    seen.threads = vec![monitor, worker];
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
    seen.threads.truncate(1);
    assert_eq!(first(&seen).cause, TimerSleep, "{}", first(&seen).sentence);
}

#[test]
fn a_program_that_is_stopped_is_not_idle() {
    let mut seen = idle_server();
    seen.threads[0].asleep_on = vec![sleep("epoll_wait", 0.75), sleep("stopped", 0.23)];
    let finding = first(&seen);
    assert_eq!(finding.cause, Stopped, "{}", finding.sentence);
    assert!(finding.sentence.contains("stopped 23 % of the time"), "{}", finding.sentence);
}

/// Replies in two segments, from threads behind a lock: without Nagle's delay, clients only queue
/// for the lock sooner.
#[test]
fn held_back_segments_behind_a_lock_are_no_cause() {
    let mut seen = behind_a_lock("futex");
    seen.requests = Some(crate::example::requests(7.5, 0.0));
    assert_eq!(first(&seen).cause, UserLock, "{}", first(&seen).sentence);
    for tcp in seen.sockets.iter_mut().filter_map(|socket| socket.tcp.as_mut()) {
        (tcp.held_share, tcp.segments_out) = (Some(0.5), 400);
    }
    let causes: Vec<_> = explain(&seen).iter().map(|finding| finding.cause).collect();
    assert!(causes.starts_with(&[UserLock]) && !causes.contains(&NagleDelay), "{causes:?}");
    // The thread that holds the lock sends requests in two segments.
    let mut to_server = seen.clone();
    for socket in to_server.sockets.iter_mut().filter(|one| one.local == "10.0.0.1:80") {
        socket.tcp.iter_mut().for_each(|tcp| tcp.held_share = Some(0.0));
    }
    assert!(explain(&to_server).iter().any(|one| one.cause == NagleDelay));
    // Without threads that wait for a lock, it is the cause.
    seen.threads.iter_mut().for_each(|thread| thread.asleep_on.remove(0).share = 0.0);
    assert_eq!(first(&seen).cause, NagleDelay, "{}", first(&seen).sentence);
}
