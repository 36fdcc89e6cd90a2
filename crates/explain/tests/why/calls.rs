// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that send datagrams and frames, one by one or in batches.

use crate::example::explain;
use crate::example::observation;
use crate::example::{cpu, functions, in_kernel, interface, packets, privileged, socket, thread};
use linerate_record::why::Cause;
use linerate_record::why::ThreadState::{Kernel, User, Waiting};
use linerate_record::why::{InterfaceCounts, KernelEvent, Observation, SocketKind, ThreadActivity};

fn udp_client(mut client: ThreadActivity) -> Observation {
    client.system_calls = None;
    // Calls such as write(2), which a user can count, but not sendto(2).
    client.io_calls = Some(10);
    Observation {
        sockets: vec![socket(SocketKind::Udp, "10.0.0.1:4000", Some("10.0.0.2:5201"))],
        packets: packets(1_000_000, 60_000_000),
        cpus: vec![cpu(0, 0.3, 0.3, 0.1), cpu(1, 0.2, 0.78, 0.01)],
        ..observation(vec![client])
    }
}

/// Returns an observation by an unprivileged user, who cannot count system calls.
pub(crate) fn system_calls_unprivileged() -> Observation {
    udp_client(in_kernel(0.8))
}

pub(crate) fn system_calls() -> Observation {
    let mut seen = privileged(system_calls_unprivileged());
    seen.threads[0].system_calls = Some(2_000_000);
    seen.threads[0].functions = functions(&[("kernel", "entry_SYSCALL_64", 0.1)]);
    seen
}

#[test]
fn the_number_of_calls_agrees_with_its_noun() {
    let sentence = |calls| {
        let mut seen = system_calls();
        seen.threads[0].system_calls = Some(calls);
        explain(&seen)[0].sentence.clone()
    };
    let one = sentence(1_000_000);
    assert!(one.contains("makes 1 system call per packet"), "{one}");
    let two = sentence(2_000_000);
    assert!(two.contains("makes 2 system calls per packet"), "{two}");
}

#[test]
fn calls_do_not_limit_a_program_whose_own_work_takes_as_long() {
    let with = |kernel: f64| {
        let mut seen = system_calls();
        let shares = [(User, 0.97 - kernel), (Kernel, kernel), (Waiting, 0.03)];
        seen.threads[0].time = thread("python3", 100, &shares).time;
        explain(&seen).iter().map(|finding| finding.cause).collect::<Vec<Cause>>()
    };
    assert_eq!(with(0.85)[0], Cause::SystemCalls);
    assert!(!with(0.5).contains(&Cause::SystemCalls), "{:?}", with(0.5));
}

#[test]
fn a_thread_that_spins_on_an_event_is_not_said_to_be_busy() {
    // An echo server of 4-byte messages with EPOLLOUT always requested: 96 calls per packet.
    let with = |calls: Option<u64>, waits: u64, bytes: u64, is_root: bool| {
        let shares = [(User, 0.03), (Kernel, 0.96), (Waiting, 0.01)];
        let mut seen = observation(vec![thread("server", 100, &shares)]);
        seen.sockets = vec![socket(SocketKind::Tcp, "10.0.0.1:80", Some("10.0.0.2:4000"))];
        seen.packets = packets(30_944, bytes);
        seen.cpus = vec![cpu(0, 0.1, 0.1, 0.0), cpu(1, 0.03, 0.95, 0.01)];
        let mut seen = if is_root { privileged(seen) } else { seen };
        seen.threads[0].system_calls = calls;
        seen.events.push(KernelEvent {
            event: "raw_syscalls:sys_enter".to_owned(),
            filter: Some("call epoll_wait".to_owned()),
            is_of_watched: true,
            count: waits,
        });
        explain(&seen).remove(0)
    };
    for (calls, is_root) in [(Some(2_977_500), true), (None, false)] {
        let finding = with(calls, 2_941_841, 46_392, is_root);
        assert_eq!(finding.cause, Cause::CannotTell, "{}", finding.sentence);
        assert!(finding.sentence.contains("EPOLLOUT"), "{}", finding.sentence);
        assert!(!finding.sentence.contains("busy whenever it runs"), "{}", finding.sentence);
    }
    // As many bytes as 160 us suffice for, few calls, and many that read files.
    let bulk = with(None, 0, 30_944 * 60_000, false);
    assert!(!bulk.sentence.contains("EPOLLOUT"), "{}", bulk.sentence);
    for (calls, waits) in [(90_000, 80_000), (2_977_500, 30_000)] {
        let other = with(Some(calls), waits, 46_392, true);
        assert!(!other.sentence.contains("EPOLLOUT"), "{}", other.sentence);
    }
}

/// Returns an observation by an unprivileged user, who can count calls of write(2) and the like.
pub(crate) fn system_calls_of_write() -> Observation {
    let mut seen = system_calls_unprivileged();
    seen.threads[0].io_calls = Some(1_000_000);
    seen
}

/// Returns an observation of a sender of frames that never sleeps and has no counters of its own.
fn frames(calls: u64) -> Observation {
    let mut seen = privileged(udp_client(in_kernel(0.9)));
    seen.sockets = vec![socket(SocketKind::Packet, "v1", None)];
    seen.interfaces =
        vec![InterfaceCounts { rx_packets: 4, rx_bytes: 300, ..interface("v1", 3_000_000) }];
    seen.packets = packets(3_000_000, 180_000_000);
    seen.threads[0].system_calls = Some(calls);
    seen.threads[0].functions = functions(&[("kernel", "packet_sendmsg", 0.1)]);
    seen
}

pub(crate) fn frames_one_by_one() -> Observation {
    frames(3_000_000)
}

pub(crate) fn frames_in_batches() -> Observation {
    frames(100_000)
}

#[test]
fn causes_that_cannot_be_separated_are_both_named_with_what_separates_them() {
    let with_bytes = |bytes: u64| {
        let mut seen = system_calls_unprivileged();
        let count = seen.packets.as_mut().unwrap();
        count.bytes = Some(bytes * count.packets);
        explain(&seen).remove(0)
    };
    let finding = with_bytes(1400);
    for word in ["system_calls", "copying"] {
        assert!(finding.sentence.contains(word), "{}", finding.sentence);
    }
    // Copies of short packets cost little.
    let of_short = with_bytes(60).sentence;
    assert!(of_short.contains("system_calls") && !of_short.contains("copying"), "{of_short}");
    let next = finding.fix.as_deref().unwrap();
    assert!(next.contains("perf_event_paranoid") && next.contains("strace"), "{next}");
}
