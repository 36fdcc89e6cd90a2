// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose runtime affects the result: garbage collectors, busy-polling, interpreter locks.

use crate::example::explain;
use crate::example::{cpu, observation, packets, socket, thread};
use linerate_record::why::Cause::*;
use linerate_record::why::ThreadState::{Asleep, Kernel, User, Waiting};
use linerate_record::why::{
    Cause, FunctionTime, Observation, RanInstead, RequestCounts, SleepTime, SocketKind,
    ThreadActivity, WhyFinding,
};
use linerate_record::{Figure, Tier};

fn first(seen: &Observation) -> WhyFinding {
    explain(seen).remove(0)
}

fn causes(seen: &Observation) -> Vec<Cause> {
    explain(seen).into_iter().map(|finding| finding.cause).collect()
}

fn worker(name: &str, tid: u32, works: f64, functions: &[(&str, f64)]) -> ThreadActivity {
    let mut worker = thread(name, tid, &[(User, works), (Asleep, 1.0 - works)]);
    let sleep =
        SleepTime { on: "epoll_wait".to_owned(), share: 1.0 - works, object: None, holder: None };
    let function = |&(name, share): &(&str, f64)| FunctionTime {
        name: name.to_owned(),
        file: "/usr/bin/server".to_owned(),
        share,
        is_polling: None,
    };
    worker.pid = 100;
    (worker.asleep_on, worker.voluntary_switches, worker.samples) = (vec![sleep], 500, 1000);
    worker.functions = functions.iter().map(function).collect();
    worker
}

fn late(share: f64) -> Option<RequestCounts> {
    Some(RequestCounts {
        readings: 50,
        connections: 8,
        pending_share: 0.5,
        pending_mean: 1.0,
        late_share: share,
        awaiting_share: 0.0,
        awaiting_mean: 0.0,
        opening_share: Some(0.0),
        server_readings: None,
        server: None,
        silent: 0,
        undetermined: None,
        undetermined_at_servers: None,
        requests: 2000,
        reply_time: Figure::absent("s", Tier::Sw, "", "not needed"),
    })
}

#[test]
fn a_collector_that_delays_replies_is_named() {
    let work = [("runtime.scanObjectsSmall", 0.5), ("main.handle", 0.5)];
    let mut seen =
        observation(vec![worker("server", 101, 0.3, &work), worker("server", 102, 0.3, &work)]);
    seen.packets = packets(4000, 400_000);
    seen.requests = late(0.3);
    let finding = first(&seen);
    assert_eq!(finding.cause, GarbageCollection, "{}", finding.sentence);
    assert!(finding.sentence.contains("takes 50 % of its CPU time"), "{}", finding.sentence);
    // HotSpot's collector threads do nothing else, whatever functions they run.
    seen.threads =
        vec![worker("pool-1-thread-1", 101, 0.3, &[]), worker("G1 Conc#0", 102, 0.3, &[])];
    assert_eq!(first(&seen).cause, GarbageCollection, "{}", first(&seen).sentence);
    seen.threads[1].name = "worker".to_owned();
    assert_ne!(first(&seen).cause, GarbageCollection);
    seen.threads[1].name = "G1 Conc#0".to_owned();
    // Requests wait while all threads sleep, the collector's too, or at another server.
    let mut elsewhere = seen.clone();
    elsewhere.requests.as_mut().unwrap().pending_share = 1.0;
    assert_eq!(first(&elsewhere).cause, CannotTell, "{}", first(&elsewhere).sentence);
    let mut at_server = seen.clone();
    at_server.requests.as_mut().unwrap().awaiting_share = 0.4;
    assert_ne!(first(&at_server).cause, GarbageCollection);
    seen.requests = late(0.0);
    assert_ne!(first(&seen).cause, GarbageCollection);
}

#[test]
fn a_collector_that_stops_the_program_is_named_although_a_cpu_is_idle() {
    let mut java = worker("java", 101, 0.6, &[]);
    java.asleep_on[0].on = "futex".to_owned();
    let collector = worker("VM Thread", 102, 0.36, &[]);
    let mut seen = observation(vec![java, collector]);
    seen.cpus = vec![cpu(0, 0.6, 0.0, 0.0), cpu(1, 0.36, 0.0, 0.0)];
    seen.packets = packets(4000, 400_000);
    let finding = first(&seen);
    assert_eq!(finding.cause, GarbageCollection, "{}", finding.sentence);
    assert!(finding.sentence.contains("stops the program"), "{}", finding.sentence);
    // The time of the pauses / the time of the work, 60 %, as far as pauses can be avoided.
    let gain = finding.gain.percent;
    assert!(gain.low < Some(20.0), "{gain:?}");
    assert!(gain.high > Some(60.0) && gain.high < Some(100.0), "{gain:?}");
    // Eight threads of a parallel collector stop the program for no longer than one of them.
    let mut parallel = seen.clone();
    parallel.threads.pop();
    let thread = |index: u32| worker("GC Thread#0", 102 + index, 0.36, &[]);
    parallel.threads.extend((0..8).map(thread));
    assert_eq!(first(&parallel).gain.percent.high, gain.high);
    // A concurrent collector does not stop it.
    seen.threads[1].name = "ZWorker#0".to_owned();
    assert_ne!(first(&seen).cause, GarbageCollection);
    seen.threads[1].name = "VM Thread".to_owned();
    // The program waits for requests while the collector runs, or longer than it runs.
    let mut concurrent = seen.clone();
    concurrent.threads[0].asleep_on[0].on = "epoll_wait".to_owned();
    assert_ne!(first(&concurrent).cause, GarbageCollection);
    seen.threads[0] = worker("java", 101, 0.4, &[]);
    seen.threads[0].asleep_on[0].on = "futex".to_owned();
    assert_ne!(first(&seen).cause, GarbageCollection, "{}", first(&seen).sentence);
}

#[test]
fn a_thread_whose_calls_find_nothing_polls() {
    let mut poller = thread("poller", 100, &[(User, 0.4), (Kernel, 0.6)]);
    (poller.voluntary_switches, poller.system_calls) = (10, Some(4_000_000));
    let mut seen = observation(vec![poller]);
    seen.sockets = vec![socket(SocketKind::Udp, "0.0.0.0:9000", None)];
    seen.cpus = vec![cpu(0, 0.4, 0.6, 0.0), cpu(1, 0.0, 0.0, 0.0)];
    seen.packets = packets(1000, 100_000);
    seen.protocols.insert("Udp.InDatagrams".to_owned(), 1000);
    let finding = first(&seen);
    assert_eq!(finding.cause, NothingWrong, "{}", finding.sentence);
    assert!(finding.sentence.contains("4,000 system calls per packet"), "{}", finding.sentence);
    // Few calls per packet may be work.
    seen.threads[0].system_calls = Some(40_000);
    assert_eq!(first(&seen).cause, CannotTell, "{}", first(&seen).sentence);
}

#[test]
fn threads_that_use_one_cpu_together_may_take_turns() {
    let threads = || (101..105).map(|tid| worker("server", tid, 0.245, &[]));
    let mut seen = observation(threads().collect());
    seen.cpus = vec![cpu(0, 0.7, 0.0, 0.0), cpu(1, 0.7, 0.0, 0.0)];
    seen.packets = packets(4000, 400_000);
    seen.requests = late(0.9);
    seen.requests.as_mut().unwrap().pending_share = 1.0;
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("GOMAXPROCS=1"), "{}", finding.sentence);
    seen.threads = threads().take(2).collect();
    assert!(!first(&seen).sentence.contains("GOMAXPROCS"), "{}", first(&seen).sentence);
}

/// 300 threads, each of which hardly works, together need two CPUs at 8.5 times the load.
#[test]
fn the_headroom_is_that_of_all_threads_together() {
    let mut seen = observation((0..60).map(|n| worker("server", 100 + n, 0.004, &[])).collect());
    seen.cpus = vec![cpu(0, 0.2, 0.15, 0.0), cpu(1, 0.2, 0.15, 0.0)];
    seen.packets = packets(50_000, 5_000_000);
    let sentence = first(&seen).sentence;
    // 0.7 CPUs are busy, 1.3 idle: 2.9 times as much, or more if only the threads' own 0.24 CPUs
    // belong to the load.
    assert!(sentence.contains("headroom for 2.9 to 12 times the load"), "{sentence}");
}

#[test]
fn a_traced_program_is_stopped_by_its_tracer() {
    let mut seen = observation(vec![worker("server", 100, 0.1, &[])]);
    seen.packets = packets(4000, 400_000);
    seen.threads[0].asleep_on[0].on = "stopped".to_owned();
    let finding = first(&seen);
    assert_eq!(finding.cause, Stopped, "{}", finding.sentence);
    assert!(finding.sentence.contains("by a signal (SIGSTOP)"), "{}", finding.sentence);
    seen.threads[0].asleep_on[0].on = "frozen".to_owned();
    let finding = first(&seen);
    assert_eq!(finding.cause, Stopped, "{}", finding.sentence);
    assert!(finding.sentence.contains("by the cgroup freezer"), "{}", finding.sentence);
    seen.threads[0].asleep_on[0].on = "stopped".to_owned();
    seen.threads[0].tracer = Some(4711);
    let finding = first(&seen);
    assert_eq!(finding.cause, Tracing, "{}", finding.sentence);
    assert!(finding.sentence.contains("Process 4711 traces thread"), "{}", finding.sentence);
    assert!(finding.fix.unwrap().contains("ps -p 4711"), "{}", finding.sentence);
}

#[test]
fn probes_of_another_tool_are_named() {
    let stacks = [("__orc_find", 0.25), ("bpf_get_stackid", 0.05), ("do_syscall_64", 0.3)];
    let mut seen = observation(vec![worker("server", 100, 0.99, &stacks)]);
    seen.threads[0].functions.iter_mut().for_each(|one| one.file = "kernel".to_owned());
    seen.packets = packets(40_000, 4_000_000);
    seen.unread.retain(|one| one.what != "kernel_samples");
    // Other kernel code unwinds the stacks.
    assert!(!causes(&seen).contains(&Tracing), "{}", first(&seen).sentence);
    seen.threads[0].functions[2].name = "trace_call_bpf".to_owned();
    assert!(causes(&seen).contains(&Tracing), "{}", first(&seen).sentence);
}

#[test]
fn a_program_that_executes_itself_per_connection_is_not_an_allocator() {
    let mut seen = observation(vec![worker("server", 100, 0.97, &[])]);
    seen.threads[0].minor_faults = 250_000;
    seen.event_costs = None;
    seen.packets = packets(20_000, 2_000_000);
    seen.threads[0].execs = Some(1);
    assert!(!causes(&seen).contains(&ChildProcesses), "{}", first(&seen).sentence);
    seen.threads[0].execs = Some(49);
    let finding = first(&seen);
    assert_eq!(finding.cause, ChildProcesses, "{}", finding.sentence);
    assert!(!causes(&seen).contains(&PageFaults));
}

#[test]
fn a_stage_that_sleeps_after_each_packet_may_be_too_slow() {
    let mut seen = observation(vec![
        worker("reader", 101, 0.03, &[("main", 1.0)]),
        worker("stage", 102, 0.01, &[("work", 1.0)]),
    ]);
    seen.packets = packets(15_000, 1_500_000);
    assert_eq!(first(&seen).cause, NothingWrong);
    seen.threads[1].asleep_on[0].on = "clock_nanosleep".to_owned();
    seen.threads[1].voluntary_switches = 4500;
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("0.30 times per packet"), "{}", finding.sentence);
    // The monitor thread of the Go runtime sleeps in the same way.
    seen.threads[0].functions[0].name = "runtime.findRunnable".to_owned();
    assert_eq!(first(&seen).cause, NothingWrong);
}

#[test]
fn the_monitor_of_the_go_runtime_delays_no_replies() {
    let mut seen = observation(vec![
        worker("server", 101, 0.05, &[("main.work", 1.0)]),
        worker("server", 102, 0.03, &[("main.work", 1.0)]),
    ]);
    let sleep =
        |on: &str, share| SleepTime { on: on.to_owned(), share, object: None, holder: None };
    // It sleeps on a futex while no goroutine runs.
    seen.threads[1].asleep_on = vec![sleep("nanosleep", 0.65), sleep("futex", 0.32)];
    seen.threads[1].voluntary_switches = 4_600;
    seen.packets = packets(6_408, 337_488);
    seen.requests = late(0.8);
    seen.requests.as_mut().unwrap().pending_share = 0.9;
    let other = first(&seen);
    assert_eq!(other.cause, CannotTell, "{}", other.sentence);
    assert!(other.sentence.contains("timer_sleep"), "{}", other.sentence);
    seen.threads[0].functions[0].name = "runtime.findRunnable".to_owned();
    let of_go = first(&seen);
    assert_eq!(of_go.cause, CannotTell, "{}", of_go.sentence);
    assert!(!of_go.sentence.contains("nanosleep"), "{}", of_go.sentence);
}

#[test]
fn threads_that_are_all_woken_for_each_connection_do_not_contend_with_others() {
    let herd = |tid| {
        let mut one = thread("server", tid, &[(User, 0.01), (Waiting, 0.35), (Asleep, 0.64)]);
        one.asleep_on = worker("server", tid, 0.36, &[]).asleep_on;
        (one.voluntary_switches, one.involuntary_switches) = (2_000, 0);
        one.ran_instead = vec![RanInstead {
            name: "client".to_owned(),
            tid: Some(7),
            pid: Some(7),
            seconds: 0.02,
            times: 40,
            longest_s: 0.0004,
        }];
        one
    };
    let mut seen = observation((100..132).map(herd).collect());
    seen.cpus = vec![cpu(0, 0.2, 0.15, 0.0), cpu(1, 0.2, 0.15, 0.0)];
    seen.packets = packets(20_000, 2_000_000);
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("thundering herd"), "{}", finding.sentence);
}

#[test]
fn a_server_that_never_replies_is_named() {
    let mut seen =
        observation(vec![worker("server", 100, 0.0, &[]), worker("server", 101, 0.0, &[])]);
    seen.threads[1].asleep_on[0].object = Some("udp 10.0.0.1:4000 to 10.0.0.9:53".to_owned());
    seen.packets = packets(400, 40_000);
    seen.requests = late(1.0);
    seen.requests.as_mut().unwrap().pending_share = 1.0;
    let finding = first(&seen);
    assert_eq!(finding.cause, CannotTell, "{}", finding.sentence);
    assert!(finding.sentence.contains("epoll_wait (udp to 10.0.0.9:53)"), "{}", finding.sentence);
}
