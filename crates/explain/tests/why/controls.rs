// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs with nothing wrong, and limits that are not their fault.

use crate::example::explain;
use crate::example::{
    ELAPSED_S, cpu, interface, observation, packets, poller, qdisc, sender, share, socket, testpmd,
    thread,
};
use crate::seeds::{Case, cpu_quota, protocols, rate_limiter, single_thread};
use linerate_record::why::Cause::{self, *};
use linerate_record::why::ThreadState::{Asleep, Kernel, User, Waiting};
use linerate_record::why::{
    InterfaceCounts, Observation, PacketCount, PeerActivity, SocketCounts, SocketKind, TcpCounts,
    Unread,
};

fn idle() -> Observation {
    observation(vec![thread("sleep", 100, &[(User, 0.0), (Asleep, 1.0)])])
}

/// Returns an observation of a program that receives 20 kpps and could handle 490.
fn little_load() -> Observation {
    testpmd(poller(0.01, Some(0.05)), 100_000, 100_000)
}

/// Returns an observation of a program that has reached the requested line rate.
fn at_the_line() -> Observation {
    let mut seen = rate_limiter();
    seen.watched.line_bits_per_s = Some(3e8);
    seen
}

/// Returns an observation of a receiver with headroom and a sender whose CPU is saturated.
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

/// Returns an observation of a web server at a tenth of its load.
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
    ("n3 at the requested line rate", at_the_line, NothingWrong),
    ("n4 the generator is the bottleneck", generator, GeneratorLimit),
    ("a web server with headroom", web_server, NothingWrong),
];

/// Returns an observation of a server and its client, on one CPU or on two.
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
fn a_client_that_uses_several_cpus_is_not_on_that_of_its_server() {
    // Its busiest thread was there after the window, but there was no room for it within.
    let mut seen = server_with_its_client_on(1);
    seen.peers[0].cpus = 2.0;
    let finding = &explain(&seen)[0];
    assert_ne!(finding.cause, CpuContention, "{}", finding.sentence);
}

#[test]
fn a_client_on_the_cpu_of_its_server_is_named() {
    let finding = &explain(&server_with_its_client_on(1))[0];
    assert_eq!(finding.cause, CpuContention, "{}", finding.sentence);
    assert!(finding.sentence.contains("42 % of that CPU"), "{}", finding.sentence);
    let findings = explain(&server_with_its_client_on(0));
    assert!(findings.iter().all(|finding| finding.cause != CpuContention), "{findings:?}");
}

#[test]
fn a_cpu_full_of_other_work_is_not_the_generator() {
    let mut seen = generator();
    seen.peers[0].cpus = 0.2;
    assert_ne!(explain(&seen)[0].cause, GeneratorLimit);
    // A batch job fills CPU 0; the sender is on the other CPU.
    seen.peers[0] = PeerActivity { cpus: 0.75, cpu: Some(1), ..seen.peers[0].clone() };
    assert_ne!(explain(&seen)[0].cause, GeneratorLimit);
    let here = PeerActivity { pid: 300, name: "wrk".to_owned(), cpus: 0.97, cpu: Some(0) };
    seen.peers.push(here);
    let finding = explain(&seen).swap_remove(0);
    assert_eq!(finding.cause, GeneratorLimit, "{}", finding.sentence);
    assert!(finding.sentence.contains(", wrk (300),"), "{}", finding.sentence);
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
fn a_load_that_ended_within_the_window_is_stated() {
    let with_rates = |rates: Vec<f64>| {
        let seen = Observation { packets_per_s: rates, ..little_load() };
        explain(&seen)[0].sentence.clone()
    };
    let ended = [vec![30e3; 20], vec![20e3; 20], vec![0.0; 20]].concat();
    let sentence = with_rates(ended);
    assert!(
        sentence.contains("changed within the window (rate in each third: 30 kpps, 20 kpps, "),
        "{sentence}"
    );
    // Short bursts are a load like any other.
    let bursts = (0..60).map(|slice| if slice % 4 == 0 { 80e3 } else { 0.0 });
    assert!(!with_rates(bursts.collect()).contains("changed"));
}

#[test]
fn commands_run_where_the_interface_is() {
    let here = rate_limiter();
    let fix = |seen: &Observation| explain(seen)[0].fix.clone().unwrap();
    assert!(fix(&here).contains("the qdisc: sudo tc qdisc del dev v1 root"), "{}", fix(&here));
    assert!(fix(&here).contains("linerate why --line 300Mb/s"), "{}", fix(&here));
    // With another queueing discipline, either may be the root.
    let mut classful = here.clone();
    classful.interfaces[0].qdiscs.push(qdisc("htb", 1000, 0, 0.0));
    assert!(fix(&classful).contains("del dev v1 parent PARENT handle 8001:"), "{}", fix(&classful));
    classful.interfaces[0].qdiscs[0].parent = Some("1:10".to_owned());
    assert!(fix(&classful).contains("del dev v1 parent 1:10 handle 8001:"), "{}", fix(&classful));
    let mut there = here;
    there.watched.is_in_other_namespace = true;
    assert!(fix(&there).contains(": sudo nsenter -t 100 -n tc qdisc del"), "{}", fix(&there));
    // Root may not have sudo, and does not need it.
    there.unread.clear();
    assert!(fix(&there).contains(": nsenter -t 100 -n tc qdisc del"), "{}", fix(&there));
}

#[test]
fn in_an_unreadable_namespace_nothing_is_claimed() {
    let mut seen = idle();
    assert_eq!(explain(&seen)[0].cause, NothingWrong);
    seen.unread.push(Unread {
        what: "sockets_and_drivers".to_owned(),
        reason: "the program's network namespace cannot be queried".to_owned(),
        fix: None,
    });
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert_eq!(finding.fix.as_deref(), Some("sudo linerate why 100"));
}

#[test]
fn an_observer_that_fills_the_machine_is_named() {
    let mut seen = idle();
    seen.observer = share(0.3);
    seen.cpus = vec![cpu(0, 0.7, 0.3, 0.0), cpu(1, 0.7, 0.3, 0.0)];
    assert_eq!(explain(&seen)[0].cause, ObserverLimit);
    // A program that uses all of the machine's many CPUs loses next to nothing.
    let busy = |tid| thread("worker", tid, &[(User, 0.9), (Waiting, 0.1)]);
    seen.threads = (100..108).map(busy).collect();
    seen.observer = share(0.3);
    assert_ne!(explain(&seen)[0].cause, ObserverLimit);
}

#[test]
fn a_thread_that_always_runs_without_packets_is_not_called_busy() {
    let mut seen = observation(vec![thread("sh", 100, &[(User, 0.99), (Waiting, 0.01)])]);
    seen.threads[0].samples = 2000;
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, CannotTell);
    assert!(finding.sentence.contains("is working or busy-polling"), "{}", finding.sentence);
}

#[test]
fn nothing_read_is_not_nothing_wrong() {
    let mut seen = observation(Vec::new());
    seen.cpus.clear();
    assert_eq!(explain(&seen)[0].cause, CannotTell);
    seen.watched.ended = Some("exit status 1".to_owned());
    assert!(explain(&seen)[0].sentence.contains("exit status 1"));
}

/// Packets sent on this machine are received in the sender's time. A long list of firewall rules
/// there shows up in a CPU's softirqs, not in the receiver's time.
#[test]
fn a_cpu_full_of_softirqs_is_not_nothing_wrong() {
    let mut seen = web_server();
    seen.cpus = vec![cpu(0, 0.1, 0.1, 0.7), cpu(1, 0.1, 0.1, 0.0)];
    let finding = &explain(&seen)[0];
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("CPU 0 spends 70 %"), "{}", finding.sentence);
}

#[test]
fn a_program_without_packets_has_nothing_wrong_whatever_it_waits_for() {
    let mut seen = testpmd(poller(0.4, None), 0, 0);
    assert_eq!(explain(&seen)[0].cause, NothingWrong, "{}", explain(&seen)[0].sentence);
    assert!(explain(&seen)[0].sentence.contains("no packet reached"), "{:?}", explain(&seen)[0]);
    // Packets that arrived but did not reach the program are lost, which is another matter.
    seen.interfaces.iter_mut().for_each(|interface| interface.rx_packets = 100_000);
    assert_ne!(explain(&seen)[0].cause, NothingWrong, "{}", explain(&seen)[0].sentence);
}

#[test]
fn time_that_strangers_took_is_gained_on_a_full_machine_too() {
    let mut seen = testpmd(poller(0.5, None), 100_000, 100_000);
    seen.sockets.clear();
    seen.interfaces.clear();
    seen.cpus = vec![cpu(0, 0.9, 0.1, 0.0), cpu(1, 0.9, 0.1, 0.0)];
    let gain = |seen: &Observation| {
        let finding = explain(seen).remove(0);
        assert_eq!(finding.cause, CpuContention, "{}", finding.sentence);
        finding.gain.percent.as_number().unwrap()
    };
    assert!((gain(&seen) - 100.0).abs() < 20.0, "{}", gain(&seen));
    // Unknown peers of datagram sockets may be what runs there, and have no CPU to move to.
    seen.sockets = vec![socket(SocketKind::Udp, "0.0.0.0:9", None)];
    assert!(gain(&seen) < 10.0, "{}", gain(&seen));
}

#[test]
fn a_receiver_gains_no_more_than_what_it_loses() {
    let gain = |dropped: u64| {
        let mut seen = cpu_quota();
        let drops = Some(dropped);
        seen.sockets = vec![SocketCounts { drops, ..socket(SocketKind::Udp, "0.0.0.0:9", None) }];
        seen.protocols.insert("Udp.InDatagrams".to_owned(), 100_000);
        seen.protocols.insert("Udp.RcvbufErrors".to_owned(), dropped);
        seen.packets = packets(100_000, 10_000_000);
        let finding = explain(&seen).remove(0);
        assert_eq!(finding.cause, CpuQuota, "{}", finding.sentence);
        finding.gain.percent.clone()
    };
    // A program that gets a fifth of the CPU time could reach about five times the rate, if that
    // much is offered.
    assert!(gain(0).high.unwrap() > 300.0, "{:?}", gain(0));
    let capped = gain(50_000);
    assert!((50.0..=65.0).contains(&capped.high.unwrap()), "{capped:?}");
    assert!(capped.method.contains("packets lost"), "{capped:?}");
}

#[test]
fn a_command_that_failed_at_once_has_no_cause() {
    let mut seen = observation(vec![thread("sh", 100, &[(User, 0.4), (Waiting, 0.6)])]);
    seen.elapsed_s = 0.12;
    seen.watched.ended = Some("exit status 1".to_owned());
    let findings = explain(&seen);
    assert_eq!((findings.len(), findings[0].cause), (1, CannotTell), "{}", findings[0].sentence);
}

/// Returns a saturated proxy that carries this many bytes per second in each direction.
fn proxy(bytes_per_s: f64) -> Observation {
    let mut seen = single_thread();
    let segments = (bytes_per_s * ELAPSED_S / 1448.0 / 8.0) as u64;
    for tcp in seen.sockets.iter_mut().filter_map(|socket| socket.tcp.as_mut()) {
        (tcp.bytes_received, tcp.bytes_acked) = (1448 * segments, 1448 * segments);
        (tcp.segments_in, tcp.segments_out) = (segments, segments);
    }
    let counted = PacketCount {
        packets: 16 * segments,
        bytes: Some(16 * 1448 * segments),
        counter: PacketCount::CONNECTIONS.to_owned(),
    };
    seen.packets = Some(counted);
    seen.watched.line_bits_per_s = Some(10e9);
    seen
}

#[test]
fn a_line_carries_each_direction_by_itself() {
    // 3 and 5.2 Gb/s each way, of 10.
    for bytes_per_s in [375e6, 650e6] {
        let finding = explain(&proxy(bytes_per_s)).swap_remove(0);
        assert_eq!(finding.cause, SingleThread, "{}", finding.sentence);
    }
    // At 10 Gb/s each way, nothing is gained.
    assert_ne!(explain(&proxy(1.2e9))[0].cause, SingleThread);
}

#[test]
fn the_traffic_of_others_does_not_reach_the_line() {
    let reached = |name: &str, seen: &mut Observation| {
        seen.watched.line_bits_per_s = Some(10e9);
        let busy =
            InterfaceCounts { rx_bytes: (1.13e9 * ELAPSED_S) as u64, ..interface(name, 4_000_000) };
        seen.interfaces = vec![busy];
        seen.protocols.extend(protocols(&[("Ip.InReceives", 4_000_000)]));
        explain(seen)[0].sentence.contains("reaches the requested line rate")
    };
    // The program's own rate is 16 Mb/s, or it has no sockets.
    assert!(!reached("eth0", &mut proxy(2e6)));
    assert!(!reached("eth0", &mut idle()));
    assert!(reached("eth0", &mut proxy(1.2e9)));
    assert!(!reached("lo", &mut proxy(1.2e9)));
    let mut watched = proxy(1.2e9);
    watched.watched.interface = Some("lo".to_owned());
    assert!(reached("lo", &mut watched));
}
