// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers that take one connection per request, in one process or in a process each. The numbers
//! are those of python's http.server and of `socat TCP-LISTEN:PORT,fork EXEC:COMMAND` under `ab`
//! without -k, except for the idle time of the CPUs.

use crate::example::explain;
use crate::example::{ELAPSED_S, cpu, functions, observation, packets, socket, thread};
use crate::seeds::{handshakes, protocols};
use linerate_record::why::Cause::{
    self, CannotTell, ChildProcesses, ConnectionSetup, CpuContention, NothingWrong, PageFaults,
    SingleThread, SocketBuffer, ThunderingHerd,
};
use linerate_record::why::ThreadState::{Asleep, Interrupts, Kernel, User, Waiting};
use linerate_record::why::{
    Observation, SleepTime, SocketCounts, SocketKind, TcpCounts, ThreadActivity, WhyFinding,
};

fn causes(seen: &Observation) -> Vec<Cause> {
    explain(seen).iter().map(|finding| finding.cause).collect()
}

fn find(seen: &Observation, cause: Cause) -> WhyFinding {
    let found = explain(seen).into_iter().find(|finding| finding.cause == cause);
    found.unwrap_or_else(|| panic!("{cause:?} is not among {:?}", causes(seen)))
}

/// Returns a server that accepted this many connections in 5 s, of which one was listed.
fn accepted(server: ThreadActivity, connections: u64) -> Observation {
    let carried = |number: u64| SocketCounts {
        reads: Some(1),
        tcp: Some(TcpCounts {
            bytes_received: 82,
            segments_in: 3,
            segments_out: 1,
            ..TcpCounts::default()
        }),
        ..socket(SocketKind::Tcp, "127.0.0.1:8301", Some(&format!("127.0.0.1:{}", 4000 + number)))
    };
    let listen = socket(SocketKind::TcpListen, "127.0.0.1:8301", None);
    let counts = [
        ("Tcp.InSegs", 12 * connections),
        ("Tcp.PassiveOpens", connections),
        ("Tcp.ActiveOpens", connections),
    ];
    Observation {
        sockets: [listen].into_iter().chain((0..connections.min(1)).map(carried)).collect(),
        protocols: protocols(&counts),
        ended_threads_cpus: Some(0.0),
        ended_children_cpus: Some(0.0),
        cpus: vec![cpu(0, 0.4, 0.1, 0.0), cpu(1, 0.96, 0.03, 0.01)],
        ..observation(vec![server])
    }
}

/// Returns a server with one thread, which works all the time.
fn one_thread(connections: u64) -> Observation {
    let shares = [(User, 0.96), (Kernel, 0.02), (Interrupts, 0.01), (Waiting, 0.01)];
    accepted(thread("python3", 100, &shares), connections)
}

#[test]
fn a_few_connections_do_not_explain_a_thread_that_does_all_the_work() {
    // 533 connections/s take 2 % of the CPU time.
    assert_eq!(causes(&one_thread(2_667)), [SingleThread]);
    // 2,600 per second take 11 %, and a second thread would gain more than 60 %.
    let mut idle = one_thread(13_000);
    idle.cpus[0] = cpu(0, 0.05, 0.0, 0.0);
    assert_eq!(causes(&idle), [SingleThread, ConnectionSetup]);
    let sentence = find(&idle, ConnectionSetup).sentence;
    assert!(sentence.contains("about 11 % of the CPU time"), "{sentence}");
    // 15,000 per second are most of the work of one that does little else.
    let mut most = one_thread(75_000);
    most.threads[0].time =
        thread("nginx", 100, &[(User, 0.3), (Kernel, 0.65), (Interrupts, 0.04)]).time;
    assert_eq!(causes(&most), [ConnectionSetup]);
}

#[test]
fn connections_that_are_closed_unserved_are_not_a_cost_to_save() {
    // nginx with 24 worker_connections and 64 clients, of which each tries again at once.
    let mut seen = one_thread(113_693);
    let shares = [(User, 0.04), (Kernel, 0.6), (Interrupts, 0.04), (Asleep, 0.32)];
    seen.threads[0].time = thread("nginx", 100, &shares).time;
    assert_eq!(causes(&seen), [ConnectionSetup]);
    let aborted = [("TcpExt.TCPAbortOnData", 29_058), ("TcpExt.TCPAbortOnClose", 1_532)];
    seen.protocols.extend(protocols(&aborted));
    seen.protocols.insert("Tcp.OutSegs".to_owned(), 5 * 113_693);
    let finding = explain(&seen).remove(0);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("30,590 were reset"), "{}", finding.sentence);
    assert!(finding.fix.is_some_and(|next| next.contains("worker_connections")));
    assert!(!causes(&seen).contains(&ConnectionSetup));
    // A few clients that give up change nothing.
    seen.protocols.insert("TcpExt.TCPAbortOnData".to_owned(), 2_000);
    assert_eq!(causes(&seen), [ConnectionSetup]);
}

#[test]
fn a_few_page_faults_do_not_explain_a_thread_that_does_all_the_work() {
    let mut seen = one_thread(500);
    seen.cpus[0] = cpu(0, 0.05, 0.0, 0.0);
    seen.threads[0].minor_faults = 120_000;
    assert_eq!(causes(&seen), [SingleThread, PageFaults]);
}

#[test]
fn a_small_part_of_a_busy_threads_time_does_not_come_first() {
    // Measured with node and a callback of 50 ms: page faults were 9 % of the CPU time.
    let mut seen = one_thread(500);
    seen.cpus[0] = cpu(0, 0.9, 0.05, 0.0);
    seen.threads[0].minor_faults = 120_000;
    assert_eq!(causes(&seen), [CannotTell, PageFaults]);
    // A cost that takes most of the time explains it.
    seen.threads[0].time = thread("node", 100, &[(User, 0.4), (Kernel, 0.6)]).time;
    seen.threads[0].minor_faults = 1_000_000;
    assert_eq!(causes(&seen), [PageFaults]);
    // The line caps the gain, but says nothing about the CPU time.
    seen.packets = packets(1_000_000, 1_000_000_000);
    seen.watched.line_bits_per_s = Some(1.2 * 8e9 / ELAPSED_S);
    assert_eq!(causes(&seen), [PageFaults]);
}

#[test]
fn the_cost_of_connections_is_part_of_that_of_all_threads() {
    let mut threaded = one_thread(17_000);
    assert!(causes(&threaded).contains(&ConnectionSetup));
    // One thread per connection, which ends with it.
    threaded.ended_threads_cpus = Some(0.9);
    let found = explain(&threaded);
    assert!(found.iter().all(|one| one.cause != ConnectionSetup), "{}", found[0].sentence);
}

/// Returns a server that starts processes, which use this much CPU time.
fn forking(children_cpus: f64, processes: u32) -> Observation {
    let mut parent = thread("socat", 100, &[(Kernel, 0.13), (Waiting, 0.02), (Asleep, 0.85)]);
    parent.minor_faults = 23_057;
    parent.voluntary_switches = 4_000;
    let object = Some("tcp 0.0.0.0:8301".to_owned());
    parent.asleep_on =
        vec![SleepTime { on: "accept".to_owned(), share: 0.85, object, holder: None }];
    let mut seen = accepted(parent, 4_092);
    seen.watched.pids.extend(10_000..10_000 + processes);
    seen.ended_children_cpus = Some(children_cpus);
    seen.cpus = vec![cpu(0, 0.5, 0.45, 0.0), cpu(1, 0.5, 0.45, 0.0)];
    seen
}

/// Returns a server of this many processes that wait for connections on one socket, and the number
/// of times that each connection wakes one of them.
fn herd(processes: u32, woken: u64) -> Observation {
    const CONNECTIONS: u64 = 22_000;
    let process = |n: u32| {
        let mut one =
            thread("python3", 100 + n, &[(Kernel, 0.035), (Waiting, 0.64), (Asleep, 0.325)]);
        one.pid = 100 + n;
        one.voluntary_switches = CONNECTIONS * woken / u64::from(processes);
        let on = "epoll_wait".to_owned();
        one.asleep_on = vec![SleepTime { on, share: 0.325, object: None, holder: None }];
        one
    };
    let mut seen = accepted(process(0), CONNECTIONS);
    seen.threads = (0..processes).map(process).collect();
    seen.watched.pids = (100..100 + processes).collect();
    seen.cpus = vec![cpu(0, 0.5, 0.45, 0.0), cpu(1, 0.5, 0.45, 0.0)];
    seen
}

#[test]
fn processes_that_are_all_woken_for_each_connection_are_a_thundering_herd() {
    let finding = explain(&herd(48, 46)).remove(0);
    assert_eq!(finding.cause, ThunderingHerd, "{}", finding.sentence);
    // Each connection wakes one of them, a few times.
    for (processes, woken) in [(48, 1), (48, 6), (6, 6)] {
        let causes = causes(&herd(processes, woken));
        assert!(!causes.contains(&ThunderingHerd), "{processes} processes, {woken}");
    }
}

#[test]
fn a_process_per_connection_is_named() {
    let mut seen = forking(1.42, 120);
    assert_eq!(causes(&seen), [ChildProcesses]);
    let sentence = find(&seen, ChildProcesses).sentence;
    assert!(sentence.contains("1.42 CPUs, 92 % of the program's CPU time"), "{sentence}");
    // The same on two CPUs that other programs use as well.
    seen.threads[0].time =
        thread("socat", 100, &[(Kernel, 0.13), (Waiting, 0.76), (Asleep, 0.11)]).time;
    assert_eq!(causes(&seen), [ChildProcesses]);
    // A process now and then, and workers that were replaced.
    for (cpus, processes) in [(0.2, 20), (0.9, 2)] {
        let finding = explain(&forking(cpus, processes)).remove(0);
        assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
        assert!(finding.sentence.contains("child_processes"), "{}", finding.sentence);
    }
    let idle = explain(&forking(0.02, 20)).remove(0);
    assert_eq!(idle.cause, NothingWrong, "{}", idle.sentence);
}

#[test]
fn a_process_per_datagram_explains_a_full_buffer() {
    let mut seen = crate::seeds::socket_buffer();
    seen.sockets[0].drops = Some(10_087);
    seen.protocols = protocols(&[("Udp.InDatagrams", 10_093), ("Udp.RcvbufErrors", 9_927)]);
    seen.packets = packets(10_093, 2_000_000);
    seen.threads[0].time =
        thread("socat", 100, &[(User, 0.01), (Kernel, 0.38), (Waiting, 0.24), (Asleep, 0.37)]).time;
    assert_eq!(explain(&seen)[0].cause, SocketBuffer);
    seen.watched.pids.extend(10_000..10_120);
    seen.ended_children_cpus = Some(0.95);
    assert_eq!(causes(&seen), [ChildProcesses]);
    // A few processes, or too few for the datagrams: commands that a collector runs.
    let mut few = seen.clone();
    few.threads[0].time = thread("telegraf", 100, &[(Kernel, 0.02), (Asleep, 0.98)]).time;
    few.ended_children_cpus = Some(0.06);
    assert_eq!(causes(&few), [SocketBuffer], "{}", explain(&few)[0].sentence);
    few.ended_children_cpus = Some(0.2);
    few.protocols.insert("Udp.InDatagrams".to_owned(), 100_000);
    few.packets = packets(100_000, 20_000_000);
    assert_eq!(causes(&few), [SocketBuffer]);
}

#[test]
fn handshakes_are_known_by_the_names_of_functions() {
    let with = |names: &[(&str, &str, f64)]| {
        let mut seen = handshakes();
        seen.threads[0].functions = functions(names);
        explain(&seen).remove(0)
    };
    // Go 1.26, and OpenSSL linked into the program.
    let go = with(&[
        ("server", "crypto/internal/fips140/bigmod.addMulVVW1024.abi0", 0.52),
        ("server", "crypto/internal/fips140/bigmod.(*Nat).montgomeryMul", 0.07),
        ("server", "crypto/internal/fips140/edwards25519/field.feMul.abi0", 0.03),
        ("server", "runtime.memmove", 0.01),
    ]);
    let linked = with(&[("node", "bn_sqr8x_internal", 0.4), ("node", "mul4x_internal", 0.2)]);
    for (finding, share) in [(go, "62 %"), (linked, "60 %")] {
        assert_eq!(finding.cause, ConnectionSetup, "{}", finding.sentence);
        assert!(finding.sentence.contains(share), "{}", finding.sentence);
        assert!(finding.gain.percent.as_number() > Some(90.0), "{:?}", finding.gain);
    }
    // Functions of the same names in the kernel, and other work of the program.
    let other = with(&[("kernel", "crypto_aead_encrypt", 0.4), ("server", "main.work", 0.4)]);
    assert_ne!(other.cause, ConnectionSetup, "{}", other.sentence);
    // Hashes of passwords and content are no handshakes.
    let hashes = with(&[
        ("server", "golang.org/x/crypto/blowfish.encryptBlock", 0.4),
        ("server", "crypto/internal/fips140/sha256.blockSHANI", 0.2),
    ]);
    assert_ne!(hashes.cause, ConnectionSetup, "{}", hashes.sentence);
}

#[test]
fn resets_of_connections_that_are_opened_here_or_served_turn_no_client_away() {
    // haproxy with http-server-close resets each connection to a server after the reply, and a TLS
    // client on this machine resets each connection that it closes before the server does.
    let mut seen = one_thread(40_000);
    let shares = [(User, 0.3), (Kernel, 0.65), (Interrupts, 0.04)];
    seen.threads[0].time = thread("haproxy", 100, &shares).time;
    seen.protocols
        .extend(protocols(&[("TcpExt.TCPAbortOnData", 40_000), ("Tcp.OutSegs", 9 * 40_000)]));
    assert_eq!(explain(&seen)[0].cause, ConnectionSetup, "{}", explain(&seen)[0].sentence);
    // It turns clients away, too.
    seen.protocols.insert("TcpExt.TCPAbortOnData".to_owned(), 60_000);
    assert_eq!(explain(&seen)[0].cause, CannotTell, "{}", explain(&seen)[0].sentence);
    // Clients on other machines open the connections.
    seen.protocols.insert("TcpExt.TCPAbortOnData".to_owned(), 40_000);
    seen.protocols.insert("Tcp.ActiveOpens".to_owned(), 0);
    assert_eq!(explain(&seen)[0].cause, CannotTell, "{}", explain(&seen)[0].sentence);
    // Those that were seen got a reply.
    seen.sockets[0].reads = Some(50);
    seen.sockets[1].tcp.as_mut().unwrap().bytes_acked = 200;
    assert_eq!(explain(&seen)[0].cause, ConnectionSetup, "{}", explain(&seen)[0].sentence);
}

#[test]
fn connections_that_are_closed_unserved_come_after_a_cause_with_evidence() {
    let mut seen = one_thread(113_693);
    let counts = [("TcpExt.TCPAbortOnData", 113_000), ("Tcp.OutSegs", 5 * 113_693)];
    seen.protocols.extend(protocols(&counts));
    let with = |shares: &[_]| thread("nginx", 100, shares).time;
    seen.threads[0].time = with(&[(Kernel, 0.64), (Waiting, 0.01), (Asleep, 0.35)]);
    assert!(explain(&seen)[0].sentence.contains("limit"), "{}", explain(&seen)[0].sentence);
    seen.threads[0].time = with(&[(Kernel, 0.5), (Waiting, 0.48), (Asleep, 0.02)]);
    let finding = explain(&seen).remove(0);
    assert_eq!(finding.cause, CpuContention, "{}", finding.sentence);
}
