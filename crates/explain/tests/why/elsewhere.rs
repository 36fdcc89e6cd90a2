// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes outside the threads that were watched: in another network namespace, in the neighbour
//! table, at another socket on the same port; and threads that only seem to be the cause.

use crate::example::explain;
use crate::example::{
    cpu, dropped, functions, interface, observation, packets, privileged, requests, share, socket,
    thread,
};
use crate::seeds::{cpu_contention, protocols};
use linerate_record::stats::Estimate;
use linerate_record::why::Cause::*;
use linerate_record::why::ThreadState::{Asleep, Interrupts, Kernel, User, Waiting};
use linerate_record::why::ledger::ledger;
use linerate_record::why::{
    FullDescriptors, Observation, RequestCounts, SleepTime, SocketKind, ThreadActivity,
    ThreadState, Unread, WhyFinding,
};
use linerate_record::{Figure, Tier};

fn first(seen: &Observation) -> WhyFinding {
    explain(seen).remove(0)
}

fn sleep(on: &str, object: Option<&str>, share: f64) -> SleepTime {
    SleepTime { on: on.to_owned(), share, object: object.map(str::to_owned), holder: None }
}

/// Returns a thread that sleeps in one call for the rest of its time.
fn sleeper(name: &str, tid: u32, shares: &[(ThreadState, f64)], on: SleepTime) -> ThreadActivity {
    let mut shares = shares.to_vec();
    shares.push((Asleep, on.share));
    ThreadActivity { asleep_on: vec![on], ..thread(name, tid, &shares) }
}

fn unread(what: &str, reason: &str, fix: &str) -> Unread {
    Unread { what: what.to_owned(), reason: reason.to_owned(), fix: Some(fix.to_owned()) }
}

#[test]
fn a_thread_that_lived_for_a_millisecond_is_no_cause() {
    let wait = sleep("futex", None, 0.7);
    let main = sleeper("python3", 100, &[(User, 0.05), (Kernel, 0.05), (Waiting, 0.2)], wait);
    let brief = ThreadActivity {
        elapsed_s: 0.001,
        involuntary_switches: 1,
        ..thread("python3", 11_317, &[(User, 0.02), (Kernel, 0.02), (Waiting, 3.36)])
    };
    let mut seen = observation(vec![main, brief]);
    seen.cpus = vec![cpu(0, 0.9, 0.1, 0.0), cpu(1, 0.9, 0.1, 0.0)];
    for finding in explain(&seen) {
        assert!(!finding.sentence.contains("11317"), "{}", finding.sentence);
        assert!(!finding.sentence.contains("336"), "{}", finding.sentence);
    }
    // Over the whole window, the same thread would be the cause.
    seen.threads[1].elapsed_s = seen.elapsed_s;
    seen.threads[1].time[2].share = share(0.8);
    assert!(first(&seen).sentence.contains("11317"), "{}", first(&seen).sentence);
}

/// Returns an observation of a web server whose wrapper is in another network namespace.
fn behind_wrapper(shares: &[(ThreadState, f64)]) -> Observation {
    let asleep = 1.0 - shares.iter().map(|(_, share)| share).sum::<f64>();
    let worker = sleeper("nginx", 103, shares, sleep("epoll_wait", None, asleep));
    let mut seen = observation(vec![ThreadActivity { pid: 103, ..worker }]);
    seen.watched.pids = vec![100, 103];
    let mut cpus = vec![cpu(0, 0.1, 0.1, 0.0), cpu(1, 0.2, 0.5, 0.25)];
    cpus[1].backlog_processed = 100_000;
    privileged(Observation { cpus, ..seen })
}

fn in_other_namespace() -> Unread {
    let reason = "process 103 is in a different network namespace from process 100: sockets and \
                  interfaces there were not read";
    unread("other_namespaces", reason, "linerate why 103")
}

#[test]
fn a_network_namespace_that_was_not_read_may_hold_the_cause() {
    let mut seen = behind_wrapper(&[(User, 0.01), (Kernel, 0.02)]);
    assert_eq!(first(&seen).cause, NothingWrong, "{}", first(&seen).sentence);
    seen.unread = vec![in_other_namespace()];
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("process 103 is in a different"), "{}", finding.sentence);
    assert_eq!(finding.fix.as_deref(), Some("linerate why 103"));
    // The process of a command has ended with the window.
    seen.watched.is_command = true;
    assert!(first(&seen).fix.unwrap().starts_with("Start the command first"));
}

#[test]
fn packets_in_an_unread_namespace_are_not_those_of_other_programs() {
    let mut seen = behind_wrapper(&[(User, 0.2), (Kernel, 0.55), (Interrupts, 0.22)]);
    assert_eq!(first(&seen).cause, InterruptLoad, "{}", first(&seen).sentence);
    seen.unread = vec![in_other_namespace()];
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert_eq!(finding.fix.as_deref(), Some("linerate why 103"), "{}", finding.sentence);
}

#[test]
fn a_server_that_stops_accepting_at_its_limit_is_named() {
    let worker = sleeper(
        "python3",
        100,
        &[(User, 0.05), (Kernel, 0.05)],
        sleep("epoll_wait", Some("[eventpoll]"), 0.9),
    );
    let mut listener = socket(SocketKind::TcpListen, "127.0.0.1:8280", None);
    (listener.receive_queue_share, listener.receive_queue_mean) = (Some(1.0), 58.4);
    let mut seen = observation(vec![worker]);
    seen.sockets = vec![listener];
    seen.packets = packets(828, 50_000);
    assert_eq!(first(&seen).cause, CannotTell, "{}", first(&seen).sentence);
    seen.full_descriptors = vec![FullDescriptors { pid: 100, limit: 20, reads: 7, share: 0.14 }];
    let finding = first(&seen);
    assert_eq!(finding.cause, DescriptorLimit, "{}", finding.sentence);
    assert!(finding.sentence.contains("descriptors (20)"), "{}", finding.sentence);
    // A server that accepts as soon as it can had no use for more descriptors.
    seen.sockets[0].receive_queue_share = Some(0.05);
    assert_ne!(first(&seen).cause, DescriptorLimit, "{}", first(&seen).sentence);
}

/// Returns an observation by an ordinary user of a program whose five threads compete for two CPUs.
fn collecting() -> Observation {
    let names = [("node", "v8::internal::Scavenger::ScavengeObject", 0.6), ("node", "f", 0.4)];
    let one = |(tid, runs, waits)| {
        let asleep = sleep("futex", Some(&format!("futex {tid:#x}")), 1.0 - runs - waits);
        let one = sleeper("node", tid, &[(User, runs), (Waiting, waits)], asleep);
        ThreadActivity {
            voluntary_switches: 1000,
            involuntary_switches: 2500,
            samples: 600,
            functions: functions(&names),
            ..one
        }
    };
    let threads = [(100, 0.485, 0.44), (101, 0.4, 0.39), (102, 0.25, 0.49), (103, 0.25, 0.49)];
    let mut seen = observation(threads.into_iter().map(one).collect());
    seen.cpus = vec![cpu(0, 0.9, 0.1, 0.0), cpu(1, 0.9, 0.1, 0.0)];
    seen.packets = packets(6000, 500_000);
    seen
}

#[test]
fn threads_of_the_program_itself_are_no_contention() {
    let seen = collecting();
    let finding = first(&seen);
    assert_eq!(finding.cause, GarbageCollection, "{}", finding.sentence);
    assert!(explain(&seen).iter().all(|finding| finding.cause != CpuContention));
    let fix = finding.fix.unwrap();
    assert!(fix.starts_with("Allocate less per request"), "{fix}");
    assert_eq!(finding.gain.percent.low, Some(0.0));
    // Another program takes the CPUs.
    let mut seen = collecting();
    seen.threads.truncate(1);
    assert_eq!(first(&seen).cause, CpuContention, "{}", first(&seen).sentence);
}

#[test]
fn nice_values_count_only_within_a_session() {
    let workaround = |seen: &Observation| {
        let all = explain(seen);
        let found = all.into_iter().find(|finding| finding.cause == CpuContention);
        found.and_then(|finding| finding.workaround).expect("a workaround")
    };
    let mut seen = cpu_contention();
    for known in [None, Some(false)] {
        seen.sched_autogroup = known;
        assert!(workaround(&seen).contains("renice -n -10"), "{}", workaround(&seen));
    }
    seen.sched_autogroup = Some(true);
    let text = workaround(&seen);
    assert!(text.contains("echo -10 | sudo tee /proc/100/autogroup"), "{text}");
    assert!(!text.contains("renice"), "{text}");
}

/// Returns an observation of a program that sends datagrams and sleeps on a timer in between.
fn sender() -> Observation {
    let nap = sleep("clock_nanosleep", None, 0.71);
    let sender = sleeper("udptx", 100, &[(Kernel, 0.09), (Waiting, 0.2)], nap);
    let mut seen = observation(vec![ThreadActivity { voluntary_switches: 3364, ..sender }]);
    seen.sockets = vec![socket(SocketKind::Udp, "0.0.0.0:41912", None)];
    seen.sockets[0].drops = Some(0);
    seen.packets = packets(5842, 500_000);
    seen.protocols = protocols(&[
        ("Ip.OutDiscards", 61_438),
        ("Ip.OutRequests", 67_280),
        ("Udp.OutDatagrams", 5842),
        ("Udp.SndbufErrors", 61_438),
    ]);
    seen.interfaces = vec![interface("va", 5842)];
    seen
}

#[test]
fn packets_without_a_neighbour_entry_are_lost() {
    let with = |reason: &str| {
        let mut seen = sender();
        seen.events = vec![dropped(Some(reason), 56_572)];
        privileged(seen)
    };
    let seen = with("NEIGH_CREATEFAIL");
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("56,572 packets"), "{}", finding.sentence);
    assert!(finding.fix.as_deref().unwrap().contains("gc_thresh3"), "{:?}", finding.fix);
    assert_eq!(ledger(&seen).lost(), Some(56_572));
    // Packets that this namespace did not discard are those of another one.
    let mut seen = with("NEIGH_CREATEFAIL");
    seen.protocols.remove("Ip.OutDiscards");
    seen.protocols.remove("Udp.SndbufErrors");
    assert_eq!(ledger(&seen).lost(), Some(0));
    assert!(!first(&seen).sentence.contains("what else limits"), "{}", first(&seen).sentence);
}

/// Returns an observation of a cache with one worker and one maintenance thread.
fn cache(reply_s: f64) -> Observation {
    let nap = sleep("clock_nanosleep", None, 0.89);
    let shares = [(Kernel, 0.02), (Waiting, 0.09)];
    let maintains = ThreadActivity {
        voluntary_switches: 3752,
        samples: 6,
        functions: functions(&[("libc.so.6", "clock_nanosleep", 1.0)]),
        ..sleeper("mc-lrumaint", 101, &shares, nap)
    };
    let input = sleep("epoll_wait", Some("[eventpoll]"), 0.92);
    let worker = ThreadActivity {
        voluntary_switches: 4570,
        ..sleeper("mc-worker", 102, &[(Kernel, 0.02), (Waiting, 0.06)], input)
    };
    let mut seen = observation(vec![maintains, worker]);
    seen.packets = packets(9456, 600_000);
    seen.cpus = vec![cpu(0, 0.3, 0.1, 0.0), cpu(1, 0.3, 0.1, 0.0)];
    let reply = Estimate {
        value: reply_s,
        low: 0.5 * reply_s,
        high: 2.0 * reply_s,
        ..Estimate::exactly(reply_s)
    };
    seen.requests = Some(RequestCounts {
        reply_time: Figure::number("s", reply, Tier::Sw, "by hand"),
        requests: 4728,
        ..requests(0.08, 0.0)
    });
    seen
}

#[test]
fn a_thread_that_sleeps_longer_than_replies_take_is_not_in_their_way() {
    assert_eq!(first(&cache(80e-6)).cause, NothingWrong, "{}", first(&cache(80e-6)).sentence);
    let slow = first(&cache(1e-3));
    assert!(slow.sentence.contains("mc-lrumaint (101) holds up packets"), "{}", slow.sentence);
    // Without names of functions, it may be the monitor thread of Go's runtime.
    let mut stripped = cache(1e-3);
    stripped.threads[0].functions = functions(&[("server", "server+0x1234", 1.0)]);
    let finding = first(&stripped);
    assert!(!finding.sentence.contains("holds up packets"), "{}", finding.sentence);
}

#[test]
fn protocol_counters_show_loss_where_sockets_are_not_readable() {
    let input = sleep("epoll_wait", None, 0.85);
    let mut seen = observation(vec![sleeper("nginx", 100, &[(Kernel, 0.15)], input)]);
    seen.watched.is_in_other_namespace = true;
    let reason = "the program's network namespace cannot be queried";
    seen.unread.push(unread("sockets_and_drivers", reason, "sudo linerate why 100"));
    seen.protocols = protocols(&[("Tcp.InSegs", 11_390), ("Tcp.OutSegs", 1_285_017)]);
    let finding = first(&seen);
    assert!(finding.sentence.contains("network namespace is the bottleneck"), "{finding:?}");
    seen.protocols.insert("Tcp.RetransSegs".to_owned(), 39_152);
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell);
    assert!(finding.sentence.contains("retransmitted 39152 segments (3 %"), "{finding:?}");
    assert!(finding.fix.as_deref().unwrap().starts_with("sudo linerate why 100,"), "{finding:?}");
}

#[test]
fn a_second_socket_on_the_port_without_packets_is_named() {
    let local = "0.0.0.0:8270";
    let input = |share| sleep("recvfrom", Some("udp 0.0.0.0:8270"), share);
    let busy = [(User, 0.63), (Kernel, 0.12), (Interrupts, 0.1), (Waiting, 0.03)];
    let busy = ThreadActivity { pid: 108, ..sleeper("python3", 108, &busy, input(0.12)) };
    let idle = ThreadActivity { pid: 99, ..sleeper("python3", 99, &[], input(1.0)) };
    let mut seen = observation(vec![busy, idle]);
    seen.watched.pids = vec![99, 108];
    let of = |pid, inode| {
        let mut one = socket(SocketKind::Udp, local, None);
        (one.pid, one.inode) = (pid, inode);
        one
    };
    seen.sockets = vec![of(99, 1), of(108, 2)];
    seen.packets = packets(173_462, 17_000_000);
    seen.cpus = vec![cpu(0, 0.5, 0.46, 0.04), cpu(1, 0.77, 0.11, 0.12)];
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("process 99 with a socket on the same port is idle"));
    assert!(finding.sentence.contains("SO_REUSEPORT"), "{}", finding.sentence);
    seen.sockets[0].local = "0.0.0.0:8271".to_owned();
    assert!(!first(&seen).sentence.contains("SO_REUSEPORT"), "{}", first(&seen).sentence);
}

#[test]
fn a_full_machine_is_not_idle_by_fractions_of_a_percent() {
    let input = sleep("epoll_wait", None, 0.5);
    let mut seen =
        observation(vec![sleeper("server", 100, &[(User, 0.45), (Kernel, 0.05)], input)]);
    seen.packets = packets(9000, 900_000);
    seen.cpus = vec![cpu(0, 0.9, 0.092, 0.0), cpu(1, 0.9, 0.092, 0.0)];
    let sentence = first(&seen).sentence;
    assert!(sentence.contains("the 2 CPUs are less than 1 % idle"), "{sentence}");
}
