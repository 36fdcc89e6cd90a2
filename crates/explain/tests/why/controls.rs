// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs with nothing wrong, and limits for which they are not to blame.

use crate::example::{
    cpu, interface, observation, packets, poller, qdisc, sender, share, socket, testpmd, thread,
};
use crate::seeds::{Case, rate_limiter};
use linerate_explain::why::explain;
use linerate_record::why::Cause::{self, *};
use linerate_record::why::ThreadState::{Asleep, Kernel, User, Waiting};
use linerate_record::why::{
    InterfaceCounts, Observation, PeerActivity, SocketCounts, SocketKind, TcpCounts,
};

fn idle() -> Observation {
    observation(vec![thread("sleep", 100, &[(User, 0.0), (Asleep, 1.0)])])
}

/// 20 kpps into a program that can do 490.
fn little_load() -> Observation {
    testpmd(poller(0.01, Some(0.05)), 100_000, 100_000)
}

/// The limit is the requested line rate.
fn at_the_line() -> Observation {
    let mut seen = rate_limiter();
    seen.watched.line_bits_per_s = Some(3e8);
    seen
}

/// A receiver with time left; the sender's CPU is full.
fn generator() -> Observation {
    let mut sink = thread("sink", 100, &[(User, 0.1), (Kernel, 0.3), (Asleep, 0.6)]);
    sink.voluntary_switches = 100_000;
    let peer = SocketCounts {
        peer_pid: Some(200),
        drops: Some(0),
        ..socket(SocketKind::Udp, "0.0.0.0:9", Some("10.0.0.2:9"))
    };
    Observation {
        sockets: vec![peer],
        packets: packets(1_000_000, 60_000_000),
        cpus: vec![cpu(0, 0.3, 0.7, 0.0), cpu(1, 0.1, 0.3, 0.05)],
        peers: vec![PeerActivity { pid: 200, name: "sender".to_owned(), cpus: 0.97, cpu: None }],
        ..observation(vec![sink])
    }
}

/// A web server at a tenth of its load.
fn web_server() -> Observation {
    let mut worker =
        thread("nginx", 100, &[(User, 0.05), (Kernel, 0.05), (Waiting, 0.01), (Asleep, 0.89)]);
    worker.voluntary_switches = 20_000;
    let tcp = TcpCounts { app_limited_share: 1.0, ..TcpCounts::default() };
    Observation {
        sockets: vec![sender(10_000_000, tcp)],
        interfaces: vec![InterfaceCounts {
            qdiscs: vec![qdisc("fq_codel", 10_000_000, 0, 0.0)],
            ..interface("eth0", 20_000)
        }],
        packets: packets(20_000, 10_000_000),
        ..observation(vec![worker])
    }
}

pub(crate) const CONTROLS: &[Case] = &[
    ("n1 idle", idle, NothingWrong),
    ("n2 little load", little_load, NothingWrong),
    ("n3 at the line that was asked for", at_the_line, NothingWrong),
    ("n4 the generator is the limit", generator, GeneratorLimit),
    ("a web server with time left", web_server, NothingWrong),
];

/// A server and its client, on one CPU or on two.
fn server_with_its_client_on(client_cpu: u32) -> Observation {
    let mut server = thread("server", 100, &[(User, 0.2), (Kernel, 0.35), (Asleep, 0.45)]);
    server.ran_on = vec![1];
    server.voluntary_switches = 100_000;
    let peer = SocketCounts {
        peer_pid: Some(200),
        ..sender(1_000_000, TcpCounts { bytes_received: 1_000_000, ..TcpCounts::default() })
    };
    let (here, there) = if client_cpu == 1 { (0.98, 0.02) } else { (0.56, 0.45) };
    let client =
        PeerActivity { pid: 200, name: "client".to_owned(), cpus: 0.42, cpu: Some(client_cpu) };
    Observation {
        sockets: vec![peer],
        packets: packets(50_000, 5_000_000),
        cpus: vec![cpu(0, there, 0.0, 0.0), cpu(1, here, 0.01, 0.0)],
        peers: vec![client],
        ..observation(vec![server])
    }
}

#[test]
fn a_client_on_the_cpu_of_its_server_is_named() {
    let finding = &explain(&server_with_its_client_on(1))[0];
    assert_eq!(finding.cause, CpuContention, "{}", finding.sentence);
    assert!(finding.sentence.contains("42 % of it"), "{}", finding.sentence);
    let findings = explain(&server_with_its_client_on(0));
    assert!(findings.iter().all(|finding| finding.cause != CpuContention), "{findings:?}");
}

#[test]
fn a_cpu_full_of_other_work_is_not_the_generator() {
    let mut seen = generator();
    seen.peers[0].cpus = 0.2;
    assert_ne!(explain(&seen)[0].cause, GeneratorLimit);
    seen.peers.clear();
    assert_ne!(explain(&seen)[0].cause, GeneratorLimit);
}

#[test]
fn nothing_is_blamed_where_nothing_is_wrong() {
    for (name, control, cause) in CONTROLS {
        let findings = explain(&control());
        let found: Vec<Cause> = findings.iter().map(|finding| finding.cause).collect();
        assert_eq!(found[0], *cause, "{name}: {found:?}: {}", findings[0].sentence);
        assert!(!found.iter().any(|cause| cause.is_removable()), "{name}: {found:?}");
    }
}

#[test]
fn the_room_left_is_said() {
    let sentence = &explain(&little_load())[0].sentence;
    assert!(sentence.contains("20 kpps") && sentence.contains("room for"), "{sentence}");
}

#[test]
fn an_observer_that_fills_the_machine_is_named() {
    let mut seen = idle();
    seen.observer = share(0.3);
    seen.cpus = vec![cpu(0, 0.7, 0.3, 0.0), cpu(1, 0.7, 0.3, 0.0)];
    assert_eq!(explain(&seen)[0].cause, ObserverLimit);
}

#[test]
fn a_thread_that_always_runs_without_packets_is_not_called_busy() {
    let mut seen = observation(vec![thread("sh", 100, &[(User, 0.99), (Waiting, 0.01)])]);
    seen.threads[0].samples = 2000;
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, CannotTell);
    assert!(finding.sentence.contains("works or polls"), "{}", finding.sentence);
}

#[test]
fn nothing_read_is_not_nothing_wrong() {
    let mut seen = observation(Vec::new());
    seen.cpus.clear();
    assert_eq!(explain(&seen)[0].cause, CannotTell);
    seen.watched.ended = Some("exit status 1".to_owned());
    assert!(explain(&seen)[0].sentence.contains("exit status 1"));
}

/// Packets sent on this machine are received in the sender's time: a long list of firewall rules
/// there shows up in the softirqs of a CPU, not in the receiver's time.
#[test]
fn a_cpu_full_of_softirqs_is_not_nothing_wrong() {
    let mut seen = web_server();
    seen.cpus = vec![cpu(0, 0.1, 0.1, 0.7), cpu(1, 0.1, 0.1, 0.0)];
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("CPU 0 spends 70 %"), "{}", finding.sentence);
}
