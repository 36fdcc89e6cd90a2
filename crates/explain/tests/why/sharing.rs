// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server and its client on the same CPU, waking each other for every request.

use crate::example::explain;
use crate::example::{cpu, observation, packets, privileged, sender, thread};
use linerate_record::why::Cause::{CannotTell, CpuContention};
use linerate_record::why::ThreadState::{Asleep, Kernel, User, Waiting};
use linerate_record::why::{Observation, RanInstead, SocketCounts, TcpCounts};

/// Returns an observation of nginx and wrk on one CPU, as measured: moving wrk to another CPU
/// gained 143 %.
fn with_its_client() -> Observation {
    let mut worker =
        thread("nginx", 100, &[(User, 0.06), (Kernel, 0.45), (Waiting, 0.45), (Asleep, 0.04)]);
    (worker.voluntary_switches, worker.involuntary_switches) = (13_000, 80_000);
    worker.ran_on = vec![1];
    worker.ran_instead = vec![instead("wrk", 746, 1.14), instead("ksoftirqd/1", 22, 0.3)];
    let connection = sender(100_000_000, TcpCounts::default());
    Observation {
        sockets: vec![SocketCounts { peer_pid: Some(745), ..connection }],
        packets: packets(320_000, 40_000_000),
        cpus: vec![cpu(0, 0.01, 0.03, 0.0), cpu(1, 0.12, 0.67, 0.21)],
        ..privileged(observation(vec![worker]))
    }
}

fn instead(name: &str, tid: u32, seconds: f64) -> RanInstead {
    let pid = Some(tid - 1);
    let name = name.to_owned();
    RanInstead { name, tid: Some(tid), pid, seconds, times: 69_000, longest_s: 0.0002 }
}

#[test]
fn a_client_on_the_servers_cpu_is_named_as_its_peer() {
    let finding = &explain(&with_its_client())[0];
    assert_eq!(finding.cause, CpuContention);
    assert!(finding.sentence.contains("wrk (its peer)"), "{}", finding.sentence);
    let gain = &finding.gain.percent;
    assert!(gain.low.unwrap() <= 143.0 && 143.0 <= gain.high.unwrap(), "{gain:?}");
}

#[test]
fn a_machine_without_idle_cpus_has_none_to_move_the_client_to() {
    let mut seen = with_its_client();
    seen.cpus[0] = cpu(0, 0.5, 0.4, 0.05);
    assert!(explain(&seen).iter().all(|finding| finding.cause != CpuContention));
}

#[test]
fn the_kernels_own_work_on_packets_is_no_other_program() {
    let mut seen = with_its_client();
    seen.threads[0].ran_instead = vec![instead("ksoftirqd/1", 22, 2.2)];
    assert!(explain(&seen).iter().all(|finding| finding.cause != CpuContention));
}

#[test]
fn without_the_scheduler_it_is_not_known_who_ran() {
    let mut seen = with_its_client();
    seen.threads[0].ran_instead = Vec::new();
    seen.unread = crate::example::unprivileged();
    assert_eq!(explain(&seen)[0].cause, CannotTell);
}
