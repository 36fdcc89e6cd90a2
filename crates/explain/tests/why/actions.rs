// SPDX-License-Identifier: MIT OR Apache-2.0
//! What findings tell the user to do, and which limit comes next.

use crate::example::explain;
use crate::example::{cpu, in_kernel, observation, privileged, share, thread};
use crate::seeds::{
    cpu_contention, no_segmentation, ring_overflow, short_interruptions, single_thread,
    socket_buffer,
};
use linerate_explain::why::{Facts, Measure, Subject};
use linerate_record::why::Cause::{self, CannotTell, CpuContention, NoSegmentation, SlowReceiver};
use linerate_record::why::ThreadState::{Asleep, Kernel, User, Waiting};
use linerate_record::why::{Observation, RanInstead, WhyFinding};

fn first(seen: &Observation, cause: Cause) -> WhyFinding {
    let finding = explain(seen).swap_remove(0);
    assert_eq!(finding.cause, cause, "{}", finding.sentence);
    finding
}

fn instead(name: &str, pid: u32, seconds: f64) -> RanInstead {
    let (tid, pid) = (Some(pid), Some(pid));
    RanInstead { name: name.to_owned(), tid, pid, seconds, times: 40, longest_s: 0.25 }
}

#[test]
fn the_thread_that_took_the_cpu_is_moved_by_a_whole_command() {
    let mut seen = cpu_contention();
    let fix = |seen: &Observation| first(seen, CpuContention).fix.unwrap();
    seen.threads[0].ran_instead = vec![instead("kworker/1:2", 22, 2.1), instead("dpkg", 746, 0.2)];
    // A worker of the kernel is bound to its CPU.
    assert!(fix(&seen).contains("taskset -acp 0 746 moves dpkg"), "{}", fix(&seen));
    // With softirq threads, the CPU is busy with packets, which no other thread can leave.
    let mut packets = seen.clone();
    packets.threads[0].ran_instead[0].name = "ksoftirqd/1".to_owned();
    assert!(explain(&packets).iter().all(|one| one.cause != CpuContention));
    seen.threads[0].ran_instead = vec![instead("worker", 100, 2.1)];
    assert!(fix(&seen).contains("taskset -cp 0 100 moves worker, a thread"), "{}", fix(&seen));
    seen.threads[0].ran_instead.clear();
    assert!(fix(&seen).contains("find them (ps -eLo"), "{}", fix(&seen));
    seen.cpus.retain(|cpu| cpu.cpu == 1);
    assert!(fix(&seen).contains("no other CPU"), "{}", fix(&seen));
    assert!(
        first(&short_interruptions(), Cause::ShortInterruptions).fix.unwrap().contains("ps -e")
    );
}

#[test]
fn a_receiver_that_waits_for_its_cpu_gets_both_remedies() {
    let plain = first(&socket_buffer(), Cause::SocketBuffer);
    assert!(!plain.sentence.contains("buffer fills"), "{}", plain.sentence);
    assert!(!plain.fix.unwrap().contains("taskset"));
    let mut seen = socket_buffer();
    let thread = &mut seen.threads[0];
    thread.involuntary_switches = 500;
    thread.voluntary_switches = 100;
    thread.time.iter_mut().for_each(|time| match time.state {
        Waiting => time.share = share(0.2),
        Asleep => time.share = share(0.3),
        _ => {}
    });
    thread.ran_instead = vec![instead("stress", 9, 0.9)];
    let waits = first(&seen, Cause::SocketBuffer);
    assert!(
        waits.sentence.contains("while the thread waits for CPU 1 (20 %"),
        "{}",
        waits.sentence
    );
    assert!(
        waits.fix.unwrap().contains("Or keep other threads off its CPU: sudo taskset -acp 0 9")
    );
}

#[test]
fn lost_packets_decide_which_limit_is_next() {
    let next = |seen: &Observation| explain(seen).swap_remove(0).gain.then_limited_by.unwrap();
    // The time recovered, 0.49 of 0.5, accounts for as many packets as were lost.
    assert_eq!(next(&cpu_contention()), "the offered load, or the thread's own work");
    let mut light = cpu_contention();
    let program = light.program.as_mut().unwrap();
    program.received = Some(190_000);
    assert_eq!(next(&light), "the offered load");
    let mut heavy = cpu_contention();
    heavy.program.as_mut().unwrap().received = Some(10_000);
    assert_eq!(next(&heavy), "the thread's own work");
    assert_eq!(next(&ring_overflow()), "the offered load");
}

/// Missing offloads explain a full window. If the evidence for them varied too much, the answer is
/// "cannot tell".
#[test]
fn a_cause_that_another_one_probably_explains_is_not_named() {
    let stalled = |seen: &mut Observation| {
        let tcp = seen.sockets[0].tcp.as_mut().unwrap();
        (tcp.rwnd_limited_s, tcp.peer_window_max, tcp.min_rtt_s) = (1.0, Some(4_000_000), 3e-6);
    };
    let mut seen = no_segmentation();
    stalled(&mut seen);
    first(&seen, NoSegmentation);
    // The demand is 0.1 to 1.
    seen.threads[0].time.iter_mut().for_each(|time| {
        let value = time.share.as_number().unwrap();
        (time.share.low, time.share.high) = (Some(value - 0.85), Some(value + 0.85));
    });
    let doubtful = first(&seen, CannotTell);
    let names = "Cannot tell which of slow_receiver and no_segmentation applies";
    assert!(doubtful.sentence.contains(names), "{}", doubtful.sentence);
    assert!(doubtful.sentence.contains("The receiver reads"), "{}", doubtful.sentence);
    assert!(doubtful.fix.unwrap().contains("or see whether this helps"));
    // With offloads on, there is no doubt.
    seen.interfaces[0].features.insert("tx-tcp-segmentation".to_owned(), true);
    first(&seen, SlowReceiver);
}

#[test]
fn a_thread_with_hardly_any_user_time_is_in_the_kernel_however_its_time_there_varied() {
    let mut seen = observation(vec![in_kernel(0.9)]);
    for time in seen.threads[0].time.iter_mut().filter(|time| time.state == Kernel) {
        (time.share.low, time.share.high) = (Some(0.2), Some(1.6));
    }
    let share = Measure::KernelShare.of(&Facts::new(&seen), Subject::Thread(&seen.threads[0]));
    let share = share.unwrap();
    assert!(share.low > 0.8 && share.high >= share.value && share.low <= share.value, "{share:?}");
}

#[test]
fn own_threads_that_fill_all_cpus_do_not_contend_with_others() {
    let with = |pid: u32, idle: bool| {
        let mut seen = privileged(cpu_contention());
        // A sibling of the thread, in its process or another one.
        seen.threads.push(thread("worker", 101, &[(User, 1.0)]));
        seen.watched.pids = vec![100];
        seen.threads[0].ran_instead =
            vec![RanInstead { tid: Some(101), ..instead("worker", pid, 2.4) }];
        let rest = if idle { 0.1 } else { 0.99 };
        seen.cpus = vec![cpu(0, rest, 0.0, 0.0), cpu(1, 1.0, 0.0, 0.0)];
        explain(&seen).swap_remove(0).cause
    };
    assert_ne!(with(100, false), CpuContention);
    // If another CPU is idle, the threads share one CPU by mistake.
    assert_eq!(with(100, true), CpuContention);
}

/// Eight busy threads may use two of eight CPUs.
#[test]
fn an_affinity_mask_or_cpuset_is_the_limit_if_only_other_cpus_are_idle() {
    let mut seen = privileged(cpu_contention());
    seen.watched.pids = vec![100];
    seen.cpus = (0..8).map(|n| cpu(n, if n < 2 { 1.0 } else { 0.0 }, 0.0, 0.0)).collect();
    seen.threads[0].ran_instead =
        vec![RanInstead { tid: Some(102), ..instead("worker", 100, 2.4) }];
    seen.threads
        .extend((102..110).map(|tid| thread("worker", tid, &[(User, 0.2), (Waiting, 0.8)])));
    let fix = |seen: &Observation| first(seen, CpuContention).fix.unwrap();
    let confined =
        "affinity mask or cpuset allows (0,1), while other CPUs are idle: taskset -acp 0-7";
    assert!(fix(&seen).contains(confined), "{}", fix(&seen));
    // The other worker may use idle CPUs, but not all of them.
    seen.threads.iter_mut().for_each(|thread| thread.allowed = (0..6).collect());
    assert!(fix(&seen).contains("taskset -cp 0,2-5 102 moves worker"), "{}", fix(&seen));
}

#[test]
fn a_second_thread_needs_a_cpu_that_it_may_use() {
    let mut seen = single_thread();
    let fix = |seen: &Observation| first(seen, Cause::SingleThread).fix.unwrap();
    assert!(!fix(&seen).contains("cpuset"), "{}", fix(&seen));
    seen.threads[0].allowed = vec![1];
    assert!(fix(&seen).contains("more CPUs than 1, which are full"), "{}", fix(&seen));
}

/// A thread that never sleeps would starve the kernel's threads on its CPU.
#[test]
fn only_a_thread_that_sleeps_is_given_a_real_time_priority() {
    let workaround = |seen: &Observation| first(seen, CpuContention).workaround.unwrap();
    let mut seen = cpu_contention();
    assert!(workaround(&seen).starts_with("sudo renice -n -10 -p 101"), "{}", workaround(&seen));
    let works = [(User, 0.3), (Kernel, 0.1), (Waiting, 0.49), (Asleep, 0.11)];
    seen.threads[0].time = thread("dpdk-worker1", 101, &works).time;
    assert!(workaround(&seen).starts_with("sudo chrt -f -p 1 101"), "{}", workaround(&seen));
}

#[test]
fn threads_of_the_program_itself_are_not_outranked() {
    let mut seen = cpu_contention();
    seen.threads[0].ran_instead = vec![instead("worker", 100, 2.1)];
    let workaround = first(&seen, CpuContention).workaround.unwrap();
    assert!(workaround.starts_with("a larger ring or buffer"), "{workaround}");
}

#[test]
fn nothing_is_moved_to_a_cpu_without_room() {
    let mut seen = cpu_contention();
    seen.threads[0].ran_instead = vec![instead("dpkg", 746, 2.1)];
    seen.cpus.iter_mut().for_each(|cpu| cpu.idle = 0.0);
    let fix = first(&seen, CpuContention).fix.unwrap();
    assert!(fix.contains("no CPU is idle") && fix.contains("renice -n 19 -p 746"), "{fix}");
}

/// A helper at nice 19 waits for nearly all of its time; what limits the program is the thread that
/// does the work, on the same CPU.
#[test]
fn the_thread_that_does_the_work_waits_rather_than_its_helper() {
    let mut seen = privileged(cpu_contention());
    let helper = thread("helper", 102, &[(User, 0.015), (Waiting, 0.85), (Asleep, 0.135)]);
    seen.threads.push(helper);
    seen.threads[0].nice = Some(0);
    let helper = &mut seen.threads[1];
    (helper.ran_on, helper.nice) = (vec![1], Some(19));
    (helper.voluntary_switches, helper.involuntary_switches) = (600, 2_000);
    helper.ran_instead = vec![instead("rtmon", 844, 2.1), instead("worker", 100, 1.9)];
    let higher = |seen: &Observation| {
        let helper = Subject::Thread(&seen.threads[1]);
        Measure::HigherPriority.of(&Facts::new(seen), helper).unwrap().value
    };
    let named = first(&seen, CpuContention).sentence;
    assert!(named.contains("(101)") && higher(&seen) > 10.0, "{named}");
    seen.threads[1].nice = Some(0);
    assert_eq!(higher(&seen), 0.0);
}
