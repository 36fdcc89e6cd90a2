// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that are always on a CPU, but for which no request waits: background work, and polling
//! of memory.

use crate::connections::{assert_first, first};
use crate::example::{cpu, functions, observation, packets, requests, socket, thread};
use crate::seeds::single_thread;
use linerate_record::why::Cause::{CannotTell, ProcessingCost, SingleThread};
use linerate_record::why::ThreadState::{Asleep, Kernel, User, Waiting};
use linerate_record::why::{
    Observation, RequestCounts, SleepTime, SocketCounts, SocketKind, TcpCounts, ThreadActivity,
};

fn sleep(on: &str, object: &str, share: f64) -> SleepTime {
    SleepTime { on: on.to_owned(), share, object: Some(object.to_owned()), holder: None }
}

/// Returns a server that handles 100,000 requests in the window, in a quarter of its time.
fn server() -> ThreadActivity {
    let mut server = thread("redis-server", 100, &[(User, 0.1), (Kernel, 0.15), (Asleep, 0.75)]);
    server.asleep_on = vec![sleep("epoll_wait", "[eventpoll]", 0.75)];
    server.voluntary_switches = 80_000;
    server
}

/// Returns that server, and a child process that writes a snapshot. In this fraction of the
/// readings, a request of its 8 clients was pending.
fn snapshot(pending: f64) -> Observation {
    let mut child = thread(
        "redis-rdb-bgsave",
        101,
        &[(User, 0.85), (Kernel, 0.1), (Waiting, 0.0), (Asleep, 0.05)],
    );
    child.pid = 101;
    child.asleep_on = vec![sleep("write", "/var/lib/redis/temp.rdb", 0.05)];
    (child.samples, child.functions) = (2000, functions(&[("redis-server", "rdbSaveObject", 0.9)]));
    let tcp = TcpCounts {
        bytes_received: 500_000,
        bytes_acked: 500_000,
        segments_in: 12_500,
        segments_out: 12_500,
        data_segments_in: Some(12_500),
        data_segments_out: Some(12_500),
        ..TcpCounts::default()
    };
    let client = |n: u32| SocketCounts {
        tcp: Some(tcp.clone()),
        ..socket(SocketKind::Tcp, "10.0.0.1:6379", Some(&format!("10.0.0.2:{}", 4000 + n)))
    };
    let listen = socket(SocketKind::TcpListen, "0.0.0.0:6379", None);
    let counts = RequestCounts { connections: 8, requests: 100_000, ..requests(pending, 0.0) };
    let mut seen = observation(vec![child, server()]);
    seen.watched.pids = vec![100, 101];
    seen.sockets = [listen].into_iter().chain((0..8).map(client)).collect();
    seen.requests = Some(counts);
    seen.packets = packets(200_000, 8_000_000);
    seen.cpus = vec![cpu(0, 0.1, 0.1, 0.05), cpu(1, 0.9, 0.1, 0.0)];
    seen
}

#[test]
fn a_snapshot_is_not_the_thread_that_serves() {
    let finding = assert_first(&snapshot(0.25), CannotTell);
    let words = "whether anything waits for thread redis-rdb-bgsave";
    assert!(finding.sentence.contains(words), "{}", finding.sentence);
    assert!(finding.sentence.contains("in only 25 % of the readings"), "{}", finding.sentence);
    // On a full machine, its work is not the cost of a packet either.
    let mut full = snapshot(0.25);
    full.cpus = vec![cpu(0, 0.6, 0.4, 0.0), cpu(1, 0.9, 0.1, 0.0)];
    assert_first(&full, CannotTell);
    // Requests always wait.
    assert_first(&snapshot(0.9), SingleThread);
    // Unread data on a connection is a request, too.
    let mut unread = snapshot(0.25);
    unread.sockets[1].receive_queue_share = Some(0.8);
    assert_first(&unread, SingleThread);
}

#[test]
fn requests_that_are_not_counted_may_wait_for_a_busy_thread() {
    // Pipelined requests: the main thread handles them, as its sleeps show.
    let mut pipelined = snapshot(0.25);
    pipelined.requests.as_mut().unwrap().requests = 0;
    let finding = assert_first(&pipelined, CannotTell);
    assert!(
        finding.sentence.contains("other threads, which have idle time"),
        "{}",
        finding.sentence
    );
    // More connections than a reading covers.
    let mut many = snapshot(0.25);
    many.requests.as_mut().unwrap().connections = 500;
    assert_first(&many, CannotTell);
    // No other thread handles packets.
    pipelined.threads[1].voluntary_switches = 50;
    assert_first(&pipelined, SingleThread);
    // The busy thread waits for input itself.
    many.threads[0].asleep_on = vec![sleep("epoll_wait", "[eventpoll]", 0.05)];
    assert_first(&many, SingleThread);
    // Most of its traffic is datagrams, whose waits are not counted.
    let mut udp = snapshot(0.25);
    udp.threads[1].voluntary_switches = 50;
    udp.sockets.push(socket(SocketKind::Udp, "0.0.0.0:53", None));
    udp.protocols.insert("Udp.InDatagrams".to_owned(), 400_000);
    assert_first(&udp, SingleThread);
}

#[test]
fn one_busy_thread_among_many_does_not_do_all_the_work() {
    let mut seen = single_thread();
    assert_first(&seen, SingleThread);
    let helper = |tid| thread("worker", tid, &[(User, 0.28), (Asleep, 0.72)]);
    seen.threads.extend((101..111).map(helper));
    assert_ne!(first(&seen).cause, SingleThread);
}

/// Returns a thread that spins on a ring in memory, and one that reads 20,000 packets of two
/// connections into it.
fn spinner() -> Observation {
    let mut spinner = thread("spinner", 101, &[(User, 1.0), (Waiting, 0.0)]);
    (spinner.samples, spinner.functions) = (2000, functions(&[("app", "poll_ring", 0.9)]));
    let mut seen = snapshot(0.0);
    seen.requests = None;
    seen.threads = vec![spinner, server()];
    seen.threads[1].voluntary_switches = 2_000;
    seen
}

#[test]
fn a_thread_that_polls_memory_is_not_known_to_work() {
    let claimed = |seen: &Observation| {
        let cause = first(seen).cause;
        [SingleThread, ProcessingCost].contains(&cause)
    };
    assert!(!claimed(&spinner()), "{}", first(&spinner()).sentence);
    // The port of a NIC, polled next to a control connection with a few packets.
    let mut dpdk = spinner();
    dpdk.threads.truncate(1);
    dpdk.packets = packets(10, 1_000);
    (dpdk.threads[0].time, dpdk.threads[0].system_calls) = (
        thread("lcore-worker-1", 101, &[(User, 0.98), (Kernel, 0.02), (Waiting, 0.0)]).time,
        Some(100),
    );
    assert!(!claimed(&dpdk), "{}", first(&dpdk).sentence);
    // Few calls: someone else reads the sockets.
    let mut few = spinner();
    few.threads[0].time =
        thread("spinner", 101, &[(User, 0.98), (Kernel, 0.02), (Waiting, 0.0)]).time;
    few.threads[0].system_calls = Some(100);
    assert!(!claimed(&few), "{}", first(&few).sentence);
    // A thread that reads its sockets now and then, and never has to wait for input.
    let mut works = few.clone();
    works.threads[0].system_calls = Some(200_000);
    assert!(claimed(&works), "{}", first(&works).sentence);
    // The only thread of a process compresses what it sends.
    let mut alone = spinner();
    alone.threads.truncate(1);
    alone.packets = packets(350, 500_000);
    assert!(claimed(&alone), "{}", first(&alone).sentence);
    // Clients always wait: the program works for them, however long a request takes.
    let mut slow = spinner();
    slow.threads.truncate(1);
    slow.packets = packets(40, 4_000);
    let counts = RequestCounts { connections: 8, requests: 30, ..requests(1.0, 0.0) };
    slow.requests = Some(counts);
    assert!(claimed(&slow), "{}", first(&slow).sentence);
    slow.requests.as_mut().unwrap().awaiting_share = 0.9;
    assert!(!claimed(&slow), "{}", first(&slow).sentence);
}

/// Returns four threads of a name server, each of which reads a socket of its own on the same port.
/// One flow keeps the first of them busy.
fn hot_worker() -> Observation {
    let worker = |tid, shares: &[_]| thread("unbound", tid, shares);
    let mut threads = vec![worker(100, &[(User, 0.65), (Kernel, 0.35), (Waiting, 0.0)])];
    for tid in 101..104 {
        let mut other = worker(tid, &[(User, 0.15), (Kernel, 0.1), (Asleep, 0.75)]);
        other.asleep_on = vec![sleep("epoll_wait", "[eventpoll]", 0.75)];
        other.voluntary_switches = 30_000;
        threads.push(other);
    }
    (threads[0].samples, threads[0].functions) =
        (2000, functions(&[("unbound", "dname_query_hash", 0.9)]));
    let mut seen = observation(threads);
    seen.sockets = (0..4).map(|_| socket(SocketKind::Udp, "0.0.0.0:53", None)).collect();
    seen.packets = packets(225_000, 20_000_000);
    seen.protocols.insert("Udp.InDatagrams".to_owned(), 225_000);
    seen.protocols.insert("Udp.OutDatagrams".to_owned(), 225_000);
    seen.cpus = vec![cpu(0, 0.3, 0.2, 0.05), cpu(1, 0.65, 0.35, 0.0)];
    seen
}

#[test]
fn one_hot_worker_among_several_works_for_its_own_flow() {
    let is_background = |seen: &Observation| {
        first(seen).sentence.contains("whether anything waits for thread unbound")
    };
    let mut seen = hot_worker();
    assert!(!is_background(&seen), "{}", first(&seen).sentence);
    assert!(
        [SingleThread, ProcessingCost].contains(&first(&seen).cause),
        "{}",
        first(&seen).sentence
    );
    seen.threads[0].system_calls = Some(400_000);
    assert!(!is_background(&seen), "{}", first(&seen).sentence);
    // It reads no socket.
    seen.threads[0].system_calls = Some(500);
    assert!(is_background(&seen), "{}", first(&seen).sentence);
    // There is one socket, which the other threads read.
    let mut one = hot_worker();
    one.sockets.truncate(1);
    assert!(is_background(&one), "{}", first(&one).sentence);
    // A thread of another kind.
    let mut other = hot_worker();
    other.threads[0].name = "compactor".to_owned();
    let finding = first(&other);
    assert!(finding.sentence.contains("whether anything waits"), "{}", finding.sentence);
}
