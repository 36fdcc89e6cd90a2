// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that are pending while the threads that handle them sleep, but not for input.

use crate::doubts::assert_doubt;
use crate::example::explain;
use crate::example::{client, cpu, functions, observation, packets, requests, socket, thread};
use crate::seeds::protocols;
use linerate_record::why::Cause::{CannotTell, NothingWrong};
use linerate_record::why::ThreadState::{Asleep, Kernel, User, Waiting};
use linerate_record::why::{
    Observation, RequestCounts, SleepTime, SocketKind, TcpCounts, ThreadActivity, ThreadState,
};

fn sleep(on: &str, object: &str, share: f64) -> SleepTime {
    SleepTime { on: on.to_owned(), share, object: Some(object.to_owned()), holder: None }
}

fn carried(requests: u64) -> TcpCounts {
    TcpCounts {
        bytes_received: 40 * requests,
        bytes_acked: 40 * requests,
        segments_in: requests,
        segments_out: requests,
        data_segments_in: Some(requests),
        data_segments_out: Some(requests),
        ..TcpCounts::default()
    }
}

fn thread_of(
    name: &str,
    tid: u32,
    shares: &[(ThreadState, f64)],
    asleep_on: Vec<SleepTime>,
    sleeps: u64,
) -> ThreadActivity {
    let asleep: f64 = asleep_on.iter().map(|sleep| sleep.share).sum();
    let shares: Vec<_> = shares.iter().copied().chain([(Asleep, asleep)]).collect();
    ThreadActivity { asleep_on, voluntary_switches: sleeps, ..thread(name, tid, &shares) }
}

/// Returns a server with `clients` clients, of whose requests `pending` are pending on average.
fn serving(threads: Vec<ThreadActivity>, clients: u64, pending: f64, handled: u64) -> Observation {
    let mut seen = observation(threads);
    let listen = socket(SocketKind::TcpListen, "10.0.0.1:80", None);
    let each = handled / clients;
    let connections = (0..clients).map(|number| client(number as usize, carried(each)));
    seen.sockets = [listen].into_iter().chain(connections).collect();
    seen.requests =
        Some(RequestCounts { connections: clients, requests: handled, ..requests(pending, 0.0) });
    seen.protocols = protocols(&[("Tcp.InSegs", handled), ("Tcp.OutSegs", handled)]);
    seen.packets = packets(2 * handled, 80 * handled);
    seen.cpus = vec![cpu(0, 0.35, 0.45, 0.0), cpu(1, 0.35, 0.52, 0.0)];
    seen
}

/// Returns a database of 8 processes, each of which sleeps in a futex of its own and syncs the log
/// for this fraction of its time, and waits for input for the rest.
fn database(futex: f64, syncs: [f64; 3], pending: f64) -> Observation {
    let process = |number: u32| {
        let sync = syncs.get(number as usize).copied().unwrap_or(0.0);
        let sleeps = [
            sleep("futex", &format!("futex 0x7f00{number}"), futex),
            sleep("fdatasync", "/var/lib/db/wal", sync),
            sleep("epoll_wait", "[eventpoll]", 0.48 - futex - sync),
        ];
        let sleeps = sleeps.into_iter().filter(|sleep| sleep.share > 0.0).collect();
        let shares = [(User, 0.08), (Kernel, 0.09), (Waiting, 0.35)];
        let one = thread_of("postgres", 100 + number, &shares, sleeps, 23_000);
        ThreadActivity { pid: 100 + number, ..one }
    };
    let mut seen = serving((0..8).map(process).collect(), 8, pending, 60_000);
    seen.watched.pids = (100..108).collect();
    seen
}

#[test]
fn a_group_commit_waits_for_storage() {
    let commits = database(0.4, [0.055, 0.034, 0.019], 6.7);
    assert_doubt(&commits, "This is what a group commit looks like");
    let finding = &explain(&commits)[0];
    assert!(finding.sentence.contains("(waiting_for_storage)"), "{}", finding.sentence);
    assert!(finding.sentence.contains("fdatasync (/var/lib/db/wal)"), "{}", finding.sentence);
    assert!(finding.fix.as_deref().unwrap().contains("synchronous_commit"), "{:?}", finding.fix);
    // Without syncs, it is not known what the processes wait for, but they do wait.
    let locked = database(0.4, [0.0; 3], 6.7);
    assert_doubt(&locked, "6.7 requests are pending, but at most ");
    // Requests for which a process works or waits for a CPU, and idle processes.
    for other in [database(0.0, [0.0; 3], 4.2), database(0.4, [0.05, 0.0, 0.0], 0.1)] {
        let finding = &explain(&other)[0];
        assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
    }
}

/// Returns a server whose 4 threads sleep for this fraction of their time within requests. A thread
/// that compiles uses most CPU time.
fn pool(in_request: f64, pending: f64) -> Observation {
    let one = |number: u32| {
        let futex = sleep("futex", &format!("futex 0x7f00{number}"), in_request);
        let input = sleep("epoll_wait", "[eventpoll]", 0.98 - in_request);
        let sleeps = [futex, input].into_iter().filter(|sleep| sleep.share > 0.001).collect();
        let name = format!("pool-1-thread-{number}");
        let one = thread_of(&name, 110 + number, &[(User, 0.02)], sleeps, 520);
        ThreadActivity { io_calls: Some(1_740), ..one }
    };
    let compiles = sleep("futex", "futex 0x7f010", 0.9);
    let compiler = thread_of("C2 CompilerThre", 101, &[(User, 0.1)], vec![compiles], 100);
    let input = vec![sleep("epoll_wait", "[eventpoll]", 0.96)];
    let dispatcher = thread_of("dispatcher", 102, &[(User, 0.04)], input, 1_700);
    let mut threads = vec![
        ThreadActivity { io_calls: Some(110), ..compiler },
        ThreadActivity { io_calls: Some(1_230), ..dispatcher },
        thread_of("VM Thread", 103, &[], vec![sleep("futex", "futex 0x7f011", 1.0)], 12),
    ];
    threads.extend((1..=4).map(one));
    let mut seen = serving(threads, 64, pending, 1_930);
    seen.sockets[1..].iter_mut().for_each(|one| one.receive_queue_share = Some(0.95));
    seen.cpus = vec![cpu(0, 0.05, 0.02, 0.0), cpu(1, 0.1, 0.02, 0.0)];
    seen
}

#[test]
fn a_pool_that_is_too_small_is_named_by_its_threads() {
    let small = pool(0.97, 31.0);
    assert_doubt(&small, "all 4 threads that read and write on the connections (pool-1-thread-");
    let finding = &explain(&small)[0];
    assert!(!finding.sentence.contains("Compiler"), "{}", finding.sentence);
    assert!(finding.fix.as_deref().unwrap().contains("jstack 100"), "{:?}", finding.fix);
    // With threads that wait for input, or fewer requests than threads, it is not the pool.
    for other in [pool(0.1, 31.0), pool(0.97, 3.0)] {
        let finding = &explain(&other)[0];
        assert!(!finding.sentence.contains("threads that read and"), "{}", finding.sentence);
    }
}

/// Returns a server in Go, whose goroutines wait for a lock. The monitor thread of the runtime
/// sleeps on a timer for this fraction of its time, and otherwise in a futex.
fn goroutines(timer: f64) -> Observation {
    let worker = |number: u32| {
        let futex = sleep("futex", &format!("futex 0x13000{number}"), 0.62);
        let sleeps = vec![futex, sleep("epoll_pwait", "[eventpoll]", 0.33)];
        let one = thread_of("server", 101 + number, &[(User, 0.05)], sleeps, 4_500);
        let samples = functions(&[("server", "runtime.netpoll", 1.0)]);
        ThreadActivity { io_calls: Some(4_000), functions: samples, samples: 30, ..one }
    };
    let mut nap = sleep("nanosleep", "", timer);
    nap.object = None;
    let idle = vec![sleep("futex", "futex 0x991d20", 0.93 - timer), nap];
    let monitor = thread_of("server", 100, &[(Kernel, 0.07)], idle, 11_700);
    let mut threads = vec![ThreadActivity { io_calls: Some(0), ..monitor }];
    threads.extend((0..3).map(worker));
    let mut seen = serving(threads, 32, 31.9, 2_090);
    seen.cpus = vec![cpu(0, 0.02, 0.04, 0.0), cpu(1, 0.02, 0.05, 0.0)];
    seen
}

#[test]
fn locks_of_goroutines_show_in_no_system_call() {
    for timer in [0.27, 0.5] {
        let finding = explain(&goroutines(timer)).swap_remove(0);
        assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
        let words = "a client is waiting for one while all threads";
        assert!(finding.sentence.contains(words), "{}", finding.sentence);
        assert!(!finding.sentence.contains("0x991d20"), "{}", finding.sentence);
        assert!(!finding.sentence.contains("nanosleep"), "{}", finding.sentence);
        let next = finding.fix.unwrap();
        assert!(next.contains("pprof/mutex") && !next.contains("strace -f"), "{next}");
    }
}
