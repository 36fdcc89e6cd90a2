// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that spend much of their time in the kernel, in locks, or throttled by it.

use crate::calls::system_calls;
use crate::doubts::server;
use crate::example::explain;
use crate::example::{cpu, functions, observation, packets, privileged, socket, thread};
use crate::seeds::{protocols, user_lock};
use linerate_record::why::Cause::{CannotTell, SystemCalls, UserLock};
use linerate_record::why::ThreadState::{Asleep, Kernel, User};
use linerate_record::why::{Observation, SleepTime, SocketKind, TcpCounts, WhyFinding};

fn first(seen: &Observation) -> WhyFinding {
    explain(seen).swap_remove(0)
}

fn sleep(on: &str, share: f64) -> SleepTime {
    SleepTime { on: on.to_owned(), share, object: None, holder: None }
}

#[test]
fn much_time_in_the_kernel_is_not_called_the_work_of_the_program() {
    let mut server = thread("server", 100, &[(User, 0.39), (Kernel, 0.6), (Asleep, 0.01)]);
    server.samples = 2_000;
    server.functions =
        functions(&[("kernel", "tcp_sendmsg_locked", 0.2), ("server", "handle", 0.3)]);
    let tcp = TcpCounts {
        bytes_received: 50_000_000,
        bytes_acked: 50_000_000,
        segments_in: 500_000,
        segments_out: 500_000,
        ..TcpCounts::default()
    };
    let mut client = socket(SocketKind::Tcp, "10.0.0.1:80", Some("10.0.0.2:4000"));
    client.tcp = Some(tcp);
    let seen = privileged(Observation {
        sockets: vec![socket(SocketKind::TcpListen, "10.0.0.1:80", None), client],
        packets: packets(1_000_000, 100_000_000),
        cpus: vec![cpu(0, 0.39, 0.6, 0.01), cpu(1, 0.4, 0.59, 0.01)],
        ..observation(vec![server])
    });
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    let parts = [
        "how much of the kernel's work for the program could be avoided",
        "61 % of that in the kernel",
        "Its hottest kernel functions: tcp_sendmsg_locked (20 %).",
    ];
    assert!(parts.iter().all(|part| finding.sentence.contains(part)), "{}", finding.sentence);
}

/// Returns a server that sends each datagram to 25 receivers, one call each.
fn fan_out(calls: u64, received: u64, sent: u64) -> Observation {
    let mut seen = system_calls();
    seen.sockets = vec![socket(SocketKind::Udp, "10.0.0.1:4000", None)];
    seen.protocols = protocols(&[("Udp.InDatagrams", received), ("Udp.OutDatagrams", sent)]);
    seen.packets = packets(received + sent, 100 * (received + sent));
    seen.threads[0].system_calls = Some(calls);
    seen
}

#[test]
fn calls_of_a_server_that_mostly_sends_refer_to_what_it_sends() {
    let finding = first(&fan_out(1_040_000, 40_000, 1_000_000));
    assert_eq!(finding.cause, SystemCalls, "{}", finding.sentence);
    assert!(finding.sentence.contains("1.04 system calls per packet"), "{}", finding.sentence);
    // It sends 33 datagrams per call.
    let finding = first(&fan_out(80_000, 50_000, 1_000_000));
    assert_ne!(finding.cause, SystemCalls, "{}", finding.sentence);
}

#[test]
fn locks_without_contention_are_no_bottleneck() {
    let with = |name: &str, on: f64| {
        let mut seen = user_lock();
        for thread in &mut seen.threads {
            thread.asleep_on = vec![sleep("epoll_wait", 0.35 - on), sleep("futex", on)];
            thread.asleep_on[1].object = Some("mutex 0x7f00".to_owned());
            thread.samples = 2_000;
            thread.functions = functions(&[("libc.so.6", name, 0.15), ("server", "handle", 0.8)]);
        }
        explain(&seen).iter().any(|finding| finding.cause == UserLock)
    };
    assert!(with("pthread_mutex_lock", 0.045));
    assert!(!with("pthread_mutex_lock", 0.0));
    assert!(with("pthread_spin_lock", 0.0));
}

#[test]
fn a_thread_above_the_limit_of_its_memory_is_in_no_call() {
    let mut seen = server(&[]);
    seen.threads[0].asleep_on =
        vec![sleep("mem_cgroup_handle_over_high", 0.6), sleep("recvfrom", 0.3)];
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("above memory.high"), "{}", finding.sentence);
    assert!(finding.fix.is_some_and(|fix| fix.contains("memory.events")));
}
